//! What waits for commits of the NVRAM to be durable: steps of devices, and answers.

use destage_plan::{Controller, Dev, HostOp, Issue, Nanos, Step};

use super::executor::{Completion, Files, Request};
use crate::files::error::FilesError;
use crate::files::io::backend::Backend;
use crate::files::io::device::Serves;
use crate::files::io::file::SyncPoint;
use crate::files::nvram::store::{Change, Command};

/// Whether a step has an effect that a loss of power leaves.
const fn lasts(step: &Step) -> bool {
    !matches!(step, Step::Read { .. } | Step::MetaRead { .. })
}

impl<C: Controller> Files<C> {
    /// Whether all that the controller was told to be done of the NVRAM is durable. If it is not, it will be soon after a
    /// member's loss or filling was noted, and a second later at the latest.
    pub const fn is_durable(&self) -> bool {
        !self.ahead.is_open()
    }

    /// Has a step wait if commits that were done before it was issued are not durable; whether it does.
    pub(super) fn holds_back(&mut self, dev: Dev, issue: Issue) -> bool {
        let waits = self.ahead.is_open() && lasts(self.engine.step(issue));
        if waits {
            let until = self.ahead.hold();
            self.devices[dev.index()].held.push_back((until, issue));
        }
        waits
    }

    /// Answers a request, at once or when what it tells of is durable.
    pub(super) fn tell(&mut self, request: &Request, completion: Completion) {
        let until = match request.op {
            HostOp::Flush => self.ahead.flushes(self.blocked.back().map(|answer| answer.0)),
            HostOp::Read => 0,
            _ if request.fua => self.ahead.done(),
            _ => 0,
        };
        if !self.ahead.is_covered(until) && completion.ok {
            self.ahead.wait(SyncPoint::Answer);
            self.blocked.push_back((until, completion));
        } else {
            self.ahead.tells(!matches!(request.op, HostOp::Read | HostOp::Flush));
            self.unanswered -= 1;
            self.completions.push_back(completion);
        }
    }

    /// Gives the store the sync that is wanted, or that is due.
    pub(super) fn send_sync(&mut self) {
        self.ahead.note(self.engine.controller().condition());
        if self.ahead.due().is_some_and(|due| due <= self.now()) {
            self.ahead.wait(SyncPoint::Ahead);
        }
        if !self.store.has_room() {
            return;
        }
        if let Some(at) = self.ahead.begin_sync() {
            let (lists, bytes) = (self.spare_lists.pop().unwrap_or_default(), self.bytes.lend(0));
            self.store.send(Command { issue: None, change: Change::Sync(at), bytes, lists, is_covered: false });
        }
    }

    /// All commits that are told as done are durable: what waits for that goes on.
    pub(super) fn covered(&mut self) -> Result<(), FilesError> {
        let durable = self.ahead.cover();
        while let Some((_, completion)) = self.blocked.pop_front_if(|answer| answer.0 <= durable) {
            self.ahead.tells_late();
            self.unanswered -= 1;
            self.completions.push_back(completion);
        }
        if self.ahead.take_clean() {
            self.clean = true;
        }
        for dev in (0..self.devices.len()).map(|dev| Dev(dev as u8)) {
            while let Some((_, issue)) = self.devices[dev.index()].held.pop_front_if(|held| held.0 <= durable) {
                self.begin_held(dev, issue);
            }
        }
        self.go_on()
    }

    /// A step of a device that answers, for which nothing has to be made durable any more, begins or waits for room.
    pub(super) fn begin_held(&mut self, dev: Dev, issue: Issue) {
        if self.devices[dev.index()].lane.as_ref().is_some_and(Serves::has_room) {
            self.send_device(dev, issue);
        } else {
            self.devices[dev.index()].backlog.push_back(issue);
        }
    }

    /// When something is due by time alone.
    pub(super) fn next_timer(&self) -> Option<Nanos> {
        self.engine.next_timer().into_iter().chain(self.ahead.due()).min()
    }
}
