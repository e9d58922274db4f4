//! One seed, one course of events; and failures made small.

use destage_cache::{HostCacheInfo, host_caches};
use destage_crash::{DrawLimits, RunOptions, StepFault, first_failure, history, run, shrink};

fn cache() -> &'static HostCacheInfo {
    host_caches().find(|info| info.name == "write-through").expect("a cache of this name")
}

#[test]
fn a_seed_decides_every_step() {
    // A fault makes every run fail, and so show its steps.
    let options = RunOptions { mutant: Some(StepFault::SkipIntent), log: true, ..RunOptions::default() };
    let mut failures = 0;
    for seed in 0..200 {
        let history = history(cache(), seed, &DrawLimits::default());
        match (run(cache(), &history, options), run(cache(), &history, options)) {
            (Err(first), Err(second)) => {
                assert_eq!((&first.what, &first.log), (&second.what, &second.log), "seed {seed}");
                assert!(!first.log.is_empty());
                failures += 1;
            }
            (Ok(first), Ok(second)) => {
                assert_eq!(
                    (first.steps, first.time, first.counts),
                    (second.steps, second.time, second.counts),
                    "seed {seed}"
                );
            }
            _ => panic!("seed {seed} fails only sometimes"),
        }
    }
    assert!(failures > 20, "the fault shows in {failures} histories only");
}

#[test]
fn a_failing_history_is_made_small() {
    let limits = DrawLimits { level: Some(destage_raid::RaidLevel::Raid5), ..DrawLimits::default() };
    let options = RunOptions { mutant: Some(StepFault::SkipIntent), ..RunOptions::default() };
    let (_, failure) = first_failure(cache(), 100..1_000, &limits, options).expect("the fault is found");
    let small = shrink(cache(), &failure, options, 3_000);
    println!("{small}");
    assert!(small.history.actions.len() < failure.history.actions.len());
    assert!(small.history.actions.len() <= 4, "one write and what shows the fault are enough");
    assert!(small.log.iter().any(|line| line.contains("Write")), "its steps are written down");
    let again = run(cache(), &small.history, options).expect_err("it fails again");
    assert_eq!(again.what, small.what);
}
