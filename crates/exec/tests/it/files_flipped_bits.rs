//! Flips bits of what an array keeps beside the data of its members, and swaps or blanks its pages: no wrong byte is served,
//! and no parity is wrong after a stop in order. What became of each is counted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use destage_cache::{CacheMedium, HostCacheInfo, ServedTier, host_caches_of};
use destage_exec::{AcceptedLosses, FileExecutor, IoBackend, RecordingOs};
use destage_plan::PageRange;
use destage_raid::RaidLevel;
use destage_raid::array::ArrayConfig;
use destage_testkit::TestRng;

use crate::arrays::{Array, member};
use crate::filled_array::{FOLDER, FilledArray};

const MEMBERS: u8 = 4;

/// Returns the number of flips in each kind of place of each array.
fn flips() -> u64 {
    if std::env::var_os("DESTAGE_SOAK").is_some() { 1_000 } else { 12 }
}

/// Says how an array was ended before it is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ArrayEnd {
    InOrder,
    Killed,
}

/// Names what is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DamagedPlace {
    /// Names the pages of the cache's device.
    Cache,
    Nvram,
    Intents,
    /// Names what members, and the cache's device, have behind their pages: labels, event counts and marks.
    BehindPages,
}

/// Says what became of an array that was damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DamageFate {
    /// Reports that all is served, and nobody was told of anything.
    Unseen,
    /// Reports that all is served, and pages of the cache were dropped.
    Dropped,
    /// Reports that all is served, without a device.
    Degraded,
    /// Reports that the start is refused, and goes on with losses accepted: everything else is served.
    Refused,
    /// Reports that the newest record of the NVRAM is taken for torn: what was written last is not there.
    Torn,
}

/// Holds an array that was ended, to be damaged again and again.
struct EndedArray {
    array: Array,
    os: RecordingOs,
    /// Gives what it held before the last writes, and what it holds.
    before: Vec<u8>,
    content: Vec<u8>,
    end: ArrayEnd,
}

impl EndedArray {
    fn new(info: &'static HostCacheInfo, end: ArrayEnd, breaks: Option<u8>) -> Self {
        let array = Array {
            cache: info,
            cache_pages: 160,
            hurries: false,
            ..Array::over(IoBackend::Threads, RaidLevel::Raid5, MEMBERS)
        };
        let mut filled = FilledArray::new(array);
        assert!(filled.holds(), "{}", info.name);
        let before = filled.content.bytes().to_vec();
        if let Some(dev) = breaks {
            filled.os.set_broken(&member(Path::new(FOLDER), dev), true);
        }
        let sector = filled.array.sector;
        for at in (0..before.len() as u64 / sector).step_by(29) {
            assert!(filled.write(at * sector, sector).ok);
        }
        if info.holds_dirty {
            // What a cache alone has is written in place, so that no checksum of it outlives the process.
            filled.files.drain().expect("it is written back");
            filled.rest();
        }
        let FilledArray { array, os, files, content } = filled;
        let os = match end {
            ArrayEnd::InOrder => {
                files.stop_clean().expect("it stops");
                os
            }
            ArrayEnd::Killed => {
                let killed = os.end(false);
                drop(files);
                killed
            }
        };
        Self { array, os, before, content: content.bytes().to_vec(), end }
    }

    /// Returns a file, and the range of its bytes that is to be damaged; none if there is none.
    fn place(&self, place: DamagedPlace, rng: &mut TestRng) -> Option<(PathBuf, std::ops::Range<usize>)> {
        let pages = self.array.device_pages();
        let len = |path: &Path| self.os.content(path).expect("it is there").len();
        let behind = |dev: usize| {
            let path = member(Path::new(FOLDER), dev as u8);
            let range = (pages[dev] * self.array.page) as usize..len(&path);
            (path, range)
        };
        Some(match place {
            DamagedPlace::Cache => {
                let pages = *pages.get(usize::from(MEMBERS))?;
                (member(Path::new(FOLDER), MEMBERS), 0..(pages * self.array.page) as usize)
            }
            DamagedPlace::Nvram | DamagedPlace::Intents => {
                let name = if place == DamagedPlace::Nvram { "nvram" } else { "intents" };
                let path = Path::new(FOLDER).join(name);
                let range = 0..len(&path);
                (path, range)
            }
            DamagedPlace::BehindPages => behind(rng.below(pages.len() as u64) as usize),
        })
    }

    /// Opens what is in a recording as the service does, with all losses accepted or none; the refusal if there is one.
    fn open(&self, os: &RecordingOs, accepts: bool) -> Result<FileExecutor<Box<dyn ServedTier>>, String> {
        let holds_data = self.array.cache.holds_dirty || self.array.cache.medium == CacheMedium::Nvram;
        let accepted = AcceptedLosses { data: accepts || !holds_data, notes: accepts };
        let losses = if accepts { vec![PageRange::ALL] } else { Vec::new() };
        let controller = self
            .array
            .spec()
            .build(&ArrayConfig { accepted_losses: losses, ..self.array.config() }, self.array.cache_pages);
        let (controller, config) = (controller.expect("an array that can be"), self.array.files(Path::new(FOLDER)));
        let opened = FileExecutor::resynchronise_on(Arc::new(os.clone()), controller, config, accepted);
        let mut files = opened.map_err(|error| error.to_string())?;
        files.wait_ready().map_err(|error| error.to_string())?;
        Ok(files)
    }

    /// Serves what is in a recording, and says what became of it. What is refused names the way on, and goes on that way.
    fn serve(&self, os: RecordingOs, what: &str) -> DamageFate {
        let (files, mut fate) = match self.open(&os, false) {
            Ok(files) => (files, DamageFate::Unseen),
            Err(why) => {
                assert!(why.contains("--accept-losses"), "{what}: it is refused for ever: {why}");
                let files = self.open(&os, true).unwrap_or_else(|error| panic!("{what}: {why}; then {error}"));
                (files, DamageFate::Refused)
            }
        };
        let content = destage_testkit::ExpectedContent::new(self.array.sizes());
        let mut again = FilledArray { array: self.array, os, files, content };
        let (sector, page) = (self.array.sector as usize, self.array.page);
        let lost = again.files.engine().controller().array().lost().to_vec();
        // With the NVRAM goes the list of what only it had.
        let lost_all = again.files.resynchronised().is_some_and(|done| done.data_lost) && fate == DamageFate::Refused;
        let is_lost = |at: usize| {
            let page = (at * sector) as u64 / page;
            lost_all || lost.iter().any(|range| range.contains(page))
        };
        let read = again.read(0, self.content.len() as u64);
        assert!(read.ok, "{what}: nothing that is asked for fails");
        for (at, bytes) in read.bytes.chunks(sector).enumerate().filter(|(at, _)| !is_lost(*at)) {
            let of = |content: &[u8]| content[at * sector..(at + 1) * sector] == *bytes;
            if !of(&self.content) {
                assert!(of(&self.before), "{what}: sector {at} is what nobody wrote");
                assert_ne!(fate, DamageFate::Refused, "{what}: sector {at} is older, and is not named");
                fate = DamageFate::Torn;
            }
        }
        again.rest();
        if !again.lost().is_empty() || !again.files.engine().controller().is_caching() {
            fate = fate.max(DamageFate::Degraded);
        }
        if !again.reports().is_empty() {
            fate = fate.max(DamageFate::Dropped);
        }
        let degraded = !again.lost().is_empty();
        let FilledArray { os, files, .. } = again;
        files.stop_clean().expect("it stops");
        assert!(degraded || self.is_consistent(&os), "{what}: the parity is wrong after a stop in order");
        fate
    }

    fn is_consistent(&self, os: &RecordingOs) -> bool {
        let content = |dev| os.content(&member(Path::new(FOLDER), dev)).expect("it is there");
        let members: Vec<_> = (0..MEMBERS).map(content).collect();
        let len = (self.array.member_pages * self.array.page) as usize;
        (0..len).all(|at| members.iter().fold(0, |sum, member| sum ^ member[at]) == 0)
    }

    /// Damages a place again and again.
    fn damage(&self, place: DamagedPlace, flips: u64, counts: &mut BTreeMap<(DamagedPlace, DamageFate), u64>) {
        let mut rng = TestRng::new(7);
        for number in 0..flips + flips / 5 {
            let Some((path, range)) = self.place(place, &mut rng) else { return };
            let os = self.os.end(false);
            let at = range.start + rng.below(range.len() as u64) as usize;
            let how = if number < flips {
                let bit = rng.below(8) as u32;
                os.flip(&path, at as u64, bit);
                format!("bit {bit} of byte {at} flipped")
            } else {
                let (unit, mut bytes) = (self.array.page as usize, os.content(&path).expect("it is there"));
                let other = range.start + rng.below(range.len() as u64) as usize;
                let [one, other] = [at, other].map(|at| range.start + (at - range.start) / unit * unit);
                let len = unit.min(range.end - one.max(other));
                if number % 2 == 0 {
                    bytes[one..one + len].fill(0);
                } else {
                    let kept = bytes[one..one + len].to_vec();
                    bytes.copy_within(other..other + len, one);
                    bytes[other..other + len].copy_from_slice(&kept);
                }
                os.put(&path, &bytes);
                format!("{len} bytes at {one} blank, or swapped with those at {other}")
            };
            let what = format!("{}, {:?}, {}: {how}", self.array.cache.name, self.end, path.display());
            let fate = self.serve(os, &what);
            let may_be_torn = place == DamagedPlace::Nvram && self.end == ArrayEnd::Killed;
            assert!(fate != DamageFate::Torn || may_be_torn, "{what}: older content is served");
            *counts.entry((place, fate)).or_default() += 1;
        }
    }
}

fn damage_all(end: ArrayEnd) {
    for info in host_caches_of(RaidLevel::Raid5) {
        let ended = EndedArray::new(info, end, None);
        let mut counts = BTreeMap::new();
        for place in [DamagedPlace::Cache, DamagedPlace::Nvram, DamagedPlace::Intents, DamagedPlace::BehindPages] {
            ended.damage(place, flips(), &mut counts);
        }
        println!("{}, {end:?}: {counts:?}", info.name);
    }
}

#[test]
fn damage_after_a_stop_in_order_gives_no_wrong_byte() {
    damage_all(ArrayEnd::InOrder);
}

#[test]
fn damage_after_a_kill_gives_no_wrong_byte() {
    damage_all(ArrayEnd::Killed);
}

/// Damages pages of a lost member in the NVRAM, of rows that were being written: a start names them.
#[test]
fn damage_of_the_nvram_of_a_degraded_array_gives_no_wrong_byte() {
    for name in ["none", "lawc", "kdd"] {
        let info = host_caches_of(RaidLevel::Raid5).find(|info| info.name == name).expect("a cache of this name");
        let ended = EndedArray::new(info, ArrayEnd::Killed, Some(1));
        let mut counts = BTreeMap::new();
        ended.damage(DamagedPlace::Nvram, 20 * flips(), &mut counts);
        println!("{name}, without a member: {counts:?}");
        // The NVRAM of the caches is much larger than what a row takes.
        let is_named = counts.keys().any(|(_, fate)| *fate == DamageFate::Refused);
        assert!(is_named || name != "none", "{name}: {counts:?}");
    }
}
