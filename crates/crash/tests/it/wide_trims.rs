//! Trims several stripes at once, and zeros them, amid whatever else goes wrong: nothing that was promised is lost by that.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use destage_cache::all_host_caches_of;
use destage_crash::{CrashHistory, HistoryAction, NumberedAction, PAGE_SECTORS, RandomDraws};
use destage_plan::HostOp;
use destage_raid::RaidLevel;

use crate::altered::run_altered;
use crate::share::share_of;

/// Returns the number of histories of each cache and level.
fn histories() -> u64 {
    share_of(60, 700)
}

/// Has a seed at which a trim was found that takes the members of its first stripe for those of all.
const FOUND: Range<u64> = 1350..1360;

/// Makes every fifth request a trim of two stripes and more, or zeros of as many.
fn widen(seed: u64, history: &CrashHistory, widened: &AtomicU64) -> Vec<NumberedAction> {
    let mut dice = RandomDraws::part(seed, 1);
    let geometry = &history.cell.geometry;
    let stripe = u64::from(geometry.chunk_pages()) * u64::from(geometry.data_columns()) * PAGE_SECTORS;
    let mut widen = |action| match action {
        HistoryAction::Request { .. } if geometry.stripes() > 1 && dice.one_in(5) => {
            widened.fetch_add(1, Ordering::Relaxed);
            let count = dice.within(2, geometry.stripes());
            let first = dice.below(geometry.stripes() - count + 1);
            let op = if dice.one_in(3) { HostOp::WriteZeroesUnmap } else { HostOp::Discard };
            // Some begin and end within stripes.
            let (before, behind) = if dice.one_in(3) { (dice.below(stripe), dice.below(stripe)) } else { (0, 0) };
            let (sector, sectors) = (first * stripe + before, count * stripe - before - behind);
            HistoryAction::Request { op, sector, sectors, fua: false }
        }
        other => other,
    };
    let actions = history.actions.iter().map(|numbered| NumberedAction { action: widen(numbered.action), ..*numbered });
    actions.collect()
}

#[test]
fn stripes_that_are_trimmed_together_lose_nothing_of_others() {
    let widened = AtomicU64::new(0);
    for level in [RaidLevel::Raid0, RaidLevel::Raid1, RaidLevel::Raid4, RaidLevel::Raid5, RaidLevel::Raid6] {
        for cache in all_host_caches_of(level) {
            for seeds in [0..histories(), FOUND] {
                run_altered(cache, level, seeds, |seed, history| widen(seed, history, &widened));
            }
        }
    }
    assert!(widened.into_inner() > 1000, "no test");
}
