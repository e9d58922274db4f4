//! Sizes of buffers: curves of hits, and sizes that are chosen by what a trace touches.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::binary::{command, quietly, refused};

/// Requests of a fixed formula, of which some pages come back more often than others.
fn trace(folder: &Path) -> String {
    let mut text = String::new();
    let mut x = 1_u64;
    for i in 0..4000_u64 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let page = ((x >> 33) % 3000) * ((x >> 23) % 1000) / 1000;
        let op = if x >> 60 < 4 { 'R' } else { 'W' };
        writeln!(text, "0,{},{},{op},{}.0", page * 8, 4096 * (1 + (x >> 20) % 5), i / 10).unwrap();
    }
    saved(folder, "sizes.spc", &text)
}

fn saved(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().expect("temporary paths are UTF-8").to_owned()
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn parsed(args: &[&str]) -> Value {
    serde_json::from_str(&quietly(args)).unwrap()
}

/// Sizes and hits of a curve, or of runs.
fn pairs(points: &Value) -> Vec<(u64, f64)> {
    let points = points.as_array().unwrap().iter();
    points.map(|point| (point["cache_bytes"].as_u64().unwrap(), point["hit_ratio"].as_f64().unwrap())).collect()
}

fn fields(value: &Value, prefix: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| fields(item, prefix, into)),
        Value::Object(object) => {
            for (name, value) in object {
                into.insert(format!("{prefix}{name}"));
                fields(value, &format!("{prefix}{name}."), into);
            }
        }
        _ => {}
    }
}

fn documented(schema: &Value, prefix: &str, into: &mut BTreeSet<String>) {
    for field in schema.as_array().into_iter().flatten() {
        let full = format!("{prefix}{}", field["name"].as_str().unwrap());
        documented(&field["fields"], &format!("{full}."), into);
        into.insert(full);
    }
}

#[test]
fn a_curve_is_that_of_runs() {
    let folder = temporary();
    let trace = trace(folder.path());
    for window in [
        &[][..],
        &["--ops=writes", "--warmup=20%", "--page=8KiB"],
        &["--skip=100", "--limit=2000", "--warmup=60s", "--repeat=2"],
    ] {
        let curve = parsed(&[&["trace", "mrc", &trace, "--sizes=64KiB..16MiB/20,8KiB", "--json"], window].concat());
        let points = pairs(&curve[0]["policies"][0]["points"]);
        let sizes: Vec<_> = points.iter().map(|(bytes, _)| bytes.to_string()).collect();
        assert!(points.len() == 21 && points.windows(2).all(|pair| pair[0].0 < pair[1].0), "{points:?}");
        let sizes = format!("--cache={}", sizes.join(","));
        let runs = parsed(&[&["sim", &trace, "--policy=lru", &sizes, "--json"], window].concat());
        assert_eq!(points, pairs(&runs));
        for key in ["warmup_requests", "page_bytes", "pages_per_block", "accesses", "read_pages", "write_pages"] {
            assert!(runs[0][key].is_u64(), "{key}");
            assert_eq!(curve[0][key], runs[0][key], "{key}");
        }
    }
}

#[test]
fn other_policies_are_estimated() {
    let folder = temporary();
    let trace = trace(folder.path());
    let policies = "--policy=lru,s3-fifo:small=20,lb_clock,lru:reads=bypass";
    let sizes = "--sizes=256KiB,4MiB..8MiB/3";
    let mrc = |more: &[&str]| parsed(&[&["trace", "mrc", &trace, policies, sizes, "--json"], more].concat());
    // All pages: exactly what runs count.
    let whole = mrc(&["--rate=100%"]);
    let given: Vec<_> = pairs(&whole[0]["policies"][0]["points"]).iter().map(|(bytes, _)| bytes.to_string()).collect();
    let runs = parsed(&["sim", &trace, policies, &format!("--cache={}", given.join(",")), "--json"]);
    let curves = whole[0]["policies"].as_array().unwrap();
    let points: Vec<_> = curves.iter().flat_map(|curve| pairs(&curve["points"])).collect();
    assert_eq!(points, pairs(&runs));
    for (curve, run) in curves.iter().zip(runs.as_array().unwrap().iter().step_by(4)) {
        assert_eq!((&curve["policy"], &curve["params"]), (&run["policy"], &run["params"]));
    }
    // Of some: what is small is exact still, and LRU always.
    let some = mrc(&["--seed=3"]);
    for (curve, exact) in some[0]["policies"].as_array().unwrap().iter().zip(curves) {
        let points = curve["points"].as_array().unwrap().iter().zip(exact["points"].as_array().unwrap());
        for (i, (point, exact)) in points.enumerate() {
            let off = point["hit_ratio"].as_f64().unwrap() - exact["hit_ratio"].as_f64().unwrap();
            let by_pages = match curve["policy"].as_str().unwrap() {
                "lru" => curve["params"][0]["value"] == "bypass",
                policy => policy != "lb-clock",
            };
            let (half_width, samples) = (point["half_width"].as_f64().unwrap(), point["samples"].as_u64().unwrap());
            assert!(off.abs() <= half_width, "{point}");
            assert_eq!(samples, if i > 0 && by_pages { 8 } else { 1 }, "{point}");
            assert_eq!(point["share"].as_f64().unwrap() < 1.0, samples > 1);
            assert_eq!(samples == 1, point["miniature_bytes"] == point["cache_bytes"]);
        }
    }
    let threads = |n: &str| quietly(&["trace", "mrc", &trace, policies, sizes, "--threads", n]);
    assert_eq!(threads("1"), threads("3"));
    assert!(threads("2").contains("± the 95 % interval of estimates") && threads("2").contains(" ±"));
    assert!(threads("2").contains("lru:reads=bypass"), "{}", threads("2"));

    let refused = |args: &[&str]| refused(&[&["trace", "mrc", &trace], args].concat());
    assert!(refused(&["--policy=gcar+lru"]).contains("--policy gcar+lru: policy 'gcar+lru' cannot be sampled"));
    assert!(refused(&["--policy=lirs"]).contains("'lirs' is not known"));
    assert!(refused(&["--rate=0%"]).contains("--rate 0%: a share above 0%"));
    let error = self::refused(&["trace", "mrc", "-", "--policy=fifo"]);
    assert!(error.contains("-: --policy fifo: all but lru take a second pass"), "{error}");
}

#[test]
fn the_schema_names_every_field_of_a_curve() {
    let folder = temporary();
    let trace = trace(folder.path());
    let (mut told, mut seen) = (BTreeSet::new(), BTreeSet::new());
    documented(&parsed(&["schema", "--mrc", "--json"]), "", &mut told);
    fields(&parsed(&["trace", "mrc", &trace, "--json"]), "", &mut seen);
    // What stands in results of runs alone.
    told.retain(|field| !["input.characteristics.", "input.sizes."].iter().any(|of| field.starts_with(of)));
    assert_eq!(told, seen);
}

#[test]
fn a_curve_is_a_table() {
    let folder = temporary();
    // A page that comes back after two others, and one after one other.
    let lines = "0,0,4096,W,0.0\n0,8,4096,W,0.1\n0,16,4096,W,0.2\n0,0,4096,R,0.3\n0,16,4096,R,0.4\n";
    let trace = saved(folder.path(), "few.spc", lines);
    let table = quietly(&["trace", "mrc", &trace, &trace, "--sizes=4KiB..100%/3"]);
    let expected = format!(
        "{trace} (spc), 5 requests
  page accesses R, W                    2, 3
  footprint                             12 KiB, of which 12 KiB are written
  LRU's curve bends at                  12 KiB (40.00 % hits)
  and ends at                           12 KiB (40.00 % hits)

Hits in percent of the page accesses
  size  % of footprint    lru
 4 KiB           33.33   0.00
 8 KiB           66.67  20.00
12 KiB          100.00  40.00
"
    );
    let table: Vec<_> = table.split("\n\n").collect();
    assert_eq!(table.len(), 4, "{table:?}");
    assert_eq!(format!("{}\n\n{}\n", table[0], table[1].trim_end()), expected);
}

#[test]
fn sizes_are_chosen_by_what_takes_part() {
    let folder = temporary();
    let trace = trace(folder.path());
    let sim = |cache: &str, more: &[&str]| parsed(&[&["sim", &trace, "--json", cache], more].concat());
    let curve = parsed(&["trace", "mrc", &trace, "--sizes=auto", "--json"]);
    let (knee, footprint) = (curve[0]["knee_bytes"].as_u64().unwrap(), curve[0]["footprint_bytes"].as_u64().unwrap());
    let quarters = |n: u64| (knee / 4096 * n / 4 * 4096).clamp(4096, footprint);
    let mut around: Vec<_> = [1, 2, 4, 8, 16].map(quarters).to_vec();
    around.dedup();
    assert_eq!(pairs(&curve[0]["policies"][0]["points"]).iter().map(|point| point.0).collect::<Vec<_>>(), around);

    // Chosen sizes are those of runs, which say how they were chosen.
    let runs = sim("--cache=auto,50%,1MiB..4MiB/3,64KiB", &["--policy=lru"]);
    let half = (footprint / 4096).div_ceil(2) * 4096;
    let mut expected = around;
    for size in [half, 1 << 20, 2 << 20, 4 << 20] {
        if !expected.contains(&size) {
            expected.push(size);
        }
    }
    expected.push(64 << 10);
    assert_eq!(pairs(&runs).iter().map(|run| run.0).collect::<Vec<_>>(), expected);
    let sizes = &runs[0]["input"]["sizes"];
    assert_eq!(sizes["asked"], "auto,50%,1MiB..4MiB/3,64KiB");
    assert_eq!(sizes["chosen"], json!(expected));
    for key in ["knee_bytes", "knee_hit_ratio", "footprint_bytes", "footprint_written_bytes", "full_bytes"] {
        assert_eq!(sizes[key], curve[0][key], "{key}");
    }
    // Otherwise they are the runs of these sizes.
    let given: Vec<_> = expected.iter().map(u64::to_string).collect();
    let given = sim(&format!("--cache={}", given.join(",")), &["--policy=lru"]);
    let mut chosen = runs.clone();
    chosen.as_array_mut().unwrap().iter_mut().for_each(|run| run["input"]["sizes"] = Value::Null);
    assert_eq!(chosen, given);

    // A range of sizes needs no look at the trace; what takes part decides about shares.
    let range = sim("--cache=1MiB..4MiB/3", &["--policy=lru"]);
    assert_eq!(range[0]["input"]["sizes"]["chosen"], json!([1 << 20, 2 << 20, 4 << 20]));
    assert_eq!(range[0]["input"]["sizes"]["footprint_bytes"], Value::Null);
    let writes = sim("--cache=100%", &["--policy=lru", "--ops=writes"]);
    assert_eq!(writes[0]["cache_bytes"], sizes["footprint_written_bytes"]);
    assert_eq!(writes[0]["input"]["sizes"]["full_hit_ratio"], writes[0]["hit_ratio"]);

    let table = quietly(&["sim", &trace, "--cache=auto", "--policy=lru"]);
    assert!(table.contains("\nsizes     auto: ") && table.contains("LRU's curve bends at"), "{table}");
    let scenario = saved(folder.path(), "sizes.toml", "trace = \"sizes.spc\"\npolicy = \"lru\"\ncache = [\"auto\"]\n");
    let of_file: Value = parsed(&["sim", "--scenario", &scenario, "--json"]);
    assert_eq!(of_file[0]["cache_bytes"], expected[0]);
}

#[test]
fn sizes_are_chosen_for_caches_over_arrays_and_for_ssds() {
    let folder = temporary();
    let trace = trace(folder.path());
    let array = ["--array=raid5:5", "--device=fixed", "--member-size=64MiB", "--policy=none,write-through"];
    let runs = parsed(&[&["sim", &trace, "--json", "--cache=50%,2MiB..4MiB/2", "--warmup=10%"], &array[..]].concat());
    let sizes = &runs[0]["input"]["sizes"];
    let half = sizes["footprint_bytes"].as_u64().unwrap() / 4096;
    assert_eq!(runs[0]["cache_bytes"], Value::Null);
    assert_eq!(runs[1]["cache_bytes"], half.div_ceil(2) * 4096);
    assert_eq!(sizes["chosen"], json!([half.div_ceil(2) * 4096, 2 << 20, 4 << 20]));
    let mut seen = BTreeSet::new();
    fields(&runs, "", &mut seen);
    assert!(seen.contains("input.sizes.knee_hit_ratio"));
    let text = quietly(&[&["sim", &trace, "--cache=auto"], &array[..]].concat());
    assert!(text.contains("\nsizes     auto: "), "{text}");
    let runs = parsed(&["sim", &trace, "--json", "--cache=auto", "--policy=lru", "--device=ssd", "--ssd.elements=1"]);
    let knee = runs[0]["input"]["sizes"]["knee_bytes"].as_u64().unwrap();
    assert!(pairs(&runs).iter().any(|run| run.0 == knee));
    let report = folder.path().join("report");
    quietly(&["sim", &trace, "--cache=auto", "--policy=lru", "--report", report.to_str().unwrap()]);
    let page = fs::read_to_string(report.join("index.html")).unwrap();
    assert!(
        page.contains("sizes of caches by") && page.contains("LRU&#39;s curve of hits bends at")
            || page.contains("LRU's curve of hits bends at")
    );
}

#[test]
fn sizes_that_cannot_be_found_are_refused() {
    let folder = temporary();
    let mut once = String::new();
    for i in 0..50 {
        writeln!(once, "0,{},4096,W,{i}.0", i * 8).unwrap();
    }
    let once = saved(folder.path(), "once.spc", &once);
    let error = refused(&["sim", &once, "--cache=auto", "--policy=lru"]);
    assert!(error.contains("cache: no page comes back") && error.contains("such as 1%,10%"), "{error}");
    assert!(refused(&["trace", "mrc", &once, "--sizes=auto"]).contains("once.spc: --sizes: no page comes back"));
    assert!(quietly(&["trace", "mrc", &once]).contains("no page comes back: no hits at any size"));
    for (cache, right) in [
        ("101%", "up to 100%"),
        ("1MiB..2MiB", "1MiB..1GiB/8"),
        ("2MiB..1MiB/4", "to a larger one"),
        ("large", "or auto"),
    ] {
        let error = refused(&["sim", &once, "--cache", cache]);
        assert!(error.contains("--cache = ") && error.contains(right), "{error}");
        let error = refused(&["trace", "mrc", &once, "--sizes", cache]);
        assert!(error.contains("--sizes ") && error.contains(right), "{error}");
    }
    // One end is known only with the trace.
    let error = refused(&["sim", &once, "--cache=1GiB..100%/4"]);
    assert!(error.contains("cache: a range goes from"), "{error}");
    assert!(refused(&["trace", "mrc", &once, "--sizes=5000"]).contains("is not one or several pages of 4 KiB"));
    // What is wrong with other settings is known before the trace is read.
    let error = refused(&["sim", "absent.spc", "--cache=auto", "--policy=lru", "--admission=never"]);
    assert!(error.contains("--admission = 'never'"), "{error}");

    let piped = |args: &[&str]| {
        let file = fs::File::open(PathBuf::from(&once)).unwrap();
        // A pipe, not the file itself.
        let mut cat =
            std::process::Command::new("cat").stdin(file).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let output = command(args).stdin(cat.stdout.take().unwrap()).output().unwrap();
        cat.wait().unwrap();
        output
    };
    let output = piped(&["sim", "-", "--cache=10%"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("standard input: cache: ") && error.contains("can be read only once"), "{error}");
    // A curve takes one pass.
    let output = piped(&["trace", "mrc", "-"]);
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("footprint"));
}
