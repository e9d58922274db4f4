//! The binary from outside, as a user meets it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::binary::{destage, quietly, refused};

/// A small mixed trace of one volume in SPC format, from a fixed formula.
pub(crate) fn small_trace(folder: &Path) -> PathBuf {
    trace_of_volumes(folder, 1)
}

fn trace_of_volumes(folder: &Path, volumes: u64) -> PathBuf {
    let path = folder.join("small.spc");
    let mut text = String::new();
    let mut x = 1_u64;
    for i in 0..5000_u64 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let lba = (x >> 33) % 40_000 / 8 * 8;
        let bytes = 512 * (1 + (x >> 20) % 40);
        let op = if x >> 60 < 4 { 'R' } else { 'W' };
        let (volume, seconds, micros) = ((x >> 56) % volumes, i / 100, i % 100 * 10_000);
        writeln!(text, "{volume},{lba},{bytes},{op},{seconds}.{micros:06}").unwrap();
    }
    fs::write(&path, text).unwrap();
    path
}

pub(crate) fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

#[test]
fn the_documented_call_prints_an_array_with_one_object_per_run() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    for device in ["none", "analytic", "ssd"] {
        for ops in ["writes", "all"] {
            let json = quietly(&[
                "sim",
                "--trace",
                text(&trace),
                "--policy",
                "lru,lb-clock",
                "--cache",
                "1MiB,2MiB",
                "--device",
                device,
                "--page",
                "4KiB",
                "--pages-per-block",
                "64",
                "--ops",
                ops,
                "--json",
            ]);
            let runs: Vec<Value> = serde_json::from_str(&json).unwrap();
            let shape: Vec<_> =
                runs.iter().map(|r| (r["policy"].as_str().unwrap(), r["cache_bytes"].as_u64().unwrap())).collect();
            let (one, two) = (1 << 20, 2 << 20);
            assert_eq!(shape, [("lru", one), ("lru", two), ("lb-clock", one), ("lb-clock", two)]);
            for run in &runs {
                let count = |name: &str| run[name].as_u64().unwrap_or_else(|| panic!("{name} in {run}"));
                assert_eq!(count("accesses"), count("read_pages") + count("write_pages"));
                assert_eq!(count("hits"), count("read_hits") + count("write_hits"));
                assert_eq!(count("misses"), count("accesses") - count("hits"));
                assert_eq!(count("requests"), count("read_requests") + count("write_requests"));
                for name in ["evictions", "drain_evictions", "dirty_pages_flushed", "drain_pages_flushed", "pad_reads"]
                {
                    count(name);
                }
                assert_eq!(run["flash_writes"].is_u64(), device != "none");
                assert_eq!(run["gc_invocations"].is_u64(), device == "ssd");
                assert_eq!(ops == "writes", count("read_requests") == 0);
            }
        }
    }
}

#[test]
fn the_schema_names_every_field_and_no_other() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let schema: Value = serde_json::from_str(&quietly(&["schema", "--json"])).unwrap();
    let mut documented = BTreeSet::new();
    collect_schema(&schema, "", &mut documented);
    let mut seen = BTreeSet::new();
    let policies = [
        ("none", "lru"),
        ("analytic", "fab"),
        ("ssd", "gcar+lru"),
        ("none", "fifo"),
        ("none", "2q:in=30:out=60"),
        ("analytic", "arc"),
        ("ssd", "s3-fifo:small=20:ghost=80"),
        ("ssd", "gcar+arc"),
    ];
    for (device, policy) in policies {
        // Only chosen sizes say how they were chosen.
        let cache = if policy == "fifo" { "auto" } else { "1MiB" };
        let mut args =
            vec!["sim", "--trace", text(&trace), "--device", device, "--policy", policy, "--cache", cache, "--json"];
        if device == "ssd" {
            // Small enough to collect.
            args.extend([
                "--per-volume",
                "--ssd.model=classic",
                "--ssd.elements=1",
                "--ssd.planes=1",
                "--ssd.blocks-per-plane=128",
            ]);
        }
        let json = quietly(&args);
        collect_fields(&serde_json::from_str(&json).unwrap(), "", &mut seen);
    }
    let missing: Vec<_> = documented.symmetric_difference(&seen).collect();
    assert!(missing.is_empty(), "documented and not seen, or seen and not documented: {missing:?}");
}

#[test]
fn the_locality_of_a_trace_is_shown_and_its_schema_names_every_field() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let schema: Value = serde_json::from_str(&quietly(&["schema", "--locality", "--json"])).unwrap();
    let (mut documented, mut seen) = (BTreeSet::new(), BTreeSet::new());
    collect_schema(&schema, "", &mut documented);
    let stat = |locality: &[&str]| {
        let json = quietly(&[&["trace", "stat", text(&trace), "--json"], locality].concat());
        serde_json::from_str::<Value>(&json).unwrap()[0].clone()
    };
    let writes = stat(&["--locality"]);
    collect_fields(&writes["locality"], "", &mut seen);
    assert_eq!(documented, seen);
    assert_eq!(writes["locality"]["pages"]["touches"], writes["write_page_touches"]);
    assert_eq!(writes["locality"]["pages"]["first_touches"], writes["unique_pages_written"]);
    assert_eq!(stat(&["--locality=both"])["locality"]["pages"]["first_touches"], writes["unique_pages"]);
    assert_eq!(stat(&["--locality=reads"])["locality"]["pages"]["touches"], writes["read_page_touches"]);
    assert!(stat(&[]).get("locality").is_none(), "only where it is asked for");
}

#[test]
fn statistics_say_what_the_columns_were_taken_for() {
    let folder = temporary();
    let trace = folder.path().join("trace.csv");
    fs::write(&trace, "1.5,7,W,2,8\n2.5,7,R,2,8\n").unwrap();
    let described = "columns:ts=ms,dev,op(R=R,W=W),off=pages4k,len=sectors";
    let stat = |format: &str| quietly(&["trace", "stat", text(&trace), "--format", format]);
    assert!(stat(described).contains(&format!("read as {described}\n")), "{}", stat(described));
    fs::write(&trace, "128166372003061629,hm,0,Read,8192,4096,413\n").unwrap();
    assert!(stat("msr").contains("read as filetime (100 ns),"), "{}", stat("msr"));
}

/// Statistics have units as results do, and what both have is called the same.
#[test]
fn the_statistics_of_a_trace_are_explained_field_by_field() {
    let folder = temporary();
    let trace = folder.path().join("trace.csv");
    // Two volumes, and a request of no whole sectors. Its response times are not latencies of a device.
    let lines = "128166372003061629,hm,0,Read,8192,4096,413\n128166372013061629,hm,1,Write,4096,16384,1003\n\
                 128166372013071629,hm,1,Write,20480,100,1003\n";
    fs::write(&trace, lines).unwrap();
    let stat: Value =
        serde_json::from_str(&quietly(&["trace", "stat", text(&trace), "--format", "msr", "--json"])).unwrap();
    let (mut documented, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let schema: Value = serde_json::from_str(&quietly(&["schema", "--stat", "--json"])).unwrap();
    collect_schema(&schema, "", &mut documented);
    collect_fields(&stat[0], "", &mut seen);
    assert!(documented.contains("latency_ns.p99_9") && stat[0]["latency_ns"].is_null());
    documented.retain(|name| !name.starts_with("latency_ns."));
    assert_eq!(documented, seen);
    let number = |name: &str| stat[0][name].as_f64().unwrap_or_else(|| panic!("{name} in {stat}"));
    let near = |name: &str, value: f64| assert!((number(name) - value).abs() < 1e-9 * value.max(1.0), "{name}: {stat}");
    near("read_share", 1.0 / 3.0);
    near("mean_read_bytes", 4096.0);
    near("mean_write_bytes", 8242.0);
    near("duration_ns", 1_001_000_000.0);
    near("sequential_share", 1.0 / 3.0);
    near("sector_misaligned_requests", 1.0);
    assert_eq!(stat[0]["write_size_shares"], serde_json::json!([0.5, 0.5, 0.0, 0.0]));
    assert_eq!(stat[0]["by_volume"][0]["traffic_share"].as_f64().map(|share| (share * 1e4).round()), Some(8010.0));
    // A name with a unit has that unit.
    for field in schema.as_array().unwrap() {
        let (name, unit) = (field["name"].as_str().unwrap(), field["unit"].as_str().unwrap());
        for (end, wanted) in [("_bytes", "B"), ("_share", "1"), ("_shares", "1"), ("_requests", "1")] {
            assert!(!name.ends_with(end) || unit == wanted, "{name} in {unit}");
        }
        assert!(!name.contains("percent") && !name.contains("kib") && unit != "%", "{name} in {unit}");
        assert!(unit != "ns" || name.ends_with("_ns"), "{name}");
    }
    // What results tell of a trace has the same names, or the same with the unit.
    let json = quietly(&["schema", "--json"]);
    let fields: Value = serde_json::from_str(&json).unwrap();
    let named = |fields: &Value, name: &str| {
        let found = fields.as_array().unwrap().iter().find(|field| field["name"] == name);
        found.unwrap_or_else(|| panic!("{name}"))["fields"].clone()
    };
    let known = named(&named(&fields, "input"), "characteristics");
    for field in known.as_array().unwrap() {
        let name = field["name"].as_str().unwrap();
        assert!(documented.contains(name) || documented.contains(&format!("{name}_ns")), "{name}");
    }
}

/// Names of flags that were other names once.
#[test]
fn flags_have_one_name_and_keep_their_old_one() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let head = |flag: &str| quietly(&["trace", "head", text(&trace), flag, "3"]);
    assert!(head("--limit").lines().count() == 4);
    assert_eq!([head("--count"), head("-n")], [head("--limit"), head("--limit")]);
    for (command, new, old) in [("head", "--limit", "--count"), ("record", "--limit", "--requests")] {
        let help = quietly(&["trace", command, "--help"]);
        assert!(help.contains(new) && !help.contains(old), "{help}");
    }
    let refusal = refused(&["trace", "record", "/dev/null", "-", "--requests", "0"]);
    assert!(refusal.contains("--limit 0: at least 1"), "{refusal}");
}

fn collect_schema(fields: &Value, prefix: &str, into: &mut BTreeSet<String>) {
    for field in fields.as_array().into_iter().flatten() {
        let full = format!("{prefix}{}", field["name"].as_str().unwrap());
        assert!(!field["unit"].as_str().unwrap().is_empty() && !field["meaning"].as_str().unwrap().is_empty());
        collect_schema(&field["fields"], &format!("{full}."), into);
        into.insert(full);
    }
}

fn collect_fields(value: &Value, prefix: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_fields(item, prefix, into)),
        Value::Object(object) => {
            for (name, value) in object {
                into.insert(format!("{prefix}{name}"));
                collect_fields(value, &format!("{prefix}{name}."), into);
            }
        }
        _ => {}
    }
}

#[test]
fn results_are_the_same_bytes_every_time_and_with_any_number_of_threads() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    for form in ["--json", "--csv"] {
        let run = |extra: &[&str]| {
            let base = ["sim", "--trace", text(&trace), "--device", "ssd", "--cache", "1MiB,2MiB", form];
            quietly(&[base.as_slice(), extra].concat())
        };
        let first = run(&["--threads", "1"]);
        assert_eq!(first, run(&["--threads", "1"]));
        assert_eq!(first, run(&["--threads", "3"]));
        assert_eq!(first, run(&["--memory", "10MiB"]));
        assert!(first.len() > 1000);
    }
}

#[test]
fn every_flag_is_a_key() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let scenario = folder.path().join("scenario.toml");
    fs::write(
        &scenario,
        "trace = \"small.spc\"\npolicy = [\"fab\", \"bplru:padding=never\"]\ncache = [\"1MiB\"]\ndevice = \"ssd\"\n\
         start = \"aged:0.5:7\"\nhost = \"closed:4\"\n\n[ssd]\nmodel = \"classic\"\nelements = 2\nsummary-page = false\nreserve = \"20%\"\n\
         transfer = 2.5\n",
    )
    .unwrap();
    let by_file = quietly(&["sim", "--scenario", text(&scenario), "--csv"]);
    let by_flags = quietly(&[
        "sim",
        "--trace",
        text(&trace),
        "--policy",
        "fab",
        "--policy",
        "bplru:padding=never",
        "--cache",
        "1MiB",
        "--device",
        "ssd",
        "--start",
        "aged:0.5:7",
        "--host",
        "closed:4",
        "--ssd.elements",
        "2",
        "--ssd.model=classic",
        "--ssd.summary-page=false",
        "--ssd.reserve",
        "20%",
        "--ssd.transfer",
        "2.5",
        "--csv",
    ]);
    assert_eq!(by_file, by_flags);
    let overridden =
        quietly(&["sim", "--scenario", text(&scenario), "--set", "policy=lru", "--cache", "2MiB", "--csv"]);
    let rows: Vec<_> = overridden.lines().skip(1).collect();
    assert!(rows.len() == 1 && rows[0].starts_with("lru,reads=cache,2097152,"), "{overridden}");
}

#[test]
fn wrong_settings_are_refused_with_place_and_remedy() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let scenario = folder.path().join("wrong.toml");
    let with_scenario = |content: &str| {
        fs::write(&scenario, content).unwrap();
        refused(&["sim", "--scenario", text(&scenario)])
    };
    let message = with_scenario("trace = \"small.spc\"\n\ncahce = \"1MiB\"\n");
    assert!(message.contains("wrong.toml, line 3") && message.contains("did you mean 'cache'"), "{message}");
    let message = with_scenario("trace = \"small.spc\"\npage = \"5KiB\"\n");
    assert!(message.contains("5120 B is not a power of two"), "{message}");
    let message = with_scenario("trace = \"small.spc\"\ncache = [\"1MiB\", \"big\"]\n");
    assert!(message.contains("wrong.toml, line 2") && message.contains("'big': a number of bytes"), "{message}");
    let message = with_scenario("trace = \n");
    assert!(message.contains("wrong.toml, line 1"), "{message}");
    let message = with_scenario("[sdd]\nplanes = 3\n");
    assert!(message.contains("there is no table [sdd]"), "{message}");

    let sim = |args: &[&str]| refused(&[["sim", "--trace", text(&trace)].as_slice(), args].concat());
    assert!(sim(&["--policy", "lirs"]).contains("'lirs' is not known; the policies are: none, lru"));
    assert!(sim(&["--policy", "fab:padding=always"]).contains("no parameter 'padding'; it has reads, protect_current"));
    assert!(sim(&["--policy", "bplru:padding=2"]).contains("padding = '2' is not"));
    assert!(sim(&["--cache", "100"]).contains("cache = 100 B is not a multiple of the page (4096 B)"));
    assert!(sim(&["--device", "tape"]).contains("--device = 'tape': one of none, analytic, ssd"));
    assert!(sim(&["--ssd.planes", "4"]).contains("'ssd.planes' has no meaning for device = none"));
    assert!(sim(&["--device", "ssd", "--ssd.model", "classic", "--ssd.reserve", "5%"]).contains("raise ssd.reserve"));
    assert!(sim(&["--warmup", "1h"]).contains("warmup: the trace ends within it"));
    assert!(sim(&["--set", "warmup"]).contains("write KEY=VALUE"));
    assert!(sim(&["--json", "--csv"]).contains("cannot both go to the standard output"));
    assert!(refused(&["sim"]).contains("give --trace FILE"));
    let missing = refused(&["sim", "--trace", text(&folder.path().join("absent"))]);
    assert!(missing.contains("absent"), "{missing}");
}

#[test]
fn sizes_and_names_are_understood_as_people_write_them() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let sim = |args: &[&str]| quietly(&[&["sim", text(&trace), "--json"], args].concat());
    let listed = sim(&["--policy", "lb-clock,gcar+lru-wsr", "--cache", "1MiB,64KiB", "--device", "ssd"]);
    assert_eq!(sim(&["--policy", "LB_Clock,GCaR+lruwsr", "--cache", "1m,64kib", "--device", "ssd"]), listed);
    let array = ["--array", "raid5:3", "--cache-device", "ssd"];
    let listed =
        sim(&[&array[..], &["--policy", "write-through,ggc+wow", "--device", "ssd", "--cache", "8MiB"]].concat());
    let as_written = ["--policy", "WriteThrough,GGC+wow", "--device", "ssd", "--cache", "8m"];
    assert_eq!(sim(&[&array[..], &as_written].concat()), listed);

    let refuse = |args: &[&str]| refused(&[&["sim", text(&trace)], args].concat());
    assert!(refuse(&["--policy", "lb-clok"]).contains("'lb-clok' is not known; did you mean 'lb-clock'? the policies"));
    assert!(refuse(&["--policy", "gacr+lru"]).contains("there is no layer 'gacr'; did you mean 'gcar'? the layers"));
    assert!(refuse(&["--policy", "writethrough"]).contains("a cache of the host over an array, not a buffer"));
    assert!(refuse(&["--array", "raid5:3", "--policy", "lbclock"]).contains("a buffer inside an SSD"));
    let message = refuse(&["--array", "raid5:3", "--policy", "wirte-back"]);
    assert!(message.contains("'wirte-back' is not known; did you mean 'write-back'? the policies"), "{message}");
    assert!(refuse(&["--format", "mrs"]).contains("there is no format \"mrs\"; did you mean msr? known are"));
    let message = refused(&["sim", "--workload", "exchnage"]);
    assert!(message.contains("there is no workload 'exchnage'; did you mean 'exchange'? give a file"), "{message}");
    // The size is known: it is no multiple of a page.
    assert!(refuse(&["--cache", "1gb"]).contains("cache = 1000000000 B is not a multiple of the page"));
}

/// Lets the user say what *best* means, and marks no winner that chance may have made.
#[test]
fn the_best_is_by_the_objective_and_ties_are_told() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let table = |args: &[&str]| quietly(&[&["sim", "--trace", text(&trace), "--cache", "1MiB"], args].concat());
    for (objective, words) in
        [("mean", "lowest mean response time"), ("erases", "lowest number of erases"), ("hits", "highest hit ratio")]
    {
        let table = table(&["--policy", "none,lru", "--device", "ssd", "--objective", objective]);
        assert!(table.contains(&format!("{words}:")), "{table}");
    }
    // Without reads both do the same.
    let same = table(&["--policy", "none,lru,lru:reads=bypass", "--ops", "writes"]);
    assert!(same.contains("1 MiB  lru, lru:reads=bypass (a tie)\n"), "{same}");
    let message = refused(&["sim", "--trace", text(&trace), "--objective", "speed"]);
    assert!(message.contains("objective") && message.contains("mean, p99, p99.9"), "{message}");
}

#[test]
fn a_malformed_line_is_named_and_can_be_skipped() {
    let folder = temporary();
    let trace = folder.path().join("broken.spc");
    let line = |i: u32| format!("0,{},{},W,0.{i:02}\n", 8 * i, if i == 3 { "many" } else { "4096" });
    fs::write(&trace, (1..=12).map(line).collect::<String>()).unwrap();
    let message = refused(&["sim", "--trace", text(&trace)]);
    assert!(message.contains("broken.spc, line 3") && message.contains("many"), "{message}");
    let output = destage(&["sim", "--trace", text(&trace), "--lenient", "--json"]);
    assert!(output.status.success());
    let runs: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((runs[0]["requests"].as_u64(), runs[0]["input"]["skipped_lines"].as_u64()), (Some(11), Some(1)));
    let skipped = runs[0]["findings"].as_array().unwrap().iter().find(|finding| finding["kind"] == "skipped").unwrap();
    assert!(
        skipped["message"].as_str().unwrap().starts_with("1 lines or records were skipped; the first: "),
        "{skipped}"
    );
}

#[test]
fn conversion_loses_nothing() {
    let folder = temporary();
    let trace = trace_of_volumes(folder.path(), 2);
    let native = folder.path().join("small.destage");
    let output = destage(&["trace", "convert", text(&trace), text(&native)]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("5,000 requests"));
    let head = |path: &Path| quietly(&["trace", "head", text(path), "-n", "6000"]);
    assert_eq!(head(&trace), head(&native));
    assert_eq!(head(&native).lines().count(), 5001);
    let counters = |path: &Path| {
        let csv = quietly(&["sim", "--trace", text(path), "--csv"]);
        csv.replace(text(path), "TRACE").replace(",spc,", ",F,").replace(",native,", ",F,")
    };
    assert_eq!(counters(&trace), counters(&native));
    let stat = |path: &Path| {
        let text = quietly(&["trace", "stat", text(path), "--json"]);
        let mut rows: Value = serde_json::from_str(&text).unwrap();
        let row = rows[0].as_object_mut().unwrap();
        row.remove("file");
        row.remove("format");
        rows
    };
    assert_eq!(stat(&trace), stat(&native));
    assert_eq!(stat(&native)[0]["volumes"], 2);
}

#[test]
fn made_up_traces_are_reproducible() {
    let folder = temporary();
    let make = |name: &str, seed: &str| {
        let path = folder.path().join(name);
        let output = destage(&[
            "trace",
            "synth",
            text(&path),
            "--length",
            "20000",
            "--read",
            "20",
            "--footprint",
            "zipf:1",
            "--seed",
            seed,
        ]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read(path).unwrap()
    };
    assert_eq!(make("a", "1"), make("b", "1"));
    assert_ne!(make("a", "1"), make("c", "2"));
    let message = refused(&["trace", "synth", text(&folder.path().join("d")), "--read", "120"]);
    assert!(message.contains("--read = '120'"), "{message}");
}

#[test]
fn the_lists_are_complete() {
    let policies = quietly(&["policies"]);
    for name in [
        "none",
        "lru",
        "clock",
        "fifo",
        "2q",
        "arc",
        "s3-fifo",
        "fab",
        "bplru",
        "clc",
        "pud-lru",
        "lb-clock",
        "opt_preempt",
        "si_max",
    ] {
        assert!(policies.contains(name), "{name}");
    }
    let formats = quietly(&["trace", "formats"]);
    for name in ["native", "msr", "spc", "blkparse", "fio", "oracle-general", "disksim", "msr-cut", "columns"] {
        assert!(formats.contains(name), "{name}");
    }
}

/// The list says what goes around what; a simulation accepts and refuses the same, for the same
/// reasons.
#[test]
fn layers_go_around_what_the_list_says() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let all: Value = serde_json::from_str(&quietly(&["policies", "--json"])).unwrap();
    let of = |place: &str| all.as_array().unwrap().iter().filter(move |p| p["place"] == place).collect::<Vec<_>>();
    let policies: Vec<_> = of("ssd").iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert!(policies.contains(&"lru") && policies.contains(&"none"));
    for layer in of("layer") {
        let name = layer["name"].as_str().unwrap();
        let around: Vec<_> = layer["around"].as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect();
        assert!(!around.is_empty() && !around.contains(&"none"), "{name}");
        for policy in &policies {
            let spec = format!("{name}+{policy}");
            let device = [
                "--device",
                "ssd",
                "--ssd.model",
                "classic",
                "--ssd.allocation",
                "channels",
                "--cache",
                "1MiB",
                "--limit",
                "10",
                "--json",
            ];
            let args = [["sim", "--trace", text(&trace), "--policy", &spec].as_slice(), &device].concat();
            if around.contains(policy) {
                let runs: Value = serde_json::from_str(&quietly(&args)).unwrap();
                assert_eq!(runs[0]["policy"], *spec);
            } else {
                let message = refused(&args);
                let reason = layer["refused"][policy].as_str().unwrap_or_else(|| panic!("{spec}: no reason"));
                assert_eq!(message.trim(), format!("destage: {reason}"));
            }
        }
    }
}

#[test]
fn the_table_names_the_best_policy() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let table = quietly(&["sim", "--trace", text(&trace), "--device", "ssd", "--cache", "1MiB"]);
    assert!(table.contains("start state steady:1") && table.contains("lowest mean response time:"), "{table}");
    assert!(table.contains("write ampl."));
}

/// Gives what holds nothing one row, in which it competes at every size.
#[test]
fn what_holds_nothing_runs_once() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let sim = |policies, more: &[&str]| {
        let call = ["sim", text(&trace), "--policy", policies, "--cache", "1MiB"];
        quietly(&call.iter().chain(more).copied().collect::<Vec<_>>())
    };
    let table = sim("none,lru", &[]);
    let row = table.lines().find(|line| line.starts_with("none")).unwrap_or_else(|| panic!("{table}"));
    assert_eq!(row.split_whitespace().nth(1), Some("-"), "{table}");
    assert!(table.contains("highest hit ratio:"), "one rival at one size: {table}");
    assert!(!sim("none", &[]).contains("highest hit ratio:"), "nothing to compare");
    let runs: Vec<Value> = serde_json::from_str(&sim("none,lru", &["--cache", "2MiB", "--json"])).unwrap();
    let sizes: Vec<_> = runs.iter().map(|run| run["cache_bytes"].as_u64()).collect();
    assert!(sizes.len() > 1 && sizes[0].is_none() && sizes[1..].iter().all(Option::is_some), "{sizes:?}");
}
