//! Steps on their way to devices and to the store, as far as these have room and nothing must be durable before.

use std::sync::Arc;

use destage_plan::{Buf, Controller, Dev, Ext, Issue, Step};

use super::executor::FileExecutor;
use crate::bytes::checksum;
use crate::files::error::FilesError;
use crate::files::io::backend::CommandBackend;
use crate::files::io::command;
use crate::files::io::command::DeviceAction;
use crate::files::io::device::DeviceBackend;
use crate::files::io::file::SyncPoint;
use crate::files::layout::{bad_page_list, event_count};
use crate::files::nvram::store;
use crate::files::nvram::store::{NvramChange, NvramCommand};

/// Returns true if a power failure can leave an effect of a step.
const fn lasts(step: &Step) -> bool {
    // What a device has its successor may have.
    !matches!(step, Step::Read { .. } | Step::MetaRead { .. } | Step::Duplicate { src: Buf::None, .. })
}

impl<C: Controller> FileExecutor<C> {
    /// Has a step wait if commits that were done before it was issued are not durable; whether it does.
    pub(super) fn blocks_on_durability(&mut self, dev: Dev, issue: Issue) -> bool {
        // Each step that changes a device waits, whatever it is about. Finer
        // conditions would have to be proved of each cache.
        let waits = self.group_commit.is_open() && lasts(self.engine.step(issue));
        if waits {
            let until = self.group_commit.block_step();
            self.devices[dev.index()].blocked.push_back((until, issue));
        }
        waits
    }

    /// A step of a device that answers, for which nothing has to be made durable any more, begins or waits for room.
    pub(super) fn begin_unblocked(&mut self, dev: Dev, issue: Issue) {
        // A copy waits until no write of its pages is in flight, so it has a queue
        // of its own.
        if matches!(self.engine.step(issue), Step::Duplicate { .. }) {
            return self.begin_duplicate(dev, issue);
        }
        self.send_or_queue(dev, issue);
    }

    /// Sends a device a step, if there is room.
    pub(super) fn send_or_queue(&mut self, dev: Dev, issue: Issue) {
        let device = &self.devices[dev.index()];
        // Held devices get nothing: their successor, or the NVRAM, is about to
        // move.
        if !device.is_held && device.backend.as_ref().is_some_and(DeviceBackend::has_room) {
            self.send_device(dev, issue);
        } else {
            self.devices[dev.index()].backlog.push_back(issue);
        }
    }

    pub(super) fn send_device(&mut self, dev: Dev, issue: Issue) {
        let page = self.engine.shape().page_bytes();
        let before = self.config.devices[dev.index()].offset;
        let place = |ext: Ext| (before + ext.first() * page, u64::from(ext.pages()) * page);
        let step = *self.engine.step(issue);
        let traffic = &mut self.devices[dev.index()].traffic;
        let (work, (bytes, range)) = match step {
            Step::Read { ext, .. } | Step::MetaRead { ext } | Step::Duplicate { ext, .. } => {
                let (offset, len) = place(ext);
                traffic.reads += 1;
                traffic.read_bytes += len;
                (DeviceAction::Read { offset }, (self.bytes.lend(len as usize), 0..len as usize))
            }
            Step::Write { ext, .. } | Step::WriteList { ext, .. } | Step::MetaWrite { ext, .. } => {
                let (offset, len) = place(ext);
                traffic.writes += 1;
                traffic.fua += u64::from(step.is_fua());
                traffic.written_bytes += len;
                (DeviceAction::Write { offset, fua: step.is_fua() }, self.bytes.handed(&self.engine, issue.op, &step))
            }
            Step::Trim { ext } => {
                let (offset, len) = place(ext);
                traffic.trims += 1;
                (DeviceAction::Trim { offset, len }, (self.bytes.lend(0), 0..0))
            }
            Step::FlushDev { .. } => {
                traffic.flushes += 1;
                (DeviceAction::Flush, (self.bytes.lend(0), 0..0))
            }
            ref other => unreachable!("{other:?} is no step of a device"),
        };
        // Checksums are taken of what is written, not of what is read back: they
        // must tell later what the device made of it.
        if let Step::Write { ext, .. } | Step::WriteList { ext, .. } = step
            && dev.index() >= self.config.members
            && let Some(checksums) = self.engine.checksums_mut().filter(|checksums| checksums.dev() == dev)
        {
            checksum::keep(checksums, ext, &bytes[range.clone()]);
        }
        // The same bytes go to both files without a copy. Reads are not doubled:
        // only the member is known to be whole.
        if !matches!(work, DeviceAction::Read { .. }) {
            self.give_successor(dev, issue, work, &bytes, range.clone());
        }
        // Aligned last, since the copy for the successor has needs of its own.
        let (bytes, range) = match self.devices[dev.index()].direct {
            Some(Ok(align)) => self.bytes.aligned(bytes, range, align as usize),
            _ => (bytes, range),
        };
        self.note_sent(dev, Some(issue));
        let backend = self.devices[dev.index()].backend.as_mut().expect("a device that answers has a backend");
        backend.send(command::DeviceCommand { issue: Some(issue), work, bytes, range });
    }

    /// Gives the store what waits for it, as far as members have marked its rows, and has them mark more. Before any
    /// step they know all else that a start without the NVRAM has to know.
    pub(super) fn send_backlog(&mut self) {
        // The members must know what a start without the NVRAM has to know before
        // the next step of the NVRAM is durable.
        self.marks.note(self.engine.controller().condition());
        while !self.is_moving()
            && self.store.has_room()
            && let Some(&issue) = self.store_backlog.front()
        {
            let marked = match *self.engine.step(issue) {
                // An intent waits until its marks are durable on every member that
                // answers. So marks are a superset of intents at every moment.
                Step::Intent { rows, set: true } => self.marks.cover(self.engine.rows(issue.op, rows)),
                _ => true,
            };
            // In the order of issue: a commit must not overtake an intent that
            // waits for its marks.
            if !marked || !self.marks.is_noted() {
                break;
            }
            self.store_backlog.pop_front();
            self.send_store(issue);
        }
        self.send_marks();
        self.send_bad_page_lists();
    }

    /// Returns a member that can be given its list of bad pages, which is to be written.
    pub(super) fn next_bad_page_list(&self) -> Option<Dev> {
        // While the event count is being raised another thread writes it beside the lists.
        let is_settled = !self.roster.event_count().is_changing();
        let has_room = |dev: &Dev| {
            let device = &self.devices[dev.index()];
            !device.failed && !device.is_held && device.backend.as_ref().is_some_and(DeviceBackend::has_room)
        };
        self.bad_pages.due().iter().filter(|_| is_settled).find(has_room)
    }

    /// Gives members their lists of bad pages, each with the event count that it lies beside.
    fn send_bad_page_lists(&mut self) {
        while let Some(dev) = self.next_bad_page_list() {
            let (number, drawn) = (dev.index(), self.roster.origin().drawn);
            // Both places may have this count: it is settled.
            let count = self.roster.event_count();
            let mut place = event_count::encode(self.config.shape.page_bytes(), drawn, number, count);
            let list = self.bad_pages.begin(dev);
            bad_page_list::encode(&mut place, drawn, number, list);
            // Two places in turn, so a torn write leaves the list before.
            let offset = self.config.count_offset(number) + list.sequence % 2 * self.config.count_bytes();
            let device = &mut self.devices[number];
            device.traffic.marks += 1;
            device.traffic.mark_bytes += place.len() as u64;
            let (range, bytes) = (0..place.len(), Arc::new(place));
            let backend = device.backend.as_mut().expect("it has room");
            backend.send(command::DeviceCommand { issue: None, work: DeviceAction::List { offset }, bytes, range });
            self.note_sent(dev, None);
        }
    }

    /// Gives members the marks that are to be written, if there are any.
    fn send_marks(&mut self) {
        // Members that do not answer would hold the marks up; a start finds theirs
        // older.
        let answering = self.devices.iter().zip(0..).filter(|(device, _)| !device.failed).map(|(_, dev)| Dev(dev));
        if self.marks.is_busy() {
            self.marks.begin(answering.collect());
        }
        for dev in self.marks.waiting().iter() {
            let device = &mut self.devices[dev.index()];
            let is_held = device.is_held;
            let Some(backend) = device.backend.as_mut().filter(|backend| !is_held && backend.has_room()) else {
                continue;
            };
            let offset = self.config.marks_offset(dev.index()) + self.marks.place();
            let bytes = self.marks.give(dev);
            device.traffic.marks += 1;
            device.traffic.mark_bytes += bytes.len() as u64;
            let range = 0..bytes.len();
            backend.send(command::DeviceCommand { issue: None, work: DeviceAction::Mark { offset }, bytes, range });
            self.note_sent(dev, None);
        }
    }

    fn send_store(&mut self, issue: Issue) {
        let mut lists = self.spare_lists.pop().unwrap_or_default();
        let (change, bytes) = match *self.engine.step(issue) {
            Step::NvCommit { puts, frees } => {
                let puts = self.engine.puts(issue.op, puts);
                lists.puts.extend_from_slice(puts);
                lists.frees.extend(self.engine.bufs(issue.op, frees).iter().map(|buf| match buf {
                    Buf::Nv(slot) => *slot,
                    other => panic!("{other:?} is no slot of the NVRAM"),
                }));
                // Where batching gathers nothing a commit is synced as it is
                // written, which saves the way to the main loop and back.
                let durable = self.config.every_write || self.group_commit.commits_at_once();
                (NvramChange::Commit { durable }, self.bytes.puts(&self.engine, issue.op, puts))
            }
            Step::Intent { rows, set } => {
                lists.rows.extend_from_slice(self.engine.rows(issue.op, rows));
                (NvramChange::Intent { set }, self.bytes.lend(0))
            }
            ref other => unreachable!("{other:?} is no step of the NVRAM"),
        };
        self.note_stored(Some(issue));
        self.store.send(store::NvramCommand { issue: Some(issue), change, bytes, lists, is_covered: false });
    }

    /// Gives the store the sync that is wanted, or that is due.
    pub(super) fn send_sync(&mut self) {
        self.group_commit.note(self.engine.controller().condition());
        // A journal that nobody waits for is synced after a second.
        if self.group_commit.due().is_some_and(|due| due <= self.now()) {
            self.group_commit.want_sync(SyncPoint::Ahead);
        }
        // While the NVRAM moves its old place is given nothing.
        if !self.store.has_room() || self.is_moving() {
            return;
        }
        if let Some(at) = self.group_commit.begin_sync() {
            let (lists, bytes) = (self.spare_lists.pop().unwrap_or_default(), self.bytes.lend(0));
            self.note_stored(None);
            self.store.send(NvramCommand {
                issue: None,
                change: NvramChange::Sync(at),
                bytes,
                lists,
                is_covered: false,
            });
        }
    }

    /// Checks that the NVRAM and the intents have room for what the controller wants.
    ///
    /// # Errors
    ///
    /// If it names a slot, byte or row beyond the configuration; the executor stops then.
    pub(super) fn check_nvram(&mut self, issue: Issue) -> Result<(), FilesError> {
        let slots = u64::from(self.config.nv_slots);
        match *self.engine.step(issue) {
            Step::NvCommit { puts, .. } => {
                let puts = self.engine.puts(issue.op, puts);
                // Checked before it is sent: the store would write beyond its file.
                let last = puts.iter().map(|put| u64::from(put.slot.index) + 1).max().unwrap_or(0);
                let longest = puts.iter().map(|put| u64::from(put.len)).max().unwrap_or(0);
                let page = self.engine.shape().page_bytes();
                self.within("the slot", last.saturating_sub(1), "nv-slots", slots.max(u64::from(last == 0)))?;
                self.within("the byte of a slot", longest.saturating_sub(1), "page-bytes", page)
            }
            Step::Intent { rows, .. } => {
                let last = self.engine.rows(issue.op, rows).iter().map(|rows| rows.end().0).max().unwrap_or(0);
                self.within("the row", last.saturating_sub(1), "rows", self.config.rows.max(u64::from(last == 0)))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn within(
        &mut self,
        what: &'static str,
        found: u64,
        key: &'static str,
        limit: u64,
    ) -> Result<(), FilesError> {
        if found < limit { Ok(()) } else { Err(self.stop(FilesError::Beyond { what, found, key, limit })) }
    }
}
