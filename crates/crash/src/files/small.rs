//! Makes a failing history of files small: actions are left out as long as it fails without them.

use destage_cache::HostCacheInfo;

use super::{FilesFailure, FilesOptions, OLDER, run_files};
use crate::shrink::kind;

/// The smallest history found that still fails in the same way, and what it leaves out; `tries`
/// bounds how many histories are run.
pub fn shrink_files(
    cache: &'static HostCacheInfo,
    failure: &FilesFailure,
    options: FilesOptions,
    tries: usize,
) -> (FilesFailure, FilesOptions) {
    let (mut best, mut options, mut left) = (failure.clone(), options, tries);
    let way = way(&failure.what);
    let mut fails = |leave_out: u64, best: &mut FilesFailure, options: &mut FilesOptions| {
        if left == 0 || leave_out == options.leave_out {
            return;
        }
        left -= 1;
        let tried = FilesOptions { leave_out, ..*options };
        if let Err(smaller) = run_files(cache, failure.seed, tried)
            && self::way(&smaller.what) == way
            // A history that fails later is no smaller, even if it leaves more out.
            && smaller.actions <= best.actions
        {
            (*best, *options) = (*smaller, tried);
        }
    };
    // The older array first: most failures do not need it, and it doubles the history.
    fails(options.leave_out | 1 << OLDER, &mut best, &mut options);
    loop {
        let before = best.actions;
        let mut size = OLDER.div_ceil(2);
        while size > 0 {
            for from in (0..OLDER).step_by(size as usize) {
                let some = ((1_u64 << size) - 1) << from & !(1 << OLDER);
                fails(options.leave_out | some, &mut best, &mut options);
            }
            size /= 2;
        }
        if best.actions == before {
            return (best, options);
        }
    }
}

/// Returns the kind of a violation without the place where it happened.
fn way(what: &str) -> String {
    // Cuts on the way to it come first in the text.
    kind(what.rsplit(": ").find(|part| part.len() > 12).unwrap_or(what))
}
