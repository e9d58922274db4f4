//! The volatile write cache of a drive: writes are answered when the drive has them, and reach the
//! medium later, in an order of its own. It is what a flush waits for, and what FUA goes past.
//!
//! * A write that fits is answered after its transfer. One that does not waits for room; one larger
//!   than the whole cache goes to the medium at once, as one with FUA does.
//! * Pages in the cache go to the medium in ascending order from where the last write ended, and
//!   from the lowest again (C-SCAN), neighbours in one command: one command at a time while the
//!   medium has nothing else to do, several as long as something waits for them or half of the
//!   cache is full.
//! * A flush is answered when all that came before it is on the medium, and the medium has flushed,
//!   too.
//! * A read of pages that are all in the cache is answered after its transfer; any other goes to
//!   the medium. Writes that come after a flush wait for it, as with ATA drives, whose flush is
//!   none of the commands that are queued.
//!
//! The model knows no bytes: a page that is written again while its older content is on its way
//! simply goes to the medium once more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use destage_plan::{Nanos, PlacementStream};

use super::device::DeviceOp;

/// A drive's write cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveCacheSetup {
    /// Pages that it holds.
    pub pages: u32,
    /// Transfer of a page between host and cache.
    pub page_time: Nanos,
}

/// Most pages of a command of the cache, and most such commands at a time.
const RUN: u32 = 128;
const AT_A_TIME: usize = 8;

/// The tags of the cache's own commands have this bit; those of the host's have not.
const OWN: u32 = 1 << 31;

/// A command to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ToMedium {
    pub(super) op: DeviceOp,
    pub(super) first: u64,
    pub(super) pages: u32,
    pub(super) tag: u32,
    /// Stream of what it writes.
    pub(super) stream: PlacementStream,
}

/// A host's command that waits for the cache.
#[derive(Clone, Copy, Debug)]
enum CacheWaiter {
    /// A write without room.
    Write { first: u64, pages: u32, tag: u32 },
    /// A flush: until nothing is left. Nothing comes meanwhile.
    Flush { tag: u32 },
}

/// Pages of a command of the cache's own.
#[derive(Clone, Copy, Debug)]
struct CachedRun {
    first: u64,
    pages: u32,
}

/// Holds the cached pages and the commands that wait for them.
#[derive(Clone, Debug)]
pub(super) struct DriveCache {
    setup: DriveCacheSetup,
    /// Pages that are neither on the medium nor on their way there.
    dirty: BTreeSet<u64>,
    /// Holds the commands on their way to the medium, by tag.
    runs: BTreeMap<u32, CachedRun>,
    /// Pages in `runs`: they take room until they are on the medium.
    on_their_way: u32,
    held: VecDeque<CacheWaiter>,
    /// Answers that need no medium: when, and the tag.
    due: VecDeque<(Nanos, u32)>,
    /// The transfers follow each other.
    transfers_until: Nanos,
    next_tag: u32,
    /// Holds the page at which the last run ended; the next run begins there.
    position: u64,
    /// Commands of the host that the medium has.
    of_host: u32,
    /// Pages of writes that were answered from the cache.
    pub(super) pages_cached: u64,
}

impl DriveCache {
    pub(super) fn new(setup: DriveCacheSetup) -> Self {
        Self {
            setup,
            dirty: BTreeSet::new(),
            runs: BTreeMap::new(),
            on_their_way: 0,
            held: VecDeque::new(),
            due: VecDeque::new(),
            transfers_until: Nanos::ZERO,
            next_tag: 0,
            position: 0,
            of_host: 0,
            pages_cached: 0,
        }
    }

    /// Takes a command of the host; what the medium is asked for in consequence goes into `out`.
    pub(super) fn submit(&mut self, now: Nanos, command: ToMedium, out: &mut Vec<ToMedium>) {
        let ToMedium { op, first, pages, tag, .. } = command;
        debug_assert!(tag & OWN == 0, "the host has that many commands at a time");
        match op {
            DeviceOp::Read if self.holds(first, pages) => self.answer(now, pages, tag),
            // A larger write would never find room.
            DeviceOp::Write if pages <= self.setup.pages => {
                // In order, so that no write waits for ever.
                if self.held.is_empty() && self.has_room(first, pages) {
                    self.take(now, first, pages, tag);
                } else {
                    self.held.push_back(CacheWaiter::Write { first, pages, tag });
                }
            }
            DeviceOp::Flush => self.held.push_back(CacheWaiter::Flush { tag }),
            DeviceOp::Read | DeviceOp::Collect(_) => self.pass_on(command, out),
            DeviceOp::Write | DeviceOp::WriteFua | DeviceOp::Trim => {
                // What it replaces need not be written any more.
                for page in first..first + u64::from(pages) {
                    self.dirty.remove(&page);
                }
                self.pass_on(command, out);
            }
        }
        self.go_on(now, out);
    }

    /// The medium has done a command. Whose it was: the host's tag, or none.
    pub(super) fn done(&mut self, now: Nanos, tag: u32, out: &mut Vec<ToMedium>) -> Option<u32> {
        let host = if tag & OWN == 0 {
            self.of_host -= 1;
            Some(tag)
        } else {
            let run = self.runs.remove(&tag).expect("the cache's own command is known");
            self.on_their_way -= run.pages;
            None
        };
        self.go_on(now, out);
        host
    }

    /// Returns the time of the next answer that needs no medium.
    pub(super) fn next_answer(&self) -> Option<Nanos> {
        self.due.front().map(|due| due.0)
    }

    /// Takes that answer.
    pub(super) fn take_answer(&mut self) -> Option<(Nanos, u32)> {
        self.due.pop_front()
    }

    fn holds(&self, first: u64, pages: u32) -> bool {
        let on_its_way =
            |page| self.runs.values().any(|run| (run.first..run.first + u64::from(run.pages)).contains(&page));
        (first..first + u64::from(pages)).all(|page| self.dirty.contains(&page) || on_its_way(page))
    }

    fn has_room(&self, first: u64, pages: u32) -> bool {
        // Pages written again take no further room.
        let known = self.dirty.range(first..first + u64::from(pages)).count() as u32;
        self.dirty.len() as u32 + self.on_their_way + pages - known <= self.setup.pages
    }

    /// A transfer, and the answer after it.
    fn answer(&mut self, now: Nanos, pages: u32, tag: u32) {
        // One interface serves all transfers, so they follow one another.
        self.transfers_until = self.transfers_until.max(now) + Nanos(self.setup.page_time.0 * u64::from(pages));
        self.due.push_back((self.transfers_until, tag));
    }

    fn take(&mut self, now: Nanos, first: u64, pages: u32, tag: u32) {
        self.dirty.extend(first..first + u64::from(pages));
        self.pages_cached += u64::from(pages);
        self.answer(now, pages, tag);
    }

    fn pass_on(&mut self, command: ToMedium, out: &mut Vec<ToMedium>) {
        self.of_host += 1;
        out.push(command);
    }

    /// Lets go what need not wait any more, and sends to the medium what should be there.
    fn go_on(&mut self, now: Nanos, out: &mut Vec<ToMedium>) {
        while let Some(&held) = self.held.front() {
            match held {
                CacheWaiter::Write { first, pages, tag } if self.has_room(first, pages) => {
                    self.take(now, first, pages, tag);
                }
                // The medium has a flush of its own, which must cover the pages of the last runs.
                CacheWaiter::Flush { tag } if self.dirty.is_empty() && self.runs.is_empty() => {
                    let stream = PlacementStream::Unlabelled;
                    self.pass_on(ToMedium { op: DeviceOp::Flush, first: 0, pages: 0, tag, stream }, out);
                }
                _ => break,
            }
            self.held.pop_front();
        }
        // An idle drive writes back one run at a time, so that a new command waits for one run at most.
        let pressed = !self.held.is_empty() || 2 * self.dirty.len() as u64 >= u64::from(self.setup.pages);
        let at_a_time = match () {
            () if pressed => AT_A_TIME,
            () if self.of_host == 0 => 1,
            () => 0,
        };
        while self.runs.len() < at_a_time {
            let Some(run) = self.next_run() else { break };
            let tag = OWN | self.next_tag;
            self.next_tag = (self.next_tag + 1) & !OWN;
            self.on_their_way += run.pages;
            self.runs.insert(tag, run);
            // Drives with FDP have no volatile cache.
            let stream = PlacementStream::Unlabelled;
            out.push(ToMedium { op: DeviceOp::Write, first: run.first, pages: run.pages, tag, stream });
        }
    }

    /// Takes the next neighbours out of the cache.
    fn next_run(&mut self) -> Option<CachedRun> {
        // C-SCAN keeps the arm moving in one direction and starves no page.
        let first = *self.dirty.range(self.position..).next().or_else(|| self.dirty.first())?;
        let mut run = CachedRun { first, pages: 0 };
        while run.pages < RUN && self.dirty.remove(&(first + u64::from(run.pages))) {
            run.pages += 1;
        }
        self.position = first + u64::from(run.pages);
        Some(run)
    }
}
