//! Sweeps through what the crate offers: which runs there are and in which order, that rows are those of `destage sim`, and
//! that what was interrupted, taken away or spoilt ends with the same bytes.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use destage_report::{ReportRun, ResultColumn, TableCell, read_parquet};
use destage_scenario::sim::SIM;
use destage_scenario::{DescribedSimulation, ScenarioSettings};
use destage_sim::experiment::StopSignal;
use destage_sweep::{ParameterSweep, SweepDescription, SweepError, SweepGroup, SweepSummary, local, run};
use proptest::prelude::*;

/// A folder with two traces, of which the second has twice the requests.
struct Here(tempfile::TempDir);

impl Here {
    fn new() -> Self {
        let here = Self(tempfile::tempdir().unwrap());
        for (name, requests) in [("a.spc", 400), ("b.spc", 800)] {
            let lines = (0..requests).fold(String::new(), |mut lines, i: u64| {
                let (place, op) = (i * i * 7 % 311 * 8, if i.is_multiple_of(3) { 'r' } else { 'w' });
                let _ = writeln!(lines, "0,{place},4096,{op},0.{i:06}");
                lines
            });
            fs::write(here.path(name), lines).unwrap();
        }
        here
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn describe(&self, text: &str) -> Result<SweepDescription, SweepError> {
        SweepDescription::parse(&self.path("grid.toml"), text)
    }

    fn open(&self, text: &str, out: &str) -> Result<ParameterSweep, SweepError> {
        ParameterSweep::open(&self.describe(text)?, &[], &self.path(out), &|_, _| {})
    }

    fn sweep(&self, text: &str, out: &str, threads: usize) -> SweepSummary {
        let sweep = self.open(text, out).unwrap();
        local(sweep, NonZero::new(threads), &StopSignal::default(), &|_, _| {}).unwrap()
    }

    fn parts(&self, out: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path(out).join("parts")).unwrap();
        let mut parts: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        parts.retain(|part| part.extension().is_some_and(|extension| extension == "parquet"));
        parts.sort();
        parts
    }

    fn rows(&self, out: &str) -> Vec<ResultColumn> {
        read_parquet(fs::read(self.path(out).join("sweep.parquet")).unwrap(), |_| true).unwrap()
    }
}

fn column<'a>(columns: &'a [ResultColumn], name: &str) -> &'a [TableCell] {
    &columns.iter().find(|column| column.name == name).unwrap_or_else(|| panic!("there is no column {name}")).cells
}

fn texts<'a>(columns: &'a [ResultColumn], name: &str) -> Vec<&'a str> {
    let text = |cell: &'a TableCell| if let TableCell::Text(text) = cell { text.as_str() } else { "" };
    column(columns, name).iter().map(text).collect()
}

fn whole(columns: &[ResultColumn], name: &str) -> Vec<Option<u64>> {
    let number = |cell: &TableCell| if let TableCell::Integer(number) = cell { Some(*number) } else { None };
    column(columns, name).iter().map(number).collect()
}

/// Two blocks that overlap, over two traces: 2 x (3 x (2 x 2 + 1) + 2).
const GRID: &str = r#"
traces = ["[ab].spc", "?.spc"]
[scenario]
device = "ssd"
format = "spc"
start = "full"
"#;

fn grid() -> String {
    GRID.replace(r#""[ab].spc", "#, "")
        + r#"
[[grid]]
policy = ["lru", "fab", "none"]
cache = ["16KiB", "32KiB"]
ssd.queue-depth = [1, 4, 16]
[[grid]]
policy = ["lru", "clock"]
cache = ["32KiB"]
ssd.queue-depth = 4
"#
}

#[test]
fn rows_are_in_the_order_of_the_grid_and_each_is_there_once() {
    let here = Here::new();
    let summary = here.sweep(&grid(), "out", 2);
    assert_eq!((summary.rows, summary.runs, summary.known, summary.simulated), (32, 32, 0, 32));
    let rows = here.rows("out");
    assert_eq!(texts(&rows, "trace")[..16], ["a.spc"; 16]);
    assert_eq!(texts(&rows, "trace")[16..], ["b.spc"; 16]);
    assert_eq!(texts(&rows, "input.trace"), texts(&rows, "trace"));
    let of_depth = ["lru", "lru", "fab", "fab", "none"];
    assert_eq!(texts(&rows, "policy")[..16], [&of_depth[..], &of_depth, &of_depth, &["clock"]].concat());
    let (small, large) = (Some(16 << 10), Some(32 << 10));
    assert_eq!(whole(&rows, "cache_bytes")[..6], [small, large, small, large, None, small]);
    assert_eq!(whole(&rows, "cache_bytes")[15], large);
    let depths = whole(&rows, "grid.ssd.queue-depth");
    assert_eq!(
        depths[..16],
        [[Some(1); 5], [Some(4); 5], [Some(16); 5]].concat().into_iter().chain([Some(4)]).collect::<Vec<_>>()
    );
    assert_eq!(texts(&rows, "key").iter().collect::<BTreeSet<_>>().len(), 32);
    // What all runs share is no column of the grid.
    assert!(rows.iter().all(|column| column.name != "grid.policy" && column.name != "grid.device"));
    // Nothing is left to do, and the bytes are the same.
    let before = fs::read(here.path("out/sweep.parquet")).unwrap();
    let again = here.sweep(&grid(), "out", 1);
    assert_eq!((again.known, again.simulated), (32, 0));
    assert!(before == fs::read(here.path("out/sweep.parquet")).unwrap());
}

#[test]
fn rows_are_the_results_of_single_simulations() {
    let here = Here::new();
    let text = r#"
traces = [{ file = "b.spc", format = "spc" }]
[scenario]
device = "ssd"
warmup = "10%"
[grid]
policy = ["lru", "lb-clock"]
cache = ["20%", "64KiB..128KiB/2"]
ssd.reserve = ["15%", "30%"]
"#;
    here.sweep(text, "out", 1);
    let rows = here.rows("out");
    let mut expected = Vec::new();
    for reserve in ["15%", "30%"] {
        let mut settings = ScenarioSettings::new(SIM);
        let given = [
            ("trace", here.path("b.spc").display().to_string()),
            ("format", "spc".to_owned()),
            ("device", "ssd".to_owned()),
            ("warmup", "10%".to_owned()),
            ("policy", "lru,lb-clock".to_owned()),
            ("cache", "20%,64KiB..128KiB/2".to_owned()),
            ("ssd.reserve", reserve.to_owned()),
        ];
        for (key, value) in given {
            settings.flag(key, vec![value]).unwrap();
        }
        let mut requests = destage_scenario::sim::requests(&settings).unwrap();
        destage_scenario::count(&settings, &mut requests, &mut |_, _| {}).unwrap();
        destage_scenario::find_sizes(&settings, &mut requests, &|_| {}).unwrap();
        let DescribedSimulation::Buffers(experiment) = destage_scenario::simulation(&settings, &requests).unwrap()
        else {
            panic!("no array was asked for");
        };
        let resources = destage_scenario::sim::resources(&settings).unwrap();
        let report = experiment.run(resources, &mut || requests.open(0), &|_| {}).unwrap();
        expected.extend(report.results.iter().map(ReportRun::of_buffer));
    }
    assert_eq!(expected.len(), 12);
    for name in [
        "cache_bytes",
        "hits",
        "hit_ratio",
        "response.all.mean",
        "response.all.p99",
        "ssd.write_amplification",
        "erases",
    ] {
        let found = column(&rows, name).iter().map(|cell| match cell {
            TableCell::Integer(number) => Some(*number as f64),
            TableCell::Float(number) => Some(*number),
            _ => None,
        });
        let expected: Vec<_> = expected.iter().map(|run| run.number(name)).collect();
        assert!(expected.iter().all(Option::is_some), "{name}: {expected:?}");
        assert_eq!(found.collect::<Vec<_>>(), expected, "{name}");
    }
}

#[test]
fn arrays_and_buffers_can_be_in_one_sweep() {
    let here = Here::new();
    let text = r#"
traces = ["a.spc"]
scenario = { format = "spc" }
[[grid]]
policy = ["lru"]
cache = ["16KiB"]
[[grid]]
array = ["raid5:3", "raid5:4"]
policy = ["none", "write-through"]
cache = ["64KiB"]
device = "fixed"
cache-device = "fixed"
"#;
    let summary = here.sweep(text, "out", 2);
    assert_eq!((summary.rows, summary.failed.len()), (5, 0));
    let rows = here.rows("out");
    assert_eq!(texts(&rows, "grid.array"), ["", "raid5:3", "raid5:3", "raid5:4", "raid5:4"]);
    assert_eq!(texts(&rows, "policy"), ["lru", "none", "write-through", "none", "write-through"]);
    // Both kinds, each with its own objective.
    let best: Vec<_> = summary.best.iter().map(|run| run.objective.as_str()).collect();
    assert_eq!(best, ["hit ratio", "mean response time", "mean response time", "mean response time"]);
}

#[test]
fn what_is_wrong_is_told_before_anything_runs() {
    let here = Here::new();
    fs::write(here.path("empty"), "").unwrap();
    for (text, told) in [
        ("traces = [\"a.spc\"]", "there is no grid"),
        ("traces = [\"a.spc\"]\n[grid]", "line 2: the grid is empty"),
        ("traces = [\"a.spc\"]\n[grid]\npolicy = []", "line 3: 'policy' has no values"),
        ("traces = [\"a.spc\"]\n[grid]\npolcy = [\"lru\"]", "line 3: there is no key 'polcy'; did you mean 'policy'?"),
        ("traces = [\"a.spc\"]\n[grid]\npolicy = [\"lru\", \"lru\"]", "has the value lru twice"),
        ("traces = [\"a.spc\"]\n[grid]\nthreads = [1, 2]", "decides about no result"),
        ("traces = [\"a.spc\"]\n[grid]\ntrace = [\"a.spc\"]", "name traces in 'traces'"),
        ("traces = []\n[grid]\npolicy = \"lru\"", "line 1: the list of traces is empty"),
        ("traces = [\"c*.spc\"]\n[grid]\npolicy = \"lru\"", "there is no such file"),
        ("traces = [\"c.spc\"]\n[grid]\npolicy = \"lru\"", "c.spc: cannot be read"),
        ("traces = [\"-\"]\n[grid]\npolicy = \"lru\"", "more than once"),
        ("traces = [\"s3://bucket/c.spc\"]\n[grid]\npolicy = \"lru\"", "a URL is fetched in Python"),
        ("trace = \"a.spc\"\n[grid]\npolicy = \"lru\"", "there is no 'trace' here, only scenario, traces and grid"),
        ("[scenario]\ntrace = \"a.spc\"\njson = \"x\"\n[grid]\npolicy = \"lru\"", "'json' says what becomes"),
        ("traces = [\"a.spc\"]\n[scenario]\ntrace = \"a.spc\"\n[grid]\npolicy = \"lru\"", "leave one of them out"),
        ("traces = [{ file = \"a.spc\", frmat = \"spc\" }]\n[grid]\npolicy = \"lru\"", "a trace has no 'frmat'"),
        (
            "traces = [\"a.spc\"]\n[grid]\ncache = [\"1MiB\"]\ndevice = [\"ssd\", \"none\"]\nssd.planes = [4, 8]",
            "device = none, ssd.planes = 4 over a.spc: 'ssd.planes' has no meaning for device = none",
        ),
        ("traces = [\"a.spc\"]\n[grid]\npolicy = [\"tape\"]\nspeed = [1, 2]", "speed = 1 over a.spc: "),
        ("traces = [\"a.spc\"]\n[grid]\npolicy = \"lru\"\ncache = [\"5000B\"]", "cache"),
    ] {
        let error = here.open(text, "out").unwrap_err().to_string();
        assert!(error.contains(told), "{text}\n{error}");
        assert!(!here.path("out").exists(), "{text}");
    }
}

#[test]
fn runs_that_fail_are_named_and_others_are_not_lost() {
    let here = Here::new();
    // Of the larger devices none has room in so little memory.
    let text = r#"
traces = ["a.spc"]
[scenario]
device = "ssd"
format = "spc"
start = "full"
memory = "24MiB"
ssd.model = "classic"
ssd.capacity = "preset"
[grid]
policy = ["lru", "fab"]
cache = ["16KiB", "32KiB"]
ssd.blocks-per-plane = [64, 65536]
"#;
    let summary = here.sweep(text, "out", 2);
    assert_eq!((summary.rows, summary.runs, summary.simulated, summary.failed.len()), (4, 8, 4, 4));
    let failed: Vec<_> = summary.failed.iter().map(|failed| failed.run.as_str()).collect();
    assert_eq!(failed[0], "lru with 16384 B over a.spc, ssd.blocks-per-plane = 65536");
    assert!(failed[3].starts_with("fab with 32768 B"), "{failed:?}");
    assert!(summary.failed[0].error.contains("raise memory"), "{:?}", summary.failed[0]);
    // They are tried again, and only they.
    let again = here.sweep(&text.replace("24MiB", "4GiB"), "out", 1);
    assert_eq!((again.rows, again.known, again.simulated), (8, 4, 4));
}

#[test]
fn a_part_that_has_changed_is_set_aside_and_its_runs_are_run_again() {
    let here = Here::new();
    for (out, spoil) in [
        ("short", (|content| content[..content.len() / 2].to_vec()) as fn(&[u8]) -> Vec<u8>),
        ("empty", |_| Vec::new()),
        ("changed", |content| [&content[..1000], &[content[1000] ^ 1], &content[1001..]].concat()),
    ] {
        here.sweep(&grid(), out, 1);
        let whole = fs::read(here.path(out).join("sweep.parquet")).unwrap();
        let parts = here.parts(out);
        assert!(parts.len() > 2, "{parts:?}");
        let spoilt = spoil(&fs::read(&parts[0]).unwrap());
        fs::write(&parts[0], &spoilt).unwrap();
        let mine = here.path(out).join("parts/mine.parquet");
        fs::write(&mine, "x").unwrap();
        let sweep = here.open(&grid(), out).unwrap();
        let notes = sweep.notes().join("\n");
        assert!(notes.contains("has changed since it was written; it is "), "{notes}");
        assert!(notes.contains("mine.parquet: is no part of a sweep, and is left alone"), "{notes}");
        assert!(sweep.known() < 32, "{}", sweep.known());
        local(sweep, None, &StopSignal::default(), &|_, _| {}).unwrap();
        assert!(whole == fs::read(here.path(out).join("sweep.parquet")).unwrap());
        assert_eq!(fs::read(parts[0].with_extension("damaged")).unwrap(), spoilt);
        assert!(mine.exists());
    }
    here.sweep(&grid(), "out", 1);
    let parts = here.parts("out");
    // One of another name is not taken for what it says.
    let foreign = here.path(&format!("out/parts/part-{}.parquet", "0".repeat(64)));
    fs::copy(&parts[1], &foreign).unwrap();
    let notes = here.open(&grid(), "out").unwrap().notes().join("\n");
    assert!(notes.contains("0000.parquet: has changed"), "{notes}");
    assert!(!foreign.exists());
}

#[test]
fn only_one_sweep_at_a_time_writes_to_a_folder() {
    let here = Here::new();
    let first = here.open(&grid(), "out").unwrap();
    let error = here.open(&grid(), "out").unwrap_err().to_string();
    assert!(error.contains("another sweep writes to this folder"), "{error}");
    drop(first);
    here.open(&grid(), "out").unwrap();
}

#[test]
fn groups_are_text_that_says_what_it_is_for() {
    let here = Here::new();
    let mut sweep = here.open(&grid(), "out").unwrap();
    let mut runs = BTreeSet::new();
    let mut names = BTreeSet::new();
    while let Some((group, file)) = sweep.next(2) {
        assert!(names.insert(group.name()));
        let text = group.text();
        let again = SweepGroup::parse(&text).unwrap();
        assert_eq!((again.runs(), again.name(), again.text()), (group.runs(), group.name(), text.clone()));
        let trace = group.trace().unwrap();
        assert_eq!(trace.place, file.as_deref().unwrap().display().to_string());
        assert_eq!(group.split().len(), group.runs());
        runs.extend(group.failed("lost").into_iter().map(|failed| failed.key));
        let refused = |text: &str, file: Option<&Path>| {
            run(&SweepGroup::parse(text).unwrap(), file, None, &StopSignal::default()).unwrap_err().to_string()
        };
        // Another program, another trace, another scenario, and no trace at all.
        let program = destage_sweep::program();
        let told = refused(&text.replace(program, &"0".repeat(64)), file.as_deref());
        assert!(told.contains("other sources"), "{told}");
        let other = if trace.place.ends_with("a.spc") { "b.spc" } else { "a.spc" };
        let told = refused(&text, Some(&here.path(other)));
        assert!(told.contains("holds something else"), "{told}");
        let told = refused(
            &text.replace("\"ssd\"", "\"none\"").replace("\"start\"", "\"trim\"").replace("\"full\"", "\"ignore\""),
            file.as_deref(),
        );
        assert!(told.contains("has no meaning") || told.contains("another run here"), "{told}");
        let told = refused(&text.replace(&trace.place, "/nowhere.spc"), None);
        assert!(told.contains("/nowhere.spc: cannot be read"), "{told}");
    }
    assert_eq!(runs.len(), 32);
    assert!(SweepGroup::parse("{}").is_err());
}

/// The crates whose sources stand for the program are all that decide about results.
#[test]
fn the_program_is_all_crates_that_this_one_uses() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let build = fs::read_to_string(crates.join("sweep/build.rs")).unwrap();
    let list = build.split("const CRATES").nth(1).unwrap().split(';').nth(1).unwrap();
    let told: BTreeSet<String> = list.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    let (mut used, mut open) = (BTreeSet::new(), vec!["sweep".to_owned()]);
    while let Some(name) = open.pop() {
        let manifest = fs::read_to_string(crates.join(&name).join("Cargo.toml")).unwrap();
        let of = manifest.split("[dependencies]").nth(1).unwrap_or_default().split("\n[").next().unwrap_or_default();
        let names = of.lines().filter_map(|line| line.strip_prefix("destage-")?.split(['.', ' ']).next());
        open.extend(names.map(str::to_owned).filter(|name| !used.contains(name)));
        used.insert(name);
    }
    assert_eq!(told, used);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("DESTAGE_SOAK").is_some() { 100 } else { 6 }))]

    /// Whichever parts are there, and however it goes on, the end is the same.
    #[test]
    fn parts_that_are_gone_are_made_again(gone in prop::collection::vec(any::<bool>(), 12), threads in 1_usize..4, wide: bool) {
        let here = Here::new();
        // Rows of other runs may lie in the folder too.
        if wide {
            here.sweep(&grid().replace("[1, 4, 16]", "[1, 2]"), "out", 1);
        }
        here.sweep(&grid(), "out", 3);
        let whole = fs::read(here.path("out/sweep.parquet")).unwrap();
        for (part, gone) in here.parts("out").iter().zip(&gone) {
            if *gone {
                fs::remove_file(part).unwrap();
            }
        }
        let summary = here.sweep(&grid(), "out", threads);
        prop_assert_eq!(summary.simulated + summary.known, 32);
        prop_assert!(whole == fs::read(here.path("out/sweep.parquet")).unwrap());
        let fresh = here.sweep(&grid(), "fresh", threads);
        prop_assert_eq!(fresh.simulated, 32);
        prop_assert!(whole == fs::read(here.path("fresh/sweep.parquet")).unwrap());
    }
}
