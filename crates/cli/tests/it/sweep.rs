//! `destage sweep` from outside: killed in the middle it goes on, with the same bytes in the end; what it says, and what it
//! says where there is no Python.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::binary::command;

/// A recording of 119,807 requests.
const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/own.oltp-pgbench-ext4.destage");
/// Runs of the grid.
const RUNS: usize = 48;

struct Here(tempfile::TempDir);

impl Here {
    /// A folder with a sweep over so many requests of a trace.
    fn new(requests: u64) -> Self {
        let here = Self(tempfile::tempdir().expect("a folder"));
        let grid = format!(
            "traces = [\"{TRACE}\"]\n[scenario]\ndevice = \"ssd\"\nstart = \"full\"\nlimit = {requests}\n\
             [grid]\npolicy = [\"lru\", \"fab\", \"clock\"]\ncache = [\"1MiB..8MiB/4\"]\nssd.reserve = [\"10%\", \"20%\"]\n\
             ssd.queue-depth = [8, 32]\n"
        );
        fs::write(here.path("grid.toml"), grid).expect("a file");
        here
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn sweep(&self, arguments: &[&str]) -> Output {
        let all = [&["sweep", "grid.toml", "--progress=false"][..], arguments].concat();
        command(&all).current_dir(self.0.path()).output().expect("the binary starts")
    }

    /// Returns the summary of a sweep that must end well.
    fn told(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.sweep(&[arguments, &["--json"]].concat());
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    fn parts(&self, out: &str) -> usize {
        let entries = fs::read_dir(self.path(out).join("parts")).into_iter().flatten().flatten();
        entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "parquet")).count()
    }

    fn bytes(&self, out: &str) -> Vec<u8> {
        fs::read(self.path(out).join("sweep.parquet")).expect("the rows")
    }
}

#[test]
fn a_sweep_that_is_killed_goes_on_and_ends_with_the_same_bytes() {
    let here = Here::new(60_000);
    let told = here.told(&["--out=whole", "--threads=2"]);
    assert_eq!((&told["runs"], &told["rows"], &told["simulated"]), (&RUNS.into(), &RUNS.into(), &RUNS.into()));
    let whole = here.bytes("whole");
    let rows =
        SerializedFileReader::new(fs::File::open(here.path("whole/sweep.parquet")).expect("a file")).expect("Parquet");
    assert_eq!(rows.metadata().file_metadata().num_rows(), i64::try_from(RUNS).expect("few"));
    // Killed three times, whenever some parts more are there.
    let mut kills = 0;
    for parts in [1, 2, 4] {
        let mut call = command(&["sweep", "grid.toml", "--out=out", "--threads=1", "--progress=false"]);
        call.current_dir(here.0.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = call.spawn().expect("the binary starts");
        let began = Instant::now();
        while here.parts("out") < parts && child.try_wait().expect("a child").is_none() {
            assert!(began.elapsed() < Duration::from_mins(2), "no part was written");
            std::thread::sleep(Duration::from_millis(2));
        }
        kills += usize::from(child.try_wait().expect("a child").is_none());
        child.kill().expect("it can be killed");
        child.wait().expect("a child");
    }
    assert!(kills > 0, "it was always too fast");
    let told = here.told(&["--out=out", "--threads=2"]);
    let (known, simulated) = (told["known"].as_u64().expect("a number"), told["simulated"].as_u64().expect("a number"));
    assert!(known > 0 && known + simulated == RUNS as u64, "{told}");
    assert!(whole == here.bytes("out"));
    // What was left half written is cleared away, and nothing is done again.
    let told = here.told(&["--out=out"]);
    assert_eq!((&told["known"], &told["simulated"]), (&RUNS.into(), &0.into()));
    let left: Vec<_> =
        fs::read_dir(here.path("out/parts")).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| name.to_string_lossy().starts_with("part-")), "{left:?}");
    assert!(whole == here.bytes("out"));
}

#[test]
fn it_says_where_rows_are_and_which_run_is_best() {
    let here = Here::new(2_000);
    let output = here.sweep(&["--out=out"]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success() && output.stderr.is_empty(), "{text}");
    assert!(text.contains("48 in out/sweep.parquet") && text.contains("48 simulated, 0 known from before"), "{text}");
    assert!(text.contains("mean response time") && text.contains("ssd.reserve"), "{text}");
}

#[test]
fn runs_without_results_are_named_and_the_exit_status_tells() {
    let here = Here::new(2_000);
    let grid = fs::read_to_string(here.path("grid.toml")).expect("it is there");
    let grid =
        grid.replace("start =", "memory = \"24MiB\"\nssd.model = \"classic\"\nssd.capacity = \"preset\"\nstart =");
    let grid = grid.replace("ssd.queue-depth = [8, 32]", "ssd.blocks-per-plane = [64, 65536]");
    fs::write(here.path("grid.toml"), grid).expect("a file");
    let output = here.sweep(&["--out=out"]);
    let (text, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{text}{told}");
    assert!(text.contains("24 in out/sweep.parquet") && text.contains("and 19 more"), "{text}");
    assert!(told.contains("24 of 48 runs have no result, such as lru with 1048576 B"), "{told}");
}

/// A program in place of Python.
fn python(here: &Here, lines: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let file = here.path("python");
    fs::write(&file, format!("#!/bin/sh\n{lines}\n")).expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it is ours");
    file
}

#[test]
fn what_is_missing_for_a_cluster_is_named() {
    let here = Here::new(2_000);
    let told = |python: &Path| {
        let mut call = command(&["sweep", "grid.toml", "--out=out", "--on=tcp://127.0.0.1:1", "--json"]);
        let output = call.current_dir(here.0.path()).env("DESTAGE_PYTHON", python).output().expect("the binary starts");
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    let text = told(Path::new("/nowhere/python"));
    assert!(text.contains("/nowhere/python cannot be started; DESTAGE_PYTHON names another Python"), "{text}");
    let text = told(&python(&here, "echo '{\"missing\": \"No module named destage\"}'"));
    assert!(
        text.contains("has not all that --on needs (No module named destage)") && text.contains("pip install"),
        "{text}"
    );
    let text = told(&python(&here, "echo '{\"error\": \"no scheduler answers\"}'"));
    assert_eq!(text, "destage: no scheduler answers\n");
    let text = told(&python(&here, "exit 3"));
    assert!(text.contains("ended with exit status: 3 and without results"), "{text}");
    let output = here.sweep(&["--out=out", "--on=tcp://127.0.0.1:1", "--threads=2"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!here.path("out").exists());
}
