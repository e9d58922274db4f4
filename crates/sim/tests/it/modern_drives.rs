//! Drives that can be bought, of the modern model: what each does of its data sheet, or of what was measured of it, which
//! docs/presets.md tells.

use destage_plan::{PageGeometry, Request};
use destage_sim::buffer::{BufferExperiment, DeviceConfig, RunResult};
use destage_sim::input::{HostModel, WarmupPart};
use destage_sim::ssd::{MODERN_DRIVES, ModernDesign, SsdConfig, SsdShape, StartState};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::in_memory::{experiment, read, run_one, write};

/// Nanoseconds between requests to an idle drive.
const PAUSE: u64 = 1_000_000;
/// Requests that are outstanding where a drive is to do as much as it can.
const DEPTH: u32 = 256;

/// Holds what is known of a drive, from its sheet or measured: microseconds of an idle read and an idle write, and reads and
/// steady writes a second anywhere.
struct KnownFigures {
    name: &'static str,
    figures: [Option<f64>; 4],
}

const KNOWN: [KnownFigures; 5] = [
    KnownFigures { name: "pm9a3", figures: [Some(64.0), Some(11.0), Some(580_000.0), Some(71_400.0)] },
    KnownFigures { name: "p5520", figures: [Some(70.0), Some(8.0), Some(700_000.0), Some(130_000.0)] },
    KnownFigures { name: "980pro", figures: [Some(45.5), None, Some(1_000_000.0), None] },
    KnownFigures { name: "850evo", figures: [Some(100.0), Some(25.0), Some(97_000.0), None] },
    KnownFigures { name: "p4320", figures: [None, None, Some(427_000.0), Some(36_000.0)] },
];

fn geometry() -> PageGeometry {
    PageGeometry::new(4096, 64).expect("a geometry")
}

/// Returns a drive of 2 GiB, or of 256 superblocks, whichever is more, and its pages.
fn scaled(drive: &ModernDesign) -> (SsdConfig, u64) {
    let superblock = u64::from(drive.dies * drive.planes * drive.pages_per_word_line) * 4;
    let pages = (256 * superblock).max(2 << 18);
    (drive.config(geometry()).with_pages(pages, geometry()).expect("a drive"), pages)
}

/// Returns what a host measures on a steady drive; the first fifth is not measured.
fn measured(config: &SsdConfig, host: HostModel, requests: &[Request]) -> RunResult {
    let device = DeviceConfig::Ssd(config.clone(), StartState::Steady { seed: 1 });
    let mut experiment: BufferExperiment = experiment(&["none"], &[4096], geometry(), device);
    experiment.run.host = host;
    experiment.run.warmup = WarmupPart::Requests(requests.len() as u64 / 5);
    run_one(&experiment, requests)
}

fn reached(drive: &ModernDesign) -> [f64; 4] {
    let (config, pages) = scaled(drive);
    let anywhere = |request: fn(u64, u64, u64) -> Request, count: u64, pause: u64| -> Vec<Request> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        (0..count).map(|i| request(i * pause, random.next_u64() % pages, 1)).collect()
    };
    let median = |run: &RunResult| {
        let response = run.response.as_ref().expect("it keeps up");
        response.all.as_ref().expect("requests").p50 as f64 / 1000.0
    };
    let rate = |run: &RunResult| run.requests_per_second.expect("time has passed");
    let closed = HostModel::Closed { depth: DEPTH };
    [
        median(&measured(&config, HostModel::Open, &anywhere(read, 2_000, PAUSE))),
        median(&measured(&config, HostModel::Open, &anywhere(write, 2_000, PAUSE))),
        rate(&measured(&config, closed, &anywhere(read, 100_000, 0))),
        rate(&measured(&config, closed, &anywhere(write, 400_000, 0))),
    ]
}

/// Returns a number with its thousands apart, with a decimal if it is small.
fn shown(number: f64) -> String {
    if number < 1000.0 {
        return format!("{number:.1}");
    }
    let digits = format!("{number:.0}");
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}

#[test]
fn the_document_tells_what_drives_do() {
    const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/presets.md");
    let document = std::fs::read_to_string(DOCUMENT).expect("docs/presets.md");
    assert!(KNOWN.iter().map(|known| known.name).eq(MODERN_DRIVES.iter().map(|drive| drive.name)));
    let mut missing = Vec::new();
    for (drive, KnownFigures { figures, .. }) in MODERN_DRIVES.iter().zip(&KNOWN) {
        let reached = reached(drive);
        let cells = reached.iter().zip(figures).map(|(reached, known)| match known {
            Some(known) => format!("{} of {} ({:.0} %)", shown(*reached), shown(*known), 100.0 * reached / known),
            None => shown(*reached),
        });
        let row = format!("| `{}` | {} |", drive.name, cells.collect::<Vec<_>>().join(" | "));
        if document.lines().all(|line| line != row) {
            missing.push(row);
        }
        for (reached, known) in reached.iter().zip(figures) {
            let Some(known) = known else { continue };
            // Reads with 256 outstanding leave some planes idle.
            assert!((0.85..1.10).contains(&(reached / known)), "{}: {reached} of {known}", drive.name);
        }
    }
    assert!(missing.is_empty(), "docs/presets.md should have these lines:\n{}", missing.join("\n"));
}

#[test]
fn drives_can_be_built_as_they_are() {
    for drive in MODERN_DRIVES {
        let shape = SsdShape::new(drive.config(geometry()), geometry()).expect(drive.name);
        let exported = u64::from(shape.host_pages) * 4096;
        assert!(exported.abs_diff(drive.exported_bytes) < 1 << 20, "{}: {exported} B", drive.name);
        let modern = shape.config.modern.as_ref().expect("modern");
        assert_eq!(modern.pages_per_word_line, if drive.name == "p4320" { 4 } else { 3 }, "{}", drive.name);
        assert!(shape.config.queue_depth.is_none_or(|depth| depth >= modern.write_slots), "{}", drive.name);
    }
}
