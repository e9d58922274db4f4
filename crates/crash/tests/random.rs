//! Random histories over every host cache and level.

use destage_cache::{HostCacheInfo, host_caches};
use destage_crash::{Failure, Limits, Options, Report, explore, shrink};
use destage_plan::{Class, StepKind};
use destage_raid::Level;

/// Seeds of each cell: `CRASH_SEEDS`, or 10⁴, in the soak 10⁶.
fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let from = number("CRASH_FROM").unwrap_or(0);
    let soak = std::env::var_os("DESTAGE_SOAK").is_some();
    from..from + number("CRASH_SEEDS").unwrap_or(if soak { 1_000_000 } else { 10_000 })
}

fn explain(cache: &'static HostCacheInfo, failure: &Failure) -> String {
    let small = shrink(cache, failure, Options::default(), 4_000);
    format!("{}\nas found: {}\nsmallest found: {small}", cache.name, failure.what)
}

fn try_all(cache: &'static HostCacheInfo, level: Level) {
    let limits = Limits { level: Some(level), ..Limits::default() };
    match explore(cache, seeds(), &limits, Options::default()) {
        Ok(report) => print(cache, level, &report),
        Err(failure) => panic!("{}", explain(cache, &failure)),
    }
}

fn print(cache: &'static HostCacheInfo, level: Level, report: &Report) {
    println!(
        "{} {level}: {} histories, {} requests ({} unserved), {} steps, {} cuts ({} while recovering, {} degraded), {} refusals, \
         {} losses, {} rebuilds",
        cache.name,
        report.runs,
        report.requests,
        report.unserved,
        report.steps,
        report.cuts,
        report.cuts_in_recovery,
        report.cuts_degraded,
        report.refusals,
        report.losses,
        report.rebuilds
    );
    let counts = StepKind::ALL.iter().zip(report.counts).map(|(kind, count)| format!("{} {count}", kind.word()));
    println!("  steps: {}", counts.collect::<Vec<_>>().join(", "));
    for (class, wait) in Class::ALL.iter().zip(report.waits).filter(|(_, wait)| wait.claims > 0) {
        println!("  {}: {} claims, {} waited, at most {}", class.word(), wait.claims, wait.waited, wait.max);
    }
    assert!(report.cuts > report.runs / 2 && report.requests > report.runs, "the histories do what they are for");
}

macro_rules! levels {
    ($($name:ident: $level:expr;)*) => { $(
        #[test]
        fn $name() {
            host_caches().for_each(|cache| try_all(cache, $level));
        }
    )* };
}

levels! {
    raid0: Level::Raid0;
    raid1: Level::Raid1;
    raid4: Level::Raid4;
    raid5: Level::Raid5;
    raid6: Level::Raid6;
}
