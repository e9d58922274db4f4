//! The NVRAM or the intents end with the power, and now and then the cache's device with them: what members have marked is
//! all that tells which rows may be inconsistent. Every moment that is kept is opened so. Nothing that was flushed is lost,
//! and after a clean stop every row is consistent, also those that were not marked and so not looked at. That marks are
//! durable before rows are written, and stay until these are consistent, is shown by `slips.rs`.

use destage_cache::{CacheMedium, host_caches_of};
use destage_crash::{FilesOptions, FilesReport, run_files};
use destage_raid::RaidLevel;
use rayon::prelude::*;

use crate::share::seeds_of;

/// Returns the seeds of a cell.
fn seeds(is_slow: bool) -> std::ops::Range<u64> {
    seeds_of(if is_slow { 1 } else { 4 }, 8)
}

fn cut_all(level: RaidLevel, ring: bool) {
    let only = std::env::var("CRASH_CACHE").ok();
    let options = FilesOptions { level: Some(level), bereft: true, ring, ..FilesOptions::default() };
    let mut all = FilesReport::default();
    for cache in host_caches_of(level).filter(|cache| only.as_ref().is_none_or(|only| cache.name == *only)) {
        let reports: Vec<_> = seeds(cache.holds_dirty || cache.delays_parity)
            .into_par_iter()
            .map(|seed| {
                run_files(cache, seed, options).unwrap_or_else(|failure| panic!("{} {level}: {failure}", cache.name))
            })
            .collect();
        let mut total = FilesReport::default();
        for report in &reports {
            total.add(report);
        }
        println!("{} {level}: {total:?}", cache.name);
        if !cache.holds_dirty && cache.medium != CacheMedium::Nvram {
            all.add(&total);
        }
    }
    assert!(all.runs < 20 || all.bereft > 10 * all.runs, "{} starts without NVRAM or intents", all.bereft);
    let rows = all.marked > 0 && all.marked < all.rows || level == RaidLevel::Raid0;
    assert!(all.runs < 20 || rows, "{} of {} rows were marked", all.marked, all.rows);
}

#[test]
fn raid0() {
    cut_all(RaidLevel::Raid0, false);
}

#[test]
fn raid1() {
    cut_all(RaidLevel::Raid1, false);
}

#[test]
fn raid4() {
    cut_all(RaidLevel::Raid4, true);
}

#[test]
fn raid5() {
    cut_all(RaidLevel::Raid5, false);
}

#[test]
fn raid5_over_a_ring() {
    cut_all(RaidLevel::Raid5, true);
}

#[test]
fn raid6() {
    cut_all(RaidLevel::Raid6, false);
}
