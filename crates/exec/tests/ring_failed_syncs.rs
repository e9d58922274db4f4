//! What `files_failed_syncs.rs` tries over threads, over a ring.

#[path = "files_failed_syncs.rs"]
mod files_failed_syncs;
