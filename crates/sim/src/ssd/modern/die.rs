//! Works off a die's operations when somebody looks at it: there is no event for an end.
//!
//! A die has a FIFO of operations and reads of hosts, which go before operations: a program or an erase is suspended for
//! them, a slice of collection is not. All times are in nanoseconds.

use std::collections::VecDeque;

use super::config::MAX_PLANES;

/// Says which operation of a die it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationKind {
    /// Reads valid sectors for collection.
    Slice,
    /// Programs a unit.
    Program,
    /// Erases the die's blocks of a superblock.
    Erase,
}

/// Describes an operation that waits for its die, or is under way or suspended there.
#[derive(Clone, Copy, Debug)]
pub(super) struct DieOperation {
    /// From when on it can begin.
    pub(super) ready: u64,
    /// Time that it still takes.
    pub(super) remaining: u64,
    /// The unit that is programmed, by the drive's number.
    pub(super) unit: u32,
    /// Sectors of the protected cache that its end frees.
    pub(super) frees: u16,
    /// Host reads that went before it.
    pub(super) bypassed: u16,
    /// Says what it is.
    pub(super) kind: OperationKind,
}

/// Holds how long a read takes, and what it can do to operations.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadTimes {
    /// Sensing a flash page and moving a sector of it.
    pub(super) first: u64,
    /// Until a program or an erase has been suspended.
    pub(super) suspend: u64,
    /// Reads that go before one operation at most.
    pub(super) bypass: u16,
}

/// Holds a die's clock, the reads of its planes, and its operations.
#[derive(Clone, Debug)]
pub(super) struct DieQueue {
    /// Until when it has worked off operations or read for hosts.
    clock: u64,
    /// Since when it has been suspended.
    suspended: u64,
    /// End of the last host read of all planes.
    last_read: u64,
    /// End of the last slice that a read waited for.
    slice_end: u64,
    operations: VecDeque<DieOperation>,
    /// End of each plane's last host read.
    reads: [u64; MAX_PLANES as usize],
}

impl DieQueue {
    /// Returns an idle die at time zero.
    pub(super) fn new() -> Self {
        Self {
            clock: 0,
            suspended: 0,
            last_read: 0,
            slice_end: 0,
            operations: VecDeque::new(),
            reads: [0; MAX_PLANES as usize],
        }
    }

    /// Adds an operation behind all others.
    #[inline]
    pub(super) fn push(&mut self, operation: DieOperation) {
        self.operations.push_back(operation);
    }

    /// Drops the operations that end by `until`; returns how many sectors of the cache their ends free.
    #[inline]
    pub(super) fn advance(&mut self, until: u64) -> u32 {
        let mut freed = 0;
        while let Some(head) = self.operations.front() {
            let end = self.clock.max(head.ready) + head.remaining;
            if end > until {
                break;
            }
            self.clock = end;
            freed += u32::from(head.frees);
            self.operations.pop_front();
        }
        freed
    }

    /// Returns when the first operation that frees cache ends if no further reads come, and where it is in the FIFO.
    pub(super) fn first_freeing(&self) -> Option<(u64, usize)> {
        let mut end = self.clock;
        for (at, operation) in self.operations.iter().enumerate() {
            end = end.max(operation.ready) + operation.remaining;
            if operation.frees > 0 {
                return Some((end, at));
            }
        }
        None
    }

    /// Takes the cache's sectors that the operation at this place of the FIFO frees: they are promised to somebody.
    pub(super) fn take_freed(&mut self, at: usize) -> u32 {
        self.operations.get_mut(at).map_or(0, |operation| u32::from(std::mem::take(&mut operation.frees)))
    }

    /// Returns true if the unit's program has not been dropped.
    pub(super) fn holds_program(&self, unit: u32) -> bool {
        self.operations.iter().any(|own| own.kind == OperationKind::Program && own.unit == unit)
    }

    /// Returns how many sectors of the cache the ends of all operations free.
    pub(super) fn freeing(&self) -> u32 {
        self.operations.iter().map(|own| u32::from(own.frees)).sum()
    }

    /// Returns when all operations have ended if no further reads come.
    pub(super) fn idle_at(&self) -> u64 {
        self.operations.iter().fold(self.clock, |end, own| end.max(own.ready) + own.remaining)
    }

    /// Returns true if a slice of collection is under way at `now`.
    pub(super) fn is_in_slice(&self, now: u64) -> bool {
        if now < self.slice_end {
            return true;
        }
        let mut end = self.clock;
        for own in &self.operations {
            let start = end.max(own.ready);
            end = start + own.remaining;
            if now < end {
                return start <= now && own.kind == OperationKind::Slice;
            }
        }
        false
    }

    /// Reads a sector of a plane for a host, at `now`, to which the die was [advanced](Self::advance); returns when its data
    /// has left the die, and how many sectors of the cache an operation frees that had to end first.
    #[inline]
    pub(super) fn read(&mut self, now: u64, plane: usize, times: &ReadTimes) -> (u64, u32) {
        let in_read = self.last_read > now;
        let mut start = now.max(self.reads[plane]);
        if in_read {
            start = start.max(self.suspended);
        }
        let mut freed = 0;
        if let Some(head) = self.operations.front_mut() {
            let begin = self.clock.max(head.ready);
            if in_read || begin < now {
                let passes = head.bypassed < times.bypass;
                if !in_read && head.kind == OperationKind::Slice {
                    start = begin + head.remaining;
                    self.slice_end = start;
                    self.clock = start;
                    self.operations.pop_front();
                } else if !passes {
                    let end = begin + head.remaining;
                    freed = u32::from(head.frees);
                    self.clock = end;
                    start = start.max(end);
                    self.operations.pop_front();
                } else {
                    head.bypassed += 1;
                    if !in_read {
                        head.remaining -= now - begin;
                        head.ready = 0;
                        start = now + times.suspend;
                        self.suspended = start;
                    }
                }
            }
        }
        let end = start + times.first;
        self.ends_read(plane, end);
        (end, freed)
    }

    /// Moves another sector of the flash page that a plane read last, if that read ended at `end`; returns when it is there.
    #[inline]
    pub(super) fn read_on(&mut self, plane: usize, end: u64, transfer: u64) -> Option<u64> {
        (self.reads[plane] == end).then(|| {
            self.ends_read(plane, end + transfer);
            end + transfer
        })
    }

    #[inline]
    fn ends_read(&mut self, plane: usize, end: u64) {
        self.reads[plane] = end;
        self.last_read = self.last_read.max(end);
        self.clock = self.clock.max(end);
    }
}
