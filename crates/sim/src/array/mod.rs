//! Host-side caches over redundant arrays in virtual time: the same controllers that serve real
//! devices, over device models.
//!
//! [`VirtualExecutor`] carries a controller's steps out; [`ArrayExperiment`] plays a trace against several
//! of them.

mod bars;
mod collections;
mod contents;
mod counters;
mod debt;
mod device;
mod drive_cache;
mod executor;
mod experiment;
mod failures;
mod findings;
mod fit;
mod host;
mod journal;
mod lane;
mod outcomes;
mod overlap;
mod reported;
mod request_log;
mod result;
mod serial;
mod setup;
mod streams;
mod times;
mod wear;

pub use contents::DeltaLengths;
pub use debt::{DebtPoint, ParityDebt};
pub use device::{DeviceOp, DiskResult, DiskWork, FixedTimes, FlashResult, FlashWork, ModelCounts, VirtualDevice};
pub use drive_cache::DriveCacheSetup;
pub use executor::{CollectionNote, DelayNote, NextEvent, VirtualExecutor};
pub use experiment::{ArrayError, ArrayExperiment, ArrayReport};
pub use failures::{DeviceInjection, InjectionKind};
pub use host::ArrayHost;
pub use journal::JournalPlace;
pub use lane::DeviceCounters;
pub use overlap::OverlapResult;
pub use result::{
    ArrayResult, ArrayShape, ArrayTraffic, CachePages, CacheTraffic, ClaimResult, CollectionSpan, CollectionsResult,
    DegradedResult, DeviceResult, FailureResult, HostCounters, HostResponses, NvramTraffic, OwnFigures, SeriesOverTime,
    SeriesPoint, StepCounts,
};
pub use setup::{ArrayService, ArraySetup, DeviceSetup, SetupError};
pub use streams::{StreamResult, StreamWork};
pub use times::StepTimes;
pub use wear::CacheWear;
