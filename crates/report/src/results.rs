//! Results as `destage sim` writes them, as JSON and as CSV, and what those of both kinds have in common.

use std::io::{Result, Write};

use destage_sim::array::ArrayResult;
use destage_sim::buffer::RunResult;
use destage_sim::measure::{FieldDoc, InputResult, SizesResult, TraceCharacteristics};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A kind of result with documented fields.
pub trait DocumentedResult: Serialize {
    /// Name, unit and meaning of every field, in order.
    fn fields() -> Vec<FieldDoc>;
}

impl DocumentedResult for RunResult {
    fn fields() -> Vec<FieldDoc> {
        Self::fields()
    }
}

impl DocumentedResult for ArrayResult {
    fn fields() -> Vec<FieldDoc> {
        Self::fields()
    }
}

/// Abstracts the results of the two kinds of runs.
pub trait RunKind: Serialize + DeserializeOwned {
    /// Returns the figures of the input.
    fn input(&mut self) -> &mut InputResult;

    /// Returns the amount of work, for rates.
    fn work(&self) -> u64;
}

impl RunKind for RunResult {
    fn input(&mut self) -> &mut InputResult {
        &mut self.context.input
    }

    fn work(&self) -> u64 {
        self.counters.accesses
    }
}

impl RunKind for ArrayResult {
    fn input(&mut self) -> &mut InputResult {
        &mut self.context.input
    }

    fn work(&self) -> u64 {
        self.steps.sum()
    }
}

/// Adds to results what is known of all runs alike: of their trace, and of how sizes of caches were chosen.
pub fn complete<R: RunKind>(
    results: &mut [R],
    characteristics: Option<&TraceCharacteristics>,
    sizes: Option<&SizesResult>,
) {
    for result in results {
        let input = result.input();
        (input.characteristics, input.sizes) = (characteristics.cloned(), sizes.cloned());
    }
}

/// The results as a JSON array with one object per run.
pub fn json<R: DocumentedResult>(out: &mut dyn Write, results: &[R]) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, results)?;
    writeln!(out)?;
    Ok(())
}

/// The scalar fields of the results as CSV: nested fields are named `outer.inner`; lists (`params`
/// apart) are left out, of findings only their kinds are told.
pub fn csv<R: DocumentedResult>(out: &mut dyn Write, results: &[R]) -> Result<()> {
    let mut columns = Vec::new();
    csv_columns(&mut columns, "", &R::fields());
    writeln!(out, "{}", columns.join(","))?;
    for result in results {
        let value = serde_json::to_value(result)?;
        let row: Vec<_> = columns.iter().map(|column| csv_cell(&value, column)).collect();
        writeln!(out, "{}", row.join(","))?;
    }
    Ok(())
}

/// Lists of names and values, or of findings by their kinds, which fit into one cell.
const IN_ONE_CELL: &[&str] = &["params", "settings", "findings"];
/// Fields that are lists of records and have no place in a row.
const LISTS: &[&str] = &["elements", "bins", "claims", "devices", "failures", "distribution", "wear", "volumes"];

/// Is true if a field is a list of records, which have no place in a row.
pub(crate) fn is_list(field: &FieldDoc) -> bool {
    LISTS.contains(&field.name) || IN_ONE_CELL.contains(&field.name)
}

fn csv_columns(columns: &mut Vec<String>, prefix: &str, fields: &[FieldDoc]) {
    for field in fields {
        let full = format!("{prefix}{}", field.name);
        if IN_ONE_CELL.contains(&field.name) || field.fields.is_empty() {
            columns.push(full);
        } else if !LISTS.contains(&field.name) {
            csv_columns(columns, &format!("{full}."), field.fields);
        }
    }
}

fn csv_cell(result: &Value, column: &str) -> String {
    let value = column.split('.').try_fold(result, |value, part| value.get(part));
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => quote(text),
        Some(Value::Array(numbers)) if numbers.iter().all(Value::is_number) => {
            numbers.iter().map(Value::to_string).collect::<Vec<_>>().join(" ")
        }
        Some(Value::Array(findings)) if findings.iter().all(|finding| finding.get("kind").is_some()) => {
            let kinds = findings.iter().filter_map(|finding| finding["kind"].as_str());
            kinds.collect::<Vec<_>>().join(" ")
        }
        Some(Value::Array(params)) => {
            let pairs = params.iter().filter_map(|p| Some(format!("{}={}", p["name"].as_str()?, p["value"].as_str()?)));
            quote(&pairs.collect::<Vec<_>>().join(":"))
        }
        // The only object that is a single field: why a run is saturated.
        Some(Value::Object(object)) => quote(object.get("cause").and_then(Value::as_str).unwrap_or_default()),
        Some(scalar) => scalar.to_string(),
    }
}

/// Quotes a CSV cell if it needs it.
pub fn quote(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
