//! Advises a policy and a size for a trace, as `destage advise` does.
//!
//! [`advise`] looks at the trace for the sizes that are worth considering. It has [`mod@search`] go through
//! policies and sizes with far fewer runs than there are pairs of them, and reports the result with its evidence.

mod advice;
mod bench;
mod candidates;
mod error;
pub mod search;
mod sizes;

use std::cell::Cell;

pub use advice::{AdviceDoubt, AdvisedChoice, HalfTrace, OmittedSearch, OtherPlace, TraceAdvice};
pub use error::AdviseError;
pub use search::SearchedRequests;
pub use sizes::{CacheBudgets, SizeBudget};

use advice::ConsideredRuns;
use bench::SimulationBench;
use candidates::{CachePlace, LeftOut};
use destage_report::{RankingObjective, ReportRun, RunJudge};
use destage_scenario::keys::array::{ARRAY, CACHE_DEVICE};
use destage_scenario::keys::cache::CACHE;
use destage_scenario::keys::device::DEVICE;
use destage_scenario::keys::host::HOST;
use destage_scenario::keys::output::OBJECTIVE;
use destage_scenario::keys::ssd::PRESET;
use destage_scenario::sim::SimulatedRequests;
use destage_scenario::{DescribedSimulation, ScenarioSettings, simulation};
use destage_sim::curve;
use destage_sim::experiment::RunProgress;
use destage_sweep::RemoteRunner;
use search::{AS_GOOD, SearchError, SearchOutcome, SearchSpace, search};

/// Names the host that waits where requests come faster than any run serves them. It keeps the idle time between bursts, in which
/// arrays clean and SSDs collect.
pub const INSTEAD: &str = "bounded:32";

/// Name the options of how large caches may be.
const BUDGET: &str = "--budget";
const NVRAM_BUDGET: &str = "--nvram-budget";

/// Names the SSD where none is given: a drive that can be bought, and that is fitted to the trace.
const DRIVE: &str = "pm9a3";

/// Describes the present round of simulations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdviceStage {
    /// Of which requests.
    pub part: SearchedRequests,
    /// So many policies, or none: then the trace is looked at.
    pub policies: usize,
    /// At so many sizes.
    pub sizes: usize,
}

/// Hears of the progress.
pub trait AdviceWatch: Sync {
    /// This is what comes now.
    fn begin(&self, stage: AdviceStage);
    /// So far it is.
    fn show(&self, progress: RunProgress);
}

/// Advice with the runs that it rests on.
#[derive(Clone, Debug)]
pub struct AdvisedRuns {
    /// Holds the advice.
    pub advice: TraceAdvice,
    /// Every run over all requests, which are those of `destage sim`.
    pub runs: Vec<ReportRun>,
    /// Judged the runs.
    pub judge: RunJudge,
}

/// Has buffers be inside an SSD unless something else is asked for, and each SSD, that of a cache before an array too, be a
/// current drive unless another is named.
fn settle_device(settings: &mut ScenarioSettings) -> Result<(), AdviseError> {
    let is_array = ARRAY.is_given(settings);
    // Without a device a run shows hits alone, so a drive is assumed where none is named: response times decide
    // then.
    if !is_array && !DEVICE.is_given(settings) {
        settings.flag(DEVICE.name(), vec!["ssd".to_owned()])?;
    }
    let has_ssd = DEVICE.get(settings)? == "ssd" || is_array && CACHE_DEVICE.get(settings)? == "ssd";
    if has_ssd && !PRESET.is_given(settings) {
        settings.flag(PRESET.name(), vec![DRIVE.to_owned()])?;
    }
    Ok(())
}

/// Holds what is searched in one place.
struct PlaceSearch {
    place: CachePlace,
    sizes: Vec<u64>,
    space: SearchSpace,
}

/// Lists where caches may be.
///
/// # Errors
/// If there is NVRAM for a cache, and none could be in it.
fn places(looked: &DescribedSimulation, budgets: CacheBudgets) -> Result<&'static [CachePlace], AdviseError> {
    match looked {
        _ if budgets.nvram.is_none() => Ok(&[CachePlace::Only]),
        DescribedSimulation::Array(_) => Ok(&[CachePlace::Device, CachePlace::Nvram]),
        DescribedSimulation::Buffers(_) => {
            let why = "a buffer inside an SSD has no use for it; give an array, whose caches may be in the NVRAM";
            Err(AdviseError::Asked(format!("{NVRAM_BUDGET}: {why}")))
        }
    }
}

/// Looks for the best policy and size up to a budget, by the settings of `destage sim`, whose policies are the candidates if
/// they are given. What is simulated is simulated here, unless there is somebody `on` whom it is; what it finds is the same.
///
/// Caches on a device and caches in the NVRAM are searched apart, since what they may take is of different kinds. Of both
/// answers the better one is advised: the device's, unless the other costs less by more than what counts as good.
///
/// # Errors
/// Where the settings are wrong, the trace cannot be read, several times, or no run is a result.
pub fn advise(
    mut settings: ScenarioSettings,
    mut requests: SimulatedRequests,
    budgets: CacheBudgets,
    on: Option<&dyn RemoteRunner>,
    watch: &dyn AdviceWatch,
) -> Result<AdvisedRuns, AdviseError> {
    // Refused before the trace is read, which may take long.
    bench::refuse(&settings)?;
    // Every round reads the trace again, and holding it in memory would limit its length.
    if !requests.can_be_read_again() {
        return Err(AdviseError::Asked(format!(
            "{}: is read several times, and a pipe can be read only once: give a file",
            requests.name()
        )));
    }
    settle_device(&mut settings)?;
    let objective = OBJECTIVE.optional_by(&settings, RankingObjective::named)?;
    let resources = bench::resources(&settings)?;
    watch.begin(AdviceStage { part: SearchedRequests::Whole, policies: 0, sizes: 0 });
    destage_scenario::count(&settings, &mut requests, &mut |_, _| ())?;
    // Host caches demand a size, and none is known yet.
    let mut unsized_yet = settings.clone();
    unsized_yet.flag(CACHE.name(), vec!["auto".to_owned()])?;
    let looked = simulation(&unsized_yet, &requests.before_sizes())?;
    // One pass of LRU at all sizes tells which sizes are worth considering.
    let found = curve::lru(&looked.scope(), resources, &mut || requests.open(0), &|progress| watch.show(progress))?;
    // The curve counts a trace as often as it is repeated, and stretches lie within one pass.
    let count = found.input.trace_requests / u64::from(requests.repeat());
    let places = places(&looked, budgets)?;
    let mut bench = SimulationBench {
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
    let (mut searches, mut left_out) = (Vec::new(), Vec::new());
    for &place in places {
        let mut candidates = candidates::named(&bench.settings, &looked, place)?;
        if candidates.policies.is_empty() && place != CachePlace::Only {
            // The policies that the user named are all in the other place.
            continue;
        }
        let (budget, option) =
            if place == CachePlace::Nvram { (budgets.nvram, NVRAM_BUDGET) } else { (budgets.size, BUDGET) };
        let mut sizes = sizes::considered(budget, option, &found)?;
        candidates.settle(&mut bench, &mut sizes)?;
        let space = candidates.space(sizes.len(), count);
        left_out.append(&mut candidates.left_out);
        searches.push(PlaceSearch { place, sizes, space });
    }
    if budgets.nvram.is_some() && searches.iter().all(|search| search.place != CachePlace::Nvram) {
        return Err(AdviseError::Asked(format!("{NVRAM_BUDGET}: none of the policies keeps data in the NVRAM")));
    }
    let mut changed = None;
    let outcomes = loop {
        match search_all(&mut bench, &searches) {
            Ok(outcomes) => break outcomes,
            Err(SearchError::Bench(error)) => return Err(error),
            // Where no run keeps up, a host that waits still shows which policy serves more. The change is named in
            // the advice.
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
    // The first run chooses the judge, and a search without a run has ended above.
    let judge = bench.judge.get().expect("there was a run");
    let mut found_in = Vec::new();
    for (search, outcome) in searches.into_iter().zip(outcomes) {
        if let Some(outcome) = outcome {
            found_in.push((search, outcome));
        } else {
            let why = "none of those with data in its place kept up with the requests";
            // A place without a result names its policies, so none of them is missing without a reason.
            left_out.extend(search.space.policies.into_iter().map(|policy| LeftOut { policy, why: why.to_owned() }));
        }
    }
    // The device's answer comes first, and the NVRAM's must cost less by more than 1 %.
    if let [(_, one), (_, other)] = &found_in[..]
        && costs_less(other, one)
    {
        found_in.swap(0, 1);
    }
    let mut found_in = found_in.into_iter();
    let (own, outcome) = found_in.next().expect("there is a result");
    let elsewhere = found_in.next();
    let considered = ConsideredRuns {
        trace: requests.name(),
        requests: count,
        footprint_bytes: found.footprint.bytes(),
        place: own.place,
        sizes: &own.sizes,
        policies: own.space.policies,
        left_out,
        changed,
    };
    let advice = TraceAdvice::new(judge, &outcome, considered, elsewhere.as_ref());
    // What holds nothing was simulated for both places, and is listed once.
    let others = elsewhere.into_iter().flat_map(|(_, outcome)| outcome.tried).filter(|tried| tried.size.is_some());
    let runs = outcome.tried.into_iter().chain(others).map(|tried| tried.run).collect();
    Ok(AdvisedRuns { advice, runs, judge })
}

/// Searches each place; returns no outcome of one in which no run is a result.
fn search_all(
    bench: &mut SimulationBench<'_>,
    searches: &[PlaceSearch],
) -> Result<Vec<Option<SearchOutcome<ReportRun>>>, SearchError<AdviseError>> {
    let mut outcomes = Vec::new();
    for PlaceSearch { sizes, space, .. } in searches {
        bench.sizes.clone_from(sizes);
        outcomes.push(match search(bench, space) {
            Ok(outcome) => Some(outcome),
            Err(SearchError::NoResult) => None,
            Err(error) => return Err(error),
        });
    }
    // One place without a result leaves the other to advise. Only both together are an error.
    if outcomes.iter().all(Option::is_none) { Err(SearchError::NoResult) } else { Ok(outcomes) }
}

/// Returns true if the best of one place costs less than that of another by more than what counts as good.
fn costs_less(one: &SearchOutcome<ReportRun>, than: &SearchOutcome<ReportRun>) -> bool {
    let cost = |outcome: &SearchOutcome<ReportRun>| outcome.tried[outcome.best].cost;
    match (cost(one), cost(than)) {
        (Some(one), Some(than)) => one < than - AS_GOOD * than.abs(),
        (one, than) => one.is_some() && than.is_none(),
    }
}
