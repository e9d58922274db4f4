//! The figures of each volume of a trace.

use destage_plan::{Nanos, Op};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::latency::LatencyHistogram;
use super::record;

/// Volumes that have figures of their own. Those seen later share the place behind them, so that
/// memory does not grow with the volumes.
const VOLUMES: u16 = 1024;
/// Limits the bytes for the response times of a volume, for estimates of memory.
const BYTES_PER_VOLUME: u64 = 48 << 10;

/// A volume's place among those of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VolumeSlot(pub(crate) u16);

record! {
    /// A volume's part of a run, or that of all volumes beyond the first 1024 together.
    pub struct VolumeResult {
        name: String ["-"] "the volume as the trace names it, its number where it has no name; (others): all volumes but the first 1024 that were seen",
        volume: Option<u64> ["1"] "its number in order of first appearance, as volumes = #N takes it; null for (others)",
        volumes: u64 ["1"] "volumes that this is: 1, but for (others)",
        requests: u64 ["1"] "requests of every kind",
        request_share: Option<f64> ["1"] "requests / those of all volumes; null where there are none",
        read_requests: u64 ["1"] "read requests",
        write_requests: u64 ["1"] "write requests",
        host_bytes_read: u64 ["B"] "bytes asked for by read requests",
        read_share: Option<f64> ["1"] "host_bytes_read / that of all volumes; null where that is 0",
        host_bytes_written: u64 ["B"] "bytes asked for by write requests",
        write_share: Option<f64> ["1"] "host_bytes_written / that of all volumes; null where that is 0",
        traffic_share: Option<f64> ["1"] "host_bytes_read + host_bytes_written / that of all volumes; null where that is 0",
        read_pages: Option<u64> ["1"] "page accesses of read requests; null with an array",
        write_pages: Option<u64> ["1"] "page accesses of write requests; null with an array",
        read_hits: Option<u64> ["1"] "read page accesses that hit; null with an array",
        write_hits: Option<u64> ["1"] "write page accesses that hit; null with an array",
        hit_ratio: Option<f64> ["1"] "hits / page accesses; null without accesses, or with an array",
        pages_written: Option<u64> ["1"] "dirty pages that the volume wrote last and that were written to flash, those past the buffer too, the final drain apart; null with an array",
        pad_pages: Option<u64> ["1"] "pages programmed only to fill up blocks with these; null with an array, or under the analytic model of blocks, which fills up all",
        drained_pages: Option<u64> ["1"] "dirty pages that it wrote last and that the final drain wrote; null with an array",
        response: Option<VolumeResponse> ["-"] "response times of reads and writes; null where there are none" = VolumeResponse,
    }
}

record! {
    /// Response times of a volume's reads and writes.
    pub struct VolumeResponse {
        count: u64 ["1"] "requests measured",
        mean: f64 ["ns"] "arithmetic mean",
        p50: u64 ["ns"] "median; percentiles have two significant digits and name the upper end of their class",
        p99: u64 ["ns"] "99th percentile",
        p99_9: u64 ["ns"] "99.9th percentile",
        max: u64 ["ns"] "maximum",
    }
}

/// Holds the counts of a volume.
#[derive(Clone, Debug, Default)]
pub(crate) struct VolumeCounts {
    pub(crate) requests: u64,
    pub(crate) read_requests: u64,
    pub(crate) write_requests: u64,
    pub(crate) host_bytes_read: u64,
    pub(crate) host_bytes_written: u64,
    pub(crate) read_pages: u64,
    pub(crate) write_pages: u64,
    pub(crate) read_hits: u64,
    pub(crate) write_hits: u64,
    pub(crate) pages_written: u64,
    pub(crate) pad_pages: u64,
    pub(crate) drained_pages: u64,
    /// Holds the response times, if there were any.
    responses: Option<Box<LatencyHistogram>>,
}

/// Says which of the figures exist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VolumeFigures {
    /// Hits, and what was written to flash.
    pub(crate) pages: bool,
    /// Is true if writes that fill up blocks are counted.
    pub(crate) pads: bool,
    /// Response times.
    pub(crate) responses: bool,
}

/// The figures of the volumes of a run.
#[derive(Clone, Debug)]
pub(crate) struct PerVolume {
    slots: HashMap<u32, VolumeSlot, FixedState>,
    /// The volume looked up last: requests come in runs.
    last: Option<(u32, VolumeSlot)>,
    /// In order of first appearance; behind the last that has a place of its own the others.
    counts: Vec<VolumeCounts>,
    numbers: Vec<u32>,
    others: u64,
}

impl PerVolume {
    /// No volume was seen.
    pub(crate) fn new() -> Self {
        Self {
            slots: HashMap::with_hasher(FixedState::with_seed(0)),
            last: None,
            counts: Vec::new(),
            numbers: Vec::new(),
            others: 0,
        }
    }

    /// Returns the largest number of bytes that all volumes take in a run that measures response times.
    pub(crate) const fn memory_bytes() -> u64 {
        VOLUMES as u64 * BYTES_PER_VOLUME
    }

    /// The place of a volume.
    #[inline]
    pub(crate) fn slot(&mut self, volume: u32) -> VolumeSlot {
        match self.last {
            // Requests of one volume come in runs, which saves the table's look-up.
            Some((last, slot)) if last == volume => slot,
            _ => {
                let slot = self.slots.get(&volume).copied().unwrap_or_else(|| self.add(volume));
                self.last = Some((volume, slot));
                slot
            }
        }
    }

    #[cold]
    fn add(&mut self, volume: u32) -> VolumeSlot {
        let slot = VolumeSlot((self.numbers.len() as u16).min(VOLUMES));
        // A trace can have a million volumes: those after the first share one slot.
        if slot.0 < VOLUMES {
            self.numbers.push(volume);
        } else {
            self.others += 1;
        }
        if self.counts.len() <= usize::from(slot.0) {
            self.counts.push(VolumeCounts::default());
        }
        self.slots.insert(volume, slot);
        slot
    }

    /// Returns the counts of a volume.
    #[inline]
    pub(crate) fn of(&mut self, slot: VolumeSlot) -> &mut VolumeCounts {
        &mut self.counts[usize::from(slot.0)]
    }

    /// Forgets what was counted, and keeps the places.
    pub(crate) fn restart(&mut self) {
        // The slots stay, so that a volume keeps its number through the warm-up.
        self.counts.iter_mut().for_each(|counts| *counts = VolumeCounts::default());
    }

    /// The figures of the volumes of which there are any, with the trace's names: those with most
    /// traffic first, the others last.
    pub(crate) fn result(&self, names: &[String], figures: VolumeFigures) -> Vec<VolumeResult> {
        let sum = |of: fn(&VolumeCounts) -> u64| self.counts.iter().map(of).sum::<u64>();
        let all = VolumeCounts {
            requests: sum(|c| c.requests),
            host_bytes_read: sum(|c| c.host_bytes_read),
            host_bytes_written: sum(|c| c.host_bytes_written),
            ..VolumeCounts::default()
        };
        let known = self.counts.iter().enumerate().filter(|(_, counts)| !counts.is_empty());
        let mut results: Vec<_> =
            known.map(|(slot, counts)| counts.result(self.named(slot, names), &all, figures)).collect();
        // The others come last, however much they moved: they are no volume.
        results.sort_by_key(|r| {
            (r.volume.is_none(), std::cmp::Reverse(r.host_bytes_read + r.host_bytes_written), r.volume)
        });
        results
    }

    /// Names the volume of a slot, or counts the volumes that share it.
    fn named(&self, slot: usize, names: &[String]) -> VolumeResult {
        match self.numbers.get(slot) {
            Some(&number) => VolumeResult {
                name: names.get(number as usize).cloned().unwrap_or_else(|| number.to_string()),
                volume: Some(number.into()),
                volumes: 1,
                ..VolumeResult::default()
            },
            None => VolumeResult { name: "(others)".to_owned(), volumes: self.others, ..VolumeResult::default() },
        }
    }
}

impl VolumeCounts {
    /// Counts a request.
    #[inline]
    pub(crate) fn requested(&mut self, op: Op, bytes: u64) {
        self.requests += 1;
        match op {
            Op::Read => {
                self.read_requests += 1;
                self.host_bytes_read += bytes;
            }
            Op::Write => {
                self.write_requests += 1;
                self.host_bytes_written += bytes;
            }
            Op::Flush | Op::Discard => {}
        }
    }

    /// Counts the response time of a read or write.
    #[inline]
    pub(crate) fn responded(&mut self, time: Nanos) {
        self.responses.get_or_insert_with(|| Box::new(LatencyHistogram::with_digits(2))).record(time);
    }

    /// Is true if nothing was counted.
    fn is_empty(&self) -> bool {
        self.requests + self.pages_written + self.pad_pages + self.drained_pages == 0 && self.responses.is_none()
    }

    fn result(&self, named: VolumeResult, all: &Self, figures: VolumeFigures) -> VolumeResult {
        let ratio = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let traffic = |counts: &Self| counts.host_bytes_read + counts.host_bytes_written;
        let of_pages = |count: u64| figures.pages.then_some(count);
        let responses = self.responses.as_ref().filter(|_| figures.responses);
        VolumeResult {
            requests: self.requests,
            request_share: ratio(self.requests, all.requests),
            read_requests: self.read_requests,
            write_requests: self.write_requests,
            host_bytes_read: self.host_bytes_read,
            read_share: ratio(self.host_bytes_read, all.host_bytes_read),
            host_bytes_written: self.host_bytes_written,
            write_share: ratio(self.host_bytes_written, all.host_bytes_written),
            traffic_share: ratio(traffic(self), traffic(all)),
            read_pages: of_pages(self.read_pages),
            write_pages: of_pages(self.write_pages),
            read_hits: of_pages(self.read_hits),
            write_hits: of_pages(self.write_hits),
            hit_ratio: ratio(self.read_hits + self.write_hits, self.read_pages + self.write_pages)
                .filter(|_| figures.pages),
            pages_written: of_pages(self.pages_written),
            pad_pages: of_pages(self.pad_pages).filter(|_| figures.pads),
            drained_pages: of_pages(self.drained_pages),
            response: responses.and_then(|responses| responses.summary()).map(|s| VolumeResponse {
                count: s.count,
                mean: s.mean,
                p50: s.p50,
                p99: s.p99,
                p99_9: s.p99_9,
                max: s.max,
            }),
            ..named
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: VolumeFigures = VolumeFigures { pages: true, pads: true, responses: true };

    #[test]
    fn volumes_are_sorted_by_traffic_and_named_as_the_trace_does() {
        let mut volumes = PerVolume::new();
        for (volume, bytes) in [(7, 1000), (2, 3000), (7, 500), (0, 1500)] {
            let slot = volumes.slot(volume);
            volumes.of(slot).requested(Op::Write, bytes);
        }
        let names = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let found: Vec<_> = volumes
            .result(&names, ALL)
            .into_iter()
            .map(|r| (r.name, r.volume, r.requests, r.host_bytes_written, r.write_share, r.read_share))
            .collect();
        let expected = |name: &str, volume, requests, bytes, share| {
            (name.to_owned(), Some(volume), requests, bytes, Some(share), None)
        };
        assert_eq!(
            found,
            [expected("c", 2, 1, 3000, 0.5), expected("a", 0, 1, 1500, 0.25), expected("7", 7, 2, 1500, 0.25)]
        );
    }

    #[test]
    fn volumes_beyond_the_places_are_pooled_behind_all_others() {
        let mut volumes = PerVolume::new();
        for round in 0..2 {
            for volume in 0..u32::from(VOLUMES) + 5 {
                let slot = volumes.slot(volume);
                volumes.of(slot).requested(Op::Read, 512 * u64::from(volume + 1));
                volumes.of(slot).responded(Nanos(100 * (round + 1)));
            }
        }
        let results = volumes.result(&[], ALL);
        assert_eq!(results.len(), usize::from(VOLUMES) + 1);
        let others = results.last().unwrap();
        assert_eq!((others.name.as_str(), others.volume, others.volumes, others.requests), ("(others)", None, 5, 10));
        assert_eq!(others.response.as_ref().map(|r| (r.count, r.max)), Some((10, 200)));
        assert_eq!(results[0].volume, Some(u64::from(VOLUMES) - 1));
        assert_eq!(results.iter().map(|r| r.requests).sum::<u64>(), 2 * (u64::from(VOLUMES) + 5));
    }

    #[test]
    fn a_restart_forgets_counts_and_keeps_places() {
        let mut volumes = PerVolume::new();
        let (first, second) = (volumes.slot(5), volumes.slot(6));
        volumes.of(first).requested(Op::Read, 4096);
        volumes.restart();
        assert_eq!((volumes.slot(5), volumes.slot(6)), (first, second));
        volumes.of(second).pages_written += 1;
        let found: Vec<_> = volumes.result(&[], ALL).into_iter().map(|r| (r.volume, r.pages_written)).collect();
        assert_eq!(found, [(Some(6), Some(1))]);
    }
}
