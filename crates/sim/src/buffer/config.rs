//! Configures how a run treats its requests.

use destage_plan::Nanos;

use crate::input::{HostModel, SubpageWrites, TrimMode, WarmupPart};

/// Selects the effect of a host flush. FUA follows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlushMode {
    /// Nothing: the buffer is non-volatile.
    #[default]
    Ignore,
    /// Every dirty page is written to flash; a FUA write goes to flash past the buffer.
    Drain,
}

/// Selects the moment at which a request's new pages get room in the buffer (specs §10.7, E14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdmissionOrder {
    /// For each of them when its turn comes, so that a page may push out what came in before it
    /// with the same request.
    #[default]
    Page,
    /// For all of them before the first comes in; for as many as the buffer holds where the request
    /// has more, and then for each of the others.
    Request,
}

/// Configures how a run treats its requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunConfig {
    /// Arrivals.
    pub host: HostModel,
    /// Host flushes and FUA.
    pub flush: FlushMode,
    /// Discards.
    pub trim: TrimMode,
    /// Partial pages.
    pub subpage: SubpageWrites,
    /// Room for requests of several pages.
    pub admission: AdmissionOrder,
    /// Excludes a warm-up from the measurements.
    pub warmup: WarmupPart,
    /// Outstanding requests at which an open-loop run is saturated.
    pub max_backlog: u64,
    /// Copying a page between host and buffer.
    pub buffer_latency: Nanos,
    /// Drains the buffer at the end.
    pub drain: bool,
    /// Adds figures of each volume.
    pub per_volume: bool,
    /// Pages the buffer can hold.
    pub capacity_pages: u32,
    /// Pages in a logical block.
    pub pages_per_block: u32,
}
