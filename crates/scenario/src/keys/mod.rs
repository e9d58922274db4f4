//! The settings of `destage sim`, each in the file of its owner beside the function that reads it.

pub(crate) mod analytic;
pub mod array;
pub(crate) mod cache;
pub(crate) mod delta;
pub mod device;
pub mod disk;
pub(crate) mod fixed;
pub(crate) mod host;
pub(crate) mod nvram;
pub(crate) mod output;
pub(crate) mod raid;
pub(crate) mod requests;
pub mod ssd;
pub(crate) mod trace;

use crate::key::{count, joined};
use crate::{Key, ScenarioError};

type Result<T> = std::result::Result<T, ScenarioError>;

/// Lists the owners' tables in the order of the help.
const TABLES: [&[Key]; 16] = [
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
    disk::KEYS,
    fixed::KEYS,
    delta::KEYS,
    raid::KEYS,
    nvram::KEYS,
    analytic::KEYS,
];

/// Lists every setting of `destage sim`.
pub const SIM: &[Key] = &joined::<{ count(&TABLES) }>(&TABLES);

pub(crate) fn word<T: Copy>(choices: &[(&str, T)]) -> impl Fn(&str) -> std::result::Result<T, String> {
    move |text| {
        choices.iter().find(|(word, _)| *word == text).map(|&(_, choice)| choice).ok_or_else(|| {
            let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
            format!("one of {}", words.join(", "))
        })
    }
}
