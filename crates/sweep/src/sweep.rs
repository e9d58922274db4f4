//! A sweep in the making: which runs are left, and what became of the others.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};

use destage_report::kept::{ResultKey, Sha256Hash, hex};
use destage_scenario::path_text;
use destage_sim::experiment::RunProgress;
use serde::{Deserialize, Serialize};

use crate::best::BestRun;
use crate::group::{FailedRun, GroupMember, GroupOutcome, SweepGroup};
use crate::merge::merged;
use crate::plan::GroupPlan;
use crate::portions::GroupSizes;
use crate::store::{self, RESULT, SweepStore};
use crate::{SweepDescription, SweepError};

/// A sweep, whose rows are in a folder.
#[derive(Debug)]
pub struct ParameterSweep {
    plan: GroupPlan,
    store: SweepStore,
    /// Runs that have no row yet and are in no group: experiment, and which of its runs.
    left: VecDeque<(usize, usize)>,
    /// Distinct runs.
    runs: usize,
    known: usize,
    done: usize,
    failed: Vec<FailedRun>,
    portions: GroupSizes,
    notes: Vec<String>,
}

/// Holds the outcome of a sweep.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SweepSummary {
    /// The rows, in the order of the plan: a file's name as settings have it.
    pub file: String,
    /// Names of the devices of its runs, each once, SSDs by preset and model.
    pub devices: Vec<String>,
    /// Counts the rows. The same run stands at each point of the grid that it is at.
    pub rows: usize,
    /// Different runs of the plan.
    pub runs: usize,
    /// Of these, known from before.
    pub known: usize,
    /// Those that were simulated.
    pub simulated: usize,
    /// Those that have no result.
    pub failed: Vec<FailedRun>,
    /// Runs that do best over each trace.
    pub best: Vec<BestRun>,
}

impl ParameterSweep {
    /// Plans all runs, and looks for those whose rows are in the folder `out`, which is made if it is not there. `fetched`
    /// has the files of traces that are URLs; `progress` is told of passes over traces that planning takes.
    ///
    /// # Errors
    /// Tells what is wrong with the grid, a combination of it, a trace, or the folder. Nothing has been run then.
    pub fn open(
        description: &SweepDescription,
        fetched: &[(String, PathBuf)],
        out: &Path,
        progress: &(dyn Fn(&str, RunProgress) + Sync),
    ) -> Result<Self, SweepError> {
        let plan = GroupPlan::new(description, fetched, progress)?;
        let notes = std::cell::RefCell::new(Vec::new());
        let store = SweepStore::open(out, &|note| notes.borrow_mut().push(note.to_owned()))?;
        let (mut left, mut known, mut seen) = (VecDeque::new(), 0, HashSet::new());
        for (number, member) in plan.members.iter().enumerate() {
            for (of, run) in member.runs.iter().enumerate() {
                if !seen.insert(run.key.as_str()) {
                    continue;
                }
                if store.has(&run.key) {
                    known += 1;
                } else {
                    left.push_back((number, of));
                }
            }
        }
        let runs = seen.len();
        let (failed, portions) = (Vec::new(), GroupSizes::new());
        Ok(Self { plan, store, left, runs, known, done: known, failed, portions, notes: notes.into_inner() })
    }

    /// Returns notes about the folder for the user.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Different runs of the plan.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// Returns the number of distinct runs that were known from before.
    pub fn known(&self) -> usize {
        self.known
    }

    /// Returns the number of runs that are done or have failed, known ones included.
    pub fn done(&self) -> usize {
        self.done
    }

    /// A name that no other sweep into another folder has, for those who run groups of several.
    pub fn name(&self) -> String {
        let mut key = ResultKey::of(&Sha256Hash::default());
        key.part(self.store.out.as_os_str().as_encoded_bytes());
        hex(&key.hash()[..8])
    }

    pub(crate) fn threads(&self) -> usize {
        self.plan.threads
    }

    pub(crate) fn memory(&self) -> u64 {
        self.plan.memory
    }

    /// The next group of runs, over one trace, and the file that this has here; for so many lanes that run groups.
    pub fn next(&mut self, lanes: usize) -> Option<(SweepGroup, Option<PathBuf>)> {
        let most = self.portions.next(self.left.len(), lanes);
        let &(first, _) = self.left.front()?;
        let trace = self.plan.trace_of[first];
        let mut members: Vec<GroupMember> = Vec::new();
        let mut last = None;
        for _ in 0..most {
            let Some(&(number, run)) = self.left.front().filter(|(number, _)| self.plan.trace_of[*number] == trace)
            else {
                break;
            };
            self.left.pop_front();
            let member = &self.plan.members[number];
            if last != Some(number) {
                members.push(GroupMember { runs: Vec::new(), ..member.clone() });
                last = Some(number);
            }
            if let Some(to) = members.last_mut() {
                to.runs.push(member.runs[run].clone());
            }
        }
        let of = &self.plan.traces[trace];
        Some((SweepGroup::new(of.shared.clone(), members), of.file.clone()))
    }

    /// Takes what became of a group, which took so many seconds.
    ///
    /// # Errors
    /// If its rows are none, or cannot be written.
    pub fn take(&mut self, made: FinishedGroup, seconds: f64) -> Result<(), SweepError> {
        if let Some(part) = made.part {
            self.store.add(part)?;
        }
        self.done += made.rows + made.failed.len();
        self.portions.took(made.rows + made.failed.len(), seconds);
        self.failed.extend(made.failed);
        Ok(())
    }

    /// Writes all rows of the plan into one file, in its order.
    ///
    /// # Errors
    /// If rows cannot be read any more, or not be written.
    pub fn finish(mut self) -> Result<SweepSummary, SweepError> {
        let (content, best, rows) = merged(&self.plan, &self.store)?;
        let file = self.store.write(RESULT, &content)?;
        let order: HashMap<&str, usize> =
            self.plan.rows().enumerate().map(|(at, (_, run))| (run.key.as_str(), at)).collect();
        self.failed.sort_by_key(|failed| order.get(failed.key.as_str()).copied());
        Ok(SweepSummary {
            file: path_text::of(file),
            devices: self.plan.devices,
            rows,
            runs: self.runs,
            known: self.known,
            simulated: self.runs - self.known - self.failed.len(),
            failed: self.failed,
            best: best.finish(),
        })
    }
}

/// Holds the outcome of a group, ready to be stored.
#[derive(Clone, Debug, Default)]
pub struct FinishedGroup {
    /// Counts the rows.
    pub rows: usize,
    /// These as a Parquet file, unless there are none.
    pub part: Option<Vec<u8>>,
    /// Runs that have none.
    pub failed: Vec<FailedRun>,
}

impl GroupOutcome {
    /// The same, ready to be kept.
    ///
    /// # Errors
    /// If rows cannot be written as Parquet.
    pub fn made(self) -> Result<FinishedGroup, SweepError> {
        let rows = self.columns.first().map_or(0, |column| column.cells.len());
        let part = if rows > 0 { Some(store::written(self.columns)?) } else { None };
        Ok(FinishedGroup { rows, part, failed: self.failed })
    }
}
