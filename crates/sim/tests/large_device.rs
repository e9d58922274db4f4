//! The memory of an 80 GB device: at most 250 MB, whatever the length of the trace.

mod endless;
#[path = "it/in_memory/mod.rs"]
mod in_memory;

use destage_plan::{Nanos, PageGeometry};
use destage_sim::buffer::DeviceConfig;
use destage_sim::ssd::{SsdConfig, SsdShape, StartState};

use endless::{Endless, peak_memory};

const LIMIT: u64 = 250_000_000;

/// Writes to random pages of the whole device, 2 ms apart, through LRU with 16 MiB.
#[test]
fn eighty_gigabytes_are_simulated_in_250_megabytes() {
    let geometry = PageGeometry::new(4096, 64).expect("a geometry");
    let config = SsdConfig::preset("80gb", geometry).expect("a preset");
    let pages = SsdShape::new(config.clone(), geometry).expect("a shape").host_pages;
    let device = DeviceConfig::Ssd(config, StartState::Full);
    let experiment = in_memory::experiment(&["lru"], &[16 << 20], geometry, device);
    // Collection begins after 1.9 million programs.
    for requests in [2_500_000, 7_500_000] {
        let workload = Endless { requests, pages: pages.into(), gap: Nanos(2_000_000), state: 9 };
        let r = workload.run(&experiment).results.remove(0);
        assert!(r.flash.gc_invocations > Some(0));
        assert_eq!((r.saturated, r.context.input.overflowed_requests), (None, 0));
        let Some(peak) = peak_memory() else {
            eprintln!("SKIPPED: eighty_gigabytes_are_simulated_in_250_megabytes: this system tells no peak memory");
            return;
        };
        eprintln!("80 GB device: {requests} requests in {:.1} MB", peak as f64 / 1e6);
        assert!(peak <= LIMIT, "{peak} B after {requests} requests");
    }
}
