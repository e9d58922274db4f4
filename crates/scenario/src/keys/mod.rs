//! The settings of `destage sim`, each in the file of its owner beside the function that reads it.

pub(crate) mod analytic;
pub mod array;
pub mod cache;
pub(crate) mod delta;
pub mod device;
pub mod disk;
pub(crate) mod fixed;
pub mod host;
pub(crate) mod nvram;
pub mod output;
pub(crate) mod raid;
pub(crate) mod requests;
pub mod ssd;
pub(crate) mod ssd_model;
mod ssd_modern;
pub(crate) mod ssd_placement;
pub mod trace;

use crate::key::{count, joined};
use crate::{ScenarioError, SettingKey};

type Result<T> = std::result::Result<T, ScenarioError>;

/// Lists the owners' tables in the order of the help.
const TABLES: [&[SettingKey]; 18] = [
    trace::KEYS,
    cache::KEYS,
    device::KEYS,
    array::KEYS,
    disk::SELECTION_KEYS,
    array::FAILURE_KEYS,
    ssd::STATE_KEYS,
    host::KEYS,
    output::KEYS,
    ssd::KEYS,
    ssd_modern::KEYS,
    ssd_placement::KEYS,
    disk::KEYS,
    fixed::KEYS,
    delta::KEYS,
    raid::KEYS,
    nvram::KEYS,
    analytic::KEYS,
];

/// Lists every setting of `destage sim`.
pub const SIM: &[SettingKey] = &joined::<{ count(&TABLES) }>(&TABLES);
