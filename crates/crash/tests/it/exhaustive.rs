//! Short histories, cut after every step in every way.

use destage_cache::{HostCacheInfo, host_caches_of};
use destage_crash::{DrawLimits, exhaust};
use destage_raid::RaidLevel;

use crate::share::is_soak;

fn all(cache: &'static HostCacheInfo, level: RaidLevel) {
    try_all(cache, level, false);
    if level != RaidLevel::Raid0 {
        try_all(cache, level, true);
    }
}

/// Arrays of which all members live, or one is lost.
fn try_all(cache: &'static HostCacheInfo, level: RaidLevel, lost: bool) {
    let limits = DrawLimits { level: Some(level), no_losses: !lost, no_cuts: true, ..DrawLimits::default() };
    // Subsets of up to three pages are tried one by one, in the soak of up to five.
    // One of the first twelve takes as long as the twenty after them.
    let (seeds, cap) = if is_soak() { (0..44, 1 << 5) } else { (12..17, 1 << 3) };
    let histories = seeds.end - seeds.start;
    match exhaust(cache, seeds, &limits, cap) {
        Ok(done) => {
            println!(
                "{} {level}: {} histories, {} moments ({} with more than {cap} subsets), {} cuts",
                cache.name, done.histories, done.moments, done.capped, done.cuts
            );
            assert!(done.histories == histories && done.cuts > done.moments, "every moment is cut in several ways");
        }
        Err(failure) => panic!("{} {level}: {failure}", cache.name),
    }
}

macro_rules! levels {
    ($($name:ident: $level:expr;)*) => { $(
        #[test]
        fn $name() {
            host_caches_of($level).for_each(|cache| all(cache, $level));
        }
    )* };
}

levels! {
    every_cut_of_short_histories_of_raid0: RaidLevel::Raid0;
    every_cut_of_short_histories_of_raid1: RaidLevel::Raid1;
    every_cut_of_short_histories_of_raid4: RaidLevel::Raid4;
    every_cut_of_short_histories_of_raid5: RaidLevel::Raid5;
    every_cut_of_short_histories_of_raid6: RaidLevel::Raid6;
}
