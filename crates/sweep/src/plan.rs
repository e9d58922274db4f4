//! All runs of a sweep, before any of them begins.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use destage_report::RankingObjective;
use destage_scenario::keys::output::{MEMORY, OBJECTIVE, PROGRESS};
use destage_scenario::keys::trace::TRACE;
use destage_scenario::sim;
use destage_scenario::{ScenarioSettings, TraceLooks, device_name, path_text};
use destage_sim::experiment::RunProgress;

use crate::grid::{GridPoint, KeyGrid};
use crate::group::{GroupMember, GroupTrace, MemberRun, settings_of};
use crate::prepared::{PreparedExperiment, TracePart};
use crate::traces::TraceName;
use crate::{SweepDescription, SweepError, traces};

/// Holds all runs of a sweep and the settings that carry them out.
#[derive(Debug)]
pub(crate) struct GroupPlan {
    /// Experiments over traces, with all of their runs.
    pub(crate) members: Vec<GroupMember>,
    /// Traces by their numbers; none where there are workloads.
    pub(crate) traces: Vec<PlannedTrace>,
    /// The trace of each experiment.
    pub(crate) trace_of: Vec<usize>,
    /// Names of the devices, each once.
    pub(crate) devices: Vec<String>,
    /// Keys that vary.
    pub(crate) keys: Vec<String>,
    pub(crate) objective: Option<RankingObjective>,
    pub(crate) threads: usize,
    pub(crate) memory: u64,
}

/// A trace that is there.
#[derive(Debug)]
pub(crate) struct PlannedTrace {
    /// Holds the trace's path on this machine.
    pub(crate) file: Option<PathBuf>,
    /// Describes the trace for whoever runs a group over it.
    pub(crate) shared: Option<GroupTrace>,
}

impl GroupPlan {
    /// The plan of what a file says. `fetched` has the files of traces that are URLs.
    ///
    /// # Errors
    /// Tells what is wrong with the grid, a combination of it, or a trace.
    pub(crate) fn new(
        description: &SweepDescription,
        fetched: &[(String, PathBuf)],
        progress: &(dyn Fn(&str, RunProgress) + Sync),
    ) -> Result<Self, SweepError> {
        let base = &description.scenario;
        // All settings are read before any trace, so that a mistake is reported at once.
        let resources = sim::resources(base)?;
        let mut plan = Self {
            members: Vec::new(),
            traces: Vec::new(),
            trace_of: Vec::new(),
            devices: Vec::new(),
            keys: varying(description),
            objective: OBJECTIVE.optional_by(base, RankingObjective::named)?,
            threads: resources.threads,
            memory: MEMORY.get(base)?,
        };
        // The value is read only to be checked: nobody uses it here.
        PROGRESS.get(base)?;
        let mut names = description.traces.clone();
        if let Some(file) = TRACE.path(base)? {
            let name = TRACE.get_by(base, |name| Ok::<_, String>(name.to_owned()))?;
            if name == "-" {
                let what = "a sweep reads its traces more than once: give a file in place of '-'";
                return Err(SweepError::file(&description.file, what));
            }
            names.push(TraceName { name, file: Some(file), settings: Vec::new() });
        }
        // Points over one trace share the passes that its warm-up and sizes take.
        let mut looked = TraceLooks::default();
        let mut seen = HashSet::new();
        if names.is_empty() {
            plan.traces.push(PlannedTrace { file: None, shared: None });
            plan.add(description, None, &mut looked, &mut seen, progress)?;
        }
        for name in &names {
            let (file, place) = if let Some(file) = &name.file {
                // Whoever runs a group may have another working directory.
                let place = std::path::absolute(file).map_err(|error| SweepError::file(file, error))?;
                (file.clone(), path_text::of(place))
            } else {
                let (url, file) = fetched.iter().find(|(url, _)| *url == name.name).ok_or_else(|| {
                    let what = "a URL is fetched in Python: give --on, or call destage.sweep (docs/sweeps.md)";
                    SweepError::new(format_args!("{}: {what}", name.name))
                })?;
                (file.clone(), url.clone())
            };
            // The hash goes with the group, so that a worker with another file of this name refuses it.
            let files = traces::contents(&destage_trace::files(&file))?;
            plan.traces.push(PlannedTrace { file: Some(file.clone()), shared: Some(GroupTrace { place, files }) });
            let name = TraceName { file: Some(file), ..name.clone() };
            plan.add(description, Some(&name), &mut looked, &mut seen, progress)?;
        }
        Ok(plan)
    }

    /// Adds all points over a trace, each once.
    fn add(
        &mut self,
        description: &SweepDescription,
        trace: Option<&TraceName>,
        looked: &mut TraceLooks,
        seen: &mut HashSet<String>,
        progress: &(dyn Fn(&str, RunProgress) + Sync),
    ) -> Result<(), SweepError> {
        for point in description.grids.iter().flat_map(KeyGrid::points) {
            let mut settings = description.scenario.clone();
            if let Some(trace) = trace {
                let file = trace.file.as_deref().map(path_text::of).unwrap_or_default();
                settings.flag(TRACE.name(), vec![file])?;
                for (key, value) in &trace.settings {
                    settings.flag(key, vec![value.clone()])?;
                }
            }
            let told = || {
                let given = point.named().into_iter().map(|(key, value)| format!("{key} = {value}"));
                let given: Vec<_> = given.collect();
                let of = if given.is_empty() { "the grid".to_owned() } else { given.join(", ") };
                let over = trace.map_or_else(String::new, |trace| format!(" over {}", trace.name));
                format!("{}: {of}{over}", description.file.display())
            };
            self.add_point(&mut settings, &point.given, trace, looked, seen, progress)
                .map_err(|error| error.at(told()))?;
        }
        Ok(())
    }

    fn add_point(
        &mut self,
        settings: &mut ScenarioSettings,
        given: &[(&'static str, &[String])],
        trace: Option<&TraceName>,
        looked: &mut TraceLooks,
        seen: &mut HashSet<String>,
        progress: &(dyn Fn(&str, RunProgress) + Sync),
    ) -> Result<(), SweepError> {
        for (key, values) in given {
            settings.flag(key, values.to_vec())?;
        }
        let requests = sim::requests(settings)?;
        let name = trace.map_or_else(|| requests.name(), |trace| trace.name.clone());
        let content = format!("{:?}", traces::contents(&requests.files())?);
        // Nothing in a group may depend on the trace, or each worker would need a pass of its own.
        let settings = looked.resolved(settings, &requests, &content, &|far| progress(&name, far))?;
        let prepared = PreparedExperiment::new(&settings, TracePart::default(), &name)?;
        let device = device_name(&settings)?;
        if !self.devices.contains(&device) {
            self.devices.push(device);
        }
        let in_force = settings.in_force();
        let value = |key: &String| in_force.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
        let point: Vec<_> = self.keys.iter().map(|key| (key.clone(), value(key))).collect();
        let runs = prepared.keys().into_iter().zip(prepared.names()?).enumerate();
        let runs = runs.map(|(number, (key, name))| MemberRun { number, key, name });
        // Blocks of a grid may overlap.
        let runs: Vec<_> = runs.filter(|run| seen.insert(format!("{name} {point:?} {}", run.key))).collect();
        if runs.is_empty() {
            return Ok(());
        }
        let settings = settings_of(&settings);
        self.members.push(GroupMember { settings, trace: name, of: TracePart::default(), point, runs });
        // The trace of each experiment was pushed just before.
        self.trace_of.push(self.traces.len() - 1);
        Ok(())
    }

    /// All rows, in order: experiment and run.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (usize, &MemberRun)> {
        self.members.iter().enumerate().flat_map(|(member, of)| of.runs.iter().map(move |run| (member, run)))
    }
}

/// The keys that do not have the same value in all points, in the order in which they are first named.
fn varying(description: &SweepDescription) -> Vec<String> {
    let mut keys: Vec<&'static str> = Vec::new();
    for key in description.grids.iter().flat_map(KeyGrid::keys) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let varies = |key: &&str| {
        let value =
            |point: GridPoint<'_>| point.named().into_iter().find(|(name, _)| name == key).map(|(_, value)| value);
        // A key with one value tells no points apart, so it has no column.
        let values: BTreeSet<_> = description.grids.iter().flat_map(KeyGrid::points).map(value).collect();
        values.len() > 1
    };
    keys.into_iter().filter(varies).map(str::to_owned).collect()
}
