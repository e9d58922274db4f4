//! `destage validate` on small devices and short runs: every check still holds.

use destage_reproduce::validate::{ValidationEffort, validate};

#[test]
fn a_small_validation_holds() {
    let effort = ValidationEffort {
        blocks: 1024,
        overwrites: 3,
        seeds: 2,
        skew_seeds: 1,
        queue_requests: 200_000,
        queue_seeds: 3,
    };
    let once = validate(effort, &|_| {}).expect("it runs");
    let failures = &once.failures;
    // Few requests leave a load of .9 uncertain by more than the tolerance of the full run;
    // everything else holds.
    assert!(failures.iter().all(|failure| failure.starts_with("M/D/1 at 0.9")), "{failures:?}");
    assert!(once.markdown.contains("| 256 | 0.93 |") && once.markdown.contains("FlashSim"), "{}", once.markdown);
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
    };
    let run = || validate(effort, &|_| {}).expect("it runs").markdown;
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
