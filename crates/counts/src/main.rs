//! Does one of the workloads, for callgrind to count its instructions: `destage-counts buffers/lru`. With `--list` it
//! prints the names of all. `scripts/counts` runs it.

use std::hint::black_box;
use std::process::ExitCode;

use destage_counts::{
    Work, all_collecting, array, buffer, collecting, delta, hit, kernel, log_blocks, modern, overload, pipeline, plan,
    read, saturated, stat, tier,
};

/// A group of workloads: its name, what prepares one of them, and the name of each, here and there.
type Group = (&'static str, fn(&str) -> Work, &'static [(&'static str, &'static str)]);

const GROUPS: [Group; 16] = [
    (
        "buffers",
        buffer,
        &[
            ("lru", "lru"),
            ("clock", "clock"),
            ("fab", "fab"),
            ("bplru", "bplru"),
            ("lb_clock", "lb-clock"),
            ("cflru", "cflru"),
            ("clc", "clc"),
            ("pud_lru", "pud-lru"),
        ],
    ),
    (
        "ssd",
        collecting,
        &[
            ("none", "none"),
            ("lru", "lru"),
            ("lb_clock", "lb-clock"),
            ("gcar_lru", "gcar+lru"),
            ("gcar_lb_clock", "gcar+lb-clock"),
            ("gate_lru", "gate+lru"),
            ("cawr", "cawr"),
        ],
    ),
    ("drives", all_collecting, &[("lru", "lru"), ("gcar_clock", "gcar+clock")]),
    ("modern", modern, &[("none", "none"), ("lru", "lru"), ("gcar_lru", "gcar+lru")]),
    ("saturated", saturated, &[("modern", "")]),
    ("ftl", log_blocks, &[("bast", "bast"), ("fast", "fast")]),
    ("sim", pipeline, &[("none", "none"), ("lru", "lru")]),
    (
        "traces",
        read,
        &[
            ("native", "native"),
            ("disksim", "disksim"),
            ("msr", "msr"),
            ("columns", "columns"),
            ("oracle_general", "oracle-general"),
        ],
    ),
    ("statistics", |_| stat(), &[("all", "")]),
    (
        "plans",
        plan,
        &[
            ("raid5_write", "raid5-write"),
            ("raid5_read", "raid5-read"),
            ("raid6_write", "raid6-write"),
            ("kept_write", "kept-write"),
            ("cached_write", "cached-write"),
        ],
    ),
    ("hits", hit, &[("write_through", "write-through"), ("kdd", "kdd"), ("kdd_delta", "kdd-delta"), ("wow", "wow")]),
    ("arrays", array, &[("raid5_write", "none"), ("wow", "wow"), ("lawc", "lawc")]),
    ("overloaded", overload, &[("lawc", "lawc"), ("iwc", "iwc")]),
    ("tiers", tier, &[("write_through", "write-through"), ("kdd", "kdd")]),
    ("kernels", kernel, &[("portable", "portable"), ("ssse3", "ssse3"), ("avx2", "avx2")]),
    ("deltas", delta, &[("portable", "portable"), ("avx2", "avx2-bmi2")]),
];

/// Does the work. callgrind counts while this function runs, which it finds by its name.
#[inline(never)]
fn counted_work(work: &mut Work) -> u64 {
    black_box(work())
}

/// Prepares the workload of this name.
fn prepared(name: &str) -> Option<Work> {
    let (group, workload) = name.split_once('/')?;
    let (_, prepare, workloads) = GROUPS.iter().find(|(name, ..)| *name == group)?;
    let (_, of) = workloads.iter().find(|(name, _)| *name == workload)?;
    Some(prepare(of))
}

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    if name == "--list" {
        for (group, _, workloads) in GROUPS {
            for (workload, _) in workloads {
                println!("{group}/{workload}");
            }
        }
        return ExitCode::SUCCESS;
    }
    let Some(mut work) = prepared(&name) else {
        eprintln!("destage-counts: there is no workload '{name}'; --list prints their names");
        return ExitCode::from(2);
    };
    println!("{}", counted_work(&mut work));
    // Giving up its memory does not count.
    drop(work);
    ExitCode::SUCCESS
}
