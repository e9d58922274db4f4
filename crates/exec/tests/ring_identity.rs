//! What `files_identity.rs` tries over threads, over a ring.

#[path = "files_identity.rs"]
mod files_identity;
