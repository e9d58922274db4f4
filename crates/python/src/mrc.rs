//! Miss-ratio curves: what `destage trace mrc` does.

use destage_scenario::keys::trace::{FORMAT, TRACE};
use destage_scenario::mrc::{MRC_SETTINGS, MrcQuery};
use destage_scenario::sim;
use pyo3::prelude::*;

use crate::call::{self, StopSignal};
use crate::{raised, settings};

/// Finds the hits of policies at sizes. Returns the curves as `destage trace mrc --json` writes those of a trace.
#[pyfunction]
#[pyo3(signature = (given, sizes, policies, rate, seed))]
pub(crate) fn mrc(
    py: Python<'_>,
    given: Vec<(String, Vec<String>)>,
    sizes: Vec<String>,
    policies: Vec<String>,
    rate: &str,
    seed: u64,
) -> PyResult<String> {
    // Most settings of a simulation say nothing about hits, and ignoring them would look as if they did.
    let is_of_it = |name: &str| [TRACE.name(), FORMAT.name()].contains(&name) || MRC_SETTINGS.contains(&name);
    if let Some((name, _)) = given.iter().find(|(name, _)| !is_of_it(name)) {
        let known = MRC_SETTINGS.join(", ");
        return Err(raised(format_args!("'{name}' has no meaning for curves of hits: expected one of {known}")));
    }
    let settings = settings::of_sim(None, given)?;
    let query = MrcQuery::new(sizes, policies, rate, seed);
    let query = query.map_err(raised)?;
    let stop = StopSignal::default();
    let told = stop.clone();
    call::run(py, &stop, move || {
        let requests = sim::requests(&settings).map_err(raised)?.until(told);
        let curves = query.curves(settings, requests, &mut |_| (), &|_| ()).map_err(raised)?;
        serde_json::to_string(&curves).map_err(raised)
    })
}
