//! Smallest cases in which the write caches do not do what the specs and LAWC's paper say (`SpecReading` of the naive
//! model). Each has requests of several pieces or several pages of a row; `docs/host-side.md` lists them.

use destage_plan::{Control, HostOp, HostRequest};

use crate::beside::{Case, PAGE, Pair, SECTOR};
use crate::model::{Options, Shape};
use crate::spec_reading::SpecReading;

/// Writes these runs of sectors one right after the other, and then writes all back. Returns where cache and model
/// differ first.
fn write_all(case: &Case, writes: &[(u64, u64)]) -> Result<(), String> {
    let mut pair = Pair::new(case);
    for (tag, (first, sectors)) in (1..).zip(writes) {
        let (offset, len) = (first * SECTOR, sectors * SECTOR);
        pair.submit(HostRequest { tag, op: HostOp::Write, offset, len, fua: false });
        pair.settle();
        pair.compare()?;
    }
    pair.memory.control(Control::Clean);
    pair.model.be_clean();
    pair.settle();
    pair.compare()?;
    while !pair.flight.is_empty() {
        pair.end_at(0);
        pair.settle();
        pair.compare()?;
    }
    pair.check_members(case)
}

/// Checks that a cache does as it is built, and differs from the paper's reading in this.
fn assert_differs(mut case: Case, writes: &[(u64, u64)], difference: &str) {
    case.options.reading = SpecReading::AsBuilt;
    assert_eq!(write_all(&case, writes), Ok(()), "{}", case.cache);
    case.options.reading = SpecReading::Paper;
    assert_eq!(write_all(&case, writes), Err(difference.to_owned()), "{}", case.cache);
}

const SECTORS: u64 = PAGE / SECTOR;

/// Returns WOW of so many pages that destages nothing before it is full.
fn wow(shape: Shape, pages: u64, groups: u64, runs: usize) -> Case {
    let seq = if runs > 0 { "on" } else { "off" };
    let cache = format!("wow:low=100:high=100:groups={groups}:seq={seq}");
    let upper = Some(pages as usize);
    let options = Options { upper, low: 100, high: 100, groups, runs, ..Options::default() };
    Case { name: "wow", shape, stripes: 4, cache, pages, options, quick_reads: true, depth: 12 }
}

const RAID_4: Shape = Shape { level: 4, members: 4, chunk: 1 };
const RAID_0: Shape = Shape { level: 0, members: 2, chunk: 1 };

/// Checks two free pages of three when a row of three is written. Page by page two enter and are destaged, for which the
/// third is read; row by row, the row waits for room and is destaged whole, without a read.
#[test]
fn wow_lets_pages_in_or_rows() {
    let writes = [(3 * SECTORS, SECTORS), (0, 3 * SECTORS)];
    let by_page = wow(RAID_4, 3, 2, 0);
    let by_row = |case: &Case| {
        let options = Options { admits_rows: true, ..case.options };
        Case { options, cache: case.cache.clone() + ":admit=row", ..wow(RAID_4, 3, 2, 0) }
    };
    for reading in [SpecReading::AsBuilt, SpecReading::Paper] {
        for mut case in [wow(RAID_4, 3, 2, 0), by_row(&by_page)] {
            case.options.reading = reading;
            assert_eq!(write_all(&case, &writes), Ok(()), "{}", case.cache);
        }
    }
    let reads = "reads: [(1, 1, 1), (2, 1, 1)], by the model [(1, 1, 1), (2, 0, 1), (2, 1, 1)]";
    let mixed = Case { options: by_page.options, ..by_row(&by_page) };
    assert_eq!(write_all(&mixed, &writes), Err(reads.to_owned()), "the case is too roomy");
}

/// A write of half a page and the page behind it is no hit on its own group by the paper, which goes first then. As
/// it is built its two pieces are two requests, the group is hit, and the other goes first.
#[test]
fn a_part_of_a_page_is_a_hit_on_its_own_request() {
    let writes = [(SECTORS / 2, SECTORS / 2 + SECTORS), (2 * SECTORS, SECTORS)];
    let order = "writes: [(0, 1, 1)], by the model [(0, 0, 1), (1, 0, 1)]";
    assert_differs(wow(RAID_0, 4, 1, 0), &writes, order);
}

/// A write of the last page of a stripe and the first of the next is random by the paper. As it is built its second
/// piece goes on where the first ended.
#[test]
fn a_request_across_stripes_is_sequential_to_itself() {
    let writes = [(SECTORS, 2 * SECTORS)];
    let sequential = "figures: [0, 0, 0, 0, 0, 0, 0, 1], by the model [0, 0, 0, 0, 0, 0, 0, 0]";
    assert_differs(wow(RAID_0, 4, 1, 32), &writes, sequential);
}

/// Three pages do not fit into a small cache of two: by the paper all pass it, and row 0 is destaged first. As it is
/// built the piece in the first stripe enters, the rest passes, and row 1 is destaged first.
#[test]
fn lawc_decides_for_each_stripe_of_a_request() {
    let options = Options {
        upper: Some(2),
        each: Some(1),
        groups: 1,
        recency_on_insert: true,
        sync: true,
        timeout: 1_000_000_000,
        since_first_ready: true,
        on_full: true,
        empty_blocks: true,
        ..Options::default()
    };
    let cache = "lawc:small=25:recency=store:timeout=1s:timer=ready:full=release:empty=wait".to_owned();
    let case = Case { name: "lawc", shape: RAID_4, stripes: 4, cache, pages: 8, options, quick_reads: true, depth: 12 };
    let order = "writes: [(0, 1, 1), (1, 1, 1), (3, 1, 1)], by the model [(2, 0, 1), (3, 0, 1)]";
    assert_differs(case, &[(2 * SECTORS, 3 * SECTORS)], order);
}
