//! Host caches: plans, logs and admission; and caches over an executor beside naive models of them, worked examples,
//! losses and starts.

mod beside;
mod model;
mod spec_reading;
mod tier_beside;
mod tier_model;
mod walk;

mod admission;
mod flushes;
mod ggc;
mod metadata_log;
mod metadata_log_pages;
mod nvram_lengths;
mod plans;
mod rewrites;
mod sequential_runs;
mod service;
mod stripe_cache;
mod sync;
mod tier_caches_model;
mod tier_model_examples;
mod tier_model_figures;
mod tier_readings;
mod tier_warm;
mod undecodable;
mod walkthrough;
mod write_back;
mod write_caches;
mod write_caches_losses;
mod write_caches_model;
mod write_caches_readings;
