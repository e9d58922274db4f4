//! Reports from outside: `destage sim --report` and `destage report`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use destage_report::{ResultTable, RunsReport, TableCell};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use scraper::Html;
use serde_json::{Map, Value, json};

use crate::binary::{quietly, refused};
use crate::html::{self, all};

const FILES: [&str; 12] = [
    "cdf.csv",
    "cdf.parquet",
    "debt.csv",
    "debt.parquet",
    "index.html",
    "results.json",
    "runs.csv",
    "runs.parquet",
    "series.csv",
    "series.parquet",
    "wear.csv",
    "wear.parquet",
];
/// Text that would run, load or hide something if it were taken for HTML.
const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror='alert(1)'>\"<!--&amp;</title>,+:{a|b}";

/// A small mixed trace in SPC format that makes a small SSD collect.
fn trace(folder: &Path) -> PathBuf {
    let path = folder.join("small.spc");
    let mut text = String::new();
    let mut x = 1_u64;
    for i in 0..6000_u64 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let lba = (x >> 33) % 50_000 / 8 * 8;
        let op = if x >> 60 < 4 { 'R' } else { 'W' };
        writeln!(text, "0,{lba},{},{op},{}.{:06}", 512 * (1 + (x >> 20) % 40), i / 200, i % 200 * 5_000).unwrap();
    }
    fs::write(&path, text).unwrap();
    path
}

const SSD: [&str; 11] = [
    "--device=ssd",
    "--ssd.elements=2",
    "--ssd.planes=2",
    "--ssd.model=classic",
    "--ssd.blocks-per-plane=64",
    "--ssd.transfer=1",
    "--start=full",
    "--pages-per-block=32",
    "--policy=lru,bplru:padding=never",
    "--cache=1MiB,2MiB",
    "--lba-overflow=wrap",
];
const ARRAY: [&str; 8] = [
    "--array=raid5:3",
    "--device=fixed",
    "--policy=none,write-through",
    "--cache=1MiB",
    "--cache-device=ssd",
    "--member-size=64MiB",
    "--host=closed:4",
    "--lba-overflow=compact",
];

const CACHES: [&str; 9] = [
    "--array=raid5:4",
    "--device=fixed",
    "--policy=none,write-around,kdd",
    "--cache=1MiB,2MiB",
    "--cache-device=ssd",
    "--cache-endurance=100TB",
    "--member-size=64MiB",
    "--host=closed:4",
    "--lba-overflow=compact",
];

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// Simulates into the folder `to` within `folder`; returns that.
fn simulate(folder: &Path, to: &str, extra: &[&str]) -> PathBuf {
    let (trace, out) = (trace(folder), folder.join(to));
    let base = ["sim", "--trace", text(&trace), "--report", text(&out)];
    quietly(&[base.as_slice(), extra].concat());
    out
}

fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

fn page(folder: &Path) -> String {
    fs::read_to_string(folder.join("index.html")).unwrap()
}

fn embedded(html: &Html, id: &str) -> Value {
    let scripts = all(html, &format!("script#{id}[type='application/json']"));
    serde_json::from_str(&scripts[0].text().collect::<String>()).unwrap()
}

/// Every kind of result.
fn kinds() -> Vec<Vec<&'static str>> {
    vec![
        SSD.to_vec(),
        vec!["--policy=lru,lb-clock", "--cache=1MiB,4MiB"],
        vec!["--policy=lru", "--cache=1MiB"],
        vec!["--device=analytic", "--policy=fab,lb-clock", "--cache=1MiB,4MiB"],
        ARRAY.to_vec(),
        CACHES.to_vec(),
    ]
}

#[test]
fn the_page_is_one_file_that_loads_nothing() {
    for (i, kind) in kinds().iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let out = simulate(folder.path(), "out", kind);
        assert_eq!(content(&out).into_keys().collect::<Vec<_>>(), FILES, "kind {i}");
        let page = page(&out);
        html::inert(&page);
    }
}

/// A list of records again, of the columns in which it lies in the page.
fn records(columns: &Map<String, Value>) -> Value {
    let rows = columns.values().next().and_then(Value::as_array).map_or(0, Vec::len);
    let record = |row: usize| columns.iter().map(|(key, column)| (key.clone(), column[row].clone())).collect();
    (0..rows).map(|row| Value::Object(record(row))).collect()
}

fn expanded(value: &Value) -> Value {
    match value {
        Value::Object(object) => object
            .iter()
            .map(|(key, inner)| {
                let inner = match (key.as_str(), inner) {
                    ("bins" | "distribution" | "wear", Value::Object(columns)) => records(columns),
                    _ => expanded(inner),
                };
                (key.clone(), inner)
            })
            .collect(),
        Value::Array(items) => items.iter().map(expanded).collect(),
        scalar => scalar.clone(),
    }
}

#[test]
fn the_page_holds_the_results() {
    for kind in kinds() {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("results.json");
        let keep = format!("--json={}", text(&json));
        let out = simulate(folder.path(), "out", &[kind.as_slice(), &[&keep]].concat());
        let results = fs::read_to_string(&json).unwrap();
        assert_eq!(results, fs::read_to_string(out.join("results.json")).unwrap());
        let mut results: Value = serde_json::from_str(&results).unwrap();
        // These are drawn already.
        for run in results.as_array_mut().unwrap() {
            if let Some(collections) = run.get_mut("collections").and_then(Value::as_object_mut) {
                collections.remove("shown");
            }
        }
        let html = Html::parse_document(&page(&out));
        assert_eq!(expanded(&embedded(&html, "results")), results);
        assert_eq!(all(&html, "table.runs tbody tr").len(), results.as_array().unwrap().len());
        for figure in all(&html, "figure") {
            let figures = embedded(&html, "view")[0]["figures"].clone();
            let id = figure.attr("data-figure").unwrap();
            assert!(figures.as_array().unwrap().iter().any(|known| known["id"] == id), "{id}");
        }
    }
}

#[test]
fn the_same_results_give_the_same_bytes() {
    for kind in kinds() {
        let folder = tempfile::tempdir().unwrap();
        let first = simulate(folder.path(), "first", &kind);
        let second = simulate(folder.path(), "second", &[kind.as_slice(), &["--threads=3", "--memory=1GiB"]].concat());
        let (files, again) = (content(&first), folder.path().join("again"));
        assert!(files == content(&second));
        let results = first.join("results.json");
        quietly(&["report", text(&results), "--out", text(&again)]);
        assert!(files == content(&again), "from the file as from the simulation");
        // A run that is given twice is shown once, and a folder can be written again.
        quietly(&["report", text(&results), text(&results), "--out", text(&again)]);
        assert!(files == content(&again));
    }
}

#[test]
fn files_are_put_together() {
    let folder = tempfile::tempdir().unwrap();
    let run = |to: &str, policy: &str, device: &[&str]| {
        let policy = format!("--policy={policy}");
        simulate(folder.path(), to, &[device, &[&policy]].concat()).join("results.json")
    };
    let sizes = "--cache=1MiB,2MiB";
    let (lru, clock) = (run("a", "lru", &[sizes]), run("b", "clock", &[sizes, "--ops=writes"]));
    let array = run("c", "none", &["--array=raid1:2", "--device=fixed", "--member-size=64MiB", "--host=closed:4"]);
    let out = folder.path().join("out");
    quietly(&["report", text(&lru), text(&clock), text(&array), "--out", text(&out)]);
    let html = Html::parse_document(&page(&out));
    let view = embedded(&html, "view");
    assert_eq!(view[0]["labels"], json!(["lru (ops all)", "clock (ops writes)"]), "what differs is told");
    assert_eq!(view[1]["labels"], json!(["none"]));
    assert_eq!(view[0]["points"], json!([[0, 0, 0], [1, 0, 1], [2, 1, 0], [3, 1, 1]]));
    assert_eq!(all(&html, "section.group").len(), 2);
    let commands: Vec<String> = all(&html, "pre code").iter().map(|code| code.text().collect()).collect();
    assert_eq!(commands.len(), 3);
    assert!(commands[1].contains("--ops=writes") && !commands[0].contains("--ops"), "{commands:?}");
}

#[test]
fn the_page_tells_how_to_do_it_again() {
    for (i, kind) in kinds().iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let out = simulate(folder.path(), "out", kind);
        let html = Html::parse_document(&page(&out));
        let command: String = all(&html, "pre code")[0].text().collect();
        let words: Vec<&str> = command.split(' ').collect();
        assert_eq!(words[0], "destage");
        let again = quietly(&[&words[1..], &["--json"]].concat());
        assert!(again == fs::read_to_string(out.join("results.json")).unwrap(), "kind {i}: {command}");
    }
}

/// Draws by cause what caches on a device write and have members do, and checks the sums. The durability mode under
/// which a device was worn stands beside.
#[test]
fn caches_on_a_device_are_told_by_cause() {
    let folder = tempfile::tempdir().unwrap();
    let out = simulate(folder.path(), "out", &CACHES);
    let html = Html::parse_document(&page(&out));
    let results: Value = serde_json::from_slice(&fs::read(out.join("results.json")).unwrap()).unwrap();
    let view = embedded(&html, "view");
    let figures = view[0]["figures"].as_array().unwrap();
    let stack = |id: &str| figures.iter().find(|figure| figure["id"] == id).unwrap_or_else(|| panic!("no {id}"));
    let (written, asked) = (stack("cache-writes"), stack("member-ios"));
    let names: Vec<_> = asked["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(names.contains(&"parity writes at once") && names.contains(&"parity writes when cleaning"), "{names:?}");
    let mut late = 0.0;
    for (point, at) in view[0]["points"].as_array().unwrap().iter().zip(0..) {
        let run = &results[point[0].as_u64().unwrap() as usize];
        let host_pages = run["host_bytes_written"].as_f64().unwrap() / run["page_bytes"].as_f64().unwrap();
        let values = |stack: &Value| -> Vec<f64> {
            let values = stack["values"][at].as_array().unwrap();
            assert_eq!(values.len(), stack["names"].as_array().unwrap().len());
            values.iter().map(|value| value.as_f64().unwrap_or(0.0) * host_pages).collect()
        };
        let near = |pages: f64, counts: &[&Value]| {
            let all: f64 = counts.iter().map(|count| count.as_f64().unwrap()).sum();
            assert!((pages - all).abs() < 1e-6 * all.max(1.0), "{}: {pages} {all}", run["policy"]);
        };
        let device = run["devices"].as_array().unwrap().last().unwrap();
        let zero = json!(0);
        let by_device = if device["device"] == "cache" { &device["pages_written"] } else { &zero };
        near(values(written).iter().sum(), &[by_device]);
        let traffic = &run["traffic"];
        let all = ["data_reads", "parity_reads", "data_writes", "parity_writes"].map(|key| &traffic[key]);
        near(values(asked).iter().sum(), &all);
        let cleaning =
            values(asked).iter().zip(&names).filter(|(_, name)| name.contains("cleaning")).map(|(n, _)| n).sum();
        near(cleaning, &["late_data_reads", "late_parity_reads", "late_parity_writes"].map(|key| &traffic[key]));
        late += cleaning;
    }
    assert!(late > 0.0, "something was cleaned");
    let of =
        |html: &Html, css: &str| all(html, css).iter().map(|part| part.text().collect::<String>()).collect::<String>();
    let promise =
        "regime flush: acknowledged writes are durable after a flush or with FUA; NVRAM: 1,024 slots of 4 KiB";
    for place in ["figure[data-figure=cache-writes]", "figure[data-figure=cache-lifetime]", "p.note", ".answers"] {
        assert!(of(&html, place).contains(promise), "{place} does not say under which promise");
    }
    let heads = of(&html, "table.runs thead th");
    assert!(
        ["cache writes/page", "I/Os/page", "stale rows", "owed", "lifetime"].iter().all(|head| heads.contains(head)),
        "{heads}"
    );
    assert_eq!(all(&html, "figure[data-figure=debt-time]").len(), 1);
    let without = simulate(folder.path(), "without", &[&["--policy=none"], &CACHES[..2], &CACHES[6..]].concat());
    let html = Html::parse_document(&page(&without));
    assert!(all(&html, "[data-figure=cache-writes], [data-figure=member-ios], [data-figure=debt-time]").is_empty());
    assert!(!of(&html, "table.runs thead th").contains("stale") && !of(&html, "p.note").contains("NVRAM"));
}

/// Results in which everything that is text is hostile.
fn hostile_results(folder: &Path) -> PathBuf {
    let results = simulate(folder, "plain", &SSD).join("results.json");
    let mut runs: Value = serde_json::from_str(&fs::read_to_string(results).unwrap()).unwrap();
    for (i, run) in runs.as_array_mut().unwrap().iter_mut().enumerate() {
        for key in ["policy", "host", "start_state", "destage"] {
            run[key] = json!(format!("{key}{}{HOSTILE}", i % 2));
        }
        run["input"]["trace"] = json!(format!("a/{HOSTILE}"));
        run["input"]["format"] = json!(HOSTILE);
        for list in ["params", "settings"] {
            for pair in run[list].as_array_mut().unwrap() {
                pair["name"] = json!(format!("{}{HOSTILE}", pair["name"].as_str().unwrap()));
                pair["value"] = json!(format!("{HOSTILE}\u{1}\u{2028}\r\n"));
            }
        }
    }
    let path = folder.join("hostile.json");
    fs::write(&path, runs.to_string()).unwrap();
    path
}

#[test]
fn merges_have_columns_where_there_are_any() {
    let folder = tempfile::tempdir().unwrap();
    let heads = |out: &str, extra: &[&str]| {
        let out = simulate(folder.path(), out, &[SSD.as_slice(), extra].concat());
        let html = Html::parse_document(&page(&out));
        let heads: Vec<String> = all(&html, "table.runs thead th").iter().map(|head| head.text().collect()).collect();
        heads
    };
    let page_map = heads("page", &[]);
    let bast = heads("bast", &["--ssd.ftl=bast"]);
    assert_eq!(bast[..page_map.len()], page_map);
    assert_eq!(bast[page_map.len()..], ["switch merges", "partial merges", "full merges"]);
}

#[test]
fn hostile_names_are_inert() {
    let folder = tempfile::tempdir().unwrap();
    let (results, out) = (hostile_results(folder.path()), folder.path().join("out"));
    quietly(&["report", text(&results), "--out", text(&out)]);
    let html = Html::parse_document(&page(&out));
    assert_eq!(html.errors, Vec::<std::borrow::Cow<str>>::new());
    assert_eq!((all(&html, "script").len(), all(&html, "img, [onerror]").len()), (5, 0));
    let runs: Value = serde_json::from_slice(&fs::read(&results).unwrap()).unwrap();
    assert_eq!(expanded(&embedded(&html, "results")), runs);
    let row: String = all(&html, "table.runs tbody th")[0].text().collect();
    assert!(row.starts_with(&format!("policy0{HOSTILE}")), "{row}");
    let title: String = all(&html, "title")[0].text().collect();
    assert!(title.ends_with("title>,+:{a|b}"), "{title}");
}

/// A row of CSV; what is quoted is there, though it be empty.
fn csv_rows(text: &str) -> Vec<Vec<Option<String>>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), None::<String>);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                let quoted = cell.get_or_insert_default();
                while let Some(c) = chars.next() {
                    if c == '"' && chars.next_if_eq(&'"').is_none() {
                        break;
                    }
                    quoted.push(c);
                }
            }
            ',' => row.push(cell.take()),
            '\n' => {
                row.push(cell.take());
                rows.push(std::mem::take(&mut row));
            }
            c => cell.get_or_insert_default().push(c),
        }
    }
    rows
}

fn agrees_with_csv(table: &ResultTable, text: &str) {
    let rows = csv_rows(text);
    let names: Vec<_> = table.columns.iter().map(|column| Some(column.name.clone())).collect();
    assert_eq!(rows[0], names);
    for (c, column) in table.columns.iter().enumerate() {
        assert_eq!(rows.len() - 1, column.cells.len());
        for (cell, row) in column.cells.iter().zip(&rows[1..]) {
            let read = row[c].as_deref();
            match cell {
                TableCell::Null => assert_eq!(read, None),
                TableCell::Integer(n) => assert_eq!(read.map(str::parse), Some(Ok(*n))),
                TableCell::Float(x) => assert_eq!(read.map(str::parse), Some(Ok(*x))),
                TableCell::Text(text) => assert_eq!(read, Some(text.as_str())),
            }
        }
    }
}

fn agrees_with_parquet(table: &ResultTable, file: &Path) {
    let reader = SerializedFileReader::new(fs::File::open(file).unwrap()).unwrap();
    let mut rows = 0;
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        assert_eq!(row.len(), table.columns.len());
        for ((name, field), column) in row.get_column_iter().zip(&table.columns) {
            assert_eq!(*name, column.name);
            let read = match field {
                Field::Null => TableCell::Null,
                Field::ULong(n) => TableCell::Integer(*n),
                Field::Double(x) => TableCell::Float(*x),
                Field::Str(text) => TableCell::Text(text.clone()),
                other => panic!("{name} is {other:?}"),
            };
            assert_eq!(read, column.cells[rows], "{name}, row {rows}");
        }
        rows += 1;
    }
    assert_eq!(table.columns.first().map_or(0, |column| column.cells.len()), rows);
}

#[test]
fn csv_and_parquet_hold_the_same() {
    for kind in kinds() {
        let folder = tempfile::tempdir().unwrap();
        let out = simulate(folder.path(), "out", &kind);
        let json = fs::read(out.join("results.json")).unwrap();
        let results: Value = serde_json::from_slice(&json).unwrap();
        let report = RunsReport::new(destage_report::read("results.json", &json).unwrap());
        for table in report.tables() {
            agrees_with_csv(&table, &fs::read_to_string(out.join(format!("{}.csv", table.name))).unwrap());
            agrees_with_parquet(&table, &out.join(format!("{}.parquet", table.name)));
            let lengths = |list: fn(&Value) -> &Value| -> usize {
                results.as_array().unwrap().iter().filter_map(|run| list(run).as_array()).map(Vec::len).sum()
            };
            let expected = match table.name {
                "runs" => results.as_array().unwrap().len(),
                "series" => lengths(|run| &run["series"]["bins"]),
                "debt" => lengths(|run| &run["parity_debt"]["bins"]),
                "cdf" => lengths(|run| &run["response"]["distribution"]),
                // Arrays have it by device.
                _ if results[0]["devices"].is_array() => continue,
                _ => lengths(|run| &run["ssd"]["wear"]),
            };
            assert_eq!(table.columns.first().map_or(0, |column| column.cells.len()), expected, "{}", table.name);
        }
    }
}

#[test]
fn what_is_no_result_is_refused_by_file_and_key() {
    let folder = tempfile::tempdir().unwrap();
    let good = fs::read_to_string(simulate(folder.path(), "good", &SSD).join("results.json")).unwrap();
    let out = folder.path().join("out");
    let report = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        let message = refused(&["report", text(&path), "--out", text(&out)]);
        assert!(message.contains(name), "{message}");
        message
    };
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut runs: Value = serde_json::from_str(&good).unwrap();
        change(&mut runs[1]);
        runs.to_string()
    };
    let truncated = report("cut.json", &good[..good.len() / 2]);
    assert!(truncated.contains("not complete JSON") && truncated.contains("line"), "{truncated}");
    assert!(report("object.json", "{}").contains("not a list of runs"));
    assert!(report("empty.json", "[]").contains("empty"));
    assert!(report("number.json", "[1]").contains("key 'schema'"));
    let old = report("old.json", &changed(&|run| _ = run.as_object_mut().unwrap().remove("schema")));
    assert!(old.contains("run 2, key 'schema': is missing"), "{old}");
    let new = report("new.json", &changed(&|run| run["schema"] = json!(99)));
    assert!(new.contains("run 2, key 'schema': is 99") && new.contains("this destage reads 5"), "{new}");
    let missing = changed(&|run| _ = run["series"].as_object_mut().unwrap().remove("width"));
    assert!(report("missing.json", &missing).contains("run 2, key 'series.width': is missing"));
    let kind = report("kind.json", &changed(&|run| run["hit_ratio"] = json!("high")));
    assert!(kind.contains("run 2, key 'hit_ratio': is \\\"high\\\", not a number"), "{kind}");
    let null = report("null.json", &changed(&|run| run["series"] = Value::Null));
    assert!(null.contains("run 2, key 'series'"), "{null}");
    let bins = changed(&|run| run["series"]["bins"][0]["requests"] = json!([[]]));
    assert!(report("bins.json", &bins).contains("key 'series.bins.requests'"));
    assert!(!out.exists(), "nothing is written");
    let nowhere = folder.path().join("nowhere.json");
    assert!(refused(&["report", text(&nowhere), "--out", text(&out)]).contains("nowhere.json"));
    // A folder that cannot be written is known before the simulation.
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let trace = trace(folder.path());
    let message = refused(&["sim", "--trace", text(&trace), "--report", text(&file)]);
    assert!(message.contains("cannot make the report's folder"), "{message}");
}

#[test]
fn traces_characteristics_are_those_of_trace_stat() {
    let folder = tempfile::tempdir().unwrap();
    let out = simulate(folder.path(), "out", &["--cache=1MiB", "--policy=lru", "--limit=5000", "--device=none"]);
    let results: Value = serde_json::from_slice(&fs::read(out.join("results.json")).unwrap()).unwrap();
    let known = &results[0]["input"]["characteristics"];
    let cut = folder.path().join("cut.spc");
    let lines = fs::read_to_string(folder.path().join("small.spc")).unwrap();
    fs::write(&cut, lines.lines().take(5000).fold(String::new(), |all, line| all + line + "\n")).unwrap();
    let stat: Value = serde_json::from_str(&quietly(&["trace", "stat", "--json", text(&cut)])).unwrap();
    let stat = stat.as_array().map_or(&stat, |all| &all[0]);
    for key in
        ["reads", "writes", "unique_pages", "unique_pages_written", "max_address", "volumes", "write_page_touches"]
    {
        assert!(known[key].is_u64() && known[key] == stat[key], "{key}: {} and {}", known[key], stat[key]);
    }
}

/// The page in a browser without a network: every chart is drawn, and nothing is complained of.
#[test]
fn a_browser_draws_every_chart_without_a_network() {
    let browser = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success()));
    let Some(browser) = browser else {
        eprintln!("SKIPPED: no chromium on this machine, so that no report is drawn");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut pages: Vec<PathBuf> =
        kinds().iter().enumerate().map(|(i, kind)| simulate(folder.path(), &format!("kind-{i}"), kind)).collect();
    let hostile = folder.path().join("hostile");
    quietly(&["report", text(&hostile_results(folder.path())), "--out", text(&hostile)]);
    pages.push(hostile);
    for (i, page) in pages.iter().enumerate() {
        for extra in ["--window-size=1280,900", "--force-dark-mode"] {
            let profile = folder.path().join(format!("profile-{i}"));
            let output = Command::new(browser)
                .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", extra])
                .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--v=0", "--dump-dom"])
                .arg(format!("--user-data-dir={}", text(&profile)))
                .arg(format!("file://{}/index.html", text(page)))
                .output()
                .unwrap();
            let log = String::from_utf8_lossy(&output.stderr);
            // The browser's own pages complain of the missing network.
            let of_page = |line: &&str| line.contains("CONSOLE") && !line.contains("source: chrome:");
            let complaints: Vec<_> = log.lines().filter(of_page).collect();
            assert!(complaints.is_empty(), "page {i}: {complaints:?}");
            let html = Html::parse_document(&String::from_utf8_lossy(&output.stdout));
            let root = all(&html, "html")[0];
            let (figures, charts) = (root.attr("data-figures"), root.attr("data-charts"));
            assert!(
                charts.is_some_and(|n| n != "0") && charts == figures,
                "page {i}: {charts:?} of {figures:?}: {log}"
            );
            assert_eq!(root.attr("data-errors"), Some("0"));
            assert_eq!(all(&html, "figure .chart[aria-label] svg").len().to_string(), figures.unwrap());
            assert_eq!(all(&html, "img, [onerror]").len(), 0);
        }
    }
}

/// Paths to every value of a result.
fn paths(value: &Value, prefix: &str, into: &mut Vec<String>) {
    let mut inner = |key: &str, value: &Value| {
        let path = format!("{prefix}/{key}");
        into.push(path.clone());
        paths(value, &path, into);
    };
    match value {
        Value::Object(object) => object.iter().for_each(|(key, value)| inner(key, value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(i, value)| inner(&i.to_string(), value)),
        _ => {}
    }
}

/// Whatever stands in a result's place, there is an error or a report.
#[test]
fn nothing_in_a_result_stops_a_report_but_an_error() {
    for kind in [SSD.as_slice(), &ARRAY] {
        let folder = tempfile::tempdir().unwrap();
        let results = fs::read(simulate(folder.path(), "out", kind).join("results.json")).unwrap();
        let mut runs: Value = serde_json::from_slice(&results).unwrap();
        for run in runs.as_array_mut().unwrap() {
            for list in ["/series/bins", "/response/distribution", "/settings", "/ssd/elements"] {
                if let Some(Value::Array(items)) = run.pointer_mut(list) {
                    items.truncate(2);
                }
            }
        }
        runs.as_array_mut().unwrap().truncate(2);
        let mut all = Vec::new();
        paths(&runs[1], "/1", &mut all);
        let (mut refused, mut shown) = (0, 0);
        let values = [json!(null), json!(-1.5), json!(u64::MAX), json!(1e300), json!("x"), json!([]), json!({})];
        for (at, path) in all.iter().enumerate() {
            // Neighbours are alike: each has two of these, and together they have all.
            for value in (0..2).map(|nth| values[(at * 2 + nth) % values.len()].clone()) {
                let mut runs = runs.clone();
                *runs.pointer_mut(path).unwrap() = value;
                match destage_report::read("mutant.json", runs.to_string().as_bytes()) {
                    Err(error) => {
                        assert!(error.to_string().starts_with("mutant.json"), "{error}");
                        refused += 1;
                    }
                    Ok(runs) => {
                        // Most of the time would go into setting up compression.
                        let report = RunsReport::new(runs);
                        if shown % 8 == 0 {
                            report.files().unwrap();
                        } else {
                            report.page();
                            report.tables();
                        }
                        shown += 1;
                    }
                }
            }
        }
        assert!(4 * refused > all.len() && 4 * shown > all.len(), "{refused} refused, {shown} shown");
    }
}

#[test]
fn a_device_that_fits_and_begins_steady_is_reported_and_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, first, second) = (trace(folder.path()), folder.path().join("first"), folder.path().join("second"));
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let args = ["--device=ssd", "--policy=lru,arc", "--cache=1MiB"];
    quietly(&[&["sim", &path(&trace), "--report", &path(&first)][..], &args].concat());
    let found = fs::read_to_string(first.join("results.json")).unwrap();
    let runs: Vec<Value> = serde_json::from_str(&found).unwrap();
    for run in &runs {
        let ssd = &run["ssd"];
        let [before, last] =
            ["start_write_amplification_before", "start_write_amplification"].map(|name| ssd[name].as_f64());
        assert!(last > Some(1.0) && (last.unwrap() / before.unwrap() - 1.0).abs() <= 0.01, "{before:?}, {last:?}");
    }
    quietly(&["report", &path(&first.join("results.json")), "--out", &path(&second)]);
    assert_eq!(fs::read_to_string(second.join("results.json")).unwrap(), found);
    assert!(fs::read_to_string(first.join("index.html")).unwrap().contains("steady:1"));
}
