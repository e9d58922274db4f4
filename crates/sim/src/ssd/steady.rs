//! Until the write amplification stays what it is: an SSD that was just filled collects little, and what it is
//! like after years is not known from how often it was overwritten.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::{ElementCounters, Ssd};
use crate::experiment::{StopSignal, is_told};

/// Programs of a window at least, so that chance moves its write amplification by less than [`AGREES`].
const LEAST_WINDOW: u32 = 1 << 15;
/// Two windows agree if the latter's write amplification differs from the former's by so much of it at most, in
/// thousandths.
const AGREES: u64 = 10;
/// Windows after which it is given up.
const MOST_WINDOWS: u32 = 60;

/// Describes how an SSD became steady: random overwrites in windows of its exported size, or of more if that
/// is small. They end when collection has begun and the write amplification of two windows in a row agrees
/// within 1 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SteadyState {
    /// Counts how often the exported size was overwritten, in hundredths.
    pub overwrites_pct: u64,
    /// Write amplification of the last two windows, in thousandths: pages programmed for hosts and moved by
    /// collection, by those programmed for hosts.
    pub write_amplification_milli: [u64; 2],
    /// Is true if the write amplifications agree.
    pub reached: bool,
}

impl Ssd {
    /// Overwrites a full device at random until it is steady, or it is told to end.
    pub(super) fn become_steady(&mut self, seed: u64, stop: Option<&StopSignal>) -> SteadyState {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let pages = self.shape().host_pages;
        let window = pages.max(LEAST_WINDOW);
        let mut counted = self.total();
        let mut before = 0;
        let mut steadiness = SteadyState { overwrites_pct: 0, write_amplification_milli: [0; 2], reached: false };
        for number in 1..=MOST_WINDOWS {
            self.overwrite(&mut random, u64::from(window), stop);
            if is_told(stop) {
                break;
            }
            let total = self.total();
            let now = write_amplification_milli(&counted, &total);
            let collects = total.gc_invocations > counted.gc_invocations;
            counted = total;
            steadiness.overwrites_pct = u64::from(window) * u64::from(number) * 100 / u64::from(pages);
            steadiness.write_amplification_milli = [before, now];
            steadiness.reached = collects && before > 0 && now.abs_diff(before) * 1000 <= AGREES * before;
            if steadiness.reached {
                break;
            }
            // Until something is collected a device is as good as new.
            before = if collects { now } else { 0 };
        }
        steadiness
    }
}

/// Write amplification between two counts, in thousandths.
fn write_amplification_milli(before: &ElementCounters, now: &ElementCounters) -> u64 {
    let host = now.host_programs - before.host_programs;
    let moved = now.gc_pages_moved - before.gc_pages_moved;
    // Without any program of the host's nothing is amplified.
    ((host + moved) * 1000).checked_div(host).unwrap_or(1000)
}
