//! Compares rows in the middle of random histories: members are lost and filled, the power fails, caches delay parity. No
//! page differs that should not, and what is whole in the end can be compared.

use destage_cache::all_host_caches_of;
use destage_raid::RaidLevel;

use crate::altered::{run_altered, with_scrubs};
use crate::share::seeds_of;

#[test]
fn a_scrub_finds_nothing_where_nothing_is_wrong() {
    for level in [RaidLevel::Raid1, RaidLevel::Raid4, RaidLevel::Raid5, RaidLevel::Raid6] {
        for cache in all_host_caches_of(level) {
            let seeds = seeds_of(40, 700);
            let count = seeds.end - seeds.start;
            let report = run_altered(cache, level, seeds, |seed, history| with_scrubs(seed, &history.actions));
            let (scrubs, rows) = (report.scrubs, report.compared_rows);
            assert!(scrubs > count && rows > scrubs, "{} {level}: {rows} rows in {scrubs} scrubs", cache.name);
        }
    }
}
