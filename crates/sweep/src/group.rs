//! Runs over one trace that are carried out together, as text that can be sent anywhere.

use std::path::{Path, PathBuf};

use destage_report::kept::{self, ResultKey, Sha256Hash};
use destage_report::{FlatRuns, ReportRun, ResultColumn, TableCell};
use destage_scenario::keys::output::MEMORY;
use destage_scenario::keys::trace::TRACE;
use destage_scenario::sim::SIM;
use destage_scenario::{ScenarioSettings, path_text};
use destage_sim::experiment::{RunResources, StopSignal};
use serde::{Deserialize, Serialize};

use crate::prepared::{FailedPreparation, PreparedExperiment, TraceCounting, TracePart};
use crate::{SweepError, program, traces};

/// Runs over one trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SweepGroup {
    /// Holds the hash of the sources of the program that planned the group.
    program: String,
    /// The trace; none where a workload is generated.
    trace: Option<GroupTrace>,
    pub(crate) members: Vec<GroupMember>,
}

/// A trace, for whoever runs a group over it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupTrace {
    /// A path or a URL.
    pub place: String,
    /// Names of its files, without their folders, and the SHA-256 of each.
    pub files: Vec<(String, String)>,
}

/// Runs of one experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GroupMember {
    /// The settings, in which nothing depends on what the trace holds.
    pub(crate) settings: Vec<(String, Vec<String>)>,
    /// Names the trace in results.
    pub(crate) trace: String,
    /// Selects the requests of the trace, where that is fewer than the settings say.
    pub(crate) of: TracePart,
    /// Of keys that vary, what they are here.
    pub(crate) point: Vec<(String, Option<String>)>,
    pub(crate) runs: Vec<MemberRun>,
}

/// A run of an experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MemberRun {
    /// Counts the run's place in the order of results.
    pub(crate) number: usize,
    pub(crate) key: String,
    /// Names the run for people, so that it differs from the others.
    pub(crate) name: String,
}

/// A run that has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedRun {
    /// Holds the run's key.
    pub key: String,
    /// Names the run for people.
    pub run: String,
    /// Why it has none.
    pub error: String,
}

/// Holds the outcome of a group.
#[derive(Clone, Debug, Default)]
pub struct GroupOutcome {
    /// Rows of runs, as columns.
    pub columns: Vec<ResultColumn>,
    /// Runs that have none.
    pub failed: Vec<FailedRun>,
}

impl SweepGroup {
    pub(crate) fn new(trace: Option<GroupTrace>, members: Vec<GroupMember>) -> Self {
        Self { program: program().to_owned(), trace, members }
    }

    /// The group of a text.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> Result<Self, SweepError> {
        serde_json::from_str(text).map_err(|error| SweepError::new(format_args!("this is no group of runs: {error}")))
    }

    /// Itself as text.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the trace, or none for a generated workload.
    pub fn trace(&self) -> Option<&GroupTrace> {
        self.trace.as_ref()
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> usize {
        self.members.iter().map(|member| member.runs.len()).sum()
    }

    /// A name that no group of other runs has.
    pub fn name(&self) -> String {
        let mut key = ResultKey::of(&Sha256Hash::default());
        // The name follows from the runs alone, so that a scheduler knows a group that it has done.
        self.members.iter().flat_map(|member| &member.runs).for_each(|run| key.part(&run.key));
        kept::hex(&key.hash()[..16])
    }

    /// A group for each of its runs.
    #[must_use]
    pub fn split(&self) -> Vec<Self> {
        let alone = |member: &GroupMember, run: &MemberRun| Self {
            members: vec![GroupMember { runs: vec![run.clone()], ..member.clone() }],
            ..self.clone()
        };
        self.members.iter().flat_map(|member| member.runs.iter().map(move |run| alone(member, run))).collect()
    }

    /// The file that its trace has here, if it is over one.
    ///
    /// # Errors
    /// If it is for another program or another trace.
    pub(crate) fn checked(&self, file: Option<&Path>) -> Result<Option<PathBuf>, SweepError> {
        // Rows of two programs may differ for no reason that a sweep shows, so they are kept apart.
        if self.program != program() {
            let what = format!(
                "these runs were planned by a destage of other sources ({:.12}) than this one's ({:.12}), and rows of both do not go \
                 together: install the same on all sides",
                self.program,
                program()
            );
            return Err(SweepError::new(what));
        }
        let Some(trace) = &self.trace else { return Ok(None) };
        let file = file.map_or_else(|| path_text::path(&trace.place), Path::to_owned);
        let found = traces::contents(&destage_trace::files(&file))?;
        // A file that has changed since would give rows under keys of the old content.
        if found != trace.files {
            return Err(SweepError::file(&file, "holds something else than when the sweep was planned"));
        }
        Ok(Some(file))
    }

    /// All of its runs without results, for this reason.
    pub fn failed(&self, error: &str) -> Vec<FailedRun> {
        let of = |member: &GroupMember, run: &MemberRun| member.failed(run, error);
        self.members.iter().flat_map(|member| member.runs.iter().map(move |run| of(member, run))).collect()
    }
}

impl GroupMember {
    fn failed(&self, run: &MemberRun, error: &str) -> FailedRun {
        let point = self.point.iter().filter_map(|(key, value)| Some(format!(", {key} = {}", value.as_ref()?)));
        let run_name = format!("{} over {}{}", run.name, self.trace, point.collect::<String>());
        FailedRun { key: run.key.clone(), run: run_name, error: error.to_owned() }
    }
}

/// Returns the names and values of settings that an experiment depends on: those that were given, but for its trace.
pub(crate) fn settings_of(settings: &ScenarioSettings) -> Vec<(String, Vec<String>)> {
    let given = settings.given().filter(|(key, _)| match key.name {
        name if name == TRACE.name() => false,
        // It decides in how many passes devices are simulated that do not fit into memory together.
        name if name == MEMORY.name() => true,
        _ => key.decides_results(),
    });
    given.map(|(key, values)| (key.name.to_owned(), values.to_vec())).collect()
}

/// Settings of these names and values, over the trace in this file.
fn settings(member: &GroupMember, file: Option<&Path>) -> Result<ScenarioSettings, SweepError> {
    let mut settings = ScenarioSettings::new(SIM);
    for (name, values) in &member.settings {
        settings.flag(name, values.clone())?;
    }
    if let Some(file) = file {
        settings.flag(TRACE.name(), vec![path_text::of(file)])?;
    }
    Ok(settings)
}

/// Holds the results and errors of an experiment's runs, by the runs' numbers.
pub(crate) struct EndedRuns {
    pub(crate) found: Vec<(usize, ReportRun)>,
    pub(crate) failed: Vec<(usize, SweepError)>,
}

impl GroupMember {
    /// Carries them out on one thread. Devices share `memory` bytes, or as many as the scenario says; one that takes more
    /// may have as much as the scenario says.
    ///
    /// # Errors
    /// If they are other runs than where they were planned, or it was told to stop.
    pub(crate) fn carry_out(
        &self,
        file: Option<&Path>,
        memory: Option<u64>,
        counting: TraceCounting,
        stop: &StopSignal,
    ) -> Result<EndedRuns, SweepError> {
        let settings = settings(self, file)?;
        let prepared = PreparedExperiment::new(&settings, self.of, &self.trace)?;
        let keys = prepared.keys();
        // The keys are computed anew here: a difference means that this program reads the settings
        // otherwise.
        if let Some(run) = self.runs.iter().find(|run| keys.get(run.number) != Some(&run.key)) {
            let what = format!("{} over {} is another run here than where it was planned", run.name, self.trace);
            return Err(SweepError::new(what));
        }
        let all = MEMORY.get(&settings)?;
        // Lanes are parallel already, so each group has one thread.
        let resources = RunResources { threads: 1, memory_bytes: memory.unwrap_or(all).min(all), stop: Some(stop) };
        let mut wanted: Vec<usize> = self.runs.iter().map(|run| run.number).collect();
        let mut found: Vec<(usize, ReportRun)> = Vec::new();
        let mut failed: Vec<(usize, SweepError)> = Vec::new();
        let attempt =
            |wanted: &[usize], found: &mut Vec<_>| match prepared.run(wanted, resources, counting, stop, found) {
                // The lane's share of memory is too small for this run, but the scenario grants enough.
                Err(FailedPreparation { needed: Some(needed), .. }) if needed <= all => {
                    prepared.run(wanted, RunResources { memory_bytes: all, ..resources }, counting, stop, found)
                }
                done => done,
            };
        if let Err(FailedPreparation { error, .. }) = attempt(&wanted, &mut found) {
            if stop.is_now() {
                return Err(error);
            }
            wanted.retain(|run| found.iter().all(|(number, _)| number != run));
            // Which of them is it?
            for run in wanted.clone() {
                // An error of the trace fails every run, so trying them one by one would only repeat it.
                let alone = wanted.len() == 1 || error.of_trace;
                let wrong =
                    if alone { Err(error.clone()) } else { attempt(&[run], &mut found).map_err(|wrong| wrong.error) };
                if stop.is_now() {
                    return Err(error);
                }
                failed.extend(wrong.err().map(|error| (run, error)));
            }
        }
        Ok(EndedRuns { found, failed })
    }
}

/// Carries out a group over the trace in this file, if it is over one, on one thread. Devices share `memory` bytes, or as
/// many as the scenario says; one that takes more may have as much as the scenario says.
///
/// # Errors
/// If it is for another program or another trace, or was told to stop; what is wrong with single runs is in the outcome.
pub fn run(
    group: &SweepGroup,
    file: Option<&Path>,
    memory: Option<u64>,
    stop: &StopSignal,
) -> Result<GroupOutcome, SweepError> {
    let file = group.checked(file)?;
    let mut flat = FlatRuns::default();
    let mut outcome = GroupOutcome::default();
    for member in &group.members {
        let EndedRuns { found, failed } = member.carry_out(file.as_deref(), memory, TraceCounting::Yes, stop)?;
        for run in &member.runs {
            if let Some((_, error)) = failed.iter().find(|(number, _)| *number == run.number) {
                outcome.failed.push(member.failed(run, &error.to_string()));
            } else if let Some((_, result)) = found.iter().find(|(number, _)| *number == run.number) {
                let text = |text: &String| TableCell::Text(text.clone());
                // Grid values are columns of their own, beside the settings of each result, so that tables
                // can be joined by them.
                let mut before = vec![("key", text(&run.key)), ("trace", text(&member.trace))];
                let point = member.point.iter().map(|(key, value)| (format!("grid.{key}"), value));
                let point: Vec<_> = point.collect();
                before.extend(
                    point.iter().map(|(key, value)| (key.as_str(), value.as_ref().map_or(TableCell::Null, text))),
                );
                flat.add(&before, result);
            }
        }
    }
    outcome.columns = flat.columns();
    Ok(outcome)
}
