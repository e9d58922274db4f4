//! Keeps the NVRAM in a file, and writes it and the intents.

pub(crate) mod group_commit;
pub(crate) mod intents;
pub(crate) mod journal;
pub(crate) mod region;
pub(crate) mod replay;
pub(crate) mod store;
