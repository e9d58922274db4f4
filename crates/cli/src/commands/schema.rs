//! `destage schema`: name, unit and meaning of every field of a result.

use std::io::Write;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use comfy_table::Table;
use destage_sim::array::ArrayResult;
use destage_sim::measure::FieldDoc;
use destage_sim::result::RunResult;

use crate::output;

/// The command.
pub fn command() -> Command {
    Command::new("schema")
        .about("Explain every field of `destage sim --json`, with its unit")
        .arg(Arg::new("array").long("array").action(ArgAction::SetTrue).help("Of `destage sim --array`"))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("As JSON"))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let array = matches.get_flag("array");
    let fields = if array { ArrayResult::fields() } else { RunResult::fields() };
    if matches.get_flag("json") {
        serde_json::to_writer_pretty(&mut out, &fields)?;
        writeln!(out)?;
        return Ok(());
    }
    let (call, other) = if array {
        ("sim --array", "of buffers: destage schema")
    } else {
        ("sim", "with --array: destage schema --array")
    };
    writeln!(
        out,
        "`destage {call} --json` prints a list with one object per run. Absent values are null. ({other})\n"
    )?;
    let mut table = output::table(&["field", "unit", "meaning"], 3);
    add_rows(&mut table, "", &fields);
    output::print(&mut out, &table)?;
    Ok(())
}

fn add_rows(table: &mut Table, prefix: &str, fields: &[FieldDoc]) {
    for field in fields {
        let full = format!("{prefix}{}", field.name);
        table.add_row([full.as_str(), field.unit, field.meaning]);
        add_rows(table, &format!("{full}."), field.fields);
    }
}
