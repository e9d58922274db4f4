//! What `files_service.rs` tries over threads, over a ring.

#[path = "files_service.rs"]
mod files_service;
