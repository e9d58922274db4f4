//! Workloads, where their requests go, passes over traces, and models of SSDs.

mod locality;
mod looked;
mod ssd_models;
mod workloads;
