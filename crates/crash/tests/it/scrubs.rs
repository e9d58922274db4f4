//! Compares rows in the middle of random histories: members are lost and filled, the power fails, caches delay parity. No
//! page differs that should not, and what is whole in the end can be compared.

use std::ops::Range;

use destage_cache::all_host_caches_of;
use destage_raid::Level;

use crate::altered::{run_altered, with_scrubs};

/// Returns the seeds of each cache and level: `CRASH_SEEDS` from `CRASH_FROM` on, or so many; 20,000 with `DESTAGE_SOAK`.
fn seeds() -> Range<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let usual = if std::env::var_os("DESTAGE_SOAK").is_some() { 20_000 } else { 40 };
    let from = number("CRASH_FROM").unwrap_or(0);
    from..from + number("CRASH_SEEDS").unwrap_or(usual)
}

#[test]
fn a_scrub_finds_nothing_where_nothing_is_wrong() {
    for level in [Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6] {
        for cache in all_host_caches_of(level) {
            let seeds = seeds();
            let count = seeds.end - seeds.start;
            let report = run_altered(cache, level, seeds, |seed, history| with_scrubs(seed, &history.actions));
            let (scrubs, rows) = (report.scrubs, report.compared_rows);
            assert!(scrubs > count && rows > scrubs, "{} {level}: {rows} rows in {scrubs} scrubs", cache.name);
        }
    }
}
