//! The same experiment gives the same bytes, however many threads carry it out and however often
//! the trace is read.

use std::sync::Arc;

use destage_plan::{Nanos, PageGeometry};
use destage_sim::buffer::{AnalyticConfig, BufferExperiment, DeviceConfig, FlushMode};
use destage_sim::experiment::RunResources;
use destage_sim::input::WarmupPart;
use destage_sim::ssd::{PageAllocation, SsdConfig, SsdShape, StartState};

use crate::in_memory::{experiment, try_run};
use crate::mixed::mixed;

const PAGE: u64 = 4096;

fn over(device: DeviceConfig) -> BufferExperiment {
    let policies = [
        "none",
        "lru",
        "clock",
        "fifo",
        "2q",
        "arc",
        "s3-fifo",
        "fab",
        "bplru",
        "clc",
        "pud-lru",
        "lb-clock",
        "lru:reads=bypass",
    ];
    let geometry = PageGeometry::new(PAGE, 16).expect("a geometry");
    let mut experiment = experiment(&policies, &[8 * PAGE, 64 * PAGE, 512 * PAGE], geometry, device);
    experiment.run.flush = FlushMode::Drain;
    experiment.run.warmup = WarmupPart::Requests(500);
    experiment
}

#[test]
fn threads_and_memory_leave_the_results_alone() {
    let config =
        SsdConfig { elements: 2, planes: 2, blocks_per_plane: 64, reserve_bp: 2000, lanes: 2, ..SsdConfig::default() };
    let devices = [
        DeviceConfig::None,
        DeviceConfig::Analytic(AnalyticConfig::default()),
        DeviceConfig::Ssd(config.clone(), StartState::Full),
        DeviceConfig::Ssd(
            SsdConfig { allocation: PageAllocation::Channels, ..config.clone() },
            StartState::Random { seed: 3 },
        ),
        DeviceConfig::Ssd(
            SsdConfig { copy_back: true, ..config.clone() },
            StartState::Aged { overwrites_pct: 150, seed: 3 },
        ),
    ];
    // More than one feed, so that runs wait for each other; beyond the device, so that there is something to find.
    let requests = Arc::new(mixed(77, 4_000, 15_000, Nanos(30_000_000)));
    for device in devices {
        let experiment = over(device);
        let requests_of_all = Arc::clone(&requests);
        let text = |threads, memory_bytes| {
            let report =
                try_run(&experiment, RunResources { threads, memory_bytes, stop: None }, &requests).expect("it works");
            let results = serde_json::to_string_pretty(&report.results).expect("results can be written");
            (results, report.requests)
        };
        let (results, requests) = text(1, u64::MAX);
        assert!(results.len() > 10_000);
        for threads in [2, 3] {
            assert!(text(threads, u64::MAX) == (results.clone(), requests), "{threads} threads");
        }
        // Memory for one run at a time, and for a few.
        let mut passes = Vec::new();
        let geometry = PageGeometry::new(PAGE, 16).expect("a geometry");
        let device_bytes = SsdShape::new(config.clone(), geometry).expect("a shape").memory_bytes();
        let has_flash = matches!(experiment.device, DeviceConfig::Ssd(..));
        // Without flash memory is for page tables, and too little of it is an error, not a further
        // pass.
        let unit = if has_flash { device_bytes } else { 1 << 24 };
        for memory_bytes in [unit, 4 * unit, 8 * unit] {
            let (again, read) = text(2, memory_bytes);
            assert!(again == results, "{memory_bytes} B");
            passes.push(read / requests);
        }
        if has_flash {
            assert!(passes[0] == 37 && passes[0] > passes[1] && passes[1] > passes[2], "{passes:?}");
        } else {
            let starved =
                try_run(&experiment, RunResources { threads: 1, memory_bytes: 1 << 14, stop: None }, &requests_of_all);
            let error = starved.expect_err("there is no room for the pages").to_string();
            assert!(error.contains("memory has no room; raise memory"), "{error}");
        }
    }
}
