//! Write caches in the NVRAM of the controller (specs §8).
#![expect(dead_code, reason = "the caches that are made of these come next")]

mod pool;
mod ring;
mod store;
mod synchroniser;
mod threshold;
