//! `destage policies NAME`: what there is to know about one policy, layer or composition of them.

use std::io::Write;

use anyhow::{Result, bail};
use destage_cache::{self as cache, CacheMedium, HostCacheInfo, HostCacheSpec, all_host_caches, host_cache_layers};
use destage_plan::{ParamSpec, PolicySpec, names};
use destage_policy::buffer::{self, BuiltPolicy, LayerInfo, PolicyInfo, layers, policies};
use serde_json::{Value, json};

use super::{
    as_json, build, host_cache_as_json, host_layer_as_json, layer_as_json, refusal, refusal_of_layers, values_and_unit,
};
use crate::screen::{TerminalScreen, wrap};
use crate::table::{TextColumn, TextTable};

/// Names the subject of a page.
pub(super) enum PageEntry {
    /// A buffer inside an SSD.
    Buffer(&'static PolicyInfo),
    /// Is a layer around a buffer.
    Layer(&'static LayerInfo),
    /// Layers, the outermost first, around a buffer.
    Composition(String, Vec<&'static LayerInfo>, &'static PolicyInfo, BuiltPolicy),
    /// A cache of the host, which may have something around it.
    HostCache(&'static HostCacheInfo),
    /// Is a layer around a host cache.
    HostLayer(&'static cache::LayerInfo),
}

/// Everything that is called so: a policy and a layer can have the same name, and so can policies
/// of the SSD and of the host.
pub(super) fn find(name: &str) -> Result<Vec<PageEntry>> {
    if name.contains(':') {
        bail!("'{name}': give the name alone; its page has the parameters");
    }
    let host = || names::called(name, all_host_caches().map(|info| info.name)).and_then(cache::host_cache);
    let mut found = Vec::new();
    if name.contains('+') {
        match host() {
            Some(info) => found.push(PageEntry::HostCache(info)),
            None => found.push(composition(name)?),
        }
        return Ok(found);
    }
    let buffer = names::called(name, policies().iter().map(|policy| policy.name));
    found.extend(policies().iter().filter(|policy| Some(policy.name) == buffer).map(PageEntry::Buffer));
    let layer = names::called(name, layers().iter().map(|layer| layer.name));
    found.extend(layers().iter().filter(|known| Some(known.name) == layer).map(PageEntry::Layer));
    found.extend(host().map(PageEntry::HostCache));
    let outside = names::called(name, host_cache_layers().map(|layer| layer.name));
    found.extend(host_cache_layers().filter(|known| Some(known.name) == outside).map(PageEntry::HostLayer));
    if found.is_empty() {
        bail!("{}", unknown(name));
    }
    Ok(found)
}

/// Layers around a buffer, if they can be.
fn composition(name: &str) -> Result<PageEntry> {
    let spec = buffer::canonical(PolicySpec { name: name.to_owned(), given: Vec::new() });
    let mut parts: Vec<&str> = spec.name.split('+').collect();
    let base = parts.pop().unwrap_or_default();
    let Ok(info) = buffer::info(base) else {
        if cache::host_cache(base).is_some() {
            // Which layers there are for it.
            spec.name.parse::<HostCacheSpec>()?;
        }
        bail!("'{name}': {}", unknown(base));
    };
    let built = build(&spec.name).map_err(|error| anyhow::anyhow!("{error}"))?;
    let around = parts.iter().filter_map(|part| layers().iter().find(|layer| layer.name == *part)).collect();
    Ok(PageEntry::Composition(spec.name.clone(), around, info, built))
}

/// Why there is no page.
fn unknown(name: &str) -> String {
    let buffers = policies().iter().map(|policy| policy.name).chain(layers().iter().map(|layer| layer.name));
    let hosts = all_host_caches().map(|info| info.name).chain(host_cache_layers().map(|layer| layer.name));
    let near = names::nearest(name, buffers.chain(hosts));
    let near = near.map_or_else(String::new, |near| format!("did you mean '{near}'? "));
    format!("there is no policy '{name}'; {near}`destage policies` lists all")
}

/// A parameter as a page shows it.
struct PageParam {
    of: &'static str,
    spec: &'static ParamSpec,
    /// Holds the value without any setting; inside layers it may differ from that alone.
    value: String,
}

fn at_defaults(of: &'static str, params: &'static [ParamSpec]) -> Vec<PageParam> {
    params.iter().map(|spec| PageParam { of, spec, value: spec.default.to_owned() }).collect()
}

/// A list in words, or that there is nothing.
fn listed(names: impl Iterator<Item = String>) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

/// Writes a command line so that it can be copied, also where it goes on in another line.
fn command_line(screen: &mut TerminalScreen, words: &str) -> std::io::Result<()> {
    // A flag and its value stay together.
    let pieces = words.replace(' ', "\u{a0}").replace("\u{a0}--", " --");
    let lines = wrap(&pieces, screen.page().width.saturating_sub(4));
    for (i, line) in lines.iter().enumerate() {
        let more = if i + 1 < lines.len() { " \\" } else { "" };
        writeln!(screen, "  {}{more}", line.replace('\u{a0}', " "))?;
    }
    Ok(())
}

/// Says where a buffer that chooses channels can be simulated.
fn channels(chooses: bool) -> Option<(&'static str, String)> {
    chooses.then(|| ("with --device ssd", "it needs --ssd.model classic --ssd.allocation channels".to_owned()))
}

/// Says which members can be told to collect garbage.
fn collectors(needs: bool) -> Option<(&'static str, String)> {
    needs.then(|| ("members", "SSDs: it needs --device ssd".to_owned()))
}

impl PageEntry {
    /// The name, by which it is given.
    fn name(&self) -> &str {
        match self {
            Self::Buffer(info) => info.name,
            Self::Layer(info) => info.name,
            Self::Composition(name, ..) => name,
            Self::HostCache(info) => info.name,
            Self::HostLayer(info) => info.name,
        }
    }

    /// Returns the title, in one line.
    fn title(&self) -> String {
        match self {
            Self::Buffer(info) => info.title.to_owned(),
            Self::Layer(info) => info.title.to_owned(),
            Self::Composition(_, around, base, _) => {
                let names = around.iter().rev().map(|layer| layer.name);
                names.fold(base.name.to_owned(), |inside, layer| format!("{layer} around {inside}"))
            }
            Self::HostCache(info) => info.title.to_owned(),
            Self::HostLayer(info) => info.title.to_owned(),
        }
    }

    /// Describes the subject, in a paragraph for each of its parts.
    fn about(&self) -> Vec<String> {
        match self {
            Self::Buffer(info) => vec![info.about.to_owned()],
            Self::Layer(info) => vec![info.about.to_owned()],
            Self::Composition(_, around, base, _) => {
                let layers = around.iter().map(|layer| (layer.name, layer.about));
                layers.chain([(base.name, base.about)]).map(|(name, about)| format!("{name}: {about}")).collect()
            }
            Self::HostCache(info) => vec![info.about.to_owned()],
            Self::HostLayer(info) => vec![info.about.to_owned()],
        }
    }

    /// Lists further facts.
    fn facts(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Buffer(info) => {
                let around = layers().iter().filter(|layer| refusal(layer, info).is_none());
                let unit = if info.is_sized() { info.unit.word() } else { "-" };
                let mut facts = vec![
                    ("paper", info.paper.to_owned()),
                    ("place", "buffer inside an SSD".to_owned()),
                    ("evicts at once", unit.to_owned()),
                    ("layers that go around it", listed(around.map(|layer| format!("{}+", layer.name)))),
                ];
                facts.extend(channels(info.chooses_channels));
                facts
            }
            Self::Layer(info) => {
                let inside = policies().iter().filter(|policy| refusal(info, policy).is_none());
                let inside = inside.map(|policy| policy.name.to_owned());
                let layered = layers().iter().filter(|inner| refusal_of_layers(info, inner).is_none());
                let layered = layered.map(|inner| format!("{}+...", inner.name));
                let mut facts = vec![
                    ("paper", info.paper.to_owned()),
                    ("place", "layer around a buffer inside an SSD".to_owned()),
                    ("goes around", listed(inside.chain(layered))),
                ];
                facts.extend(info.unit.map(|unit| ("evicts at once", unit.word().to_owned())));
                facts.extend(channels(info.chooses_channels));
                facts
            }
            Self::Composition(_, around, base, built) => {
                let layers = around.iter().map(|layer| (layer.name, layer.paper));
                let papers = layers.chain([(base.name, base.paper)]).map(|(name, paper)| format!("{name}: {paper}"));
                let mut facts = vec![
                    ("papers", papers.collect::<Vec<_>>().join("; ")),
                    ("place", "buffer inside an SSD".to_owned()),
                    ("evicts at once", built.unit.word().to_owned()),
                ];
                facts.extend(channels(built.chooses_channels));
                facts
            }
            Self::HostCache(info) => {
                let size = match info.medium {
                    CacheMedium::None => "of nothing: it has none",
                    CacheMedium::Device => "of its SSD",
                    CacheMedium::Nvram => "of its share of the NVRAM",
                };
                let mut facts = vec![
                    ("paper", info.paper.to_owned()),
                    ("place", "cache of the host, in front of an array".to_owned()),
                    ("its size is that", size.to_owned()),
                    ("arrays", listed(info.levels().map(|level| level.to_string()))),
                ];
                if !info.has_layer_around() {
                    let around = host_cache_layers().map(|layer| format!("{}+", layer.name));
                    facts.push(("layers that go around it", listed(around)));
                }
                facts.extend(collectors(info.needs_collectors()));
                facts
            }
            Self::HostLayer(info) => {
                let mut facts = vec![
                    ("paper", info.paper.to_owned()),
                    ("place", "layer around a cache of the host".to_owned()),
                    ("goes around", listed(cache::host_caches().map(|inside| inside.name.to_owned()))),
                ];
                facts.extend(collectors(info.needs_collectors));
                facts
            }
        }
    }

    /// Lists the parameters.
    fn params(&self) -> Vec<PageParam> {
        match self {
            Self::Buffer(info) => at_defaults(info.name, info.params),
            Self::Layer(info) => at_defaults(info.name, info.params),
            Self::Composition(_, around, base, built) => {
                let layers = around.iter().flat_map(|layer| at_defaults(layer.name, layer.params));
                let mut all: Vec<_> = layers.chain(at_defaults(base.name, base.params)).collect();
                for (param, (_, value)) in all.iter_mut().zip(&built.params) {
                    param.value.clone_from(value);
                }
                all
            }
            Self::HostCache(info) => at_defaults(info.name, info.params),
            Self::HostLayer(info) => at_defaults(info.name, info.params),
        }
    }

    /// A call that simulates it, beside what it can be compared with.
    fn example(&self) -> String {
        let buffer = |name: &str, channels: bool| {
            let base = if matches!(name, "none" | "lru") { "none,lru".to_owned() } else { format!("lru,{name}") };
            let channels = if channels { " --ssd.model classic --ssd.allocation channels" } else { "" };
            format!("destage sim --workload financial1 --policy {base} --cache 4MiB --device ssd{channels}")
        };
        let host = |name: &str, collectors: bool| {
            let base = if name == "none" { "none,write-through".to_owned() } else { format!("none,{name}") };
            let device = if collectors { "ssd" } else { "disk" };
            format!("destage sim --workload financial1 --array raid5:5 --device {device} --policy {base} --cache 16MiB")
        };
        match self {
            Self::Buffer(info) => buffer(info.name, info.chooses_channels),
            Self::Layer(info) => {
                let mut well_known = policies().iter().rev().filter(|policy| matches!(policy.name, "lb-clock" | "lru"));
                let inside = well_known.find(|policy| refusal(info, policy).is_none());
                let inside = inside.map_or("lru", |policy| policy.name);
                buffer(&format!("{}+{inside}", info.name), info.chooses_channels)
            }
            Self::Composition(name, _, _, built) => buffer(name, built.chooses_channels),
            Self::HostCache(info) => host(info.name, info.needs_collectors()),
            Self::HostLayer(info) => host(&format!("{}+wow", info.name), info.needs_collectors),
        }
    }

    /// The page.
    pub(super) fn print(&self, screen: &mut TerminalScreen, first: bool) -> std::io::Result<()> {
        screen.heading(&format!("{}: {}", self.name(), self.title()), first)?;
        for about in self.about() {
            screen.paragraph("", &about)?;
        }
        writeln!(screen)?;
        screen.pairs(self.facts())?;
        let params = self.params();
        let several = params.iter().any(|param| param.of != params[0].of);
        if !params.is_empty() {
            screen.heading("Parameters, given as NAME:KEY=VALUE:KEY=VALUE", false)?;
            let of = several.then(|| TextColumn::word("of"));
            let last = [TextColumn::word("default"), TextColumn::text("what it does [its values]")];
            let mut table = TextTable::new([TextColumn::word("parameter")].into_iter().chain(of).chain(last));
            for PageParam { of, spec, value } in &params {
                let alone = if value == spec.default { String::new() } else { format!("; alone {}", spec.default) };
                let what = format!("{} [{}{alone}]", spec.help, values_and_unit(spec));
                let of = several.then(|| (*of).to_owned());
                table.add([spec.name.to_owned()].into_iter().chain(of).chain([value.clone(), what]));
            }
            table.print(screen)?;
        }
        screen.heading("Example", false)?;
        command_line(screen, &self.example())
    }

    /// The same for programs: what the list has of it, and of a composition what it has of its parts.
    pub(super) fn as_json(&self) -> Value {
        let mut value = match self {
            Self::Buffer(info) => as_json(info),
            Self::Layer(info) => layer_as_json(info),
            Self::Composition(name, around, base, built) => {
                let params: Vec<_> = self.params().iter().map(param_as_json).collect();
                let parts: Vec<_> = around.iter().map(|layer| layer_as_json(layer)).chain([as_json(base)]).collect();
                json!({"name": name, "title": self.title(), "place": "ssd", "unit": built.unit.word(),
                    "params": params, "parts": parts})
            }
            Self::HostCache(info) => host_cache_as_json(info),
            Self::HostLayer(info) => host_layer_as_json(info),
        };
        value["example"] = json!(self.example());
        value
    }
}

fn param_as_json(param: &PageParam) -> Value {
    let PageParam { of, spec, value } = param;
    json!({"of": of, "name": spec.name, "default": value, "unit": spec.unit, "values": spec.values, "help": spec.help})
}
