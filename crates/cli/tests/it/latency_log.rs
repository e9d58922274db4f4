//! The log of what became of each request, from outside: it holds what results sum up.

use std::fs;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

use crate::binary::{quietly, refused};

/// A run whose SSD collects, over more requests than a row group holds, of a host that flushes and discards.
const RUN: [&str; 14] = [
    "sim",
    "--workload=exchange",
    "--limit=40000",
    "--policy=lru",
    "--cache=1MiB",
    "--device=ssd",
    "--ssd.model=classic",
    "--warmup=1000",
    "--max-backlog=1000000",
    "--host=closed:8",
    "--flush=drain",
    "--json",
    "--per-volume",
    "--start=steady",
];

const COLUMNS: &str =
    "policy,cache_bytes,request,arrival_ns,volume,offset,bytes,kind,response_ns,pages,hit_pages,gc_delayed";

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn logged(into: &Path, more: &[&str]) -> Value {
    let log = format!("--latency-log={}", into.display());
    let json = quietly(&[&RUN[..], &[&log], more].concat());
    serde_json::from_str::<Value>(&json).expect("JSON")[0].clone()
}

fn rows(csv: &str) -> Vec<Vec<String>> {
    let (head, rows) = csv.split_once('\n').expect("a head");
    assert_eq!(head, COLUMNS);
    rows.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

/// A figure of a row; none where there is none.
fn number(row: &[String], column: &str) -> Option<u64> {
    let at = COLUMNS.split(',').position(|name| name == column).expect("a column");
    (!row[at].is_empty()).then(|| row[at].parse().expect(column))
}

fn sum(rows: &[Vec<String>], column: &str) -> u64 {
    rows.iter().filter_map(|row| number(row, column)).sum()
}

fn kind(row: &[String]) -> &str {
    &row[7]
}

/// Checks that a log's response times have the figures of a summary.
fn agrees(mut times: Vec<u64>, summary: &Value) {
    times.sort_unstable();
    assert_eq!(times.len() as u64, summary["count"].as_u64().expect("a count"));
    assert_eq!(times.last().copied(), summary["max"].as_u64());
    let mean = times.iter().map(|&time| time as f64).sum::<f64>() / times.len() as f64;
    assert!((mean / summary["mean"].as_f64().expect("a mean") - 1.0).abs() < 1e-9);
    for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999)] {
        let exact = times[((times.len() as f64 * share).ceil() as usize).max(1) - 1];
        let told = summary[name].as_u64().expect(name);
        // Three significant digits, and the upper end of the class.
        assert!(told >= exact && told as f64 <= exact as f64 * 1.001 + 1.0, "{name}: {exact}, told {told}");
    }
}

#[test]
fn the_log_holds_what_results_sum_up() {
    let folder = temporary();
    let path = folder.path().join("log.csv");
    let run = logged(&path, &[]);
    let csv = fs::read_to_string(&path).unwrap();
    let rows = rows(&csv);
    assert_eq!(rows.len() as u64, run["requests"].as_u64().unwrap());
    assert!(rows.iter().all(|row| row[0] == "lru" && row[1] == "1048576"));
    // The warm-up is not there, and numbers go on from it.
    let numbers: Vec<_> = rows.iter().map(|row| number(row, "request").unwrap()).collect();
    assert_eq!((numbers[0], numbers[numbers.len() - 1]), (1001, 40_000));
    assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    let arrivals: Vec<_> = rows.iter().map(|row| number(row, "arrival_ns").unwrap()).collect();
    assert!(Some(arrivals[0]) >= run["series"]["start"].as_u64());
    assert!(arrivals.windows(2).all(|pair| pair[0] <= pair[1]));
    assert_eq!(Some(sum(&rows, "hit_pages")), run["hits"].as_u64());
    assert_eq!(Some(sum(&rows, "pages")), run["accesses"].as_u64());
    for (word, requests, bytes) in
        [("read", "read_requests", "host_bytes_read"), ("write", "write_requests", "host_bytes_written")]
    {
        let of: Vec<_> = rows.iter().filter(|row| kind(row) == word).cloned().collect();
        assert_eq!(Some(of.len() as u64), run[requests].as_u64());
        assert_eq!(Some(sum(&of, "bytes")), run[bytes].as_u64());
        agrees(of.iter().filter_map(|row| number(row, "response_ns")).collect(), &run["response"][word]);
    }
    agrees(rows.iter().filter_map(|row| number(row, "response_ns")).collect(), &run["response"]["all"]);
    let delayed: Vec<_> = rows.iter().filter(|row| number(row, "gc_delayed") == Some(1)).collect();
    assert!(!delayed.is_empty(), "no test of collections");
    agrees(delayed.iter().filter_map(|row| number(row, "response_ns")).collect(), &run["response"]["gc_delayed"]);
    for volume in run["volumes"].as_array().unwrap() {
        let of: Vec<_> =
            rows.iter().filter(|row| number(row, "volume") == volume["volume"].as_u64()).cloned().collect();
        assert_eq!(Some(of.len() as u64), volume["requests"].as_u64());
        assert_eq!(
            Some(sum(&of, "hit_pages")),
            volume["read_hits"].as_u64().zip(volume["write_hits"].as_u64()).map(|(r, w)| r + w)
        );
    }
}

#[test]
fn the_log_is_the_same_bytes_with_any_number_of_threads_and_changes_no_result() {
    let folder = temporary();
    let files = ["one.csv", "three.csv", "one.parquet", "three.parquet"].map(|name| folder.path().join(name));
    let runs: Vec<_> =
        files.iter().zip(["1", "3", "1", "3"]).map(|(file, n)| logged(file, &["--threads", n])).collect();
    let plain: Value = serde_json::from_str(&quietly(&RUN)).unwrap();
    assert!(runs.iter().all(|run| *run == plain[0]));
    let read = |at: usize| fs::read(&files[at]).unwrap();
    assert!(read(0) == read(1) && read(2) == read(3));
    // Parquet holds the same rows, in several groups.
    let rows = rows(std::str::from_utf8(&read(0)).unwrap());
    let parquet = SerializedFileReader::new(fs::File::open(&files[2]).unwrap()).unwrap();
    assert!(parquet.num_row_groups() > 1);
    let mut count = 0;
    for (row, expected) in parquet.get_row_iter(None).unwrap().zip(&rows) {
        let row = row.unwrap();
        let cells = row.get_column_iter().map(|(_, field)| match field {
            Field::Null => String::new(),
            Field::ULong(n) => n.to_string(),
            Field::Str(text) => text.clone(),
            other => panic!("{other:?}"),
        });
        assert_eq!(cells.collect::<Vec<_>>(), *expected);
        count += 1;
    }
    assert_eq!(count, rows.len());
}

#[test]
fn without_times_there_are_hits_and_without_a_file_it_goes_to_the_standard_output() {
    let base = ["sim", "--workload=exchange", "--limit=500", "--policy=none"];
    let shown = quietly(&[&base[..], &["--latency-log"]].concat());
    let folder = temporary();
    let path = folder.path().join("log.csv");
    for _ in 0..2 {
        // A new file, and one of an earlier call.
        quietly(&[&base[..], &["--latency-log", path.to_str().expect("UTF-8")]].concat());
        assert_eq!(fs::read_to_string(&path).unwrap(), shown);
    }
    let rows = rows(&shown);
    assert_eq!(rows.len(), 500);
    assert!(rows.iter().all(|row| row[0] == "none" && row[1].is_empty() && number(row, "response_ns").is_none()));
    assert_eq!(sum(&rows, "hit_pages"), 0);
}

#[test]
fn several_runs_are_refused() {
    let folder = temporary();
    let path = folder.path().join("log.csv");
    let log = format!("--latency-log={}", path.display());
    let base = ["sim", "--workload=exchange", "--limit=500", &log];
    for more in [&["--policy=lru,fab", "--cache=1MiB"][..], &["--policy=lru", "--cache=1MiB,2MiB"]] {
        let message = refused(&[&base[..], more].concat());
        assert!(message.contains("these are 2 runs: give one policy and one cache size"), "{message}");
    }
    for more in [&["--policy=none,kdd", "--cache=1MiB"][..], &["--policy=none", "--scheduler=fcfs,clook"]] {
        let message = refused(&[&base[..], &["--array=raid5:5"], more].concat());
        assert!(
            message.contains("these are 2 runs: give one policy, one cache size and one order of service"),
            "{message}"
        );
    }
    assert!(!path.exists());
}

/// Logs a run over an array of SSDs that collect, whose host flushes and discards.
fn logged_array(into: &Path, more: &[&str]) -> (Value, Vec<Vec<String>>) {
    let log = format!("--latency-log={}", into.display());
    let base = ["sim", "--workload=exchange", "--limit=12000", "--warmup=1000", "--device=ssd", "--json", &log];
    let json = quietly(&[&base[..], more].concat());
    let rows = rows(&fs::read_to_string(into).unwrap());
    (serde_json::from_str::<Value>(&json).expect("JSON")[0].clone(), rows)
}

#[test]
fn the_log_of_an_array_holds_what_its_results_sum_up() {
    let folder = temporary();
    let path = folder.path().join("log.csv");
    let more = ["--array=raid5:5", "--policy=kdd", "--cache=4MiB", "--host=closed:8", "--per-volume"];
    let (run, rows) = logged_array(&path, &more);
    assert!(rows.iter().all(|row| row[0] == "kdd" && row[1] == "4194304" && number(row, "hit_pages").is_none()));
    assert_eq!(rows.len() as u64, run["requests"].as_u64().unwrap());
    // Each request once, the first after the warm-up, in the order of answers.
    let mut numbers: Vec<_> = rows.iter().map(|row| number(row, "request").unwrap()).collect();
    assert!(numbers.windows(2).any(|pair| pair[0] > pair[1]), "some are answered before earlier ones");
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(1_001..=12_000));
    let time = |row: &Vec<String>, column| number(row, column).unwrap();
    let answers: Vec<_> = rows.iter().map(|row| time(row, "arrival_ns") + time(row, "response_ns")).collect();
    assert!(answers.windows(2).all(|pair| pair[0] <= pair[1]));
    for (word, requests, bytes) in [
        ("read", "read_requests", Some("host_bytes_read")),
        ("write", "write_requests", Some("host_bytes_written")),
        ("flush", "flush_requests", None),
        ("discard", "discard_requests", None),
    ] {
        let of: Vec<_> = rows.iter().filter(|row| kind(row) == word).cloned().collect();
        assert_eq!(Some(of.len() as u64), run[requests].as_u64(), "{word}");
        if let Some(bytes) = bytes {
            assert_eq!(Some(sum(&of, "bytes")), run[bytes].as_u64());
        }
        if !of.is_empty() {
            agrees(of.iter().filter_map(|row| number(row, "response_ns")).collect(), &run["response"][word]);
        }
    }
    assert_eq!(Some(sum(&rows, "gc_delayed")), run["collections"]["delayed_requests"].as_u64());
    for volume in run["volumes"].as_array().unwrap() {
        let of = rows.iter().filter(|row| number(row, "volume") == volume["volume"].as_u64());
        assert_eq!(Some(of.count() as u64), volume["requests"].as_u64());
    }
    // Without a log it is the same result.
    let base = ["sim", "--workload=exchange", "--limit=12000", "--warmup=1000", "--device=ssd", "--json"];
    let plain: Value = serde_json::from_str(&quietly(&[&base[..], &more].concat())).unwrap();
    assert_eq!(plain[0], run);
}

#[test]
fn what_an_array_cannot_serve_has_no_response_time() {
    let folder = temporary();
    let path = folder.path().join("log.csv");
    let (run, rows) = logged_array(&path, &["--array=raid0:4", "--policy=none", "--fail=1@1s"]);
    let failed = rows.iter().filter(|row| number(row, "response_ns").is_none()).count() as u64;
    assert!(failed > 100 && failed < rows.len() as u64, "{failed}");
    assert_eq!(Some(failed), run["failed_requests"].as_u64());
    assert!(rows.iter().all(|row| row[1].is_empty()));
}
