//! CLC, cold and largest cluster (Kang et al., IEEE TC 58(6), 2009; specs §5.3).
//!
//! Idea: a write buffer of clusters, which are the logical blocks. The clusters written last stand
//! in one LRU list whatever their size (SI); those that fall off its end are cold and stand in an
//! LRU list per size. The victim is the least recently written of the largest cold clusters.
//!
//! Parameters: `si_max`, the most clusters in SI (10 %); `padding` (`never`; no source speaks of
//! any); `protect_current`.
//!
//! Resolved, with low confidence, since the paper's text was not at hand: 10 % is a share of the
//! clusters buffered when a write puts its cluster into SI, that cluster included, rounded up. The
//! share follows the clusters because a capacity says only how many pages there are; who means a
//! fixed number gives it (`si_max=2`). Where the number of clusters shrinks, SI keeps what it holds
//! until the next write. The new cluster enters SI after the eviction. With `si_max=0` a written
//! cluster passes through SI to the list of its size. If no cluster is cold the LRU end of SI
//! leaves. A read of a buffered page is served and moves nothing, other reads go to flash. A trim
//! leaves a cluster of SI in its place; a cold one enters the list of its new size at the MRU end,
//! as any cluster does: what is being deleted is best not written. A flush gives the clusters up in
//! the order of eviction.
//!
//! Under a veto the search goes through the lists anew each time.
//!
//! Memory accesses: the lookup, the cluster put into a list by a write, each cluster that falls off
//! SI, and the victim, which is at hand at the end of a list: one each.

use destage_plan::{ParamSpec, Params};

use crate::buffer::block_buffer::{BlockPolicy, HeldBlock, PolicyBlocks};
use crate::buffer::options::PROTECT_CURRENT;
use crate::buffer::padding::BlockPadding;
use crate::buffer::size_set::SizeSet;
use crate::buffer::{BufferConfig, EvictionUnit, EvictionVeto, PolicyError, PolicyInfo};
use crate::links::NodeLinks;

/// The sentinel of SI; nodes 1 to N are those of the lists per size, node `N + 1 + cluster` the
/// cluster.
const SI: u32 = 0;

/// Parts in a whole: a share is exact to the millionth of a percent.
const WHOLE: u64 = 100_000_000;

/// Limits the clusters in SI.
#[derive(Clone, Copy, Debug)]
enum SiMax {
    Clusters(u32),
    /// Of the clusters buffered, in [`WHOLE`]ths.
    Share(u64),
}

impl SiMax {
    /// `10%` or `2`.
    fn parse(text: &str) -> Option<Self> {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let Some(percent) = text.strip_suffix('%') else {
            return text.parse().ok().filter(|_| is_number(text)).map(Self::Clusters);
        };
        let (whole, decimals) = percent.split_once('.').unwrap_or((percent, "0"));
        if !is_number(whole) || !is_number(decimals) || decimals.len() > 6 {
            return None;
        }
        let share = format!("{whole}{decimals:0<6}").parse().ok()?;
        (share <= WHOLE).then_some(Self::Share(share))
    }

    #[inline]
    fn of(self, clusters: u32) -> u32 {
        match self {
            Self::Clusters(most) => most,
            Self::Share(share) => (u64::from(clusters) * share).div_ceil(WHOLE) as u32,
        }
    }
}

/// Cold and largest cluster.
#[derive(Clone, Debug)]
pub(super) struct Clc {
    pages_per_block: u32,
    si_max: SiMax,
    /// SI and the lists per size, most recently used first.
    lists: NodeLinks,
    si_len: u32,
    /// The sizes of which there are cold clusters.
    cold: SizeSet,
}

const SI_MAX: ParamSpec = ParamSpec {
    name: "si_max",
    default: "10%",
    values: "a share of the clusters buffered, from 0% to 100% with up to six decimals, or a number of clusters",
    unit: "clusters",
    help: "the most clusters in the size-independent list; a share is rounded up",
};

impl BlockPolicy for Clc {
    const INFO: PolicyInfo = PolicyInfo {
        name: "clc",
        title: "the largest of the blocks not recently written",
        about: "A write buffer of logical blocks. Those written last stand in one LRU list whatever their size; the \
                others are cold, and of these the one with the most pages leaves, of several the least recently \
                written. The paper's text was not at hand: docs/specs says how gaps are filled.",
        paper: "CLC, IEEE TC 2009",
        year: 2009,
        unit: EvictionUnit::Block,
        chooses_channels: false,
        params: &[SI_MAX, ParamSpec { default: "never", ..BlockPadding::PARAM }, PROTECT_CURRENT],
    };

    const PADS: bool = true;

    /// The cluster stands in SI.
    type History = bool;

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        let n = config.pages_per_block;
        Ok(Self {
            pages_per_block: n,
            si_max: SiMax::parse(params.text(SI_MAX.name)).ok_or_else(|| params.refuse(SI_MAX.name))?,
            lists: NodeLinks::new(n + 1),
            si_len: 0,
            cold: SizeSet::new(n),
        })
    }

    fn grow(&mut self, clusters: u32) {
        self.lists.grow(self.pages_per_block + 1 + clusters);
    }

    /// Puts the cluster at the MRU end of SI.
    #[inline]
    fn note_use<V: EvictionVeto>(
        &mut self,
        blocks: &mut PolicyBlocks<Self>,
        cluster: u32,
        _offset: u32,
        is_added: bool,
    ) {
        blocks.memory_accesses += 1;
        let node = self.node(cluster);
        let HeldBlock { pages, history: is_in_si } = &mut blocks.blocks[cluster as usize];
        if *is_in_si {
            self.lists.move_after(SI, node);
        } else {
            *is_in_si = true;
            // The cluster stands in the list of the size that it had before.
            let pages_before = *pages - u32::from(is_added);
            if pages_before > 0 {
                self.leave_cold(cluster, pages_before);
            }
            self.lists.insert_after(SI, node);
            self.si_len += 1;
        }
        // The cluster just written is the last that would fall off, which it does where SI may hold
        // none.
        let most = self.si_max.of(blocks.held);
        while self.si_len > most {
            self.leave_si(blocks);
        }
    }

    #[inline]
    fn note_departure(&mut self, blocks: &mut PolicyBlocks<Self>, cluster: u32) {
        let HeldBlock { pages, history: is_in_si } = blocks.blocks[cluster as usize];
        if is_in_si {
            self.lists.unlink(self.node(cluster));
            self.si_len -= 1;
        } else {
            self.leave_cold(cluster, pages);
        }
    }

    fn note_trim(&mut self, blocks: &mut PolicyBlocks<Self>, cluster: u32, pages_before: u32) {
        let HeldBlock { pages, history: is_in_si } = blocks.blocks[cluster as usize];
        if !is_in_si {
            self.leave_cold(cluster, pages_before);
            self.enter_cold(cluster, pages);
        }
    }

    #[inline]
    fn first(&mut self, _blocks: &mut PolicyBlocks<Self>) -> Option<u32> {
        // SI may be empty.
        self.lists.prev(self.cold.largest().unwrap_or(SI)).checked_sub(self.node(0))
    }

    fn after(&mut self, _blocks: &mut PolicyBlocks<Self>, cluster: u32) -> Option<u32> {
        let node = self.lists.prev(self.node(cluster));
        let next = node.checked_sub(self.node(0));
        // What stands at the end of its list is followed by the next list; after SI there is none.
        if next.is_some() || node == SI {
            return next;
        }
        self.lists.prev(self.cold.largest_below(node).unwrap_or(SI)).checked_sub(self.node(0))
    }
}

impl Clc {
    #[inline]
    fn node(&self, cluster: u32) -> u32 {
        self.pages_per_block + 1 + cluster
    }

    /// Puts a cluster that is in no list at the MRU end of the list of its size.
    #[inline]
    fn enter_cold(&mut self, cluster: u32, pages: u32) {
        self.lists.insert_after(pages, self.node(cluster));
        self.cold.insert(pages);
    }

    /// Takes a cluster out of the list of its size.
    #[inline]
    fn leave_cold(&mut self, cluster: u32, pages: u32) {
        self.lists.unlink(self.node(cluster));
        // A list that has only its sentinel is empty.
        if self.lists.next(pages) == pages {
            self.cold.remove(pages);
        }
    }

    /// Moves the LRU cluster of SI to the list of its size.
    #[inline]
    fn leave_si(&mut self, blocks: &mut PolicyBlocks<Self>) {
        blocks.memory_accesses += 1;
        let node = self.lists.prev(SI);
        let cluster = node - self.node(0);
        self.lists.unlink(node);
        self.si_len -= 1;
        let own = &mut blocks.blocks[cluster as usize];
        own.history = false;
        self.enter_cold(cluster, own.pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact_and_rounded_up() {
        let most = |text: &str, clusters| SiMax::parse(text).expect(text).of(clusters);
        assert_eq!([most("10%", 0), most("10%", 1), most("10%", 10), most("10%", 11)], [0, 1, 1, 2]);
        // In binary 7 % of 100 is above 7.
        assert_eq!([most("7%", 100), most("7.0%", 101), most("0.07%", 10_000)], [7, 8, 7]);
        assert_eq!([most("0%", 1000), most("0.000001%", 1000), most("100%", u32::MAX)], [0, 1, u32::MAX]);
        assert_eq!([most("0", 1000), most("2", 1), most("4294967295", 7)], [0, 2, u32::MAX]);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "%",
            "-1",
            "+1",
            "1.5",
            "4294967296",
            "101%",
            "100.000001%",
            "-1%",
            "+1%",
            "1e1%",
            ".5%",
            "5.%",
            "0.0000001%",
            "10 %",
            "ten",
            "99999999999999999999%",
        ] {
            assert!(SiMax::parse(text).is_none(), "{text}");
        }
    }
}
