//! Host caches through their public interface: plans, logs, admission, and who they are.

mod admission;
mod flushes;
mod ggc;
mod metadata_log;
mod metadata_log_pages;
mod plans;
mod service;
mod sync;
mod undecodable;
