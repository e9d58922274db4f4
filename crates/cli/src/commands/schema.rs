//! `destage schema`: name, unit and meaning of every field of a result.

use std::io::Write;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use comfy_table::Table;
use destage_sim::measure::FieldDoc;
use destage_sim::result::RunResult;

use crate::output;

/// The command.
pub fn command() -> Command {
    Command::new("schema")
        .about("Explain every field of `destage sim --json`, with its unit")
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("As JSON"))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if matches.get_flag("json") {
        serde_json::to_writer_pretty(&mut out, &RunResult::fields())?;
        writeln!(out)?;
        return Ok(());
    }
    writeln!(out, "`destage sim --json` prints an array with one object per run. Absent values are null.\n")?;
    let mut table = output::table(&["field", "unit", "meaning"], 3);
    add_rows(&mut table, "", &RunResult::fields());
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
