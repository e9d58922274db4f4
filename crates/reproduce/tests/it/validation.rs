//! `destage validate` on small devices and short runs: every check still holds.

use destage_reproduce::validate::{DRAWINGS, DriveEffort, ValidationEffort, validate};

#[test]
fn a_small_validation_holds() {
    let effort = ValidationEffort {
        blocks: 1024,
        overwrites: 3,
        seeds: 2,
        skew_seeds: 1,
        queue_requests: 200_000,
        queue_seeds: 3,
        drives: DriveEffort { shrunk: 2, milliseconds: 1_000, overwrites: 3 },
    };
    let once = validate(effort, &|_| {}).expect("it runs");
    let failures = &once.failures;
    // Few requests leave a load of .9 uncertain by more than the tolerance of the full run;
    // everything else holds.
    // Drives of a quarter of the size have blocks of one word line, whose slices are shorter.
    let expected = ["M/D/1 at 0.9", "Samsung PM9A3, 960 GB, read p99.9 of 70000 writes/s"];
    let is_expected = |failure: &String| expected.iter().any(|expected| failure.starts_with(expected));
    assert!(failures.iter().all(is_expected), "{failures:?}");
    assert!(once.markdown.contains("| 256 | 0.93 |") && once.markdown.contains("FlashSim"), "{}", once.markdown);
    assert_eq!(once.drawings.len(), DRAWINGS.len());
    for (name, drawing) in DRAWINGS.iter().zip(&once.drawings) {
        assert!(once.markdown.contains(&format!("]({name})")), "{name}");
        let circles = drawing.matches("<circle").count();
        assert!(drawing.starts_with("<svg") && circles >= 5, "{name}: {circles} measured figures");
    }
    let skewed = |row: &str| once.markdown.lines().filter(|line| line.starts_with(row)).count();
    assert_eq!(["| uniform | ", "| zipf 0.8 | ", "| zipf 1.0 | "].map(skewed), [3; 3], "{}", once.markdown);
}

#[test]
fn a_validation_is_the_same_bytes_every_time() {
    let effort = ValidationEffort {
        blocks: 256,
        overwrites: 2,
        seeds: 1,
        skew_seeds: 1,
        queue_requests: 20_000,
        queue_seeds: 1,
        drives: DriveEffort { shrunk: 4, milliseconds: 50, overwrites: 1 },
    };
    let run = || validate(effort, &|_| {}).map(|found| (found.markdown, found.drawings)).expect("it runs");
    assert_eq!(run(), run());
}

#[test]
fn the_committed_report_is_what_this_version_writes() {
    if std::env::var_os("DESTAGE_SOAK").is_none() {
        return;
    }
    let committed = include_str!("../../../../docs/validation.md");
    let found = validate(ValidationEffort::FULL, &|_| {}).expect("it runs");
    assert!(found.failures.is_empty(), "{:?}", found.failures);
    assert!(found.markdown == committed, "docs/validation.md is out of date: run make validate");
}
