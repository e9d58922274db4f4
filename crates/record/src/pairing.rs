//! Beginnings and completions paired to requests with latencies.

use std::collections::{BTreeSet, VecDeque};

use destage_plan::{Nanos, Op, Request, SECTOR_BYTES};

use crate::event::{BlockEvent, Step};
use crate::rwbs::Kind;

/// Requests that may wait for a completion, their own or that of a request before them: beyond that the oldest is given
/// without a latency. No device has as many in flight.
pub const MAX_WAITING: usize = 1 << 16;

/// Which of a request's two moments are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// What the device was asked: requests after merging and splitting, when they were issued to it.
    #[default]
    Issue,
    /// What the block layer was asked: before merging, splitting and waiting in a scheduler's queue.
    Queue,
}

/// What of a device is recorded, and how its requests complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Which moments.
    pub at: At,
    /// The part of the disk that is recorded, in sectors, if it is not the whole: a partition. Offsets count from it.
    pub part: Option<std::ops::Range<u64>>,
    /// Whether the block layer flushes before and after writes itself because the device has a volatile cache; what it
    /// does so for completes by an event without sectors.
    pub flushes: bool,
    /// Whether the device knows FUA itself.
    pub fua: bool,
    /// Whether `N` with sectors may be a zone command instead of write zeroes.
    pub zoned: bool,
}

/// A request as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The request; its time is that of the trace clock.
    pub request: Request,
    /// From its time to its completion, if that was seen.
    pub latency: Option<Nanos>,
}

/// What was seen and could not, or not quite, become requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests recorded, by [`Op`]'s number.
    pub requests: [u64; 4],
    /// Of those, writes that are durable when complete.
    pub fua: u64,
    /// Of those, write-zeroes commands, recorded as writes.
    pub write_zeroes: u64,
    /// Of those, secure erases, recorded as discards.
    pub secure_erases: u64,
    /// Of those, requests whose completion was not seen.
    pub without_completion: u64,
    /// Completions of requests whose beginning was not seen: begun before the recording, or lost.
    pub without_beginning: u64,
    /// Requests that the device did not take at once.
    pub requeued: u64,
    /// Completions with an error; the requests are recorded.
    pub failed: u64,
    /// Commands passed through to the device (SCSI, `NVMe`, ...): not recorded.
    pub passed_through: u64,
    /// Zone commands: not recorded.
    pub zone_commands: u64,
    /// Events whose letters are not known: not recorded.
    pub unknown: u64,
}

impl Counts {
    /// All requests recorded.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.requests.iter().sum()
    }
}

/// A request that has begun.
struct Waiting {
    request: Request,
    /// Its own sectors on the disk; the request's range may be a part of them.
    start: u64,
    end: u64,
    kind: Kind,
    /// Sectors not yet complete.
    left: u64,
    /// Whether its end is an event of its own, after its last sector's.
    has_end: bool,
    requeued: bool,
    state: State,
}

/// Where a request stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Begun,
    /// It has nothing more to wait for; with its latency, if that is known.
    Done(Option<Nanos>),
}

/// Pairs the events of one device, given in order of time.
pub struct Pairing {
    view: View,
    /// In order of their beginnings; the first one's number is `first`.
    waiting: VecDeque<Waiting>,
    first: u64,
    /// Those with sectors that are not complete, by kind, first sector and number.
    ranges: BTreeSet<(Kind, u64, u64)>,
    /// Flushes that are not complete.
    flushes: VecDeque<u64>,
    /// The most sectors that one in `ranges` had since that was empty.
    longest: u64,
    /// How many are not complete.
    outstanding: usize,
    /// Requests still to take.
    room: u64,
    counts: Counts,
}

impl Pairing {
    /// Nothing yet; takes up to `most` requests.
    #[must_use]
    pub fn new(view: View, most: Option<u64>) -> Self {
        Self {
            view,
            waiting: VecDeque::new(),
            first: 0,
            ranges: BTreeSet::new(),
            flushes: VecDeque::new(),
            longest: 0,
            outstanding: 0,
            room: most.unwrap_or(u64::MAX),
            counts: Counts::default(),
        }
    }

    /// What was seen so far.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Requests that have begun and are not complete.
    #[must_use]
    pub const fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Whether no further request is taken.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Takes no further request.
    pub const fn close(&mut self) {
        self.room = 0;
    }

    /// Takes an event; puts requests that are complete, and not preceded by one that is not, into `out`.
    pub fn take(&mut self, event: &BlockEvent, out: &mut Vec<Recorded>) {
        match event.step {
            Step::Begin => self.begin(event),
            Step::Complete => self.complete(event),
            Step::Requeue => self.requeue(event),
        }
        while self.waiting.len() > MAX_WAITING {
            self.give_up(self.first);
            self.put(out);
        }
        self.put(out);
    }

    /// Gives up on all that is not complete, because events have been lost and a later completion of the same sectors
    /// would be taken for theirs.
    pub fn give_up_all(&mut self, out: &mut Vec<Recorded>) {
        for number in self.first..self.first + self.waiting.len() as u64 {
            self.give_up(number);
        }
        self.put(out);
    }

    fn at(&mut self, number: u64) -> Option<&mut Waiting> {
        self.waiting.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    fn begin(&mut self, event: &BlockEvent) {
        let Some(asked) = event.asked else {
            self.counts.unknown += u64::from(self.room > 0);
            return;
        };
        if self.view.at == At::Issue && self.issued_again(event, asked.kind) {
            return;
        }
        if self.room == 0 {
            return;
        }
        let (op, fua) = match asked.kind {
            Kind::Read => (Op::Read, false),
            Kind::Discard => (Op::Discard, false),
            Kind::Flush => (Op::Flush, false),
            Kind::Zone => {
                self.counts.zone_commands += 1;
                return;
            }
            Kind::Other if event.sectors == 0 => {
                self.counts.passed_through += 1;
                return;
            }
            Kind::Other if self.view.zoned => {
                self.counts.zone_commands += 1;
                return;
            }
            // Write zeroes: its range reads as zeroes afterwards, and that has to be kept. A write, though without data.
            Kind::Write | Kind::Other => (Op::Write, asked.fua),
        };
        let sectors = u64::from(event.sectors);
        let (start, end) = (event.sector, event.sector.saturating_add(sectors));
        let flush = Request { time: Nanos(event.time), op: Op::Flush, ..Request::default() };
        if asked.preflush || asked.kind == Kind::Flush {
            let alone = sectors == 0;
            // A flush before data has no completion of its own.
            self.push(Waiting {
                request: flush,
                start: 0,
                end: 0,
                kind: Kind::Flush,
                left: 0,
                has_end: false,
                requeued: false,
                state: if alone { State::Begun } else { State::Done(None) },
            });
        }
        if sectors == 0 || asked.kind == Kind::Flush {
            return;
        }
        let part = self.view.part.clone().unwrap_or(0..u64::MAX);
        let (from, to) = (start.max(part.start), end.min(part.end));
        // No device has sectors whose bytes end beyond 2^64.
        let byte = |sector: u64| sector.checked_sub(part.start)?.checked_mul(SECTOR_BYTES);
        let (Some(offset), Some(last)) = (byte(from), byte(to)) else { return };
        let Some(len) = last.checked_sub(offset).filter(|&len| len > 0) else { return };
        self.counts.write_zeroes += u64::from(asked.kind == Kind::Other);
        self.counts.secure_erases += u64::from(asked.secure);
        self.push(Waiting {
            request: Request { time: Nanos(event.time), offset, len, volume: 0, op, fua },
            start,
            end,
            kind: asked.kind,
            left: sectors,
            has_end: self.view.at == At::Queue
                && self.view.flushes
                && asked.kind == Kind::Write
                && (asked.preflush || (asked.fua && !self.view.fua)),
            requeued: false,
            state: State::Begun,
        });
    }

    fn push(&mut self, waiting: Waiting) {
        if self.room == 0 {
            return;
        }
        self.room -= 1;
        let number = self.first + self.waiting.len() as u64;
        if waiting.state == State::Begun {
            self.outstanding += 1;
            if waiting.kind == Kind::Flush {
                self.flushes.push_back(number);
            } else {
                if self.ranges.is_empty() {
                    self.longest = 0;
                }
                self.longest = self.longest.max(waiting.left);
                self.ranges.insert((waiting.kind, waiting.start, number));
            }
        }
        self.counts.requests[waiting.request.op as usize] += 1;
        self.counts.fua += u64::from(waiting.request.fua);
        self.waiting.push_back(waiting);
    }

    /// Whether this is a request that was sent back: it keeps its first time.
    fn issued_again(&mut self, event: &BlockEvent, kind: Kind) -> bool {
        if kind == Kind::Flush {
            let first = self.flushes.front().copied();
            return first.and_then(|number| self.at(number)).is_some_and(|flush| std::mem::take(&mut flush.requeued));
        }
        let from = (kind, event.sector, 0);
        let to = (kind, event.sector, u64::MAX);
        let numbers: Vec<u64> = self.ranges.range(from..=to).map(|key| key.2).collect();
        for number in numbers {
            let Some(waiting) = self.at(number) else { continue };
            if waiting.requeued {
                waiting.requeued = false;
                return true;
            }
        }
        false
    }

    fn requeue(&mut self, event: &BlockEvent) {
        let Some(asked) = event.asked else { return };
        let number = if asked.kind == Kind::Flush {
            self.flushes.front().copied()
        } else {
            // After a piece of it was complete, a request is sent back without that.
            let sectors = u64::from(event.sectors);
            self.overlapping(asked.kind, event.sector, event.sector.saturating_add(sectors)).first().copied()
        };
        let Some(waiting) = number.and_then(|number| self.at(number)) else { return };
        waiting.requeued = true;
        let start = std::mem::replace(&mut waiting.start, event.sector);
        let (kind, is_range) = (waiting.kind, waiting.kind != Kind::Flush);
        self.counts.requeued += 1;
        if let Some(number) = number.filter(|_| is_range && start != event.sector) {
            self.ranges.remove(&(kind, start, number));
            self.ranges.insert((kind, event.sector, number));
        }
    }

    /// Numbers of the incomplete requests of this kind that share a sector with these, the oldest first.
    fn overlapping(&self, kind: Kind, start: u64, end: u64) -> Vec<u64> {
        let from = (kind, start.saturating_sub(self.longest), 0);
        let to = (kind, end, 0);
        let candidates = self.ranges.range(from..to).map(|key| key.2);
        let mut numbers: Vec<u64> = candidates
            .filter(|number| {
                let waiting = number.checked_sub(self.first).and_then(|i| self.waiting.get(i as usize));
                waiting.is_some_and(|waiting| waiting.end > start && waiting.left > 0)
            })
            .collect();
        numbers.sort_unstable();
        numbers
    }

    fn complete(&mut self, event: &BlockEvent) {
        let Some(asked) = event.asked else { return };
        if matches!(asked.kind, Kind::Zone) || (asked.kind == Kind::Other && (event.sectors == 0 || self.view.zoned)) {
            return;
        }
        self.counts.failed += u64::from(event.failed);
        if asked.kind == Kind::Flush {
            // The block layer's own flush; whoever asked for it is told by an event without sectors.
            if self.view.at == At::Issue {
                self.complete_flush(event.time);
            }
            return;
        }
        if event.sectors == 0 {
            if self.view.at == At::Queue {
                self.complete_end(asked.kind, event.sector, event.time);
            }
            return;
        }
        let (start, end) = (event.sector, event.sector.saturating_add(u64::from(event.sectors)));
        let mut left = end - start;
        // Several at once if they were merged, a piece of one if it was split; of several requests for the same sectors
        // the oldest.
        for number in self.overlapping(asked.kind, start, end) {
            let Some(waiting) = self.at(number) else { continue };
            let shared = waiting.end.min(end) - waiting.start.max(start).min(end);
            let now = shared.min(waiting.left).min(left);
            waiting.left -= now;
            left -= now;
            if waiting.left == 0 && !waiting.has_end {
                self.finish(number, Some(event.time));
            }
            if left == 0 {
                return;
            }
        }
        if left == end - start && self.is_inside(start, end) {
            self.counts.without_beginning += 1;
        }
    }

    fn is_inside(&self, start: u64, end: u64) -> bool {
        self.view.part.as_ref().is_none_or(|part| start < part.end && end > part.start)
    }

    fn complete_flush(&mut self, time: u64) {
        match self.flushes.front().copied() {
            Some(number) => self.finish(number, Some(time)),
            None => self.counts.without_beginning += 1,
        }
    }

    /// The end of a write with a flush behind it, or of a flush.
    fn complete_end(&mut self, kind: Kind, sector: u64, time: u64) {
        let numbers = self.ranges.range((kind, sector, 0)..=(kind, sector, u64::MAX)).map(|key| key.2);
        let ended = numbers.into_iter().find(|number| {
            let waiting = number.checked_sub(self.first).and_then(|i| self.waiting.get(i as usize));
            waiting.is_some_and(|waiting| waiting.has_end && waiting.left == 0)
        });
        match ended {
            Some(number) => self.finish(number, Some(time)),
            None => self.complete_flush(time),
        }
    }

    fn give_up(&mut self, number: u64) {
        self.finish(number, None);
    }

    fn finish(&mut self, number: u64, time: Option<u64>) {
        let Some(waiting) = self.at(number).filter(|waiting| waiting.state == State::Begun) else { return };
        let begun = waiting.request.time;
        waiting.state = State::Done(time.map(|time| Nanos(time).since(begun)));
        let key = (waiting.kind, waiting.start, number);
        self.outstanding -= 1;
        self.counts.without_completion += u64::from(time.is_none());
        if key.0 == Kind::Flush {
            // Nearly always the first: the order is that of their beginnings.
            if self.flushes.pop_front_if(|flush| *flush == number).is_none() {
                self.flushes.retain(|&flush| flush != number);
            }
        } else {
            self.ranges.remove(&key);
        }
    }

    fn put(&mut self, out: &mut Vec<Recorded>) {
        while let Some(&Waiting { request, state: State::Done(latency), .. }) = self.waiting.front() {
            self.waiting.pop_front();
            self.first += 1;
            out.push(Recorded { request, latency });
        }
    }
}
