//! RAID layouts and kernels, beside md's.

mod geometry;
mod kernels;
mod md_geometry;
