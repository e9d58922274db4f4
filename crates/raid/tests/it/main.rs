//! RAID layouts and kernels, beside md's, and its count of read errors.

mod geometry;
mod kernels;
mod md_geometry;
mod read_errors;
