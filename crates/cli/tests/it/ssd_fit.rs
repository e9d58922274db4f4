//! `destage ssd fit`: finds again what a drive was simulated with, from JSON as fio writes it, and refuses what says too little.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::binary::{destage, quietly, refused};
use crate::service::programs::skip;

/// Describes the drive that is to be found again.
const DRIVE: [(&str, &str); 9] = [
    ("model", "modern"),
    ("elements", "16"),
    ("planes", "2"),
    ("reserve", "12.68%"),
    ("read", "70us"),
    ("program", "1400us"),
    ("command-write", "9us"),
    ("command-rate", "500000"),
    ("link", "6000MB"),
];

/// Returns what a job over a workload measures on the drive.
fn simulated(folder: &Path, synth: &[&str], sim: &[&str]) -> Value {
    let trace = folder.join("load.destage");
    let trace = trace.to_str().expect("UTF-8");
    let space = ["--space", "2GiB", "--seed", "7"];
    let made = destage(&[&["trace", "synth", trace][..], &space, synth].concat());
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let drive: Vec<String> = DRIVE.iter().map(|(key, value)| format!("--ssd.{key}={value}")).collect();
    let drive: Vec<&str> = drive.iter().map(String::as_str).collect();
    let base = [
        "sim",
        trace,
        "--device=ssd",
        "--ssd.capacity=2GiB",
        "--policy=none",
        "--cache=4KiB",
        "--warmup=20%",
        "--json",
    ];
    let runs: Value = serde_json::from_str(&quietly(&[&base[..], &drive, sim].concat())).expect("JSON");
    fs::remove_file(trace).expect("a file");
    runs[0].clone()
}

/// Returns a job as fio has it.
fn job(name: &str, run: &Value, options: &Value) -> Value {
    let direction = |kind: &str| {
        let count = run["counters"][format!("{kind}_requests")].as_u64().or(run[format!("{kind}_requests")].as_u64());
        let count = count.expect("a count");
        let times = &run["response"][kind];
        let seconds = run["simulated_time"].as_f64().expect("a time") / 1e9;
        let mut told =
            json!({"iops": count as f64 / seconds, "total_ios": count, "runtime": (seconds * 1000.0) as u64});
        told["slat_ns"] = json!({"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0});
        told["clat_ns"] =
            json!({"min": 0, "max": 0, "mean": times["mean"].as_f64().unwrap_or(0.0), "stddev": 0.0, "N": count});
        if count > 0 {
            told["clat_ns"]["percentile"] =
                json!({"50.000000": times["p50"], "99.000000": times["p99"], "99.900000": times["p99_9"]});
        }
        told
    };
    json!({"jobname": name, "groupid": 0, "error": 0, "job options": options,
           "read": direction("read"), "write": direction("write"), "job_runtime": 1000})
}

/// Returns what fio would say of the drive.
fn measured(folder: &Path) -> Value {
    let idle_read = simulated(folder, &["--length=4000", "--read=100", "--arrivals=closed"], &["--host=closed:1"]);
    let idle_write = simulated(folder, &["--length=2000", "--arrivals=constant:1ms"], &[]);
    let steady = simulated(folder, &["--length=300000", "--arrivals=closed"], &["--host=closed:64"]);
    let mixed = simulated(folder, &["--length=200000", "--read=10", "--arrivals=poisson:40us"], &[]);
    let steady_options = json!({"rw": "randwrite", "iodepth": "64"});
    json!({
        "fio version": "fio-3.33",
        "global options": {"ioengine": "io_uring", "direct": "1", "bs": "4k", "filename": "/dev/nvme0n1"},
        "jobs": [
            job("fill", &steady, &json!({"rw": "write", "bs": "1m", "iodepth": "32"})),
            job("steady-write-1", &steady, &steady_options),
            job("steady-write-2", &steady, &steady_options),
            job("idle-read", &idle_read, &json!({"rw": "randread", "iodepth": "1"})),
            job("idle-write", &idle_write, &json!({"rw": "randwrite", "iodepth": "1", "rate_iops": "1000"})),
            job("mixed-25000", &mixed, &json!({"rw": "randrw", "iodepth": "64", "rate_iops": "2500,22500"})),
        ],
    })
}

/// Lists the flags that tell of the drive what fio does not.
const SHEET: [&str; 4] = ["--capacity=960GB", "--dies=16", "--command-rate=500000", "--link=6000MB"];

#[test]
fn a_drive_is_found_again_from_what_it_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("result.json");
    fs::write(&file, measured(folder.path()).to_string()).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let output = destage(&[&["ssd", "fit", file][..], &SHEET].concat());
    let (text, errors) = (String::from_utf8(output.stdout).expect("UTF-8"), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && !errors.contains("are off by more than half"), "{errors}");
    let found: toml::Table = text.parse().unwrap_or_else(|error| panic!("{error}: {text}"));
    let ssd = found["ssd"].as_table().expect("a table");
    let nanos = |key: &str| -> f64 {
        let text = ssd[key].as_str().expect("a text");
        text.trim_end_matches("ns").parse().unwrap_or_else(|_| panic!("{key} = {text}"))
    };
    for (key, right) in [("read", 70_000.0), ("program", 1_400_000.0), ("command-write", 9_000.0)] {
        assert!((nanos(key) / right - 1.0).abs() < 0.02, "{key} = {}: {text}", nanos(key));
    }
    assert_eq!(ssd["reserve"].as_str(), Some("12.68%"));
    assert!(text.contains("# not looked at: fill"), "{text}");
    // Every figure of every job is there, and the model has it within a tenth.
    let errors: Vec<f64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# ")?.strip_suffix(" %")?.rsplit(' ').next()?.parse().ok())
        .collect();
    assert_eq!(errors.len(), 3 + 2 + 3 + 4, "{text}");
    assert!(errors.iter().all(|error: &f64| error.abs() < 10.0), "{text}");
    // It is a scenario file.
    let mine = folder.path().join("mine.toml");
    fs::write(&mine, &text).expect("a file");
    let scenario = ["--scenario", mine.to_str().expect("UTF-8"), "--device", "ssd", "--print-scenario"];
    let printed =
        quietly(&[&["sim", "--workload", "exchange", "--policy", "lru", "--cache", "1MiB"], &scenario[..]].concat());
    assert!(printed.contains(&format!("read = \"{}ns\"", nanos("read"))), "{printed}");
}

/// Runs the jobs of contrib/drive.fio on a file, shorter and at rates that are the same on any machine: fio's own JSON is
/// read.
#[test]
fn what_fio_writes_is_read() {
    let jobs = include_str!("../../../../contrib/drive.fio");
    let (mut short, mut job) = (String::new(), "");
    for line in jobs.lines() {
        job = if line.starts_with('[') { line } else { job };
        let _ = match line.split_once('=').map(|pair| pair.0) {
            Some("runtime") => writeln!(short, "runtime=1"),
            Some("startdelay") => Ok(()),
            Some("numjobs") => writeln!(short, "numjobs=1\nrate_iops=1000"),
            Some("io_size") => writeln!(short, "io_size=1m"),
            Some("rate_iops") if job == "[idle-write]" => writeln!(short, "rate_iops=150"),
            Some("rate_iops") if job.starts_with("[mixed") => writeln!(short, "rate_iops=150,600"),
            _ => writeln!(short, "{line}"),
        };
    }
    // Direct I/O is no matter of every file system.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let [file, drive, result] = ["short.fio", "drive", "result.json"].map(|name| folder.path().join(name));
    fs::write(&file, short).expect("a file");
    // The jobs take the size that a drive has.
    fs::File::create(&drive).and_then(|file| file.set_len(8 << 20)).expect("a file");
    let mut fio = Command::new("fio");
    fio.arg(format!("--filename={}", drive.display())).arg("--output-format=json");
    let Ok(output) = fio.arg(format!("--output={}", result.display())).arg(&file).output() else {
        return skip("a drive fitted to what fio writes", "no fio");
    };
    if !output.status.success() {
        return skip("a drive fitted to what fio writes", &String::from_utf8_lossy(&output.stderr));
    }
    let output = destage(&["ssd", "fit", result.to_str().expect("UTF-8"), "--capacity=960GB"]);
    let (text, errors) = (String::from_utf8(output.stdout).expect("UTF-8"), String::from_utf8_lossy(&output.stderr));
    // A disk that others use does not keep to the rates; what was read of it is told then, with the job.
    if !output.status.success() && (errors.contains("not steady") || errors.contains("expected 100 at least")) {
        return skip("a drive fitted to what fio writes", &errors);
    }
    assert!(output.status.success(), "{errors}");
    assert!(
        text.contains("[ssd]") && text.contains("\n# mixed-50000") && text.contains("\n# not looked at: fill, age"),
        "{text}"
    );
}

/// Returns JSON that looks like fio's, of a drive that answers so.
fn plausible() -> Value {
    let direction = |iops: f64| {
        let percentile = json!({"50.000000": 80_000, "99.000000": 400_000});
        json!({"iops": iops, "total_ios": (iops * 60.0) as u64,
               "slat_ns": {"mean": 0.0}, "clat_ns": {"mean": 90_000.0, "percentile": percentile}})
    };
    let job = |name: &str, rw: &str, depth: &str, read: f64, write: f64| {
        json!({"jobname": name, "error": 0, "job options": {"rw": rw, "iodepth": depth},
               "read": direction(read), "write": direction(write)})
    };
    json!({
        "global options": {"direct": "1", "bs": "4k"},
        "jobs": [
            job("idle-read", "randread", "1", 12_000.0, 0.0),
            job("idle-write", "randwrite", "1", 0.0, 1_000.0),
            job("steady-write-1", "randwrite", "256", 0.0, 71_000.0),
            job("steady-write-2", "randwrite", "256", 0.0, 70_000.0),
            job("mixed-20000", "randrw", "64", 2_222.0, 20_000.0),
        ],
    })
}

/// Changes a result of fio.
type ChangeJson = fn(&mut Value);

#[test]
fn what_says_too_little_is_refused_with_the_job() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("result.json");
    let name = file.to_str().expect("UTF-8");
    let told = |content: &str, flags: &[&str]| {
        fs::write(&file, content).expect("a file");
        let told = refused(&[&["ssd", "fit", name][..], flags].concat());
        assert!(flags.len() < SHEET.len() || told.contains(name), "{told}");
        told
    };
    for content in ["", "fio: pid=0, err=22", "[]", "{\"jobs\": 7}", "{\"jobs\": [{\"jobname\": \"x\"}]}"] {
        let message = told(content, &SHEET);
        assert!(message.contains("is not what fio --output-format=json writes"), "{content}: {message}");
    }
    let changes: &[(ChangeJson, &str)] = &[
        (|j| j["global options"]["bs"] = json!("8k"), "job 'idle-read': bs = 8k: expected 4k"),
        (|j| j["jobs"][3]["job options"]["bs"] = json!("16KiB"), "job 'steady-write-2': bs = 16KiB: expected 4k"),
        (|j| j["global options"] = json!({}), "job 'idle-read': direct = 0: expected 1"),
        (
            |j| j["jobs"][1]["job options"]["rw"] = json!("randread"),
            "job 'idle-write': rw = randread: expected randwrite",
        ),
        (|j| j["jobs"][1]["jobname"] = json!("other"), "has no job 'idle-write': expected one with rw=randwrite"),
        (|j| j["jobs"][1]["jobname"] = json!("idle-read"), "has 2 jobs 'idle-read': expected one; group_reporting"),
        (|j| j["jobs"][3]["jobname"] = json!("last"), "has 1 jobs whose names begin with 'steady-write': expected two"),
        (
            |j| j["jobs"][2]["write"]["iops"] = json!(90_000.0),
            "the drive is not steady; expected a difference of 5 % at most",
        ),
        (
            |j| j["jobs"][2]["job options"]["iodepth"] = json!("4"),
            "job 'steady-write-1': iodepth x numjobs = 4: expected 16",
        ),
        (|j| j["jobs"][0]["job options"]["iodepth"] = json!("8"), "job 'idle-read': iodepth x numjobs = 8: expected 1"),
        (|j| j["jobs"][0]["job options"]["iodepth"] = json!("x"), "job 'idle-read': iodepth = x: expected a number"),
        (|j| j["jobs"][1]["write"]["iops"] = json!(60_000.0), "set rate_iops=1000"),
        (|j| j["jobs"][0]["error"] = json!(5), "job 'idle-read': ended with error 5"),
        (|j| j["jobs"][0]["read"]["total_ios"] = json!(3), "job 'idle-read': has 3 reads: expected 100 at least"),
        (|j| j["jobs"][4]["write"]["total_ios"] = json!(0), "job 'mixed-20000': has 0 writes"),
        (
            |j| j["jobs"][0]["read"]["clat_ns"]["percentile"] = json!({"95.000000": 1}),
            "job 'idle-read': has no clat_ns with the percentiles 50 and 99",
        ),
        (
            |j| j["jobs"][0]["read"]["clat_ns"]["percentile"]["50.000000"] = json!(500),
            "job 'idle-read': half of the reads within 0.5 us: expected more than 10.4 us",
        ),
        (
            |j| {
                j["jobs"][2]["write"]["iops"] = json!(7e9);
                j["jobs"][3]["write"]["iops"] = json!(7e9);
            },
            "job 'steady-write-2': 7000000000 writes/s leave a program",
        ),
    ];
    for (change, expected) in changes {
        let mut json = plausible();
        change(&mut json);
        let message = told(&json.to_string(), &SHEET);
        assert!(message.contains(expected), "{expected}: {message}");
    }
    let right = plausible().to_string();
    for (flags, expected) in [
        (["--capacity=0"].as_slice(), "--capacity 0: expected a size such as 960GB"),
        (&["--capacity=960GB", "--raw=900GB"], "expected more than the 960000000000 B of --capacity"),
        (&["--capacity=960GB", "--dies=0"], "--dies 0: expected a number between 1 and 4096"),
        (&["--capacity=960GB", "--link=fast"], "--link fast: expected a size"),
    ] {
        let message = told(&right, flags);
        assert!(message.contains(expected), "{expected}: {message}");
    }
    fs::remove_file(&file).expect("a file");
    assert!(refused(&[&["ssd", "fit", name][..], &SHEET].concat()).contains("cannot be read"));
}
