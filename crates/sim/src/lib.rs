//! The simulator: virtual time, devices, hosts and measurements.

mod analytic;
pub mod array;
mod background;
pub mod disk;
mod done;
pub mod experiment;
pub mod feed;
mod frames;
mod host_queue;
pub mod locality;
pub mod measure;
mod pass;
pub mod result;
mod run;
pub mod space;
pub mod ssd;
