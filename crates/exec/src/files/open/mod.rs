//! Creates, finds and opens the files of an array.

pub(crate) mod assemble;
mod bad_page_lists;
mod bitmap;
pub(crate) mod create;
mod devices;
mod event_count;
pub(crate) mod folders;
pub(crate) mod force;
pub(crate) mod identify;
pub(crate) mod label;
mod mend;
mod nvram_place;
pub(crate) mod opened;
pub(crate) mod order;
pub(crate) mod overwrite;
pub(crate) mod prepare;
pub(crate) mod recover;
pub(crate) mod replacement;
pub(crate) mod spare_nvram;
mod vacancy;
