//! Long histories without cuts: every row is checked after every write of a member, whole and with
//! members lost at random moments. And many writes at once to a few rows.

use destage_cache::{HostCacheInfo, all_host_caches_of, serve};
use destage_crash::{DrawLimits, PAGE, ParityCheck, RunOptions, SECTOR, explore, shrink};
use destage_exec::{CrashRemains, MemoryExecutor, NextStep};
use destage_plan::{Class, HostNotice, HostOp, HostRequest, Nanos, Shape};
use destage_raid::array::ArrayConfig;
use destage_raid::{Geometry, RaidLevel};

use crate::share::share_of;

/// Requests per cell.
fn operations() -> u64 {
    share_of(6_000, 27_000)
}

/// Histories of a few hundred requests each, until there are enough.
fn try_cell(cache: &'static HostCacheInfo, level: RaidLevel, losses: bool) {
    let limits = DrawLimits { level: Some(level), no_cuts: true, no_losses: !losses, requests: Some(300) };
    let (mut requests, mut lost, mut rebuilds, mut cached, mut seed) = (0, 0, 0, 0, 1_000_000);
    while requests < operations() {
        let report = explore(cache, seed..seed + 16, &limits, RunOptions::default());
        let report = report.unwrap_or_else(|failure| {
            let small = shrink(cache, &failure, RunOptions::default(), 2_000);
            panic!("{} {level}: {}\nsmallest found: {small}", cache.name, failure.what)
        });
        seed += 16;
        requests += report.requests;
        lost += report.losses;
        rebuilds += report.rebuilds;
        cached += report.cached_reads;
    }
    println!(
        "{} {level}: {requests} requests, {lost} devices lost, {rebuilds} members filled, {cached} pages of rows in memory",
        cache.name
    );
    let keeps_rows = cache.name == "none" && matches!(level, RaidLevel::Raid4 | RaidLevel::Raid5 | RaidLevel::Raid6);
    assert!(!keeps_rows || cached > requests / 50, "a share of the arrays keeps rows");
    assert_eq!(lost > 0, losses && (level != RaidLevel::Raid0 || lost > 0), "devices are lost where they are to be");
    assert!(!losses || level == RaidLevel::Raid0 || rebuilds > 0);
}

#[test]
fn rows_stay_consistent_while_all_members_live() {
    for level in RaidLevel::ALL {
        all_host_caches_of(level).for_each(|cache| try_cell(cache, level, false));
    }
}

#[test]
fn rows_stay_consistent_while_members_are_lost_and_filled() {
    for level in RaidLevel::ALL {
        all_host_caches_of(level).for_each(|cache| try_cell(cache, level, true));
    }
}

/// Counts the nanoseconds of the steps of one small write, one after the other: an intent, a read, computing, a write;
/// twice, to be sure.
const ONE_WRITE: u64 = 2 * (1_000 + 62_000 + 3_000 + 22_000);

#[test]
fn ten_thousand_writes_to_few_rows_wait_their_turn_and_no_longer() {
    let geometry = Geometry::new(RaidLevel::Raid5, None, 5, 2, 8).expect("a shape that can be");
    let (data, rows) = (u64::from(geometry.data_columns()), 4);
    let config = ArrayConfig { idle_flush: Nanos(u64::MAX / 2), ..ArrayConfig::new(geometry.clone()) };
    let shape = Shape::new(PAGE as u64, SECTOR as u64, 2 * data, 1, geometry.data_pages()).expect("a tiny array");
    let remains = CrashRemains::fresh((0..5).map(|_| geometry.member_pages() as usize * PAGE));
    let count = 10_000_u64;
    let controller = serve("none", &config, 0).expect("the shape can be served");
    let mut memory = MemoryExecutor::start(controller, remains, shape, count as usize);
    let check = ParityCheck::new(geometry.clone());
    // Pages of two stripes of two rows each, in an order that mixes them.
    let page_of = |tag: u64| tag.wrapping_mul(7) % (rows * data);
    let row_of = |tag: u64| {
        let place = geometry.locate(page_of(tag));
        geometry.row(place.stripe, place.row_in_chunk)
    };
    for tag in 0..count {
        let request =
            HostRequest { tag, op: HostOp::Write, offset: page_of(tag) * PAGE as u64, len: PAGE as u64, fua: false };
        memory.submit(request, &[tag as u8; PAGE]).expect("a write in range");
    }
    let mut last = [None; 4];
    let mut before = [0_u64; 4];
    let mut acked = 0;
    while acked < count {
        memory.run(NextStep::Earliest, &check).unwrap_or_else(|violation| panic!("{violation}"));
        while let Some(notice) = memory.next_notice() {
            let HostNotice::Acked { tag, ok } = notice else { continue };
            let row = row_of(tag).0 as usize;
            assert!(
                ok && last[row] < Some(tag),
                "writes to row {row} are done in the order of submission: {tag} after {:?}",
                last[row]
            );
            (last[row], before[row], acked) = (Some(tag), before[row] + 1, acked + 1);
            assert!(
                memory.now().0 <= before[row] * ONE_WRITE,
                "{tag} waits longer than {} writes of its row take",
                before[row]
            );
        }
    }
    let wait = memory.engine().out().waits()[Class::Write as usize];
    println!(
        "{} claims, {} waited, {} in all, at most {}; done after {}",
        wait.claims,
        wait.waited,
        wait.total,
        wait.max,
        memory.now()
    );
    assert_eq!((wait.claims, wait.waited), (count, count - rows));
    assert!(wait.max <= memory.now());
}
