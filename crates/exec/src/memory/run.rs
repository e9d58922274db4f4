//! Ends steps, in any order.

use destage_plan::{BadPage, Buf, Controller, Ext, Nanos, Step, StepOutcome};

use super::check::{MemoryViolation, RowCheck};
use super::conduct::ExecutorConduct;
use super::executor::MemoryExecutor;
use super::settings::{EndedStep, NextStep};
use super::step::InFlight;
use crate::bytes::{SharedBuffer, checksum};

impl<C: Controller> MemoryExecutor<C> {
    /// Ends one step; if none is in flight, fires the next timer; returns none if there is neither and nothing
    /// is under way.
    pub fn run<R: RowCheck<C>>(&mut self, pick: NextStep, check: &R) -> Result<Option<EndedStep>, MemoryViolation> {
        if self.runnable() == 0 {
            // A controller that is not told of the failure could wait for ever.
            self.announce_all();
        }
        if self.runnable() == 0 && self.pending.is_open() || self.pending.is_waited_for() && self.is_sync(pick) {
            // Chosen, or nothing else is left to do.
            self.now += Nanos(1_000);
            self.sync();
            return Ok(None);
        }
        if self.runnable() == 0 {
            let Some(at) = self.engine.next_timer() else {
                return if self.engine.is_idle() {
                    Ok(None)
                } else {
                    Err(MemoryViolation::Deadlock(format!("{:?}", self.engine.out())))
                };
            };
            // Virtual time jumps: nothing else can happen before the timer.
            self.now = self.now.max(at);
            self.note(|| "timer".to_owned());
            self.engine.timers(self.now);
            self.take_issues();
            return Ok(None);
        }
        let entry = self.choose(pick);
        let ran = self.end(entry, check)?;
        if let StepOutcome::Failed(dev) = ran.outcome
            && self.unannounced.contains(dev)
        {
            self.announce(dev);
        }
        if self.engine.next_timer().is_some_and(|at| at <= self.now) {
            self.engine.timers(self.now);
            self.take_issues();
        }
        Ok(Some(ran))
    }

    /// Returns true if the NVRAM's sync is chosen, for which somebody waits. It takes no time.
    fn is_sync(&self, pick: NextStep) -> bool {
        match pick {
            // The last number stands for the sync, after all steps.
            NextStep::At(at) => at + 1 == self.runnable(),
            NextStep::Oldest | NextStep::Earliest => true,
        }
    }

    fn choose(&mut self, pick: NextStep) -> InFlight {
        let front = self.nv_queue.front();
        let at = match pick {
            NextStep::At(at) => at,
            NextStep::Oldest => match (self.in_flight.first(), front) {
                (Some(first), Some(front)) if front.number < first.number => self.in_flight.len(),
                _ => 0,
            },
            NextStep::Earliest => {
                let all = self.in_flight.iter().chain(front).enumerate();
                all.min_by_key(|(_, entry)| (entry.due, entry.number)).map_or(0, |found| found.0)
            }
        };
        let entry = if at < self.in_flight.len() {
            self.in_flight.remove(at)
        } else {
            self.nv_queue.pop_front().expect("the place is below the number of steps in flight")
        };
        // A microsecond for each step, so that timers go off in runs that choose
        // freely.
        self.now = if pick == NextStep::Earliest { self.now.max(entry.due) } else { self.now + Nanos(1_000) };
        entry
    }

    /// Carries a step out and tells the controller.
    fn end<R: RowCheck<C>>(&mut self, mut entry: InFlight, check: &R) -> Result<EndedStep, MemoryViolation> {
        let op = entry.issue.op;
        self.steps += 1;
        let told = entry.early.is_some();
        let outcome = match entry.step.dev() {
            // A failed device changes nothing any more.
            Some(dev) if entry.lost || !self.devices[dev.index()].answers() => StepOutcome::Failed(dev),
            _ => self.carry_out(&mut entry, check)?,
        };
        self.note(|| {
            let more = match outcome {
                StepOutcome::Ok => String::new(),
                StepOutcome::Length(bytes) => format!(": {bytes} B"),
                StepOutcome::Differing(pages) => format!(": pages {pages:#b} differ"),
                StepOutcome::Undecodable => ": undecodable".to_owned(),
                StepOutcome::Failed(_) => ": failed".to_owned(),
                StepOutcome::Unreadable(page) => format!(": page {} cannot be read", page.page),
            };
            format!("{op:?}.{} {:?}{more}{}", entry.issue.step, entry.step, if told { " (late)" } else { "" })
        });
        if let Some(ext) = entry.step.changes()
            && outcome == StepOutcome::Ok
            && ext.dev().0 < check.members()
        {
            // After each write, so that a violation is found at the step that
            // causes it.
            self.check_rows(check, ext.rows().iter())?;
        }
        if let Some(bytes) = entry.early.take() {
            self.bytes.give_back(bytes);
        } else {
            self.engine.complete(self.now, entry.issue, outcome);
            self.take_issues();
        }
        Ok(EndedStep { op, step: entry.step, outcome })
    }

    /// Keeps the checksums of what was written to an extent, if the controller keeps any of its device.
    fn keep_checksums(&mut self, ext: Ext) {
        let bytes = self.devices[ext.dev().index()].read(ext);
        if let Some(checksums) = self.engine.checksums_mut().filter(|checksums| checksums.dev() == ext.dev()) {
            checksum::keep(checksums, ext, bytes);
        }
    }

    fn carry_out<R: RowCheck<C>>(&mut self, entry: &mut InFlight, check: &R) -> Result<StepOutcome, MemoryViolation> {
        let op = entry.issue.op;
        if entry.conduct == ExecutorConduct::Omit {
            if let Step::Read { ext, dst } = entry.step {
                // The buffer is there with its previous content: a page that was
                // never read.
                let len = usize::from(ext.pages()) * self.engine.shape().page_bytes() as usize;
                self.bytes.target(&self.engine, op, dst, len);
            }
            return Ok(StepOutcome::Ok);
        }
        match entry.step {
            Step::Read { ext, dst } => {
                // Before the checksum: a page that cannot be read has no bytes to
                // compare.
                if let Some(page) = self.devices[ext.dev().index()].unreadable_in(ext) {
                    return Ok(StepOutcome::Unreadable(BadPage { dev: ext.dev(), page }));
                }
                let bytes = self.devices[ext.dev().index()].read(ext);
                let checksums = self.engine.controller().checksums().filter(|checksums| checksums.dev() == ext.dev());
                // A page that differs from its checksum counts as unreadable, so
                // that the plan repairs it from the others.
                if let Some(page) = checksums.and_then(|checksums| checksum::mismatch(checksums, ext, bytes)) {
                    return Ok(StepOutcome::Unreadable(BadPage { dev: ext.dev(), page }));
                }
                self.bytes.target(&self.engine, op, dst, bytes.len()).copy_from_slice(bytes);
            }
            Step::Write { ext, src, fua } => {
                let len = usize::from(ext.pages()) * self.engine.shape().page_bytes() as usize;
                let bytes = match &entry.early {
                    Some(bytes) => Some(&***bytes),
                    None => self.bytes.source(&self.engine, op, src, len),
                };
                // The planted fault leaves the write in the volatile cache.
                let fua = fua && entry.conduct != ExecutorConduct::Volatile;
                self.devices[ext.dev().index()].write(ext, bytes, fua);
                self.keep_checksums(ext);
            }
            Step::WriteList { ext, fua, .. } | Step::MetaWrite { ext, fua, .. } => {
                let bytes = match &entry.early {
                    Some(early) => SharedBuffer::clone(early),
                    None => self.bytes.written(&self.engine, op, &entry.step),
                };
                let fua = fua && entry.conduct != ExecutorConduct::Volatile;
                self.devices[ext.dev().index()].write(ext, Some(&bytes), fua);
                self.bytes.give_back(bytes);
                if matches!(entry.step, Step::WriteList { .. }) {
                    self.keep_checksums(ext);
                }
            }
            Step::MetaRead { ext } => self.engine.read(entry.issue, self.devices[ext.dev().index()].read(ext)),
            // There is no successor in memory, so only the read half of a copy is
            // done.
            Step::Duplicate { ext, src } => {
                let unreadable = self.devices[ext.dev().index()].unreadable_in(ext);
                if let Some(page) = unreadable.filter(|_| src == Buf::None) {
                    return Ok(StepOutcome::Unreadable(BadPage { dev: ext.dev(), page }));
                }
            }
            Step::Trim { ext } => self.devices[ext.dev().index()].write(ext, None, false),
            Step::FlushDev { dev } => self.devices[dev.index()].flush(entry.covers),
            Step::Collect { dev, .. } => assert!(self.collectors.contains(dev), "{dev} cannot be asked to collect"),
            Step::NvCommit { .. } | Step::Intent { .. } => {
                if matches!(entry.step, Step::Intent { .. }) {
                    // Intents take effect in the order of issue, and what an intent
                    // says is durable when it is done.
                    self.sync();
                }
                self.commits(entry.issue);
                self.bytes.change_nvram(&self.engine, entry.issue);
                if let Step::Intent { rows, set: false } = entry.step {
                    for &rows in self.engine.rows(op, rows) {
                        self.check_cleared(check, rows)?;
                        self.check_rows(check, rows.iter())?;
                    }
                }
            }
            Step::Join | Step::Ack { .. } => unreachable!("the engine does these itself"),
            _ => {
                let outcome = self.bytes.compute(&self.engine, entry.issue);
                return Ok(outcome.expect("all others compute"));
            }
        }
        Ok(StepOutcome::Ok)
    }
}
