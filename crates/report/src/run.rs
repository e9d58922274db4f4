//! One run's result, and what is asked of it.

use destage_cache::host_cache;
use destage_policy::buffer;
use destage_sim::array::ArrayResult;
use destage_sim::buffer::RunResult;
use serde::Serialize;
use serde_json::Value;

use crate::TableCell;
use crate::size::show_size;

/// One run's result, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportRun {
    /// As it was read.
    pub(crate) result: Value,
    /// Is true for a run of caches over an array.
    pub(crate) is_array: bool,
}

impl ReportRun {
    /// The result of a buffer.
    pub fn of_buffer(result: &RunResult) -> Self {
        Self { result: json(result), is_array: false }
    }

    /// The result of caches over an array.
    pub fn of_array(result: &ArrayResult) -> Self {
        Self { result: json(result), is_array: true }
    }

    /// Builds a run from scalar fields under their flat names; lists are absent.
    pub fn of_cells<'a>(cells: impl Iterator<Item = (&'a str, &'a TableCell)>, is_array: bool) -> Self {
        let mut result = Value::Object(serde_json::Map::new());
        for (name, cell) in cells {
            let value = match cell {
                TableCell::Null => continue,
                TableCell::Integer(number) => Value::from(*number),
                TableCell::Float(number) => Value::from(*number),
                TableCell::Text(text) => Value::from(text.as_str()),
            };
            let mut within = &mut result;
            for key in name.split('.') {
                if !within.is_object() {
                    *within = Value::Object(serde_json::Map::new());
                }
                within = &mut within[key];
            }
            *within = value;
        }
        Self { result, is_array }
    }

    /// The value at `path`, whose keys are parted by points.
    pub(crate) fn at(&self, path: &str) -> Option<&Value> {
        path.split('.').try_fold(&self.result, |value, key| value.get(key)).filter(|value| !value.is_null())
    }

    /// The number there.
    pub fn number(&self, path: &str) -> Option<f64> {
        self.at(path)?.as_f64().filter(|number| number.is_finite())
    }

    /// The text there; empty where there is none.
    pub fn text(&self, path: &str) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// The list there; empty where there is none.
    pub(crate) fn list(&self, path: &str) -> &[Value] {
        self.at(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// The pairs of names and values there.
    pub(crate) fn pairs(&self, path: &str) -> impl Iterator<Item = (&str, &str)> {
        self.list(path).iter().filter_map(|pair| Some((pair.get("name")?.as_str()?, pair.get("value")?.as_str()?)))
    }

    /// Is true if the run is saturated, so that response times are no result.
    pub fn is_saturated(&self) -> bool {
        self.at("saturated").is_some()
    }

    /// Returns the content of the page's first column: the policy with its layers, and the parameters that
    /// are not at their defaults. The text is a policy spec, as the command line takes it.
    pub(crate) fn policy(&self) -> String {
        let name = self.text("policy");
        let mut declared = Vec::new();
        // Parameters that have one value only within a layer are no choice, and no part of a name.
        let mut settled: Vec<(&str, &str)> = Vec::new();
        if self.is_array {
            declared.extend(host_cache(name).map(|info| info.params));
        } else {
            let mut parts = name.rsplit('+');
            declared.extend(parts.next().and_then(|base| buffer::info(base).ok()).map(|info| info.params));
            let layer = |name| buffer::layers().iter().find(|layer| layer.name == name);
            for layer in parts.filter_map(layer) {
                declared.push(layer.params);
                settled.extend(layer.settles);
            }
        }
        let is_default = |(name, value): &(&str, &str)| {
            if settled.contains(&(*name, *value)) {
                return true;
            }
            let spec = declared.iter().copied().flatten().find(|spec| spec.name == *name);
            spec.is_some_and(|spec| spec.default == *value)
        };
        let changed = self.pairs("params").filter(|param| !is_default(param));
        changed.fold(name.to_owned(), |all, (name, value)| format!("{all}:{name}={value}"))
    }

    /// The size of the cache; none without one.
    pub fn cache(&self) -> Option<u64> {
        self.at("cache_bytes")?.as_u64()
    }

    /// The size of the cache in words.
    pub(crate) fn cache_words(&self) -> String {
        self.cache().map_or_else(|| "no cache".to_owned(), show_size)
    }
}

fn json<T: Serialize>(result: &T) -> Value {
    serde_json::to_value(result).expect("results have text for keys")
}
