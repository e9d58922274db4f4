//! Sectors that requests of any bytes touch, and the order of requests while some of them are read to be written.

use std::ops::Range;

/// Sets the bytes of a sector. A backend is asked for whole ones.
pub(crate) const SECTOR: u64 = 512;

/// Returns true if bytes begin and end where sectors do.
#[inline]
pub(crate) const fn are_whole(offset: u64, len: u64) -> bool {
    (offset | len) & (SECTOR - 1) == 0
}

/// Returns the bytes of all sectors that these bytes touch.
#[inline]
pub(crate) const fn around(offset: u64, len: u64) -> Range<u64> {
    offset & !(SECTOR - 1)..(offset + len).next_multiple_of(SECTOR)
}

/// Returns the bytes of all sectors of which these bytes have every one.
pub(crate) const fn within(offset: u64, len: u64) -> Range<u64> {
    let (from, to) = (offset.next_multiple_of(SECTOR), (offset + len) & !(SECTOR - 1));
    if from < to { from..to } else { from..from }
}

/// Returns the sectors of which these bytes have a part, by their first bytes: at most two.
pub(crate) fn edges(offset: u64, len: u64) -> [Option<u64>; 2] {
    let edge = |at: u64| (!at.is_multiple_of(SECTOR)).then_some(at & !(SECTOR - 1));
    let (head, tail) = (edge(offset), edge(offset + len));
    [head, tail.filter(|_| head != tail)]
}

/// Keeps requests in order that touch sectors which are read to be written: those that overlap one before them, and
/// change something or are changed by it, wait until that is done.
#[derive(Debug)]
pub(crate) struct SectorQueue<T> {
    entries: Vec<SectorEntry<T>>,
}

/// Holds a request that waits, or that others wait for.
#[derive(Debug)]
struct SectorEntry<T> {
    tag: u64,
    sectors: Range<u64>,
    writes: bool,
    /// Counts the requests before it that it waits for.
    blockers: u32,
    item: T,
}

impl<T> SectorEntry<T> {
    const fn conflicts(&self, sectors: &Range<u64>, writes: bool) -> bool {
        (self.writes || writes) && self.sectors.start < sectors.end && sectors.start < self.sectors.end
    }
}

impl<T> Default for SectorQueue<T> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<T> SectorQueue<T> {
    /// Returns true if no request waits, or is waited for.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns true if a request would have to wait.
    pub(crate) fn blocks(&self, sectors: &Range<u64>, writes: bool) -> bool {
        // Requests for parts of sectors are rare, since file systems write blocks. So a plain list is searched.
        self.entries.iter().any(|entry| entry.conflicts(sectors, writes))
    }

    /// Puts a request behind all others. Returns true if it need not wait.
    pub(crate) fn enter(&mut self, tag: u64, sectors: Range<u64>, writes: bool, item: T) -> bool {
        let blockers = self.entries.iter().filter(|entry| entry.conflicts(&sectors, writes)).count() as u32;
        self.entries.push(SectorEntry { tag, sectors, writes, blockers, item });
        blockers == 0
    }

    /// Returns what is kept of a request, if it has entered.
    pub(crate) fn get_mut(&mut self, tag: u64) -> Option<&mut T> {
        self.entries.iter_mut().find(|entry| entry.tag == tag).map(|entry| &mut entry.item)
    }

    /// Takes a request out, and appends to `free` those that need not wait any more, in their order.
    pub(crate) fn leave(&mut self, tag: u64, free: &mut Vec<u64>) -> Option<T> {
        let at = self.entries.iter().position(|entry| entry.tag == tag)?;
        let gone = self.entries.remove(at);
        // Each later entry counted this one if they conflict, so the counts stay exact without another search.
        for entry in &mut self.entries[at..] {
            if gone.conflicts(&entry.sectors, entry.writes) {
                entry.blockers -= 1;
                if entry.blockers == 0 {
                    free.push(entry.tag);
                }
            }
        }
        Some(gone.item)
    }

    /// Forgets all requests.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_rounded_to_sectors() {
        for (offset, len, outer, inner, parts) in [
            (0, 512, 0..512, 0..512, [None, None]),
            (1, 1, 0..512, 512..512, [Some(0), None]),
            (0, 1, 0..512, 0..0, [None, Some(0)]),
            (511, 2, 0..1024, 512..512, [Some(0), Some(512)]),
            (511, 1, 0..512, 512..512, [Some(0), None]),
            (100, 412, 0..512, 512..512, [Some(0), None]),
            (100, 1000, 0..1536, 512..1024, [Some(0), Some(1024)]),
            (512, 700, 512..1536, 512..1024, [None, Some(1024)]),
        ] {
            assert_eq!(around(offset, len), outer, "around {len} bytes at {offset}");
            assert_eq!(within(offset, len), inner, "within {len} bytes at {offset}");
            assert_eq!(edges(offset, len), parts, "edges of {len} bytes at {offset}");
            assert_eq!(are_whole(offset, len), parts == [None, None]);
        }
    }

    #[test]
    fn requests_wait_for_those_before_them_that_they_conflict_with() {
        let mut random = 1_u64;
        let mut below = |n: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % n
        };
        let mut queue = SectorQueue::default();
        // All that are in it, in order: tag, sectors, and whether they write.
        let mut all: Vec<(u64, Range<u64>, bool)> = Vec::new();
        let conflict = |one: &(u64, Range<u64>, bool), other: &(u64, Range<u64>, bool)| {
            (one.2 || other.2) && one.1.clone().any(|sector| other.1.contains(&sector))
        };
        let (mut waited, mut freed) = (0, 0);
        for tag in 0..20_000 {
            let from = below(12);
            let one = (tag, from..from + 1 + below(4), below(2) == 0);
            let waits = all.iter().any(|other| conflict(other, &one));
            assert_eq!(queue.blocks(&one.1, one.2), waits);
            assert_eq!(queue.enter(tag, one.1.clone(), one.2, tag), !waits);
            waited += u32::from(waits);
            all.push(one);
            while all.len() > below(9) as usize {
                // One that does not wait goes.
                let ready = |all: &[(u64, Range<u64>, bool)]| -> Vec<u64> {
                    let is_ready = |at: &usize| !all[..*at].iter().any(|other| conflict(other, &all[*at]));
                    (0..all.len()).filter(is_ready).map(|at| all[at].0).collect()
                };
                let before = ready(&all);
                let gone = before[below(before.len() as u64) as usize];
                all.retain(|one| one.0 != gone);
                let mut free = Vec::new();
                assert_eq!(queue.leave(gone, &mut free), Some(gone));
                let right: Vec<u64> = ready(&all).into_iter().filter(|tag| !before.contains(tag)).collect();
                assert_eq!(free, right);
                freed += free.len();
            }
            assert_eq!(queue.is_empty(), all.is_empty());
        }
        assert!(waited > 1000 && freed > 1000, "{waited} waited, {freed} went on: no test");
    }
}
