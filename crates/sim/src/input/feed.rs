//! From requests to page accesses, once for all runs of an experiment.

use std::ops::Range;

use destage_plan::{Nanos, Op, PageGeometry, Request};
use destage_policy::buffer::BlockBorder;

use super::space::{PageSpace, PageSpan, SpaceError, TouchedExtent};
use super::volumes::{ChosenVolumes, VolumeSelection};

/// Arrivals lie before this (146 years), so that a run's times stay in range whatever devices add
/// to them.
const END_OF_TIME: Nanos = Nanos(u64::MAX / 4);

/// One request with its place in the page space.
#[derive(Clone, Copy, Debug)]
pub struct FeedRequest {
    /// Arrival after scaling; never before that of the request before.
    pub time: Nanos,
    /// Bytes asked for.
    pub bytes: u64,
    /// The request's spans end here in [`RequestFeed::spans`]; they begin where those of the request
    /// before ended. Those of a discard are the pages that it covers whole.
    pub spans_end: u32,
    /// Holds the operation.
    pub op: Op,
    /// Force unit access.
    pub fua: bool,
    /// The first page is covered only in part.
    pub head_partial: bool,
    /// The last page is covered only in part.
    pub tail_partial: bool,
}

/// Holds facts about a request beside its place in the page space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestOrigin {
    /// Names the request's volume as the trace has it, whether or not volumes lie over each other.
    pub volume: u32,
    /// Counts the request among those that were read, from 1.
    pub request: u64,
    /// First byte on its volume.
    pub offset: u64,
}

/// A batch of requests, shared by all runs.
#[derive(Clone, Debug, Default)]
pub struct RequestFeed {
    /// The requests in order.
    pub requests: Vec<FeedRequest>,
    /// The spans of their pages.
    pub spans: Vec<PageSpan>,
    /// Page numbers in this and all earlier feeds are below it.
    pub pages: u32,
    /// Holds the offset of each request in its first page, in bytes. Empty unless the feeder
    /// [keeps](FeedBuilder::keep_heads) them.
    pub heads: Vec<u32>,
    /// Holds the origin of each request. Empty unless the feeder [keeps](FeedBuilder::keep_origins) them.
    pub origins: Vec<RequestOrigin>,
    /// The borders between blocks that were found in this feed, where blocks are not numbered by
    /// address and the feeder [keeps](FeedBuilder::keep_borders) them.
    pub borders: Option<Vec<BlockBorder>>,
}

/// Selects the operations of the trace that take part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceOps {
    /// All of them.
    #[default]
    All,
    /// Everything but reads.
    Writes,
}

/// A factor by which the trace is played faster, kept as a fraction so that times stay exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaySpeed {
    /// Numerator.
    pub times: u64,
    /// Denominator.
    pub per: u64,
}

impl Default for PlaySpeed {
    fn default() -> Self {
        Self { times: 1, per: 1 }
    }
}

/// Counts the requests that were left out or changed between the trace and the page space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedCounts {
    /// Requests taken from the trace.
    pub read: u64,
    /// Requests left out because of their operation or volume.
    pub left_out: u64,
    /// Reads and writes beyond the device: wrapped, or left out with `filter`.
    pub overflowed: u64,
    /// Counts discards that reach beyond the device, cut at its end.
    pub cut_discards: u64,
    /// Counts the bytes that they were cut by, in whole pages.
    pub cut_bytes: u64,
    /// Requests earlier than one before them; they arrive together with it.
    pub reversed: u64,
    /// Counts requests earlier than the one right before them: few where logs were joined, many where a recorder reorders.
    pub steps_back: u64,
    /// Counts requests that are more than a second earlier than one before them, and the number of the first of these, from 1.
    pub reversed_far: u64,
    /// Counts as there; 0 if there is none.
    pub first_far: u64,
    /// Numbers the first that is earlier, from 1; 0 if there is none.
    pub first_reversed: u64,
    /// Gives the most that one was moved by, in the trace's time.
    pub longest_move: Nanos,
    /// Sums what all of them were moved by, in the trace's time, ns.
    pub total_move: u128,
    /// Gives the latest arrival, in the trace's time.
    pub latest: Nanos,
}

/// Bounds what recorders reorder requests by, which may be earlier than one before them; some traces count in seconds.
const FAR: Nanos = Nanos(1_000_000_000);

/// Says which volumes are taken.
#[derive(Clone, Debug)]
enum VolumeFilter {
    Each,
    Merge,
    Only(ChosenVolumes),
}

/// Builds feeds.
#[derive(Clone, Debug)]
pub struct FeedBuilder {
    space: PageSpace,
    ops: TraceOps,
    volumes: VolumeFilter,
    speed: PlaySpeed,
    latest: Nanos,
    /// Gives the arrival of the request before.
    previous: Nanos,
    counts: FeedCounts,
    keeps_heads: bool,
    keeps_origins: bool,
    keeps_touched: bool,
}

impl FeedBuilder {
    /// A feeder into `space`.
    pub fn new(space: PageSpace, ops: TraceOps, volumes: VolumeSelection, speed: PlaySpeed) -> Self {
        Self {
            space,
            ops,
            volumes: match volumes {
                VolumeSelection::Each => VolumeFilter::Each,
                VolumeSelection::Merge => VolumeFilter::Merge,
                VolumeSelection::Only(choice) => VolumeFilter::Only(ChosenVolumes::new(&choice)),
            },
            speed,
            latest: Nanos::ZERO,
            previous: Nanos::ZERO,
            counts: FeedCounts::default(),
            keeps_heads: false,
            keeps_origins: false,
            keeps_touched: false,
        }
    }

    /// The same, which fills [`RequestFeed::heads`] too.
    #[must_use]
    pub fn keep_heads(self) -> Self {
        Self { keeps_heads: true, ..self }
    }

    /// The same, which fills [`RequestFeed::origins`] too.
    #[must_use]
    pub fn keep_origins(self) -> Self {
        Self { keeps_origins: true, ..self }
    }

    /// Returns the same, which lists what was [touched](Self::touched) at the end.
    #[must_use]
    pub(crate) fn keep_touched(self) -> Self {
        Self { keeps_touched: true, ..self }
    }

    /// The same, which fills [`RequestFeed::borders`] too.
    #[must_use]
    pub fn keep_borders(self) -> Self {
        Self { space: self.space.keep_borders(), ..self }
    }

    /// Is true if feeds hold the origins of requests.
    pub fn is_keeping_origins(&self) -> bool {
        self.keeps_origins
    }

    /// Takes in the names of the trace's volumes, as far as they are known: all of those of the requests that are
    /// appended next. They choose volumes.
    pub fn learn_volumes(&mut self, names: &[String]) {
        if let VolumeFilter::Only(chosen) = &mut self.volumes {
            chosen.learn(names);
        }
    }

    /// Returns the volumes that were chosen, and what was asked for and is none; nothing if all take part.
    pub(crate) fn chosen_volumes(&self) -> Option<(String, Option<String>)> {
        match &self.volumes {
            VolumeFilter::Only(chosen) => Some((chosen.describe(), chosen.missing())),
            VolumeFilter::Each | VolumeFilter::Merge => None,
        }
    }

    /// Returns the counts of requests left out or changed so far.
    pub fn counts(&self) -> FeedCounts {
        let PageSpace { overflowed, cut_discards, cut_pages, .. } = self.space;
        let cut_bytes = cut_pages.saturating_mul(self.space.geometry().page_bytes());
        let PlaySpeed { times, per } = self.speed;
        let latest = u64::try_from(u128::from(self.latest.0) * u128::from(times) / u128::from(per)).unwrap_or(u64::MAX);
        FeedCounts { overflowed, cut_discards, cut_bytes, latest: Nanos(latest), ..self.counts }
    }

    /// Returns the extent touched so far, where there is no device.
    pub fn extent(&self) -> Option<TouchedExtent> {
        self.space.extent()
    }

    /// Returns the blocks that were touched so far, ranges in order, where there is no device and they are kept.
    pub(crate) fn touched(&self) -> Vec<Range<u64>> {
        if self.keeps_touched { self.space.touched() } else { Vec::new() }
    }

    /// The page and block size.
    pub fn geometry(&self) -> PageGeometry {
        self.space.geometry()
    }

    /// Appends `requests` to `feed` until that has `enough_spans`; returns how many were taken. On
    /// an error the number of the request in the trace, from 1, comes with it.
    pub fn append(
        &mut self,
        requests: &[Request],
        enough_spans: usize,
        feed: &mut RequestFeed,
    ) -> Result<usize, (u64, SpaceError)> {
        let geometry = self.space.geometry();
        feed.requests.reserve(requests.len());
        feed.spans.reserve(requests.len());
        let mut taken = 0;
        while let Some(request) = requests.get(taken) {
            if feed.spans.len() >= enough_spans {
                break;
            }
            let most = (requests.len() - taken).min(enough_spans - feed.spans.len());
            // Runs of single-page requests skip all that other requests need; the loop below takes the rest
            // one by one.
            let plain = self.append_plain(&requests[taken..taken + most], feed);
            if plain > 0 {
                taken += plain;
                continue;
            }
            taken += 1;
            self.counts.read += 1;
            let volume = match &mut self.volumes {
                VolumeFilter::Each => request.volume,
                VolumeFilter::Merge => 0,
                VolumeFilter::Only(chosen) => {
                    let Some(place) = chosen.place(request.volume) else {
                        self.counts.left_out += 1;
                        continue;
                    };
                    place
                }
            };
            if self.ops == TraceOps::Writes && request.op == Op::Read {
                self.counts.left_out += 1;
                continue;
            }
            let time = if self.speed.times == self.speed.per {
                request.time
            } else {
                // Integers keep the times alike on every machine.
                let scaled = u128::from(request.time.0) * u128::from(self.speed.per) / u128::from(self.speed.times);
                Nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
            };
            // Later times could overflow when response times are added to them.
            if time >= END_OF_TIME {
                return Err((self.counts.read, SpaceError::Time { time: request.time }));
            }
            // Out-of-order requests keep their place in the trace and arrive with the latest one: time
            // never runs back.
            if time < self.latest {
                self.reversed(self.latest.since(time), time < self.previous);
            }
            self.previous = time;
            self.latest = self.latest.max(time);
            let (split, placed) = match request.op {
                Op::Read | Op::Write => {
                    let split = geometry.split(request.offset, request.len);
                    (split, self.space.place(volume, split, &mut feed.spans))
                }
                Op::Discard => {
                    // A page that a discard covers in part still holds data that counts.
                    let split = geometry.split(request.offset, request.len).whole();
                    (split, self.space.place_discard(volume, split, &mut feed.spans).map(|()| true))
                }
                Op::Flush => (geometry.split(0, 0), Ok(true)),
            };
            if !placed.map_err(|error| (self.counts.read, error))? {
                continue;
            }
            if self.keeps_heads {
                feed.heads.push((request.offset % geometry.page_bytes()) as u32);
            }
            if self.keeps_origins {
                feed.note_origin(request, self.counts.read);
            }
            feed.requests.push(FeedRequest {
                time: self.latest,
                bytes: request.len,
                spans_end: feed.spans.len() as u32,
                op: request.op,
                fua: request.fua,
                head_partial: split.head_partial,
                tail_partial: split.tail_partial,
            });
        }
        if let Some(found) = self.space.borders() {
            feed.borders.get_or_insert_default().append(found);
        }
        feed.pages = self.space.pages();
        Ok(taken)
    }

    /// Counts a request that is so much earlier than the latest before it.
    #[cold]
    fn reversed(&mut self, by: Nanos, steps_back: bool) {
        let PlaySpeed { times, per } = self.speed;
        let moved = u64::try_from(u128::from(by.0) * u128::from(times) / u128::from(per)).unwrap_or(u64::MAX);
        let counts = &mut self.counts;
        counts.reversed += 1;
        counts.steps_back += u64::from(steps_back);
        if counts.reversed == 1 {
            counts.first_reversed = counts.read;
        }
        counts.longest_move = counts.longest_move.max(Nanos(moved));
        counts.total_move += u128::from(moved);
        if moved > FAR.0 {
            counts.reversed_far += 1;
            if counts.reversed_far == 1 {
                counts.first_far = counts.read;
            }
        }
    }

    /// Appends those of the first requests with which there is nothing to be done but to place
    /// them: reads and writes inside one page that are in time and have a place. Returns how many
    /// there were. Most requests of most traces are such.
    #[inline]
    fn append_plain(&mut self, requests: &[Request], feed: &mut RequestFeed) -> usize {
        if !matches!(self.volumes, VolumeFilter::Each)
            || self.ops != TraceOps::All
            || self.speed.times != self.speed.per
            || self.keeps_heads
            || self.keeps_origins
        {
            return 0;
        }
        let geometry = self.space.geometry();
        // One bound replaces the test of each address: below it a page has a place whatever the order.
        let below = self.space.surely_placed(requests.len());
        let first_span = feed.spans.len();
        for request in requests {
            let in_time = request.time >= self.latest && request.time < END_OF_TIME;
            let page = geometry.only_page(request.offset, request.len);
            match page.and_then(|page| PageSpace::address(request.volume, page)) {
                Some(address) if in_time && matches!(request.op, Op::Read | Op::Write) && address < below => {
                    self.latest = request.time;
                    feed.spans.push(self.space.place_page(address));
                }
                _ => break,
            }
        }
        let plain = feed.spans.len() - first_span;
        if plain > 0 {
            self.previous = self.latest;
        }
        self.counts.read += plain as u64;
        let page_bytes = geometry.page_bytes();
        feed.requests.extend((first_span as u32 + 1..).zip(&requests[..plain]).map(|(spans_end, request)| {
            FeedRequest {
                time: request.time,
                bytes: request.len,
                spans_end,
                op: request.op,
                fua: request.fua,
                head_partial: request.len < page_bytes,
                tail_partial: request.len < page_bytes,
            }
        }));
        plain
    }
}

impl RequestFeed {
    /// Notes where the request of this number comes from; apart, so that feeds without that are made as fast as before.
    #[cold]
    #[inline(never)]
    fn note_origin(&mut self, from: &Request, request: u64) {
        self.origins.push(RequestOrigin { volume: from.volume, request, offset: from.offset });
    }

    /// Empties the feed and keeps its memory.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.spans.clear();
        self.heads.clear();
        self.origins.clear();
        if let Some(borders) = &mut self.borders {
            borders.clear();
        }
    }
}
