//! Lists the commands to the array for one page's write, with parity or without (specs §2.1, §9.4).

use super::counters::{Ask, Column};
use super::params::{Method, Params, Shape};

/// Identifies the source of the old data of a write with parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Old {
    /// From its member, or from the cache where that is visible.
    Asked,
    /// Has it at hand: RMW.
    AtHand,
}

/// Reads and then writes.
pub type Plan = (Vec<Ask>, Vec<Ask>);

pub fn member_read(shape: Shape, page: u64) -> Ask {
    Ask::MemberRead { column: Column::Data(shape.column(page)), row: shape.row(page) }
}

/// The write of a page without its parity.
pub fn member_write(shape: Shape, page: u64) -> Ask {
    Ask::MemberWrite { column: Column::Data(shape.column(page)), row: shape.row(page) }
}

pub fn parity_reads(shape: Shape, row: u64) -> impl Iterator<Item = Ask> {
    Column::parity(shape.m).map(move |column| Ask::MemberRead { column, row })
}

pub fn parity_writes(shape: Shape, row: u64) -> impl Iterator<Item = Ask> {
    Column::parity(shape.m).map(move |column| Ask::MemberWrite { column, row })
}

/// The write of a page with parity. `cached` says how the cache reads what the parity covers of a page,
/// if it has it.
pub fn write(params: &Params, page: u64, stale: bool, old: Old, cached: impl Fn(u64) -> Option<Vec<Ask>>) -> Plan {
    let shape = params.shape;
    let row = shape.row(page);
    let visible = params.cache_visible || params.stale_visible && stale;
    let ask = |page| cached(page).filter(|_| visible).unwrap_or_else(|| vec![member_read(shape, page)]);
    let mut rmw = match old {
        Old::Asked => ask(page),
        Old::AtHand => Vec::new(),
    };
    rmw.extend(parity_reads(shape, row));
    let rcw: Vec<Ask> = shape.pages(row).filter(|&other| other != page).flat_map(ask).collect();
    let forced = stale || old == Old::AtHand;
    let reads = match params.method {
        Method::Rcw if !forced => rcw,
        Method::Min if !forced && of_members(&rmw) >= of_members(&rcw) => rcw,
        _ => rmw,
    };
    let mut writes = vec![member_write(shape, page)];
    writes.extend(parity_writes(shape, row));
    (reads, writes)
}

/// Plans the write of pages of one row with parity, as one (§9.8.18). `old` are the pages of the row that are newer than
/// what its parity covers; `is_part` if only a part of the one page is written. `covered` and `newest` say how the cache
/// reads what the parity covers of a page, and its newest version, if it has them.
pub fn write_row(
    params: &Params,
    pages: &[u64],
    old: &[u64],
    is_part: bool,
    covered: impl Fn(u64) -> Option<Vec<Ask>>,
    newest: impl Fn(u64) -> Option<Vec<Ask>>,
) -> Plan {
    let shape = params.shape;
    let row = shape.row(pages[0]);
    let visible = params.cache_visible || params.stale_visible && !old.is_empty();
    let ask =
        |cached: Option<Vec<Ask>>, page| cached.filter(|_| visible).unwrap_or_else(|| vec![member_read(shape, page)]);
    let rest: Vec<Ask> = pages.iter().filter(|_| is_part).flat_map(|&page| ask(newest(page), page)).collect();
    let mut rmw: Vec<Ask> = pages.iter().flat_map(|&page| ask(covered(page), page)).collect();
    rmw.extend(parity_reads(shape, row));
    let others = shape.pages(row).filter(|page| !pages.contains(page));
    let rcw: Vec<Ask> = others.flat_map(|page| ask(newest(page), page)).collect();
    let is_whole = pages.len() as u64 == shape.k && !is_part;
    let is_forced = !old.iter().all(|page| pages.contains(page));
    let mut reads = match params.method {
        _ if is_whole => Vec::new(),
        Method::Rcw if !is_forced => rcw,
        Method::Min if !is_forced && of_members(&rmw) >= of_members(&rcw) + usize::from(is_part) => rcw,
        _ => rmw,
    };
    reads.extend(rest);
    if old.is_empty() {
        // One read serves both: what the page was, and what it is beside what is written.
        reads.sort_unstable();
        reads.dedup();
    }
    let mut writes: Vec<Ask> = pages.iter().map(|&page| member_write(shape, page)).collect();
    writes.extend(parity_writes(shape, row));
    (reads, writes)
}

fn of_members(asks: &[Ask]) -> usize {
    asks.iter().filter(|ask| matches!(ask, Ask::MemberRead { .. })).count()
}
