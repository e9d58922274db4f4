//! Commits of the NVRAM that are done and not durable, as the file executor has them where not every acknowledged write is
//! to be durable: a loss of power leaves the first few of them.
//!
//! A step that changes a device or makes it durable, and was issued after such a commit was done, is held; so is what
//! becomes of a flush, of a write with FUA, and a clean stop. A sync that covers them comes at any time later, as the end
//! of a step does, and no sooner than somebody waits for it or nothing else is left to be done.

use std::collections::{BTreeSet, VecDeque};

use destage_plan::{Buf, Controller, HostNotice, HostOp, HostRequest, Issue, Step};

use super::{InFlight, Memory};
use crate::nvram::Undo;

/// What is done, what is durable, and who waits for that.
#[derive(Default)]
pub(super) struct Ahead {
    /// Whether there can be such commits.
    pub(super) is_on: bool,
    /// Commits that are durable.
    durable: u64,
    /// How to undo those that are done and not durable, the oldest first.
    open: VecDeque<Undo>,
    /// Steps that are held, with the commits that were done when they were issued.
    pub(super) held: VecDeque<(u64, InFlight)>,
    /// What was said and is held, likewise.
    notices: VecDeque<(u64, HostNotice)>,
    /// What may be told.
    told: VecDeque<HostNotice>,
    /// Flushes, and writes with FUA.
    covered: BTreeSet<u64>,
}

impl Ahead {
    fn done(&self) -> u64 {
        self.durable + self.open.len() as u64
    }

    /// Whether there are commits that are not durable.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// How many.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// How to undo them, the newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Undo> {
        self.open.iter().rev()
    }

    /// Whether somebody waits for a sync.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.held.is_empty() || !self.notices.is_empty()
    }

    /// A request is submitted.
    pub(super) fn submit(&mut self, request: HostRequest) {
        if self.is_on && (request.op == HostOp::Flush || request.fua && request.op != HostOp::Read) {
            self.covered.insert(request.tag);
        }
    }

    /// Whether a step that is issued now is held.
    pub(super) fn holds(&self, step: &Step) -> bool {
        self.is_open() && step.dev().is_some() && !matches!(step, Step::Read { .. } | Step::MetaRead { .. })
    }

    /// Holds a step.
    pub(super) fn hold(&mut self, entry: InFlight) {
        self.held.push_back((self.done(), entry));
    }

    /// Something is said; whether it is held.
    fn holds_notice(&mut self, notice: HostNotice) -> bool {
        let waits = match notice {
            HostNotice::Acked { tag, ok } => self.covered.contains(&tag) && ok && self.is_open(),
            // Not before what is held of it.
            HostNotice::Released { tag } => {
                self.covered.remove(&tag);
                self.notices
                    .iter()
                    .any(|(_, held)| matches!(held, HostNotice::Acked { tag: other, .. } if *other == tag))
            }
            HostNotice::Clean => self.is_open(),
            HostNotice::Drained => false,
        };
        if waits {
            self.notices.push_back((self.done(), notice));
        }
        waits
    }
}

impl<C: Controller> Memory<C> {
    /// Whether every acknowledged write is durable, as it is unless told otherwise: then a commit of the NVRAM is durable
    /// when it is done. Else it is when that is relied on.
    pub const fn set_every_write(&mut self, every_write: bool) {
        self.ahead.is_on = !every_write;
    }

    /// Whether all that the controller was told to be done of the NVRAM is durable.
    pub fn is_durable(&self) -> bool {
        !self.ahead.is_open()
    }

    /// All commits that are done are durable.
    pub(super) fn sync(&mut self) {
        if !self.ahead.is_open() {
            return;
        }
        self.note(|| "the NVRAM is synced".to_owned());
        let ahead = &mut self.ahead;
        (ahead.durable, ahead.open) = (ahead.done(), VecDeque::new());
        // All of them wait for no more than what is done.
        self.in_flight.extend(ahead.held.drain(..).map(|(_, entry)| entry));
        ahead.told.extend(ahead.notices.drain(..).map(|(_, notice)| notice));
    }

    /// A commit is about to be done.
    pub(super) fn commits(&mut self, issue: Issue) {
        let Step::NvCommit { puts, frees } = *self.engine.step(issue) else { return };
        if self.ahead.is_on {
            let puts = self.engine.puts(issue.op, puts).iter().map(|put| put.slot);
            let frees = self.engine.bufs(issue.op, frees).iter().map(|buf| match buf {
                Buf::Nv(slot) => *slot,
                other => panic!("{other:?} is no slot of the NVRAM"),
            });
            self.ahead.open.push_back(self.bytes.nvram().undo(puts, frees));
        }
    }

    /// The next thing that is said and not held.
    pub(super) fn say(&mut self) -> Option<HostNotice> {
        loop {
            if let Some(told) = self.ahead.told.pop_front() {
                return Some(told);
            }
            let notice = self.engine.next_notice()?;
            if !self.ahead.holds_notice(notice) {
                return Some(notice);
            }
        }
    }
}
