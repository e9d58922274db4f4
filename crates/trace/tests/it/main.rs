//! Traces: formats read and written, workloads made, statistics.

mod generated;
mod in_memory;

mod blktrace;
mod export;
mod locality;
mod mix;
mod native;
mod readers;
mod recency;
mod shared_traces;
mod stat;
mod synth;
mod window;
