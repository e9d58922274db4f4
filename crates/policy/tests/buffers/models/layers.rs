//! The layers that write through several channels at once (specs §6.2, §6.3, §6.5), naively, each
//! around the real policy, which has a model of its own.

use std::collections::{BTreeMap, BTreeSet};

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, EvictionKind, PageAccess, WhenExhausted};

use super::cave::{RoundRobin, all_avoided, words};
use super::{Left, Model, Objections, param};
use crate::driven::{Driven, Objector, driven};

/// Pages beyond which no test goes.
const ROOM: u32 = 20_000;

/// The layers.
enum Layer {
    /// The pages in the gate, the oldest first.
    Gate(Vec<u32>),
    Cave {
        per_block: bool,
    },
    /// The lists, the page to be written next first.
    Cawr(Vec<Vec<u32>>),
}

struct Layered {
    layer: Layer,
    inner: Box<dyn Driven>,
    /// Holds the pages of the policy inside: page → dirty.
    held: BTreeMap<u32, bool>,
    caches_reads: bool,
    /// Is true if the policy pads every block.
    pads: bool,
    config: BufferConfig,
    channels: RoundRobin,
    memory_accesses: u64,
}

pub(super) fn model(spec: &str, config: BufferConfig) -> Box<dyn Model> {
    let (layer, policy) = spec.split_once('+').expect("a layer");
    let mut parts = policy.split(':');
    let name = parts.next().expect("a name");
    let mut inner = name.to_owned();
    for part in parts.filter(|part| !part.starts_with("cave_block_channel=")) {
        inner = format!("{inner}:{part}");
    }
    if layer == "cawr" && name == "bplru" && !inner.contains("padding") {
        inner.push_str(":padding=never");
    }
    let layer = match layer {
        "gate" => Layer::Gate(Vec::new()),
        "cave" => Layer::Cave { per_block: param(spec, "cave_block_channel", "per_page_rr") == "per_block" },
        "cawr" => Layer::Cawr(vec![Vec::new(); config.elements as usize]),
        other => panic!("there is no model of the layer {other}"),
    };
    Box::new(Layered {
        layer,
        caches_reads: ["lru", "clock", "fifo", "2q", "arc", "s3-fifo", "fab"].contains(&name)
            && param(spec, "reads", "cache") == "cache",
        pads: param(&inner, "padding", if name == "bplru" { "always" } else { "never" }) == "always",
        inner: driven(&inner, config, ROOM),
        held: BTreeMap::new(),
        config,
        channels: RoundRobin::new(config.elements),
        memory_accesses: 0,
    })
}

impl Layered {
    /// The pages that the layer holds.
    fn own(&self) -> BTreeSet<u32> {
        match &self.layer {
            Layer::Gate(gate) => gate.iter().copied().collect(),
            Layer::Cave { .. } => BTreeSet::new(),
            Layer::Cawr(lists) => lists.iter().flatten().copied().collect(),
        }
    }

    /// Objections to what is clean or padded are the policy's business, those to what is only
    /// written are not.
    fn objector(&self, objections: &Objections) -> Objector {
        let n = self.config.pages_per_block;
        let stands = |first: &u32| {
            let pages = if matches!(self.layer, Layer::Gate(_)) { *first..first + 1 } else { *first..first + n };
            self.pads || self.held.range(pages).all(|(_, dirty)| !dirty)
        };
        let units = objections.units.iter().copied().filter(stands).collect();
        Objector::new(Objections { units, ..objections.clone() }, n)
    }

    /// Has the policy inside give up a victim; returns what left, or nothing.
    fn victim(&mut self, objections: &Objections) -> Vec<Left> {
        let mut objector = self.objector(objections);
        let mut left = Vec::new();
        self.inner.evict_with(&mut objector, &mut left);
        self.forget(&left);
        left
    }

    fn forget(&mut self, left: &[Left]) {
        for group in left {
            for page in &group.pages {
                match group.kind {
                    EvictionKind::Clean => drop(self.held.insert(*page, false)),
                    _ => drop(self.held.remove(page)),
                }
            }
        }
    }

    /// Drops the clean pages of a victim, each a unit; returns whether there were any.
    fn drop_clean(left: &[Left], out: &mut Vec<Left>) -> bool {
        let clean: Vec<u32> =
            left.iter().filter(|g| g.kind == EvictionKind::Drop).flat_map(|g| g.pages.clone()).collect();
        out.extend(clean.iter().map(|page| Left::unit(EvictionKind::Drop, &[*page])));
        !clean.is_empty()
    }

    fn pages(left: &[Left], kind: EvictionKind) -> Vec<u32> {
        left.iter().filter(|g| g.kind == kind).flat_map(|g| g.pages.clone()).collect()
    }

    fn replace(&mut self, objections: &Objections, out: &mut Vec<Left>) -> bool {
        let open = self.channels.open(&objections.channels);
        let refuses = all_avoided(self.config.elements, objections) && objections.exhausted == WhenExhausted::Bypass;
        if let Layer::Cave { .. } = self.layer {
            return !refuses && self.replace_blocks(objections, &open, out);
        }
        while !self.is_complete(&open) {
            let left = self.victim(objections);
            if left.is_empty() {
                break;
            }
            let dropped = Self::drop_clean(&left, out);
            let dirty = Self::pages(&left, EvictionKind::Flush);
            self.memory_accesses += dirty.len() as u64;
            self.enter(&dirty, &open);
            if dropped {
                return true;
            }
        }
        if refuses {
            return false;
        }
        let all: Vec<u32> = (0..self.config.elements).collect();
        self.write(&open, out) || objections.exhausted == WhenExhausted::TakeBase && self.write(&all, out)
    }

    /// Is true if a multi-eviction has a page for each of the channels.
    fn is_complete(&self, open: &[u32]) -> bool {
        match &self.layer {
            Layer::Gate(gate) => gate.len() >= open.len(),
            Layer::Cawr(lists) => open.iter().all(|i| !lists[*i as usize].is_empty()),
            Layer::Cave { .. } => unreachable!("it collects nothing"),
        }
    }

    /// Lets dirty pages into the layer; returns whether they have a place.
    fn enter(&mut self, dirty: &[u32], open: &[u32]) -> bool {
        let n = self.config.pages_per_block;
        match &mut self.layer {
            Layer::Gate(gate) => gate.extend(dirty),
            Layer::Cawr(lists) => {
                let Some(first) = dirty.first() else { return true };
                let same = lists.iter().position(|list| list.first().is_some_and(|page| page / n == first / n));
                let empty = || open.iter().map(|i| *i as usize).find(|i| lists[*i].is_empty());
                let Some(at) = same.or_else(empty) else { return false };
                lists[at].extend(dirty);
            }
            Layer::Cave { .. } => unreachable!("it collects nothing"),
        }
        true
    }

    /// One multi-eviction.
    fn write(&mut self, open: &[u32], out: &mut Vec<Left>) -> bool {
        let written: Vec<(u32, u16)> = match &mut self.layer {
            Layer::Gate(gate) => {
                let leaving = gate.len().min(open.len());
                gate.drain(..leaving).map(|page| (page, self.channels.turn(open))).collect()
            }
            Layer::Cawr(lists) => {
                let filled: Vec<u32> = open.iter().copied().filter(|i| !lists[*i as usize].is_empty()).collect();
                filled.iter().map(|i| (lists[*i as usize].remove(0), *i as u16)).collect()
            }
            Layer::Cave { .. } => unreachable!("it collects nothing"),
        };
        self.memory_accesses += written.len() as u64;
        if !written.is_empty() {
            out.push(Left::spread(EvictionKind::Flush, &written));
        }
        !written.is_empty()
    }

    /// Victims of CAVE: as many blocks as there are channels, unless the first is clean.
    fn replace_blocks(&mut self, objections: &Objections, open: &[u32], out: &mut Vec<Left>) -> bool {
        let mut blocks = Vec::new();
        for _ in 0..open.len() {
            let left = self.victim(objections);
            if left.is_empty() {
                break;
            }
            Self::drop_clean_of_block(&left, out);
            if let Some(block) = Self::to_write(&left) {
                blocks.push(block);
            }
            if blocks.is_empty() {
                return true;
            }
        }
        self.write_blocks(&blocks, open, out);
        !blocks.is_empty()
    }

    fn drop_clean_of_block(left: &[Left], out: &mut Vec<Left>) {
        let clean = Self::pages(left, EvictionKind::Drop);
        if clean.len() == left.iter().map(|group| group.pages.len()).sum::<usize>() {
            out.push(Left::unit(EvictionKind::Drop, &clean));
        } else if !clean.is_empty() {
            out.push(Left::part(EvictionKind::Drop, &clean));
        }
    }

    /// The pages of a block that are written in ascending order, and whether each is read first.
    fn to_write(left: &[Left]) -> Option<Vec<(u32, bool)>> {
        let mut pages: Vec<(u32, bool)> =
            Self::pages(left, EvictionKind::Pad).into_iter().map(|page| (page, true)).collect();
        pages.extend(Self::pages(left, EvictionKind::Flush).into_iter().map(|page| (page, false)));
        pages.extend(Self::pages(left, EvictionKind::Clean).into_iter().map(|page| (page, false)));
        pages.sort_unstable();
        Some(pages).filter(|pages| !pages.is_empty())
    }

    /// Rounds of one page from each block.
    fn write_blocks(&mut self, blocks: &[Vec<(u32, bool)>], open: &[u32], out: &mut Vec<Left>) {
        if blocks.is_empty() {
            return;
        }
        let Layer::Cave { per_block } = self.layer else { unreachable!("only CAVE writes blocks") };
        let of_block: Vec<u16> =
            if per_block { blocks.iter().map(|_| self.channels.turn(open)).collect() } else { vec![] };
        let mut rounds: Vec<Vec<(u32, bool, u16)>> = Vec::new();
        for round in 0..blocks.iter().map(Vec::len).max().expect("there are blocks") {
            let mut pages = Vec::new();
            for (i, block) in blocks.iter().enumerate() {
                if let Some((page, pad)) = block.get(round) {
                    let channel = if per_block { of_block[i] } else { self.channels.turn(open) };
                    pages.push((*page, *pad, channel));
                }
            }
            rounds.push(pages);
        }
        let padding: Vec<(u32, u16)> = rounds.iter().flatten().filter(|p| p.1).map(|p| (p.0, p.2)).collect();
        if !padding.is_empty() {
            out.push(Left { units: 0, ..Left::spread(EvictionKind::Pad, &padding) });
            rounds = vec![rounds.concat()];
        }
        let last = rounds.len() - 1;
        for (i, round) in rounds.iter().enumerate() {
            let pages: Vec<(u32, u16)> = round.iter().filter(|p| !p.1).map(|p| (p.0, p.2)).collect();
            let units = if i == last { blocks.len() as u32 } else { 0 };
            out.push(Left { units, ..Left::spread(EvictionKind::Flush, &pages) });
        }
    }
}

impl Model for Layered {
    fn access(&mut self, access: PageAccess, objections: &Objections, out: &mut Vec<Left>) -> AccessOutcome {
        let page = access.page.0;
        if !matches!(self.layer, Layer::Cave { .. }) {
            self.memory_accesses += 1;
        }
        if self.own().contains(&page) {
            return AccessOutcome::Hit;
        }
        let admitted = !self.held.contains_key(&page) && (access.write || self.caches_reads);
        if admitted && self.len() == self.config.capacity_pages && !self.replace(objections, out) {
            return AccessOutcome::Bypassed;
        }
        let mut left = Vec::new();
        let mut objector = self.objector(objections);
        let outcome = self.inner.access_with(access, &mut objector, &mut left);
        assert_eq!(left, [], "there is room");
        if outcome != AccessOutcome::Bypassed {
            *self.held.entry(page).or_default() |= access.write;
        }
        outcome
    }

    fn notify(&mut self, notice: BufferNotice, out: &mut Vec<Left>) {
        let open: Vec<u32> = (0..self.config.elements).collect();
        if let BufferNotice::Trim { page } | BufferNotice::Destage { page, .. } = notice {
            let page = page.0;
            let channel = match &mut self.layer {
                Layer::Gate(gate) => gate.iter().position(|p| *p == page).map(|at| {
                    gate.remove(at);
                    None
                }),
                Layer::Cave { .. } => None,
                Layer::Cawr(lists) => lists.iter().position(|list| list.contains(&page)).map(|at| {
                    lists[at].retain(|p| *p != page);
                    Some(at as u16)
                }),
            };
            if let Some(channel) = channel {
                self.memory_accesses += 1;
                out.push(if matches!(notice, BufferNotice::Trim { .. }) {
                    Left::unit(EvictionKind::Drop, &[page])
                } else {
                    let channel = channel.unwrap_or_else(|| self.channels.turn(&open));
                    Left::spread(EvictionKind::Flush, &[(page, channel)])
                });
                return;
            }
        }
        if matches!(notice, BufferNotice::GcEnd { .. }) {
            return;
        }
        if notice == BufferNotice::Flush && matches!(self.layer, Layer::Gate(_)) {
            while self.write(&open, out) {}
        }
        let mut left = Vec::new();
        self.inner.notify(notice, &mut left);
        self.forget(&left);
        match self.layer {
            Layer::Gate(_) => {
                Self::drop_clean(&left, out);
                for kind in [EvictionKind::Flush, EvictionKind::Clean] {
                    self.channels.write(kind, &Self::pages(&left, kind), &open, out);
                }
            }
            Layer::Cave { .. } => {
                let mut blocks = Vec::new();
                for unit in left.split_inclusive(|group| group.units > 0) {
                    Self::drop_clean_of_block(unit, out);
                    blocks.extend(Self::to_write(unit));
                    if blocks.len() == open.len() {
                        self.write_blocks(&blocks, &open, out);
                        blocks.clear();
                    }
                }
                self.write_blocks(&blocks, &open, out);
                if left.iter().any(|group| group.kind == EvictionKind::Clean) {
                    for group in out {
                        group.kind = EvictionKind::Clean;
                    }
                }
            }
            Layer::Cawr(_) => {
                for group in &left {
                    if group.kind == EvictionKind::Drop {
                        Self::drop_clean(std::slice::from_ref(group), out);
                    } else if notice == BufferNotice::Flush {
                        while !self.enter(&group.pages, &open) {
                            self.write(&open, out);
                        }
                        self.memory_accesses += group.pages.len() as u64;
                    } else {
                        let n = self.config.pages_per_block;
                        let Layer::Cawr(lists) = &self.layer else { unreachable!("as matched") };
                        let of = |list: &Vec<u32>| list.first().is_some_and(|page| page / n == group.pages[0] / n);
                        let list = lists.iter().position(of);
                        let channel = list.map_or_else(|| self.channels.turn(&open), |at| at as u16);
                        let pages: Vec<_> = group.pages.iter().map(|page| (*page, channel)).collect();
                        out.push(Left::spread(group.kind, &pages));
                    }
                }
                if notice == BufferNotice::Flush {
                    while self.write(&open, out) {}
                }
            }
        }
    }

    fn len(&self) -> u32 {
        (self.held.len() + self.own().len()) as u32
    }

    fn dirty(&self) -> Vec<u32> {
        let mut dirty = self.own();
        dirty.extend(self.held.iter().filter(|(_, dirty)| **dirty).map(|(page, _)| *page));
        dirty.into_iter().collect()
    }

    fn memory_accesses(&self) -> u64 {
        self.inner.memory_accesses() + self.memory_accesses
    }

    /// The pages inside, in ascending order, and those of the layer: `4d 5c | 12 13` or
    /// `4d | 5 / 28 29`.
    fn state(&self) -> String {
        let inside = self.held.iter().map(|(page, dirty)| format!("{page}{}", if *dirty { 'd' } else { 'c' }));
        let list = |list: &Vec<u32>| words(list.iter().map(u32::to_string));
        let own = match &self.layer {
            Layer::Gate(gate) => list(gate),
            Layer::Cave { .. } => "-".into(),
            Layer::Cawr(lists) => lists.iter().map(list).collect::<Vec<_>>().join(" / "),
        };
        format!("{} | {own}", words(inside))
    }
}
