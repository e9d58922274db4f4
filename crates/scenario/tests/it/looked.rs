//! Passes over traces that many scenarios share.

use std::fmt::Write;
use std::fs;

use destage_scenario::sim::{SIM, requests};
use destage_scenario::{ScenarioSettings, TraceLooks};

/// Returns the settings of a run over the trace in this file, and these.
fn settings(trace: &str, given: &[(&str, &str)]) -> ScenarioSettings {
    let mut settings = ScenarioSettings::new(SIM);
    for (name, value) in
        [("trace", trace), ("format", "rq-csv"), ("device", "ssd"), ("policy", "lru"), ("cache", "10%")]
            .iter()
            .chain(given)
    {
        settings.flag(name, vec![(*value).to_owned()]).expect("a setting");
    }
    settings
}

/// The trace is gone after the first look: whoever looked again would fail.
#[test]
fn scenarios_that_differ_in_the_device_or_the_host_look_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.csv");
    let mut lines = String::new();
    for i in 0..400 {
        writeln!(lines, "{i},W,{},8", i * 7919 % 4_000 * 8).expect("text");
    }
    fs::write(&trace, lines).expect("a trace");
    let trace = trace.to_str().expect("a name in UTF-8");
    let others: Vec<_> = [
        &[("ssd.reserve", "20%")][..],
        &[("max-backlog", "77")],
        &[("lba-overflow", "compact"), ("ssd.capacity", "1GiB")],
        &[("start", "full")],
        &[("policy", "fifo")],
        &[("ssd.capacity", "1GiB")],
    ]
    .into_iter()
    .map(|given| settings(trace, given))
    .map(|settings| (requests(&settings).expect("requests"), settings))
    .collect();
    let different = settings(trace, &[("ops", "writes")]);
    let other_requests = requests(&different).expect("requests");

    let mut looked = TraceLooks::default();
    let first = settings(trace, &[]);
    let sizes =
        |settings: &ScenarioSettings| settings.given().find(|(key, _)| key.name == "cache").map(|(_, of)| of.to_vec());
    let resolved = looked.resolved(&first, &requests(&first).expect("requests"), "", &|_| ()).expect("a first look");
    fs::remove_file(trace).expect("the trace goes");
    for (requests, settings) in &others {
        let again = looked.resolved(settings, requests, "", &|_| ()).expect("no second look");
        assert_eq!(sizes(&again), sizes(&resolved));
    }
    assert!(looked.resolved(&different, &other_requests, "", &|_| ()).is_err(), "other requests are looked at");
}
