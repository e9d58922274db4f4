//! The NVRAM or the intents end with the power, and now and then the cache's device with them: what members have marked is
//! all that tells which rows may be inconsistent. Every moment that is kept is opened so. Nothing that was flushed is lost,
//! and after a clean stop every row is consistent, also those that were not marked and so not looked at. That marks are
//! durable before rows are written, and stay until these are consistent, is shown by `slips.rs`.

use destage_cache::{Medium, host_caches_of};
use destage_crash::{FilesOptions, FilesReport, run_files};
use destage_raid::Level;
use rayon::prelude::*;

use crate::share::seeds_of;

/// Returns the seeds of a cell.
fn seeds(is_slow: bool) -> std::ops::Range<u64> {
    seeds_of(if is_slow { 1 } else { 4 }, 8)
}

fn cut_all(level: Level, ring: bool) {
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
        if !cache.holds_dirty && cache.medium != Medium::Nvram {
            all.add(&total);
        }
    }
    assert!(all.runs < 20 || all.bereft > 10 * all.runs, "{} starts without NVRAM or intents", all.bereft);
    let rows = all.marked > 0 && all.marked < all.rows || level == Level::Raid0;
    assert!(all.runs < 20 || rows, "{} of {} rows were marked", all.marked, all.rows);
}

#[test]
fn raid0() {
    cut_all(Level::Raid0, false);
}

#[test]
fn raid1() {
    cut_all(Level::Raid1, false);
}

#[test]
fn raid4() {
    cut_all(Level::Raid4, true);
}

#[test]
fn raid5() {
    cut_all(Level::Raid5, false);
}

#[test]
fn raid5_over_a_ring() {
    cut_all(Level::Raid5, true);
}

#[test]
fn raid6() {
    cut_all(Level::Raid6, false);
}
