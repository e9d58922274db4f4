//! A device that cannot keep up costs no more memory the longer that lasts.

mod endless;
#[path = "it/in_memory/mod.rs"]
mod in_memory;

use destage_plan::{Nanos, PageGeometry};
use destage_sim::buffer::DeviceConfig;
use destage_sim::measure::SaturationCause;
use destage_sim::ssd::{SsdConfig, StartState};

use endless::{Endless, peak_memory};

/// Three million writes of a page each, a microsecond apart, to a device that takes hundreds of
/// times as long.
#[test]
fn memory_does_not_grow_with_the_backlog() {
    // Small blocks: a collection every few writes.
    let config = SsdConfig { blocks_per_plane: 512, ..SsdConfig::default() };
    let geometry = PageGeometry::new(4096, 4).expect("a geometry");
    let device = DeviceConfig::Ssd(config, StartState::Full);
    let policies = ["none", "lru", "lb-clock"];
    let experiment = in_memory::experiment(&policies, &[1 << 20], geometry, device);
    let run = |requests| {
        let workload = Endless { requests, pages: 20_000, gap: Nanos(1_000), state: 5 };
        workload.run(&experiment).results
    };
    // Until all feeds have their size: three of 2^18 requests.
    run(1_000_000);
    let Some(before) = peak_memory() else {
        eprintln!("SKIPPED: memory_does_not_grow_with_the_backlog: this system does not tell the peak memory");
        return;
    };
    for r in run(3_000_000) {
        assert!(matches!(r.saturated, Some(SaturationCause::Backlog { max_backlog: 10_000, .. })), "{}", r.policy);
        assert_eq!((r.counters.requests, &r.response), (3_000_000, &None), "{}", r.policy);
        assert!(r.simulated_time > 100_000_000_000, "{}: {} ns is no overload", r.policy, r.simulated_time);
    }
    let after = peak_memory().expect("it was told before");
    assert!(after <= before + 4_000_000, "{before} B after 1,000,000 requests and {after} B after 3,000,000");
}
