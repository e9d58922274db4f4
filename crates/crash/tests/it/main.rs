//! The crash harness over every host cache and level, and planted faults that it has to find.

mod absorbed;
mod altered;
mod back_again;
mod bad_pages;
mod bereft;
mod cells;
mod copies;
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
mod shown_by;
mod slips;
mod wide_trims;
