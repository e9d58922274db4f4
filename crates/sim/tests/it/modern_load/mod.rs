//! The modern drive under SSD-iq's load (`load.rs`): response times against those of the model's reference and of the drive
//! that was measured, and what each part of the model is for. `cargo run -p destage-sim --example drive_tables` runs more.

mod load;

use destage_plan::PageGeometry;
use destage_sim::ssd::{ModernConfig, ModernDesign, Ssd, SsdConfig, SsdShape, StartState};

use load::{LoadFigures, OfferedLoad, run};

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
    let measured = run(&mut ssd, OfferedLoad { writes_per_second, seconds, seed: 1 });
    ssd.check().expect("its laws");
    measured
}

/// Asserts that percentiles are within 10 % of the reference's, and within a factor of 1.5 of the measured drive's.
fn assert_reads(found: [f64; 3], model: [f64; 3], drive: [f64; 3], what: &str) {
    for ((found, model), drive) in found.into_iter().zip(model).zip(drive) {
        assert!((found / model - 1.0).abs() < 0.10, "{what}: {found} µs, and {model} in the reference");
        assert!((found / drive).max(drive / found) < 1.5, "{what}: {found} µs, and {drive} of the drive");
    }
}

#[test]
fn reads_of_a_pm9a3_take_as_long_as_measured() {
    let ssd = steady("pm9a3", 524_288, 4, |_| ());
    let rows = [
        (10_000.0, [64.0, 313.0, 470.0], [64.0, 237.0, 393.0]),
        (20_000.0, [64.0, 408.0, 494.0], [71.0, 276.0, 428.0]),
        (70_000.0, [124.0, 482.0, 510.0], [114.0, 381.0, 602.0]),
    ];
    for (writes, model, drive) in rows {
        let mut measured = loaded(&ssd, Some(writes), 6.0);
        let [reads, writes_found] = &mut measured.times[0];
        assert_reads(reads.percentiles(), model, drive, &format!("{writes} writes/s"));
        let [p50, _, p999] = writes_found.percentiles();
        assert!((11.0..11.5).contains(&p50) && p999 < 16.0, "{writes} writes/s: {p50}, {p999} µs");
        assert!((measured.writes_per_second / writes - 1.0).abs() < 0.02, "{}", measured.writes_per_second);
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
    for (writes, model) in [(20_000.0, [70.0, 350.0, 534.0]), (100_000.0, [130.0, 512.0, 548.0])] {
        let [reads, _] = &mut loaded(&ssd, Some(writes), 4.0).times[0];
        let found = reads.percentiles();
        let close = found.into_iter().zip(model).all(|(found, model)| (found / model - 1.0).abs() < 0.1);
        assert!(close, "{writes} writes/s: {found:?} µs, and {model:?} in the reference");
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
