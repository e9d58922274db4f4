//! Settings of buffers and caches: policies, sizes, pages, and what they do with each kind of request.

use destage_cache::{HostCacheSpec, all_host_caches};
use destage_plan::{PageGeometry, PolicySpec, SpecError, names};
use destage_policy::buffer;
use destage_raid::settings;
use destage_sim::buffer::{AdmissionOrder, FlushMode};
use destage_sim::input::{SubpageWrites, TrimMode};

use super::Result;
use crate::quantity as q;
use crate::setting::declare_settings;
use crate::sizes::CacheSize;
use crate::values::{parsed, word};
use crate::{AppliesTo, RecordedPlace, ScenarioError, ScenarioSettings, TypedSetting};

declare_settings! {
    /// Lists the settings of caches, in the order of the help.
    pub(super) table KEYS;

    /// Holds the names of policies, of buffers or of host-side caches.
    pub const POLICY: TypedSetting<String> = TypedSetting::list(
        "policy",
        "NAME[:KEY=VALUE...]",
        "lru,clock,fab,bplru,lb-clock",
        AppliesTo::All,
        "Policies; see `destage policies`",
        parsed,
    )
    .recorded(RecordedPlace::Field);
    /// Holds the sizes of buffers and caches.
    pub const CACHE: TypedSetting<CacheSize> = TypedSetting::list(
        "cache",
        "SIZE|SHARE|RANGE|auto",
        "1MiB,4MiB,16MiB,64MiB",
        AppliesTo::All,
        "Buffer sizes, in data held; also shares of the pages that take part, such as 10%, ranges such as 1MiB..1GiB/8, and auto, which \
         looks where LRU's curve of hits bends (both read the trace once more)",
        parsed,
    )
    .recorded(RecordedPlace::Field);
    pub(crate) const PAGE: TypedSetting<u64> =
        TypedSetting::of_array(&settings::PAGE, AppliesTo::All).recorded(RecordedPlace::Field);
    pub(crate) const PAGES_PER_BLOCK: TypedSetting<u64> = TypedSetting::one(
        "pages-per-block",
        "PAGES",
        "64",
        AppliesTo::All,
        "Pages in a logical block and in an erase block",
        q::count,
    )
    .recorded(RecordedPlace::BufferField);
    pub(crate) const SUBPAGE: TypedSetting<SubpageWrites> = TypedSetting::one(
        "subpage",
        "promote|rmw",
        "promote",
        AppliesTo::Timed,
        "A write of part of a page: a page write, or preceded by a read on a miss",
        subpage,
    );
    pub(crate) const ADMISSION: TypedSetting<AdmissionOrder> = TypedSetting::one(
        "admission",
        "page|request",
        "page",
        AppliesTo::Buffers,
        "Room is made for each page of a request when it comes in, or for all of them before the first does",
        admission,
    );
    pub(crate) const FLUSH: TypedSetting<FlushMode> = TypedSetting::one(
        "flush",
        "ignore|drain",
        "ignore",
        AppliesTo::Buffers,
        "A host flush: nothing (non-volatile buffer), or write all dirty pages",
        flush,
    );
    pub(crate) const TRIM: TypedSetting<TrimMode> = TypedSetting::one(
        "trim",
        "honour|ignore",
        "honour",
        AppliesTo::All,
        "A discard: buffer and device forget the pages, or nothing",
        trim,
    );
}

/// Reads the sizes of pages and of logical blocks.
pub(crate) fn geometry(settings: &ScenarioSettings) -> Result<PageGeometry> {
    PageGeometry::new(PAGE.get(settings)?, PAGES_PER_BLOCK.get(settings)?).map_err(ScenarioError::new)
}

fn subpage(text: &str) -> std::result::Result<SubpageWrites, String> {
    word(text, &[("promote", SubpageWrites::Promote), ("rmw", SubpageWrites::Rmw)])
}

fn admission(text: &str) -> std::result::Result<AdmissionOrder, String> {
    word(text, &[("page", AdmissionOrder::Page), ("request", AdmissionOrder::Request)])
}

fn flush(text: &str) -> std::result::Result<FlushMode, String> {
    word(text, &[("ignore", FlushMode::Ignore), ("drain", FlushMode::Drain)])
}

fn trim(text: &str) -> std::result::Result<TrimMode, String> {
    word(text, &[("honour", TrimMode::Honour), ("ignore", TrimMode::Ignore)])
}

/// A buffer's name with its parameters; other names are told from those of host-side policies.
pub(crate) fn buffer_policy(text: &str) -> std::result::Result<PolicySpec, String> {
    let spec = buffer::canonical(text.parse().map_err(|error: SpecError| error.to_string())?);
    match buffer::info(&spec.name) {
        Err(_) if names::called(&spec.name, all_host_caches().map(|cache| cache.name)).is_some() => {
            // The name is known, only not here: a list of other names would not help.
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

/// Is true if a buffer policy has this name.
fn is_buffer(name: &str) -> bool {
    let spec = PolicySpec { name: name.to_owned(), given: Vec::new() };
    buffer::info(&buffer::canonical(spec).name).is_ok()
}
