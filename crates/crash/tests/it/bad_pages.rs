//! Lets members be unable to read pages, whatever else goes wrong: no data is lost that the level computes, and no request
//! fails.

use destage_cache::all_host_caches_of;
use destage_crash::{HistoryAction, NumberedAction, RandomDraws};
use destage_raid::RaidLevel;

use crate::altered::{run_altered, with_scrubs};
use crate::share::share_of;

/// Returns the number of histories of each cache and level.
fn histories() -> u64 {
    share_of(40, 700)
}

/// Spoils pages between the actions of a seed, mostly of few rows: those are met again.
fn spoil(seed: u64, drawn: &[NumberedAction], members: u8) -> Vec<NumberedAction> {
    let mut dice = RandomDraws::part(seed, 1);
    let rows = dice.pick(&[1, 4, 32]);
    let rarity = dice.pick(&[1, 3, 8]);
    let mut actions = Vec::new();
    for action in drawn.iter().map(|numbered| numbered.action) {
        while dice.one_in(rarity + 1) {
            let dev = dice.below(u64::from(members)) as u8;
            actions.push(HistoryAction::Spoil { dev, page: dice.below(rows), broken: dice.one_in(4) });
        }
        actions.push(action);
    }
    (0..).zip(actions).map(|(number, action)| NumberedAction { number, action }).collect()
}

#[test]
fn pages_that_cannot_be_read_are_made_anew() {
    for level in [RaidLevel::Raid1, RaidLevel::Raid4, RaidLevel::Raid5, RaidLevel::Raid6] {
        for cache in all_host_caches_of(level) {
            let report = run_altered(cache, level, 0..histories(), |seed, history| {
                spoil(seed, &with_scrubs(seed, &history.actions), history.cell.geometry.members())
            });
            let (spoiled, corrected) = (report.spoiled, report.corrected);
            assert!(corrected > histories() / 2, "{} {level}: {corrected} of {spoiled} pages corrected", cache.name);
        }
    }
}
