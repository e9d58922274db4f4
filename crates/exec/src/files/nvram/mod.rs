//! The NVRAM in a file, and who writes it and the intents.

pub(crate) mod group_commit;
pub(crate) mod intents;
pub(crate) mod journal;
pub(crate) mod region;
pub(crate) mod replay;
pub(crate) mod store;
