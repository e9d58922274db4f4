//! Measures how soon a planted fault is found in histories of the file executor.

use destage_cache::host_caches_of;
use destage_raid::RaidLevel;

use crate::files::{FilesOptions, run_files};
use crate::store::run_store;

/// The rounds and the cuts until something fails, and what; none if nothing does in so many rounds.
/// A round is ten histories of the NVRAM, if what is planted can be found there, and one of each cell of
/// the options' level, or of all.
pub fn first_files_failure(options: FilesOptions, rounds: u64) -> Option<(u64, u64, String)> {
    let mut cuts = 0;
    for round in 0..rounds {
        for seed in (round * 10..(round + 1) * 10).filter(|_| options.crooked.is_none()) {
            match run_store(seed, options.slip) {
                Ok(more) => cuts += more,
                Err(failure) => return Some((round + 1, cuts + failure.cuts, format!("NVRAM: {failure}"))),
            }
        }
        for level in RaidLevel::ALL.into_iter().filter(|level| options.level.is_none_or(|only| only == *level)) {
            for cache in host_caches_of(level) {
                match run_files(cache, round, FilesOptions { level: Some(level), ..options }) {
                    Ok(report) => cuts += report.cuts + report.kills,
                    Err(failure) => {
                        let what = format!("{} {level}: seed {}: {}", cache.name, failure.seed, failure.what);
                        return Some((round + 1, cuts + failure.cuts, what));
                    }
                }
            }
        }
    }
    None
}
