//! Compares block policies on real pieces of traces and on their stand-ins.
//!
//! The stand-ins are calibrated to the locality of the pieces, never to these figures. If the figures are meant to
//! change, the test prints the new table for `docs/workloads.md`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::binary::quietly;

const DOCS: &str = include_str!("../../../../docs/workloads.md");
const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Sizes of the buffer.
const CACHES: [&str; 4] = ["256KiB", "1MiB", "4MiB", "16MiB"];
/// Evictions at these sizes, of BPLRU, FAB and LB-CLOCK.
type Evictions = [[u64; CACHES.len()]; 3];

enum Input {
    /// A file below the checkout.
    Trace(&'static str),
    /// A file beside the checkout and what it comes to, in case that it is not there.
    Shared(&'static str, Evictions),
    /// A workload, its changes, and how many seeds are summed.
    Workload(&'static str, &'static str, u64),
}

const ROWS: [(&str, Input); 7] = [
    (
        "Financial1, first 10,000 requests",
        Input::Shared(
            "traces/Financial1.first10000.ssdsim.ascii.zst",
            [[1790, 647, 289, 0], [3108, 758, 115, 0], [1301, 426, 132, 0]],
        ),
    ),
    ("`financial1`, as many writes, ten seeds", Input::Workload("financial1", "length=7710", 10)),
    ("`financial1`, 300,000 requests", Input::Workload("financial1", "length=300000", 1)),
    ("installation onto ext4", Input::Trace("traces/own.install-ext4.destage")),
    ("`office-install`", Input::Workload("office-install", "", 1)),
    ("small files onto xfs", Input::Trace("traces/own.tree-xfs.destage")),
    ("`web-download`, 60,000 requests", Input::Workload("web-download", "length=60000", 1)),
];

fn evictions(input: &[&str]) -> Evictions {
    let caches = CACHES.join(",");
    let mut args = vec!["sim", "--policy", "bplru,fab,lb-clock", "--cache", &caches, "--ops", "writes"];
    args.extend(["--page", "2KiB", "--json"]);
    args.extend(input);
    let runs: Vec<Value> = serde_json::from_str(&quietly(&args)).expect("results are JSON");
    assert_eq!(runs.len(), 3 * CACHES.len());
    std::array::from_fn(|policy| {
        std::array::from_fn(|size| {
            let run = &runs[policy * CACHES.len() + size];
            assert!(run["policy"].as_str().unwrap().starts_with(["bplru", "fab", "lb-clock"][policy]), "{run}");
            run["evictions"].as_u64().unwrap()
        })
    })
}

fn sum_of_seeds(name: &str, changes: &str, seeds: u64) -> Evictions {
    let mut sum: Evictions = [[0; CACHES.len()]; 3];
    for seed in 1..=seeds {
        let set = format!("seed={seed} {changes}");
        let one = evictions(&["--workload", name, "--workload-set", &set]);
        for (sum, n) in sum.iter_mut().flatten().zip(one.iter().flatten()) {
            *sum += n;
        }
    }
    sum
}

fn shared(file: &str, known: Evictions) -> Evictions {
    let beside = || Path::new(CHECKOUT).join("../shared");
    let path = std::env::var_os("DESTAGE_SHARED").map_or_else(beside, PathBuf::from).join(file);
    if !path.is_file() {
        // Past the test harness, which keeps what a passing test prints.
        let _ = writeln!(std::io::stderr(), "SKIPPED: the evictions of {file}: it is not there");
        return known;
    }
    let found = evictions(&["--trace", path.to_str().unwrap(), "--format", "ssdsim"]);
    assert_eq!(found, known, "{file}");
    found
}

#[test]
fn block_policies_on_real_pieces_and_on_their_stand_ins() {
    let mut table = String::from("| |");
    for policy in ["BPLRU", "FAB"] {
        for cache in CACHES {
            write!(table, " {policy}, {} |", cache.replace("KiB", " KiB").replace("MiB", " MiB")).unwrap();
        }
    }
    table.push_str("\n|---|---|---|---|---|---|---|---|---|\n");
    for (name, input) in ROWS {
        let [bplru, fab, lb_clock] = match input {
            Input::Trace(file) => evictions(&["--trace", Path::new(CHECKOUT).join(file).to_str().unwrap()]),
            Input::Shared(file, known) => shared(file, known),
            Input::Workload(name, changes, seeds) => sum_of_seeds(name, changes, seeds),
        };
        write!(table, "| {name} |").unwrap();
        for (other, lb_clock) in [bplru, fab].iter().flatten().zip(lb_clock.iter().cycle()) {
            let cell = match lb_clock {
                0 => "–".to_owned(),
                &n => format!("{:+.0} %", (*other as f64 / n as f64 - 1.0) * 100.0).replace("-0 ", "+0 "),
            };
            write!(table, " {cell} |").unwrap();
        }
        table.push('\n');
    }
    assert!(DOCS.contains(&table), "the table in docs/workloads.md would now be:\n{table}");
}
