//! A device is missing at one start, which serves nothing but reads, and is back at the next. What was read without it
//! must stay: reads rely on what the start has noted, as writes do.

use destage_cache::{HostCacheInfo, all_host_caches_of};
use destage_crash::{DrawLimits, HistoryAction, NumberedAction, RandomDraws, RunOptions, history, run, shrink};
use destage_plan::{DevSet, HostOp};
use destage_raid::RaidLevel;
use rayon::prelude::*;

use crate::share::share_of;

/// Returns the number of histories of each cache and level.
fn histories() -> u64 {
    share_of(60, 700)
}

/// Builds the actions of a seed: some of the drawn requests, the loss of a device, a start without it and one with it.
fn actions(seed: u64, drawn: &[NumberedAction], members: u8) -> Vec<NumberedAction> {
    let mut dice = RandomDraws::part(seed, 1);
    let changes = |action: &HistoryAction| matches!(action, HistoryAction::Request { op, .. } if *op != HostOp::Read);
    let mut actions = Vec::new();
    for action in drawn.iter().map(|numbered| numbered.action).filter(changes).take(dice.within(1, 5) as usize) {
        actions.extend([action, HistoryAction::Steps(dice.below(12))]);
    }
    let dev = if dice.one_in(2) { members } else { dice.below(u64::from(members)) as u8 };
    let cut = |back| HistoryAction::Cut { back, gone: None };
    actions.extend([
        HistoryAction::Lose { dev, told: dice.one_in(2), beyond: false },
        HistoryAction::Steps(dice.below(8)),
    ]);
    // Before its first request after a start the harness reads everything.
    let read = HistoryAction::Request { op: HostOp::Read, sector: 0, sectors: 1, fua: false };
    actions.extend([
        cut(DevSet::EMPTY),
        read,
        HistoryAction::Steps(dice.below(4)),
        cut(DevSet::from_bits(u64::MAX)),
        read,
    ]);
    if dice.one_in(2) {
        actions.extend([HistoryAction::Drain, cut(DevSet::EMPTY)]);
    }
    (0..).zip(actions).map(|(number, action)| NumberedAction { number, action }).collect()
}

fn try_all(cache: &'static HostCacheInfo, level: RaidLevel) -> u64 {
    let limits = DrawLimits { level: Some(level), ..DrawLimits::default() };
    let cuts = (0..histories()).into_par_iter().map(|seed| {
        let mut history = history(cache, seed, &limits);
        history.actions = actions(seed, &history.actions, history.cell.geometry.members());
        match run(cache, &history, RunOptions::default()) {
            Ok(report) => report.cuts,
            Err(failure) => panic!("{} {level}: {}", cache.name, shrink(cache, &failure, RunOptions::default(), 2_000)),
        }
    });
    cuts.sum()
}

#[test]
fn what_was_read_without_a_device_stays_when_it_is_there_again() {
    for level in RaidLevel::ALL {
        for cache in all_host_caches_of(level) {
            let cuts = try_all(cache, level);
            assert!(cuts > histories(), "{} {level}: {cuts} cuts", cache.name);
        }
    }
}
