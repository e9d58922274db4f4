//! Serves a device's file by a ring. Commands become operations, one after the other for each command, as a
//! thread would ask for them ([`DeviceFile`](crate::files::io::threads::device::DeviceFile)).
//! All commands of the device run at a time, in the main loop.
//!
//! A write with FUA is a write, and a sync that begins when the write has ended, not a linked pair and not
//! `RWF_DSYNC`:
//!
//! * Several writes share a sync so.
//! * A short write is continued before the sync.
//! * An error says whether the write or the sync failed, which decides
//!   [`CommandFailure::no_room`](crate::files::io::command::CommandFailure::no_room).
//!
//! The result of one sync holds for all ([`DeviceSyncs`]).

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use destage_plan::Issue;
use rustix::io::Errno;

use crate::bytes::SharedBuffer;
use crate::files::config::DeviceOptions;
use crate::files::io::backend::CommandBackend;
use crate::files::io::command::{
    CommandFailure, DeviceAction, DeviceCommand, EndedCommand, ZEROS, failed, not_written,
};
use crate::files::io::file::{OsFile, SyncPoint};
use crate::files::io::merge::MergeCounts;
use crate::files::io::ring::{EndedOperation, FileOp, LockedFile, MergeRole, OperationTag, RingEntries, RingEntry};
use crate::files::io::syncs::{DeviceSyncs, SyncTicket, SyncTurn};

/// Limits how often an operation is asked for again that the system put off.
const PATIENT: u8 = 16;

/// Sends the commands of one device to a ring.
pub(crate) struct UringDevice {
    file: Arc<LockedFile>,
    dev: u8,
    life: u32,
    options: DeviceOptions,
    depth: usize,
    /// Counts the steps that were begun.
    steps: u64,
    /// Is true if the file system makes holes, as far as is known.
    holes: bool,
    syncs: DeviceSyncs,
    flights: Vec<Option<InFlightCommand>>,
    free: Vec<u32>,
    /// Lists the commands that are done and still must be made durable.
    ask: VecDeque<(u32, SyncTicket, SyncPoint)>,
    /// Holds what the ring is given next.
    outgoing: RingEntries,
    /// Counts the parts of merged operations that were asked for again, since somebody took the counts last.
    parted: MergeCounts,
    results: VecDeque<EndedCommand>,
    in_flight: usize,
    closed: bool,
    /// Records when the last result came, or a command when there were none.
    moved: Instant,
}

/// Is a command under way.
struct InFlightCommand {
    issue: Option<Issue>,
    work: DeviceAction,
    range: Range<usize>,
    /// Holds the command's bytes while no operation has them.
    bytes: Option<SharedBuffer>,
    /// Counts the bytes read, written, or made zeros.
    done: u64,
    /// Counts how often its operation was put off.
    put_off: u8,
    /// Is true if an operation failed, or ended early, in which it was merged: it is asked for by itself.
    is_parted: bool,
}

impl UringDevice {
    /// Makes the sender for a file of the device `dev`, with the number `life` among all files of this life. It
    /// takes `depth` commands at a time at most.
    pub(crate) fn new(file: Arc<LockedFile>, (dev, life): (u8, u32), options: DeviceOptions, depth: usize) -> Self {
        Self {
            file,
            dev,
            life,
            options,
            depth,
            steps: 0,
            holes: true,
            syncs: DeviceSyncs::default(),
            flights: Vec::new(),
            free: Vec::new(),
            ask: VecDeque::new(),
            outgoing: RingEntries::new(),
            parted: MergeCounts::default(),
            results: VecDeque::new(),
            in_flight: 0,
            closed: false,
            moved: Instant::now(),
        }
    }

    /// Returns the number of the file among all of this life.
    pub(crate) const fn life(&self) -> u32 {
        self.life
    }

    /// Returns true if there is something for the ring, or a result.
    pub(crate) fn stirs(&self) -> bool {
        !self.outgoing.is_empty() || self.has_results()
    }

    /// Returns what the ring is given next.
    pub(crate) const fn outgoing(&mut self) -> &mut RingEntries {
        &mut self.outgoing
    }

    /// Takes the counts of parts of merged operations that were asked for again.
    pub(crate) fn take_parted(&mut self) -> MergeCounts {
        std::mem::take(&mut self.parted)
    }

    /// Counts the operations that the ring was given and that have not ended, once the device is closed.
    pub(crate) fn left_to_ring(&self) -> usize {
        self.flights.iter().flatten().count() - self.ask.len()
    }

    /// Returns true if there are results.
    pub(crate) fn has_results(&self) -> bool {
        !self.results.is_empty()
    }

    /// Handles the end of an operation of this file.
    pub(crate) fn ended(&mut self, (entry, result): EndedOperation) {
        let (number, operation) = (entry.tag.command, entry.operation);
        let is_unknown = entry.is_merged() && !matches!(result, Ok(bytes) if bytes == entry.range.len());
        self.give_back(entry);
        let Some(flight) = &mut self.flights[number as usize] else { return };
        if is_unknown && !self.closed {
            // An error of a merged operation does not say which part failed. Asked
            // for alone, each part gets its own result.
            flight.is_parted = true;
            let is_read = matches!(operation, FileOp::Read { .. });
            *(if is_read { &mut self.parted.reads } else { &mut self.parted.writes }) += 1;
            return self.ask_for(number, operation);
        }
        let errno = result.as_ref().err().and_then(Errno::from_io_error);
        // The system put it off, or cancelled it because the thread that submitted
        // it has ended.
        let again = match errno {
            Some(Errno::INTR | Errno::CANCELED) => true,
            // The kernel has no other way to say of some operations that it put
            // them off. The bytes are there, so EFAULT cannot mean them.
            Some(Errno::AGAIN | Errno::FAULT) => {
                flight.put_off += 1;
                flight.put_off < PATIENT
            }
            _ => false,
        };
        if again && !self.closed {
            return self.ask_for(number, operation);
        }
        match (operation, result) {
            (FileOp::Sync(_), synced) => {
                // Recorded before anybody is answered: whoever asked for a sync must
                // not succeed after this failure.
                self.syncs.end(synced.is_ok());
                self.finish(number, synced.map(drop).map_err(failed));
                self.sync();
                return;
            }
            (FileOp::PunchHole { len, .. }, Ok(_)) => flight.done += len,
            // Linux reports EINVAL if pages are not made of a block device's
            // blocks.
            (FileOp::PunchHole { .. }, Err(_))
                if matches!(errno, Some(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL)) =>
            {
                // Falls through to `go_on`, which writes zeros for this command and
                // all later ones.
                self.holes = false;
            }
            // A device's file never ends before its pages, so nothing would come of
            // asking again.
            (FileOp::Read { .. }, Ok(0)) => {
                self.finish(number, Err(failed(io::ErrorKind::UnexpectedEof.into())));
                return;
            }
            (FileOp::Write { .. }, Ok(0)) => {
                self.finish(number, Err(failed(io::ErrorKind::WriteZero.into())));
                return;
            }
            (FileOp::Read { .. } | FileOp::Write { .. }, Ok(bytes)) => flight.done += bytes as u64,
            (FileOp::Read { .. }, Err(error)) => {
                self.finish(number, Err(failed(error)));
                return;
            }
            (FileOp::Write { .. } | FileOp::PunchHole { .. }, Err(error)) => {
                self.finish(number, Err(not_written(error)));
                return;
            }
        }
        self.go_on(number);
    }

    /// Asks for the rest of a command.
    fn go_on(&mut self, number: u32) {
        let Some(flight) = &self.flights[number as usize] else { return };
        let (work, done, len) = (flight.work, flight.done, flight.len());
        if done < len {
            // What a closed file was not asked for must never reach it.
            if self.closed {
                return self.finish(number, Err(failed(closed())));
            }
            let operation = match work {
                DeviceAction::Read { offset } => FileOp::Read { offset: offset + done },
                DeviceAction::Trim { offset, len } if self.holes => FileOp::PunchHole { offset, len },
                DeviceAction::Write { offset, .. }
                | DeviceAction::Mark { offset }
                | DeviceAction::List { offset }
                | DeviceAction::Trim { offset, .. } => FileOp::Write { offset: offset + done },
                DeviceAction::Flush => unreachable!("it has no bytes"),
            };
            return self.ask_for(number, operation);
        }
        match work {
            // One sync covers everything written before, which is more than was
            // asked for.
            // The ticket is taken after the write has ended, so a sync that runs
            // already does not count.
            DeviceAction::Write { fua: true, .. } => self.ask.push_back((number, self.syncs.ask(), SyncPoint::Fua)),
            DeviceAction::Mark { .. } => self.ask.push_back((number, self.syncs.ask(), SyncPoint::Marks)),
            DeviceAction::List { .. } => self.ask.push_back((number, self.syncs.ask(), SyncPoint::BadPages)),
            DeviceAction::Flush => self.ask.push_back((number, self.syncs.ask(), SyncPoint::Flush)),
            _ => return self.finish(number, Ok(())),
        }
        self.sync();
    }

    /// Begins a sync if a command asks for one that none has covered, and none is running.
    fn sync(&mut self) {
        // Linux reports a failed sync once: two at a time could give one worker a
        // success that hides it.
        while !self.syncs.is_under_way()
            && let Some((number, ticket, at)) = self.ask.pop_front()
        {
            if self.closed {
                self.finish(number, Err(failed(closed())));
                continue;
            }
            match self.syncs.begin(ticket) {
                SyncTurn::Yours => self.ask_for(number, FileOp::Sync(at)),
                SyncTurn::Covered => self.finish(number, Ok(())),
                SyncTurn::Failed => self.finish(number, Err(failed(io::Error::other("an earlier sync of it failed")))),
            }
        }
    }

    fn ask_for(&mut self, number: u32, operation: FileOp) {
        let Some(flight) = &mut self.flights[number as usize] else { return };
        let rest = (flight.len() - flight.done) as usize;
        let (bytes, range) = match (operation, flight.work) {
            (FileOp::Write { .. }, DeviceAction::Trim { .. }) => (Arc::clone(&ZEROS), 0..rest.min(ZEROS.len())),
            (FileOp::Read { .. } | FileOp::Write { .. }, _) => {
                let bytes = flight.bytes.take().expect("a command has one operation at a time");
                (bytes, flight.range.start + flight.done as usize..flight.range.end)
            }
            _ => (flight.bytes.take().expect("a command has one operation at a time"), 0..0),
        };
        // The executor's own writes are counted apart, and so is a part that is
        // asked for once more.
        let is_first = flight.done == 0 && !flight.is_parted;
        let can_merge = is_first && matches!(flight.work, DeviceAction::Read { .. } | DeviceAction::Write { .. });
        let role = if can_merge { MergeRole::Single } else { MergeRole::Barred };
        let tag = OperationTag { dev: self.dev, life: self.life, command: number };
        self.outgoing.push_back(RingEntry { role, tag, file: Arc::clone(&self.file), operation, bytes, range });
    }

    /// Returns the bytes of an operation to its command.
    fn give_back(&mut self, entry: RingEntry) {
        if let Some(flight) = &mut self.flights[entry.tag.command as usize] {
            // Without bytes of its own the command is a trim, and the entry holds
            // the shared zeros.
            flight.bytes.get_or_insert(entry.bytes);
        }
    }

    fn finish(&mut self, number: u32, result: Result<(), CommandFailure>) {
        let Some(flight) = self.flights[number as usize].take() else { return };
        self.free.push(number);
        let InFlightCommand { issue, work, range, bytes, .. } = flight;
        let bytes = bytes.expect("no operation of it is under way");
        self.results.push_back((DeviceCommand { issue, work, bytes, range }, result));
    }
}

impl CommandBackend for UringDevice {
    type Command = DeviceCommand;
    type Done = EndedCommand;

    fn has_room(&self) -> bool {
        self.in_flight < self.depth && !self.closed
    }

    fn is_busy(&self) -> bool {
        self.in_flight > 0
    }

    fn stuck(&self) -> Duration {
        if self.is_busy() { self.moved.elapsed() } else { Duration::ZERO }
    }

    fn send(&mut self, command: DeviceCommand) {
        debug_assert!(self.has_room(), "the caller looks for room");
        if self.in_flight == 0 {
            self.moved = Instant::now();
        }
        self.in_flight += 1;
        let breaks = self.options.breaks_after.is_some_and(|most| self.steps >= most);
        self.steps += 1;
        let DeviceCommand { issue, work, bytes, range } = command;
        let flight = InFlightCommand { issue, work, range, bytes: Some(bytes), done: 0, put_off: 0, is_parted: false };
        // Numbers are used again, so that the table stays as small as the most
        // commands in flight.
        let number = self.free.pop().unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() as u32 - 1
        });
        self.flights[number as usize] = Some(flight);
        if breaks {
            self.finish(number, Err(failed(io::Error::other("the device breaks here, as it was told"))));
        } else {
            self.go_on(number);
        }
    }

    fn results(&mut self, into: &mut VecDeque<EndedCommand>) {
        if self.has_results() {
            self.moved = Instant::now();
            self.in_flight -= self.results.len();
            into.append(&mut self.results);
        }
    }

    fn close(&mut self) -> VecDeque<DeviceCommand> {
        self.closed = true;
        let mut left = VecDeque::new();
        for entry in std::mem::take(&mut self.outgoing) {
            let number = entry.tag.command;
            if matches!(entry.operation, FileOp::Sync(_)) {
                // A sync that never began proves nothing, so whoever waits for it
                // must not succeed.
                self.syncs.end(false);
            }
            let unbegun = self.flights[number as usize].as_ref().is_some_and(|flight| flight.is_unbegun(&entry));
            self.give_back(entry);
            self.finish(number, Err(failed(closed())));
            if unbegun {
                // A command that the device saw nothing of may be given to its
                // replacement.
                left.extend(self.results.pop_back().map(|(command, _)| command));
            }
        }
        self.in_flight -= left.len();
        self.sync();
        left
    }

    fn is_silent(&self) -> bool {
        !self.has_results()
    }

    fn end(&mut self, _until: Instant, _keep: Option<&Arc<dyn OsFile>>) {
        drop(self.close());
    }
}

impl InFlightCommand {
    /// Counts the bytes that are read, written, or made zeros.
    fn len(&self) -> u64 {
        match self.work {
            DeviceAction::Read { .. }
            | DeviceAction::Write { .. }
            | DeviceAction::Mark { .. }
            | DeviceAction::List { .. } => self.range.len() as u64,
            DeviceAction::Trim { len, .. } => len,
            DeviceAction::Flush => 0,
        }
    }

    /// Returns true if this operation, which the ring was not given, is the command's first.
    fn is_unbegun(&self, entry: &RingEntry) -> bool {
        let syncs = matches!(entry.operation, FileOp::Sync(_));
        // A sync of a write is no first operation: its write is done.
        self.done == 0 && self.put_off == 0 && !self.is_parted && (!syncs || self.work == DeviceAction::Flush)
    }
}

fn closed() -> io::Error {
    io::Error::other("nothing more is asked of it")
}
