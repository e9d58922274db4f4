//! Beginnings and completions paired to requests with latencies.

use std::collections::{BTreeSet, VecDeque};

use destage_plan::{Nanos, Op, Request, SECTOR_BYTES};

use crate::event::{BlockEvent, RequestStep};
use crate::rwbs::RequestKind;

/// Requests that may wait for a completion, their own or that of a request before them: beyond that
/// the oldest is given without a latency. No device has as many in flight.
pub const MAX_WAITING: usize = 1 << 16;

/// Selects which moments of a request are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordedMoments {
    /// Records the requests that the device was asked for: after merging and splitting, when they were issued to
    /// it.
    #[default]
    Issue,
    /// Records the requests that the block layer was asked for: before merging, splitting and waiting in a
    /// scheduler's queue.
    Queue,
}

/// Describes the recorded part of a device, and how its requests complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedView {
    /// Selects the moments.
    pub at: RecordedMoments,
    /// The part of the disk that is recorded, in sectors, if it is not the whole: a partition.
    /// Offsets count from it.
    pub part: Option<std::ops::Range<u64>>,
    /// Is true if the block layer flushes before and after writes, because the device has a volatile cache.
    ///
    /// These flushes complete by an event without sectors.
    pub flushes: bool,
    /// Is true if the device has FUA itself.
    pub fua: bool,
    /// Is true if `N` with sectors may be a zone command instead of write zeroes.
    pub zoned: bool,
}

/// A request as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedRequest {
    /// The request; its time is that of the trace clock.
    pub request: Request,
    /// From its time to its completion, if that was seen.
    pub latency: Option<Nanos>,
}

/// Counts the events that could not, or not quite, become requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairingCounts {
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
    /// Completions of requests that had begun before the recording. They are counted as long as it
    /// is known that no other beginning was missed: until events were lost, or a request was given
    /// up, or beginnings were not seen any more.
    pub without_beginning: u64,
    /// Requests that were not to wait (`REQ_NOWAIT`) and would have had to: whoever asked was told
    /// to ask again, so that they are not recorded; the repetition is.
    pub retracted: u64,
    /// Times that the device did not take one of those at once.
    pub requeued: u64,
    /// Of those, requests that completed with an error.
    pub failed: u64,
    /// Commands passed through to the device (SCSI, `NVMe`, ...): not recorded. They have no
    /// sectors, so that those of the whole disk are counted for a partition too.
    pub passed_through: u64,
    /// Zone commands: not recorded.
    pub zone_commands: u64,
    /// Events whose letters are not known, or whose sectors end beyond byte 2^64: not recorded.
    pub unknown: u64,
}

impl PairingCounts {
    /// All requests recorded.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.requests.iter().sum()
    }
}

/// A request that has begun.
struct BegunRequest {
    request: Request,
    /// Holds its own first sector on the disk; the request's range may be a part of its sectors.
    start: u64,
    end: u64,
    kind: RequestKind,
    /// Sectors not yet complete.
    left: u64,
    /// Is true if its end is an event of its own, after the last sector's.
    has_end: bool,
    /// A flush that came with the write behind it, and has no completion of its own.
    before_data: bool,
    /// Is true if events were lost while it began: it gets no latency.
    unsure: bool,
    secure: bool,
    failed: bool,
    /// Is true if it was sent back and not issued again yet.
    requeued: bool,
    requeues: u64,
    state: PairingState,
}

/// Tells the state of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PairingState {
    Begun,
    /// Waits for nothing more; holds the latency, if it is known.
    Done(Option<Nanos>),
    /// Is not to be recorded.
    Retracted,
}

/// Pairs the events of one device, given in order of time.
pub struct EventPairing {
    view: RecordedView,
    /// In order of their beginnings; the first one's number is `first`.
    waiting: VecDeque<BegunRequest>,
    first: u64,
    /// Lists the incomplete requests with sectors, by kind, first sector and number.
    ranges: BTreeSet<(RequestKind, u64, u64)>,
    /// Flushes that are not complete.
    flushes: VecDeque<u64>,
    /// The most sectors that one in `ranges` had since that was empty.
    longest: u64,
    /// Counts the incomplete requests that will get a latency when they complete.
    outstanding: usize,
    /// Requests to record.
    most: u64,
    /// Requests recorded, and those in `waiting` that are not retracted. More than wanted are
    /// taken, up to [`MAX_WAITING`], because some may be retracted.
    taken: u64,
    /// Up to when every beginning since the recording's was seen.
    known_until: u64,
    /// Up to when events were being lost; 0 if they are not.
    unsure_until: u64,
    counts: PairingCounts,
}

impl EventPairing {
    /// Nothing yet; takes up to `most` requests.
    #[must_use]
    pub fn new(view: RecordedView, most: Option<u64>) -> Self {
        Self {
            view,
            waiting: VecDeque::new(),
            first: 0,
            ranges: BTreeSet::new(),
            flushes: VecDeque::new(),
            longest: 0,
            outstanding: 0,
            most: most.unwrap_or(u64::MAX),
            taken: 0,
            known_until: u64::MAX,
            unsure_until: 0,
            counts: PairingCounts::default(),
        }
    }

    /// Returns the counts so far.
    #[must_use]
    pub const fn counts(&self) -> &PairingCounts {
        &self.counts
    }

    /// Requests that have begun and are not complete.
    #[must_use]
    pub const fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Requests that have begun, as far as they are wanted.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken.min(self.most)
    }

    /// Returns true if as many requests have begun as are wanted.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.taken >= self.most
    }

    /// Says that beginnings later than `time` may not be seen.
    pub fn close(&mut self, time: u64) {
        self.known_until = self.known_until.min(time);
    }

    /// Forgets the youngest requests if there are more than are wanted.
    pub fn cut_surplus(&mut self) {
        while self.taken > self.most {
            let number = self.first + self.waiting.len() as u64 - 1;
            self.finish(number, None);
            let Some(waiting) = self.waiting.pop_back() else { return };
            self.taken -= u64::from(waiting.state != PairingState::Retracted);
        }
    }

    /// Takes an event; puts requests that are complete, and not preceded by one that is not, into
    /// `out`.
    pub fn take(&mut self, event: &BlockEvent, out: &mut Vec<RecordedRequest>) {
        if self.unsure_until > 0 && event.time > self.unsure_until {
            self.unsure_until = 0;
            self.give_up_all(out);
        }
        match event.step {
            RequestStep::Begin => self.begin(event),
            RequestStep::Complete => self.complete(event),
            RequestStep::Requeue => self.requeue(event),
            RequestStep::Retract => self.retract(event),
        }
        self.put(out);
        while self.waiting.len() > MAX_WAITING {
            // A flush that came with a write leaves together with that write.
            let before_data = self.waiting.front().is_some_and(|waiting| waiting.before_data);
            self.give_up(self.first + u64::from(before_data));
            self.put(out);
        }
    }

    /// Gives up on all that is not complete: it is recorded without a latency.
    pub fn give_up_all(&mut self, out: &mut Vec<RecordedRequest>) {
        for number in self.first..self.first + self.waiting.len() as u64 {
            self.give_up(number);
        }
        self.put(out);
    }

    /// Says that events up to `time` have been lost, some of which may be younger than the last one
    /// taken. A completion may then be that of another request for the same sectors than the one
    /// which is known. So what is under way gets no latency, nor does what begins up to `time`.
    pub fn lost(&mut self, time: u64, out: &mut Vec<RecordedRequest>) {
        // A completion may now belong to a lost request for the same sectors: a latency would be a guess.
        self.give_up_all(out);
        self.known_until = 0;
        self.unsure_until = self.unsure_until.max(time);
    }

    fn at(&mut self, number: u64) -> Option<&mut BegunRequest> {
        self.waiting.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    fn begin(&mut self, event: &BlockEvent) {
        let wanted = u64::from(!self.is_full());
        let sectors = u64::from(event.sectors);
        let (start, end) = (event.sector, event.sector.saturating_add(sectors));
        let is_inside = self.is_inside(start, end);
        let Some(asked) = event.asked else {
            // Events of other parts of the disk are not this recording's.
            self.counts.unknown += if sectors == 0 || is_inside { wanted } else { 0 };
            return;
        };
        if self.view.at == RecordedMoments::Issue && self.issued_again(event, asked.kind) {
            return;
        }
        // Beyond what is wanted, requests are taken in case some are retracted, but only up to a bound.
        if self.is_full() && self.waiting.len() >= MAX_WAITING {
            self.close(event.time);
            return;
        }
        let zone = if is_inside { wanted } else { 0 };
        let (op, fua) = match asked.kind {
            RequestKind::Read => (Op::Read, false),
            RequestKind::Discard => (Op::Discard, false),
            RequestKind::Flush => (Op::Flush, false),
            RequestKind::Zone => {
                self.counts.zone_commands += zone;
                return;
            }
            RequestKind::Other if event.sectors == 0 => {
                self.counts.passed_through += wanted;
                return;
            }
            RequestKind::Other if self.view.zoned => {
                self.counts.zone_commands += zone;
                return;
            }
            // Zeroes must be kept like data, so a trace has them as a write, though it moves none.
            RequestKind::Write | RequestKind::Other => (Op::Write, asked.fua),
        };
        let flush = BegunRequest {
            request: Request { time: Nanos(event.time), op: Op::Flush, ..Request::default() },
            start: 0,
            end: 0,
            kind: RequestKind::Flush,
            left: 0,
            has_end: false,
            before_data: false,
            unsure: event.time <= self.unsure_until,
            secure: false,
            failed: false,
            requeued: false,
            requeues: 0,
            state: PairingState::Begun,
        };
        if sectors == 0 || asked.kind == RequestKind::Flush {
            if asked.preflush || asked.kind == RequestKind::Flush {
                self.push(flush);
            }
            return;
        }
        let part = self.view.part.clone().unwrap_or(0..u64::MAX);
        let (from, to) = (start.max(part.start), end.min(part.end));
        let byte = |sector: u64| sector.checked_sub(part.start)?.checked_mul(SECTOR_BYTES);
        let range = byte(from).zip(byte(to)).filter(|_| is_inside);
        if asked.preflush {
            // A flush of one part of a disk flushes all of it.
            self.push(BegunRequest { before_data: range.is_some(), state: PairingState::Done(None), ..flush });
        }
        let Some((offset, last)) = range else {
            // No device has sectors whose bytes end beyond 2^64.
            self.counts.unknown += if is_inside { wanted } else { 0 };
            return;
        };
        self.push(BegunRequest {
            request: Request { offset, len: last - offset, op, fua, ..flush.request },
            start,
            end,
            kind: asked.kind,
            left: sectors,
            // The block layer then writes in several steps, and tells its caller by an event without sectors.
            has_end: self.view.at == RecordedMoments::Queue
                && self.view.flushes
                && asked.kind == RequestKind::Write
                && (asked.preflush || (asked.fua && !self.view.fua)),
            secure: asked.secure,
            ..flush
        });
    }

    fn push(&mut self, waiting: BegunRequest) {
        self.taken += 1;
        let number = self.first + self.waiting.len() as u64;
        if waiting.state == PairingState::Begun {
            self.outstanding += usize::from(!waiting.unsure);
            if waiting.kind == RequestKind::Flush {
                self.flushes.push_back(number);
            } else {
                // The longest request bounds how far back a search begins, and may shrink only when none is left.
                if self.ranges.is_empty() {
                    self.longest = 0;
                }
                self.longest = self.longest.max(waiting.left);
                self.ranges.insert((waiting.kind, waiting.start, number));
            }
        }
        self.waiting.push_back(waiting);
    }

    /// Returns true if this is a request that was sent back: it keeps its first time.
    fn issued_again(&mut self, event: &BlockEvent, kind: RequestKind) -> bool {
        if kind == RequestKind::Flush {
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
        let number = if asked.kind == RequestKind::Flush {
            self.flushes.front().copied()
        } else {
            // After a part was complete, a request is sent back without that part.
            let sectors = u64::from(event.sectors);
            self.overlapping(asked.kind, event.sector, event.sector.saturating_add(sectors)).first().copied()
        };
        let Some(waiting) = number.and_then(|number| self.at(number)) else { return };
        waiting.requeued = true;
        waiting.requeues += 1;
        let start = std::mem::replace(&mut waiting.start, event.sector);
        let (kind, is_range) = (waiting.kind, waiting.kind != RequestKind::Flush);
        if let Some(number) = number.filter(|_| is_range && start != event.sector) {
            self.ranges.remove(&(kind, start, number));
            self.ranges.insert((kind, event.sector, number));
        }
    }

    /// Numbers of the incomplete requests of this kind that share a sector with these, the oldest
    /// first.
    fn overlapping(&self, kind: RequestKind, start: u64, end: u64) -> Vec<u64> {
        // A request that began earlier may reach into these sectors, by at most the longest one.
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
        if matches!(asked.kind, RequestKind::Zone)
            || (asked.kind == RequestKind::Other && (event.sectors == 0 || self.view.zoned))
        {
            return;
        }
        if asked.kind == RequestKind::Flush {
            // This is the block layer's own flush; its caller is told by an event without sectors.
            if self.view.at == RecordedMoments::Issue {
                self.complete_flush(event);
            }
            return;
        }
        if event.sectors == 0 {
            if self.view.at == RecordedMoments::Queue {
                self.complete_end(asked.kind, event);
            }
            return;
        }
        let (start, end) = (event.sector, event.sector.saturating_add(u64::from(event.sectors)));
        let mut left = end - start;
        // A completion covers several requests if they were merged, and a piece of one if it was split. Of several
        // requests for the same sectors the oldest completes first.
        for number in self.overlapping(asked.kind, start, end) {
            let Some(waiting) = self.at(number) else { continue };
            let shared = waiting.end.min(end) - waiting.start.max(start).min(end);
            let now = shared.min(waiting.left).min(left);
            waiting.left -= now;
            waiting.failed |= event.failed;
            left -= now;
            if waiting.left == 0 && !waiting.has_end {
                self.finish(number, Some(event.time));
            }
            if left == 0 {
                return;
            }
        }
        // Nothing known shares a sector: the request began before the recording.
        if left == end - start && self.is_inside(start, end) {
            self.miss_beginning(event.time);
        }
    }

    fn is_inside(&self, start: u64, end: u64) -> bool {
        self.view.part.as_ref().is_none_or(|part| start < part.end && end > part.start)
    }

    fn miss_beginning(&mut self, time: u64) {
        self.counts.without_beginning += u64::from(time <= self.known_until);
    }

    fn complete_flush(&mut self, event: &BlockEvent) {
        match self.flushes.front().copied() {
            Some(number) => self.end(number, event),
            None => self.miss_beginning(event.time),
        }
    }

    /// The end of a write with a flush behind it, or of a flush.
    fn complete_end(&mut self, kind: RequestKind, event: &BlockEvent) {
        let numbers = self.ranges.range((kind, event.sector, 0)..=(kind, event.sector, u64::MAX)).map(|key| key.2);
        let ended = numbers.into_iter().find(|number| {
            let waiting = number.checked_sub(self.first).and_then(|i| self.waiting.get(i as usize));
            waiting.is_some_and(|waiting| waiting.has_end && waiting.left == 0)
        });
        match ended {
            Some(number) => self.end(number, event),
            None => self.complete_flush(event),
        }
    }

    /// Takes a request back of which whoever asked was told to ask again: the youngest one like
    /// this of which nothing is complete. Between its beginning and this event hardly anything
    /// happens.
    fn retract(&mut self, event: &BlockEvent) {
        let Some(asked) = event.asked else { return };
        let sectors = u64::from(event.sectors);
        let number = if sectors == 0 {
            self.flushes.back().copied().filter(|_| asked.preflush || asked.kind == RequestKind::Flush)
        } else {
            let alike = self.ranges.range((asked.kind, event.sector, 0)..=(asked.kind, event.sector, u64::MAX));
            alike.map(|key| key.2).rev().find(|number| {
                let waiting = number.checked_sub(self.first).and_then(|i| self.waiting.get(i as usize));
                waiting.is_some_and(|waiting| waiting.left == sectors && waiting.end - waiting.start == sectors)
            })
        };
        let Some(number) = number else { return };
        self.finish(number, None);
        self.counts.retracted += 1;
        // The flush that came with it goes as well.
        let flush = number.checked_sub(1).filter(|&flush| self.at(flush).is_some_and(|waiting| waiting.before_data));
        for number in [Some(number), flush].into_iter().flatten() {
            if let Some(waiting) = self.at(number) {
                waiting.state = PairingState::Retracted;
                self.taken -= 1;
            }
        }
    }

    /// A request's last completion.
    fn end(&mut self, number: u64, event: &BlockEvent) {
        if let Some(waiting) = self.at(number) {
            waiting.failed |= event.failed;
        }
        self.finish(number, Some(event.time));
    }

    fn give_up(&mut self, number: u64) {
        if self.at(number).is_some_and(|waiting| waiting.state == PairingState::Begun) {
            // Its completion, should it come, is not one whose beginning was missed.
            self.known_until = 0;
            self.finish(number, None);
        }
    }

    fn finish(&mut self, number: u64, time: Option<u64>) {
        let Some(waiting) = self.at(number).filter(|waiting| waiting.state == PairingState::Begun) else { return };
        let begun = waiting.request.time;
        let sure = !waiting.unsure;
        waiting.state = PairingState::Done(time.filter(|_| sure).map(|time| Nanos(time).since(begun)));
        let key = (waiting.kind, waiting.start, number);
        self.outstanding -= usize::from(sure);
        if key.0 == RequestKind::Flush {
            // Flushes complete in the order of their beginnings, nearly always.
            if self.flushes.pop_front_if(|flush| *flush == number).is_none() {
                self.flushes.retain(|&flush| flush != number);
            }
        } else {
            self.ranges.remove(&key);
        }
    }

    fn put(&mut self, out: &mut Vec<RecordedRequest>) {
        while let Some(waiting) = self.waiting.front() {
            let latency = match waiting.state {
                PairingState::Begun => return,
                // The flush waits for its write, since it goes if the write is retracted.
                PairingState::Done(_)
                    if waiting.before_data && self.waiting.get(1).is_some_and(|w| w.state == PairingState::Begun) =>
                {
                    return;
                }
                PairingState::Done(latency) => Some(latency),
                PairingState::Retracted => None,
            };
            let Some(waiting) = self.waiting.pop_front() else { return };
            self.first += 1;
            let Some(latency) = latency else { continue };
            if self.counts.total() >= self.most {
                self.taken -= 1;
                continue;
            }
            let c = &mut self.counts;
            c.requests[waiting.request.op as usize] += 1;
            c.fua += u64::from(waiting.request.fua);
            c.write_zeroes += u64::from(waiting.kind == RequestKind::Other);
            c.secure_erases += u64::from(waiting.secure);
            c.failed += u64::from(waiting.failed);
            c.requeued += waiting.requeues;
            c.without_completion += u64::from(latency.is_none() && !waiting.before_data);
            out.push(RecordedRequest { request: waiting.request, latency });
        }
    }
}
