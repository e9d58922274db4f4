//! Faults planted in the executor are found within so many seeds, in memory and over recorded files. The bounds are about
//! ten times what was measured.

use destage_cache::{CacheMedium, host_caches, host_caches_of};
use destage_crash::{ControllerFault, DrawLimits, FilesOptions, RunOptions, StepFault, first_failure, run_files};
use destage_raid::RaidLevel;
use rayon::prelude::*;

use crate::share::in_turn;
use crate::shown_by::seeds;

const LEVELS: [RaidLevel; 4] = [RaidLevel::Raid1, RaidLevel::Raid4, RaidLevel::Raid5, RaidLevel::Raid6];

/// Seeds until the fault is found, in each cache over each redundant level: by all checks, and by
/// what a host sees alone. No cell may be the only one that finds it.
fn found_within(mutant: StepFault, bound: u64, blind_bound: u64) {
    // Those that write to the members at once: the others need neither intents nor flushes for most of
    // what they do, and have faults of their own.
    let caches = host_caches().filter(|info| info.medium != CacheMedium::Nvram);
    for (cache, level) in caches.flat_map(|cache| LEVELS.map(|level| (cache, level))) {
        for (blind, bound) in [(false, bound), (true, blind_bound)] {
            let limits = DrawLimits { level: Some(level), ..DrawLimits::default() };
            let options = RunOptions { mutant: Some(mutant), blind, ..RunOptions::default() };
            let (seeds, failure) = first_failure(cache, 0..bound, &limits, options).unwrap_or_else(|| {
                panic!("{mutant:?}, {} on {level}: not found within {bound} seeds (blind: {blind})", cache.name)
            });
            let what = failure.what.lines().next().unwrap_or_default();
            let by = if blind { ", by the host" } else { "" };
            println!("{mutant:?}, {} on {level}{by}: found by seed {seeds}: {what}", cache.name);
        }
    }
}

macro_rules! mutants {
    ($($name:ident: $mutant:expr, $bound:expr, $blind:expr;)*) => { $(
        #[test]
        fn $name() {
            found_within($mutant, $bound, $blind);
        }
    )* };
}

mutants! {
    a_forgotten_flush: StepFault::OmitFlush, 80, 800;
    a_skipped_intent: StepFault::SkipIntent, 20, 4_700;
    an_intent_cleared_early: StepFault::EarlyClear, 320, 4_700;
    a_member_that_was_not_read: StepFault::UnreadMember, 100, 320;
    a_write_acknowledged_before_it_is_done: StepFault::AckBeforeWrite, 60, 60;
    fua_that_is_ignored: StepFault::IgnoreFua, 30, 50;
}

/// Tries caches that rely on the NVRAM, where not every acknowledged write is durable.
#[test]
fn a_step_that_begins_before_commits_are_durable() {
    for name in ["stow", "iwc", "lawc", "write-back", "kdd", "leavo"] {
        let cache = host_caches().find(|cache| cache.name == name).expect("a cache of this name");
        let limits = DrawLimits { level: Some(RaidLevel::Raid5), ..DrawLimits::default() };
        let options = RunOptions { mutant: Some(StepFault::BeginAhead), ..RunOptions::default() };
        let found = first_failure(cache, 0..3_000, &limits, options);
        let (seeds, failure) = found.unwrap_or_else(|| panic!("{name}: not found"));
        println!("{name}: found by seed {seeds}: {}", failure.what.lines().next().unwrap_or_default());
    }
}

/// Histories of recorded files until a fault is found in each of the same cells. Each is cut at some hundred moments; nobody looks at
/// rows but after a clean stop.
const FILES_SEEDS: u64 = 40;

/// The seeds at which a fault shows in the cells where that is not the first.
const SHOWN_BY: [((&str, RaidLevel, StepFault), u64); 15] = [
    (("none", RaidLevel::Raid1, StepFault::OmitFlush), 8),
    (("write-around", RaidLevel::Raid1, StepFault::OmitFlush), 3),
    (("write-around", RaidLevel::Raid1, StepFault::EarlyClear), 1),
    (("write-back", RaidLevel::Raid1, StepFault::OmitFlush), 28),
    (("write-back", RaidLevel::Raid1, StepFault::EarlyClear), 1),
    (("write-back", RaidLevel::Raid1, StepFault::AckBeforeWrite), 1),
    (("write-around", RaidLevel::Raid4, StepFault::IgnoreFua), 1),
    (("write-back", RaidLevel::Raid4, StepFault::SkipIntent), 1),
    (("write-back", RaidLevel::Raid4, StepFault::AckBeforeWrite), 1),
    (("write-through", RaidLevel::Raid5, StepFault::IgnoreFua), 1),
    (("write-back", RaidLevel::Raid5, StepFault::SkipIntent), 1),
    (("write-back", RaidLevel::Raid5, StepFault::EarlyClear), 1),
    (("write-back", RaidLevel::Raid5, StepFault::AckBeforeWrite), 1),
    (("write-back", RaidLevel::Raid6, StepFault::SkipIntent), 1),
    (("write-back", RaidLevel::Raid6, StepFault::AckBeforeWrite), 16),
];

/// All of them show there: what is planned is changed, whatever carries it out.
#[test]
fn all_of_them_over_recorded_files() {
    let cells = LEVELS.into_iter().flat_map(|level| host_caches_of(level).map(move |cache| (cache, level)));
    let cells = cells.filter(|(cache, _)| cache.medium != CacheMedium::Nvram);
    // Every second mutant of a cell, and of the next one the others.
    let of =
        |(at, (cache, level))| in_turn(StepFault::ALL.into_iter(), at % 2, 2).map(move |mutant| (cache, level, mutant));
    let all: Vec<_> = cells.enumerate().flat_map(of).collect();
    all.into_par_iter().for_each(|(cache, level, mutant)| {
        let crooked = Some(ControllerFault::Plans(mutant));
        let options = FilesOptions { level: Some(level), crooked, ..FilesOptions::default() };
        let mut seeds = seeds(&SHOWN_BY, &(cache.name, level, mutant), 0..FILES_SEEDS);
        let found = seeds.find_map(|seed| run_files(cache, seed, options).err());
        let failure = found.unwrap_or_else(|| panic!("{mutant:?}, {} on {level}: not found over files", cache.name));
        println!("{mutant:?}, {} on {level} over files: seed {}: {}", cache.name, failure.seed, failure.what);
    });
}
