//! Steps that the engine has to hand out, and its notices to hosts.

use destage_plan::{Controller, Dev, HostNotice, HostOp, Issue, Status, Step, StepOutcome};

use super::executor::FileExecutor;
use super::request::{InFlightRequest, RequestCompletion};
use crate::buffer::AlignedBuffer;
use crate::files::error::FilesError;
use crate::files::io::file::SyncPoint;

impl<C: Controller> FileExecutor<C> {
    /// Begins the steps that may begin, and takes in what became of requests.
    pub(super) fn go_on(&mut self) -> Result<(), FilesError> {
        // From here on the group commit tells the commits of the start from later
        // ones.
        if self.engine.status() == Status::Ready {
            self.group_commit.ready();
        }
        // Reports come before the completions that follow from them, so who hears
        // of an answer can have heard of its pages.
        self.take_page_reports()?;
        // No step begins before all files have the event count of this start.
        while !self.is_counting
            && let Some(issue) = self.engine.next_issue()
        {
            self.begin(issue)?;
        }
        let (mut answered, mut copied) = (std::mem::take(&mut self.answered), None);
        while let Some(notice) = self.engine.next_notice() {
            match notice {
                HostNotice::Acked { tag, ok } => answered.push((tag, ok)),
                HostNotice::Released { tag } => {
                    let bytes = self.bytes.release_buffer(tag);
                    // One that was answered before has had a copy.
                    if let Some(at) = answered.iter().position(|(other, _)| *other == tag) {
                        let (_, ok) = answered.remove(at);
                        self.answer(tag, ok, bytes);
                    } else {
                        // The buffer goes back to the pool instead of the host: the
                        // request was answered earlier, with a copy.
                        self.bytes.keep_buffer(bytes);
                    }
                    self.free.push(tag);
                }
                // A clean stop has to wait until the last commit is durable.
                HostNotice::Clean if self.group_commit.is_open() => self.group_commit.stop(),
                HostNotice::Clean => self.clean = true,
                HostNotice::Drained => self.draining = false,
                HostNotice::Scrubbed(tally) => {
                    // Whoever hears of the tally has heard of the pages.
                    self.take_page_reports()?;
                    (self.scrubbing, self.scrubbed) = (false, Some(tally));
                }
                HostNotice::Copied(outcome) => copied = Some(outcome),
            }
        }
        // Their bytes are still in use, though not for them.
        for (tag, ok) in answered.drain(..) {
            let read = self.requests[tag as usize].as_ref().is_some_and(|request| request.op == HostOp::Read);
            let bytes = if ok && read { self.bytes.copy_host(tag) } else { AlignedBuffer::new() };
            self.answer(tag, ok, bytes);
        }
        self.answered = answered;
        // A file that took a device's place is named as soon as the loss is durably
        // known.
        if !self.standing_in.is_empty() {
            self.name_noted()?;
        }
        self.send_sync();
        copied.map_or(Ok(()), |outcome| self.note_copied(outcome))
    }

    pub(super) fn begin(&mut self, issue: Issue) -> Result<(), FilesError> {
        match *self.engine.step(issue) {
            Step::Read { ext, .. }
            | Step::Write { ext, .. }
            | Step::WriteList { ext, .. }
            | Step::MetaWrite { ext, .. }
            | Step::MetaRead { ext }
            | Step::Duplicate { ext, .. }
            | Step::Trim { ext } => {
                let end = ext.first() + u64::from(ext.pages());
                let pages = self.config.devices.get(ext.dev().index()).map_or(u64::MAX, |device| device.pages);
                // A controller that asks for a page beyond its device has a bug;
                // the array stops before it can do harm.
                self.within("the page", end - 1, "pages of the device", pages)?;
                self.begin_device(ext.dev(), issue)?;
            }
            Step::FlushDev { dev } => self.begin_device(dev, issue)?,
            // Whoever asks was told at the start that files collect nothing.
            Step::Collect { dev, .. } => return Err(self.stop(FilesError::NoCollector(dev))),
            Step::NvCommit { .. } | Step::Intent { .. } => {
                self.check_nvram(issue)?;
                if let Step::Intent { rows, set: true } = *self.engine.step(issue) {
                    // Marked when the intent begins, so that the mark is on its way
                    // before the intent waits for it.
                    self.engine.rows(issue.op, rows).iter().for_each(|rows| self.marks.open(*rows));
                }
                // Not ahead of what waits: they take effect in the order of issue.
                self.store_backlog.push_back(issue);
                self.send_backlog();
            }
            Step::Join | Step::Ack { .. } => unreachable!("the engine does these itself"),
            // Computing steps are done here at once: the bytes belong to this
            // thread.
            _ => {
                let outcome = self.bytes.compute(&self.engine, issue).expect("all others compute");
                self.complete(issue, outcome);
            }
        }
        Ok(())
    }

    fn begin_device(&mut self, dev: Dev, issue: Issue) -> Result<(), FilesError> {
        let Some(device) = self.devices.get_mut(dev.index()) else { return Err(self.stop(FilesError::NoDevice(dev))) };
        // A step for a device that failed ends at once; the plan that named it was
        // made before the loss was known.
        if device.failed {
            self.complete(issue, StepOutcome::Failed(dev));
        } else if !self.blocks_on_durability(dev, issue) {
            self.begin_unblocked(dev, issue);
        }
        Ok(())
    }

    fn answer(&mut self, id: u64, ok: bool, mut bytes: AlignedBuffer) {
        let request = self.requests[id as usize].take().expect("a request is answered once");
        // It was answered with an error when it took too long; its steps have ended
        // only now.
        if request.is_expired {
            return self.forget_expired(request.bytes);
        }
        if !ok || request.op != HostOp::Read {
            bytes.clear();
        }
        let completion = RequestCompletion { tag: request.tag, ok, bytes };
        self.acknowledge(&request, completion);
    }

    /// Answers a request, at once or when what it tells of is durable.
    fn acknowledge(&mut self, request: &InFlightRequest, completion: RequestCompletion) {
        let until = match request.op {
            // A flush covers all that was done when an answer was given last. Later
            // commits, made by a cache on its own, need not be waited for.
            HostOp::Flush => self.group_commit.flush(self.blocked.back().map(|answer| answer.0)),
            HostOp::Read => 0,
            _ if request.fua => self.group_commit.done(),
            _ => 0,
        };
        // After a start every answer waits for the commits of the start: a device
        // that it missed may be back at the next.
        let until = until.max(self.group_commit.of_start());
        // An error tells of nothing that would have to be durable.
        if !self.group_commit.is_durable(until) && completion.ok {
            self.group_commit.want_sync(SyncPoint::Answer);
            self.blocked.push_back((until, completion));
        } else {
            self.group_commit.acknowledge(!matches!(request.op, HostOp::Read | HostOp::Flush));
            self.unanswered -= 1;
            self.completions.push_back(completion);
        }
    }
}
