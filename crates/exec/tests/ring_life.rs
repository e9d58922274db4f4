//! What `files_life.rs` tries over threads, over a ring.

#[path = "files_life.rs"]
mod files_life;
