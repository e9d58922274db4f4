//! The file executor is cut everywhere. That it does without none of its syncs is shown by `slips.rs`.

use destage_cache::{HostCacheInfo, host_caches, host_caches_of};
use destage_crash::{FilesFailure, FilesOptions, FilesReport, run_files, run_store, shrink_files};
use destage_exec::ExecutorFault;
use destage_raid::RaidLevel;
use rayon::prelude::*;

use crate::share::{in_turn, seeds_of, share_of};
use crate::shown_by::seeds;

/// Returns the seeds of a cell: in the suite enough for 10⁵ cuts in all. Those of caches whose device holds more than
/// copies take twenty times as long.
fn histories(cache: &HostCacheInfo) -> std::ops::Range<u64> {
    seeds_of(if cache.holds_dirty || cache.delays_parity { 1 } else { 4 }, 20)
}

/// Describes a failure: the smallest history found that fails so, and how to run it.
fn told(cache: &'static HostCacheInfo, level: RaidLevel, failure: &FilesFailure, options: FilesOptions) -> String {
    let (small, options) = shrink_files(cache, failure, options, 200);
    format!(
        "{} {level}: seed {}: {}\nmade small: {small}\nCRASH_CACHE={} CRASH_FROM={} CRASH_SEEDS=1 CRASH_LEAVE_OUT={} \
         cargo test -p destage-crash --test it -- files::{}",
        cache.name,
        failure.seed,
        failure.what,
        cache.name,
        failure.seed,
        options.leave_out,
        level.to_string().replace('-', "").to_lowercase()
    )
}

fn cut_all(level: RaidLevel) {
    let only = std::env::var("CRASH_CACHE").ok();
    let leave_out = std::env::var("CRASH_LEAVE_OUT").map_or(0, |text| text.parse().expect("a number"));
    let mut all = FilesReport::default();
    for cache in host_caches_of(level).filter(|cache| only.as_ref().is_none_or(|only| cache.name == *only)) {
        let options = FilesOptions { level: Some(level), leave_out, ..FilesOptions::default() };
        let reports: Result<Vec<_>, Box<FilesFailure>> =
            histories(cache).into_par_iter().map(|seed| run_files(cache, seed, options)).collect();
        let reports = reports.unwrap_or_else(|failure| panic!("{}", told(cache, level, &failure, options)));
        let mut total = FilesReport::default();
        for report in &reports {
            total.add(report);
        }
        println!("{} {level}: {total:?}", cache.name);
        all.add(&total);
    }
    // Those of one cache, or of few seeds, may be any.
    if all.runs >= 20 {
        let ends = all.cuts + all.kills;
        assert!(ends > 40 * all.runs && all.repeated > all.runs, "the histories do what they are for: {all:?}");
        // Another file in a device's place is rarer than its own.
        let in_its_place = all.in_its_place > 0 || all.runs < 200;
        assert!(all.by_its_own > 0 && in_its_place || level == RaidLevel::Raid0, "devices are replaced: {all:?}");
    }
}

macro_rules! levels {
    ($($name:ident: $level:expr;)*) => { $(
        #[test]
        fn $name() {
            cut_all($level);
        }
    )* };
}

levels! {
    raid0: RaidLevel::Raid0;
    raid1: RaidLevel::Raid1;
    raid4: RaidLevel::Raid4;
    raid5: RaidLevel::Raid5;
    raid6: RaidLevel::Raid6;
}

#[test]
fn steps_of_the_nvram_are_whole_durable_and_in_order() {
    let histories = share_of(150, 2_000);
    let cuts: Result<Vec<u64>, _> = (0..histories).into_par_iter().map(|seed| run_store(seed, None)).collect();
    let cuts: u64 = cuts.unwrap_or_else(|failure| panic!("{failure}")).iter().sum();
    println!("{histories} histories, {cuts} cuts");
    assert!(cuts > 10 * histories, "the histories do what they are for");
}

#[test]
fn a_seed_decides_everything() {
    let all = RaidLevel::ALL.into_iter().flat_map(|level| host_caches_of(level).map(move |cache| (cache, level)));
    for (at, (cache, level)) in in_turn(all.enumerate(), 0, 5) {
        let options = FilesOptions { level: Some(level), ..FilesOptions::default() };
        let again = || format!("{:?}", run_files(cache, at as u64, options));
        assert_eq!(again(), again(), "{} {level} seed {at}", cache.name);
    }
}

#[test]
fn a_sync_that_covers_its_own_workers_writes_alone_is_found() {
    for (level, cache) in
        RaidLevel::ALL.into_iter().flat_map(|level| host_caches_of(level).map(move |cache| (level, cache)))
    {
        let options =
            FilesOptions { level: Some(level), slip: Some(ExecutorFault::OwnAlone), ..FilesOptions::default() };
        // In most cells it is the second seed that shows it.
        let found = seeds(&SHOWN_BY, &(cache.name, level), 1..FILES_SEEDS)
            .chain([0])
            .find_map(|seed| run_files(cache, seed, options).err());
        let failure = found.unwrap_or_else(|| panic!("{} {level}: not found in {FILES_SEEDS} seeds", cache.name));
        println!("{} {level}: seed {}: {}", cache.name, failure.seed, failure.what);
    }
}

/// Seeds of each cell within which a fault of all syncs must be found: some ten times what it took.
const FILES_SEEDS: u64 = 40;

/// Lists the seeds that show it in cells where it takes more than two.
const SHOWN_BY: [((&str, RaidLevel), u64); 6] = [
    (("iwc", RaidLevel::Raid0), 16),
    (("sync+iwc", RaidLevel::Raid4), 2),
    (("iwc", RaidLevel::Raid5), 4),
    (("sync+iwc", RaidLevel::Raid5), 2),
    (("lawc", RaidLevel::Raid5), 2),
    (("iwc", RaidLevel::Raid6), 2),
];

#[test]
fn a_failing_file_history_is_made_small() {
    let cache = host_caches().find(|cache| cache.name == "none").expect("a cache of this name");
    let options =
        FilesOptions { level: Some(RaidLevel::Raid5), slip: Some(ExecutorFault::OwnAlone), ..FilesOptions::default() };
    let (mut made, mut actions, mut left) = (0, 0, 0);
    for failure in (0..120).filter_map(|seed| run_files(cache, seed, options).err()).filter(|found| found.actions > 16)
    {
        let (small, smaller) = shrink_files(cache, &failure, options, 200);
        println!("{} actions, then {}: {small}", failure.actions, small.actions);
        assert!(small.actions < failure.actions, "some actions have nothing to do with it");
        (actions, left) = (actions + failure.actions, left + small.actions);
        let again = run_files(cache, failure.seed, smaller).expect_err("it fails again");
        assert_eq!((&again.what, &again.log), (&small.what, &small.log));
        assert!(small.log.iter().any(|line| line.contains("Write")), "what was done is told");
        let told = told(cache, RaidLevel::Raid5, &failure, options);
        let replay =
            format!("CRASH_LEAVE_OUT={} cargo test -p destage-crash --test it -- files::raid5", smaller.leave_out);
        assert!(told.ends_with(&replay), "{told}");
        made += 1;
        if made == 3 {
            assert!(left * 2 <= actions, "most actions have nothing to do with it: {left} of {actions} are left");
            return;
        }
    }
    panic!("{made} histories of some length fail");
}

/// Found where whatever can fails: a file that was to take a member's place was labelled before its length was durable; the
/// sync of both failed, and the next start refused a file of that size.
#[test]
fn a_replacement_that_is_cut_short_is_in_nobodys_way() {
    let cache = host_caches().find(|cache| cache.name == "none").expect("a cache of this name");
    let options = FilesOptions { level: Some(RaidLevel::Raid1), errors: true, ..FilesOptions::default() };
    let outcome = run_files(cache, 60, options);
    outcome.unwrap_or_else(|failure| panic!("{}", told(cache, RaidLevel::Raid1, &failure, options)));
}
