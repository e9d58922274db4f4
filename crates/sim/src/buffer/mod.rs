//! Buffers inside an SSD in virtual time: policies over a device, fed with page accesses.

mod analytic;
mod background;
mod done;
mod experiment;
mod frames;
mod result;
mod run;

pub use analytic::AnalyticConfig;
pub use experiment::{DeviceConfig, Experiment, Report, SimError};
pub use result::{
    AnalyticResult, AvoidanceResult, BufferCounters, DeviceCounters, ElementResult, ResponseClass, ResponseResult,
    RunResult, SeriesResult, SsdResult,
};
pub use run::{Admission, FlushMode, RunConfig};
