//! Flips a bit of the intents before a start: all rows of its sector that members have marked count as open, and nothing
//! that was promised is lost by that.

use destage_cache::host_caches_of;
use destage_crash::{FilesOptions, FilesReport, run_files};
use destage_raid::Level;
use rayon::prelude::*;

/// Returns the seeds of a cell: `CRASH_SEEDS`, or a few; more with `DESTAGE_SOAK`.
fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let from = number("CRASH_FROM").unwrap_or(0);
    let usual = if std::env::var_os("DESTAGE_SOAK").is_some() { 200 } else { 2 };
    from..from + number("CRASH_SEEDS").unwrap_or(usual)
}

#[test]
fn flipped_bits_of_the_intents_cost_nothing() {
    let mut all = FilesReport::default();
    for level in [Level::Raid1, Level::Raid5, Level::Raid6] {
        let options = FilesOptions { level: Some(level), rots: true, ..FilesOptions::default() };
        for cache in host_caches_of(level) {
            let reports: Vec<_> = seeds()
                .into_par_iter()
                .map(|seed| {
                    run_files(cache, seed, options)
                        .unwrap_or_else(|failure| panic!("{} {level}: {failure}", cache.name))
                })
                .collect();
            for report in &reports {
                all.add(report);
            }
        }
    }
    println!("{all:?}");
    assert!(all.runs < 20 || all.rotten > all.runs, "{} starts with a bit flipped", all.rotten);
}
