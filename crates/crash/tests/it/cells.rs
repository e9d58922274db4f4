//! Runs histories of the file executor over every cache of some levels.

use std::ops::Range;

use destage_cache::host_caches_of;
use destage_crash::{FilesOptions, FilesReport, run_files};
use destage_raid::Level;
use rayon::prelude::*;

/// Returns the seeds of a cell: `CRASH_SEEDS` from `CRASH_FROM` on, or so many; 200 with `DESTAGE_SOAK`.
fn seeds(usual: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let from = number("CRASH_FROM").unwrap_or(0);
    let usual = if std::env::var_os("DESTAGE_SOAK").is_some() { 200 } else { usual };
    from..from + number("CRASH_SEEDS").unwrap_or(usual)
}

/// Runs so many histories of each cell, and adds up their reports.
pub fn run_cells(levels: &[Level], usual: u64, options: FilesOptions) -> FilesReport {
    let mut all = FilesReport::default();
    for &level in levels {
        let options = FilesOptions { level: Some(level), ..options };
        for cache in host_caches_of(level) {
            let run = |seed| {
                run_files(cache, seed, options).unwrap_or_else(|failure| panic!("{} {level}: {failure}", cache.name))
            };
            let reports: Vec<_> = seeds(usual).into_par_iter().map(run).collect();
            for report in &reports {
                all.add(report);
            }
        }
    }
    println!("{all:?}");
    all
}
