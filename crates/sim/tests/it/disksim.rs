//! The SSD against `DiskSim` 4.0 with the MSR extension, on the trace `rw80` and LAWC's geometry.
//!
//! `DiskSim` moves 3,467,484 pages. It counts the block of the first write point among the free
//! ones for good (where that block is taken at the start, the number of free blocks is not
//! reduced), so what it calls 102 free blocks are 101. With the threshold at 101 the two agree to
//! within the noise of the first victims; at 102 proper, one block less to write to costs half a
//! percent of the moves.
//!
//! The mean response of `DiskSim` is 9.67023 ms. Its device takes 20 commands at a time. The rest waits in
//! the driver, in order.

use destage_plan::PageGeometry;
use destage_sim::buffer::{DeviceConfig, RunResult};
use destage_sim::ssd::{SsdConfig, StartState};
use destage_trace::Rw80;

use crate::in_memory::{experiment, run_one};

const DISKSIM_MOVED: f64 = 3_467_484.0;
const DISKSIM_MEAN: f64 = 9_670_230.0;

fn rw80(config: SsdConfig) -> RunResult {
    let geometry = PageGeometry::new(4096, 64).expect("a geometry");
    let device = DeviceConfig::Ssd(config, StartState::Full);
    let r = run_one(&experiment(&["none"], &[4096], geometry, device), &Rw80::new().collect::<Vec<_>>());
    assert_eq!((r.counters.write_pages, r.counters.read_pages), (1_000_000, 250_000));
    r
}

fn moved(min_free_bp: u32) -> f64 {
    rw80(SsdConfig { min_free_bp, ..SsdConfig::default() }).flash.gc_pages_moved.expect("an SSD") as f64
}

#[test]
fn responses_are_as_long_where_the_device_takes_as_many_commands() {
    let beyond = |queue_depth| {
        let r = rw80(SsdConfig { min_free_bp: 496, queue_depth, ..SsdConfig::default() });
        r.response.and_then(|response| response.all).expect("requests").mean / DISKSIM_MEAN - 1.0
    };
    let (limited, unlimited) = (beyond(Some(20)), beyond(None));
    eprintln!("mean response beyond DiskSim's: {limited:+.5} with 20 commands, {unlimited:+.5} without a limit");
    assert!(limited.abs() < 0.001, "{limited}");
    assert!((-0.04..-0.03).contains(&unlimited), "{unlimited}");
}

#[test]
fn as_many_pages_are_moved() {
    let as_disksim_counts = moved(496) / DISKSIM_MOVED - 1.0;
    let as_specified = moved(500) / DISKSIM_MOVED - 1.0;
    eprintln!("pages moved beyond DiskSim's: {as_disksim_counts:+.5} as it counts, {as_specified:+.5} as specified");
    assert!(as_disksim_counts.abs() < 0.001, "{as_disksim_counts}");
    assert!((0.003..0.007).contains(&as_specified), "{as_specified}");
}
