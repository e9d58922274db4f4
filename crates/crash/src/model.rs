//! Predicts what a host may see: for each sector, the versions that it could have.
//!
//! * Requests that conflict take effect in the order of submission, since claims are first come, first served. A read
//!   sees the last write submitted before it, or one submitted while it was in flight.
//! * A version is *covered* once it is durable. The acknowledgement of a flush that was submitted after the version's own
//!   acknowledgement covers it. With FUA, or in the mode every-write, its own acknowledgement does.
//! * A crash may leave any version that no covered one follows.
//! * After a crash a sector is whichever of these versions a read finds first. From then on it stays that one.
//! * A discard makes each page that it covers wholly zeros, or leaves it. The first read afterwards tells which.

use std::fmt;
use std::ops::Range;

/// The content of a sector, by number: 0 is zeros, others are `write << 16 | sector of the write`.
pub type SectorContent = u64;

/// Bytes in a sector of the harness.
pub const SECTOR: usize = 16;

/// The bytes of a sector with this content at this place; no two differ in fewer than eight bytes
/// by accident.
pub fn sector_bytes(value: SectorContent, sector: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    if value != 0 {
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        // The second half depends on the sector, so bytes that went to a wrong place are found out.
        bytes[8..].copy_from_slice(&mix(value, sector).to_le_bytes());
    }
    bytes
}

/// The content that these bytes are at this place, if anybody wrote them there.
pub fn value_of(bytes: &[u8], sector: u64) -> Option<SectorContent> {
    let half = |from: usize| u64::from_le_bytes(bytes[from..from + 8].try_into().expect("eight bytes"));
    match (half(0), half(8)) {
        (0, 0) => Some(0),
        (value, check) => (value != 0 && check == mix(value, sector)).then_some(value),
    }
}

/// The finaliser of `SplitMix64`.
const fn mix(value: SectorContent, sector: u64) -> u64 {
    let n = value ^ sector.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// The content of a sector that is accepted as lost.
const ANYTHING: SectorContent = SectorContent::MAX;

/// Not yet.
const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChangeEffect {
    /// Replaces what was.
    Sure,
    /// A discard of which nobody knows what it did.
    Maybe,
}

#[derive(Clone, Copy, Debug)]
struct SectorVersion {
    value: SectorContent,
    /// The request; versions that a cut left behind share the cut's number.
    request: u64,
    submitted: u64,
    acked: u64,
    failed: bool,
    effect: ChangeEffect,
    covered: bool,
    /// A covered one follows: no cut leaves it, but a read that began before may still bring it.
    gone: bool,
}

impl SectorVersion {
    /// Returns true if no read can see `self` once `later` has taken effect.
    const fn precedes(&self, later: &Self) -> bool {
        self.request < later.request && matches!(later.effect, ChangeEffect::Sure) && !later.failed
    }
}

/// Names the change that a request makes to sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelChange {
    /// Content of the request's number.
    Write,
    /// Zeros.
    Zero,
    /// Zeros, or nothing, page by page.
    Discard,
}

/// Describes wrong bytes that a read returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongBytes {
    /// The sector of the array.
    pub sector: u64,
    /// Holds the content that was found; none if nobody ever wrote these bytes there.
    pub found: Option<SectorContent>,
    /// Lists the contents that would have been right.
    pub allowed: Vec<SectorContent>,
}

impl fmt::Display for WrongBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |value: &SectorContent| match value {
            0 => "zeros".to_owned(),
            value => format!("sector {} of request {}", value & 0xffff, value >> 16),
        };
        let found = self.found.as_ref().map_or("bytes that nobody wrote there".to_owned(), name);
        let allowed: Vec<String> = self.allowed.iter().map(name).collect();
        write!(f, "sector {} reads as {found}, but could only be {}", self.sector, allowed.join(" or "))
    }
}

/// All sectors of an array.
#[derive(Clone, Debug)]
pub struct SectorModel {
    page_sectors: u64,
    /// Holds the content of each sector without versions.
    settled: Vec<SectorContent>,
    versions: Vec<Vec<SectorVersion>>,
    /// Sectors that have versions.
    open: Vec<u32>,
    time: u64,
    every_write: bool,
    /// Reads under way.
    reads: u32,
    /// More is lost than the level can do without: parts of a request that is under way may have
    /// failed already.
    may_fail: bool,
}

impl SectorModel {
    /// An array of zeros. In the regime `every_write` each write is durable when acknowledged.
    pub fn new(sectors: u64, page_sectors: u64, every_write: bool) -> Self {
        Self {
            page_sectors,
            settled: vec![0; sectors as usize],
            versions: vec![Vec::new(); sectors as usize],
            open: Vec::new(),
            time: 0,
            every_write,
            reads: 0,
            may_fail: false,
        }
    }

    /// Sectors.
    pub fn sectors(&self) -> u64 {
        self.settled.len() as u64
    }

    /// The time now; later events have later times.
    pub fn tick(&mut self) -> u64 {
        self.time += 1;
        self.time
    }

    /// A request that changes sectors was submitted. Numbers of requests ascend.
    pub fn change(&mut self, request: u64, change: ModelChange, first: u64, count: u64) {
        let submitted = self.tick();
        for sector in self.reach(change, first, count) {
            let value = if change == ModelChange::Write { request << 16 | (sector - first) } else { 0 };
            // A discard may be ignored page by page, so its version is only a possibility until a read decides.
            let effect = if change == ModelChange::Discard { ChangeEffect::Maybe } else { ChangeEffect::Sure };
            let versions = &mut self.versions[sector as usize];
            // Most sectors have one durable content: versions are kept only while several are possible.
            if versions.is_empty() {
                self.open.push(sector as u32);
                versions.push(SectorVersion {
                    value: self.settled[sector as usize],
                    request: 0,
                    submitted: 0,
                    acked: 0,
                    failed: false,
                    effect: ChangeEffect::Sure,
                    covered: true,
                    gone: false,
                });
            }
            let (failed, covered, gone) = (false, false, false);
            versions.push(SectorVersion { value, request, submitted, acked: NEVER, failed, effect, covered, gone });
        }
    }

    /// The request was answered.
    pub fn changed(&mut self, request: u64, change: ModelChange, first: u64, count: u64, ok: bool, fua: bool) {
        let acked = self.tick();
        let durable = ok && (fua || self.every_write);
        for sector in self.reach(change, first, count) {
            let versions = &mut self.versions[sector as usize];
            // The version is gone if a later request is durable already.
            if let Some(version) = versions.iter_mut().find(|version| version.request == request) {
                (version.acked, version.failed, version.covered) = (acked, !ok, durable);
                if durable {
                    prune(versions, self.reads);
                }
            }
        }
    }

    /// The sectors that a change may change: of a discard, the pages that it covers wholly.
    fn reach(&self, change: ModelChange, first: u64, count: u64) -> std::ops::Range<u64> {
        let end = first + count;
        if change != ModelChange::Discard {
            return first..end;
        }
        let page = self.page_sectors;
        let (from, to) = (first.next_multiple_of(page), end / page * page);
        from..to.max(from)
    }

    /// A flush that was submitted at this time was answered well.
    pub fn flushed(&mut self, submitted: u64) {
        self.tick();
        for &sector in &self.open {
            let versions = &mut self.versions[sector as usize];
            let mut news = false;
            for version in versions.iter_mut() {
                // A flush covers what was acknowledged before it was submitted; anything later may be lost.
                if version.acked < submitted && !version.failed && !version.covered {
                    version.covered = true;
                    news = true;
                }
            }
            if news {
                prune(versions, self.reads);
            }
        }
        self.settle();
    }

    /// Sectors with a single version that is durable have none that matter.
    fn settle(&mut self) {
        let (settled, all) = (&mut self.settled, &mut self.versions);
        self.open.retain(|&sector| {
            let versions = &mut all[sector as usize];
            match versions[..] {
                [version] if version.covered && version.effect == ChangeEffect::Sure => {
                    settled[sector as usize] = version.value;
                    versions.clear();
                    false
                }
                _ => true,
            }
        });
    }

    /// These sectors are accepted as lost, before anything is asked of them: they are what is found first.
    pub fn forget(&mut self, sectors: Range<u64>) {
        self.open.retain(|sector| !sectors.contains(&u64::from(*sector)));
        for sector in sectors {
            self.versions[sector as usize].clear();
            self.settled[sector as usize] = ANYTHING;
        }
    }

    /// Sets whether requests may fail from now on.
    pub fn set_may_fail(&mut self, may: bool) {
        self.may_fail = may;
    }

    /// A read is submitted, at the time that is returned.
    pub fn read_begins(&mut self) -> u64 {
        self.reads += 1;
        self.tick()
    }

    /// A read that was submitted at this time was answered as failed.
    pub fn read_fails(&mut self) {
        self.reads -= 1;
    }

    /// A read of these sectors that was submitted at this time brought these bytes.
    pub fn read(&mut self, submitted: u64, first: u64, bytes: &[u8]) -> Result<(), WrongBytes> {
        self.tick();
        for (sector, bytes) in (first..).zip(bytes.chunks_exact(SECTOR)) {
            let found = value_of(bytes, sector);
            let versions = &self.versions[sector as usize];
            if versions.is_empty() {
                let settled = self.settled[sector as usize];
                // What was accepted as lost may be anything, but once read it must stay that.
                if settled == ANYTHING {
                    self.settled[sector as usize] = found.unwrap_or(ANYTHING);
                } else if found != Some(settled) {
                    return Err(WrongBytes { sector, found, allowed: vec![settled] });
                }
                continue;
            }
            // A write submitted before the read precedes it, and hides what it follows.
            let may_fail = self.may_fail;
            let sure = |j: &SectorVersion| j.submitted < submitted && !(may_fail && j.acked == NEVER);
            let hides = |version: &SectorVersion| versions.iter().any(|j| sure(j) && version.precedes(j));
            let mut visible = versions.iter().filter(|version| !hides(version));
            if visible.clone().any(|version| version.value == ANYTHING) {
                continue;
            }
            if !visible.clone().any(|version| Some(version.value) == found) {
                return Err(WrongBytes { sector, found, allowed: visible.map(|version| version.value).collect() });
            }
            let value = found.expect("it is the value of a version");
            // Only with no other write in flight does this read settle which version it is.
            if visible.clone().nth(1).is_some() && visible.all(|version| version.acked < submitted) {
                self.tell(sector, value, submitted);
            }
        }
        self.reads -= 1;
        Ok(())
    }

    /// Nothing that could be a sector's content is under way, and it is `value`.
    fn tell(&mut self, sector: u64, value: SectorContent, submitted: u64) {
        let reads = self.reads;
        let versions = &mut self.versions[sector as usize];
        let hidden = |versions: &[SectorVersion], version: &SectorVersion| {
            versions.iter().any(|j| j.submitted < submitted && j.acked != NEVER && version.precedes(j))
        };
        // What a crash left is durable, whichever it is, so the others never were. A failed discard may still be
        // undone by a crash.
        let copy = versions.clone();
        let left_by_cut = |version: &SectorVersion| version.covered && version.effect == ChangeEffect::Sure;
        if copy.iter().all(|version| hidden(&copy, version) || left_by_cut(version)) {
            versions.retain(|version| hidden(&copy, version) || version.value == value);
            versions.dedup_by(|a, b| a.value == b.value && a.request == b.request);
            return;
        }
        let discards: Vec<u64> = copy
            .iter()
            .filter(|version| version.effect == ChangeEffect::Maybe && !hidden(&copy, version))
            .map(|version| version.request)
            .collect();
        let [discard] = discards[..] else { return };
        let others_zero =
            copy.iter().any(|version| version.request != discard && version.value == 0 && !hidden(&copy, version));
        // Zeros may come from another version as well, and then tell nothing of the discard.
        if value == 0 && others_zero {
            return;
        }
        // A later request that was answered as failed may have written this all the same.
        if copy.iter().any(|version| version.value == value && version.request > discard) {
            return;
        }
        let page = sector - sector % self.page_sectors;
        // A discard takes whole pages, so one sector decides for all of its page.
        for sector in page..page + self.page_sectors {
            let versions = &mut self.versions[sector as usize];
            if value == 0 {
                for version in versions.iter_mut().filter(|version| version.request == discard) {
                    version.effect = ChangeEffect::Sure;
                }
                prune(versions, reads);
            } else {
                versions.retain(|version| version.request != discard);
            }
        }
    }

    /// The power failed. Each sector is one of the versions that no covered one follows; nobody
    /// knows which.
    pub fn cut(&mut self, number: u64) {
        let now = self.tick();
        self.reads = 0;
        for &sector in &self.open {
            let versions = &mut self.versions[sector as usize];
            versions.retain(|version| !version.gone);
            for version in versions.iter_mut() {
                *version = SectorVersion {
                    request: number,
                    submitted: now,
                    acked: now,
                    failed: false,
                    effect: ChangeEffect::Sure,
                    covered: true,
                    ..*version
                };
            }
            versions.sort_unstable_by_key(|version| version.value);
            // Versions with equal content cannot be told apart any more.
            versions.dedup_by_key(|version| version.value);
        }
        self.settle();
    }

    /// Returns the contents that a cut could leave in a sector, if nothing more happens.
    pub fn possible(&self, sector: u64) -> Vec<SectorContent> {
        match &self.versions[sector as usize][..] {
            [] => vec![self.settled[sector as usize]],
            versions => versions.iter().filter(|version| !version.gone).map(|version| version.value).collect(),
        }
    }
}

/// Drops the versions that a covered one follows, as soon as no read is under way.
fn prune(versions: &mut Vec<SectorVersion>, reads: u32) {
    let last = versions.iter().rfind(|version| version.covered && version.effect == ChangeEffect::Sure).copied();
    if let Some(last) = last {
        for version in versions.iter_mut() {
            version.gone |= version.precedes(&last);
        }
    }
    // A read that began earlier may still return a version that no later read can.
    if reads == 0 {
        versions.retain(|version| !version.gone);
    }
}
