//! Defines the parameters of the write caches.

use destage_plan::{ParamSpec, Params, SpecError, quantity};
use destage_raid::Geometry;
use destage_raid::array::ArrayConfig;

use super::pool::{PagePool, RecencyRule};
use super::threshold::{DestageThreshold, WHOLE};
use super::upper::UpperLayer;
use super::{LowerLayer, MemberStrips};

pub(super) const LOW: ParamSpec = ParamSpec {
    name: "low",
    default: "0",
    values: "0 to 100",
    unit: "%",
    help: "pages held below which nothing is destaged (80 in WOW's paper)",
};

pub(super) const HIGH: ParamSpec = ParamSpec {
    name: "high",
    default: "0",
    values: "0 to 100, no less than low",
    unit: "%",
    help: "pages held from which on as many groups as may be are destaged at a time (90 in WOW's paper)",
};

pub(super) const GROUPS: ParamSpec = ParamSpec {
    name: "groups",
    default: "1",
    values: "1 to 65535",
    unit: "groups",
    help: "groups destaged at a time at most: 1 as LAWC compares it, 20 in WOW's paper",
};

pub(super) const SEQ: ParamSpec = ParamSpec {
    name: "seq",
    default: "off",
    values: "on, off",
    unit: "",
    help: "whether writes that begin where one of the last 32 runs of writes ended set no recency bit, and four of \
           their groups at a time are destaged below low if the one before was theirs, too (on in WOW's paper)",
};

pub(super) const ADMIT: ParamSpec = ParamSpec {
    name: "admit",
    default: "page",
    values: "page, row",
    unit: "",
    help: "what of a write enters at a time as room is made: a page, in the order of addresses, or the pages of a row",
};

pub(super) const RECENCY: ParamSpec = ParamSpec {
    name: "recency",
    default: "store",
    values: "store, hit",
    unit: "",
    help: "what sets a strip's recency bit: every store, the first too, or hits on the strip",
};

pub(super) const SHARE: ParamSpec = ParamSpec {
    name: "small",
    default: "25",
    values: "0 to 90",
    unit: "%",
    help: "share of the small cache; the members' caches have equal parts of the rest",
};

/// Returns the slots beside the pages that a cache is to hold. Versions that are of no use any more take them
/// until they are freed.
pub(super) fn spare(pages: u64, members: u8) -> u64 {
    // At least eight rows, so that tiny caches can make parity beside what they
    // hold.
    (pages / 4).max(8 * u64::from(members))
}

/// Slots for the pages and that.
pub(super) fn slots(pages: u64, members: u8) -> u32 {
    u32::try_from(pages + spare(pages, members)).unwrap_or(u32::MAX)
}

/// The upper layer of so many pages.
pub(super) fn upper(pages: u64, params: &Params) -> Result<UpperLayer, SpecError> {
    let percent = |key| quantity::decimal(params.text(key), 100).map_err(|_| params.refuse(key));
    let (low, high) = (percent(LOW.name)?, percent(HIGH.name)?);
    // A threshold above the whole would never be reached.
    if high > u64::from(WHOLE) || low > high {
        return Err(params.refuse(HIGH.name));
    }
    let most: u16 = params.number(GROUPS.name, 1..)?;
    let threshold = DestageThreshold { low: low as u32, high: high as u32, most: most.into() };
    Ok(UpperLayer::new(pages, threshold))
}

/// Returns true if the pages of a row enter together.
pub(super) fn admits_rows(params: &Params) -> Result<bool, SpecError> {
    params.choice(ADMIT.name, &[("page", false), ("row", true)])
}

/// Returns the fewest pages of a cache whose upper layer is alone.
pub(super) fn least_pages(array: &ArrayConfig, params: &Params) -> u64 {
    // A value that is none is refused when the cache is made.
    if admits_rows(params).unwrap_or(false) { u64::from(array.geometry.data_columns()) } else { 1 }
}

/// A small upper layer, which passes groups on at once, one after the other.
pub(super) fn small(pages: u64) -> UpperLayer {
    UpperLayer::new(pages, DestageThreshold { low: 0, high: 0, most: 1 })
}

/// Thresholds under which tiny caches do all that large ones do: none for some sizes.
pub(super) fn small_groups(pages: u64) -> Vec<(&'static str, String)> {
    // Tests draw sizes, so a rule by size varies the thresholds too.
    let (low, high) = if pages % 3 == 1 { ("40", "80") } else { ("0", "0") };
    let admit = if pages % 4 == 3 { "row" } else { "page" };
    [(LOW.name, low), (HIGH.name, high), (GROUPS.name, "2"), (ADMIT.name, admit)]
        .map(|(key, value)| (key, value.to_owned()))
        .to_vec()
}

/// The share of the small cache, in percent.
pub(super) fn share(params: &Params) -> Result<u64, SpecError> {
    params.number(SHARE.name, 0..=90)
}

/// The lower layer, of so many pages in all.
pub(super) fn lower(pages: u64, geometry: &Geometry, params: &Params) -> Result<LowerLayer, SpecError> {
    let recency = params.choice(RECENCY.name, &[("store", RecencyRule::Store), ("hit", RecencyRule::Hit)])?;
    // Rounded down: pages that are left over belong to no member.
    let each = pages / u64::from(geometry.members());
    let strips =
        || MemberStrips { pool: PagePool::new(each, recency), candidate: None, under_way: None, is_short: false };
    let members = (0..geometry.members()).map(|_| strips()).collect();
    Ok(LowerLayer { members, changed: true })
}
