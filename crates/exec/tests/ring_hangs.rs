//! What `files_hangs.rs` tries over threads, over a ring.

#[path = "files_hangs.rs"]
mod files_hangs;
