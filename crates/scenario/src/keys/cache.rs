//! Settings of buffers and caches: policies, sizes, pages, and what they do with each kind of request.

use destage_cache::{HostCacheSpec, all_host_caches};
use destage_plan::{PageGeometry, PolicySpec, SpecError, names};
use destage_policy::buffer;
use destage_sim::input::{Subpage, TrimMode};

use super::{Result, word};
use crate::quantity as q;
use crate::sizes::CacheSize;
use crate::{AppliesTo, Key, Recorded, ScenarioError, Settings};

/// Lists the settings of caches, in the order of the help.
pub(super) const KEYS: &[Key] = &[
    Key::list(
        "policy",
        "NAME[:KEY=VALUE...]",
        "lru,clock,fab,bplru,lb-clock",
        AppliesTo::All,
        "Policies; see `destage policies`",
    )
    .recorded(Recorded::Field),
    Key::list(
        "cache",
        "SIZE|SHARE|RANGE|auto",
        "1MiB,4MiB,16MiB,64MiB",
        AppliesTo::All,
        "Buffer sizes, in data held; also shares of the pages that take part, such as 10%, ranges such as 1MiB..1GiB/8, and auto, which \
         looks where LRU's curve of hits bends (both read the trace once more)",
    )
    .recorded(Recorded::Field),
    Key::one("page", "SIZE", "4KiB", AppliesTo::All, "Page size").recorded(Recorded::Field),
    Key::one(
        "pages-per-block",
        "PAGES",
        "64",
        AppliesTo::All,
        "Pages in a logical block and in an erase block",
    )
    .recorded(Recorded::BufferField),
    Key::one(
        "subpage",
        "promote|rmw",
        "promote",
        AppliesTo::Timed,
        "A write of part of a page: a page write, or preceded by a read on a miss",
    ),
    Key::one(
        "admission",
        "page|request",
        "page",
        AppliesTo::Buffers,
        "Room is made for each page of a request when it comes in, or for all of them before the first does",
    ),
    Key::one(
        "flush",
        "ignore|drain",
        "ignore",
        AppliesTo::Buffers,
        "A host flush: nothing (non-volatile buffer), or write all dirty pages",
    ),
    Key::one(
        "trim",
        "honour|ignore",
        "honour",
        AppliesTo::All,
        "A discard: buffer and device forget the pages, or nothing",
    ),
];

pub(crate) fn geometry(settings: &Settings) -> Result<PageGeometry> {
    let page = settings.one("page", q::bytes)?;
    let pages_per_block = settings.one("pages-per-block", q::count)?;
    PageGeometry::new(page, pages_per_block).map_err(ScenarioError::new)
}

pub(crate) fn caches(settings: &Settings) -> Result<Vec<CacheSize>> {
    settings.all("cache", str::parse)
}

pub(crate) fn subpage(settings: &Settings) -> Result<Subpage> {
    settings.one("subpage", word(&[("promote", Subpage::Promote), ("rmw", Subpage::Rmw)]))
}

pub(crate) fn trim(settings: &Settings) -> Result<TrimMode> {
    settings.one("trim", word(&[("honour", TrimMode::Honour), ("ignore", TrimMode::Ignore)]))
}

/// A buffer's name with its parameters; other names are told from those of host-side policies.
pub(crate) fn buffer_policy(text: &str) -> std::result::Result<PolicySpec, String> {
    let spec = buffer::canonical(text.parse().map_err(|error: SpecError| error.to_string())?);
    match buffer::info(&spec.name) {
        Err(_) if names::called(&spec.name, all_host_caches().map(|cache| cache.name)).is_some() => {
            Err("a cache of the host over an array, not a buffer: give array too, such as --array raid5:5".into())
        }
        _ => Ok(spec),
    }
}

/// A controller; buffers are told from them.
pub(crate) fn controller(text: &str) -> std::result::Result<HostCacheSpec, String> {
    text.parse().map_err(|error: SpecError| match &error {
        SpecError::Unknown { name, known } if is_buffer(name) => {
            format!("a buffer inside an SSD, not a cache of the host; with an array the policies are {known}")
        }
        _ => error.to_string(),
    })
}

/// Whether this is the name of a buffer.
fn is_buffer(name: &str) -> bool {
    let spec = PolicySpec { name: name.to_owned(), given: Vec::new() };
    buffer::info(&buffer::canonical(spec).name).is_ok()
}
