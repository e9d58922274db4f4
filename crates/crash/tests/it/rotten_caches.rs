//! Flips bits of caches' devices, whatever else goes wrong: no wrong byte is read, no parity is wrong, and no request fails.

use destage_cache::{HostCacheInfo, all_host_caches_of};
use destage_crash::{Action, Dice, Limits, Numbered, Options, Report, history, run, shrink};
use destage_raid::Level;
use rayon::prelude::*;

/// Returns the number of histories of each cache and level.
fn histories() -> u64 {
    let seeds = std::env::var("ROT_SEEDS").map(|seeds| seeds.parse().expect("a number"));
    seeds.unwrap_or(if std::env::var_os("DESTAGE_SOAK").is_some() { 20_000 } else { 40 })
}

/// Flips bits between the actions of a seed.
fn rot(seed: u64, drawn: &[Numbered]) -> Vec<Numbered> {
    let mut dice = Dice::part(seed, 1);
    let rarity = dice.pick(&[0, 1, 3]);
    let mut actions = Vec::new();
    for action in drawn.iter().map(|numbered| numbered.action) {
        for _ in 0..3 {
            if dice.one_in(rarity + 1) {
                actions.push(Action::Rot { page: dice.below(1 << 20), bit: dice.below(1 << 20) as u32 });
            }
        }
        actions.push(action);
    }
    (0..).zip(actions).map(|(number, action)| Numbered { number, action }).collect()
}

fn try_all(cache: &'static HostCacheInfo, level: Level) -> Report {
    let limits = Limits { level: Some(level), ..Limits::default() };
    let first = std::env::var("ROT_FROM").map_or(0, |seed| seed.parse().expect("a seed"));
    let reports = (first..first + histories()).into_par_iter().map(|seed| {
        let mut history = history(cache, seed, &limits);
        history.actions = rot(seed, &history.actions);
        match run(cache, &history, Options::default()) {
            Ok(report) => report,
            Err(failure) => panic!("{} {level}: {}", cache.name, shrink(cache, &failure, Options::default(), 2_000)),
        }
    });
    reports.reduce(Report::default, |mut all, report| {
        all.add(&report);
        all
    })
}

#[test]
fn what_rots_in_a_cache_is_read_from_elsewhere() {
    for level in [Level::Raid0, Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6] {
        for cache in all_host_caches_of(level) {
            let report = try_all(cache, level);
            let (rotten, dropped) = (report.rotten, report.dropped);
            assert!(rotten == 0 || dropped > 0, "{} {level}: {dropped} of {rotten} dropped", cache.name);
        }
    }
}
