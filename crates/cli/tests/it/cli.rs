//! The binary from outside, as a user meets it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::binary::{destage, quietly, refused};

/// A small mixed trace of one volume in SPC format, from a fixed formula.
fn small_trace(folder: &Path) -> PathBuf {
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

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn text(path: &Path) -> &str {
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
            args.extend(["--per-volume", "--ssd.elements=1", "--ssd.planes=1", "--ssd.blocks-per-plane=128"]);
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
         start = \"aged:0.5:7\"\nhost = \"closed:4\"\n\n[ssd]\nelements = 2\nsummary-page = false\nreserve = \"20%\"\n\
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
    assert!(sim(&["--device", "ssd", "--ssd.reserve", "5%"]).contains("raise ssd.reserve"));
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

/// What *best* means is the user's to say, and what chance may have put apart is no winner.
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
            let device =
                ["--device", "ssd", "--ssd.allocation", "channels", "--cache", "1MiB", "--limit", "10", "--json"];
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
fn a_device_takes_as_many_commands_as_its_queue_is_deep() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let base = [
        "sim",
        "--trace",
        text(&trace),
        "--policy",
        "none",
        "--cache",
        "1MiB",
        "--device",
        "ssd",
        "--ssd.preset",
        "lawc",
        "--start",
        "full",
        "--speed",
        "20",
    ];
    let sim = |args: &[&str]| {
        let runs: Value = serde_json::from_str(&quietly(&[base.as_slice(), &["--json"], args].concat())).unwrap();
        runs[0].clone()
    };
    let (none, one) = (sim(&[]), sim(&["--ssd.queue-depth", "1"]));
    let mean = |run: &Value| run["response"]["all"]["mean"].as_f64().unwrap();
    assert!(mean(&one) > mean(&none), "{} and {}", mean(&one), mean(&none));
    assert_eq!(one["flash_writes"].as_u64().unwrap(), none["flash_writes"]);
    let setting = |run: &Value| {
        run["settings"].as_array().unwrap().iter().find(|s| s["name"] == "ssd.queue-depth").map(|s| s["value"].clone())
    };
    assert_eq!((setting(&none), setting(&one)), (None, Some("1".into())));
    assert_eq!(sim(&["--ssd.queue-depth", "none"])["response"], none["response"]);
    for depth in ["0", "65537", "1.5", "many"] {
        let message = refused(&[base.as_slice(), &["--ssd.queue-depth", depth]].concat());
        assert!(message.contains("none, or a number between 1 and 65536"), "{message}");
    }
}

#[test]
fn room_is_made_for_pages_or_for_requests() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let base = ["sim", "--trace", text(&trace), "--policy", "fab,lb-clock", "--cache", "128KiB"];
    let sim = |args: &[&str]| -> Vec<Value> {
        serde_json::from_str(&quietly(&[base.as_slice(), &["--json"], args].concat())).unwrap()
    };
    let (page, request) = (sim(&[]), sim(&["--admission", "request"]));
    let named = |list: &Value, name: &str| {
        list.as_array().unwrap().iter().find(|s| s["name"] == name).map(|s| s["value"].as_str().unwrap().to_owned())
    };
    for (runs, admission, anchor) in [(&page, "page", "initial_hand"), (&request, "request", "current_hand")] {
        assert_eq!(named(&runs[0]["settings"], "admission").as_deref(), Some(admission));
        assert_eq!(named(&runs[1]["params"], "insert_anchor").as_deref(), Some(anchor));
    }
    for (by_page, by_request) in page.iter().zip(&request) {
        assert_eq!(by_page["accesses"].as_u64().unwrap(), by_request["accesses"]);
        assert_ne!(by_page["evictions"].as_u64().unwrap(), by_request["evictions"]);
    }
    let refusal = |args: &[&str]| refused(&[base.as_slice(), args].concat());
    assert!(refusal(&["--admission", "block"]).contains("--admission = 'block': one of page, request"));
    let protected = refusal(&["--admission", "request", "--policy", "fab:protect_current=true"]);
    assert!(protected.contains("policy 'fab' has no page to protect the block of"), "{protected}");
    let array = ["sim", "--trace", text(&trace), "--array", "raid5:3", "--policy", "none", "--admission", "request"];
    assert!(refused(&array).contains("'admission' has no meaning for an array"));
}

#[test]
fn channels_are_an_allocation_of_the_ssd() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let sim = |args: &[&str]| {
        let base = ["sim", "--trace", text(&trace), "--policy", "lru", "--cache", "1MiB", "--device", "ssd", "--json"];
        let runs: Value = serde_json::from_str(&quietly(&[base.as_slice(), args].concat())).unwrap();
        runs[0].clone()
    };
    let cawr = sim(&["--ssd.preset", "cawr", "--start", "random"]);
    assert_eq!(cawr["start_state"], "random:1");
    let ssd = &cawr["ssd"];
    assert_eq!((ssd["elements"].as_array().unwrap().len(), ssd["raw_pages"].as_u64()), (4, Some(1 << 20)));
    assert_eq!((ssd["summary_programs"].as_u64(), ssd["redirected_programs"].as_u64()), (Some(0), Some(0)));
    assert!(ssd["cv_writes"].as_f64().unwrap() < 0.001 && ssd["cv_reads_with_moves"].is_f64());
    let lawc = sim(&["--ssd.allocation", "channels", "--start", "random:9"]);
    let setting = |run: &Value| {
        run["settings"].as_array().unwrap().iter().find(|s| s["name"] == "ssd.allocation").map(|s| s["value"].clone())
    };
    assert_eq!((&lawc["start_state"], setting(&lawc)), (&Value::from("random:9"), Some("channels".into())));
    assert_ne!(lawc["ssd"]["elements"], sim(&["--start", "random:9"])["ssd"]["elements"]);

    let refusal =
        |args: &[&str]| refused(&[["sim", "--trace", text(&trace), "--device", "ssd"].as_slice(), args].concat());
    let channels = ["--ssd.allocation", "channels"];
    let with = |args: &[&'static str]| refusal(&[channels.as_slice(), args].concat());
    assert!(
        with(&["--ssd.copy-back"]).contains("ssd.allocation = channels gives each element one: choose one of them")
    );
    assert!(with(&["--ssd.stride", "64"]).contains("ssd.stride = 64 has no meaning with ssd.allocation = channels"));
    assert!(refusal(&["--ssd.allocation", "dynamic"]).contains("one of static, channels"));
    for start in ["random:", "random:x", "randomly", "steady:", "steady:x"] {
        assert!(refusal(&["--start", start]).contains("full, empty, random[:SEED], steady[:SEED], or aged"), "{start}");
    }
    let none = refused(&["sim", "--trace", text(&trace), "--ssd.allocation", "channels"]);
    assert!(none.contains("'ssd.allocation' has no meaning for device = none"), "{none}");
}

/// Without a device, and on a compacted one, blocks are numbered by first touch; what follows a
/// page is a matter of addresses nevertheless (specs §6.4).
#[test]
fn cawr_goes_by_addresses_with_and_without_a_device() {
    let folder = temporary();
    let trace = folder.path().join("borders.spc");
    // Blocks of 16 pages; the first of each touched in another order than that of addresses, then
    // runs across their borders.
    let trace_of = |blocks: u64, apart: u64| {
        let address = |page: u64| (page / 16 * apart * 16 + page % 16) * 8;
        let mut text = String::new();
        let mut x = 1_u64;
        for i in 0..4000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (page, op) = match i {
                _ if i < blocks => (i * 7 % blocks * 16, 'R'),
                _ => ((x >> 33) % (blocks * 16 - 40), if x >> 60 < 4 { 'R' } else { 'W' }),
            };
            let pages = if i < blocks || x >> 40 & 1 == 1 { 1 } else { 1 + (x >> 50) % 40 };
            for page in page..page + pages {
                writeln!(text, "0,{},4096,{op},{}.{:06}", address(page), i / 10, i % 10 * 100_000).unwrap();
            }
        }
        fs::write(&trace, text).unwrap();
    };
    let counters = ["hits", "evictions", "dirty_pages_flushed", "clean_drops", "memory_accesses", "drain_evictions"];
    let sim = |device: &[&str]| {
        let base = ["sim", "--trace", text(&trace), "--cache", "256KiB", "--pages-per-block", "16", "--json"];
        let policies = ["--policy", "cawr,cawr:cawr_seq=any,cawr:cdl_max=16"];
        let runs: Value = serde_json::from_str(&quietly(&[base.as_slice(), &policies, device].concat())).unwrap();
        let runs = runs.as_array().unwrap().iter();
        runs.map(|run| counters.map(|name| run[name].as_u64().unwrap_or_else(|| panic!("{name}")))).collect::<Vec<_>>()
    };
    let ssd = ["--device", "ssd", "--ssd.preset", "cawr", "--ssd.blocks-per-plane", "64"];
    let compact = [ssd.as_slice(), &["--lba-overflow", "compact"]].concat();
    trace_of(41, 1);
    let by_address = sim(&ssd);
    assert_eq!(sim(&[]), by_address);
    assert_eq!(sim(&compact), by_address);
    // With a gap behind each block no page follows the last one of a block.
    trace_of(41, 2);
    let gaps = sim(&ssd);
    assert_eq!(sim(&[]), gaps);
    assert_eq!(sim(&compact), gaps);
    for (run, other) in by_address.iter().zip(&gaps) {
        assert_ne!(run, other);
    }
}

#[test]
fn log_blocks_are_a_layer_of_the_ssd() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let sim = |args: &[&str]| {
        let base =
            ["sim", "--trace", text(&trace), "--cache", "1MiB", "--device", "ssd", "--ssd.preset", "lawc", "--json"];
        let runs: Value = serde_json::from_str(&quietly(&[base.as_slice(), args].concat())).unwrap();
        runs
    };
    let count = |run: &Value, name: &str| run["ssd"][name].as_u64().unwrap_or_else(|| panic!("{name} in {run}"));
    let policies = ["--policy", "none,bplru,bplru:padding=never"];
    // The trace overwrites the first of the device's blocks; log blocks enough for all of them
    // would never be merged.
    let few = ["--ssd.log-blocks", "4"];
    for ftl in ["bast", "fast"] {
        let runs = sim(&[policies.as_slice(), &few, &["--ssd.ftl", ftl]].concat());
        let merges = |i: usize| ["switch_merges", "partial_merges", "full_merges"].map(|name| count(&runs[i], name));
        assert!(merges(0)[2] > 0 && merges(2)[2] > 0, "{ftl}: {:?}, {:?}", merges(0), merges(2));
        assert!(merges(1)[0] > 0 && merges(1)[1..] == [0, 0], "{ftl}: {:?}", merges(1));
        assert_eq!((count(&runs[0], "log_blocks"), count(&runs[0], "summary_programs")), (16, 0));
        let settings = runs[0]["settings"].as_array().unwrap();
        assert!(settings.iter().any(|s| s["name"] == "ssd.ftl" && s["value"] == ftl), "{settings:?}");
    }
    let page = sim(&["--policy", "none"]);
    assert!(page[0]["ssd"]["full_merges"].is_null() && page[0]["ssd"]["log_blocks"].is_null());
    assert_eq!(page, sim(&["--policy", "none"]));
    assert_eq!(sim(&["--policy", "none", "--ssd.ftl", "page"])[0]["ssd"], page[0]["ssd"]);
    // The table shows merges where there are any to show.
    for (ftl, has_merges) in [("bast", true), ("page", false)] {
        let base = [
            "sim",
            "--trace",
            text(&trace),
            "--cache",
            "1MiB",
            "--device",
            "ssd",
            "--ssd.preset",
            "lawc",
            "--policy",
            "none",
        ];
        let table = quietly(&[base.as_slice(), &["--ssd.ftl", ftl]].concat());
        assert!(table.contains("full merges") == has_merges, "{table}");
    }
    // Channels, with the layers that choose them.
    let channels = ["--ssd.ftl", "bast", "--ssd.allocation", "channels", "--start", "aged:0.1"];
    for run in sim(&[channels.as_slice(), &["--policy", "cave+bplru,cawr+fab"]].concat()).as_array().unwrap() {
        assert!(count(run, "host_programs") > 0, "{run}");
    }
    // Members of an array can be that too.
    let array = ["--array", "raid5:3", "--policy", "none", "--ssd.ftl", "fast", "--limit", "500"];
    let base = ["sim", "--trace", text(&trace), "--device", "ssd", "--json"];
    let members: Value = serde_json::from_str(&quietly(&[base.as_slice(), &array].concat())).unwrap();
    assert!(members[0]["devices"][0]["flash_writes"].as_u64().unwrap() > 0);

    let refusal = |args: &[&str]| {
        refused(
            &[["sim", "--trace", text(&trace), "--device", "ssd", "--ssd.preset", "lawc"].as_slice(), args].concat(),
        )
    };
    let bast = |args: &[&'static str]| refusal(&[["--ssd.ftl", "bast"].as_slice(), args].concat());
    assert!(refusal(&["--ssd.ftl", "dftl"]).contains("--ssd.ftl = 'dftl': one of page, bast, fast"));
    assert!(refusal(&["--ssd.log-blocks", "4"]).contains("has no meaning with ssd.ftl = page"));
    assert!(bast(&["--ssd.log-blocks", "1000"]).contains("ssd.log-blocks = 1000 is not between 1 and 303"));
    assert!(bast(&["--ssd.copy-back"]).contains("ssd.copy-back = true has no meaning with ssd.ftl = bast"));
    assert!(bast(&["--ssd.summary-page"]).contains("ssd.summary-page = true has no meaning"));
    assert!(bast(&["--ssd.min-free", "3%"]).contains("'ssd.min-free' has no meaning with ssd.ftl = bast"));
    assert!(bast(&["--ssd.stride", "32"]).contains("give a multiple of pages-per-block"));
    assert!(bast(&["--policy", "cave+bplru"]).contains("set ssd.allocation = channels"));
}

#[test]
fn the_table_names_the_best_policy() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let table = quietly(&["sim", "--trace", text(&trace), "--device", "ssd", "--cache", "1MiB"]);
    assert!(table.contains("start state steady:1") && table.contains("lowest mean response time:"), "{table}");
    assert!(table.contains("write ampl."));
}

/// What holds nothing has one row, and competes at every size.
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

#[test]
fn an_ssd_fits_the_trace_unless_told_otherwise() {
    let folder = temporary();
    let dense = small_trace(folder.path());
    let sim = |trace: &Path, args: &[&str]| {
        let base = ["sim", "--trace", text(trace), "--cache", "1MiB", "--policy", "lru", "--device", "ssd", "--json"];
        let runs: Value = serde_json::from_str(&quietly(&[base.as_slice(), args].concat())).unwrap();
        runs[0].clone()
    };
    let setting = |run: &Value, name: &str| {
        let settings = run["settings"].as_array().unwrap();
        let found = settings.iter().find(|setting| setting["name"] == name);
        found.map(|setting| setting["value"].as_str().unwrap().to_owned())
    };
    let bytes = |run: &Value| run["ssd"]["host_pages"].as_u64().unwrap() * 4096;
    // 20 MB of addresses, of which it touches most.
    let fitted = sim(&dense, &[]);
    assert!(fitted["start_state"] == "steady:1" && fitted["ssd"]["start_overwrites"].as_f64() >= Some(2.0));
    assert_eq!(setting(&fitted, "lba-overflow").as_deref(), Some("wrap"));
    assert!((20_000_000..100_000_000).contains(&bytes(&fitted)), "{}", bytes(&fitted));
    assert!(fitted["gc_invocations"].as_u64() > Some(0));
    // What was chosen is told, and gives the same.
    let blocks = setting(&fitted, "ssd.blocks-per-plane").expect("its size is told");
    let again = sim(&dense, &["--ssd.blocks-per-plane", &blocks, "--lba-overflow", "wrap", "--start", "steady:1"]);
    for figures in ["ssd", "response", "input"] {
        assert!(again[figures] == fitted[figures], "{figures}");
    }
    assert!(sim(&dense, &["--ssd.capacity", "fit"]) == fitted);

    // The same, but every other block lies a gibibyte further on.
    let far = folder.path().join("far.spc");
    let lines = fs::read_to_string(&dense).unwrap();
    let moved = lines.lines().map(|line| {
        let mut fields = line.split(',').map(str::to_owned).collect::<Vec<_>>();
        let lba: u64 = fields[1].parse().unwrap();
        fields[1] = (lba + lba / 512 % 2 * (1 << 21)).to_string();
        fields.join(",") + "\n"
    });
    fs::write(&far, moved.collect::<String>()).unwrap();
    let sparse = sim(&far, &[]);
    assert_eq!(setting(&sparse, "lba-overflow").as_deref(), Some("compact"));
    assert!(sparse["input"]["overflowed_requests"] == 0 && bytes(&sparse) < 100_000_000, "{}", bytes(&sparse));

    // A size, and the preset's.
    let large = sim(&dense, &["--ssd.capacity", "300MiB"]);
    assert!((300 << 20..310 << 20).contains(&bytes(&large)), "{}", bytes(&large));
    for keys in [["--ssd.capacity", "preset"], ["--ssd.preset", "lawc"], ["--lba-overflow", "compact"]] {
        assert_eq!(bytes(&sim(&dense, &keys)), 439_488 * 4096, "{keys:?}");
    }

    // A drive fits, too, with all that is its own, and as a whole it needs more memory than there is by default.
    let drive = sim(&dense, &["--ssd.preset", "850evo"]);
    assert!(bytes(&drive) < 250 << 20 && drive["start_state"] == "steady:1", "{}", bytes(&drive));
    assert_eq!(drive["ssd"]["elements"].as_array().map(Vec::len), Some(16));
    let blocks = setting(&drive, "ssd.blocks-per-plane").expect("its size is told");
    let again = sim(&dense, &["--ssd.preset", "850evo", "--ssd.blocks-per-plane", &blocks]);
    assert!(again["ssd"] == drive["ssd"] && again["response"] == drive["response"]);
    let still = sim(&dense, &["--ssd.preset", "850evo", "--ssd.allocation", "static"]);
    assert_eq!(bytes(&still), bytes(&drive), "what a preset says of channels goes with them");

    let refusal =
        |args: &[&str]| refused(&[["sim", "--trace", text(&dense), "--device", "ssd"].as_slice(), args].concat());
    let whole = refusal(&["--ssd.preset", "850evo", "--ssd.capacity", "preset", "--memory", "100MB"]);
    assert!(whole.contains("raise memory, or give a smaller ssd.capacity"), "{whole}");
    assert!(
        refusal(&["--ssd.preset", "860evo"]).contains("one of lawc, gcar, cawr, 80gb, pm9a3, 980pro, 850evo, p4320")
    );
    assert!(refusal(&["--ssd.idle-first"]).contains("has no meaning with ssd.allocation = static"));
    let capacity = |size| refusal(&["--ssd.capacity", size]);
    assert!(capacity("0").contains("a size such as 512GiB, fit or preset"));
    assert!(capacity("large").contains("a size such as 512GiB, fit or preset"));
    assert!(capacity("100TiB").contains("raw pages are more than 2^32 - 2"));
    let both = ["--ssd.blocks-per-plane", "64"];
    assert!(refusal(&[["--ssd.capacity", "fit"], both].concat()).contains("leave one of them out"));
    assert!(refusal(&[["--ssd.capacity", "1GiB"], both].concat()).contains("leave one of them out"));
    let of_array = refusal(&["--ssd.capacity", "fit", "--array", "raid5:3", "--ssd.blocks-per-plane", "64"]);
    assert!(of_array.contains("'ssd.blocks-per-plane' has no meaning with ssd.capacity = fit"), "{of_array}");
    let reserve = refusal(&["--ssd.capacity", "1GiB", "--ssd.reserve", "1%"]);
    assert!(reserve.contains("raise ssd.reserve"), "{reserve}");
    assert!(refused(&["sim", "--trace", "-", "--device", "ssd", "--ssd.capacity", "fit"]).contains("only once"));
}
