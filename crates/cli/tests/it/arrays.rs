//! `destage sim --array` from outside.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::binary::{command, destage, quietly, refused};

/// A small trace of one volume in SPC format, from a fixed formula: reads and writes of 4 to 32 KiB
/// in 32 MiB, 25 a second.
fn small_trace(folder: &Path) -> PathBuf {
    let path = folder.join("small.spc");
    let mut text = String::new();
    let mut x = 1_u64;
    for i in 0..1000_u64 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let lba = (x >> 33) % 8_000 * 8;
        let bytes = 4096 * (1 + (x >> 20) % 8);
        let op = if x >> 60 < 8 { 'R' } else { 'W' };
        writeln!(text, "0,{lba},{bytes},{op},{}.{:06}", i / 25, i % 25 * 40_000).unwrap();
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

fn collect_schema(fields: &Value, prefix: &str, into: &mut BTreeSet<String>) {
    for field in fields.as_array().into_iter().flatten() {
        let full = format!("{prefix}{}", field["name"].as_str().unwrap());
        assert!(!field["meaning"].as_str().unwrap().is_empty() && !field["unit"].as_str().unwrap().is_empty());
        collect_schema(&field["fields"], &format!("{full}."), into);
        assert!(into.insert(full.clone()), "{full} is there twice");
    }
}

/// Names of all fields that a result has, those of lists once. `saturated` has no documented
/// fields.
fn collect_result(value: &Value, prefix: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let full = format!("{prefix}{name}");
                if name != "saturated" {
                    collect_result(value, &format!("{full}."), into);
                }
                into.insert(full);
            }
        }
        Value::Array(items) => {
            for item in items {
                collect_result(item, prefix, into);
            }
        }
        _ => {}
    }
}

/// Runs of `none` and `ggc+none` over small SSDs that have to collect.
fn over_ssds(array: &str, more: &[&str]) -> Vec<Value> {
    let mut arguments =
        vec!["sim", "--workload", "exchange", "--limit", "4000", "--lba-overflow", "wrap", "--array", array];
    arguments.extend(["--chunk", "16KiB", "--device", "ssd", "--ssd.model", "classic", "--ssd.elements", "2"]);
    arguments.extend(["--ssd.planes", "1"]);
    arguments.extend(["--ssd.blocks-per-plane", "64", "--ssd.reserve", "20", "--json"]);
    // As the paper has it: each collects as much as the one that begins.
    arguments.extend(["--policy", "none,ggc+none:quota=same"]);
    arguments.extend(more);
    // It warns that most requests are wrapped.
    let output = destage(&arguments);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn ssds_that_are_told_to_collect_together_do() {
    for array in ["raid0:4", "raid5:4"] {
        let runs = over_ssds(array, &[]);
        let [alone, together] = &runs[..] else { panic!("two runs") };
        assert_eq!((alone["policy"].as_str(), together["policy"].as_str()), (Some("none"), Some("ggc+none")));
        let mean = |run: &Value, which: &str| run["collections"]["overlap"][which].as_f64().unwrap();
        for which in ["mean_collecting", "mean_together"] {
            assert!(mean(together, which) > 1.2 * mean(alone, which), "{array} {which}: {together}");
        }
        assert_eq!(alone["collections"]["reactive_rounds"], Value::Null);
        assert!(together["collections"]["reactive_rounds"].as_u64().unwrap() > 0);
        let orders =
            |run: &Value| run["devices"].as_array().unwrap().iter().map(|d| d["collects"].as_u64().unwrap()).sum();
        assert_eq!((orders(alone), Some(orders(together))), (0_u64, together["steps"]["collect"].as_u64()));
    }
    let error = refused(&["sim", "--workload", "exchange", "--array", "raid5:4", "--policy", "ggc+none"]);
    assert!(error.contains("a member that is a disk device cannot be told to; use device = ssd"), "{error}");
    assert!(quietly(&["policies"]).contains("ggc"));
}

/// The terminal tells of them where there are any.
#[test]
fn tables_tell_what_collections_mean() {
    let mut arguments = vec!["sim", "--workload", "exchange", "--limit", "4000", "--lba-overflow", "wrap"];
    arguments.extend(["--array", "raid5:4", "--chunk", "16KiB"]);
    let table = |more: &[&str]| {
        let output = destage(&[&arguments[..], more].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("output is UTF-8")
    };
    let ssd = [
        "--device",
        "ssd",
        "--ssd.model",
        "classic",
        "--ssd.elements",
        "2",
        "--ssd.planes",
        "1",
        "--ssd.blocks-per-plane",
        "64",
    ];
    let told = table(&[&ssd[..], &["--ssd.reserve", "20", "--policy", "none,ggc+none:quota=same"]].concat());
    let heading = ["collecting", "together", "erases", "moved"];
    let lines: Vec<_> = told.lines().collect();
    let at = lines.iter().position(|line| heading.iter().all(|word| line.contains(word))).expect("a table of its own");
    assert!(lines[at + 1].starts_with("none") && lines[at + 2].starts_with("ggc+none"), "{told}");
    // Members that are told to collect together do so in more company.
    let company = |line: &str| line.split_whitespace().nth(2).unwrap().trim_end_matches('*').parse::<f64>().unwrap();
    assert!(company(lines[at + 2]) > company(lines[at + 1]), "{told}");
    let quiet = table(&["--device", "fixed", "--member-size", "64MiB", "--policy", "none"]);
    assert!(!quiet.contains("together"), "{quiet}");
}

#[test]
fn the_schema_names_every_field_and_no_other() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let json = quietly(&[
        "sim",
        "--trace",
        text(&trace),
        "--array",
        "raid5:4",
        "--member-size",
        "16MiB",
        "--policy",
        "none,kdd",
        "--cache",
        "50%",
        "--cache-endurance",
        "600TB",
        "--per-volume",
        "--fail",
        "1@10s",
        "--replace",
        "1@20s",
        "--volumes",
        "merge",
        "--set",
        "disk.spindles=synchronised",
        "--json",
    ]);
    let runs: Vec<Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(runs.len(), 2);
    let mut found = BTreeSet::new();
    // Disks do not collect.
    for run in runs.iter().chain(&over_ssds("raid0:2", &[])) {
        collect_result(run, "", &mut found);
    }
    let schema: Value = serde_json::from_str(&quietly(&["schema", "--array", "--json"])).unwrap();
    let mut documented = BTreeSet::new();
    collect_schema(&schema, "", &mut documented);
    // Nobody flushes or discards here, and no drive keeps streams apart, so those are null.
    let absent = |name: &str| {
        ["response.flush.", "response.discard.", "devices.streams."].iter().any(|prefix| name.starts_with(prefix))
    };
    let documented: BTreeSet<_> = documented.into_iter().filter(|name| !absent(name)).collect();
    let missing: Vec<_> = documented.symmetric_difference(&found).collect();
    assert!(missing.is_empty(), "{missing:?}");
    for run in &runs {
        let failure = &run["degraded"]["failures"][0];
        assert!(failure["rebuild_time"].as_u64().unwrap() > 0);
        assert_eq!(run["counters.failed_requests"], Value::Null);
        assert_eq!(run["failed_requests"], 0);
        assert_eq!(run["settings"].as_array().unwrap().iter().filter(|s| s["name"] == "fail").count(), 1);
    }
    assert!(quietly(&["schema", "--array"]).contains("devices.mean_queue"));
}

#[test]
fn policies_sizes_and_schedulers_are_combined_the_same_on_any_number_of_threads() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let scenario = folder.path().join("array.toml");
    fs::write(
        &scenario,
        "trace = \"small.spc\"\narray = \"raid6:6\"\npolicy = [\"none\", \"write-through\"]\nmember-size = \"16MiB\"\ncache = [\"1MiB\", \"4MiB\"]\n\
         scheduler = [\"fcfs\", \"sptf\"]\nhost = \"closed:8\"\n[disk]\noverhead = \"0.2ms\"\n\
         [nvram]\nwrite = \"2us\"\n",
    )
    .unwrap();
    let call = |threads| quietly(&["sim", "--scenario", text(&scenario), "--threads", threads, "--csv"]);
    let csv = call("1");
    assert_eq!(csv, call("3"));
    let rows: Vec<_> = csv.lines().skip(1).map(|row| row.split(',').collect::<Vec<_>>()).collect();
    let names: Vec<_> = rows.iter().map(|row| (row[0], row[2], row[3])).collect();
    let (one, four) = ("1048576", "4194304");
    let expected = [
        ("none", "", "fcfs"),
        ("none", "", "sptf"),
        ("write-through", one, "fcfs"),
        ("write-through", one, "sptf"),
        ("write-through", four, "fcfs"),
        ("write-through", four, "sptf"),
    ];
    assert_eq!(names, expected);
    let flags = quietly(&[
        "sim",
        "--trace",
        text(&trace),
        "--array=raid6:6",
        "--policy=none,write-through",
        "--member-size=16MiB",
        "--cache=1MiB,4MiB",
        "--scheduler=fcfs,sptf",
        "--host=closed:8",
        "--disk.overhead=0.2ms",
        "--nvram.write=2us",
        "--csv",
    ]);
    assert_eq!(flags, csv);
}

#[test]
fn the_table_of_a_small_run() {
    let folder = temporary();
    small_trace(folder.path());
    let arguments = [
        "sim",
        "--trace",
        "small.spc",
        "--array",
        "raid5:5",
        "--device",
        "fixed",
        "--fixed.read",
        "2ms",
        "--fixed.write",
        "3ms",
        "--member-size",
        "16MiB",
        "--policy",
        "none,write-through",
        "--cache",
        "8MiB",
        "--cache-device",
        "fixed",
    ];
    let output = command(&arguments).current_dir(folder.path()).output().expect("the binary starts");
    assert!(output.status.success() && output.stderr.is_empty());
    let table = String::from_utf8(output.stdout).expect("output is UTF-8");
    assert!(table == include_str!("golden/array_table.txt"), "the table is now\n{table}");
}

/// Caches on a device have tables of what they write, and why, with what was promised meanwhile; those that
/// leave parity for later one of what they owe.
#[test]
fn tables_tell_what_caches_on_a_device_write_and_owe() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let table = |more: &[&str]| {
        let array = ["--array=raid5:5", "--device=fixed", "--member-size=16MiB"];
        quietly(&[&["sim", "--trace", text(&trace)], &array[..], more].concat())
    };
    let kdd = table(&["--policy=write-through,kdd", "--cache=4MiB", "--cache-endurance=600TB", "--regime=every-write"]);
    let row = |headings: &[&str], policy: &str| -> Vec<String> {
        let lines: Vec<_> = kdd.lines().collect();
        let at = lines.iter().position(|line| headings.iter().all(|heading| line.contains(heading)));
        let at = at.unwrap_or_else(|| panic!("no table with {headings:?} in\n{kdd}"));
        let row = lines[at..].iter().find(|line| line.starts_with(policy)).expect("a row for each policy");
        row.split_whitespace().map(str::to_owned).collect()
    };
    let number = |text: &str| text.trim_end_matches('*').replace(',', "").parse::<f64>().expect(text);
    let count = |text: &str| number(text) as u64;
    for policy in ["write-through", "kdd"] {
        let [all, causes] =
            [&["cache writes", "per page", "lifetime"][..], &["fills", "deltas", "metadata", "rewritten"]]
                .map(|headings| row(headings, policy));
        let parts: u64 = causes[3..].iter().map(|cell| count(cell)).sum();
        assert_eq!(parts, count(&all[3]), "{all:?} {causes:?}");
        assert!(all[6].starts_with("years"), "{all:?}");
    }
    row(&["I/Os/page", "delayed", "parity read late"], "kdd");
    let stale = |policy| row(&["parity written late", "stale rows", "most", "stale for", "owed"], policy);
    assert_eq!(stale("write-through")[3..], ["0", "-", "-", "-", "-"]);
    assert!(stale("kdd")[4..6].iter().all(|cell| number(cell) > 0.0), "{:?}", stale("kdd"));
    let flat = kdd.split_whitespace().collect::<Vec<_>>().join(" ");
    let promise = "under regime every-write: every acknowledged write is durable; NVRAM: 1,024 slots of 4 KiB for the array; \
                   beside them for caches: none for write-through, ";
    assert!(flat.contains(promise), "{kdd}");
    let none = table(&["--policy=none"]);
    assert!(!none.contains("NVRAM") && !none.contains("owed") && !none.contains("cache writes"), "{none}");
}

/// The scenario of each of LAWC's figures runs as it stands, if for a moment only, and each is one
/// that the paper's evaluation has as well.
#[test]
fn deltas_are_as_long_as_they_are_said_to_be() {
    let mean = |length: &str| {
        let json = quietly(&[
            "sim",
            "--workload=fio-zipf",
            "--workload-set=length=3000",
            "--array=raid5:5",
            "--device=fixed",
            "--member-size=1GiB",
            "--cache-device=fixed",
            "--policy=kdd,none",
            "--cache=4MiB",
            &format!("--delta.length={length}"),
            "--json",
        ]);
        let runs: Vec<Value> = serde_json::from_str(&json).expect("results are JSON");
        let settings = runs[0]["settings"].as_array().expect("settings");
        let told = settings.iter().find(|setting| setting["name"] == "delta.length").expect("it is told");
        assert_eq!(told["value"], length);
        let figure = |name: &str| runs[0]["cache"][name].as_u64().expect(name);
        figure("staged_bytes") / figure("staged")
    };
    assert_eq!([mean("fixed:12.5%"), mean("fixed:50%")], [512, 2048]);
    let gaussian = mean("gaussian:25%");
    assert!((1000..1050).contains(&gaussian) && mean("gaussian:25%,0%") == 1024, "{gaussian}");
    // The shortest codec's for bytes that lie in runs and one by one.
    let (runs, bytes) = (mean("runs:10%"), mean("bytes:10%"));
    assert!((530..550).contains(&runs) && (910..930).contains(&bytes), "{runs} {bytes}");
}

#[test]
fn the_scenarios_of_lawc_s_figures_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/lawc");
    let mut files: Vec<_> =
        fs::read_dir(&folder).expect("the folder is there").map(|file| file.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 8, "figures 6 to 11, some on two levels");
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let json = quietly(&["sim", "--scenario", text(&file), "--workload-set", "length=60", "--json"]);
        let runs: Vec<Value> = serde_json::from_str(&json).expect("results are JSON");
        let policies: BTreeSet<_> = runs.iter().map(|run| run["policy"].as_str().unwrap()).collect();
        let expected: &[&str] = match &name[..4] {
            "fig6" => &["lawc"],
            "fig7" | "fig9" => &["wow", "iwc", "sync+iwc", "lawc", "ggc+wow"],
            _ => &["wow", "lawc"],
        };
        assert!(expected.iter().all(|policy| policies.contains(policy)), "{name}: {policies:?}");
        let members = if name.contains('b') { 9 } else { 8 };
        let ssds = runs[0]["devices"].as_array().expect("each device is told").len();
        assert_eq!(ssds, members, "{name}");
        assert!(runs.iter().all(|run| run["requests"] == 60), "{name}");
    }
}

#[test]
fn what_cannot_be_is_refused_by_its_key() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let expect = |args: &[&str], parts: &[&str]| {
        let mut all = vec!["sim", "--trace", text(&trace)];
        all.extend(args);
        let message = refused(&all);
        assert!(parts.iter().all(|part| message.contains(part)), "{args:?}: {message}");
    };
    expect(&["--array", "raid5:2"], &["array = raid5:2", "between 3 and 32"]);
    expect(&["--array", "raid7:5"], &["--array = 'raid7:5'", "raid6"]);
    expect(&["--array", "raid5"], &["--array = 'raid5'", "raid5:5"]);
    expect(&["--array", "raid5:5", "--chunk", "0"], &["chunk = 0 B", "multiple of the page"]);
    expect(&["--array", "raid0:5", "--layout", "left-symmetric"], &["layout = left-symmetric", "leave it out"]);
    expect(&["--array", "raid5:5", "--policy", "lru"], &["--policy = 'lru'", "inside an SSD", "write-through"]);
    expect(&["--policy", "write-through"], &["--policy = 'write-through'", "--array"]);
    expect(&["--array", "raid5:5", "--policy", "write-through"], &["write-through", "give cache"]);
    expect(&["--array", "raid5:5", "--policy", "none", "--cache", "1MiB"], &["cache has no meaning", "write-around"]);
    let kdd = ["--array", "raid5:5", "--cache", "1MiB", "--policy", "kdd", "--delta.length"];
    for wrong in ["25%", "gaussian:101%", "gaussian:25%,x", "runs:10%,1%", "fixed", "normal:25%"] {
        expect(&[&kdd[..], &[wrong]].concat(), &["--delta.length", wrong, "gaussian:25%,6.25%", "runs:10%"]);
    }
    expect(&["--array", "raid5:5", "--policy", "none", "--delta.seed", "2"], &["'delta.seed'", "kdd does"]);
    expect(&["--array", "raid5:5", "--cache-device", "disk"], &["'cache-device'", "--cache 1GiB"]);
    let endures = ["--array", "raid5:5", "--cache", "1MiB", "--policy", "kdd", "--cache-endurance"];
    for wrong in ["0", "0TB", "much", "5years"] {
        expect(&[&endures[..], &[wrong]].concat(), &["--cache-endurance", wrong, "600TB"]);
    }
    for policy in ["none", "wow"] {
        let of = ["--array", "raid5:5", "--policy", policy, "--cache-endurance", "600TB"];
        let cache: &[&str] = if policy == "wow" { &["--cache", "1MiB"] } else { &[] };
        expect(&[&of[..], cache].concat(), &["cache-endurance has no meaning", "write-around"]);
    }
    expect(&["--cache-endurance", "600TB"], &["'cache-endurance'", "--array"]);
    expect(&["--array", "raid5:5", "--cache", "1TiB"], &["raise memory, or give a smaller cache"]);
    let lawc = ["--array", "raid5:5", "--cache", "1TiB", "--ssd.preset", "lawc"];
    expect(&lawc, &["cache = 1099511627776 B", "ssd"]);
    expect(&["--array", "raid5:5", "--device", "none"], &["--device = 'none'", "disk, ssd, fixed"]);
    expect(&["--device", "disk"], &["--device = 'disk'", "array"]);
    expect(&["--chunk", "64KiB"], &["'chunk'", "--array"]);
    expect(&["--nvram.write", "1us"], &["'nvram.write'", "--array"]);
    expect(&["--array", "raid5:5", "--device", "fixed", "--lba-overflow", "wrap"], &["member-size is missing"]);
    expect(&["--array", "raid5:5", "--ssd.capacity", "fit"], &["'ssd.capacity' has no meaning", "disk"]);
    expect(&["--array", "raid5:5", "--fixed.read", "1ms"], &["'fixed.read'", "disk"]);
    expect(&["--array", "raid5:5", "--admission", "request"], &["'admission'", "array"]);
    expect(&["--array", "raid5:5", "--member-size", "2TB"], &["member-size = 2000000000000 B", "disk"]);
    expect(&["--array", "raid5:5", "--fail", "soon"], &["--fail = 'soon'", "1@60s"]);
    expect(&["--array", "raid5:5", "--fail", "7@1s"], &["--fail = '7@1s'", "below 5"]);
    expect(&["--array", "raid5:5", "--fail", "5@1s"], &["--fail = '5@1s'", "below 5", "cache"]);
    let tiny = ["--array", "raid5:3", "--member-size", "64KiB", "--lba-overflow", "compact"];
    expect(&tiny, &["lba-overflow = compact", "member-size", "pages-per-block"]);
    expect(&["--array", "raid5:5", "--replace", "1@1s"], &["replace = 1@", "failed by then"]);
    expect(&["--array", "raid5:5", "--scheduler", "elevator"], &["--scheduler = 'elevator'", "clook"]);
    expect(&["--array", "raid5:5", "--disk-profile", "floppy"], &["--disk-profile = 'floppy'", "1tb-7200"]);
    expect(&["--array", "raid5:5", "--disk.seek", "1ms,2ms"], &["'disk.seek'", "three times"]);
    expect(&["--array", "raid5:5", "--disk.rotation", "0"], &["disk.rotation = 0"]);
    expect(&["--array", "raid5:5", "--policy", "write-through:ways=0", "--cache", "1MiB"], &["ways = '0'"]);
}

/// The sectors of a trace in SPC's format, moved.
fn moved(trace: &Path, to: &Path, at: impl Fn(u64) -> u64) {
    let lines = fs::read_to_string(trace).unwrap();
    let moved = lines.lines().map(|line| {
        let mut fields = line.split(',').map(str::to_owned).collect::<Vec<_>>();
        fields[1] = at(fields[1].parse().unwrap()).to_string();
        fields.join(",") + "\n"
    });
    fs::write(to, moved.collect::<String>()).unwrap();
}

#[test]
fn an_array_fits_the_trace_unless_told_otherwise() {
    let folder = temporary();
    let dense = small_trace(folder.path());
    let sim = |trace: &Path, args: &[&str]| {
        let base = ["sim", "--trace", text(trace), "--array", "raid5:5", "--policy", "none", "--json"];
        let runs: Value = serde_json::from_str(&quietly(&[base.as_slice(), args].concat())).unwrap();
        runs.as_array().and_then(|runs| runs.last()).expect("a run").clone()
    };
    let setting = |run: &Value, name: &str| {
        let settings = run["settings"].as_array().unwrap();
        let found = settings.iter().find(|setting| setting["name"] == name);
        found.map(|setting| setting["value"].as_str().unwrap().to_owned())
    };
    let bytes = |run: &Value, of: &str| run["array"][of].as_u64().unwrap();
    let collections = |run: &Value| -> u64 {
        run["devices"].as_array().unwrap().iter().map(|device| device["gc_invocations"].as_u64().unwrap()).sum()
    };
    // 33 MB of addresses, of which it touches most, in whole stripes of four chunks.
    let fitted = sim(&dense, &["--device", "ssd", "--ssd.model", "classic"]);
    assert_eq!((&fitted["start_state"], &fitted["input"]["overflowed_requests"]), (&"steady:1".into(), &0.into()));
    assert!((32_500_000..33_500_000).contains(&bytes(&fitted, "capacity_bytes")), "{}", fitted["array"]);
    assert_eq!(bytes(&fitted, "member_bytes") % (64 << 10), 0);
    assert_eq!(setting(&fitted, "lba-overflow").as_deref(), Some("wrap"));
    assert!(collections(&fitted) > 0, "steady members collect from the first request");
    // What was chosen is told, and gives the same.
    let size = setting(&fitted, "member-size").expect("its size is told");
    assert_eq!(size, bytes(&fitted, "member_bytes").to_string());
    assert_eq!(setting(&fitted, "ssd.capacity").as_deref(), Some("fit"));
    let told = [
        "--device",
        "ssd",
        "--ssd.model",
        "classic",
        "--member-size",
        &size,
        "--ssd.capacity",
        "fit",
        "--start",
        "steady:1",
    ];
    let again = sim(&dense, &told);
    for figures in ["array", "devices", "response", "input"] {
        assert!(again[figures] == fitted[figures], "{figures}");
    }
    assert!(sim(&dense, &["--device", "ssd", "--ssd.model", "classic", "--ssd.capacity", "fit"]) == fitted);
    // Constant times know no size either; disks have theirs.
    let fixed = sim(&dense, &["--device", "fixed"]);
    assert_eq!(bytes(&fixed, "member_bytes"), bytes(&fitted, "member_bytes"));
    let disks = sim(&dense, &[]);
    assert!(bytes(&disks, "member_bytes") > 1_000_000_000_000 && setting(&disks, "member-size").is_none());
    assert_eq!(setting(&disks, "lba-overflow").as_deref(), Some("wrap"));

    // The same, but every other block lies further on: by a gibibyte, and beyond four terabytes of disks.
    let far = folder.path().join("far.spc");
    for (by, devices) in [(1_u64 << 21, ["ssd", "fixed"].as_slice()), (1 << 34, &["disk"])] {
        moved(&dense, &far, |lba| lba + lba / 512 % 2 * by);
        for device in devices {
            let classic: &[&str] = if *device == "ssd" { &["--ssd.model", "classic"] } else { &[] };
            let sparse = sim(&far, &[&["--device", device], classic].concat());
            assert_eq!(setting(&sparse, "lba-overflow").as_deref(), Some("compact"), "{device}");
            assert_eq!(sparse["input"]["overflowed_requests"], 0, "{device}");
            assert!(*device == "disk" || bytes(&sparse, "capacity_bytes") < 60_000_000, "{}", sparse["array"]);
        }
    }

    // A paper's SSDs are as large as in the paper; so are others of which something is said.
    let lawc = sim(&dense, &["--device", "ssd", "--ssd.preset", "lawc", "--start", "full"]);
    assert_eq!(bytes(&lawc, "member_bytes"), 439_488 * 4096 / (64 << 10) * (64 << 10));
    let large = sim(&dense, &["--device", "ssd", "--ssd.model", "classic", "--ssd.capacity", "50MiB"]);
    assert!((50 << 20..60 << 20).contains(&bytes(&large, "member_bytes")), "{}", large["array"]);
    // Drives fit, also as a cache device: as large as the cache there, since disks say nothing of its size.
    let drives = sim(&dense, &["--device", "ssd", "--ssd.model", "classic", "--ssd.preset", "850evo"]);
    assert_eq!(bytes(&drives, "member_bytes"), bytes(&fitted, "member_bytes"));
    let cached = ["--cache", "8MiB", "--policy", "write-back", "--ssd.preset", "850evo", "--ssd.model", "classic"];
    let over_disks = sim(&dense, &cached);
    assert_eq!(over_disks["start_state"], "steady:1");
    let over_drives = sim(&dense, &[&cached[..], &["--device", "ssd"]].concat());
    assert_eq!(over_drives["input"]["overflowed_requests"], 0);
}

#[test]
fn memory_is_granted_before_it_is_taken() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let refusal = |cache, device| {
        let args = ["--array=raid5:5", "--policy=write-through", "--memory=1GiB", cache, device];
        refused(&[&["sim", "--trace", text(&trace)], &args[..]].concat())
    };
    let message = refusal("--cache=1024TiB", "--cache-device=fixed");
    assert!(message.contains("cache: a cache of 274877906944 pages"), "{message}");
    let message = refusal("--cache=1024TiB", "--cache-device=ssd");
    assert!(message.contains("314794444800 raw pages are more than 2^32 - 2"), "{message}");
    let message = refusal("--cache=8TiB", "--cache-device=fixed");
    assert!(message.contains("memory grants 1073741824 B"), "{message}");
}

#[test]
fn reads_of_pages_that_an_ssd_does_not_hold_are_told() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let table = |start| {
        let array = ["--array=raid0:1", "--member-size=64MiB", "--device=ssd", "--start", start];
        // Wherever its lines are broken.
        let table = quietly(&[&["sim", "--trace", text(&trace)], &array[..]].concat());
        table.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(table("empty").contains("of pages that they do not hold"));
    assert!(!table("full").contains("do not hold"));
}

#[test]
fn policies_of_both_places_are_listed() {
    let listed = quietly(&["policies"]);
    for part in ["write-through", "ways", "set-associative LRU cache of copies", "lb-clock"] {
        assert!(listed.contains(part), "{part}");
    }
    let json: Vec<Value> = serde_json::from_str(&quietly(&["policies", "--json"])).unwrap();
    let of_host: Vec<_> = json.iter().filter(|p| p["place"] == "host").map(|p| p["name"].as_str().unwrap()).collect();
    // Each cache, and right behind it what can stand beside it.
    assert_eq!(of_host[..2], ["none", "write-around"]);
    assert!(of_host.windows(2).any(|pair| pair == ["wow", "sync+wow"]) && of_host.contains(&"kdd"), "{of_host:?}");
    assert!(!of_host.contains(&"sync+lawc"), "it is synchronised itself");
}
