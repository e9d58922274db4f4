//! Experiments whose results are wanted whole: wherever they are carried out, they are those of a simulation here.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread, time::Duration};

use destage_report::{ReportRun, json, read};
use destage_scenario::sim::{self, SIM, SimulatedRequests};
use destage_scenario::{DescribedSimulation, ScenarioSettings, simulation};
use destage_sim::experiment::{RunResources, StopSignal};
use destage_sweep::{RemoteRunner, SweepError, SweepGroup, elsewhere, whole};

/// A folder with a trace of 600 requests, in the order of an SPC file.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let lines = (0..600).fold(String::new(), |mut lines, i: u64| {
        let (place, op) = (i * i * 7 % 311 * 8, if i.is_multiple_of(3) { 'r' } else { 'w' });
        let _ = writeln!(lines, "0,{place},4096,{op},0.{i:06}");
        lines
    });
    let file = folder.path().join("t.spc");
    fs::write(&file, lines).unwrap();
    (folder, file)
}

fn settings(pairs: &[(&str, &str)]) -> ScenarioSettings {
    let mut settings = ScenarioSettings::new(SIM);
    for (key, value) in pairs {
        settings.set(&format!("{key}={value}")).unwrap();
    }
    settings
}

/// Results of a simulation here.
fn here(settings: &ScenarioSettings, requests: &SimulatedRequests) -> Vec<ReportRun> {
    let resources = RunResources { threads: 1, memory_bytes: 1 << 30, stop: None };
    let mut open = || requests.open(0);
    match simulation(settings, requests).unwrap() {
        DescribedSimulation::Buffers(experiment) => {
            let report = experiment.run(resources, &mut open, &|_| {}).unwrap();
            report.results.iter().map(ReportRun::of_buffer).collect()
        }
        DescribedSimulation::Array(experiment) => {
            let report = experiment.run(resources, &mut open, &|_| {}).unwrap();
            report.results.iter().map(ReportRun::of_array).collect()
        }
    }
}

#[test]
fn results_are_those_of_a_simulation_here() {
    let (_folder, file) = folder();
    let file = file.to_str().unwrap();
    let of_trace = [("trace", file), ("policy", "lru,none,fab"), ("cache", "64KiB,256KiB")];
    for more in [
        &[("device", "ssd"), ("start", "full"), ("warmup", "25%")][..],
        &[("device", "ssd"), ("skip", "100"), ("warmup", "100"), ("start", "empty")],
        &[("array", "raid5:4"), ("policy", "none,kdd"), ("warmup", "10%")],
    ] {
        let settings = settings(&[&of_trace[..], more].concat());
        let all = sim::requests(&settings).unwrap();
        for requests in [all.of_count(600), all.part(150, 300)] {
            let group = SweepGroup::whole(&settings, &requests, &requests.name()).unwrap();
            let sent = SweepGroup::parse(&group.text()).unwrap();
            let found = whole(&sent, None, None, &StopSignal::default()).unwrap();
            let expected = here(&settings, &requests);
            assert_eq!(json(&found).unwrap(), json(&expected).unwrap(), "{more:?}, {:?}", requests.parted());
            assert_eq!(found.len(), group.runs());
            // What is asked for alone is the same.
            let alone = group
                .split()
                .iter()
                .flat_map(|one| whole(one, None, None, &StopSignal::default()).unwrap())
                .collect::<Vec<_>>();
            assert_eq!(json(&alone).unwrap(), json(&expected).unwrap());
        }
    }
}

#[test]
fn workloads_are_made_wherever_it_is() {
    let settings = settings(&[
        ("workload", "random"),
        ("workload-set", "length=3000 seed=7"),
        ("policy", "lru,clock"),
        ("cache", "1MiB"),
    ]);
    let requests = sim::requests(&settings).unwrap();
    let group = SweepGroup::whole(&settings, &requests, "made").unwrap();
    assert!(group.trace().is_none());
    let found = whole(&group, None, None, &StopSignal::default()).unwrap();
    assert_eq!(found.iter().map(|run| run.text("input.trace")).collect::<Vec<_>>(), ["made", "made"]);
    let hits = |runs: &[ReportRun]| runs.iter().map(|run| run.number("hits")).collect::<Vec<_>>();
    assert_eq!(hits(&found), hits(&here(&settings, &requests)));
}

#[test]
fn what_is_wrong_is_told() {
    let (_folder, file) = folder();
    let wrong = settings(&[("trace", file.to_str().unwrap()), ("policy", "lru"), ("cache", "1KiB")]);
    let requests = sim::requests(&wrong).unwrap();
    assert!(SweepGroup::whole(&wrong, &requests, "t").unwrap_err().to_string().contains("cache"));
    let right = settings(&[("trace", file.to_str().unwrap()), ("policy", "lru"), ("cache", "1MiB")]);
    let group = SweepGroup::whole(&right, &requests, "t").unwrap();
    fs::write(&file, "0,0,4096,w,0.1\n").unwrap();
    let error = whole(&group, None, None, &StopSignal::default()).unwrap_err().to_string();
    assert!(error.ends_with("t.spc: holds something else than when the sweep was planned"), "{error}");
}

/// Another program that answers in any order; of groups from one on it has nothing.
struct Other {
    asked: AtomicUsize,
    most: usize,
}

impl RemoteRunner for Other {
    fn whole(&self, group: &SweepGroup) -> Result<Vec<ReportRun>, SweepError> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(7 * (asked as u64 * 5 % 3)));
        let runs = whole(group, None, None, &StopSignal::default())?;
        let policy = runs[0].text("policy").to_owned();
        let number: usize = policy.trim_start_matches("fifo").len();
        if number > self.most {
            return Err(SweepError::new(policy));
        }
        // As it comes from another program.
        read("it", &json(&runs).unwrap()).map_err(SweepError::new)
    }
}

#[test]
fn many_are_elsewhere_at_a_time_and_come_back_in_order() {
    let (_folder, file) = folder();
    let of = |policy: &str| {
        let settings = settings(&[("trace", file.to_str().unwrap()), ("policy", policy), ("cache", "64KiB")]);
        SweepGroup::whole(&settings, &sim::requests(&settings).unwrap(), "t").unwrap()
    };
    let policies = ["fifo", "lru", "fab", "clock", "lb-clock", "bplru", "fifo", "2q"];
    let groups: Vec<SweepGroup> = policies.into_iter().map(of).collect();
    let other = Other { asked: AtomicUsize::new(0), most: usize::MAX };
    let ended = AtomicUsize::new(0);
    let brought = elsewhere(&groups, &other, &|all| {
        ended.fetch_max(all, Ordering::Relaxed);
    });
    let brought = brought.unwrap();
    let names: Vec<&str> = brought.iter().map(|runs| runs[0].text("policy")).collect();
    assert_eq!(names, policies);
    assert_eq!(ended.into_inner(), policies.len());
    // The first that fails, in the order of what was asked for.
    let other = Other { asked: AtomicUsize::new(0), most: 3 };
    assert_eq!(elsewhere(&groups, &other, &|_| {}).unwrap_err().to_string(), "clock");
    assert!(elsewhere(&[], &other, &|_| {}).unwrap().is_empty());
}
