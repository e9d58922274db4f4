//! How the files of an array are made, found, and opened again.

pub(crate) mod assemble;
mod bitmap;
mod label;
pub(crate) mod nvram_place;
pub(crate) mod overwrite;
