//! `destage policies`: what there is, from which paper, with which parameters.

use std::io::Write;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use destage_policy::buffer::{ParamSpec, PolicyInfo, policies};
use destage_sim::array::{CONTROLLERS, ControllerInfo};
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
        let all: Vec<_> = policies().iter().map(as_json).chain(CONTROLLERS.iter().map(controller_as_json)).collect();
        serde_json::to_writer_pretty(&mut out, &all)?;
        writeln!(out)?;
        return Ok(());
    }
    writeln!(out, "Buffers inside an SSD\n")?;
    let mut table = output::table(&["policy", "evicts", "what it is", "paper"], 4);
    for p in policies() {
        table.add_row([p.name, p.unit.word(), p.title, p.paper]);
    }
    output::print(&mut out, &table)?;
    writeln!(out, "\nCaches of the host, in front of an array (destage sim --array)\n")?;
    let mut table = output::table(&["policy", "cache", "what it is", "paper"], 4);
    for c in CONTROLLERS {
        table.add_row([c.name, if c.caches { "needs one" } else { "none" }, c.title, c.paper]);
    }
    output::print(&mut out, &table)?;
    writeln!(out, "\nParameters, given as NAME:KEY=VALUE:KEY=VALUE\n")?;
    let mut table = output::table(&["policy", "parameter", "default", "unit", "values", "what it does"], 6);
    let buffers = policies().iter().map(|p| (p.name, p.params));
    for (name, params) in buffers.chain(CONTROLLERS.iter().map(|c| (c.name, c.params))) {
        for param in params {
            table.add_row([name, param.name, param.default, param.unit, param.values, param.help]);
        }
    }
    output::print(&mut out, &table)?;
    Ok(())
}

fn as_json(p: &PolicyInfo) -> serde_json::Value {
    let unit = p.unit.word();
    let params = params(p.params);
    json!({"name": p.name, "title": p.title, "paper": p.paper, "place": "ssd", "unit": unit, "params": params})
}

fn controller_as_json(c: &ControllerInfo) -> serde_json::Value {
    let params = params(c.params);
    json!({"name": c.name, "title": c.title, "paper": c.paper, "place": "host", "caches": c.caches, "params": params})
}

fn params(params: &[ParamSpec]) -> Vec<serde_json::Value> {
    params
        .iter()
        .map(|q| json!({"name": q.name, "default": q.default, "unit": q.unit, "values": q.values, "help": q.help}))
        .collect()
}
