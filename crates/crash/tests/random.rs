//! Random histories over every controller and level.

use destage_crash::{Failure, Limits, Options, Plain, Report, Subject, Through, explore, shrink};
use destage_plan::{Class, StepKind};
use destage_raid::Level;

/// Seeds of each cell: `CRASH_SEEDS`, or so that all cells together make 10⁵, in the soak 10⁷.
fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let from = number("CRASH_FROM").unwrap_or(0);
    let soak = std::env::var_os("DESTAGE_SOAK").is_some();
    from..from + number("CRASH_SEEDS").unwrap_or(if soak { 1_000_000 } else { 10_000 })
}

fn explain<S: Subject>(subject: &S, failure: &Failure) -> String {
    let small = shrink(subject, failure, Options::default(), 4_000);
    format!("{}\nas found: {}\nsmallest found: {small}", subject.name(), failure.what)
}

fn try_all<S: Subject>(subject: &S, level: Level) {
    let limits = Limits { level: Some(level), ..Limits::default() };
    match explore(subject, seeds(), &limits, Options::default()) {
        Ok(report) => print(subject, level, &report),
        Err(failure) => panic!("{}", explain(subject, &failure)),
    }
}

fn print<S: Subject>(subject: &S, level: Level, report: &Report) {
    println!(
        "{} {level}: {} histories, {} requests ({} unserved), {} steps, {} cuts ({} while recovering, {} degraded), {} refusals, \
         {} losses, {} rebuilds",
        subject.name(),
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

macro_rules! cells {
    ($($name:ident: $subject:expr, $level:expr;)*) => { $(
        #[test]
        fn $name() {
            try_all(&$subject, $level);
        }
    )* };
}

cells! {
    none_raid0: Plain, Level::Raid0;
    none_raid1: Plain, Level::Raid1;
    none_raid4: Plain, Level::Raid4;
    none_raid5: Plain, Level::Raid5;
    none_raid6: Plain, Level::Raid6;
    write_through_raid0: Through, Level::Raid0;
    write_through_raid1: Through, Level::Raid1;
    write_through_raid4: Through, Level::Raid4;
    write_through_raid5: Through, Level::Raid5;
    write_through_raid6: Through, Level::Raid6;
}
