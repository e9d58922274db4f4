//! What `files_losses.rs` tries over threads, over a ring.

#[path = "files_losses.rs"]
mod files_losses;
