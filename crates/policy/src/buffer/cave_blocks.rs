//! CAVE, channel-aware buffer management (Park et al., SAC 2011, as CAWR §III describes it; specs
//! §6.3), around block-level policies.
//!
//! Idea: the policy inside decides the order of eviction, CAVE the number: when the buffer is full,
//! as many victim blocks as there are channels leave at once. They are written in rounds of one
//! page from each of them, a round at the same time through different channels.
//!
//! Parameters: `cave_block_channel`: `per_page_rr`, channels go round from page to page, so that
//! the pages of a block stay on one channel only until another block of the round has run out of
//! pages, which is what CAWR criticises; `per_block`, each block has its channel from the
//! round-robin.
//!
//! Resolved: a clean first victim ends the replacement, since it leaves room at no cost; other
//! clean victims count as one of the C and take no channel. Clean pages of a block that is written
//! are dropped before. All blocks of a multi-eviction are complete with its last round. The victims
//! are chosen before the policy inside hears of the page that comes in, so that it has no block to
//! protect (`protect_current=false` is settled), and LB-CLOCK's hand stands where the victims left
//! it when a block enters (`insert_anchor=current_hand`). Pages that the policy inside pads take
//! part in the rounds and have channels, but a padded multi-eviction is one group, not a group for
//! each round: what is read for it has to be there before anything is written, and its frames are
//! free when all of it is. A flush is a sequence of multi-evictions. Channels that a veto avoids
//! are skipped, and so many fewer blocks leave.
//!
//! Memory accesses: those of the policy inside; CAVE only decides how many victims there are.

use destage_plan::{PageNo, ParamSpec, Params};

use super::layers::{LayerBase, LayerInfo};
use super::multi_eviction::{ChannelsAside, WriteChannels};
use super::{
    AccessOutcome, BufferConfig, BufferNotice, BufferPolicy, DeviceView, EvictionKind, EvictionVeto, Evictions,
    PageAccess, PolicyError,
};

const BLOCK_CHANNEL: ParamSpec = ParamSpec {
    name: "cave_block_channel",
    default: "per_page_rr",
    values: "per_page_rr, per_block",
    unit: "-",
    help: "whether channels go round from page to page or from block to block (specs D9)",
};

/// Describes the layer CAVE.
pub(super) const LAYER: LayerInfo = LayerInfo {
    name: "cave",
    title: "a victim block for each channel at once, written in rounds of a page from each",
    about: "The policy inside decides the order of eviction, this layer the number: when the buffer is full as many \
            blocks leave as there are channels. They are written in rounds of one page from each, the pages of a \
            round at the same time through different channels.",
    paper: "CAVE, SAC 2011, as described by CAWR §III",
    over: LayerBase::Blocks,
    unit: None,
    chooses_channels: true,
    avoids_collection: false,
    depth: 1,
    params: &[BLOCK_CHANNEL],
    settles: &[("insert_anchor", "current_hand"), ("protect_current", "false")],
};

/// A page of a victim block that has to be written.
#[derive(Clone, Copy)]
struct LeavingPage {
    page: PageNo,
    /// Is true if the page is not buffered and is read first.
    pad: bool,
}

/// A victim block: where its pages that are not yet in a round begin and end, and its channel where
/// it has one.
#[derive(Clone, Copy)]
struct VictimBlock {
    next: usize,
    end: usize,
    channel: u16,
}

/// A policy whose victims leave together.
pub(super) struct CaveBlocks<B> {
    inner: B,
    capacity: u32,
    channels: WriteChannels,
    per_block: bool,
    /// Holds the victims of the policy inside.
    given_up: Evictions,
    /// The victim blocks of the multi-eviction and their pages in ascending order.
    victims: Vec<VictimBlock>,
    pages: Vec<LeavingPage>,
    /// One round, or all of them where something is padded.
    round: Vec<(LeavingPage, u16)>,
}

impl<B: BufferPolicy> CaveBlocks<B> {
    pub(super) fn new(config: BufferConfig, params: &Params, inner: B) -> Result<Self, PolicyError> {
        Ok(Self {
            inner,
            capacity: config.capacity_pages,
            channels: WriteChannels::new(config)?,
            per_block: params.choice(BLOCK_CHANNEL.name, &[("per_page_rr", false), ("per_block", true)])?,
            given_up: Evictions::default(),
            victims: Vec::new(),
            pages: Vec::new(),
            round: Vec::new(),
        })
    }

    /// Collects the blocks that the policy inside gave up, drops their clean pages, and writes out
    /// whenever there is a block for each channel.
    fn collect(&mut self, out: &mut Evictions) {
        let given_up = std::mem::take(&mut self.given_up);
        let mut start = self.pages.len();
        let mut kind = EvictionKind::Flush;
        for (group, pages) in given_up.groups() {
            if group.kind == EvictionKind::Drop {
                out.group(EvictionKind::Drop, pages.iter().copied());
            } else {
                let pad = group.kind == EvictionKind::Pad;
                kind = if pad { kind } else { group.kind };
                self.pages.extend(pages.iter().map(|&page| LeavingPage { page, pad }));
            }
            // The block has further groups: only its last one ends the unit.
            if group.units == 0 {
                continue;
            }
            if self.pages.len() == start {
                out.end_unit();
                continue;
            }
            // Padding comes as a group of its own, and is written in its place within the block.
            self.pages[start..].sort_unstable_by_key(|leaving| leaving.page.0);
            self.victims.push(VictimBlock { next: start, end: self.pages.len(), channel: 0 });
            if self.victims.len() as u32 == self.channels.width() {
                self.write(kind, out);
            }
            start = self.pages.len();
        }
        self.given_up = given_up;
        self.given_up.clear();
        if kind == EvictionKind::Clean {
            self.write(kind, out);
        }
    }

    /// Writes the victims in rounds.
    fn write(&mut self, kind: EvictionKind, out: &mut Evictions) {
        let blocks = self.victims.len() as u32;
        if self.per_block {
            self.victims.iter_mut().for_each(|victim| victim.channel = self.channels.turn());
        }
        let padded = self.pages.iter().any(|leaving| leaving.pad);
        let mut unfinished = blocks > 0;
        while unfinished {
            unfinished = false;
            for victim in &mut self.victims {
                if victim.next < victim.end {
                    let channel = if self.per_block { victim.channel } else { self.channels.turn() };
                    self.round.push((self.pages[victim.next], channel));
                    victim.next += 1;
                    unfinished |= victim.next < victim.end;
                }
            }
            if !padded || !unfinished {
                let round = |pad| self.round.iter().filter(move |(leaving, _)| leaving.pad == pad);
                out.spread(EvictionKind::Pad, round(true).map(|(leaving, channel)| (leaving.page, *channel)), 0);
                // The blocks are counted once, with the last round.
                let units = if unfinished { 0 } else { blocks };
                out.spread(kind, round(false).map(|(leaving, channel)| (leaving.page, *channel)), units);
                self.round.clear();
            }
        }
        self.victims.clear();
        self.pages.clear();
    }
}

impl<B: BufferPolicy> BufferPolicy for CaveBlocks<B> {
    fn grow(&mut self, pages: u32) {
        self.inner.grow(pages);
    }

    #[inline]
    fn prefetch(&self, page: PageNo) -> u32 {
        self.inner.prefetch(page)
    }

    #[inline]
    fn access<D: DeviceView, V: EvictionVeto>(
        &mut self,
        access: PageAccess,
        device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome {
        if self.len() == self.capacity && self.inner.admits(access) && !self.evict(device, veto, out) {
            return AccessOutcome::Bypassed;
        }
        self.inner.access(access, device, &mut ChannelsAside(veto), out)
    }

    fn evict<D: DeviceView, V: EvictionVeto>(&mut self, device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        if self.inner.is_empty() {
            return false;
        }
        self.channels.look(veto);
        if !self.channels.permits(veto) {
            return false;
        }
        let before = out.len();
        for _ in 0..self.channels.width() {
            if self.inner.is_empty() || !self.inner.evict(device, &mut ChannelsAside(veto), &mut self.given_up) {
                break;
            }
            self.collect(out);
            // A block that was clean throughout is dropped, and has freed its frames already.
            if self.victims.is_empty() {
                break;
            }
        }
        self.write(EvictionKind::Flush, out);
        out.len() > before
    }

    fn notify<D: DeviceView, V: EvictionVeto>(
        &mut self,
        notice: BufferNotice,
        device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) {
        self.channels.open_all();
        if matches!(notice, BufferNotice::GcEnd { .. }) {
            return;
        }
        self.inner.notify(notice, device, &mut ChannelsAside(veto), &mut self.given_up);
        self.collect(out);
        self.write(EvictionKind::Flush, out);
    }

    fn admits(&self, access: PageAccess) -> bool {
        self.inner.admits(access)
    }

    fn len(&self) -> u32 {
        self.inner.len()
    }

    fn memory_accesses(&self) -> u64 {
        self.inner.memory_accesses()
    }
}
