//! Arrays, caches and requests at random.

use std::fmt::Write as _;

use destage_plan::{HostOp, HostRequest};
use destage_raid::array::{ArrayConfig, ParityMethod};
use destage_raid::{Geometry, RaidLevel};
use destage_testkit::{ArraySizes, TestRng};

use super::{LONG, PAGE, SECTOR};
use crate::model::{Method, Options, Shape, Stow};

/// A case: an array, a cache, and how it is driven.
pub struct Case {
    pub name: &'static str,
    pub shape: Shape,
    pub stripes: u64,
    pub cache: String,
    pub pages: u64,
    pub options: Options,
    pub quick_reads: bool,
    pub depth: usize,
}

fn level(of: u8) -> RaidLevel {
    match of {
        0 => RaidLevel::Raid0,
        4 => RaidLevel::Raid4,
        5 => RaidLevel::Raid5,
        _ => RaidLevel::Raid6,
    }
}

impl Case {
    pub fn config(&self) -> ArrayConfig {
        let Shape { level: of, members, chunk } = self.shape;
        let geometry = Geometry::new(level(of), None, members as u32, chunk as u32, self.stripes * chunk);
        let mut config = ArrayConfig::new(geometry.expect("a shape that can be"));
        config.idle_flush = LONG;
        config.parity = match self.options.method {
            Method::Min => ParityMethod::Min,
            Method::Rmw => ParityMethod::Rmw,
            Method::Rcw => ParityMethod::Rcw,
        };
        config
    }

    /// A case of a cache at a level.
    pub fn draw(cache: &'static str, of: u8, dice: &mut TestRng) -> Self {
        let least = [2, 0, 0, 0, 3, 3, 4][usize::from(of)];
        let shape = Shape { level: of, members: dice.within(least, 6) as usize, chunk: dice.within(1, 4) };
        let (n, k) = (shape.members as u64, shape.data() as u64);
        let (mut options, mut text) = (Options::default(), cache.to_owned());
        let mut pages = dice.within(1, 4 * n);
        if let Some(upper) = ["wow", "stow"].into_iter().find(|upper| cache.ends_with(upper)) {
            options.admits_rows = dice.below(3) == 0;
            text += if options.admits_rows { ":admit=row" } else { ":admit=page" };
            pages = if options.admits_rows { pages.max(k) } else { pages };
            options.upper = Some(pages as usize);
            let (low, high, groups) =
                [(0, 0, 1), (0, 0, 3), (50, 50, 2), (30, 80, 4), (80, 90, 20), (0, 100, 2)][dice.below(6) as usize];
            (options.low, options.high, options.groups) = (low, high, groups);
            write!(text, ":low={low}:high={high}:groups={groups}").expect("a string");
            if upper == "stow" {
                text += &draw_stow(&mut options, shape.chunk, pages, dice);
            } else if dice.below(2) == 0 {
                options.runs = 32;
                text += ":seq=on";
            }
        } else {
            let small = if cache == "lawc" { [0, 10, 25, 50, 75][dice.below(5) as usize] } else { 0 };
            pages = pages.max(n);
            while pages - pages * small / 100 < n {
                pages += 1;
            }
            let upper = pages * small / 100;
            options.each = Some(((pages - upper) / n) as usize);
            options.groups = 1;
            options.recency_on_insert = dice.below(3) > 0;
            text += if options.recency_on_insert { ":recency=store" } else { ":recency=hit" };
            if cache == "lawc" {
                options.upper = Some(upper as usize);
                write!(text, ":small={small}").expect("a string");
            }
        }
        if cache == "lawc" || cache.starts_with("sync+") {
            options.sync = true;
            let microseconds = [0, 2, 10, 100, 1_000_000][dice.below(5) as usize];
            options.auto = dice.below(4) == 0;
            options.timeout = if options.auto { 10_000_000 } else { microseconds * 1_000 };
            options.since_first_ready = options.timeout == 0 || dice.below(2) == 0;
            options.on_full = dice.below(2) == 0;
            options.empty_blocks = dice.below(2) == 0;
            let timer = if options.since_first_ready { "ready" } else { "release" };
            let full = if options.on_full { "release" } else { "wait" };
            let empty = if options.empty_blocks { "wait" } else { "skip" };
            let timeout = if options.auto { "auto".to_owned() } else { format!("{microseconds}us") };
            write!(text, ":timeout={timeout}:timer={timer}:full={full}:empty={empty}").expect("a string");
        }
        options.method = [Method::Min, Method::Min, Method::Rmw, Method::Rcw][dice.below(4) as usize];
        let stripes = dice.within(2, 8);
        let depth = dice.within(1, 12) as usize;
        Self { name: cache, shape, stripes, cache: text, pages, options, quick_reads: dice.below(2) == 0, depth }
    }
}

/// Constants of STOW.
fn draw_stow(options: &mut Options, chunk: u64, pages: u64, dice: &mut TestRng) -> String {
    options.runs = dice.within(1, 4) as usize;
    let strips = dice.within(1, 3);
    let (least, share, most) = [(5, 50, 95), (0, 0, 100), (20, 30, 60), (0, 100, 100)][dice.below(4) as usize];
    let of_all = |percent: u64| (pages * percent / 100) as usize;
    let stow = Stow {
        run: strips * chunk,
        margin: dice.within(1, 4) as usize,
        step: dice.below(4) as usize,
        least: of_all(least),
        most: of_all(most),
        at_first: of_all(share),
        stretch: dice.within(1, 3),
        hysteresis: dice.below(6) as usize,
    };
    options.stow = Some(stow);
    let Stow { margin, step, stretch, hysteresis, .. } = stow;
    format!(
        ":streams={}:run={strips}:least={least}:share={share}:most={most}:margin={margin}:step={step}:\
         stretch={stretch}:hysteresis={hysteresis}",
        options.runs
    )
}

/// Selects the pages of a request, before its ends are cut to sectors.
#[derive(Clone, Copy, Debug)]
enum RequestSpan {
    /// One page.
    Page,
    /// A few pages, in one stripe or two.
    Few,
    /// The fewest pages in a line that hold a parity row whole.
    Row,
    /// From inside a stripe into the next, or into the one after that.
    Across(u64),
    /// Up to twice the cache.
    Long,
    /// From inside an earlier request, or from before it into it.
    Again,
}

const SPANS: [RequestSpan; 9] = [
    RequestSpan::Page,
    RequestSpan::Page,
    RequestSpan::Few,
    RequestSpan::Few,
    RequestSpan::Row,
    RequestSpan::Across(1),
    RequestSpan::Across(2),
    RequestSpan::Long,
    RequestSpan::Again,
];

/// Draws the request with this tag. It lies near others, right behind the last of the `earlier` ones or over one of
/// them, and is between a sector and more than the cache long.
pub fn draw(dice: &mut TestRng, case: &Case, sizes: &ArraySizes, earlier: &[HostRequest], tag: u64) -> HostRequest {
    let op = match dice.below(20) {
        0..=13 => HostOp::Write,
        14 => HostOp::WriteZeroes,
        _ => HostOp::Read,
    };
    let (all, stripe, chunk) = (sizes.pages, sizes.stripe, case.shape.chunk);
    let room = if dice.below(2) == 0 { all } else { all.div_ceil(4) };
    let behind = earlier.last().map_or(0, |last| (last.offset + last.len).div_ceil(PAGE) % all);
    let near = if dice.below(4) == 0 { behind } else { dice.below(room) };
    let (first, pages) = match SPANS[dice.below(SPANS.len() as u64) as usize] {
        RequestSpan::Page => (near, 1),
        RequestSpan::Few => (near, dice.within(2, 4)),
        RequestSpan::Row => (near / stripe * stripe + dice.below(chunk), stripe - chunk + 1),
        RequestSpan::Across(borders) => {
            let first = near / stripe * stripe + dice.below(stripe);
            (first, (borders - 1) * stripe + stripe - first % stripe + dice.within(1, stripe))
        }
        RequestSpan::Long => (near, dice.within(1, 2 * case.pages + 1)),
        RequestSpan::Again if earlier.is_empty() => (near, 2),
        RequestSpan::Again => {
            let HostRequest { offset, len, .. } = earlier[dice.below(earlier.len() as u64) as usize];
            let (begin, end) = (offset / PAGE, (offset + len).div_ceil(PAGE));
            let first = dice.within(begin.saturating_sub(2), end - 1);
            (first, begin.saturating_sub(first) + dice.within(1, 4))
        }
    };
    let (mut offset, mut len) = (first * PAGE, pages.min(all - first) * PAGE);
    if dice.below(4) == 0 {
        let cut = dice.below(PAGE / SECTOR) * SECTOR;
        offset += cut;
        len -= cut;
        len -= dice.below((len.min(PAGE) - 1) / SECTOR + 1) * SECTOR;
    }
    HostRequest { tag, op, offset, len, fua: false }
}
