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

/// Says when the first operation of a die that frees cache ends if no further reads come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FreeingEnd {
    /// Tells that something changed since it was worked out.
    Unknown,
    /// Tells that no operation frees cache.
    Never,
    /// Its end, and its place in the FIFO.
    At(u64, u32),
}

impl FreeingEnd {
    /// Returns what is known once something delays the operations.
    #[inline]
    fn delayed(self) -> Self {
        if self == Self::Never { self } else { Self::Unknown }
    }
}

/// Holds a die's clock, the reads of its planes, and its operations.
#[derive(Clone, Debug)]
pub(super) struct DieQueue {
    /// Until when it has worked off operations or read for hosts.
    clock: u64,
    /// From when on it reads for hosts: it has been suspended, or what reads waited for has ended.
    suspended: u64,
    /// End of the last host read of all planes.
    last_read: u64,
    operations: VecDeque<DieOperation>,
    freeing: FreeingEnd,
    /// Slices among the operations.
    slices: u32,
    /// Lists begin and end of slices that a read waited for and that may not have ended, the oldest first.
    awaited: VecDeque<(u64, u64)>,
    /// Begins and ends of slices that left the FIFO and were not [told](Self::forget_slice), if somebody is told of them.
    ended: Option<VecDeque<(u64, u64)>>,
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
            operations: VecDeque::new(),
            freeing: FreeingEnd::Never,
            slices: 0,
            awaited: VecDeque::new(),
            ended: None,
            reads: [0; MAX_PLANES as usize],
        }
    }

    /// Adds an operation behind all others.
    #[inline]
    pub(super) fn push(&mut self, operation: DieOperation) {
        self.slices += u32::from(operation.kind == OperationKind::Slice);
        if operation.frees > 0 && self.freeing == FreeingEnd::Never {
            self.freeing = FreeingEnd::Unknown;
        }
        self.operations.push_back(operation);
    }

    /// Drops the operations that end by `until`; returns how many sectors of the cache their ends free.
    #[inline]
    pub(super) fn advance(&mut self, until: u64) -> u32 {
        let mut freed = 0;
        while let Some(end) = self.operations.front().map(|head| self.end_of(head))
            && end <= until
        {
            freed += self.drop_head(end);
        }
        freed
    }

    /// Returns when the first operation ends if no further reads come.
    #[inline]
    fn end_of(&self, head: &DieOperation) -> u64 {
        self.clock.max(head.ready) + head.remaining
    }

    /// Drops the first operation, which ends at `end`; returns how many sectors of the cache that frees.
    #[inline]
    fn drop_head(&mut self, end: u64) -> u32 {
        let Some(head) = self.operations.pop_front() else { return 0 };
        self.clock = end;
        if head.kind == OperationKind::Slice {
            self.slices -= 1;
            if let Some(ended) = &mut self.ended {
                // Nothing suspends a slice.
                ended.push_back((end - head.remaining, end));
            }
        }
        // What is behind ends when it would have: this changes its place alone.
        self.freeing = match self.freeing {
            FreeingEnd::At(end, at) if at > 0 => FreeingEnd::At(end, at - 1),
            FreeingEnd::Never => FreeingEnd::Never,
            FreeingEnd::At(..) | FreeingEnd::Unknown => FreeingEnd::Unknown,
        };
        head.frees.into()
    }

    /// Returns when the first operation that frees cache ends if no further reads come; drops what has ended by `now` before it.
    #[inline]
    pub(super) fn first_freeing(&mut self, now: u64) -> Option<u64> {
        if self.freeing == FreeingEnd::Unknown {
            // What was promised frees nothing any more. Without reads nothing else drops it, and the FIFO of a drive that is
            // only written to would grow for ever.
            while let Some(end) = self.operations.front().filter(|head| head.frees == 0).map(|head| self.end_of(head))
                && end <= now
            {
                self.drop_head(end);
            }
            let first = self.ends().zip(0..).find(|((own, _), _)| own.frees > 0);
            let found = first.map_or(FreeingEnd::Never, |((_, (_, end)), at)| FreeingEnd::At(end, at));
            self.freeing = found;
        }
        match self.freeing {
            FreeingEnd::At(end, _) => Some(end),
            FreeingEnd::Never | FreeingEnd::Unknown => None,
        }
    }

    /// Returns the operations with the begin and the end of each if no further reads come.
    fn ends(&self) -> impl Iterator<Item = (&DieOperation, (u64, u64))> {
        self.operations.iter().scan(self.clock, |clock, own| {
            let begin = own.ready.max(*clock);
            *clock = begin + own.remaining;
            Some((own, (begin, *clock)))
        })
    }

    /// Takes the cache's sectors that the [first](Self::first_freeing) operation to free some would free: they are promised
    /// to somebody.
    pub(super) fn take_freed(&mut self) -> u32 {
        let FreeingEnd::At(_, at) = std::mem::replace(&mut self.freeing, FreeingEnd::Unknown) else { return 0 };
        self.operations.get_mut(at as usize).map_or(0, |own| std::mem::take(&mut own.frees).into())
    }

    /// Has the die remember slices until they are [forgotten](Self::forget_slice).
    pub(super) fn watch_slices(&mut self) {
        self.ended.get_or_insert_default();
    }

    /// Returns begin and end of the first slice that was not forgotten, if no further reads come.
    pub(super) fn first_slice(&self) -> Option<(u64, u64)> {
        if self.slices == 0 && self.ended.as_ref().is_none_or(VecDeque::is_empty) {
            return None;
        }
        let ended = self.ended.as_ref().and_then(VecDeque::front).copied();
        ended.or_else(|| self.ends().find(|(own, _)| own.kind == OperationKind::Slice).map(|(_, span)| span))
    }

    /// Forgets the first slice that was not forgotten, and that has ended; returns how many sectors of the cache the operations
    /// free that ended before it.
    pub(super) fn forget_slice(&mut self) -> u32 {
        let is_queued = self.ended.as_ref().is_some_and(VecDeque::is_empty);
        let freed = self.first_slice().filter(|_| is_queued).map_or(0, |(_, end)| self.advance(end));
        self.ended.as_mut().and_then(VecDeque::pop_front);
        freed
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
        self.ends().last().map_or(self.clock, |(_, (_, end))| end)
    }

    /// Returns the end of the slice of collection that is under way at `now`.
    #[inline]
    pub(super) fn slice_under_way(&self, now: u64) -> Option<u64> {
        if self.slices == 0 && self.awaited.is_empty() {
            return None;
        }
        let queued = self.ends().take_while(|(_, (begin, _))| *begin <= now);
        let queued = queued.filter(|(own, _)| own.kind == OperationKind::Slice).map(|(_, span)| span);
        self.awaited.iter().copied().chain(queued).find(|&(begin, end)| begin <= now && now < end).map(|(_, end)| end)
    }

    /// Returns for how long slices that reads wait for are under way from `from` to `until`.
    #[inline]
    pub(super) fn awaited_between(&self, from: u64, until: u64) -> u64 {
        self.awaited.iter().map(|&(begin, end)| end.min(until).saturating_sub(begin.max(from))).sum()
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
            // Reads delay whatever is in the FIFO.
            self.freeing = self.freeing.delayed();
            let begin = self.clock.max(head.ready);
            if in_read || begin < now {
                let is_slice = head.kind == OperationKind::Slice;
                if !in_read && is_slice || head.bypassed >= times.bypass {
                    // Reads of all planes wait for its end, those that arrive later as well.
                    let end = begin + head.remaining;
                    start = start.max(end);
                    self.suspended = end;
                    if is_slice {
                        self.awaited.retain(|&(_, end)| end > now);
                        self.awaited.push_back((begin, end));
                    }
                    freed = self.drop_head(end);
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

    /// Moves another sector of the flash page that a plane read last, if that read ended at `end` and has not at `now`;
    /// returns when it is there. After its end the die may have gone on with something else.
    #[inline]
    pub(super) fn read_on(&mut self, now: u64, plane: usize, end: u64, transfer: u64) -> Option<u64> {
        (self.reads[plane] == end && now <= end).then(|| {
            self.freeing = self.freeing.delayed();
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
