//! What `files_copies.rs` tries over threads, over a ring.

#[path = "files_copies.rs"]
mod files_copies;
