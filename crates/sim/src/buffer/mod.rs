//! Buffers inside an SSD in virtual time: policies over a device, fed with page accesses.

mod accounting;
mod analytic;
mod background;
mod config;
mod device;
mod done;
mod experiment;
mod findings;
mod fit;
mod frames;
mod over_time;
mod result;
mod run;
mod timing;
mod watch;

pub use crate::experiment::DeviceCapacity;
pub use analytic::AnalyticConfig;
pub use config::{AdmissionOrder, FlushMode, RunConfig};
pub use experiment::{BufferExperiment, DeviceConfig, ExperimentReport, SimError};
pub use result::{
    AnalyticResult, AvoidanceResult, BufferCounters, ElementResult, FlashCounters, ResponseClass, ResponseResult,
    RunResult, SeriesResult, SsdResult,
};
