//! `destage policies`: what there is, from which paper, with which parameters, and what goes around what.

use std::io::Write;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use destage_policy::buffer::{
    self, Buffer, BufferConfig, Built, LayerInfo, ParamSpec, PolicyInfo, PolicySpec, Visitor, layers, policies,
};
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
        let all: Vec<_> = policies()
            .iter()
            .map(as_json)
            .chain(layers().iter().map(layer_as_json))
            .chain(CONTROLLERS.iter().map(controller_as_json))
            .collect();
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
    if !layers().is_empty() {
        writeln!(out, "\nLayers around them, written before them: LAYER+POLICY\n")?;
        let mut table = output::table(&["layer", "what it is", "paper"], 3);
        for layer in layers() {
            table.add_row([layer.name, layer.title, layer.paper]);
        }
        output::print(&mut out, &table)?;
        writeln!(out, "\nWhat goes around what\n")?;
        let header: Vec<_> = std::iter::once("").chain(layers().iter().map(|layer| layer.name)).collect();
        let mut table = output::table(&header, header.len());
        let mut row = |inside: &str, refusal: &dyn Fn(&LayerInfo) -> Option<String>| {
            let words = layers().iter().map(|layer| if refusal(layer).is_none() { "yes" } else { "-" });
            table.add_row(std::iter::once(inside).chain(words));
        };
        for policy in policies() {
            row(policy.name, &|layer| refusal(layer, policy));
        }
        for inner in layers() {
            row(&format!("{}+", inner.name), &|outer| refusal_of_layers(outer, inner));
        }
        output::print(&mut out, &table)?;
        writeln!(out, "\nWhy not: `destage policies --json` gives the reason of each refusal, as does asking for it.")?;
    }
    writeln!(out, "\nCaches of the host, in front of an array (destage sim --array)\n")?;
    let mut table = output::table(&["policy", "cache", "what it is", "paper"], 4);
    for c in CONTROLLERS {
        table.add_row([c.name, if c.caches { "needs one" } else { "none" }, c.title, c.paper]);
    }
    output::print(&mut out, &table)?;
    writeln!(out, "\nParameters, given as NAME:KEY=VALUE:KEY=VALUE\n")?;
    let mut table = output::table(&["policy", "parameter", "default", "unit", "values", "what it does"], 6);
    let buffers = policies().iter().map(|p| (p.name, p.params)).chain(layers().iter().map(|l| (l.name, l.params)));
    for (name, params) in buffers.chain(CONTROLLERS.iter().map(|c| (c.name, c.params))) {
        for param in params {
            table.add_row([name, param.name, param.default, param.unit, param.values, param.help]);
        }
    }
    output::print(&mut out, &table)?;
    Ok(())
}

/// Takes a policy that could be built.
struct Buildable;

impl Visitor for Buildable {
    type Out = ();
    fn visit<B: Buffer + Send + 'static>(self, _buffer: B, _built: Built) {}
}

/// Builds the policy of this name with its defaults; why it cannot be built, if so.
fn refused(name: String) -> Option<String> {
    // Room enough for whatever a policy asks for.
    let config = BufferConfig { capacity_pages: 1 << 12, pages_per_block: 64, units: 4 };
    let built = buffer::build(&PolicySpec { name, given: Vec::new() }, config, Buildable);
    built.err().map(|error| error.to_string())
}

/// Why the layer cannot be put around the policy.
fn refusal(layer: &LayerInfo, policy: &PolicyInfo) -> Option<String> {
    refused(format!("{}+{}", layer.name, policy.name))
}

/// Why the layer cannot be put around another one, whatever policy is inside that: of the reasons, the one that is left
/// once the policy suits both.
fn refusal_of_layers(outer: &LayerInfo, inner: &LayerInfo) -> Option<String> {
    let suits = |policy: &&PolicyInfo| refusal(outer, policy).is_none() && refusal(inner, policy).is_none();
    let policy = policies().iter().find(suits).or_else(|| policies().iter().find(|p| refusal(inner, p).is_none()))?;
    refused(format!("{}+{}+{}", outer.name, inner.name, policy.name))
}

fn layer_as_json(layer: &LayerInfo) -> serde_json::Value {
    let params = params(layer.params);
    let around: Vec<_> = policies().iter().filter(|p| refusal(layer, p).is_none()).map(|p| p.name).collect();
    let refused = policies().iter().filter_map(|p| Some((p.name.to_owned(), json!(refusal(layer, p)?))));
    let refused: serde_json::Map<_, _> = refused.collect();
    json!({"name": layer.name, "title": layer.title, "paper": layer.paper, "place": "layer", "around": around, "refused": refused, "params": params})
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
