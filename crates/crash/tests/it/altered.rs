//! Runs histories that are drawn and then altered.

use std::ops::Range;

use destage_cache::HostCacheInfo;
use destage_crash::{
    CrashHistory, DrawLimits, HistoryAction, NumberedAction, RandomDraws, RunOptions, RunReport, history, run, shrink,
};
use destage_raid::RaidLevel;
use rayon::prelude::*;

/// Runs the histories of a cache and a level, each with the actions that `alter` makes of its seed and itself, and adds up
/// what they report. A history that fails is made small.
pub fn run_altered(
    cache: &'static HostCacheInfo,
    level: RaidLevel,
    seeds: Range<u64>,
    alter: impl Fn(u64, &CrashHistory) -> Vec<NumberedAction> + Sync,
) -> RunReport {
    let limits = DrawLimits { level: Some(level), ..DrawLimits::default() };
    let reports = seeds.into_par_iter().map(|seed| {
        let mut history = history(cache, seed, &limits);
        history.actions = alter(seed, &history);
        match run(cache, &history, RunOptions::default()) {
            Ok(report) => report,
            Err(failure) => panic!("{} {level}: {}", cache.name, shrink(cache, &failure, RunOptions::default(), 2_000)),
        }
    });
    reports.reduce(RunReport::default, |mut all, report| {
        all.add(&report);
        all
    })
}

/// Orders rows to be compared between the actions of every other seed.
pub fn with_scrubs(seed: u64, drawn: &[NumberedAction]) -> Vec<NumberedAction> {
    let mut dice = RandomDraws::part(seed, 2);
    if dice.one_in(2) {
        return drawn.to_vec();
    }
    let mut actions = Vec::new();
    for action in drawn.iter().map(|numbered| numbered.action) {
        if dice.one_in(3) {
            actions.push(HistoryAction::Scrub { first: dice.draw(), rows: dice.draw(), repairs: dice.one_in(2) });
        }
        actions.push(action);
    }
    (0..).zip(actions).map(|(number, action)| NumberedAction { number, action }).collect()
}
