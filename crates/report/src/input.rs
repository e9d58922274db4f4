//! Results from a file: read, and checked against what `destage schema` tells.

use destage_sim::array::ArrayResult;
use destage_sim::buffer::RunResult;
use destage_sim::measure::{FieldDoc, SCHEMA};
use serde_json::{Map, Value};

use crate::{ReportError, ReportRun};

/// Reads the results that `destage sim --json` wrote; `file` names them in errors.
///
/// # Errors
/// Fails where they are no JSON, no list of runs, of another version, or lack a key or have something of
/// another kind there.
pub fn read(file: &str, text: &[u8]) -> Result<Vec<ReportRun>, ReportError> {
    let syntax = |error: serde_json::Error| ReportError::Syntax { file: file.to_owned(), why: error.to_string() };
    let document = |what| ReportError::Document { file: file.to_owned(), what };
    let value: Value = serde_json::from_slice(text).map_err(syntax)?;
    let Value::Array(results) = value else {
        return Err(document("this is not a list of runs"));
    };
    if results.is_empty() {
        return Err(document("this list of runs is empty"));
    }
    let (buffers, arrays) = (RunResult::fields(), ArrayResult::fields());
    let mut runs = Vec::with_capacity(results.len());
    for (i, result) in results.into_iter().enumerate() {
        let wrong = |(key, what)| ReportError::Run { file: file.to_owned(), run: i + 1, key, what };
        // The version comes first: with another one every field may be missing.
        check_version(&result).map_err(wrong)?;
        let is_array = result.get("array").is_some();
        check("", &result, if is_array { &arrays } else { &buffers }).map_err(wrong)?;
        runs.push(ReportRun { result, is_array });
    }
    Ok(runs)
}

type InputFault = (String, String);

fn check_version(result: &Value) -> Result<(), InputFault> {
    let what = match result.get("schema") {
        Some(version) if version.as_u64() == Some(SCHEMA.into()) => return Ok(()),
        Some(version) => {
            let by =
                result.get("destage").and_then(Value::as_str).map_or(String::new(), |by| format!(" (destage {by})"));
            format!("is {}{by}, and this destage reads {SCHEMA}", shown(version))
        }
        None => format!("is missing, and this destage reads {SCHEMA}"),
    };
    Err((
        "schema".to_owned(),
        format!("{what}; simulate again with this destage, or report with the one that simulated"),
    ))
}

/// A value in a message.
fn shown(value: &Value) -> String {
    // The file may be anybody's: what is shown of it is short and has no control characters.
    let text: String = value.to_string().chars().take(40).collect();
    text.escape_debug().to_string()
}

/// Checks that a structure has every field, each of its type. Null stands for an absent value.
fn check(prefix: &str, value: &Value, fields: &[FieldDoc]) -> Result<(), InputFault> {
    let Value::Object(object) = value else {
        return Err((
            prefix.trim_end_matches('.').to_owned(),
            "is not an object with the fields of a result".to_owned(),
        ));
    };
    for field in fields {
        let key = || format!("{prefix}{}", field.name);
        let Some(value) = object.get(field.name) else {
            return Err((key(), "is missing; `destage schema` tells what it holds".to_owned()));
        };
        match value {
            Value::Null => {}
            // The cause of saturation has fields by its kind, which the list of fields does not have.
            _ if field.name == "saturated" && value.is_object() => {}
            Value::Object(_) if !field.fields.is_empty() => check(&format!("{}.", key()), value, field.fields)?,
            Value::Array(items) if !field.fields.is_empty() => {
                items.iter().try_for_each(|item| check(&format!("{}.", key()), item, field.fields))?;
            }
            Value::String(_) if field.fields.is_empty() && field.unit == "-" => {}
            Value::Number(_) if field.fields.is_empty() && field.unit != "-" => {}
            Value::Array(items) if field.fields.is_empty() && items.iter().all(Value::is_u64) => {}
            _ => {
                let right = match (field.fields.is_empty(), field.unit) {
                    (false, _) => "fields or a list of them",
                    (true, "-") => "text",
                    (true, _) => "a number",
                };
                return Err((key(), format!("is {}, not {right}", shown(value))));
            }
        }
    }
    required(prefix, object)
}

/// Checks the fields that may not be null, since everything else depends on them.
fn required(prefix: &str, object: &Map<String, Value>) -> Result<(), InputFault> {
    const REQUIRED: &[(&str, &[&str])] = &[
        (
            "",
            &[
                "destage",
                "policy",
                "params",
                "page_bytes",
                "device",
                "start_state",
                "host",
                "settings",
                "findings",
                "input",
                "series",
            ],
        ),
        ("series.", &["start", "width", "bins"]),
        ("input.", &["trace", "format", "trace_requests"]),
        ("params.", &["name", "value"]),
        ("settings.", &["name", "value"]),
        ("findings.", &["kind", "severity", "message"]),
    ];
    let of = REQUIRED.iter().filter(|(of, _)| *of == prefix).flat_map(|(_, names)| names.iter());
    for name in of {
        let missing = match object.get(*name) {
            None | Some(Value::Null) => true,
            Some(value) => match *name {
                "start" | "width" | "page_bytes" | "trace_requests" => !value.is_u64(),
                "params" | "settings" | "findings" | "bins" => !value.is_array(),
                "input" | "series" => !value.is_object(),
                _ => false,
            },
        };
        if missing {
            return Err((format!("{prefix}{name}"), "is not what a run always has here".to_owned()));
        }
    }
    Ok(())
}
