//! Flips bits of caches' devices, whatever else goes wrong: no wrong byte is read, no parity is wrong, and no request fails.

use destage_cache::all_host_caches_of;
use destage_crash::{HistoryAction, NumberedAction, RandomDraws};
use destage_raid::RaidLevel;

use crate::altered::{run_altered, with_scrubs};
use crate::share::seeds_of;

/// Flips bits between the actions of a seed.
fn rot(seed: u64, drawn: &[NumberedAction]) -> Vec<NumberedAction> {
    let mut dice = RandomDraws::part(seed, 1);
    let rarity = dice.pick(&[0, 1, 3]);
    let mut actions = Vec::new();
    for action in drawn.iter().map(|numbered| numbered.action) {
        for _ in 0..3 {
            if dice.one_in(rarity + 1) {
                actions.push(HistoryAction::Rot { page: dice.below(1 << 20), bit: dice.below(1 << 20) as u32 });
            }
        }
        actions.push(action);
    }
    (0..).zip(actions).map(|(number, action)| NumberedAction { number, action }).collect()
}

#[test]
fn what_rots_in_a_cache_is_read_from_elsewhere() {
    for level in [RaidLevel::Raid0, RaidLevel::Raid1, RaidLevel::Raid4, RaidLevel::Raid5, RaidLevel::Raid6] {
        for cache in all_host_caches_of(level) {
            let report = run_altered(cache, level, seeds_of(40, 700), |seed, history| {
                rot(seed, &with_scrubs(seed, &history.actions))
            });
            let (rotten, dropped) = (report.rotten, report.dropped);
            // Of a few flipped bits all may be written over before they are read.
            assert!(rotten < 40 || dropped > 0, "{} {level}: {dropped} of {rotten} dropped", cache.name);
        }
    }
}
