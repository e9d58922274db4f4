//! Runs histories that are drawn and then altered.

use std::ops::Range;

use destage_cache::HostCacheInfo;
use destage_crash::{Action, Dice, History, Limits, Numbered, Options, Report, history, run, shrink};
use destage_raid::Level;
use rayon::prelude::*;

/// Runs the histories of a cache and a level, each with the actions that `alter` makes of its seed and itself, and adds up
/// what they report. A history that fails is made small.
pub fn run_altered(
    cache: &'static HostCacheInfo,
    level: Level,
    seeds: Range<u64>,
    alter: impl Fn(u64, &History) -> Vec<Numbered> + Sync,
) -> Report {
    let limits = Limits { level: Some(level), ..Limits::default() };
    let reports = seeds.into_par_iter().map(|seed| {
        let mut history = history(cache, seed, &limits);
        history.actions = alter(seed, &history);
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

/// Orders rows to be compared between the actions of every other seed.
pub fn with_scrubs(seed: u64, drawn: &[Numbered]) -> Vec<Numbered> {
    let mut dice = Dice::part(seed, 2);
    if dice.one_in(2) {
        return drawn.to_vec();
    }
    let mut actions = Vec::new();
    for action in drawn.iter().map(|numbered| numbered.action) {
        if dice.one_in(3) {
            actions.push(Action::Scrub { first: dice.draw(), rows: dice.draw(), repairs: dice.one_in(2) });
        }
        actions.push(action);
    }
    (0..).zip(actions).map(|(number, action)| Numbered { number, action }).collect()
}
