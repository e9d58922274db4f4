//! Damages what says which intents are open: every row is made consistent at the next start, also those of which the NVRAM
//! has what only a row without an intent can have. No data is lost, and no parity is wrong from then on.

use destage_cache::all_host_caches_of;
use destage_crash::{HistoryAction, NumberedAction, RandomDraws};
use destage_plan::{DevSet, HostOp};
use destage_raid::RaidLevel;

use crate::altered::run_altered;
use crate::share::seeds_of;

/// Damages the intents before cuts of a seed, and before more, after which it is cut once more.
fn damage(seed: u64, drawn: &[NumberedAction]) -> Vec<NumberedAction> {
    let mut dice = RandomDraws::part(seed, 1);
    let rarity = dice.pick(&[4, 12]);
    let mut actions = Vec::new();
    for action in drawn.iter().map(|numbered| numbered.action) {
        if matches!(action, HistoryAction::Cut { .. }) && dice.one_in(2) {
            actions.push(HistoryAction::DamageIntents);
        }
        actions.push(action);
        if dice.one_in(rarity) {
            let cut = HistoryAction::Cut { back: DevSet::EMPTY, gone: None };
            actions.extend([HistoryAction::DamageIntents, cut]);
            // Soon after it is ready, while what an operation began before that may be under way.
            if dice.one_in(2) {
                let read = HistoryAction::Request { op: HostOp::Read, sector: 0, sectors: 1, fua: false };
                actions.extend([read, HistoryAction::Steps(dice.below(6)), cut]);
            }
        }
    }
    (0..).zip(actions).map(|(number, action)| NumberedAction { number, action }).collect()
}

#[test]
fn rows_whose_intents_are_damaged_are_made_consistent() {
    for level in [RaidLevel::Raid1, RaidLevel::Raid4, RaidLevel::Raid5, RaidLevel::Raid6] {
        for cache in all_host_caches_of(level) {
            let seeds = seeds_of(40, 700);
            let count = seeds.end - seeds.start;
            let report = run_altered(cache, level, seeds, |seed, history| damage(seed, &history.actions));
            let damaged = report.damaged_intents;
            assert!(damaged > count / 2, "{} {level}: {damaged} starts over damaged intents", cache.name);
        }
    }
}
