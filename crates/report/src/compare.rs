//! Runs of two results side by side: those that have policy, cache size and setting in common, with
//! the figures of both and how far the second is from the first.
//!
//! What tells runs of one policy and size apart in one of the results has to be the same in both;
//! whatever else differs between the two is what is compared, and said once.

use std::collections::BTreeMap;

use destage_scenario::quantity::show_bytes;
use serde_json::{Value, json};

use crate::ReportRun;
use crate::figures::{
    DEVICES_ERASES, ERASES, HIT_RATIO, MEAN, P99_9, PROGRAMS_PER_PAGE, ResultFigure, WRITE_AMPLIFICATION,
};
use crate::group::{circumstances, scheduler};

/// Lists the compared figures of buffers inside an SSD, by their names in JSON.
const OF_BUFFERS: [(&str, ResultFigure); 5] = [
    ("mean_response", MEAN),
    ("p99_9_response", P99_9),
    ("hit_ratio", HIT_RATIO),
    ("write_amplification", WRITE_AMPLIFICATION),
    ("erases", ERASES),
];
/// The same of caches over an array, whose devices are several.
const OF_ARRAYS: [(&str, ResultFigure); 5] = [
    ("mean_response", MEAN),
    ("p99_9_response", P99_9),
    ("hit_ratio", HIT_RATIO),
    ("write_amplification", PROGRAMS_PER_PAGE),
    ("erases", DEVICES_ERASES),
];

/// Keys and values that tell a run.
type RunKeys = Vec<(String, String)>;

/// A figure of both results.
#[derive(Clone, Copy, Debug)]
pub struct ComparedFigure {
    /// Names the figure in JSON.
    pub name: &'static str,
    /// Describes the figure.
    pub figure: ResultFigure,
    /// Holds the values in the first and in the second result; none where a run has no such figure, as
    /// response times of a saturated one.
    pub values: [Option<f64>; 2],
}

impl ComparedFigure {
    /// Returns the difference of the second value from the first, as a part of the first.
    pub fn change(&self) -> Option<f64> {
        let [Some(first), Some(second)] = self.values else { return None };
        // The change is relative to the first, which is what the second is compared with.
        let difference = second - first;
        // Nothing that stays nothing has not changed; what was nothing has changed by no part of it.
        if difference == 0.0 { Some(0.0) } else { Some(difference / first).filter(|change| change.is_finite()) }
    }
}

/// Names a run, alike in both results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedName {
    /// The policy, with the parameters that are not at their defaults.
    pub policy: String,
    /// The size of its cache, if it has one.
    pub cache_bytes: Option<u64>,
    /// Holds the settings that tell the run from others of the same result.
    pub setting: RunKeys,
}

impl ComparedName {
    /// Policy and setting in words.
    pub fn label(&self) -> String {
        let setting: Vec<_> = self.setting.iter().map(|(key, value)| format!("{key} {value}")).collect();
        if setting.is_empty() { self.policy.clone() } else { format!("{} ({})", self.policy, setting.join(", ")) }
    }

    /// The size of the cache in words.
    pub fn size(&self) -> String {
        self.cache_bytes.map_or_else(|| "-".to_owned(), show_bytes)
    }

    fn as_json(&self) -> Value {
        let setting: serde_json::Map<_, _> =
            self.setting.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        json!({"policy": self.policy, "cache_bytes": self.cache_bytes, "setting": setting})
    }
}

/// A run that is in both results.
#[derive(Clone, Debug)]
pub struct ComparedRun {
    /// Names the run.
    pub name: ComparedName,
    /// Lists the compared figures.
    pub figures: Vec<ComparedFigure>,
    /// In which results its response times are no result.
    pub saturated: [bool; 2],
}

/// Two results side by side.
#[derive(Clone, Debug)]
pub struct RunComparison {
    /// Lists the other differences of runs that are in both results: key, and value of each result.
    pub differences: Vec<(String, [String; 2])>,
    /// Runs that are in both, in the order of the first.
    pub runs: Vec<ComparedRun>,
    /// Runs that are in one of them alone.
    pub alone: [Vec<ComparedName>; 2],
}

/// All that can tell a run.
fn told(run: &ReportRun) -> BTreeMap<String, String> {
    let mut all: BTreeMap<_, _> = circumstances(run).into_iter().chain(scheduler(run)).collect();
    all.insert("trace".to_owned(), run.text("input.trace").to_owned());
    all.insert("destage".to_owned(), run.text("destage").to_owned());
    all
}

/// The values of a key in some runs, each once; `-` where none has one.
fn values<'a>(runs: impl Iterator<Item = &'a BTreeMap<String, String>>, key: &str) -> String {
    let mut values: Vec<&str> = Vec::new();
    for value in runs.filter_map(|run| run.get(key)) {
        if !values.contains(&value.as_str()) {
            values.push(value);
        }
    }
    if values.is_empty() { "-".to_owned() } else { values.join(", ") }
}

impl RunComparison {
    /// Puts the runs of two results side by side.
    pub fn new(results: [&[ReportRun]; 2]) -> Self {
        let told = results.map(|runs| runs.iter().map(told).collect::<Vec<_>>());
        let mut keys: Vec<&String> = told.iter().flatten().flat_map(BTreeMap::keys).collect();
        keys.sort_unstable();
        keys.dedup();
        let named = results.map(|runs| runs.iter().map(|run| (run.policy(), run.cache())).collect::<Vec<_>>());
        // What runs of one policy and size differ in.
        let tells = |key: &&&String| {
            named.iter().zip(&told).any(|(named, told)| {
                let differs = |i: usize, j: usize| named[i] == named[j] && told[i].get(**key) != told[j].get(**key);
                (0..named.len()).any(|i| (0..i).any(|j| differs(i, j)))
            })
        };
        let (telling, others): (Vec<&String>, Vec<&String>) = keys.iter().partition(|key| tells(key));
        let name = |side: usize, i: usize| {
            let (policy, cache_bytes) = named[side][i].clone();
            let setting = telling.iter().filter_map(|&key| Some((key.clone(), told[side][i].get(key)?.clone())));
            ComparedName { policy, cache_bytes, setting: setting.collect() }
        };
        let mut left: Vec<usize> = (0..results[1].len()).collect();
        let (mut pairs, mut first_alone) = (Vec::new(), Vec::new());
        for (i, run) in results[0].iter().enumerate() {
            // Of several that nothing tells apart the first goes with the first.
            let same = |&j: &usize| name(1, j) == name(0, i) && results[1][j].is_array == run.is_array;
            match left.iter().position(same) {
                Some(at) => pairs.push((i, left.remove(at))),
                None => first_alone.push(name(0, i)),
            }
        }
        // Of the runs that are compared, if any are.
        let of = |key: &str| match pairs[..] {
            [] => told.each_ref().map(|told| values(told.iter(), key)),
            _ => [
                values(pairs.iter().map(|&(i, _)| &told[0][i]), key),
                values(pairs.iter().map(|&(_, j)| &told[1][j]), key),
            ],
        };
        let differences = others.into_iter().map(|key| (key.clone(), of(key)));
        // What all runs agree in does not explain a change.
        let differences = differences.filter(|(_, [first, second])| first != second).collect();
        let runs = pairs.iter().map(|&(i, j)| {
            let both = [&results[0][i], &results[1][j]];
            ComparedRun { name: name(0, i), figures: figures(both), saturated: both.map(ReportRun::is_saturated) }
        });
        let second_alone = left.iter().map(|&j| name(1, j)).collect();
        Self { differences, runs: runs.collect(), alone: [first_alone, second_alone] }
    }

    /// The same for programs: changes are parts of the first value, null where there is none.
    pub fn as_json(&self) -> Value {
        let differences: serde_json::Map<_, _> =
            self.differences.iter().map(|(key, values)| (key.clone(), json!(values))).collect();
        let runs = self.runs.iter().map(|run| {
            let mut value = run.name.as_json();
            value["saturated"] = json!({"first": run.saturated[0], "second": run.saturated[1]});
            for figure in &run.figures {
                value[figure.name] =
                    json!({"first": figure.values[0], "second": figure.values[1], "change": figure.change()});
            }
            value
        });
        let alone = |names: &[ComparedName]| names.iter().map(ComparedName::as_json).collect::<Vec<_>>();
        json!({
            "differences": differences,
            "runs": runs.collect::<Vec<_>>(),
            "only_first": alone(&self.alone[0]),
            "only_second": alone(&self.alone[1]),
        })
    }
}

fn figures(runs: [&ReportRun; 2]) -> Vec<ComparedFigure> {
    let all = if runs[0].is_array { OF_ARRAYS } else { OF_BUFFERS };
    all.into_iter()
        .map(|(name, figure)| ComparedFigure { name, figure, values: runs.map(|run| figure.of(run)) })
        .collect()
}
