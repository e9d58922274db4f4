//! Runs histories of the file executor over every cache of some levels.

use destage_cache::host_caches_of;
use destage_crash::{FilesOptions, FilesReport, run_files};
use destage_raid::RaidLevel;
use rayon::prelude::*;

use crate::share::{in_turn, seeds_of};

/// Runs a history of every second cell from this one on, in the soak more of each, and adds up their reports.
pub fn run_cells(levels: &[RaidLevel], first: usize, options: FilesOptions) -> FilesReport {
    let mut all = FilesReport::default();
    let cells = levels.iter().flat_map(|&level| host_caches_of(level).map(move |cache| (level, cache)));
    for (level, cache) in in_turn(cells, first, 2) {
        let options = FilesOptions { level: Some(level), ..options };
        let run = |seed| {
            run_files(cache, seed, options).unwrap_or_else(|failure| panic!("{} {level}: {failure}", cache.name))
        };
        let reports: Vec<_> = seeds_of(1, 8).into_par_iter().map(run).collect();
        for report in &reports {
            all.add(report);
        }
    }
    println!("{all:?}");
    all
}
