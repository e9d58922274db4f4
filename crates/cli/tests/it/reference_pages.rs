//! Holds the pages of docs/reference to the program: its commands, keys, fields of results, policies and formats of traces.
//! `make reference` writes them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use destage_metrics::{FAMILIES, MetricKind};
use destage_scenario::{AppliesTo, keys};
use serde_json::Value;

use crate::binary::quietly;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference");

/// Names the environment variable that has the pages written instead of compared.
const WRITE: &str = "DESTAGE_WRITE_REFERENCE";

/// Makes a cell of a table of a text.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;")
}

/// Makes a cell that shows a name or value as it is typed, or an empty one.
fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", text.replace('|', "\\|")) }
}

/// Returns the commands that a help text lists.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Returns the name of the key that a line of help begins to describe.
fn key_of(line: &str) -> Option<&'static str> {
    let name = line.trim_start().strip_prefix("--")?.split([' ', '=', '[', '<']).next()?;
    keys::SIM.iter().map(|key| key.name).find(|key| *key == name)
}

/// Leaves out of a help text the options that are keys, which have a page of their own, and returns their names.
fn without_keys(help: &str) -> (String, Vec<&'static str>) {
    let (mut kept, mut left_out) = (String::new(), Vec::new());
    let (mut is_option, mut is_key) = (false, false);
    for line in help.lines() {
        let indent = line.len() - line.trim_start().len();
        if line.is_empty() {
            (is_option, is_key) = (false, false);
        } else if line == "Options:" {
            is_option = true;
        } else if line.starts_with("Devices ") {
            // The heading of keys alone.
            (is_option, is_key) = (true, true);
        } else if is_option && indent <= 6 {
            let key = key_of(line);
            is_key = key.is_some();
            left_out.extend(key);
        }
        if !is_key {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    (kept, left_out)
}

/// Writes the help of a command, and of those below it.
fn describe(page: &mut String, command: &[&str]) {
    let help = quietly(&[command, &["--help"]].concat());
    let (kept, left_out) = without_keys(&help);
    // A few options that have names of keys are the command's own.
    let (shown, left_out) = if left_out.len() > 20 { (kept, left_out) } else { (help.clone(), Vec::new()) };
    writeln!(page, "\n## destage {}\n\n```\n{}\n```", command.join(" "), shown.trim_end()).expect("a text grows");
    if left_out.len() == keys::SIM.len() {
        page.push_str("\nEvery [key](keys.md) is an option of this command, too.\n");
    } else if !left_out.is_empty() {
        let names: Vec<_> = left_out.iter().map(|name| code(name)).collect();
        writeln!(page, "\nThese [keys](keys.md) are options of this command, too: {}.", names.join(", "))
            .expect("a text grows");
    }
    for name in listed(&help) {
        describe(page, &[command, &[name.as_str()]].concat());
    }
}

fn commands() -> String {
    let mut page = "# Commands\n\nThe help of each command, as `destage COMMAND --help` prints it.\n".to_owned();
    for name in listed(&quietly(&["--help"])) {
        describe(&mut page, &[name.as_str()]);
    }
    page
}

/// Says in words which simulations look at a key.
fn applies(to: AppliesTo) -> &'static str {
    match to {
        AppliesTo::All => "all",
        AppliesTo::Buffers => "buffers",
        AppliesTo::TimedBuffers => "buffers over an SSD",
        AppliesTo::Timed => "buffers over an SSD, arrays",
        AppliesTo::Ssd => "simulated SSDs",
        AppliesTo::Analytic => "the analytic device",
        AppliesTo::Array => "arrays",
        AppliesTo::Disk => "arrays of disks",
        AppliesTo::Fixed => "arrays of fixed devices",
        AppliesTo::Deltas => "arrays with deltas",
    }
}

fn settings() -> String {
    let mut page = "# Keys\n\nEvery setting of `destage sim`: a flag `--KEY`, a key of a scenario file, and `--set KEY=VALUE`. A dot \
                    separates a TOML table from its key.\n\n| key | value | default | applies to | meaning |\n|---|---|---|---|---|\n"
        .to_owned();
    for key in keys::SIM {
        let cells =
            [code(key.name), code(key.value), code(key.default), applies(key.applies_to).to_owned(), cell(key.help)];
        writeln!(page, "| {} |", cells.join(" | ")).expect("a text grows");
    }
    page
}

/// Writes a row for each field, however deep.
fn rows(page: &mut String, fields: &Value, above: &str) {
    for field in fields.as_array().into_iter().flatten() {
        let text = |key: &str| field[key].as_str().unwrap_or_default();
        let name = format!("{above}{}", text("name"));
        writeln!(page, "| {} | {} | {} |", code(&name), text("unit"), cell(text("meaning"))).expect("a text grows");
        rows(page, &field["fields"], &format!("{name}."));
    }
}

fn figures() -> String {
    let mut page = "# Figures of results\n\nThe fields of JSON results, with units; `destage schema` prints the same. Fields below a list are those of its \
                    entries.\n"
        .to_owned();
    let kinds: [(&str, &[&str]); 6] = [
        ("destage sim: buffers", &[]),
        ("destage sim --array", &["--array"]),
        ("destage advise", &["--advise"]),
        ("destage trace stat", &["--stat"]),
        ("destage trace stat --locality", &["--locality"]),
        ("destage trace mrc", &["--mrc"]),
    ];
    for (heading, options) in kinds {
        writeln!(page, "\n## {heading}\n\n| field | unit | meaning |\n|---|---|---|").expect("a text grows");
        let fields = quietly(&[&["schema", "--json"], options].concat());
        rows(&mut page, &serde_json::from_str(&fields).expect("a list of fields"), "");
    }
    page
}

fn policies() -> String {
    let text = quietly(&["policies", "--color", "never"]);
    format!(
        "# Policies\n\nWhat `destage policies` prints. `destage policies NAME` explains one of them.\n\n```\n{}\n```\n",
        text.trim_end()
    )
}

fn formats() -> String {
    let text = quietly(&["trace", "formats", "--color", "never"]);
    format!(
        "# Trace formats\n\nWhat `destage trace formats` prints. [Traces](../traces.md) explains the fields of each.\n\n```\n{}\n```\n",
        text.trim_end()
    )
}

/// The metrics of a served array.
fn metrics() -> String {
    let mut page = String::from(
        "# Metrics\n\nWhat `destage serve` answers at `/metrics` where `[serve]` has `metrics` \
         ([how to monitor](../how-to/monitor.md)), by name. A counter is since the service began. Written by `make reference`.\n\n\
         | metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n",
    );
    for family in FAMILIES {
        let (kind, suffix) = match family.kind {
            MetricKind::Counter => ("counter", "_total"),
            MetricKind::Gauge => ("gauge", ""),
            MetricKind::Histogram => ("histogram", ""),
            MetricKind::Info => ("info", "_info"),
        };
        let labels: Vec<_> = family.labels.iter().map(|label| code(label)).collect();
        let (unit, labels) = (family.unit.unwrap_or(""), labels.join(", "));
        let _ = writeln!(page, "| `{}{suffix}` | {kind} | {unit} | {labels} | {} |", family.name, cell(family.help));
    }
    page
}

#[test]
fn reference_pages_say_what_the_program_says() {
    let pages = [
        ("commands.md", commands()),
        ("keys.md", settings()),
        ("figures.md", figures()),
        ("policies.md", policies()),
        ("formats.md", formats()),
        ("metrics.md", metrics()),
    ];
    let mut stale = Vec::new();
    for (name, page) in pages {
        let path = Path::new(FOLDER).join(name);
        if std::env::var_os(WRITE).is_some() {
            fs::write(&path, &page).expect("a page");
        } else if fs::read_to_string(&path).unwrap_or_default() != page {
            stale.push(name);
        }
    }
    assert!(stale.is_empty(), "docs/reference is out of date: {}; run make reference", stale.join(", "));
}
