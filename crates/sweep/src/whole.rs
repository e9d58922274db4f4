//! Experiments whose results are wanted whole rather than as rows: those that papers are reproduced by, and advice found.
//!
//! Each is a [`SweepGroup`], so that it can be carried out wherever runs of sweeps are.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use destage_report::ReportRun;
use destage_scenario::keys::trace::TRACE;
use destage_scenario::sim::SimulatedRequests;
use destage_scenario::{ScenarioSettings, path_text};
use destage_sim::experiment::StopSignal;

use crate::group::{EndedRuns, GroupMember, GroupTrace, MemberRun, settings_of};
use crate::prepared::{PreparedExperiment, TraceCounting, TracePart};
use crate::{SweepError, SweepGroup, traces};

/// Experiments that are with another program at a time: more than most clusters have workers, and few enough that each
/// can have a thread that waits for it.
pub const AT_A_TIME: usize = 256;

/// Another program that carries out groups, or several.
pub trait RemoteRunner: Sync {
    /// Results of all runs of a group, in their order.
    ///
    /// # Errors
    /// If one of them has none, or nobody carries them out.
    fn whole(&self, group: &SweepGroup) -> Result<Vec<ReportRun>, SweepError>;
}

impl SweepGroup {
    /// All runs of the experiment that settings describe over requests, which results call `called`. What depends on the
    /// requests is either in the settings or found again wherever it is carried out.
    ///
    /// # Errors
    /// Fails where they describe none that could begin, or a trace cannot be read, or only once.
    pub fn whole(settings: &ScenarioSettings, requests: &SimulatedRequests, called: &str) -> Result<Self, SweepError> {
        let trace = match TRACE.path(settings)? {
            Some(file) => {
                let place = std::path::absolute(&file).map_err(|error| SweepError::file(&file, error))?;
                let files = traces::contents(&requests.files())?;
                Some(GroupTrace { place: path_text::of(place), files })
            }
            None => None,
        };
        let of = TracePart { part: requests.parted(), counted: requests.counted() };
        let settings = settings.elsewhere()?;
        let prepared = PreparedExperiment::new(&settings, of, called)?;
        let runs = prepared.keys().into_iter().zip(prepared.names()?).enumerate();
        let runs = runs.map(|(number, (key, name))| MemberRun { number, key, name }).collect();
        let settings = settings_of(&settings);
        Ok(Self::new(trace, vec![GroupMember { settings, trace: called.to_owned(), of, point: Vec::new(), runs }]))
    }
}

/// Carries out a group over the trace in this file, if it is over one, on one thread: results of all of its runs, in their
/// order. Devices share `memory` bytes, or as many as the scenario says.
///
/// # Errors
/// If it is for another program or another trace, a run of it has no result, or it was told to stop.
pub fn whole(
    group: &SweepGroup,
    file: Option<&Path>,
    memory: Option<u64>,
    stop: &StopSignal,
) -> Result<Vec<ReportRun>, SweepError> {
    let file = group.checked(file)?;
    let mut all = Vec::new();
    for member in &group.members {
        let EndedRuns { mut found, failed } = member.carry_out(file.as_deref(), memory, TraceCounting::No, stop)?;
        if let Some((_, error)) = failed.into_iter().next() {
            return Err(error);
        }
        found.sort_by_key(|(number, _)| *number);
        all.extend(found.into_iter().map(|(_, run)| run));
    }
    Ok(all)
}

/// Holds the outcome of a group that was carried out elsewhere.
type RemoteResult = Result<Vec<ReportRun>, SweepError>;

/// Has another program carry out groups, many at a time; `ended` is told how many have. What they bring, in their order.
///
/// # Errors
/// Returns that of the first of them that brings nothing; others may not have been tried then.
pub fn elsewhere(
    groups: &[SweepGroup],
    other: &dyn RemoteRunner,
    ended: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Vec<ReportRun>>, SweepError> {
    let (next, done, failed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    let all: Mutex<Vec<Option<RemoteResult>>> = Mutex::new(vec![None; groups.len()]);
    let lane = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            // Groups after the first failure are needless: the error of the first in order is reported.
            let Some(group) = groups.get(index).filter(|_| index < failed.load(Ordering::Relaxed)) else { return };
            let brought = other.whole(group);
            if brought.is_err() {
                failed.fetch_min(index, Ordering::Relaxed);
            }
            all.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(brought);
            ended(done.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..groups.len().min(AT_A_TIME) {
            // One thread less does no harm.
            let _ = std::thread::Builder::new().name("waits".into()).spawn_scoped(scope, lane);
        }
        lane();
    });
    // They are begun in order, so that none is missing before the first that failed.
    all.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().map_while(|brought| brought).collect()
}
