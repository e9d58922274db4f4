//! Holds the modern drive under SSD-iq's load: response times against those of the model's reference and of the drive
//! that was measured, and what each part of the model is for.

use destage_plan::PageGeometry;
use destage_sim::drive_load::{LoadFigures, OfferedLoad};
use destage_sim::ssd::{ModernConfig, ModernDesign, Ssd, SsdConfig, SsdShape, StartState};
use destage_testkit::soak;

/// Returns the preset with so many pages and word lines, changed.
fn steady(name: &str, pages: u64, word_lines: u32, change: impl Fn(&mut ModernConfig)) -> Ssd {
    let page = PageGeometry::new(4096, 64).expect("a geometry");
    let mut config: SsdConfig = ModernDesign::named(name).expect("a preset").config(page);
    let modern = config.modern.as_mut().expect("modern");
    (modern.exported_pages, modern.word_lines) = (pages, Some(word_lines));
    change(modern);
    Ssd::new(SsdShape::new(config, page).expect("a shape"), StartState::Steady { seed: 1 })
}

fn loaded(ssd: &Ssd, writes_per_second: Option<f64>, seconds: f64) -> LoadFigures {
    let mut ssd = ssd.clone();
    let measured = OfferedLoad { writes_per_second, seconds, seed: 1 }.run(&mut ssd);
    ssd.check().expect("its laws");
    measured
}

/// Holds writes a second with p50, p99 and p99.9 of reads in µs: of the model's reference, and of the measured drive.
type ReadRow = (u32, [f64; 3], [f64; 3]);

const PM9A3: [ReadRow; 7] = [
    (10_000, [64.0, 313.0, 470.0], [64.0, 237.0, 393.0]),
    (20_000, [64.0, 408.0, 494.0], [71.0, 276.0, 428.0]),
    (30_000, [64.0, 440.0, 503.0], [73.0, 318.0, 472.0]),
    (40_000, [124.0, 457.0, 505.0], [89.0, 349.0, 505.0]),
    (50_000, [124.0, 472.0, 510.0], [104.0, 372.0, 529.0]),
    (60_000, [124.0, 478.0, 510.0], [107.0, 388.0, 544.0]),
    (70_000, [124.0, 482.0, 512.0], [114.0, 381.0, 602.0]),
];

/// The measured drive senses 1.66 times as long under load, so that it is the reference alone that is held.
const P5520: [(u32, [f64; 3]); 7] = [
    (10_000, [70.0, 146.0, 510.0]),
    (20_000, [70.0, 350.0, 534.0]),
    (40_000, [70.0, 450.0, 538.0]),
    (60_000, [70.0, 490.0, 547.0]),
    (80_000, [130.0, 508.0, 554.0]),
    (100_000, [130.0, 512.0, 548.0]),
    (110_000, [130.0, 519.0, 550.0]),
];

/// Chooses the rows of a test: some, or all in the soak, for which they are measured longer.
fn rows<T: Copy>(all: &[T], some: &[usize]) -> (Vec<T>, f64) {
    if soak() { (all.to_vec(), 20.0) } else { (some.iter().map(|&at| all[at]).collect(), 6.0) }
}

/// Asserts that percentiles are within 10 % of the reference's. Where about half of the reads meet an operation, p50 is either
/// of the two times that reads take.
fn assert_close(found: [f64; 3], model: [f64; 3], halves: Option<f64>, what: &str) {
    for (at, (found, model)) in found.into_iter().zip(model).enumerate() {
        let is_close = |model: f64| (found / model - 1.0).abs() < 0.10;
        let is_half = at == 0 && halves.is_some_and(is_close);
        assert!(is_close(model) || is_half, "{what}: {found} µs, and {model} in the reference");
    }
}

#[test]
fn reads_of_a_pm9a3_take_as_long_as_measured() {
    let ssd = steady("pm9a3", 524_288, 4, |_| ());
    let (rows, seconds) = rows(&PM9A3, &[0, 1, 6]);
    for (writes, model, drive) in rows {
        let mut measured = loaded(&ssd, Some(writes.into()), seconds);
        let [reads, writes_found] = &mut measured.times[0];
        let (found, what) = (reads.percentiles(), format!("{writes} writes/s"));
        assert_close(found, model, (writes == 40_000).then_some(64.0), &what);
        for (found, drive) in found.into_iter().zip(drive) {
            assert!((found / drive).max(drive / found) < 1.5, "{what}: {found} µs, and {drive} of the drive");
        }
        let [p50, _, p999] = writes_found.percentiles();
        assert!((11.0..11.5).contains(&p50) && p999 < 16.0, "{what}: {p50}, {p999} µs");
        assert!((measured.writes_per_second / f64::from(writes) - 1.0).abs() < 0.02, "{}", measured.writes_per_second);
    }
}

#[test]
fn a_saturated_pm9a3_takes_76_400_writes() {
    let ssd = steady("pm9a3", 524_288, 4, |_| ());
    let mut measured = loaded(&ssd, None, 6.0);
    let found = measured.writes_per_second;
    assert!((found / 76_400.0 - 1.0).abs() < 0.03, "{found} writes/s");
    let [reads, writes] = &mut measured.times[1];
    let (reads, writes) = (reads.percentiles(), writes.percentiles());
    assert!((reads[0] / 2_089.0 - 1.0).abs() < 0.1 && (writes[0] / 5_264.0 - 1.0).abs() < 0.1, "{reads:?} {writes:?}");
    // With any number of writes inside reads do not wait behind them.
    let unlimited = steady("pm9a3", 524_288, 4, |modern| modern.write_slots = 65_536);
    let [reads, _] = &mut loaded(&unlimited, None, 3.0).times[1];
    assert!(reads.percentiles()[0] < 150.0);
}

#[test]
fn a_p5520_does_what_the_reference_does() {
    let ssd = steady("p5520", 1 << 20, 2, |_| ());
    let (rows, seconds) = rows(&P5520, &[1, 5]);
    for (writes, model) in rows {
        let [reads, _] = &mut loaded(&ssd, Some(writes.into()), seconds).times[0];
        assert_close(reads.percentiles(), model, (writes == 60_000).then_some(130.0), &format!("{writes} writes/s"));
    }
}

/// Without one of its parts the drive at 70,000 writes/s is another one.
#[test]
fn each_part_is_needed() {
    let reads = |change: fn(&mut ModernConfig)| {
        let [reads, _] = &mut loaded(&steady("pm9a3", 524_288, 4, change), Some(70_000.0), 3.0).times[0];
        reads.percentiles()
    };
    let [_, p99, _] = reads(|modern| modern.bypass = 1);
    assert!((p99 / 866.0 - 1.0).abs() < 0.1, "programs go before the second read: {p99} µs");
    let [_, p99, p999] = reads(|modern| modern.slice_reads = 3);
    assert!((p99 / 273.0 - 1.0).abs() < 0.1 && (p999 / 290.0 - 1.0).abs() < 0.1, "short slices: {p99}, {p999} µs");
    let [p50, ..] = reads(|modern| modern.write_cache_bytes = 96 * 4096);
    assert!(p50 > 1_000.0, "a small cache saturates: {p50} µs");
}
