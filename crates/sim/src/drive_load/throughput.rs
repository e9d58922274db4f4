//! Writes as much as a drive takes, with skew.

use destage_plan::{Nanos, PageNo};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::{below, unit};
use crate::ssd::Ssd;

/// Counts the writes that are outstanding.
const OUTSTANDING: usize = 256;

/// Draws the pages of writes.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteDraw(DrawnPages);

/// Says which pages are drawn.
#[derive(Clone, Debug, PartialEq)]
enum DrawnPages {
    /// Draws all pages alike.
    Uniform,
    /// Holds the cumulated weights of ranks.
    Zipf(Vec<f64>),
    /// Holds the thousandths of the space that are written.
    Share(u32),
}

impl WriteDraw {
    /// Draws all pages alike.
    pub const UNIFORM: Self = Self(DrawnPages::Uniform);

    /// Draws by Zipf's law: the page of rank `r` in proportion to `r^-s`, of a drive of so many pages.
    pub fn zipf(s: f64, pages: u32) -> Self {
        let mut sum = 0.0;
        let weights = (1..=pages).map(|rank| {
            sum += f64::from(rank).powf(-s);
            sum
        });
        Self(DrawnPages::Zipf(weights.collect()))
    }

    /// Draws all pages alike of so many thousandths of the space; the rest is never written.
    pub const fn share(thousandths: u32) -> Self {
        Self(DrawnPages::Share(thousandths))
    }

    /// Draws a page; ranks and shares are scattered over the space.
    fn page(&self, random: &mut Xoshiro256PlusPlus, pages: u32) -> PageNo {
        let rank = match &self.0 {
            DrawnPages::Uniform => return PageNo(below(random, pages)),
            DrawnPages::Zipf(weights) => {
                let at = unit(random) * weights.last().copied().unwrap_or_default();
                weights.partition_point(|weight| *weight < at) as u32
            }
            DrawnPages::Share(share) => below(random, (u64::from(pages) * u64::from(*share) / 1000) as u32),
        };
        // A multiplier prime to the power of two that pages are.
        PageNo((u64::from(rank) * 2_654_435_761 % u64::from(pages)) as u32)
    }
}

/// Writes as much as the drive takes, with 256 pages outstanding that are answered in order, as many pages as it has
/// `overwrites` times; returns the writes a second of the second half, and its write amplification.
pub fn most_writes(ssd: &mut Ssd, draw: &WriteDraw, overwrites: u64) -> (f64, f64) {
    let pages = ssd.shape().host_pages;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut answered = [0_u64; OUTSTANDING];
    let (mut begin, mut before) = (0, ssd.total());
    let count = u64::from(pages) * overwrites;
    let mut last = 0;
    for number in 0..count {
        if number == count / 2 {
            (begin, before) = (last, ssd.total());
        }
        let slot = &mut answered[number as usize % OUTSTANDING];
        last = last.max(*slot);
        ssd.begin_command();
        *slot = ssd.program(Nanos(last), draw.page(&mut random, pages)).0;
    }
    let after = ssd.total();
    let programs = after.host_programs - before.host_programs;
    let moved = after.gc_pages_moved - before.gc_pages_moved;
    ((count - count / 2) as f64 * 1e9 / (last - begin) as f64, 1.0 + moved as f64 / programs as f64)
}
