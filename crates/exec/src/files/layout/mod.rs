//! Formats of the files of an array, byte by byte.

pub(crate) mod bitmap;
pub(crate) mod intents;
pub(crate) mod journal;
pub(crate) mod label;
pub(crate) mod sectors;
