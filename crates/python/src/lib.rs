//! Implements the part of the Python package `destage` that is not Python: traces, simulations and results.
//!
//! docs/python.md describes the package. Its other part, with the documentation of each function, is
//! `python/destage`.
//!
//! Whatever takes long runs on a thread of its own, without the interpreter's lock, while the calling thread looks for
//! signals (`call.rs`). Errors have the text that the command line prints.

mod advise;
mod arrow;
mod call;
mod file;
mod latencies;
mod mrc;
mod policy;
mod report;
mod settings;
mod simulate;
mod sweep;
mod trace;

use pyo3::prelude::*;

pyo3::create_exception!(
    destage,
    DestageError,
    pyo3::exceptions::PyException,
    "What went wrong, in the words of the command line."
);

/// Returns an error as Python's exception, which names the argument where the command line's words name its option.
fn raised(error: impl std::fmt::Display) -> PyErr {
    let text = error.to_string();
    // The command line's errors name options; in Python the same names are arguments, with underscores.
    let argument = text.strip_prefix("--").and_then(|rest| rest.split_once(" = "));
    let argument = argument.filter(|(name, _)| !name.contains(char::is_whitespace));
    let text = argument.map(|(name, rest)| format!("{} = {rest}", name.replace('-', "_")));
    DestageError::new_err(text.unwrap_or_else(|| error.to_string()))
}

#[pymodule]
mod _destage {
    #[pymodule_export]
    use super::DestageError;
    #[pymodule_export]
    use super::advise::advise;
    #[pymodule_export]
    use super::arrow::Table;
    #[pymodule_export]
    use super::mrc::mrc;
    #[pymodule_export]
    use super::policy::policies;
    #[pymodule_export]
    use super::report::{page, tables};
    #[pymodule_export]
    use super::settings::{path_of_text, path_text, settings};
    #[pymodule_export]
    use super::simulate::simulate;
    #[pymodule_export]
    use super::sweep::{SweepPlan, sweep_run, sweep_split, sweep_table, sweep_urls, whole_run};
    #[pymodule_export]
    use super::trace::{Trace, formats, synth, workloads, write_trace};

    // The package takes its `__version__` from here, so both always agree.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    const PROGRAM: &str = destage_sweep::program();
}
