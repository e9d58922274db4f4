//! LAWC: a small WOW in front of synchronised independent caches, so that a burst is answered before
//! its parity is made (specs §8.7).

use destage_plan::Params;
use destage_raid::array::ArrayConfig;

use super::options::{self, RECENCY, SHARE};
use super::registered::{info, serve};
use super::{WriteCache, figures};
use crate::sync::{self, SYNC};
use crate::synchroniser::{EMPTY, FULL, TIMEOUT, TIMER};
use crate::{CacheFigure, HostCacheError, HostCacheInfo, ServedTier};

/// Lists the figures of every write cache, then those of the synchroniser.
const FIGURES: [CacheFigure; 9] = {
    let [a, b, c, d, e, f, g] = figures::names(&figures::ALL);
    let [h, i] = sync::FIGURES;
    [a, b, c, d, e, f, g, h, i]
};

// A parameter or figure of the synchroniser would be missing here alone: other caches are composed with it.
const _: () =
    assert!(FIGURES.len() == figures::ALL.len() + SYNC.figures.len() && LAWC.params.len() == 2 + SYNC.params.len());

/// [Both layers](super), never without the synchroniser.
pub static LAWC: HostCacheInfo = HostCacheInfo {
    about: "Writes enter a small WOW, so that a burst is answered before its parity is made. From there stripes move \
            into caches of the members, parity being made on the way, and all members write their next strips at the \
            same time, so that SSDs collect garbage together.",
    min_pages: |array, params| {
        let share = options::share(params).unwrap_or(0);
        // A page for each member, of what the small cache leaves.
        (u64::from(array.geometry.members()) - 1) * 100 / (100 - share) + 1
    },
    params: &[SHARE, RECENCY, TIMEOUT, TIMER, FULL, EMPTY],
    figures: &FIGURES,
    synchronised: Err(sync::ALREADY),
    layers: &[&SYNC],
    ..info("lawc", "small WOW in front of members' caches that make parity early and write together", "LAWC", new)
};

fn new(pages: u64, array: &ArrayConfig, params: &Params) -> Result<Box<dyn ServedTier>, HostCacheError> {
    // Rounded down, so that the lower layer never gets less than its share.
    let small = pages * options::share(params)? / 100;
    let lower = options::lower(pages - small, &array.geometry, params)?;
    serve(pages, array, WriteCache::new(&figures::ALL, array, Some(options::small(small)), Some(lower)))
}
