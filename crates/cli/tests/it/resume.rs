//! A sweep that was interrupted goes on where it stopped, with the same bytes in the end; nothing is simulated twice.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use crate::binary::command;

/// Buffers over an SSD that is aged and fits the trace.
const BUFFERS: &[&str] = &[
    "--workload=fiu-mail",
    "--limit=60000",
    "--policy=lru,fab,lb-clock,gcar+lru,none",
    "--cache=1MiB,2MiB",
    "--device=ssd",
    "--per-volume",
    "--warmup=10%",
];
/// Runs of it.
const RUNS: usize = 9;
/// Caches over SSDs that fit the trace.
const ARRAYS: &[&str] = &[
    "--workload=financial1",
    "--limit=4000",
    "--array=raid5:4",
    "--device=ssd",
    "--policy=none,kdd,wow",
    "--cache=2MiB,4MiB",
];

/// A folder of its own.
struct Here(tempfile::TempDir);

impl Here {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn sim(&self, arguments: &[&str]) -> Output {
        let with_threads = arguments.iter().any(|argument| argument.starts_with("--threads"));
        let all = [&["sim", "--threads=1"][..=usize::from(!with_threads)], arguments].concat();
        command(&all).current_dir(self.0.path()).output().expect("the binary starts")
    }

    /// Returns the files and the standard output of a call, and its standard error, which must be one line, of the
    /// timing.
    fn results(&self, arguments: &[&str], kept: Option<&str>) -> (BTreeMap<PathBuf, Vec<u8>>, String) {
        let into = ["--json=out/r.json", "--csv=out/r.csv", "--report=out", "--timing"];
        let resume = kept.map(|kept| format!("--resume={kept}"));
        let output = self.sim(&[arguments, &into, &resume.as_deref().into_iter().collect::<Vec<_>>()].concat());
        let told = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(output.status.success(), "{told}");
        let mut found = BTreeMap::from([(PathBuf::new(), output.stdout)]);
        for entry in fs::read_dir(self.path("out")).expect("a folder") {
            let file = entry.expect("an entry").path();
            found.insert(file.clone(), fs::read(&file).expect("a file"));
        }
        assert_eq!(found.len(), 15, "{:?}", found.keys());
        fs::remove_dir_all(self.path("out")).expect("a folder");
        (found, told)
    }

    /// The same results whether kept or not; what is said of how many were simulated.
    fn same(&self, arguments: &[&str], undisturbed: &BTreeMap<PathBuf, Vec<u8>>) -> String {
        let (found, told) = self.results(arguments, Some("kept"));
        let differ: Vec<_> = undisturbed.iter().filter(|(file, bytes)| found.get(*file) != Some(bytes)).collect();
        assert!(differ.is_empty(), "{:?}", differ.iter().map(|(file, _)| file).collect::<Vec<_>>());
        told
    }

    fn entries(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path("kept")) else { return Vec::new() };
        let mut entries: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        entries.sort();
        entries
    }

    fn whole_entries(&self) -> usize {
        self.entries().iter().filter(|entry| entry.extension().is_some_and(|extension| extension == "json")).count()
    }
}

/// Returns true if the timing tells of so many runs simulated and known, and nothing else is printed.
fn tells(told: &str, simulated: usize, known: usize) -> bool {
    let runs = match known {
        0 => format!(" {simulated} runs; "),
        _ => format!(" {simulated} runs and {known} known from before; "),
    };
    // Where the machine is slow, progress is told before.
    let lines: Vec<_> =
        told.lines().filter(|line| !["fiu-mail: ", "financial1: "].iter().any(|name| line.starts_with(name))).collect();
    lines.len() == 1 && lines[0].starts_with("timing: ") && lines[0].contains(&runs)
}

/// Kills a sweep as soon as some of its runs are kept, and says how many.
fn killed(here: &Here, arguments: &[&str], after: usize) -> usize {
    let all = [&["sim", "--threads=1", "--resume=kept", "--json=never.json"], arguments].concat();
    let mut call = command(&all);
    call.current_dir(here.0.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = call.spawn().expect("the binary starts");
    let patience = Instant::now() + Duration::from_mins(5);
    while here.whole_entries() < after {
        assert!(child.try_wait().expect("a child").is_none(), "it goes on");
        assert!(Instant::now() < patience, "runs are kept");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("it can be killed");
    assert!(!child.wait().expect("a child").success(), "it did not come to its end");
    assert!(!here.path("never.json").exists());
    here.whole_entries()
}

#[test]
fn a_sweep_that_was_killed_goes_on() {
    for (arguments, runs) in [(BUFFERS, RUNS), (ARRAYS, 5)] {
        let here = Here::new();
        let (undisturbed, told) = here.results(arguments, None);
        assert!(tells(&told, runs, 0), "{told}");
        // A first pass is for two runs of the one thread, and there are several.
        let first = killed(&here, arguments, 1);
        assert!((1..runs).contains(&first), "{first} of {runs} runs");
        let second = if first + 1 < runs { killed(&here, arguments, first + 1) } else { first };
        assert!((first..runs).contains(&second), "{second} of {runs} runs");
        let told = here.same(arguments, &undisturbed);
        assert!(tells(&told, runs - second, second), "{told}");
        assert_eq!(here.entries().len(), runs, "nothing half written is left");
        let told = here.same(arguments, &undisturbed);
        assert!(tells(&told, 0, runs), "{told}");
        // With any number of threads, and less said of it.
        let table = here.sim(&[arguments, &["--resume=kept", "--threads=3"]].concat());
        assert!(table.status.success() && table.stdout == here.sim(arguments).stdout, "{table:?}");
    }
}

#[test]
fn a_sweep_that_grows_simulates_what_is_new() {
    let here = Here::new();
    let sweep = |policies: &str, sizes: &str, more: &[&'static str]| {
        let (policies, sizes) = (format!("--policy={policies}"), format!("--cache={sizes}"));
        let common = ["--workload=fiu-mail", "--set=limit=20000", &policies, &sizes];
        let arguments = [&common[..], more].concat();
        here.same(&arguments, &here.results(&arguments, None).0)
    };
    for (policies, sizes, more, simulated, known) in [
        ("lru,fab", "1MiB,2MiB", &[][..], 4, 0),
        ("lru,fab,none", "1MiB,2MiB", &[], 1, 4),
        // In another order, and with a size that is new.
        ("none,lb-clock,fab,lru", "4MiB,2MiB,1MiB", &[], 5, 5),
        ("lru", "1MiB..4MiB/3", &[], 0, 3),
        // What chooses sizes is read again; sizes are as good as if they had been given.
        ("lru", "1MiB,100%", &[], 1, 1),
        ("lru:reads=bypass", "1MiB", &[], 1, 0),
        // Of no influence.
        ("lru", "1MiB", &["--memory=1GiB", "--objective=hits", "--progress=false", "--threads=2"], 0, 1),
        // Of influence, or with results that say more.
        ("lru", "1MiB", &["--ops=writes"], 1, 0),
        ("lru", "1MiB", &["--per-volume"], 1, 0),
        ("lru", "1MiB", &["--limit=19999"], 1, 0),
        ("lru", "1MiB", &["--skip=1"], 1, 0),
        ("lru", "1MiB", &["--repeat=2"], 1, 0),
        ("lru", "1MiB", &["--workload-set=seed=2"], 1, 0),
        ("lru", "1MiB", &["--device=ssd"], 1, 0),
        ("lru", "1MiB", &["--device=ssd", "--start=full"], 1, 0),
        ("lru", "1MiB", &["--warmup=10%"], 1, 0),
        // As much, but results say how it was asked for.
        ("lru", "1MiB", &["--warmup=2000"], 1, 0),
    ] {
        let told = sweep(policies, sizes, more);
        assert!(tells(&told, simulated, known), "{policies} at {sizes} {more:?}: {told}");
    }
}

#[test]
fn orders_of_service_are_runs_too() {
    let here = Here::new();
    for (schedulers, simulated, known) in [("clook", 2, 0), ("sptf,clook", 2, 2), ("fcfs", 2, 0)] {
        let scheduler = format!("--scheduler={schedulers}");
        let arguments =
            ["--workload=financial1", "--limit=1000", "--array=raid5:3", "--policy=none,wow", "--cache=1MiB"];
        let arguments = [&arguments[..], &[&scheduler]].concat();
        let told = here.same(&arguments, &here.results(&arguments, None).0);
        assert!(tells(&told, simulated, known), "{schedulers}: {told}");
    }
}

#[test]
fn every_entry_that_is_damaged_is_named_and_simulated_again() {
    let here = Here::new();
    let arguments = &["--workload=fiu-mail", "--limit=5000", "--policy=lru,fab", "--cache=1MiB,2MiB"];
    let (undisturbed, _) = here.results(arguments, None);
    here.same(arguments, &undisturbed);
    let entries = here.entries();
    let whole: Vec<_> = entries.iter().map(|entry| fs::read(entry).expect("an entry")).collect();
    assert_eq!(entries.len(), 4);
    for (at, entry) in entries.iter().enumerate() {
        let mut flipped = whole[at].clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 1;
        let damages: [&[u8]; 5] = [&flipped, &whole[at][..middle], b"", &whole[(at + 1) % 4], b"{\"precious\": true}"];
        for damage in damages {
            fs::write(entry, damage).expect("an entry");
            let told = here.same(arguments, &undisturbed);
            let [note, timing] = told.lines().collect::<Vec<_>>()[..] else { panic!("two lines: {told}") };
            let name = entry.file_name().expect("a name").to_str().expect("UTF-8");
            assert!(note.starts_with("note: ") && note.contains(name), "{note}");
            assert!(note.contains("is no entry of results kept by destage") && note.contains("is run again"), "{note}");
            assert!(tells(timing, 1, 3), "{timing}");
            assert_eq!(&fs::read(entry).expect("an entry"), &whole[at], "it is as it was");
        }
    }
    // What else is there is left alone.
    fs::write(here.path("kept/notes.txt"), "precious").expect("a file");
    assert!(tells(&here.same(arguments, &undisturbed), 0, 4));
    assert_eq!(fs::read(here.path("kept/notes.txt")).expect("a file"), b"precious");
}

#[test]
fn traces_are_known_by_what_they_hold() {
    let here = Here::new();
    let line =
        |i: u64| format!("{},{},{},8\n", i * 500, if i.is_multiple_of(3) { "R" } else { "W" }, i * i % 30_000 * 8);
    let lines = |n: u64| (0..n).map(line).collect::<Vec<_>>().concat();
    fs::write(here.path("t.csv"), lines(2_000)).expect("a trace");
    fs::write(here.path("s.toml"), "trace = \"t.csv\"\nresume = \"kept\"\npolicy = \"lru\"\n").expect("a scenario");
    let format = "--format=columns:ts=us,op,off=sectors,len=sectors";
    let simulated = |more: &[&str]| {
        let output = here.sim(&[&[format, "--cache=64KiB", "--timing"], more].concat());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        tells(&told, 1, 0) || {
            assert!(tells(&told, 0, 1), "{told}");
            false
        }
    };
    let kept = |trace: &'static str| ["--policy=lru", "--resume=kept", "--trace", trace];
    assert!(simulated(&kept("t.csv")));
    assert!(!simulated(&kept("t.csv")));
    // A scenario's folder is where it lies.
    assert!(!simulated(&["--scenario=s.toml"]));
    assert_eq!(here.entries().len(), 1);
    fs::write(here.path("t.csv"), lines(2_001)).expect("a trace");
    assert!(simulated(&kept("t.csv")));
    fs::write(here.path("t.csv"), lines(2_000)).expect("a trace");
    assert!(!simulated(&kept("t.csv")));
    // Results name the trace as the user does.
    fs::copy(here.path("t.csv"), here.path("u.csv")).expect("a trace");
    assert!(simulated(&kept("u.csv")));
    assert!(simulated(&["--policy=lru", "--resume=kept", "--trace=t.csv", "--lenient"]));
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let here = Here::new();
    fs::write(here.path("file"), "precious").expect("a file");
    let fifo = here.path("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let one = ["--policy=lru", "--cache=1MiB"];
    let workload = ["--workload=fiu-mail", "--limit=100"];
    for (arguments, why) in [
        (&["--trace=-", "--resume=kept"][..], "standard input: resume: a pipe can be read only once"),
        (&["--trace=fifo", "--resume=kept"], "fifo: resume: a pipe can be read only once"),
        (
            &[workload[0], workload[1], "--resume=kept", "--latency-log=log.csv"],
            "'resume' and 'latency-log' do not go together",
        ),
        (&[workload[0], workload[1], "--resume=file"], "file: cannot be made"),
        (&["--trace=nowhere.spc", "--resume=kept"], "nowhere.spc"),
    ] {
        let output = here.sim(&[arguments, &one].concat());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(1) && output.stdout.is_empty() && told.contains(why),
            "{arguments:?}: {told}"
        );
        assert!(here.entries().is_empty() && !here.path("log.csv").exists(), "{arguments:?}");
    }
    assert_eq!(fs::read(here.path("file")).expect("a file"), b"precious");
}
