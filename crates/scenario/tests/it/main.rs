//! Workloads, and where their requests go.

mod locality;
mod workloads;
