//! What has a ring keep a device's file: commands become operations, one after the other for each, as a thread would
//! ask for them ([`DeviceFile`](crate::files::io::threads::device::DeviceFile)), but all commands of the device at a time and in the main loop.
//!
//! A write with FUA is a write, and a sync that begins when it has ended, not a linked pair and not `RWF_DSYNC`: several share
//! a sync so, a short write can be continued before it, and an error says whether the write failed or the sync, which
//! [`CommandFailure::no_room`](crate::files::io::command::CommandFailure::no_room) has to know. What one sync learns holds for all ([`DeviceSyncs`]).

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

/// How often an operation is asked for again that the system put off.
const PATIENT: u8 = 16;

/// The way to a ring for the commands of one device.
pub(crate) struct UringDevice {
    file: Arc<LockedFile>,
    dev: u8,
    life: u32,
    options: DeviceOptions,
    depth: usize,
    /// Steps that were begun.
    steps: u64,
    /// Whether the file system makes holes, as far as is known.
    holes: bool,
    syncs: DeviceSyncs,
    flights: Vec<Option<InFlightCommand>>,
    free: Vec<u32>,
    /// Those for which all is done but that it must be made durable.
    ask: VecDeque<(u32, SyncTicket, SyncPoint)>,
    /// What is to be given to the ring.
    outgoing: RingEntries,
    /// Counts the parts of merged operations that were asked for again, since somebody took the counts last.
    parted: MergeCounts,
    results: VecDeque<EndedCommand>,
    in_flight: usize,
    closed: bool,
    /// When the last result came, or a command when there were none.
    moved: Instant,
}

/// A command under way.
struct InFlightCommand {
    issue: Option<Issue>,
    work: DeviceAction,
    range: Range<usize>,
    /// Its bytes while no operation has them.
    bytes: Option<SharedBuffer>,
    /// Bytes read or written, or made zeros.
    done: u64,
    /// How often its operation was put off.
    put_off: u8,
    /// Tells that an operation failed, or was cut short, in which it was merged: it is asked for by itself.
    is_parted: bool,
}

impl UringDevice {
    /// For the file of this device, of which it is the one of this number in this life; `depth` commands at a time at most.
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

    /// Which of the device's files it is for.
    pub(crate) const fn life(&self) -> u32 {
        self.life
    }

    /// Whether there is something to be given to the ring, or a result.
    pub(crate) fn stirs(&self) -> bool {
        !self.outgoing.is_empty() || self.has_results()
    }

    /// What is to be given to the ring.
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

    /// Whether there are results.
    pub(crate) fn has_results(&self) -> bool {
        !self.results.is_empty()
    }

    /// An operation of this file's has ended.
    pub(crate) fn ended(&mut self, (entry, result): EndedOperation) {
        let (number, operation) = (entry.tag.command, entry.operation);
        let is_unknown = entry.is_merged() && !matches!(result, Ok(bytes) if bytes == entry.range.len());
        self.give_back(entry);
        let Some(flight) = &mut self.flights[number as usize] else { return };
        if is_unknown && !self.closed {
            // An error of a merged operation does not say whose it is. By itself each part gets its own.
            flight.is_parted = true;
            let is_read = matches!(operation, FileOp::Read { .. });
            *(if is_read { &mut self.parted.reads } else { &mut self.parted.writes }) += 1;
            return self.ask_for(number, operation);
        }
        let errno = result.as_ref().err().and_then(Errno::from_io_error);
        // It was put off, or called off because the thread has ended that gave it to the ring.
        let again = match errno {
            Some(Errno::INTR | Errno::CANCELED) => true,
            // The kernel has no other way to say it of some operations; the bytes are there.
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
                // Before anything is told: who asked for a sync must not succeed after this.
                self.syncs.end(synced.is_ok());
                self.finish(number, synced.map(drop).map_err(failed));
                self.sync();
                return;
            }
            (FileOp::PunchHole { len, .. }, Ok(_)) => flight.done += len,
            // The last one says that pages are not made of a block device's blocks.
            (FileOp::PunchHole { .. }, Err(_))
                if matches!(errno, Some(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL)) =>
            {
                self.holes = false;
            }
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

    /// Asks for what is left to be done of a command.
    fn go_on(&mut self, number: u32) {
        let Some(flight) = &self.flights[number as usize] else { return };
        let (work, done, len) = (flight.work, flight.done, flight.len());
        if done < len {
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
            // All that was written before becomes durable too, which is more than is asked for.
            DeviceAction::Write { fua: true, .. } => self.ask.push_back((number, self.syncs.ask(), SyncPoint::Fua)),
            DeviceAction::Mark { .. } => self.ask.push_back((number, self.syncs.ask(), SyncPoint::Marks)),
            DeviceAction::List { .. } => self.ask.push_back((number, self.syncs.ask(), SyncPoint::BadPages)),
            DeviceAction::Flush => self.ask.push_back((number, self.syncs.ask(), SyncPoint::Flush)),
            _ => return self.finish(number, Ok(())),
        }
        self.sync();
    }

    /// Syncs if somebody asks for one that none has covered, and none is under way.
    fn sync(&mut self) {
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
        // What the executor writes for itself is counted apart, and so is a part that is asked for once more.
        let is_first = flight.done == 0 && !flight.is_parted;
        let can_merge = is_first && matches!(flight.work, DeviceAction::Read { .. } | DeviceAction::Write { .. });
        let role = if can_merge { MergeRole::Single } else { MergeRole::Barred };
        let tag = OperationTag { dev: self.dev, life: self.life, command: number };
        self.outgoing.push_back(RingEntry { role, tag, file: Arc::clone(&self.file), operation, bytes, range });
    }

    /// The bytes of an operation are its command's again.
    fn give_back(&mut self, entry: RingEntry) {
        if let Some(flight) = &mut self.flights[entry.tag.command as usize] {
            // Else they are the zeros.
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
                self.syncs.end(false);
            }
            let unbegun = self.flights[number as usize].as_ref().is_some_and(|flight| flight.is_unbegun(&entry));
            self.give_back(entry);
            self.finish(number, Err(failed(closed())));
            if unbegun {
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
    /// Bytes that are read or written, or made zeros.
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

    /// Whether this operation, which the ring was not given, is its first.
    fn is_unbegun(&self, entry: &RingEntry) -> bool {
        let syncs = matches!(entry.operation, FileOp::Sync(_));
        self.done == 0 && self.put_off == 0 && !self.is_parted && (!syncs || self.work == DeviceAction::Flush)
    }
}

fn closed() -> io::Error {
    io::Error::other("nothing more is asked of it")
}
