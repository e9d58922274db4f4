//! Tests that what several variants run in the same way is run once.

use std::sync::atomic::{AtomicU64, Ordering};

use destage_reproduce::metric::ClaimMetric;
use destage_reproduce::reproduce::{ReproduceOptions, reproduce_with};
use destage_reproduce::watch::{PaperWatch, RunInfo};

use crate::small;

const WORKLOAD: &str = r#"
about = "Random writes"
source = "here"
kind = "synthetic"
length = 2000

[[part]]
read = 30
space = "8MiB"
sizes = "4KiB"
arrivals = "poisson:1ms"
"#;

const PAPER: &str = r#"
name = "array"
title = "A paper about deltas"
about = "About."
verdict = "Verdict."
seeds = 2
caches = ["1MiB", "4MiB"]
policies = ["none", "write-through", "kdd"]
figures = ["hit-ratio", "cache-writes-per-page"]

[settings]
array = "raid5:3"
device = "fixed"
member-size = "1GiB"
cache-device = "fixed"

[[workload]]
name = "pages"
provenance = "synthetic"
stands-for = ["Pages"]
synthetic = "WORKLOAD"
"#;

fn variant(name: &str, settings: &str) -> String {
    format!(
        "\n[[variant]]\nname = \"{name}\"\nsettings = {{ {settings} }}\npolicies = [\"none\", \"write-through\", \"kdd\"]\n"
    )
}

/// Counts simulations.
#[derive(Default)]
struct RunCounter(AtomicU64);

impl PaperWatch for RunCounter {
    fn begins(&self, run: &RunInfo<'_>) {
        self.0.fetch_add(run.weight, Ordering::Relaxed);
    }
}

/// Lists the figures of each policy at each size in each variant, for each seed.
type PolicyFigures = Vec<(&'static str, &'static str, u64, Vec<[Option<f64>; 2]>)>;

fn run(variants: &[(&'static str, &str)]) -> (u64, PolicyFigures) {
    let folder = tempfile::tempdir().expect("a folder");
    let text = variants.iter().fold(PAPER.to_owned(), |text, (name, settings)| text + &variant(name, settings));
    let paper = small::paper(folder.path(), &text, WORKLOAD).expect("a paper");
    let watch = RunCounter::default();
    let options = ReproduceOptions { folders: &[], found: None, quick: false, kept: None, on: None, watch: &watch };
    let found = reproduce_with(&paper, options).expect("it runs");
    let metrics = ["hit-ratio", "cache-writes-per-page"].map(|name| ClaimMetric::named(name).expect("a metric"));
    let mut figures = Vec::new();
    for name in std::iter::once("").chain(variants.iter().map(|(name, _)| *name)) {
        for policy in ["none", "write-through", "kdd"] {
            for cache in [1 << 20, 4 << 20] {
                let of = found.results[0].of(name, policy, cache).iter();
                let of = of.map(|run| metrics.map(|metric| metric.of(run))).collect();
                figures.push((name, policy, cache, of));
            }
        }
    }
    (watch.0.into_inner(), figures)
}

#[test]
fn what_makes_no_deltas_is_run_once_for_all_their_lengths() {
    let lengths = [("short", r#""delta.length" = "fixed:12%""#), ("long", r#""delta.length" = "fixed:50%""#)];
    let (all, figures) = run(&lengths);
    // Two sizes and seeds: three policies of the first, and kdd of the two others.
    assert_eq!(all, 2 * 2 * (3 + 1 + 1));
    for one in lengths {
        let (alone, of_one) = run(&[one]);
        assert_eq!(alone, 2 * 2 * (3 + 1));
        for figure in of_one {
            assert!(figures.contains(&figure), "{figure:?}");
        }
    }
    let of = |name: &str, policy: &str| figures.iter().find(|(n, p, ..)| *n == name && *p == policy).map(|(.., f)| f);
    assert_eq!(of("short", "write-through"), of("long", "write-through"));
    assert_ne!(of("short", "kdd"), of("long", "kdd"));
}

#[test]
fn other_settings_are_run_for_all() {
    let (all, figures) = run(&[("slow", r#""fixed.read" = "2ms""#), ("chunks", r#"chunk = "8KiB""#)]);
    assert_eq!(all, 2 * 2 * 3 * 3);
    assert_eq!(figures.len(), 3 * 3 * 2);
}
