//! The file executor over a ring, cut: what it gives the ring, in which order and with which syncs, over the ring of the
//! [`Recording`](destage_exec::Recording), which carries operations out in any order, in parts, and forgets what was not made
//! durable. It shows that what the executor asks of a ring is enough; that the kernel's does what it is asked for is
//! shown by the tests over real files. Faults planted in it are found by `slips.rs`.

use destage_cache::host_caches_of;
use destage_crash::{FilesFailure, FilesOptions, FilesReport, run_files};
use destage_raid::RaidLevel;
use rayon::prelude::*;

use crate::share::{in_turn, seeds_of};

const OVER_A_RING: FilesOptions = FilesOptions { ring: true, ..FilesOptions::BY_THREADS };

#[test]
fn histories_over_a_ring_keep_what_they_promise() {
    let cells = RaidLevel::ALL.into_iter().flat_map(|level| host_caches_of(level).map(move |cache| (level, cache)));
    for (level, cache) in in_turn(cells, 1, 2) {
        let options = FilesOptions { level: Some(level), ..OVER_A_RING };
        let reports: Result<Vec<_>, Box<FilesFailure>> =
            seeds_of(if cache.holds_dirty || cache.delays_parity { 1 } else { 2 }, 8)
                .into_par_iter()
                .map(|seed| run_files(cache, seed, options))
                .collect();
        let reports = reports.unwrap_or_else(|failure| panic!("{} {level}: {failure}", cache.name));
        let mut total = FilesReport::default();
        for report in &reports {
            total.add(report);
        }
        println!("{} {level}: {total:?}", cache.name);
        assert!(total.cuts + total.kills > 10 * total.runs, "the histories do what they are for: {total:?}");
    }
}

#[test]
fn a_seed_decides_everything() {
    for cache in host_caches_of(RaidLevel::Raid5) {
        let options = FilesOptions { level: Some(RaidLevel::Raid5), ..OVER_A_RING };
        let run = || run_files(cache, 7, options).map(|report| format!("{report:?}"));
        assert_eq!(run().expect("nothing is wrong"), run().expect("nothing is wrong"), "{}", cache.name);
    }
}
