//! Random histories over every host cache and level.

use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::sync::OnceLock;

use destage_cache::{HostCacheInfo, all_host_caches_of};
use destage_crash::{DrawLimits, FailedHistory, RunOptions, RunReport, explore, shrink};
use destage_plan::{Class, StepKind};
use destage_raid::RaidLevel;

use crate::share::{number_of, share_of};

/// Returns the first seed and the count of the ranges that each cell tries: `CRASH_SEEDS` of them from
/// `CRASH_FROM` on, if either is given. Else 800, in the soak 8,000, that are always the same, and a
/// quarter as many where perhaps none has looked yet: in all 5·10⁴, in the soak more than 10⁶.
///
/// Leaves the planted faults of docs/fault-catalogue.md that show between seed 800 and 4,600, and nowhere else, to
/// [`planted_faults_that_show_late`], which looks for them by their seeds.
fn seeds() -> Vec<(u64, u64)> {
    let (from, count) = (number_of("CRASH_FROM"), number_of("CRASH_SEEDS"));
    let usual = share_of(800, 8_000);
    if from.is_some() || count.is_some() {
        return vec![(from.unwrap_or(0), count.unwrap_or(usual))];
    }
    vec![(0, usual), (drawn(), usual / 4)]
}

/// Returns the first seed of this process beside the seeds that are always the same. It is printed, so the same
/// can be run again.
fn drawn() -> u64 {
    static DRAWN: OnceLock<u64> = OnceLock::new();
    *DRAWN.get_or_init(|| {
        let drawn = RandomState::new().hash_one(0) >> 8;
        let told = format!("crash histories also from a seed drawn just now: CRASH_FROM={drawn}");
        writeln!(std::io::stderr(), "{told}").expect("there is somewhere to tell it");
        drawn
    })
}

/// `CRASH_CACHE` names the only cache that is tried.
fn is_wanted(cache: &HostCacheInfo) -> bool {
    std::env::var("CRASH_CACHE").map_or(true, |name| name == cache.name)
}

fn explain(cache: &'static HostCacheInfo, failure: &FailedHistory) -> String {
    let small = shrink(cache, failure, RunOptions::default(), 4_000);
    format!("{}\nas found: {}\nsmallest found: {small}", cache.name, failure.what)
}

fn try_all(cache: &'static HostCacheInfo, level: RaidLevel) {
    let limits = DrawLimits { level: Some(level), ..DrawLimits::default() };
    for (from, count) in seeds() {
        // What stands around a cache does not change it.
        let count = if cache.has_layer_around() { count / 5 } else { count };
        match explore(cache, from..from + count, &limits, RunOptions::default()) {
            Ok(report) => print(cache, level, &report),
            Err(failure) => panic!("{}", explain(cache, &failure)),
        }
    }
}

fn print(cache: &'static HostCacheInfo, level: RaidLevel, report: &RunReport) {
    println!(
        "{} {level}: {} histories, {} requests ({} unserved), {} steps, {} cuts ({} while recovering, {} degraded), {} refusals ({} losses accepted), \
         {} losses, {} rebuilds, {} events of collections, {} drains, {} dirty pages overwritten past the cache",
        cache.name,
        report.runs,
        report.requests,
        report.unserved,
        report.steps,
        report.cuts,
        report.cuts_in_recovery,
        report.cuts_degraded,
        report.refusals,
        report.accepted,
        report.losses,
        report.rebuilds,
        report.collections,
        report.drains,
        report.overwritten
    );
    let counts = StepKind::ALL.iter().zip(report.counts).map(|(kind, count)| format!("{} {count}", kind.word()));
    println!("  steps: {}", counts.collect::<Vec<_>>().join(", "));
    for (class, wait) in Class::ALL.iter().zip(report.waits).filter(|(_, wait)| wait.claims > 0) {
        println!("  {}: {} claims, {} waited, at most {}", class.word(), wait.claims, wait.waited, wait.max);
    }
    assert!(
        report.runs < 500
            || report.cuts > report.runs / 2
                && report.requests > report.runs
                && report.collections > report.runs
                && report.drains > report.runs / 4,
        "the histories do what they are for"
    );
    let orders = report.counts[StepKind::Collect as usize];
    let expected = cache.needs_collectors();
    assert!(report.runs < 100 || (orders > report.runs / 10) == expected, "{orders} orders to collect");
    let overwrites = !cache.holds_dirty || report.overwritten > report.runs / 20;
    assert!(report.runs < 500 || overwrites, "{} dirty pages overwritten past the cache", report.overwritten);
    let computes = matches!(level, RaidLevel::Raid4 | RaidLevel::Raid5 | RaidLevel::Raid6);
    let notes = report.counts[StepKind::Intent as usize] > report.requests / 10;
    assert!(report.runs < 5_000 || !computes || !notes || report.accepted > 0, "losses are accepted");
}

macro_rules! levels {
    ($($name:ident: $level:expr;)*) => { $(
        #[test]
        fn $name() {
            all_host_caches_of($level).filter(|cache| is_wanted(cache)).for_each(|cache| try_all(cache, $level));
        }
    )* };
}

levels! {
    raid0: RaidLevel::Raid0;
    raid1: RaidLevel::Raid1;
    raid4: RaidLevel::Raid4;
    raid5: RaidLevel::Raid5;
    raid6: RaidLevel::Raid6;
}

/// Histories that were wrong once, found far beyond the seeds that are always tried.
#[test]
fn found_far_away() {
    // With every write durable, more was lost than the level can do without while a discard was
    // under way: its trims were never made durable, and yet the row's intent was cleared.
    // A row of which more had been lost for a while was not known to be whole again, so that its destage
    // failed, and was begun again, for ever (wow); a member was filled in with a page that its parity did not
    // cover, after the page that it covered had come there and counted as destaged (lawc).
    // A write of several rows, one of which was behind or lost a page, was planned row by row: the intent of the
    // first was cleared before the last was planned, and with it what the cache had of all of them (leavo).
    let leavo = [107_196, 51_462, 175_847];
    // Slots of the NVRAM were not freed, and a clean stop not reached, when rows were behind that could not be
    // made to catch up any more (kdd).
    // A write that had parted with a delta found it again after the device was lost, in another one (kdd).
    let kdd = [521_074, 110_077_215];
    // Of a row whose intent was cleared and set again, what had been logged was freed late: after a cut it was
    // taken for a page that had been written since, on a member that was filled by then (ggc+write-through).
    let filled = [60_001_440];
    // The power failed when another cache device stood in the place of a lost one, and nothing said so: its zeros
    // were taken for a log without a page, and what the NVRAM had told of the lost one for what is in it (leavo).
    let strangers = [90_143_725];
    // A row counted as written back though the start that was to recover it had been refused: the newest version
    // of it, in the cache, was given up (write-back).
    let refused = [4_001_478];
    // A page that a lost member had not was logged; when the member had it again it was written anew before what was
    // logged was freed, the power failed, and the member was lost once more: the older page was believed (ggc+none).
    let unlogged = [130_020_504];
    // The entries of the log of a lost device were freed before it was noted that the log is void, since another
    // note was under way: the power failed, the device was there again, and its log said of frames what had been in
    // them before (write-back).
    let voided = [150_000_569, 150_017_827, 170_028_731];
    // A cache device was lost while the log of the one before it was being noted as valid, and another took its place:
    // intents that were held over that note were never let go (kdd, write-back).
    let held = [210_015_527, 210_129_015];
    // A degraded write had read its row when the lost member was filled, and wrote it before what had been logged of the
    // row was freed: after a cut and another loss of the member that was believed, and the write was gone (leavo).
    let overtaken = [220_090_786];
    // A start without the cache's device answered a read before its note of that was durable; the power failed, the
    // device was there again, and with it what had been read as lost (write-back, RAID-6).
    let back_again = [7_300_011_291];
    for seed in [771_459_308, 900_307_095, 900_083_600, 40_325_926, 40_068_944]
        .into_iter()
        .chain(leavo)
        .chain(kdd)
        .chain(filled)
        .chain(strangers)
        .chain(refused)
        .chain(unlogged)
        .chain(voided)
        .chain(held)
        .chain(overtaken)
        .chain(back_again)
    {
        for level in RaidLevel::ALL {
            for cache in all_host_caches_of(level) {
                let limits = DrawLimits { level: Some(level), ..DrawLimits::default() };
                if let Err(failure) = explore(cache, seed..seed + 1, &limits, RunOptions::default()) {
                    panic!("{}", explain(cache, &failure));
                }
            }
        }
    }
}

/// Seeds at which faults that docs/fault-catalogue.md lists show first, later than the seeds that are always tried, where no
/// other test finds the fault.
#[test]
fn planted_faults_that_show_late() {
    let faults: [(&str, &str, &[u64]); 8] = [
        ("rows with an open intent are absorbed", "lawc", &[4_449]),
        ("a write that is dropped counts as never begun", "kdd", &[851, 1_068]),
        ("the member is written before base and delta are kept", "kdd", &[1_482, 2_594]),
        ("deltas outlive the device", "kdd", &[2_194]),
        ("the intents of rows are not held whose pages left frames that the log says they are in", "leavo", &[2_858]),
        ("what is on its way to a device that is lost is not listed as lost", "write-back", &[5_348]),
        ("a dirty page stays on the list of those that were lost", "write-back", &[1_791]),
        ("a lost page is written again and answered before the list has it no longer", "write-back", &[8_721]),
    ];
    for (fault, name, seeds) in faults {
        for level in [RaidLevel::Raid1, RaidLevel::Raid4, RaidLevel::Raid5, RaidLevel::Raid6] {
            let Some(cache) = all_host_caches_of(level).find(|cache| cache.name == name) else {
                assert_eq!(level, RaidLevel::Raid1, "a cache of this name");
                continue;
            };
            let limits = DrawLimits { level: Some(level), ..DrawLimits::default() };
            for seed in seeds {
                if let Err(failure) = explore(cache, *seed..seed + 1, &limits, RunOptions::default()) {
                    panic!("perhaps {fault}: {}", explain(cache, &failure));
                }
            }
        }
    }
}
