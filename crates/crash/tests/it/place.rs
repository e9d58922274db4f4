//! The NVRAM on the cache's device: a third of the histories of caches that have one, here in all ways in which histories of
//! files are run. In half of these what fails of that device stops the executor, and without it the array goes on as one whose
//! NVRAM is lost. In the others the NVRAM has a spare place, and goes there.

use destage_cache::{HostCacheInfo, host_caches_of};
use destage_crash::{FilesOptions, FilesReport, run_files};
use destage_raid::RaidLevel;
use rayon::prelude::*;

use crate::share::seeds_from;

/// From here on no other test looks.
const FIRST: u64 = 1 << 41;

fn seeds(cache: &HostCacheInfo) -> std::ops::Range<u64> {
    seeds_from(FIRST, if cache.holds_dirty || cache.delays_parity { 4 } else { 9 }, 16)
}

fn cut_all(options: FilesOptions) -> FilesReport {
    let only = std::env::var("CRASH_CACHE").ok();
    let wanted =
        |cache: &&HostCacheInfo| !cache.devices(64).is_empty() && only.as_ref().is_none_or(|only| cache.name == *only);
    let mut total = FilesReport::default();
    for level in [RaidLevel::Raid1, RaidLevel::Raid5] {
        let options = FilesOptions { level: Some(level), ..options };
        for cache in host_caches_of(level).filter(wanted) {
            let run = |seed| {
                run_files(cache, seed, options)
                    .unwrap_or_else(|failure| panic!("{} {level} {options:?}: {failure}", cache.name))
            };
            let reports: Vec<_> = seeds(cache).into_par_iter().map(run).collect();
            for report in &reports {
                total.add(report);
            }
        }
    }
    println!("{options:?}: {total:?}");
    assert!(4 * total.at_home > total.repeated, "{} starts with the NVRAM on the cache's device", total.at_home);
    total
}

#[test]
fn with_usual_misfortunes() {
    cut_all(FilesOptions::default());
}

#[test]
fn where_whatever_can_fails() {
    let total = cut_all(FilesOptions { errors: true, ..FilesOptions::default() });
    assert!(total.stops > 0 && total.bereft > 0, "{} stops, {} starts without an NVRAM", total.stops, total.bereft);
    assert!(total.moves > 0, "it leaves its device {} times", total.moves);
    cut_all(FilesOptions { errors: true, ring: true, ..FilesOptions::default() });
}

#[test]
fn where_it_is_lost_with_the_power() {
    let total = cut_all(FilesOptions { bereft: true, ..FilesOptions::default() });
    assert!(total.bereft > total.runs, "{} starts without an NVRAM", total.bereft);
    cut_all(FilesOptions { bereft: true, errors: true, ..FilesOptions::default() });
}
