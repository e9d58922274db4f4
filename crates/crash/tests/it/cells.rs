//! Runs histories of the file executor over every cache of some levels.

use destage_cache::host_caches_of;
use destage_crash::{FilesOptions, FilesReport, run_files};
use destage_raid::Level;
use rayon::prelude::*;

use crate::share::seeds_of;

/// Runs so many histories of each cell, and adds up their reports.
pub fn run_cells(levels: &[Level], usual: u64, options: FilesOptions) -> FilesReport {
    let mut all = FilesReport::default();
    for &level in levels {
        let options = FilesOptions { level: Some(level), ..options };
        for cache in host_caches_of(level) {
            let run = |seed| {
                run_files(cache, seed, options).unwrap_or_else(|failure| panic!("{} {level}: {failure}", cache.name))
            };
            let reports: Vec<_> = seeds_of(usual, 20).into_par_iter().map(run).collect();
            for report in &reports {
                all.add(report);
            }
        }
    }
    println!("{all:?}");
    all
}
