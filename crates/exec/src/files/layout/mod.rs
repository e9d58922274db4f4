//! Formats of the files of an array, byte by byte.

pub(crate) mod bad_page_list;
pub(crate) mod bitmap;
pub(crate) mod event_count;
pub(crate) mod intents;
pub(crate) mod journal;
pub(crate) mod label;
pub(crate) mod record;
mod region;
pub(crate) mod roster;
pub(crate) mod sectors;

/// Begins labels, event counts and marks on members.
pub(crate) const OWN_MARK: &[u8] = b"dstg";
