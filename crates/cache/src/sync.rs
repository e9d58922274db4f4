//! Registers the layer `sync+`: a [`WriteSynchroniser`] beside a cache.

use destage_plan::{ParamSpec, Params};

use crate::synchroniser::{self, EMPTY, FULL, TIMEOUT, TIMER, WriteSynchroniser};
use crate::{CacheFigure, HostCacheError, LayerInfo, LayerPlace, ServedTier};

/// `groups` of the write caches, where groups wait until all members have something to write: a group seldom has a
/// page for each of them.
const GROUPS_TOGETHER: ParamSpec = ParamSpec {
    name: "groups",
    default: "20",
    values: "1 to 65535",
    unit: "groups",
    help: "groups destaged at a time at most: 20 in WOW's paper; few have little that all members wait for together",
};

/// Says why a synchronised cache takes no second synchroniser.
pub(crate) const ALREADY: &str = "its members write together already";

/// Describes the layer.
pub(crate) static SYNC: LayerInfo = LayerInfo {
    name: "sync",
    title: "what is chosen next waits until all members have something to write",
    about: "What a cache writes to the members next waits until all of them have something to write, so that SSDs \
            collect garbage at the same time. After a timeout, or when room is needed, it goes without the others.",
    paper: "LAWC",
    place: LayerPlace::Beside,
    needs_collectors: false,
    params: &[TIMEOUT, TIMER, FULL, EMPTY],
    replaces: &[GROUPS_TOGETHER],
    figures: &FIGURES,
    small,
    build,
};

/// Lists the layer's figures.
pub(crate) const FIGURES: [CacheFigure; synchroniser::FIGURES] = [
    CacheFigure {
        name: "sync_waits",
        unit: "1",
        meaning: "times that what was ready began to wait for the other members",
    },
    CacheFigure { name: "sync_timeout", unit: "ns", meaning: "how long that was to be at most, summed up" },
];

/// A timeout under which tiny arrays do all that large ones do: for some sizes one that is given,
/// for the others one that follows collections.
// The size decides, so that tests over several sizes meet both kinds.
fn small(pages: u64) -> Vec<(&'static str, String)> {
    vec![(TIMEOUT.name, if pages % 3 == 1 { "auto" } else { "1ms" }.to_owned())]
}

/// Puts it beside a cache.
fn build(mut cache: Box<dyn ServedTier>, params: &Params) -> Result<Box<dyn ServedTier>, HostCacheError> {
    let members = cache.array().config().geometry.member_set();
    // Beside and not around: only the cache can take what it chose back into its
    // order.
    cache.synchronise(WriteSynchroniser::new(members, params)?);
    Ok(cache)
}
