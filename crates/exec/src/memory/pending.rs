//! Keeps the commits of the NVRAM that are done and not durable, where not every acknowledged write must be
//! durable. A loss of power leaves the first few of them, as in the file executor.
//!
//! * A step that changes a device or makes it durable is held if it was issued after such a commit was done.
//! * The answers of flushes and of writes with FUA, and a clean stop, are held likewise.
//! * A sync that covers them comes at any later time, as the end of a step does. It comes no sooner than
//!   somebody waits for it or nothing else is left to do.
//! * Every answer, also of a read, waits until the commits of the start are durable. Pages that the start found
//!   missing stay missing for everybody who has read without them.

use std::collections::{BTreeSet, VecDeque};

use destage_plan::{HostNotice, HostOp, HostRequest, Step};

use super::step::InFlight;
use crate::nvram::CommitUndo;

/// Holds what is done, what is durable, and who waits for that.
#[derive(Default)]
pub(super) struct PendingCommits {
    /// Is true if there can be such commits.
    pub(super) is_on: bool,
    /// Counts the commits that are durable.
    pub(super) durable: u64,
    /// Records how to undo those that are done and not durable, the oldest first.
    pub(super) open: VecDeque<CommitUndo>,
    /// Holds the steps that wait, with the commits that were done when they were issued.
    pub(super) held: VecDeque<(u64, InFlight)>,
    /// Holds the notices that wait, with the commits that were done before them.
    pub(super) notices: VecDeque<(u64, HostNotice)>,
    /// Holds the notices that may be told.
    pub(super) told: VecDeque<HostNotice>,
    /// Names the flushes, and the writes with FUA.
    covered: BTreeSet<u64>,
    /// Counts the commits that were done when the controller became ready.
    of_start: Option<u64>,
}

impl PendingCommits {
    pub(super) fn done(&self) -> u64 {
        self.durable + self.open.len() as u64
    }

    /// Returns true if there are commits that are not durable.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Counts the commits that are not durable.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// Iterates over the records that undo them, the newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &CommitUndo> {
        self.open.iter().rev()
    }

    /// Returns true if somebody waits for a sync.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.held.is_empty() || !self.notices.is_empty()
    }

    /// Records the commits of the start: the controller is ready.
    pub(super) fn ready(&mut self) {
        let done = self.done();
        // Only the first time: later commits are not the start's.
        self.of_start.get_or_insert(done);
    }

    /// Notes a submitted request.
    pub(super) fn submit(&mut self, request: HostRequest) {
        if self.is_on && (request.op == HostOp::Flush || request.fua && request.op != HostOp::Read) {
            self.covered.insert(request.tag);
        }
    }

    /// Returns true if a step that is issued now must wait.
    pub(super) fn holds(&self, step: &Step) -> bool {
        // A read changes nothing that a lost commit would contradict.
        self.is_open() && step.dev().is_some() && !matches!(step, Step::Read { .. } | Step::MetaRead { .. })
    }

    /// Holds a step.
    pub(super) fn hold(&mut self, entry: InFlight) {
        self.held.push_back((self.done(), entry));
    }

    /// Takes a notice. Returns true if it is held.
    pub(super) fn holds_notice(&mut self, notice: HostNotice) -> bool {
        let waits = match notice {
            HostNotice::Acked { tag, ok: true } => {
                self.of_start.is_some_and(|of_start| self.durable < of_start)
                    || self.covered.contains(&tag) && self.is_open()
            }
            // In order: the bytes of a request must stay until its own answer is
            // told.
            HostNotice::Released { tag } => {
                self.covered.remove(&tag);
                self.notices
                    .iter()
                    .any(|(_, held)| matches!(held, HostNotice::Acked { tag: other, .. } if *other == tag))
            }
            HostNotice::Clean => self.is_open(),
            HostNotice::Acked { ok: false, .. }
            | HostNotice::Drained
            | HostNotice::Scrubbed(_)
            | HostNotice::Copied(_) => false,
        };
        if waits {
            self.notices.push_back((self.done(), notice));
        }
        waits
    }
}
