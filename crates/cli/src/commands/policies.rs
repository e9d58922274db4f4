//! `destage policies`: what there is, from which paper, with which parameters, and what goes around
//! what; of one of them its page.

mod page;

use std::io::Write;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use destage_cache::{self as cache, HostCacheInfo, host_cache_layers, host_caches};
use destage_plan::{ParamSpec, PolicySpec};
use destage_policy::buffer::{
    self, BufferConfig, BufferPolicy, BuiltPolicy, LayerInfo, PolicyError, PolicyInfo, PolicyVisitor, layers, policies,
};
use serde_json::json;

use self::page::PageEntry;
use crate::candidates;
use crate::screen::TerminalScreen;
use crate::table::{TextColumn, TextTable};

/// The command.
pub fn command() -> Command {
    Command::new("policies")
        .about("List the policies with paper, unit, parameters and defaults, or say what one of them does")
        .arg(
            candidates::documented(Arg::new("name").value_name("NAME")).help(
                "Only this policy, layer or composition, such as lb-clock, gcar+lru or kdd: what it does, and how",
            ),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("As JSON"))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let named = matches.get_one::<String>("name").map(|name| page::find(name)).transpose()?;
    match (named, matches.get_flag("json")) {
        (Some(entries), true) => print_json(&entries.iter().map(PageEntry::as_json).collect::<Vec<_>>()),
        (Some(entries), false) => {
            let mut screen = TerminalScreen::stdout();
            for (i, entry) in entries.iter().enumerate() {
                entry.print(&mut screen, i == 0)?;
            }
            Ok(())
        }
        (None, true) => {
            let buffers = policies().iter().map(as_json).chain(layers().iter().map(layer_as_json));
            let hosts = host_caches().map(host_cache_as_json).chain(host_cache_layers().map(host_layer_as_json));
            print_json(&buffers.chain(hosts).collect::<Vec<_>>())
        }
        (None, false) => list(),
    }
}

fn print_json(entries: &[serde_json::Value]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, entries)?;
    writeln!(out)?;
    Ok(())
}

/// All of them, as tables.
fn list() -> Result<()> {
    let mut screen = TerminalScreen::stdout();
    screen.heading("Buffers inside an SSD", true)?;
    let columns = [
        TextColumn::name("policy"),
        TextColumn::word("evicts"),
        TextColumn::text("what it is"),
        TextColumn::text("paper"),
    ];
    let mut table = TextTable::new(columns);
    for p in policies() {
        table.add([p.name, p.unit.word(), p.title, p.paper]);
    }
    table.print(&mut screen)?;
    if !layers().is_empty() {
        screen.heading("Layers around them, written before them: LAYER+POLICY", false)?;
        let mut table =
            TextTable::new([TextColumn::name("layer"), TextColumn::text("what it is"), TextColumn::text("paper")]);
        for layer in layers() {
            table.add([layer.name, layer.title, layer.paper]);
        }
        table.print(&mut screen)?;
        screen.heading("What goes around what", false)?;
        let mut table = TextTable::new(
            [TextColumn::name("")].into_iter().chain(layers().iter().map(|layer| TextColumn::word(layer.name))),
        );
        let mut row = |inside: &str, refusal: &dyn Fn(&LayerInfo) -> Option<String>| {
            let words = layers().iter().map(|layer| if refusal(layer).is_none() { "yes" } else { "-" });
            table.add(std::iter::once(inside).chain(words));
        };
        for policy in policies() {
            row(policy.name, &|layer| refusal(layer, policy));
        }
        for inner in layers() {
            row(&format!("{}+", inner.name), &|outer| refusal_of_layers(outer, inner));
        }
        table.print(&mut screen)?;
        writeln!(screen)?;
        let text = "`destage policies --json` gives the reason for each refusal, as does trying it.";
        screen.paragraph("Why not: ", text)?;
    }
    screen.heading("Caches of the host, in front of an array (destage sim --array)", false)?;
    let columns = [
        TextColumn::name("policy"),
        TextColumn::word("cache"),
        TextColumn::text("what it is"),
        TextColumn::text("paper"),
    ];
    let mut table = TextTable::new(columns);
    for c in host_caches() {
        table.add([c.name, if c.is_sized() { "needs one" } else { "none" }, c.title, c.paper]);
    }
    table.print(&mut screen)?;
    screen.heading("Layers around caches of the host, written before them: LAYER+POLICY", false)?;
    let mut table =
        TextTable::new([TextColumn::name("layer"), TextColumn::text("what it is"), TextColumn::text("paper")]);
    for layer in host_cache_layers() {
        table.add([layer.name, layer.title, layer.paper]);
    }
    table.print(&mut screen)?;
    screen.heading("Parameters, given as NAME:KEY=VALUE:KEY=VALUE", false)?;
    let mut table = TextTable::new([
        TextColumn::word("parameter"),
        TextColumn::word("default"),
        TextColumn::text("what it does [its values]"),
    ]);
    let buffers = policies().iter().map(|p| (p.name, "", p.params));
    let around = layers().iter().map(|l| (l.name, "around a policy", l.params));
    let caches = host_caches().map(|c| (c.name, "in front of an array", c.params));
    let outside = host_cache_layers().map(|l| (l.name, "around a cache of the host", l.params));
    let all = buffers.chain(around).chain(caches).chain(outside);
    for (name, place, params) in all.filter(|(_, _, params)| !params.is_empty()) {
        table.add_heading(name, place);
        for param in params {
            let what = format!("{} [{}]", param.help, values_and_unit(param));
            table.add([format!("  {}", param.name), param.default.to_owned(), what]);
        }
    }
    table.print(&mut screen)?;
    Ok(())
}

/// The values that a parameter takes, with their unit unless it is in most values' words already.
fn values_and_unit(param: &ParamSpec) -> String {
    let unit = if param.unit == "-" || param.values.contains(param.unit) { "" } else { param.unit };
    if unit.is_empty() { param.values.to_owned() } else { format!("{}; {unit}", param.values) }
}

/// Takes a policy that could be built.
struct BuildableVisitor;

impl PolicyVisitor for BuildableVisitor {
    type Out = BuiltPolicy;
    fn visit<B: BufferPolicy + Send + 'static>(self, _buffer: B, built: BuiltPolicy) -> BuiltPolicy {
        built
    }
}

/// Builds the policy of this name with its defaults.
fn build(name: &str) -> Result<BuiltPolicy, PolicyError> {
    // Room enough for whatever a policy asks for.
    let config = BufferConfig { capacity_pages: 1 << 12, pages_per_block: 64, elements: 4 };
    buffer::build(&PolicySpec { name: name.to_owned(), given: Vec::new() }, config, BuildableVisitor)
}

/// Why the policy of this name cannot be built, if so.
fn refused(name: &str) -> Option<String> {
    build(name).err().map(|error| error.to_string())
}

/// Why the layer cannot be put around the policy.
fn refusal(layer: &LayerInfo, policy: &PolicyInfo) -> Option<String> {
    refused(&format!("{}+{}", layer.name, policy.name))
}

/// Why the layer cannot be put around another one, whatever policy is inside that: of the reasons,
/// the one that is left once the policy suits both.
fn refusal_of_layers(outer: &LayerInfo, inner: &LayerInfo) -> Option<String> {
    let suits = |policy: &&PolicyInfo| refusal(outer, policy).is_none() && refusal(inner, policy).is_none();
    let policy = policies().iter().find(suits).or_else(|| policies().iter().find(|p| refusal(inner, p).is_none()))?;
    refused(&format!("{}+{}+{}", outer.name, inner.name, policy.name))
}

fn layer_as_json(layer: &LayerInfo) -> serde_json::Value {
    let params = params(layer.params);
    let around: Vec<_> = policies().iter().filter(|p| refusal(layer, p).is_none()).map(|p| p.name).collect();
    let refused = policies().iter().filter_map(|p| Some((p.name.to_owned(), json!(refusal(layer, p)?))));
    let refused: serde_json::Map<_, _> = refused.collect();
    json!({"name": layer.name, "title": layer.title, "about": layer.about, "paper": layer.paper, "place": "layer", "around": around, "refused": refused, "params": params})
}

fn as_json(p: &PolicyInfo) -> serde_json::Value {
    let unit = p.unit.word();
    let params = params(p.params);
    json!({"name": p.name, "title": p.title, "about": p.about, "paper": p.paper, "place": "ssd", "unit": unit, "params": params})
}

fn host_cache_as_json(c: &HostCacheInfo) -> serde_json::Value {
    let params = params(c.params);
    json!({"name": c.name, "title": c.title, "about": c.about, "paper": c.paper, "place": "host", "caches": c.is_sized(), "params": params})
}

fn host_layer_as_json(layer: &cache::LayerInfo) -> serde_json::Value {
    let params = params(layer.params);
    let around: Vec<_> = host_caches().map(|cache| cache.name).collect();
    json!({"name": layer.name, "title": layer.title, "about": layer.about, "paper": layer.paper, "place": "host-layer", "around": around, "params": params})
}

fn params(params: &[ParamSpec]) -> Vec<serde_json::Value> {
    params
        .iter()
        .map(|q| json!({"name": q.name, "default": q.default, "unit": q.unit, "values": q.values, "help": q.help}))
        .collect()
}
