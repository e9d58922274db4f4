//! Commits of the NVRAM that are done and not durable, as the file executor has them where not every acknowledged write is
//! to be durable: a loss of power leaves the first few of them.
//!
//! A step that changes a device or makes it durable, and was issued after such a commit was done, is held; so is what
//! becomes of a flush, of a write with FUA, and a clean stop. A sync that covers them comes at any time later, as the end
//! of a step does, and no sooner than somebody waits for it or nothing else is left to be done.
//!
//! Every answer, also of a read, waits until the commits of the start are durable: what the start found missing stays
//! missing for whoever has read without it.

use std::collections::{BTreeSet, VecDeque};

use destage_plan::{HostNotice, HostOp, HostRequest, Step};

use super::step::InFlight;
use crate::nvram::CommitUndo;

/// What is done, what is durable, and who waits for that.
#[derive(Default)]
pub(super) struct PendingCommits {
    /// Whether there can be such commits.
    pub(super) is_on: bool,
    /// Commits that are durable.
    pub(super) durable: u64,
    /// How to undo those that are done and not durable, the oldest first.
    pub(super) open: VecDeque<CommitUndo>,
    /// Steps that are held, with the commits that were done when they were issued.
    pub(super) held: VecDeque<(u64, InFlight)>,
    /// What was said and is held, likewise.
    pub(super) notices: VecDeque<(u64, HostNotice)>,
    /// What may be told.
    pub(super) told: VecDeque<HostNotice>,
    /// Flushes, and writes with FUA.
    covered: BTreeSet<u64>,
    /// Counts the commits that were done when the controller became ready.
    of_start: Option<u64>,
}

impl PendingCommits {
    pub(super) fn done(&self) -> u64 {
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
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &CommitUndo> {
        self.open.iter().rev()
    }

    /// Whether somebody waits for a sync.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.held.is_empty() || !self.notices.is_empty()
    }

    /// Records the commits of the start: the controller is ready.
    pub(super) fn ready(&mut self) {
        let done = self.done();
        self.of_start.get_or_insert(done);
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
    pub(super) fn holds_notice(&mut self, notice: HostNotice) -> bool {
        let waits = match notice {
            HostNotice::Acked { tag, ok: true } => {
                self.of_start.is_some_and(|of_start| self.durable < of_start)
                    || self.covered.contains(&tag) && self.is_open()
            }
            // Not before what is held of it.
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
