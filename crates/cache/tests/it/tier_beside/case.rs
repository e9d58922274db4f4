//! Arrays and caches at random.

use std::fmt::Write as _;

use destage_raid::array::{ArrayConfig, ParityMethod};
use destage_raid::{Geometry, RaidLevel};
use destage_testkit::TestRng;

use super::{LONG, PAGE};
use crate::spec_reading::SpecReading;
use crate::tier_model::params::{Method, Params, RcwFromCache, Shape};

/// A case: an array, a cache, and what is asked of them.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: &'static str,
    /// The cache as a user writes it.
    pub cache: String,
    pub params: Params,
    pub stripes: u64,
    /// Percent of the accesses that are reads.
    pub reads: u64,
}

impl Case {
    pub fn config(&self) -> ArrayConfig {
        let Shape { k, m, chunk } = self.params.shape;
        let level = if m == 1 { RaidLevel::Raid5 } else { RaidLevel::Raid6 };
        let geometry = Geometry::new(level, level.default_layout(), (k + m) as u32, chunk as u32, self.stripes * chunk);
        let mut config = ArrayConfig::new(geometry.expect("a shape that can be"));
        (config.idle_flush, config.page_bytes) = (LONG, PAGE as u32);
        config.parity = match self.params.method {
            Method::Min => ParityMethod::Min,
            Method::Rmw => ParityMethod::Rmw,
            Method::Rcw => ParityMethod::Rcw,
        };
        config
    }

    /// Pages of the cache's device that are before its frames: of its log, which write-back cannot do without.
    pub fn log_pages(&self) -> u64 {
        // So small a page has two entries, so that this is more than the usual share of the device.
        if self.name == "write-back" { self.params.pages.div_ceil(2) + 3 } else { 0 }
    }

    /// The model's name of the cache.
    pub fn model(&self) -> &'static str {
        match self.name {
            "write-around" => "wa",
            "write-through" => "wt",
            "write-back" => "wb",
            other => other,
        }
    }

    /// A case of a cache over an array with so many parities.
    pub fn draw(name: &'static str, m: u64, dice: &mut TestRng) -> Self {
        let shape = Shape { k: dice.within(2, 5), m, chunk: dice.within(1, 4) };
        // Requests of several pages need room, if there is something to be cleaned.
        let owes = matches!(name, "leavo" | "kdd" | "write-back");
        let is_roomy = owes && dice.below(2) == 0;
        let ways = if is_roomy { dice.within(12, 48) } else { dice.within(2, 16) };
        let reclaim = if name == "kdd" { ["free", "rewrite", "keep"][dice.below(3) as usize] } else { "free" };
        // KDD delays parity only while there is room for all deltas that are under way, beside those that stay with what
        // is clean.
        let (least, most): (u64, u64) = match (name, reclaim) {
            ("kdd", "keep") => (24, 45),
            ("kdd", _) => (12, 75),
            _ => (2, 100),
        };
        let pages = ways * dice.within(1, 5).max(least.div_ceil(ways));
        let high = if owes { dice.within(if is_roomy { most / 2 } else { 10 }, most) } else { 0 };
        let low = dice.below(high + 1);
        let set_low = [0, 30, 60, 100][dice.below(4) as usize];
        let staging = [1, 1, 2, 5][dice.below(4) as usize];
        let mut cache = format!("{name}:ways={ways}");
        if matches!(name, "leavo" | "kdd") {
            write!(cache, ":dirty-high={high}:dirty-low={low}:set-low={set_low}:clean-after=1h:log=0")
                .expect("a string");
        }
        if name == "write-back" {
            write!(cache, ":dirty-high={high}:dirty-low={low}:clean-after=1h:at-once=1").expect("a string");
        }
        if name == "kdd" {
            write!(cache, ":staging={staging}").expect("a string");
        }
        let stripes = matches!(name, "leavo" | "kdd") && dice.below(3) == 0;
        if stripes {
            cache.push_str(":clean=stripes");
        }
        let (delays, admit) = (name == "kdd" && dice.below(2) == 0, [1, 1, 2, 3, u64::MAX][dice.below(5) as usize]);
        if delays {
            let admit = if admit == u64::MAX { "never".to_owned() } else { admit.to_string() };
            write!(cache, ":misses=delay:admit={admit}").expect("a string");
        } else if name == "kdd" && admit != u64::MAX {
            write!(cache, ":admit={admit}").expect("a string");
        }
        let admit = if name == "kdd" && (delays || admit != u64::MAX) { admit } else { 1 };
        if name == "kdd" {
            write!(cache, ":reclaim={reclaim}").expect("a string");
        }
        let params = Params {
            method: [Method::Min, Method::Min, Method::Rmw, Method::Rcw][dice.below(4) as usize],
            reading: SpecReading::AsBuilt,
            stale_visible: true,
            pages,
            associativity: ways,
            page_bytes: PAGE as u32,
            // The caches have no log so far: the model's is never full.
            log_pages: 1 << 12,
            dirty_high: high,
            dirty_low: low,
            set_low,
            staging_pages: staging,
            delta_max: PAGE as u32,
            rcw_from_cache: RcwFromCache::Fewer,
            delay_misses: delays,
            admit,
            reclaim: if reclaim == "rewrite" { 1 } else { 2 },
            keep_clean: reclaim == "keep",
            admit_forgets: true,
            few_bare: true,
            clean_stripes: stripes,
            bypass_full: true,
            ..Params::new(shape, pages)
        };
        let share = if is_roomy { 2 } else { 4 };
        let stripes = (pages * dice.within(1, share)).div_ceil(shape.k * shape.chunk).max(2);
        Self { name, cache, params, stripes, reads: [10, 30, 70][dice.below(3) as usize] }
    }
}
