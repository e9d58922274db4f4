//! The crash harness over every host cache and level, and planted faults that it has to find.

mod absorbed;
mod altered;
mod back_again;
mod bad_pages;
mod bereft;
mod cells;
mod commands;
mod copies;
mod damaged_intents;
mod delayed;
mod exhaustive;
mod files;
mod harness;
mod model;
mod mutants;
mod operations;
mod phases;
mod place;
mod points;
mod random;
mod replay;
mod ring;
mod rot;
mod rotten_caches;
mod scrubs;
mod share;
mod shown_by;
mod slips;
mod wide_trims;

/// Keeps the memory of discs that come and go: the system's allocator gives it back each time, and has it zeroed anew.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
