//! A result that was written as JSON is read back as the very same, down to the last bit and byte.

use std::fmt::Debug;

use destage_scenario::sim::{self, SIM};
use destage_scenario::{DescribedSimulation, ScenarioSettings, simulation};
use destage_sim::experiment::RunResources;
use serde::Serialize;
use serde::de::DeserializeOwned;

const RESOURCES: RunResources<'static> = RunResources { threads: 2, memory_bytes: 1 << 30, stop: None };

/// Compares results with what is read of their JSON, and says how many there are.
fn compare<R: Serialize + DeserializeOwned + PartialEq + Debug>(results: &[R]) -> usize {
    for result in results {
        let json = serde_json::to_vec(result).expect("JSON");
        let read: R = serde_json::from_slice(&json).expect("what was written can be read");
        assert_eq!(&read, result);
        assert_eq!(serde_json::to_vec(&read).expect("JSON"), json, "in the same order");
    }
    results.len()
}

/// Simulates what these settings describe.
fn simulated(pairs: &str) -> usize {
    let mut settings = ScenarioSettings::new(SIM);
    for pair in pairs.split_whitespace() {
        settings.set(pair).unwrap_or_else(|error| panic!("{pair}: {error}"));
    }
    let requests = sim::requests(&settings).expect("a workload");
    let mut open = || requests.open(0);
    match simulation(&settings, &requests).unwrap_or_else(|error| panic!("{pairs}: {error}")) {
        DescribedSimulation::Buffers(experiment) => {
            compare(&experiment.run(RESOURCES, &mut open, &|_| {}).unwrap_or_else(|e| panic!("{pairs}: {e}")).results)
        }
        DescribedSimulation::Array(experiment) => {
            compare(&experiment.run(RESOURCES, &mut open, &|_| {}).unwrap_or_else(|e| panic!("{pairs}: {e}")).results)
        }
    }
}

#[test]
fn results_of_buffers() {
    let workload = "workload=financial1 workload-set=length=20000";
    for (device, runs) in [
        ("policy=none,lru,fab,lb-clock:protect_current=true cache=1MiB,2MiB", 7),
        ("policy=lru,bplru cache=1MiB device=analytic", 2),
        ("policy=lru,gcar+lru cache=1MiB device=ssd per-volume=true warmup=20s", 2),
        ("policy=lru,fab cache=256KiB device=ssd ssd.model=classic ssd.ftl=bast start=empty host=closed:32", 2),
        // Far too fast, so that response times are none.
        ("policy=lru cache=256KiB device=ssd speed=1000 max-backlog=100", 1),
    ] {
        assert_eq!(simulated(&format!("{workload} {device}")), runs, "{device}");
    }
}

#[test]
fn results_of_arrays() {
    let workload = "workload=financial1 workload-set=length=3000";
    for (array, runs) in [
        ("array=raid5:5 scheduler=clook,sptf policy=none", 2),
        ("array=raid5:5 device=ssd policy=none,kdd,wow,iwc cache=4MiB per-volume=true", 4),
        ("array=raid6:6 device=fixed cache=4MiB policy=kdd,leavo drain=true cache-endurance=1TB", 2),
        ("array=raid5:5 device=fixed policy=none fail=1@1s replace=1@2s member-size=16MiB", 1),
        ("array=raid1:2 device=fixed policy=none speed=10000 max-backlog=10", 1),
    ] {
        assert_eq!(simulated(&format!("{workload} {array}")), runs, "{array}");
    }
}
