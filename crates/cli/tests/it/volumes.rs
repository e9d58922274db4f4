//! Figures of the volumes of a trace, from outside.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::binary::quietly;

/// Lists the requests of each volume in the trace: its name, requests, bytes read and bytes written.
const ASKED: [(&str, u64, u64, u64); 3] =
    [("web_1", 300, 0, 300 * 8192), ("db_0", 600, 300 * 4096, 300 * 4096), ("log_0", 100, 100 * 512, 0)];

/// An MSR trace of these volumes: `web_1` writes over and over again the same few pages, the others go on
/// from page to page.
fn trace(folder: &Path) -> PathBuf {
    let path = folder.join("servers.csv");
    let mut text = String::new();
    for n in 0..1000_u64 {
        let (host, disk, op, offset, bytes) = match n % 10 {
            0 | 3 | 6 => ("web", 1, "Write", n % 10 / 3 * 8192 + n / 100 * 8192, 8192),
            9 => ("log", 0, "Read", n * 4096, 512),
            odd if odd % 2 == 1 => ("db", 0, "Read", n * 4096, 4096),
            _ => ("db", 0, "Write", n * 4096, 4096),
        };
        writeln!(text, "{},{host},{disk},{op},{offset},{bytes},0", 128_166_372_000_000_000 + n * 20_000).unwrap();
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

fn simulated(args: &[&str]) -> Vec<Value> {
    serde_json::from_str(&quietly(&[&["sim", "--json"], args].concat())).expect("JSON")
}

fn check(volumes: &Value) {
    let volumes = volumes.as_array().expect("a list");
    assert_eq!(volumes.len(), ASKED.len());
    let sum = |of: fn(&(&str, u64, u64, u64)) -> u64| ASKED.iter().map(of).sum::<u64>() as f64;
    let (all_read, all_written) = (sum(|a| a.2), sum(|a| a.3));
    for (found, &(name, requests, read, written)) in volumes.iter().zip(&ASKED) {
        assert_eq!(found["name"], name);
        assert_eq!(found["requests"], requests, "{name}");
        assert_eq!(
            (&found["host_bytes_read"], &found["host_bytes_written"]),
            (&read.into(), &written.into()),
            "{name}"
        );
        let share = |field: &str, part: f64| {
            assert!((found[field].as_f64().expect(field) - part).abs() < 1e-12, "{name}: {field}");
        };
        share("request_share", requests as f64 / 1000.0);
        share("read_share", read as f64 / all_read);
        share("write_share", written as f64 / all_written);
        share("traffic_share", (read + written) as f64 / (all_read + all_written));
    }
}

#[test]
fn volumes_are_told_by_their_names() {
    let folder = temporary();
    let trace = trace(folder.path());
    let args = ["--trace", text(&trace), "--policy", "lru,bplru", "--cache", "256KiB", "--device", "ssd"];
    assert!(simulated(&args).iter().all(|run| run["volumes"].is_null()), "only where it is asked for");
    let runs = simulated(&[&args[..], &["--per-volume"]].concat());
    for run in &runs {
        check(&run["volumes"]);
        let sum = |field: &str| -> u64 {
            run["volumes"].as_array().unwrap().iter().map(|v| v[field].as_u64().expect(field)).sum()
        };
        assert_eq!(sum("read_hits") + sum("write_hits"), run["hits"].as_u64().unwrap());
        assert_eq!(sum("pages_written") + sum("pad_pages"), run["ssd"]["host_programs"].as_u64().unwrap());
        assert!(run["volumes"][0]["hit_ratio"].as_f64() > Some(0.5), "web_1 writes its pages again");
        assert_eq!(run["volumes"][2]["pages_written"], 0, "log_0 is only read");
        assert!(run["volumes"][1]["response"]["p99"].as_u64() > Some(0));
        assert!(run["settings"].as_array().unwrap().iter().all(|setting| setting["name"] != "per-volume"));
    }
    // As a key of a scenario.
    let scenario = folder.path().join("volumes.toml");
    fs::write(&scenario, "trace = \"servers.csv\"\nper-volume = true\n").unwrap();
    let by_key = simulated(&["--scenario", text(&scenario), "--policy", "lru", "--cache", "256KiB", "--device", "ssd"]);
    assert_eq!(by_key[0]["volumes"], runs[0]["volumes"]);
    let printed = quietly(&["sim", "--scenario", text(&scenario), "--policy", "lru", "--print-scenario"]);
    assert!(printed.lines().any(|line| line == "per-volume = true"), "{printed}");
    // With an array there is no telling whose hits they are.
    let array = simulated(&[
        "--trace",
        text(&trace),
        "--array",
        "raid5:4",
        "--policy",
        "none",
        "--per-volume",
        "--lba-overflow",
        "compact",
    ]);
    check(&array[0]["volumes"]);
    assert!(array[0]["volumes"][0]["hit_ratio"].is_null() && array[0]["volumes"][0]["pages_written"].is_null());
}

#[test]
fn tables_show_volumes_and_rows_of_csv_do_not() {
    let folder = temporary();
    let trace = trace(folder.path());
    let args = ["sim", "--trace", text(&trace), "--policy", "lru,none", "--cache", "256KiB"];
    let asked = [&args[..], &["--per-volume"]].concat();
    let (plain, table) = (quietly(&args), quietly(&asked));
    let (above, volumes) = table.split_once("\nvolumes of the trace:\n").expect("a table of volumes");
    assert_eq!(above, plain, "the rest is the same");
    let rows: Vec<_> = volumes.lines().filter(|line| line.contains('_')).collect();
    let names: Vec<_> = rows.iter().filter_map(|row| row.split(' ').next()).collect();
    assert_eq!(names, ["web_1", "db_0", "log_0", "web_1", "db_0", "log_0"]);
    assert_eq!(quietly(&[&args[..], &["--csv"]].concat()), quietly(&[&asked[..], &["--csv"]].concat()));
    // The page takes such results.
    let (json, out) = (folder.path().join("results.json"), folder.path().join("report"));
    let into = format!("--json={}", text(&json));
    quietly(&[&asked[..], &[&into]].concat());
    quietly(&["report", text(&json), "--out", text(&out)]);
    assert!(out.join("index.html").exists());
}

#[test]
fn statistics_of_a_trace_list_its_volumes() {
    let folder = temporary();
    let trace = trace(folder.path());
    let json: Value = serde_json::from_str(&quietly(&["trace", "stat", text(&trace), "--json"])).unwrap();
    let volumes = json[0]["by_volume"].as_array().expect("volumes");
    assert_eq!(json[0]["volumes"], volumes.len());
    let found: Vec<_> = volumes
        .iter()
        .map(|v| {
            let number = |name: &str| v[name].as_u64().expect(name);
            (v["name"].as_str().unwrap(), number("requests"), number("read_bytes"), number("write_bytes"))
        })
        .collect();
    assert_eq!(found, ASKED);
    let all: f64 = volumes.iter().map(|v| v["traffic_share"].as_f64().unwrap()).sum();
    assert!((all - 1.0).abs() < 1e-12);
    let shown = quietly(&["trace", "stat", text(&trace)]);
    let rows: Vec<_> = shown.lines().filter(|line| line.contains('_') && !line.contains("servers")).collect();
    assert!(rows.len() == 3 && rows[0].starts_with("web_1"), "{shown}");
}

/// Holds the case `volume-by-name`: ASU 5 comes first.
#[test]
fn a_volume_is_chosen_by_the_name_that_all_tables_have() {
    let folder = temporary();
    let path = folder.path().join("asu.spc");
    let lines = ["5,0,4096,w,0.0", "5,8,4096,w,0.1", "0,0,4096,w,0.2", "0,8,4096,r,0.3", "0,16,4096,r,0.4"];
    fs::write(&path, lines.join("\n")).unwrap();
    let args = ["--trace", text(&path), "--format", "spc", "--policy", "lru", "--cache", "64KiB", "--per-volume"];
    let chosen = |volumes: &str| {
        let run = simulated(&[&args[..], &["--volumes", volumes]].concat()).remove(0);
        let names = run["volumes"].as_array().unwrap().iter().map(|volume| volume["name"].clone());
        let asked = [run["read_requests"].as_u64(), run["write_requests"].as_u64()];
        (asked, names.collect::<Vec<_>>(), run)
    };
    let (asked, names, run) = chosen("0");
    assert_eq!((asked, names), ([Some(2), Some(1)], vec!["0".into()]));
    assert_eq!((&run["input"]["chosen_volumes"], &run["input"]["left_out_requests"]), (&"0 (#1)".into(), &2.into()));
    let (asked, names, run) = chosen("#0");
    assert_eq!((asked, names), ([Some(0), Some(2)], vec!["5".into()]));
    assert_eq!(run["input"]["chosen_volumes"], "5 (#0)");
    assert_eq!(chosen("5").0, [Some(0), Some(2)]);
    let (asked, names, run) = chosen("0,5");
    assert_eq!((asked, names.len()), ([Some(2), Some(3)], 2));
    assert_eq!(run["input"]["chosen_volumes"], "5 (#0), 0 (#1)");
    let found = |run: &Value| {
        let all = run["findings"].as_array().unwrap().clone();
        let of = |kind: &str| all.iter().find(|finding| finding["kind"] == kind).map(|f| f["message"].to_string());
        (of("no-such-volume"), of("nothing"))
    };
    let (asked, _, run) = chosen("7,0");
    assert_eq!(asked, [Some(2), Some(1)]);
    assert!(found(&run).0.unwrap().contains("no volume of the trace is called 7; it has 5, 0 (#0 is the first)"));
    let (asked, _, run) = chosen("7");
    assert_eq!(asked, [Some(0), Some(0)]);
    assert!(found(&run).1.unwrap().contains("no request of the trace took part; no volume of the trace is called 7"));
}
