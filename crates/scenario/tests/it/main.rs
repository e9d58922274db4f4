//! Workloads, where their requests go, and passes over traces.

mod locality;
mod looked;
mod workloads;
