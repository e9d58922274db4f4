//! Drives that can be bought: what the model of each reaches of its data sheet, which docs/presets.md tells.

use std::collections::BTreeSet;

use destage_plan::{Nanos, PageGeometry, PageNo, Request};
use destage_policy::buffer::DeviceView;
use destage_sim::buffer::{BufferExperiment, DeviceConfig, RunResult};
use destage_sim::input::{HostModel, WarmupPart};
use destage_sim::ssd::{
    DRIVES, DataSheet, DrivePreset, PageAllocation, Ssd, SsdConfig, SsdShape, StartState, drive, presets,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::in_memory::{experiment, read, run_one, write};

fn geometry() -> PageGeometry {
    PageGeometry::new(4096, 64).expect("a geometry")
}

/// Pages of a device as small as one that fits a trace.
const PAGES: u64 = (2 << 30) / 4096;
/// Pages of a sequential request: 128 KiB.
const RUN: u64 = 32;
/// Sequential requests that sheets have outstanding.
const SEQUENTIAL_DEPTH: u32 = 32;

/// The drive, large enough for the pages.
fn scaled(drive: &DrivePreset) -> SsdConfig {
    drive.config(geometry()).with_pages(PAGES, geometry()).expect("a device of 2 GiB")
}

/// Runs a host that always has `depth` requests outstanding. The first half of the requests is not measured.
fn at_depth(config: SsdConfig, start: StartState, depth: u32, requests: &[Request]) -> RunResult {
    let mut experiment: BufferExperiment = experiment(&["none"], &[4096], geometry(), DeviceConfig::Ssd(config, start));
    experiment.run.host = HostModel::Closed { depth };
    experiment.run.warmup = WarmupPart::Requests(requests.len() as u64 / 2);
    run_one(&experiment, requests)
}

fn in_order(request: fn(u64, u64, u64) -> Request, passes: u64) -> Vec<Request> {
    (0..passes * PAGES / RUN).map(|i| request(0, i * RUN % PAGES, RUN)).collect()
}

fn anywhere(request: fn(u64, u64, u64) -> Request, count: usize) -> Vec<Request> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    (0..count).map(|_| request(0, random.next_u64() % PAGES, 1)).collect()
}

/// Throughput as a sheet has it: MB/s read and written in order, requests a second read and written anywhere.
fn reached(drive: &DrivePreset) -> [f64; 4] {
    let depth = drive.sheet.queue_depth;
    let megabytes = |run: RunResult| run.host_bytes_per_second.expect("time has passed") / 1e6;
    let requests = |run: RunResult| run.requests_per_second.expect("time has passed");
    let begins = if drive.sheet.steady { StartState::Steady { seed: 1 } } else { StartState::Empty };
    [
        megabytes(at_depth(scaled(drive), StartState::Full, SEQUENTIAL_DEPTH, &in_order(read, 1))),
        megabytes(at_depth(scaled(drive), StartState::Full, SEQUENTIAL_DEPTH, &in_order(write, 2))),
        requests(at_depth(scaled(drive), StartState::Full, depth, &anywhere(read, 100_000))),
        requests(at_depth(scaled(drive), begins, depth, &anywhere(write, 200_000))),
    ]
}

/// A number with its thousands apart.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}

/// The row of a drive in docs/presets.md.
fn row(drive: &DrivePreset, reached: [f64; 4]) -> String {
    let DataSheet { sequential_read, sequential_write, random_read, random_write, queue_depth, .. } = drive.sheet;
    let of = |reached: f64, sheet: u32| {
        let share = reached / f64::from(sheet) * 100.0;
        format!("{} of {} ({share:.0} %)", grouped(reached), grouped(sheet.into()))
    };
    format!(
        "| `{}` | {} | {} | {} | {} | {} |",
        drive.name,
        of(reached[0], sequential_read),
        of(reached[1], sequential_write),
        queue_depth,
        of(reached[2], random_read),
        of(reached[3], random_write),
    )
}

#[test]
fn the_document_tells_what_is_reached() {
    const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/presets.md");
    let document = std::fs::read_to_string(DOCUMENT).expect("docs/presets.md");
    let mut missing = Vec::new();
    for drive in DRIVES {
        let reached = reached(drive);
        let row = row(drive, reached);
        if document.lines().all(|line| line != row) {
            missing.push(row);
        }
        let sheet = drive.sheet;
        let share = |index: usize, of: u32| reached[index] / f64::from(of);
        let [sequential_read, sequential_write] = [share(0, sheet.sequential_read), share(1, sheet.sequential_write)];
        let [random_read, random_write] = [share(2, sheet.random_read), share(3, sheet.random_write)];
        // A page that is read alone keeps its element as long as the cells take; nothing else limits reads.
        assert!((0.55..1.25).contains(&sequential_read), "{}: {sequential_read}", drive.name);
        assert!((0.90..1.05).contains(&sequential_write), "{}: {sequential_write}", drive.name);
        assert!((0.95..1.35).contains(&random_read), "{}: {random_read}", drive.name);
        assert!((0.45..1.25).contains(&random_write), "{}: {random_write}", drive.name);
    }
    assert!(missing.is_empty(), "docs/presets.md should have these lines:\n{}", missing.join("\n"));
}

/// With random writes everywhere a device whose share `s` of flash is not exported moves on average 1 / 2s pages for
/// each that is written, but for what is written meanwhile: greedy collection of uniform traffic (Desnoyers, 2012).
#[test]
fn a_small_drive_collects_as_a_large_one_does() {
    for drive in DRIVES {
        let spare = (drive.raw_bytes - drive.exported_bytes) as f64 / drive.raw_bytes as f64;
        let expected = 1.0 / (2.0 * spare);
        for gib in [1, 4] {
            let config = drive.config(geometry()).with_pages(gib << 18, geometry()).expect("a device");
            let ssd = Ssd::new(SsdShape::new(config, geometry()).expect("a shape"), StartState::Steady { seed: 1 });
            let steady = ssd.steadiness().expect("it was to be steady");
            let found = steady.write_amplification_milli[1] as f64 / 1000.0;
            assert!(steady.reached && (found / expected - 1.0).abs() < 0.05, "{}, {gib} GiB: {found}", drive.name);
        }
    }
}

#[test]
fn presets_can_be_built_as_they_are_and_scaled() {
    let names: Vec<_> = presets().map(|(name, _)| name).collect();
    assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len(), "{names:?}");
    for (page, pages_per_block) in [(4096, 64), (4096, 128), (16_384, 64)] {
        let geometry = PageGeometry::new(page, pages_per_block).expect("a geometry");
        for name in &names {
            let config = SsdConfig::preset(name, geometry).expect(name);
            let shape = SsdShape::new(config.clone(), geometry).expect(name);
            let asked = (4 << 30) / page;
            let scaled = SsdShape::new(config.clone().with_pages(asked, geometry).expect(name), geometry).expect(name);
            assert!(
                (asked..asked * 103 / 100).contains(&u64::from(scaled.host_pages)),
                "{name}: {}",
                scaled.host_pages
            );
            assert_eq!(SsdConfig { blocks_per_plane: config.blocks_per_plane, ..scaled.config }, config, "{name}");
            assert!(config.read < config.program && config.read > Nanos::ZERO, "{name}");
            let Some(drive) = drive(name) else { continue };
            let exported = u64::from(shape.host_pages) * page;
            let error = exported.abs_diff(drive.exported_bytes) as f64 / drive.exported_bytes as f64;
            assert!(error < 0.001, "{name}: {exported} B");
            // What a whole block takes to be written and erased is the same per byte, whatever pages and blocks are.
            let block = config.program.0 * pages_per_block + config.erase.0;
            let per_byte = block as f64 / (page * pages_per_block) as f64;
            let at_4k = drive.program_4k.0 as f64 / 4096.0 + 5e6 / f64::from(16 << 20);
            assert!((per_byte / at_4k - 1.0).abs() < 1e-3, "{name}: {per_byte} and {at_4k} ns/B");
        }
    }
}

#[test]
fn the_channel_that_is_idle_first_is_next() {
    let config = SsdConfig {
        elements: 3,
        allocation: PageAllocation::Channels,
        idle_first: true,
        transfer_ps_per_byte: 0,
        ..SsdConfig::default()
    };
    let mut ssd = Ssd::new(SsdShape::new(config, geometry()).expect("a shape"), StartState::Empty);
    let mut goes_to = |page, channel: Option<u32>| {
        let expected = ssd.target(PageNo(page), channel.map(|channel| channel as u16));
        let done = match channel {
            Some(channel) => ssd.program_through(Nanos::ZERO, PageNo(page), channel),
            None => ssd.program(Nanos::ZERO, PageNo(page)),
        };
        assert_eq!(ssd.element_of(PageNo(page)), expected);
        (expected.0, done.0 / 1000)
    };
    assert_eq!(goes_to(0, None), (0, 200));
    assert_eq!(goes_to(1, Some(1)), (1, 200));
    assert_eq!(goes_to(2, Some(1)), (1, 400));
    assert_eq!(goes_to(3, None), (2, 200), "the only one that does nothing");
    assert_eq!(goes_to(4, None), (0, 400), "0 and 2 are idle at the same time, and 0 comes after 2");
    assert_eq!(goes_to(5, None), (2, 400), "1 and 0 are busy for longer");
}
