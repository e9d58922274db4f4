//! Policies that are written in Python.

use std::sync::{Arc, Mutex, PoisonError};

use destage_plan::PageNo;
use destage_policy::buffer::{
    self, BufferConfig, ChooserFailed as Ended, EvictionUnit, ForeignPolicy, PageAccess, PageChooser, VictimList,
};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;

use crate::call::StopSignal;
use crate::raised;

/// Lists the answers that a policy may give.
const ANSWERS: &str = "None, False, a page, or the pages that leave";

/// A policy as Python gives it: name, what it evicts at once, and what makes one of a run.
pub(crate) type Given = (String, String, Py<PyAny>);

/// Holds the exception that ended a run, if one was raised in a policy.
#[derive(Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<PyErr>>>);

impl Failure {
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Notes the first one and ends the run.
    fn note(&self, error: PyErr, stop: &StopSignal) -> Ended {
        // The first exception is the cause; later ones follow from it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        // The simulation runs on its own thread and cannot unwind into Python, so it is told to stop.
        stop.now();
        Ended
    }
}

/// The policies as a simulation takes them.
///
/// # Errors
/// Where the name of one is another's.
pub(crate) fn foreign(given: Vec<Given>, failure: &Failure, stop: &StopSignal) -> PyResult<Vec<ForeignPolicy>> {
    let mut policies: Vec<ForeignPolicy> = Vec::new();
    for (name, unit, factory) in given {
        let unit = match unit.as_str() {
            "page" => EvictionUnit::Page,
            "block" => EvictionUnit::Block,
            _ => return Err(raised(format_args!("policy '{name}': unit = '{unit}': 'page' or 'block'"))),
        };
        // These characters part names, parameters and layers where policies are named.
        if name.is_empty() || name.contains([':', ',', '+']) {
            return Err(raised(format_args!("policy '{name}': a name has letters, and neither ':', ',' nor '+'")));
        }
        let spec = name.parse().map(buffer::canonical).map_err(raised)?;
        // Results name policies, and two of one name could not be told apart.
        if buffer::info(&spec.name).is_ok() || policies.iter().any(|other| other.name == name) {
            return Err(raised(format_args!(
                "policy '{name}': another policy has this name; give yours another `name`"
            )));
        }
        let (failure, stop, called) = (failure.clone(), stop.clone(), name.clone());
        let make = move |config: BufferConfig| {
            Python::attach(|py| made(py, &factory, &called, config, (&failure, &stop)))
                .map(|chooser| Box::new(chooser) as Box<dyn PageChooser>)
                .map_err(|error| failure.note(error, &stop))
        };
        policies.push(ForeignPolicy { name, unit, make: Arc::new(make) });
    }
    Ok(policies)
}

/// A policy of Python's for one run.
struct PythonPolicy {
    name: String,
    object: Py<PyAny>,
    /// Holds the method, which is looked up once.
    access: Py<PyAny>,
    failure: Failure,
    stop: StopSignal,
}

fn made(
    py: Python<'_>,
    factory: &Py<PyAny>,
    name: &str,
    config: BufferConfig,
    (failure, stop): (&Failure, &StopSignal),
) -> PyResult<PythonPolicy> {
    let object = factory.call1(py, (config.capacity_pages, config.pages_per_block))?;
    // Looking the method up once saves a search of the object's dictionary for every access.
    let access = object.getattr(py, intern!(py, "access"))?;
    Ok(PythonPolicy { name: name.to_owned(), object, access, failure: failure.clone(), stop: stop.clone() })
}

impl PythonPolicy {
    /// Calls into Python.
    fn call<T>(&self, call: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, Ended> {
        Python::attach(call).map_err(|error| self.failure.note(error, &self.stop))
    }

    fn wrong(&self, method: &str, answer: &Bound<'_, PyAny>) -> PyErr {
        let shown = answer.repr().map_or_else(|_| "something".to_owned(), |repr| repr.to_string());
        // An answer may be a list of all pages, and a message is to be read.
        let shown: String = shown.chars().take(80).collect();
        PyTypeError::new_err(format!("policy '{}': {method} returned {shown}, and may return {ANSWERS}", self.name))
    }

    /// Takes an answer apart. Whether the page is let in.
    fn take(&self, method: &str, answer: &Bound<'_, PyAny>, victims: &mut VictimList) -> PyResult<bool> {
        if answer.is_none() {
            return Ok(true);
        }
        // Before numbers: in Python `True` is an integer, and would pass for page 1.
        if let Ok(flag) = answer.cast::<pyo3::types::PyBool>() {
            // `True` says nothing that `None` does not, and is more likely a slip.
            return if flag.is_true() { Err(self.wrong(method, answer)) } else { Ok(false) };
        }
        let wrong = |_| self.wrong(method, answer);
        if let Ok(page) = answer.extract::<u64>() {
            victims.page(page);
            victims.end_unit();
            return Ok(true);
        }
        for unit in answer.try_iter().map_err(wrong)? {
            let unit = unit?;
            if let Ok(page) = unit.extract::<u64>() {
                victims.page(page);
            } else {
                for page in unit.try_iter().map_err(wrong)? {
                    victims.page(page?.extract::<u64>().map_err(wrong)?);
                }
            }
            victims.end_unit();
        }
        Ok(true)
    }
}

impl PageChooser for PythonPolicy {
    fn access(&mut self, access: PageAccess, _: bool, victims: &mut VictimList) -> Result<bool, Ended> {
        self.call(|py| {
            let answer = self.access.bind(py).call1((access.page.0, access.write))?;
            self.take("access", &answer, victims)
        })
    }

    fn evict(&mut self, victims: &mut VictimList) -> Result<(), Ended> {
        self.call(|py| {
            let answer = self.object.bind(py).call_method0(intern!(py, "evict"))?;
            self.take("evict", &answer, victims).map(|_| ())
        })
    }

    fn admits(&self, access: PageAccess) -> Result<bool, Ended> {
        self.call(|py| {
            let answer = self.object.bind(py).call_method1(intern!(py, "admits"), (access.page.0, access.write))?;
            answer.is_truthy()
        })
    }

    fn trimmed(&mut self, page: PageNo) -> Result<(), Ended> {
        self.call(|py| self.object.bind(py).call_method1(intern!(py, "trimmed"), (page.0,)).map(|_| ()))
    }

    fn cleaned(&mut self, pages: &[PageNo]) -> Result<(), Ended> {
        let pages: Vec<u32> = pages.iter().map(|page| page.0).collect();
        self.call(|py| self.object.bind(py).call_method1(intern!(py, "cleaned"), (pages,)).map(|_| ()))
    }

    fn broke(&self, message: String) {
        self.failure.note(raised(format_args!("policy '{}' {message}", self.name)), &self.stop);
    }
}

/// Name, title and place ("ssd" or "host") of every built-in policy.
#[pyfunction]
pub(crate) fn policies() -> Vec<(&'static str, &'static str, &'static str)> {
    let of_ssd = buffer::policies().iter().map(|policy| (policy.name, policy.title, "ssd"));
    of_ssd.chain(destage_cache::host_caches().map(|cache| (cache.name, cache.title, "host"))).collect()
}
