//! Describes what a paper leaves open, as data: each with the values that it may have.

use destage_scenario::ScenarioError;
use serde::Deserialize;

use super::PaperFile;
use super::checks::RESERVED;

/// Limits the open assumptions of a paper.
pub const MOST_ASSUMPTIONS: usize = 12;

/// Describes something that a paper leaves open.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenAssumption {
    /// Names the assumption, as it is shown.
    pub name: String,
    /// Names what the assumption decides: a key of `destage sim`, `workload KEY` for a key of synthetic workloads, or `policy
    /// NAME` for what runs in that policy's place.
    pub key: String,
    /// Lists the values that are tried, that of the paper's file first.
    pub values: Vec<toml::Value>,
    /// Lists the workloads that it is about, by name; none means all.
    #[serde(default)]
    pub on: Vec<String>,
}

/// Selects what an assumption decides.
enum AssumptionTarget<'a> {
    Setting(&'a str),
    Workload(&'a str),
    Policy(&'a str),
}

impl OpenAssumption {
    fn target(&self) -> AssumptionTarget<'_> {
        match self.key.split_once(' ') {
            Some(("workload", key)) => AssumptionTarget::Workload(key),
            Some(("policy", name)) => AssumptionTarget::Policy(name),
            _ => AssumptionTarget::Setting(&self.key),
        }
    }

    /// Returns a value as it is shown.
    pub fn shown(&self, value: usize) -> String {
        match &self.values[value] {
            toml::Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// Changes a paper to one that has this value, which is not the first: that is what its file has.
    pub(crate) fn apply(&self, value: usize, paper: &mut PaperFile) {
        let value = &self.values[value];
        let is_about = |name: &String| self.on.is_empty() || self.on.contains(name);
        match self.target() {
            AssumptionTarget::Setting(key) if self.on.is_empty() => {
                paper.settings.insert(key.to_owned(), value.clone());
            }
            AssumptionTarget::Setting(key) => {
                for workload in paper.workload.iter_mut().filter(|workload| is_about(&workload.name)) {
                    workload.settings.insert(key.to_owned(), value.clone());
                }
            }
            AssumptionTarget::Workload(key) => {
                let made = paper.workload.iter_mut().filter(|workload| workload.synthetic.is_some());
                for workload in made.filter(|workload| is_about(&workload.name)) {
                    workload.set.insert(key.to_owned(), value.clone());
                }
            }
            AssumptionTarget::Policy(name) => {
                let text = value.as_str().unwrap_or_default().to_owned();
                paper.run_as.insert(name.to_owned(), text);
            }
        }
    }
}

/// Checks a paper's assumptions: few, each with several values, about something that there is.
pub(crate) fn check(paper: &PaperFile) -> Result<(), ScenarioError> {
    if paper.assumption.len() > MOST_ASSUMPTIONS {
        let count = paper.assumption.len();
        return Err(ScenarioError::new(format_args!("{count} assumptions: expected {MOST_ASSUMPTIONS} at most")));
    }
    for (i, assumption) in paper.assumption.iter().enumerate() {
        let wrong = |what: &str| Err(ScenarioError::new(what).at(format_args!("assumption \"{}\"", assumption.name)));
        if paper.assumption[..i].iter().any(|other| other.name == assumption.name) {
            return wrong("is given twice");
        }
        if assumption.values.len() < 2 {
            return wrong("values: expected two or more, that of the paper's file first");
        }
        if let Some(name) =
            assumption.on.iter().find(|name| !paper.workload.iter().any(|workload| workload.name == **name))
        {
            return wrong(&format!("on: there is no workload \"{name}\""));
        }
        match assumption.target() {
            AssumptionTarget::Policy(_) if !assumption.on.is_empty() => {
                return wrong("on: a policy is the same on every workload");
            }
            AssumptionTarget::Setting(key) if RESERVED.contains(&key) => {
                return wrong(&format!("key: '{key}' follows from the claims and workloads"));
            }
            AssumptionTarget::Policy(name) if !paper.policies.iter().any(|policy| policy == name) => {
                return wrong(&format!("key: \"{name}\" is not among the policies"));
            }
            AssumptionTarget::Policy(_) if !assumption.values.iter().all(toml::Value::is_str) => {
                return wrong("values: expected names of policies");
            }
            _ => {}
        }
    }
    Ok(())
}
