//! Response times by load.

use destage_sim::ssd::{ModernConfig, Ssd};

use crate::drive;
use crate::load::{LoadFigures, OfferedLoad, run};

/// Holds a row: writes a second, or 0 for as many as the drive takes, then read p50, p99, p99.9 and write p50, p99, p99.9 in
/// microseconds of the model's reference, and of the measured drive.
type Row = (f64, [f64; 6], [f64; 6]);

const PM9A3: [Row; 8] = [
    (10e3, [64.0, 313.0, 470.0, 11.0, 11.0, 11.0], [64.0, 237.0, 393.0, 11.0, 14.0, 17.0]),
    (20e3, [64.0, 408.0, 494.0, 11.0, 11.0, 11.0], [71.0, 276.0, 428.0, 11.0, 14.0, 17.0]),
    (30e3, [64.0, 440.0, 503.0, 11.0, 11.0, 11.0], [73.0, 318.0, 472.0, 11.0, 14.0, 17.0]),
    (40e3, [124.0, 457.0, 505.0, 11.0, 11.0, 11.0], [89.0, 349.0, 505.0, 11.0, 15.0, 17.0]),
    (50e3, [124.0, 472.0, 510.0, 11.0, 11.0, 11.0], [104.0, 372.0, 529.0, 12.0, 43.0, 71.0]),
    (60e3, [124.0, 478.0, 510.0, 11.0, 11.0, 11.0], [107.0, 388.0, 544.0, 14.0, 81.0, 138.0]),
    (70e3, [124.0, 482.0, 512.0, 11.0, 11.0, 11.0], [114.0, 381.0, 602.0, 23.0, 307.0, 1613.0]),
    (0.0, [2089.0, 3470.0, 3824.0, 5264.0, 6349.0, 6798.0], [2898.0, 4394.0, 4640.0, 5366.0, 6306.0, 6803.0]),
];

const P5520: [Row; 8] = [
    (10e3, [70.0, 146.0, 510.0, 8.0, 8.0, 8.0], [70.0, 254.0, 409.0, 8.0, 26.0, 150.0]),
    (20e3, [70.0, 350.0, 534.0, 8.0, 8.0, 8.0], [116.0, 363.0, 487.0, 8.0, 56.0, 165.0]),
    (40e3, [70.0, 450.0, 538.0, 8.0, 8.0, 8.0], [117.0, 414.0, 533.0, 8.0, 54.0, 149.0]),
    (60e3, [70.0, 490.0, 547.0, 8.0, 8.0, 8.0], [124.0, 438.0, 565.0, 8.0, 41.0, 69.0]),
    (80e3, [130.0, 508.0, 554.0, 8.0, 8.0, 8.0], [142.0, 460.0, 603.0, 8.0, 52.0, 115.0]),
    (100e3, [130.0, 512.0, 548.0, 8.0, 8.0, 9.0], [141.0, 467.0, 615.0, 9.0, 72.0, 217.0]),
    (110e3, [130.0, 519.0, 550.0, 8.0, 8.0, 9.0], [135.0, 461.0, 616.0, 9.0, 93.0, 1584.0]),
    (0.0, [1351.0, 3522.0, 4031.0, 3542.0, 6472.0, 6788.0], [900.0, 3000.0, 4100.0, 3240.0, 6303.0, 8201.0]),
];

/// Runs a load on a copy of the drive.
pub fn loaded(ssd: &Ssd, writes: f64, seconds: f64) -> LoadFigures {
    let mut ssd = ssd.clone();
    let writes_per_second = (writes > 0.0).then_some(writes);
    let measured = run(&mut ssd, OfferedLoad { writes_per_second, seconds, seed: 1 });
    ssd.check().expect("its laws");
    measured
}

/// Returns the percentiles of reads and writes: of thread 0 below saturation, of the others at saturation.
fn percentiles(measured: &mut LoadFigures, saturated: bool) -> [f64; 6] {
    let [reads, writes] = &mut measured.times[usize::from(saturated)];
    let mut all = [0.0; 6];
    all[..3].copy_from_slice(&reads.percentiles());
    all[3..].copy_from_slice(&writes.percentiles());
    all
}

fn responses(title: &str, ssd: &Ssd, rows: &[Row]) {
    println!("\n## {title}\n\nOurs / reference / measured, µs; and the largest ratio of ours to each, of the reads.\n");
    println!("| writes/s | read p50 | p99 | p99.9 | write p50 | p99 | p99.9 | to reference | to measured |");
    println!("|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for (writes, reference, drive) in rows {
        let mut measured = loaded(ssd, *writes, 20.0);
        let found = percentiles(&mut measured, *writes == 0.0);
        print!("| {:.0} ", measured.writes_per_second);
        for i in 0..6 {
            print!("| {:.0} / {:.0} / {:.0} ", found[i], reference[i], drive[i]);
        }
        let worst = |of: &[f64; 6]| (0..3).map(|i| (found[i] / of[i]).max(of[i] / found[i])).fold(1.0, f64::max);
        println!("| {:.2} | {:.2} |", worst(reference), worst(drive));
    }
}

/// Prints PM9A3's response times.
pub fn pm9a3() {
    responses("PM9A3, 960 GB (2 GiB, 4 word lines)", &drive("pm9a3", 1 << 19, 4, &|_| ()), &PM9A3);
}

/// Prints P5520's response times.
pub fn p5520() {
    responses("P5520, 1.92 TB (4 GiB, 2 word lines)", &drive("p5520", 1 << 20, 2, &|_| ()), &P5520);
}

/// Holds a changed part: its name, the change, and the reference's read p50, p99, p99.9 and write p50 and p99.9.
type Part = (&'static str, fn(&mut ModernConfig), [f64; 5]);

/// Prints what PM9A3 does at 70,000 writes/s with one part off, as far as settings turn it off.
pub fn parts() {
    const PARTS: [Part; 6] = [
        ("all on", |_| (), [124.0, 482.0, 510.0, 11.0, 11.0]),
        ("suspend (bypass = 0)", |modern| modern.bypass = 0, [403.0, 1036.0, 1050.0, 11.0, 11.0]),
        ("slices of 3 reads", |modern| modern.slice_reads = 3, [124.0, 273.0, 290.0, 11.0, 11.0]),
        ("cache of 96 sectors", |modern| modern.write_cache_bytes = 96 << 12, [2560.0, 3466.0, 3900.0, 6447.0, 8430.0]),
        ("bypass = 1", |modern| modern.bypass = 1, [124.0, 866.0, 1068.0, 11.0, 11.0]),
        ("write slots unlimited", |modern| modern.write_slots = 65_536, [124.0, 482.0, 510.0, 11.0, 11.0]),
    ];
    println!("\n## PM9A3 at 70,000 writes/s with one part off: ours / reference, µs\n");
    println!("| part | read p50 | p99 | p99.9 | write p50 | p99.9 |\n|---|--:|--:|--:|--:|--:|");
    for (name, change, reference) in PARTS {
        let ssd = drive("pm9a3", 1 << 19, 4, &|config| change(config.modern.as_mut().expect("modern")));
        let mut measured = loaded(&ssd, 70e3, 10.0);
        // What is saturated has the figures of the threads that saturate it.
        let saturated = measured.writes_per_second < 69e3;
        let found = percentiles(&mut measured, saturated);
        print!("| {name} ");
        [0, 1, 2, 3, 5]
            .map(|at| found[at])
            .iter()
            .zip(reference)
            .for_each(|(found, of)| print!("| {found:.0} / {of:.0} "));
        println!("|");
    }
}

/// Prints PM9A3 at three sizes: uniform write amplification, read p99 at 20,000 writes/s, and the rate at saturation.
pub fn sizes() {
    println!(
        "\n## PM9A3 by size: ours / reference\n\n| exported | amplification | read p99 at 20,000/s, µs | p99.9 at 90 %, µs | writes/s |"
    );
    println!("|---|--:|--:|--:|--:|");
    for (name, pages, lines, reference) in [
        ("0.5 GiB", 1 << 17, 2, [4.03, 405.0, 78_000.0]),
        ("2 GiB", 1 << 19, 4, [4.11, 408.0, 76_300.0]),
        ("8 GiB", 1 << 21, 16, [4.12, 403.0, 76_000.0]),
    ] {
        let ssd = drive("pm9a3", pages, lines, &|_| ());
        let amplification = ssd.steadiness().expect("steady").write_amplification_milli[1] as f64 / 1000.0;
        let p99 = percentiles(&mut loaded(&ssd, 20e3, 20.0), false)[1];
        let saturated = loaded(&ssd, 0.0, 10.0).writes_per_second;
        let p999 = percentiles(&mut loaded(&ssd, saturated * 0.9, 20.0), false)[2];
        let [a, b, c] = reference;
        println!(
            "| {name} | {amplification:.2} / {a} | {p99:.0} / {b} | {p999:.0} (600 at most) | {saturated:.0} / {c} |"
        );
    }
}
