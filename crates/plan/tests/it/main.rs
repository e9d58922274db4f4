//! Plans: claims, fragments, operations.

mod claims;
mod fragments;
mod operations;
mod turns;
mod wide;
