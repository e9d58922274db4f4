//! Runs that can be compared: those of one kind of device over one trace. Within a group each run
//! has a label, which is its policy and whatever else is not the same for all, and a cache size.

use std::collections::BTreeSet;

use destage_scenario::quantity::show_bytes;

use crate::ReportRun;
use crate::kind::GroupKind;
use crate::objective::RankingObjective;
use crate::size::show_size;

/// Runs that can be compared.
#[derive(Clone, Debug)]
pub(crate) struct RunGroup {
    pub(crate) kind: GroupKind,
    /// Name of the trace or workload.
    pub(crate) trace: String,
    /// Labels in order of appearance.
    pub(crate) labels: Vec<String>,
    /// Cache sizes in ascending order; none first.
    pub(crate) sizes: Vec<Option<u64>>,
    pub(crate) points: Vec<GroupPoint>,
    /// Holds the objective by which the runs are ranked.
    pub(crate) objective: RankingObjective,
}

/// A run's place in a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupPoint {
    /// Index of the run.
    pub(crate) run: usize,
    /// Index of its label.
    pub(crate) label: usize,
    /// Index of its size.
    pub(crate) size: usize,
}

/// Lists what, beside policy and cache size, can tell a run from others, as keys and values of the
/// command line.
pub(crate) fn circumstances(run: &ReportRun) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut give = |key: &str, value: String| {
        if !value.is_empty() && value != "none" {
            all.push((key.to_owned(), value));
        }
    };
    let size = |path: &str| run.at(path).and_then(serde_json::Value::as_u64).map_or(String::new(), exact_bytes);
    give("page", size("page_bytes"));
    give("device", run.text("device").to_owned());
    if run.is_array {
        let members = run.number("array.members").unwrap_or_default();
        give("array", format!("{}:{members}", run.text("array.level")));
        give("layout", run.text("array.layout").to_owned());
        give("chunk", size("array.chunk_bytes"));
        give("parity", run.text("array.parity").to_owned());
        give("regime", run.text("array.regime").to_owned());
        give("cache-device", run.text("cache_device").to_owned());
        give("host", run.text("host").to_owned());
    } else {
        give("pages-per-block", run.number("pages_per_block").map_or(String::new(), |pages| pages.to_string()));
    }
    give("start", run.text("start_state").to_owned());
    for (name, value) in run.pairs("settings") {
        give(name, value.to_owned());
    }
    all
}

/// A size as the command line takes it.
pub(crate) fn exact_bytes(bytes: u64) -> String {
    show_bytes(bytes).replace(' ', "")
}

/// The orders of service, which are chosen from like policies.
pub(crate) fn scheduler(run: &ReportRun) -> Option<(String, String)> {
    run.at("scheduler").and_then(|name| Some(("scheduler".to_owned(), name.as_str()?.to_owned())))
}

/// Puts runs into groups, in order of appearance; without an objective each kind has its own.
pub(crate) fn groups(runs: &[ReportRun], objective: Option<RankingObjective>) -> Vec<RunGroup> {
    let mut members: Vec<(GroupKind, &str, &str, Vec<usize>)> = Vec::new();
    for (i, run) in runs.iter().enumerate() {
        let key = (GroupKind::of(run), run.text("input.trace"), run.text("device"));
        match members.iter_mut().find(|(kind, trace, device, _)| (*kind, *trace, *device) == key) {
            Some((_, _, _, all)) => all.push(i),
            None => members.push((key.0, key.1, key.2, vec![i])),
        }
    }
    let ranked = |kind| objective.unwrap_or(RankingObjective::of_kind(kind));
    members.into_iter().map(|(kind, trace, _, members)| group(kind, ranked(kind), trace, &members, runs)).collect()
}

fn group(kind: GroupKind, objective: RankingObjective, trace: &str, members: &[usize], runs: &[ReportRun]) -> RunGroup {
    let details: Vec<Vec<(String, String)>> = members
        .iter()
        .map(|&i| {
            let mut all = circumstances(&runs[i]);
            all.extend(scheduler(&runs[i]));
            all.push(("destage".to_owned(), runs[i].text("destage").to_owned()));
            all
        })
        .collect();
    let mut differing: Vec<&str> = Vec::new();
    for (key, value) in details.iter().flatten() {
        let other = |(k, v): &(String, String)| k == key && v != value;
        if !differing.contains(&key.as_str()) && details.iter().flatten().any(other) {
            differing.push(key);
        }
    }
    let sizes: BTreeSet<Option<u64>> = members.iter().map(|&i| runs[i].cache()).collect();
    let sizes: Vec<_> = sizes.into_iter().collect();
    let mut group =
        RunGroup { kind, trace: trace.to_owned(), labels: Vec::new(), sizes, points: Vec::new(), objective };
    for (&run, details) in members.iter().zip(&details) {
        let told = details.iter().filter(|(key, _)| differing.contains(&key.as_str()));
        // An order of service is known by its name.
        let tell =
            |(key, value): &(String, String)| if key == "scheduler" { value.clone() } else { format!("{key} {value}") };
        let told: Vec<_> = told.map(tell).collect();
        let mut label = runs[run].policy();
        if !told.is_empty() {
            label = format!("{label} ({})", told.join(", "));
        }
        let size = group.sizes.iter().position(|size| *size == runs[run].cache()).unwrap_or_default();
        // Nothing that is recorded tells them apart, and still the figures differ: another workload
        // of the same name.
        let base = label.clone();
        let mut again = 1;
        while group.points.iter().any(|point| group.labels[point.label] == label && point.size == size) {
            again += 1;
            label = format!("{base} #{again}");
        }
        let known = group.labels.iter().position(|known| *known == label);
        let label = known.unwrap_or_else(|| {
            group.labels.push(label);
            group.labels.len() - 1
        });
        group.points.push(GroupPoint { run, label, size });
    }
    group
}

impl RunGroup {
    /// A point in words: label and size.
    pub(crate) fn name(&self, point: GroupPoint) -> String {
        match self.sizes[point.size] {
            Some(bytes) => format!("{} at {}", self.labels[point.label], show_size(bytes)),
            None => self.labels[point.label].clone(),
        }
    }

    /// The sizes in words.
    pub(crate) fn size_words(&self) -> Vec<String> {
        self.sizes.iter().map(|size| size.map_or_else(|| "no cache".to_owned(), show_size)).collect()
    }
}
