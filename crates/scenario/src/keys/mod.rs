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

/// Counts the keys of these tables.
pub(crate) const fn count(tables: &[&[Key]]) -> usize {
    let (mut count, mut table) = (0, 0);
    while table < tables.len() {
        count += tables[table].len();
        table += 1;
    }
    count
}

/// Joins these tables, which have `N` keys together.
pub(crate) const fn joined<const N: usize>(tables: &[&[Key]]) -> [Key; N] {
    assert!(count(tables) == N, "the length of the joined list is that of the tables");
    let mut all = [tables[0][0]; N];
    let (mut at, mut table) = (0, 0);
    while table < tables.len() {
        let mut row = 0;
        while row < tables[table].len() {
            all[at] = tables[table][row];
            (at, row) = (at + 1, row + 1);
        }
        table += 1;
    }
    all
}

pub(crate) fn word<T: Copy>(choices: &[(&str, T)]) -> impl Fn(&str) -> std::result::Result<T, String> {
    move |text| {
        choices.iter().find(|(word, _)| *word == text).map(|&(_, choice)| choice).ok_or_else(|| {
            let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
            format!("one of {}", words.join(", "))
        })
    }
}
