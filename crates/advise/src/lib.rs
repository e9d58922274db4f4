//! Which policy, and how large, for a trace: what `destage advise` answers.
//!
//! [`advise`] looks at the trace for the sizes that are worth considering, has [`mod@search`] go through policies and sizes
//! with far fewer runs than there are pairs of them, and tells what it found with what that rests on.

mod advice;
mod bench;
mod candidates;
mod error;
pub mod search;
mod sizes;

use std::cell::Cell;

pub use advice::{Advice, Choice, Doubt, Half, Omitted};
pub use error::AdviseError;
pub use search::Part;
pub use sizes::Budget;

use advice::Considered;
use bench::Bench;
use destage_report::{Judge, Objective, ReportRun};
use destage_scenario::keys::array::ARRAY;
use destage_scenario::keys::cache::CACHE;
use destage_scenario::keys::device::DEVICE;
use destage_scenario::keys::host::HOST;
use destage_scenario::keys::output::OBJECTIVE;
use destage_scenario::keys::ssd::PRESET;
use destage_scenario::sim::Requests;
use destage_scenario::{Settings, simulation};
use destage_sim::curve;
use destage_sim::experiment::Progress;
use destage_sweep::Elsewhere;
use search::{SearchError, search};

/// Names the host that waits where requests come faster than any run serves them. It keeps the idle time between bursts, in which
/// arrays clean and SSDs collect.
const INSTEAD: &str = "bounded:32";

/// Names the SSD where none is given: a drive that can be bought, and that is fitted to the trace.
const DRIVE: &str = "pm9a3";

/// What is simulated now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Of which requests.
    pub part: Part,
    /// So many policies, or none: then the trace is looked at.
    pub policies: usize,
    /// At so many sizes.
    pub sizes: usize,
}

/// Who hears how far it is.
pub trait Watch: Sync {
    /// This is what comes now.
    fn begin(&self, stage: Stage);
    /// So far it is.
    fn show(&self, progress: Progress);
}

/// Advice with the runs that it rests on.
#[derive(Clone, Debug)]
pub struct Advised {
    /// What is advised.
    pub advice: Advice,
    /// Every run over all requests, which are those of `destage sim`.
    pub runs: Vec<ReportRun>,
    /// What they were judged by.
    pub judge: Judge,
}

/// Has buffers be inside an SSD unless something else is asked for, and the SSD be a current drive unless another is named.
fn settle_device(settings: &mut Settings) -> Result<(), AdviseError> {
    if ARRAY.is_given(settings) {
        return Ok(());
    }
    if !DEVICE.is_given(settings) {
        settings.flag(DEVICE.name(), vec!["ssd".to_owned()])?;
    }
    if DEVICE.get(settings)? == "ssd" && !PRESET.is_given(settings) {
        settings.flag(PRESET.name(), vec![DRIVE.to_owned()])?;
    }
    Ok(())
}

/// Looks for the best policy and size up to a budget, by the settings of `destage sim`, whose policies are the candidates if
/// they are given. What is simulated is simulated here, unless there is somebody `on` whom it is; what it finds is the same.
///
/// # Errors
/// Where the settings are wrong, the trace cannot be read, several times, or no run is a result.
pub fn advise(
    mut settings: Settings,
    mut requests: Requests,
    budget: Option<Budget>,
    on: Option<&dyn Elsewhere>,
    watch: &dyn Watch,
) -> Result<Advised, AdviseError> {
    bench::refuse(&settings)?;
    if !requests.can_be_read_again() {
        return Err(AdviseError::Asked(format!(
            "{}: is read several times, and a pipe can be read only once: give a file",
            requests.name()
        )));
    }
    settle_device(&mut settings)?;
    let objective = OBJECTIVE.optional_by(&settings, Objective::named)?;
    let resources = bench::resources(&settings)?;
    watch.begin(Stage { part: Part::Whole, policies: 0, sizes: 0 });
    destage_scenario::count(&settings, &mut requests, &mut |_, _| ())?;
    // Caches of the host demand a size, which there is none of yet.
    let mut unsized_yet = settings.clone();
    unsized_yet.flag(CACHE.name(), vec!["auto".to_owned()])?;
    let looked = simulation(&unsized_yet, &requests.before_sizes())?;
    let found = curve::lru(&looked.scope(), resources, &mut || requests.open(0), &|progress| watch.show(progress))?;
    let mut sizes = sizes::considered(budget, &found)?;
    let mut candidates = candidates::named(&settings, &looked)?;
    let count = found.input.trace_requests / u64::from(requests.repeat());
    let mut bench = Bench {
        settings,
        requests: &requests,
        objective,
        resources,
        sizes: Vec::new(),
        watch,
        on,
        extent: Cell::new(None),
        judge: Cell::new(None),
    };
    candidates.settle(&mut bench, &mut sizes)?;
    bench.sizes.clone_from(&sizes);
    let space = candidates.space(sizes.len(), count);
    let mut changed = None;
    let outcome = loop {
        match search(&mut bench, &space) {
            Ok(outcome) => break outcome,
            Err(SearchError::Bench(error)) => return Err(error),
            Err(SearchError::NoResult) if changed.is_none() && !HOST.is_given(&bench.settings) => {
                bench.settings.flag(HOST.name(), vec![INSTEAD.to_owned()])?;
                changed = Some(format!(
                    "requests come faster than any of these serves them: simulated with --host {INSTEAD}, \
                     which holds up the trace while so many requests are outstanding"
                ));
            }
            Err(SearchError::NoResult) => {
                return Err(AdviseError::Asked(format!(
                    "{}: no run is a result: none kept up with the requests, or none has what --objective asks for",
                    requests.name()
                )));
            }
        }
    };
    let judge = bench.judge.get().expect("there was a run");
    let considered = Considered {
        trace: requests.name(),
        requests: count,
        footprint_bytes: found.footprint.bytes(),
        sizes: &sizes,
        policies: space.policies.clone(),
        left_out: candidates.left_out,
        changed,
    };
    let advice = Advice::new(judge, &outcome, considered);
    let runs = outcome.tried.into_iter().map(|tried| tried.run).collect();
    Ok(Advised { advice, runs, judge })
}
