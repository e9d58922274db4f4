//! The commands that simulate a group's runs again. They are put together from what the results
//! say, so that they are the same whether the report was written by `destage sim` or by
//! `destage report`.

use destage_scenario::sim::SIM;
use destage_trace::FormatSpec;

use crate::ReportRun;
use crate::group::{RunGroup, circumstances, exact_bytes, scheduler};

/// A call of destage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DestageCall {
    /// Lists the arguments.
    pub(crate) arguments: Vec<String>,
    /// Says which parts of the command the results do not tell.
    pub(crate) caveat: Option<String>,
}

impl DestageCall {
    /// As a shell takes it.
    pub(crate) fn line(&self) -> String {
        let arguments = self.arguments.iter().map(|argument| quoted(argument));
        std::iter::once("destage".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
    }
}

impl ReportRun {
    /// The call that simulates it again, as a shell takes it.
    pub fn call(&self) -> String {
        command(&[self]).line()
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Keys and values.
type CallSettings = Vec<(String, String)>;

/// One command for all runs of a group that differ in no more than policy, cache and order of
/// service.
pub(crate) fn commands(group: &RunGroup, runs: &[ReportRun]) -> Vec<DestageCall> {
    let mut sets: Vec<(CallSettings, Vec<&ReportRun>)> = Vec::new();
    for point in &group.points {
        let run = &runs[point.run];
        // Over disks only the runs with a cache tell of the cache device, and what it holds at the
        // start.
        let tells = |(key, _): &(String, String)| !(run.is_array && (key == "cache-device" || key == "start"));
        let key: Vec<_> = circumstances(run).into_iter().filter(tells).collect();
        match sets.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(run),
            None => sets.push((key, vec![run])),
        }
    }
    sets.iter().map(|(_, members)| command(members)).collect()
}

/// Every value once, in order of appearance.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.fold(Vec::new(), |mut all, value| {
        if !all.contains(&value) {
            all.push(value);
        }
        all
    })
}

fn command(runs: &[&ReportRun]) -> DestageCall {
    let mut arguments = vec!["sim".to_owned()];
    let mut give = |key: &str, value: &str| arguments.push(format!("--{key}={value}"));
    let Some(first) = runs.first() else { return DestageCall { arguments, caveat: None } };
    let (trace, format) = (first.text("input.trace"), first.text("input.format"));
    let mut caveat = None;
    if format == "workload" {
        give("workload", trace);
    } else {
        give("trace", trace);
        if format.parse::<FormatSpec>().is_ok() {
            give("format", format);
        } else {
            caveat = Some(format!("Give also --format with what describes the trace's columns ({format})."));
        }
    }
    give("policy", &distinct(runs.iter().map(|run| run.policy())).join(","));
    let caches = distinct(runs.iter().filter_map(|run| run.cache()));
    if !caches.is_empty() {
        give("cache", &caches.into_iter().map(exact_bytes).collect::<Vec<_>>().join(","));
    }
    let schedulers = distinct(runs.iter().filter_map(|run| scheduler(run)).map(|(_, name)| name));
    if !schedulers.is_empty() {
        give("scheduler", &schedulers.join(","));
    }
    for (key, value) in distinct(runs.iter().flat_map(|run| circumstances(run))) {
        let default = SIM.iter().find(|known| known.name == key).map_or("", |known| known.default);
        if value != default {
            give(&key, &value);
        }
    }
    DestageCall { arguments, caveat }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_every_word_as_it_is() {
        assert_eq!(quoted("--trace=a/b.spc"), "--trace=a/b.spc");
        assert_eq!(quoted("--trace=it's $(rm) \"x\""), r#"'--trace=it'\''s $(rm) "x"'"#);
        assert_eq!(quoted(""), "''");
    }
}
