//! The modern drive below open and closed hosts, and on any number of threads.

use std::sync::Arc;

use destage_plan::{Nanos, PageGeometry, Request};
use destage_sim::buffer::{BufferExperiment, DeviceConfig, RunResult};
use destage_sim::experiment::RunResources;
use destage_sim::input::HostModel;
use destage_sim::ssd::{ModernDesign, SsdConfig, StartState};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::in_memory::{experiment, read, run_one, try_run};
use crate::mixed::mixed;

const PAGE: u64 = 4096;
/// Sets the time of a read that meets nothing, and how much of it the plane is busy.
const READ: f64 = 64_000.0;
const SERVICE: f64 = 57_000.0;
const PLANES: u64 = 2;

fn geometry() -> PageGeometry {
    PageGeometry::new(PAGE, 16).expect("a geometry")
}

/// Returns a `pm9a3` of so many dies and 200 MiB, with sectors for two planes each.
fn drive(dies: u32) -> SsdConfig {
    let drive = ModernDesign::named("pm9a3").expect("a preset").config(geometry());
    let config = SsdConfig { elements: dies, ..drive }.with_pages(51_200, geometry()).expect("a drive");
    // What is exact is asked of dies alone: the interface takes any number of commands.
    let modern = config.modern.clone().map(|own| destage_sim::ssd::ModernConfig { command_rate: None, ..own });
    SsdConfig { modern, ..config }
}

fn over(config: SsdConfig, start: StartState, host: HostModel) -> BufferExperiment {
    let mut experiment = experiment(&["none"], &[PAGE], geometry(), DeviceConfig::Ssd(config, start));
    experiment.run.buffer_latency = Nanos::ZERO;
    experiment.run.host = host;
    experiment
}

/// Returns random reads that arrive as a Poisson process, so many nanoseconds apart.
fn reads(count: u64, interval: f64) -> Vec<Request> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(17);
    let mut now = 0.0;
    let mut next = || {
        let unit = ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        now -= interval * unit.ln();
        let page = random.next_u64() % 51_200;
        Request { time: Nanos(now as u64), ..read(0, page, 1) }
    };
    (0..count).map(|_| next()).collect()
}

fn mean_response(result: &RunResult) -> f64 {
    result.response.as_ref().and_then(|response| response.all.as_ref()).expect("requests were answered").mean
}

/// Checks an open host: each plane of a drive of one die is a queue with one server (Pollaczek and Khinchine).
#[test]
fn open_hosts_wait_as_in_md1() {
    for load in [0.3, 0.7] {
        let requests = reads(150_000, SERVICE / load / PLANES as f64);
        let result = run_one(&over(drive(1), StartState::Full, HostModel::Open), &requests);
        let waits = mean_response(&result) - READ;
        let theory = load * SERVICE / (2.0 * (1.0 - load));
        assert!((waits / theory - 1.0).abs() < 0.04, "load {load}: {waits} ns, and {theory}");
    }
}

/// Checks a closed host: as many are outstanding as were asked for (Little), none waits alone, and many have every plane sense all
/// the time.
#[test]
fn closed_hosts_keep_what_is_outstanding() {
    for (depth, dies) in [(1_u32, 1), (8, 1), (64, 4)] {
        let requests = reads(40_000, 1000.0);
        let result = run_one(&over(drive(dies), StartState::Full, HostModel::Closed { depth }), &requests);
        let rate = requests.len() as f64 / result.simulated_time as f64;
        let outstanding = rate * mean_response(&result);
        assert!((outstanding / f64::from(depth) - 1.0).abs() < 0.01, "{outstanding} of {depth} outstanding");
        let most = f64::from(dies) * PLANES as f64 / SERVICE;
        match depth {
            // A few sectors are in the open unit, and answered by the cache.
            1 => assert!((mean_response(&result) / READ - 1.0).abs() < 1e-3, "{}", mean_response(&result)),
            64 => assert!(rate < most && rate > 0.85 * most, "{rate} of {most} reads a nanosecond"),
            _ => assert!(rate < most),
        }
    }
}

#[test]
fn threads_leave_modern_drives_alone() {
    let requests = Arc::new(mixed(78, 4_000, 8_000, Nanos(30_000_000)));
    for host in [HostModel::Open, HostModel::Closed { depth: 8 }, HostModel::Bounded { depth: 4 }] {
        let start = StartState::Aged { overwrites_pct: 150, seed: 3 };
        let mut experiment = over(drive(2), start, host);
        experiment.policies =
            ["none", "lru", "gcar+lru", "lb-clock", "gcar+lb-clock"].map(|spec| spec.parse().expect(spec)).into();
        experiment.caches = vec![8 * PAGE, 256 * PAGE];
        let text = |threads| {
            let resources = RunResources { threads, memory_bytes: 1 << 30, stop: None };
            let report = try_run(&experiment, resources, &requests).expect("it works");
            serde_json::to_string_pretty(&report.results).expect("results can be written")
        };
        let alone = text(1);
        assert!(alone.len() > 10_000);
        assert!([2, 3].map(text).iter().all(|found| *found == alone), "{host}");
    }
}
