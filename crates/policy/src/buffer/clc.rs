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

mod vetoes;

use destage_plan::{ParamSpec, Params};

use super::options::PROTECT_CURRENT;
use super::padding::Padding;
use super::page_bits::PageBits;
use super::size_set::SizeSet;
use super::{
    Access, AccessOutcome, Buffer, BufferConfig, BufferNotice, DeviceView, EvictionKind, EvictionUnit, Evictions,
    NO_BLOCK, PolicyError, PolicyInfo, Registered, Veto,
};
use crate::links::Links;

/// The sentinel of SI; nodes 1 to N are those of the lists per size, node `N + 1 + cluster` the
/// cluster.
const SI: u32 = 0;

/// Parts in a whole: a share is exact to the millionth of a percent.
const WHOLE: u64 = 100_000_000;

/// How many clusters SI may hold.
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

#[derive(Clone, Copy, Debug, Default)]
struct Cluster {
    /// Pages buffered.
    count: u32,
    in_si: bool,
}

/// Cold and largest cluster.
#[derive(Clone, Debug)]
pub struct Clc {
    pages_per_block: u32,
    capacity: u32,
    len: u32,
    si_max: SiMax,
    /// Clusters with at least this many pages are padded.
    padding: Padding,
    protect_current: bool,
    cached: PageBits,
    clusters: Vec<Cluster>,
    /// Clusters buffered.
    buffered: u32,
    /// SI and the lists per size, most recently used first.
    lists: Links,
    si_len: u32,
    /// The sizes of which there are cold clusters.
    cold: SizeSet,
    memory_accesses: u64,
}

const SI_MAX: ParamSpec = ParamSpec {
    name: "si_max",
    default: "10%",
    values: "a share of the clusters buffered, from 0% to 100% with up to six decimals, or a number of clusters",
    unit: "clusters",
    help: "the most clusters in the size-independent list; a share is rounded up",
};

impl Registered for Clc {
    const INFO: PolicyInfo = PolicyInfo {
        name: "clc",
        title: "the largest of the blocks not recently written",
        about: "A write buffer of logical blocks. Those written last stand in one LRU list whatever their size; the \
                others are cold, and of these the one with the most pages leaves, of several the least recently \
                written. The paper's text was not at hand: docs/specs says how gaps are filled.",
        paper: "CLC, IEEE TC 2009",
        unit: EvictionUnit::Block,
        chooses_channels: false,
        params: &[SI_MAX, ParamSpec { default: "never", ..Padding::PARAM }, PROTECT_CURRENT],
    };

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        let n = config.pages_per_block;
        Ok(Self {
            pages_per_block: n,
            capacity: config.capacity_pages,
            len: 0,
            si_max: SiMax::parse(params.text(SI_MAX.name)).ok_or_else(|| params.refuse(SI_MAX.name))?,
            padding: Padding::of(n, params)?,
            protect_current: params.switch(PROTECT_CURRENT.name)?,
            cached: PageBits::new(n),
            clusters: Vec::new(),
            buffered: 0,
            lists: Links::new(n + 1),
            si_len: 0,
            cold: SizeSet::new(n),
            memory_accesses: 0,
        })
    }
}

impl Clc {
    #[inline]
    fn node(&self, cluster: u32) -> u32 {
        self.pages_per_block + 1 + cluster
    }

    #[inline]
    fn cluster_of(&self, node: u32) -> u32 {
        node - self.pages_per_block - 1
    }

    /// Puts a cluster that is in no list at the MRU end of the list of its size.
    #[inline]
    fn enter_cold(&mut self, cluster: u32) {
        let size = self.clusters[cluster as usize].count;
        self.lists.insert_after(size, self.node(cluster));
        self.cold.insert(size);
    }

    /// Takes a cluster that holds `size` pages out of the list of that size.
    #[inline]
    fn leave_cold(&mut self, cluster: u32, size: u32) {
        self.lists.unlink(self.node(cluster));
        if self.lists.next(size) == size {
            self.cold.remove(size);
        }
    }

    /// Puts a cluster just written at the MRU end of SI; before the write it held `before` pages.
    #[inline]
    fn enter_si(&mut self, cluster: u32, before: u32) {
        self.memory_accesses += 1;
        let node = self.node(cluster);
        if self.clusters[cluster as usize].in_si {
            self.lists.move_after(SI, node);
        } else {
            if before > 0 {
                self.leave_cold(cluster, before);
            }
            self.clusters[cluster as usize].in_si = true;
            self.lists.insert_after(SI, node);
            self.si_len += 1;
        }
        // The cluster just written is the last that would fall off, which it does where SI may hold
        // none.
        let most = self.si_max.of(self.buffered);
        while self.si_len > most {
            self.leave_si();
        }
    }

    /// Moves the LRU cluster of SI to the list of its size.
    #[inline]
    fn leave_si(&mut self) {
        self.memory_accesses += 1;
        let node = self.lists.prev(SI);
        let cluster = self.cluster_of(node);
        self.lists.unlink(node);
        self.si_len -= 1;
        self.clusters[cluster as usize].in_si = false;
        self.enter_cold(cluster);
    }

    /// The sentinel of the list whose victims come after those of the list `sentinel`; after SI
    /// there is none.
    #[inline]
    fn list_after(&self, sentinel: u32) -> Option<u32> {
        if sentinel == SI { None } else { Some(self.cold.largest_below(sentinel).unwrap_or(SI)) }
    }

    /// The sentinel of the list from which the next victim comes.
    #[inline]
    fn first_list(&self) -> u32 {
        self.cold.largest().unwrap_or(SI)
    }

    /// The cluster that would leave first.
    #[inline]
    fn first(&self) -> u32 {
        self.cluster_of(self.lists.prev(self.first_list()))
    }

    /// The cluster that would leave after another one.
    fn after(&self, cluster: u32) -> Option<u32> {
        let first_cluster = self.node(0);
        let node = self.lists.prev(self.node(cluster));
        if node >= first_cluster {
            return Some(self.cluster_of(node));
        }
        // SI may be empty.
        let last = self.lists.prev(self.list_after(node)?);
        (last >= first_cluster).then(|| self.cluster_of(last))
    }

    /// The cluster to give up, or `None` if every cluster is vetoed and the access shall bypass.
    #[inline]
    fn victim<V: Veto>(&mut self, current: u32, veto: &mut V) -> Option<u32> {
        self.memory_accesses += 1;
        // A cluster that is alone has no other to be spared for.
        let spared = if self.protect_current && self.buffered > 1 { current } else { NO_BLOCK };
        if V::ACTIVE {
            return self.victim_under(spared, veto);
        }
        let first = self.first();
        if first == spared { self.after(first) } else { Some(first) }
    }

    fn give_up(&mut self, cluster: u32, out: &mut Evictions) {
        self.padding.write_out(self.clusters[cluster as usize].count, &self.cached, cluster, out);
        self.forget(cluster);
    }

    fn forget(&mut self, cluster: u32) {
        let Cluster { count, in_si } = std::mem::take(&mut self.clusters[cluster as usize]);
        self.len -= count;
        self.buffered -= 1;
        self.cached.clear_block(cluster);
        if in_si {
            self.lists.unlink(self.node(cluster));
            self.si_len -= 1;
        } else {
            self.leave_cold(cluster, count);
        }
    }
}

impl Buffer for Clc {
    fn grow(&mut self, pages: u32) {
        let clusters = pages.div_ceil(self.pages_per_block).max(self.clusters.len() as u32);
        self.cached.grow(clusters);
        self.clusters.resize(clusters as usize, Cluster::default());
        self.lists.grow(self.pages_per_block + 1 + clusters);
    }

    #[inline]
    fn access<D: DeviceView, V: Veto>(
        &mut self,
        access: Access,
        _device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome {
        self.memory_accesses += 1;
        let (cluster, offset) = (access.page.0 / self.pages_per_block, access.page.0 % self.pages_per_block);
        let held = self.cached.get(cluster, offset);
        if !access.write {
            return if held { AccessOutcome::Hit } else { AccessOutcome::Bypassed };
        }
        if held {
            self.enter_si(cluster, self.clusters[cluster as usize].count);
            return AccessOutcome::Hit;
        }
        if self.len == self.capacity {
            match self.victim(cluster, veto) {
                Some(victim) => self.give_up(victim, out),
                None => return AccessOutcome::Bypassed,
            }
        }
        self.cached.set(cluster, offset);
        let before = self.clusters[cluster as usize].count;
        self.clusters[cluster as usize].count = before + 1;
        self.buffered += u32::from(before == 0);
        self.len += 1;
        self.enter_si(cluster, before);
        AccessOutcome::Inserted
    }

    fn evict<D: DeviceView, V: Veto>(&mut self, _device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        if self.len == 0 {
            return false;
        }
        let Some(victim) = self.victim(NO_BLOCK, veto) else { return false };
        self.give_up(victim, out);
        true
    }

    fn notify<D: DeviceView, V: Veto>(
        &mut self,
        notice: BufferNotice,
        _device: &D,
        _veto: &mut V,
        out: &mut Evictions,
    ) {
        match notice {
            BufferNotice::GcEnd { .. } | BufferNotice::Resume { .. } | BufferNotice::Idle => {}
            BufferNotice::Destage { page, .. } => {
                let (block, offset) = (page.0 / self.pages_per_block, page.0 % self.pages_per_block);
                if self.cached.get(block, offset) {
                    self.give_up(block, out);
                }
            }
            BufferNotice::Flush => {
                while self.len > 0 {
                    self.give_up(self.first(), out);
                }
            }
            BufferNotice::Trim { page } => {
                let (cluster, offset) = (page.0 / self.pages_per_block, page.0 % self.pages_per_block);
                if !self.cached.get(cluster, offset) {
                    return;
                }
                out.page(EvictionKind::Drop, page);
                let Cluster { count, in_si } = self.clusters[cluster as usize];
                if count == 1 {
                    self.forget(cluster);
                    return;
                }
                self.cached.clear(cluster, offset);
                self.len -= 1;
                self.clusters[cluster as usize].count = count - 1;
                if !in_si {
                    self.leave_cold(cluster, count);
                    self.enter_cold(cluster);
                }
            }
        }
    }

    fn admits(&self, access: Access) -> bool {
        access.write && !self.cached.get(access.page.0 / self.pages_per_block, access.page.0 % self.pages_per_block)
    }

    fn len(&self) -> u32 {
        self.len
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
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
