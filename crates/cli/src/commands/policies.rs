//! `destage policies`: what there is, from which paper, with which parameters.

use std::io::Write;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use destage_policy::buffer::{PolicyInfo, policies};
use serde_json::json;

use crate::output;

/// The command.
pub fn command() -> Command {
    Command::new("policies")
        .about("List the policies with paper, unit, parameters and defaults")
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("As JSON"))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if matches.get_flag("json") {
        let all: Vec<_> = policies().iter().map(as_json).collect();
        serde_json::to_writer_pretty(&mut out, &all)?;
        writeln!(out)?;
        return Ok(());
    }
    let mut table = output::table(&["policy", "evicts", "what it is", "paper"], 4);
    for p in policies() {
        table.add_row([p.name, p.unit.word(), p.title, p.paper]);
    }
    output::print(&mut out, &table)?;
    writeln!(out, "\nParameters, given as NAME:KEY=VALUE:KEY=VALUE\n")?;
    let mut table = output::table(&["policy", "parameter", "default", "unit", "values", "what it does"], 6);
    for p in policies() {
        for param in p.params {
            table.add_row([p.name, param.name, param.default, param.unit, param.values, param.help]);
        }
    }
    output::print(&mut out, &table)?;
    Ok(())
}

fn as_json(p: &PolicyInfo) -> serde_json::Value {
    let params: Vec<_> = p
        .params
        .iter()
        .map(|q| json!({"name": q.name, "default": q.default, "unit": q.unit, "values": q.values, "help": q.help}))
        .collect();
    json!({"name": p.name, "title": p.title, "paper": p.paper, "unit": p.unit.word(), "params": params})
}
