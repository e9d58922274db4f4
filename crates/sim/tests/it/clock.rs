//! Clocks that wrap, logs that were joined, clocks that were set back: never without a word.

use std::fmt::Write as _;
use std::io::Cursor;

use destage_plan::{Nanos, PageGeometry, Request};
use destage_sim::buffer::{BufferExperiment, DeviceConfig, RunResult};
use destage_sim::experiment::OpenedInput;
use destage_sim::input::{HostModel, PlaySpeed};
use destage_sim::measure::FindingSeverity;
use destage_sim::ssd::{SsdConfig, StartState};
use destage_trace::{OpenOptions, open_stream};

use crate::in_memory::{ONE_THREAD, experiment, run_one, write};

const SECOND: u64 = 1_000_000;

/// Writes and reads a millisecond apart, in `rq-csv`, whose clock of so many microseconds shows `at(n)`.
fn recorded(count: u64, at: impl Fn(u64) -> u64) -> String {
    (0..count).fold(String::new(), |mut text, n| {
        let op = if n % 3 == 0 { "R" } else { "W" };
        writeln!(text, "{},{op},{},8", at(n), n * 7919 % 4_001 * 8).unwrap();
        text
    })
}

fn over_an_ssd() -> BufferExperiment {
    let geometry = PageGeometry::new(4096, 64).expect("pages");
    let device = DeviceConfig::Ssd(SsdConfig::default(), StartState::Full);
    let mut lru = experiment(&["lru"], &[1 << 20], geometry, device);
    lru.run.max_backlog = 1_000_000;
    lru
}

fn simulated(experiment: &BufferExperiment, text: &str) -> RunResult {
    let mut open = || {
        let bytes = Cursor::new(text.as_bytes().to_vec());
        let options = OpenOptions { format: Some("rq-csv".parse().expect("a format")), lenient: false };
        let trace = open_stream("memory", Box::new(bytes), None, &options).expect("a trace");
        Ok(OpenedInput { source: Box::new(trace), format: "rq-csv".into() })
    };
    let mut report = experiment.run(ONE_THREAD, &mut open, &|_| {}).expect("the experiment is sound");
    report.results.remove(0)
}

fn findings(run: &RunResult) -> Vec<(&str, FindingSeverity, &str)> {
    let all = run
        .context
        .findings
        .iter()
        .filter(|finding| ["reversed", "clock-jumps", "clock-wrapped"].contains(&&*finding.kind));
    all.map(|finding| (&*finding.kind, finding.severity, finding.message.as_str())).collect()
}

/// Holds the case `clock-wrap`: a counter of microseconds in 32 bits that wraps after 2 s.
#[test]
fn a_clock_that_wraps_goes_on() {
    let start = (1 << 32) - 2 * SECOND;
    let clock = |n: u64| start + n * 1_000 + n * 37 % 900;
    let right = simulated(&over_an_ssd(), &recorded(6_000, clock));
    let wrapped = simulated(&over_an_ssd(), &recorded(6_000, |n| clock(n) % (1 << 32)));
    assert_eq!(findings(&right), []);
    let [("clock-wrapped", FindingSeverity::Note, message)] = findings(&wrapped)[..] else {
        panic!("{:?}", findings(&wrapped));
    };
    assert!(
        message.starts_with("the clock wrapped once after 2^32 us (4295 s), first at request 2001: so much was added"),
        "{message}"
    );
    assert_eq!(wrapped.context.input.reversed_requests, 0);
    assert_eq!((&wrapped.response, wrapped.simulated_time), (&right.response, right.simulated_time));
    assert!(right.response.is_some());
}

/// Joins two logs, one behind the other, as of two runs of fio; a clock that is set back by an hour.
#[test]
fn a_clock_that_jumps_back_makes_response_times_void() {
    let joined = recorded(6_000, |n| n % 3_000 * 1_000);
    let set_back = recorded(6_000, |n| if n < 3_000 { 3_600 * SECOND + n * 1_000 } else { n * 1_000 });
    for (text, by, first) in [(joined, "2.999 s", "3,001"), (set_back, "3600 s", "3,001")] {
        let run = simulated(&over_an_ssd(), &text);
        let found = findings(&run);
        let [("clock-jumps", FindingSeverity::Void, message)] = found[..] else { panic!("{found:?}") };
        assert!(message.contains(&format!("are up to {by} earlier")), "{message}");
        assert!(message.contains(&format!("from request {first} on")), "{message}");
        let mend =
            run.context.findings.iter().find(|finding| finding.kind == "clock-jumps").and_then(|f| f.mend.clone());
        assert_eq!(mend.as_deref(), Some("--limit 3000"));
        // What mends it does, and a closed loop does not look at times.
        let mut limited = over_an_ssd();
        limited.replay.limit = Some(3_000);
        assert_eq!(findings(&simulated(&limited, &text)), []);
        let mut closed = over_an_ssd();
        closed.run.host = HostModel::Closed { depth: 4 };
        let run = simulated(&closed, &text);
        assert!(matches!(findings(&run)[..], [("reversed", FindingSeverity::Note, _)]), "{:?}", findings(&run));
        // The jump is told in the trace's time however fast it is played.
        let mut fast = over_an_ssd();
        fast.replay.speed = PlaySpeed { times: 4, per: 1 };
        assert!(findings(&simulated(&fast, &text))[0].2.contains(&format!("up to {by} earlier")));
    }
}

/// Logs that are shorter than a second.
#[test]
fn short_logs_that_were_joined_are_seen_too() {
    let run = simulated(&over_an_ssd(), &recorded(6_000, |n| n % 2_000 * 100));
    assert!(matches!(findings(&run)[..], [("clock-jumps", FindingSeverity::Void, _)]), "{:?}", findings(&run));
}

#[test]
fn what_recorders_reorder_is_a_note() {
    // By some milliseconds, a third of all; and two seconds in turn, of a clock that counts in seconds.
    let late = |n: u64| if n.is_multiple_of(3) { n * 1_000 } else { n * 1_000 + 20_000 };
    for text in [recorded(6_000, late), recorded(6_000, |n| (1 + n % 2) * SECOND)] {
        let run = simulated(&over_an_ssd(), &text);
        assert!(matches!(findings(&run)[..], [("reversed", FindingSeverity::Note, _)]), "{:?}", findings(&run));
    }
    // One request that is far off weakens, and makes nothing void.
    let one = recorded(6_000, |n| if n == 4_000 { 100 } else { n * 1_000 });
    let run = simulated(&over_an_ssd(), &one);
    assert!(matches!(findings(&run)[..], [("clock-jumps", FindingSeverity::Weak, _)]), "{:?}", findings(&run));
}

#[test]
fn moves_are_counted_by_how_far_and_how_often() {
    let request = |micros| Request { time: Nanos(micros * 1_000), ..write(0, 1, 1) };
    let times = [5 * SECOND, 2 * SECOND, 4 * SECOND, 3 * SECOND, 6 * SECOND];
    let run = run_one(&over_an_ssd(), &times.map(request));
    assert_eq!(run.context.input.reversed_requests, 3);
    let [(kind, severity, message)] = findings(&run)[..] else { panic!("{:?}", findings(&run)) };
    assert_eq!((kind, severity), ("clock-jumps", FindingSeverity::Weak));
    assert!(
        message.starts_with("3 of 5 requests (60 %) are up to 3.000 s earlier than one before them, from request 2 on")
    );
}
