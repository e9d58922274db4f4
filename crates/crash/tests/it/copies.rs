//! Puts older copies of an array's own files back before a start: one of them, two, all but one. It is refused and names
//! what is behind, or what is behind counts as missing; nothing that was promised is lost by that, and an array that was
//! refused goes on when the copies are taken away again.

use destage_cache::host_caches_of;
use destage_crash::{FilesOptions, run_files};
use destage_exec::{ExecutorFault, UntrustedFile};
use destage_raid::RaidLevel;

use crate::cells::run_cells;

const WITH_COPIES: FilesOptions = FilesOptions { copies: true, ..FilesOptions::BY_THREADS };

#[test]
fn older_copies_are_found_out() {
    let all = run_cells(&RaidLevel::ALL, 0, WITH_COPIES);
    let [served, refused] = all.copied;
    assert!(all.runs < 20 || served > all.runs && refused > all.runs, "{served} were served, {refused} refused");
}

#[test]
fn older_copies_that_are_believed_are_found() {
    let slip = Some(ExecutorFault::Believes(UntrustedFile::Behind));
    let options = FilesOptions { level: Some(RaidLevel::Raid5), slip, ..WITH_COPIES };
    for cache in host_caches_of(RaidLevel::Raid5) {
        let found = (0..200).find_map(|seed| run_files(cache, seed, options).err());
        println!("{}: {}", cache.name, found.unwrap_or_else(|| panic!("{}: nothing finds it", cache.name)).what);
    }
}
