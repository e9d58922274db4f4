//! RAID layouts and kernels, beside md's, its count of read errors, and sizes of stripe caches.

mod geometry;
mod kernels;
mod md_geometry;
mod read_errors;
mod stripe_cache_sizes;
