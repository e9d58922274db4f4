//! Tests that a parameter's value either takes effect below the layers around a policy or is refused there.
//! For every composition, every parameter of each part and every value some workload shows a difference, and
//! results name the value.

use destage_plan::{Element, ParamSpec, PolicySpec};
use destage_policy::buffer::{
    BufferConfig, BufferNotice, BufferPolicy, BuiltPolicy, Evictions, LayerInfo, NoVeto, PolicyError, PolicyInfo,
    PolicyVisitor, build, layers, policies,
};

use crate::gcar::model::{Elements, LOW_WATERMARK};
use crate::models::values_of;
use crate::workload::{Mix, Op, PATTERNS, Pattern, Workload};

const SWITCH: &[&str] = &["true", "false"];
const READS: &[&str] = &["cache", "bypass"];
const PADDING: &[&str] = &["always", "never", "0.5"];

/// Lists parameters with values that differ from each other, and the settings that these need. Policies without a row
/// are tried with [`values_of`] their parameters.
const VALUES: &[(&str, &str, &[&str], &str)] = &[
    ("2q", "reads", READS, ""),
    ("2q", "in", &["25", "0", "70"], ""),
    ("2q", "out", &["50", "0", "300"], ""),
    ("s3-fifo", "reads", READS, ""),
    ("s3-fifo", "small", &["10", "0", "70"], ""),
    ("s3-fifo", "ghost", &["90", "0", "300"], ""),
    ("s3-fifo", "uses", &["2", "1", "3"], ""),
    ("cflru", "reads", READS, ""),
    ("cflru", "window", &["0", "0.5", "1", "adaptive"], ""),
    ("cflru", "period", &["capacity", "1"], ":window=adaptive"),
    ("cflru", "step", &["0.05", "0.7"], ":window=adaptive"),
    ("cflru", "write_cost", &["8", "0"], ":window=adaptive"),
    ("ccf-lru", "reads", READS, ""),
    ("ccf-lru", "new_clean_to", &["ccl", "mixed"], ""),
    ("ccf-lru", "new_dirty_cold", SWITCH, ""),
    ("ccf-lru", "hot_clean", &["evict", "spare"], ""),
    ("ref", "reads", READS, ""),
    ("ref", "vw", &["0.5", "0.1", "1"], ""),
    ("ref", "nvb", &["1", "4"], ""),
    ("ref", "new_vb", &["lru_page", "most_pages_in_vw"], ""),
    ("fab", "reads", READS, ""),
    ("fab", "protect_current", SWITCH, ""),
    ("bplru", "padding", PADDING, ""),
    ("bplru", "compensation", &["on", "off"], ""),
    ("bplru", "seq_detect", &["ordered", "last_page_full"], ""),
    ("bplru", "protect_current", SWITCH, ""),
    ("clc", "si_max", &["10%", "2", "100%"], ""),
    ("clc", "padding", PADDING, ""),
    ("clc", "protect_current", SWITCH, ""),
    ("pud-lru", "threshold", &["mean", "3"], ""),
    ("pud-lru", "padding", PADDING, ""),
    ("pud-lru", "protect_current", SWITCH, ""),
    ("lb-clock", "opt_preempt", SWITCH, ""),
    // Preemption includes it.
    ("lb-clock", "opt_seq", SWITCH, ":opt_preempt=false"),
    ("lb-clock", "insert_anchor", &["initial_hand", "current_hand"], ""),
    ("lb-clock", "candidate_rule", &["prior_zero", "all_zero"], ""),
    ("lb-clock", "prev_init", &["block", "0"], ""),
    ("lb-clock", "read_sets_bit", SWITCH, ""),
    ("lb-clock", "protect_current", SWITCH, ""),
    ("cave", "ccf_new_clean_to", &["ccl", "mixed"], ""),
    ("cave", "ccf_new_dirty_cold", SWITCH, ""),
    ("cawr", "cdl_max", &["4", "1", "16"], ""),
    ("cawr", "cawr_seq", &["tail", "any", "same_block"], ""),
    ("cawr", "cawr_new_clean_to", &["wl", "ccl"], ""),
    ("cawr", "wait", &["all", "any"], ""),
    ("gcar+", "gcar_pool", &["unified"], ""),
    ("gcar+", "gcar_all_gc", &["base_victim", "bypass", "wait"], ""),
    ("gcar+", "gcar_max_share", &["1.0", "0.3"], ""),
    ("gcar+", "gcar_after", &["free", "keep_clean"], ""),
    ("gcar+", "gcar_destage_scope", &["deferred", "all_dirty_of_chip", "none"], ""),
    ("gcar+", "gcar_soon_margin", &["0", "3"], ""),
    ("cave+", "cave_block_channel", &["per_page_rr", "per_block"], ""),
];

/// A policy with its layers.
struct Composition {
    name: String,
    base: &'static PolicyInfo,
    layers: Vec<&'static LayerInfo>,
}

impl Composition {
    /// Each policy alone, below every layer that goes around it, and below two of them.
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for base in policies() {
            all.push(Self { name: base.name.into(), base, layers: Vec::new() });
            for inner in layers().iter().filter(|layer| layer.goes_over(base)) {
                let name = format!("{}+{}", inner.name, base.name);
                for outer in layers().iter().filter(|outer| outer.depth < inner.depth) {
                    all.push(Self { name: format!("{}+{name}", outer.name), base, layers: vec![outer, inner] });
                }
                all.push(Self { name, base, layers: vec![inner] });
            }
        }
        all
    }

    /// The name of each part, as in [`VALUES`], with its parameters.
    fn parts(&self) -> Vec<(String, &'static [ParamSpec])> {
        let layers = self.layers.iter().map(|layer| (format!("{}+", layer.name), layer.params));
        layers.chain([(self.base.name.to_owned(), self.base.params)]).collect()
    }

    fn avoids_collection(&self) -> bool {
        self.layers.iter().any(|layer| layer.avoids_collection)
    }

    fn chooses_channels(&self) -> bool {
        self.base.chooses_channels || self.layers.iter().any(|layer| layer.chooses_channels)
    }
}

/// A workload on a buffer over elements that collect now and then, if anyone asks.
#[derive(Clone, Copy, Debug)]
struct Scene {
    seed: u64,
    pattern: Pattern,
    mix: Mix,
    pages_per_block: u32,
    capacity_pages: u32,
    /// Pages may go to any element.
    dynamic: bool,
    collects: bool,
}

/// Everything that the policy did, as text, and what is in force.
struct Played<'a>(&'a Scene);

impl PolicyVisitor for Played<'_> {
    type Out = (Vec<String>, Vec<(String, String)>);

    fn visit<B: BufferPolicy + Send + 'static>(self, mut buffer: B, built: BuiltPolicy) -> Self::Out {
        let scene = self.0;
        let elements = 3;
        let pages = 2 * scene.capacity_pages + 3 * scene.pages_per_block;
        buffer.grow(pages);
        let mut device = Elements { dynamic: scene.dynamic, ..Elements::new(elements, scene.pages_per_block) };
        let mut dice = Workload::new(!scene.seed, PATTERNS[0], Mix::WRITES, pages);
        let (mut told, mut out) = (Vec::new(), Evictions::default());
        let mut tell = |out: &mut Evictions, what: String| {
            let groups = out.groups().map(|(group, pages)| {
                let how = (group.kind, group.wait, group.background, group.after_collection, group.units);
                format!("{how:?} {pages:?} {:?}", out.channels(group))
            });
            told.push(format!("{what} {:?}", groups.collect::<Vec<_>>()));
            out.clear();
        };
        for op in Workload::new(scene.seed, scene.pattern, scene.mix, pages).take(1000) {
            for element in (0..elements).map(Element) {
                if scene.collects && dice.below(30) == 0 {
                    let collecting = &mut device.collecting[element.index()];
                    *collecting ^= true;
                    let ended = !*collecting;
                    device.free_blocks[element.index()] = LOW_WATERMARK + if ended { dice.below(6) } else { 0 };
                    if ended {
                        buffer.notify(BufferNotice::GcEnd { element }, &device, &mut NoVeto, &mut out);
                        tell(&mut out, String::new());
                    }
                }
            }
            match op {
                Op::Access(access) => {
                    let outcome = buffer.access(access, &device, &mut NoVeto, &mut out);
                    tell(&mut out, format!("{outcome:?}"));
                }
                Op::Notify(BufferNotice::GcEnd { .. }) => {}
                Op::Notify(notice) => {
                    buffer.notify(notice, &device, &mut NoVeto, &mut out);
                    tell(&mut out, String::new());
                }
            }
        }
        (told, built.params.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }
}

fn play(spec: &str, scene: &Scene) -> Result<<Played<'static> as PolicyVisitor>::Out, PolicyError> {
    let config =
        BufferConfig { capacity_pages: scene.capacity_pages, pages_per_block: scene.pages_per_block, elements: 3 };
    let spec: PolicySpec = spec.parse().unwrap_or_else(|error| panic!("{error}"));
    build(&spec, config, Played(scene))
}

fn scenes(composition: &Composition) -> Vec<Scene> {
    let mut scenes = Vec::new();
    for (pages_per_block, capacity_pages) in [(4, 24), (8, 40), (16, 60), (2, 9)] {
        for pattern in PATTERNS {
            for mix in [Mix::ACCESSES, Mix::WRITES, Mix::ALL] {
                // What chooses channels needs a device that leaves it the choice.
                for dynamic in [true, false].into_iter().filter(|dynamic| *dynamic || !composition.chooses_channels()) {
                    let (seed, collects) = (scenes.len() as u64, composition.avoids_collection());
                    scenes.push(Scene { seed, pattern, mix, pages_per_block, capacity_pages, dynamic, collects });
                }
            }
        }
    }
    scenes
}

#[test]
fn a_parameter_holds_below_layers_or_is_refused() {
    let (mut held, mut refused) = (0, 0);
    for composition in Composition::all() {
        let scenes = scenes(&composition);
        for (part, params) in composition.parts() {
            for param in params {
                let key = param.name;
                let entry = VALUES.iter().find(|row| (row.0, row.1) == (part.as_str(), key));
                let (values, rest) = entry.map_or_else(|| (values_of(&part, key), ""), |row| (row.2, row.3));
                let base = format!("{}{rest}", composition.name);
                let (_, printed) = play(&base, &scenes[0]).expect(&base);
                let in_force = printed.into_iter().find(|(name, _)| name == key).expect("it is printed").1;
                assert!(values.contains(&in_force.as_str()), "{base}: {key}={in_force}");
                for value in values {
                    let spec = format!("{base}:{key}={value}");
                    match play(&spec, &scenes[0]) {
                        Err(error) => {
                            let text = error.to_string();
                            assert!(text.contains(&format!("{key}={in_force}")) && text.contains(value), "{text}");
                            refused += 1;
                        }
                        Ok((_, params)) => {
                            assert!(params.contains(&(key.to_owned(), (*value).to_owned())), "{spec}: {params:?}");
                            let differs = || {
                                let did = |spec: &str, scene| play(spec, scene).expect(spec).0;
                                scenes.iter().any(|scene| did(&spec, scene) != did(&base, scene))
                            };
                            assert!(*value == in_force || differs(), "{spec} does what {base} does");
                            held += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(held > 500 && refused > 50, "{held} {refused}");
}
