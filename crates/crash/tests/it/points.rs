//! Counts the crash points that are tried.
//!
//! The same planner, recovery and formats run over devices in memory, over recorded files by threads, and over a ring.
//! Some histories have the usual misfortunes, others have failures wherever they can be. The other tests say where the
//! array crashes, in which ways, and what must hold afterwards. Their seeds are not used here.

use destage_cache::{HostCacheInfo, all_host_caches_of, host_caches_of};
use destage_crash::{DrawLimits, FilesOptions, RunOptions, exhaust, explore, run_files, run_store};
use destage_raid::RaidLevel;
use rayon::prelude::*;

use crate::share::is_soak;

/// From here on no other test looks.
const FIRST: u64 = 1 << 40;

/// Histories of each cell, and how many crash points are promised of all together.
struct Share {
    /// In memory, at random; short ones cut everywhere.
    memory: u64,
    short: u64,
    /// Of files, each way; of caches whose device holds more than copies, of which one takes as long as twenty others.
    files: u64,
    slow: u64,
    nvram: u64,
    promised_in_memory: u64,
    promised_in_files: u64,
}

fn share() -> Share {
    if is_soak() {
        let (promised_in_memory, promised_in_files) = (40_000, 1_000_000);
        Share { memory: 400, short: 8, files: 20, slow: 2, nvram: 4_000, promised_in_memory, promised_in_files }
    } else {
        let (promised_in_memory, promised_in_files) = (5_000, 100_000);
        Share { memory: 40, short: 1, files: 2, slow: 0, nvram: 150, promised_in_memory, promised_in_files }
    }
}

fn in_memory(share: &Share) -> u64 {
    let mut cuts = 0;
    for level in RaidLevel::ALL {
        let limits = DrawLimits { level: Some(level), ..DrawLimits::default() };
        for cache in all_host_caches_of(level) {
            let report = explore(cache, FIRST..FIRST + share.memory, &limits, RunOptions::default());
            cuts += report.unwrap_or_else(|failure| panic!("{} {level}: {failure}", cache.name)).cuts;
        }
        let limits = DrawLimits { level: Some(level), no_losses: true, no_cuts: true, ..DrawLimits::default() };
        for cache in host_caches_of(level) {
            let done = exhaust(cache, FIRST..FIRST + share.short, &limits, 1 << 3);
            cuts += done.unwrap_or_else(|failure| panic!("{} {level}: {failure}", cache.name)).cuts;
        }
    }
    cuts
}

fn in_files(share: &Share, options: FilesOptions) -> u64 {
    let histories = |(level, cache): (RaidLevel, &'static HostCacheInfo)| {
        let seeds = if cache.holds_dirty || cache.delays_parity { share.slow } else { share.files };
        (FIRST..FIRST + seeds).map(move |seed| (level, cache, seed))
    };
    let cells = RaidLevel::ALL.into_iter().flat_map(|level| host_caches_of(level).map(move |cache| (level, cache)));
    let all: Vec<_> = cells.flat_map(histories).collect();
    let cuts = all.into_par_iter().map(|(level, cache, seed)| {
        match run_files(cache, seed, FilesOptions { level: Some(level), ..options }) {
            Ok(report) => report.cuts + report.kills,
            Err(failure) => panic!("{} {level} {options:?}: {failure}", cache.name),
        }
    });
    cuts.sum()
}

fn in_the_nvram(share: &Share) -> u64 {
    let cuts = (FIRST..FIRST + share.nvram).into_par_iter();
    cuts.map(|seed| run_store(seed, None).unwrap_or_else(|failure| panic!("{failure}"))).sum()
}

#[test]
fn crash_points_are_as_many_as_promised() {
    let share = share();
    let usual = FilesOptions::default();
    let ways = [
        ("by threads", usual),
        ("over a ring", FilesOptions { ring: true, ..usual }),
        ("by threads, where whatever can fails", FilesOptions { errors: true, ..usual }),
        ("over a ring, where whatever can fails", FilesOptions { ring: true, errors: true, ..usual }),
    ];
    let told = |cuts: u64, way: &str| {
        println!("{cuts} crash points {way}");
        cuts
    };
    let nvram = told(in_the_nvram(&share), "of the NVRAM alone");
    let files = nvram + ways.into_iter().map(|(way, options)| told(in_files(&share, options), way)).sum::<u64>();
    let memory = told(in_memory(&share), "in memory");
    println!("{} crash points in all, {files} of them in recorded files; nothing was lost", memory + files);
    assert!(memory >= share.promised_in_memory, "{memory} in memory, not {}", share.promised_in_memory);
    assert!(files >= share.promised_in_files, "{files} in files, not {}", share.promised_in_files);
}
