//! Faults planted in the executor are found within so many seeds. The bounds are about ten times
//! what was measured.

use destage_cache::{HostCacheInfo, host_caches};
use destage_crash::{Limits, Mutant, Options, first_failure};
use destage_raid::Level;

fn cache() -> &'static HostCacheInfo {
    host_caches().find(|info| info.name == "none").expect("a cache of this name")
}

/// Seeds until the fault is found in RAID-5 and RAID-6: by all checks, and by what a host sees
/// alone.
fn found_within(mutant: Mutant, bound: u64, blind_bound: u64) {
    for level in [Level::Raid5, Level::Raid6] {
        for (blind, bound) in [(false, bound), (true, blind_bound)] {
            let limits = Limits { level: Some(level), ..Limits::default() };
            let options = Options { mutant: Some(mutant), blind, ..Options::default() };
            let (seeds, failure) = first_failure(cache(), 0..bound, &limits, options)
                .unwrap_or_else(|| panic!("{mutant:?} on {level} is not found within {bound} seeds (blind: {blind})"));
            let what = failure.what.lines().next().unwrap_or_default();
            println!(
                "{mutant:?} on {level}{}: found by seed {seeds}: {what}",
                if blind { ", by the host" } else { "" }
            );
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
    a_forgotten_flush: Mutant::OmitFlush, 30, 1_600;
    a_skipped_intent: Mutant::SkipIntent, 20, 160;
    an_intent_cleared_early: Mutant::EarlyClear, 310, 540;
    a_member_that_was_not_read: Mutant::UnreadMember, 70, 230;
    a_write_acknowledged_before_it_is_done: Mutant::AckBeforeWrite, 20, 50;
    fua_that_is_ignored: Mutant::IgnoreFua, 20, 50;
}
