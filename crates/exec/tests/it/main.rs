//! Executors with real bytes, in memory and over files, and the caches over them.

#[macro_use]
mod arrays;
mod beside;
mod common;
mod mirror;
mod model;
mod probe;
mod scribe;
mod tier_beside;
mod tier_model;
mod walk;

mod files_ahead;
mod files_back_ends;
mod files_commits;
mod files_copies;
mod files_failed_syncs;
mod files_hangs;
mod files_identity;
mod files_life;
mod files_losses;
mod files_marks;
mod files_place;
mod files_service;
mod files_state;
mod memory;
mod nvram_lengths;
mod three_executors;
mod tier_caches_model;
mod tier_model_examples;
mod tier_model_figures;
mod tier_warm;
mod walkthrough;
mod write_back;
mod write_caches;
mod write_caches_losses;
mod write_caches_model;
