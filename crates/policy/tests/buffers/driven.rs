//! Any policy behind one dyn-compatible face, driven with or without objections, and what it does
//! written down in the models' words.

use destage_plan::{Element, PageNo, PolicySpec};
use destage_policy::buffer::{
    AccessOutcome, BlockBorder, BufferConfig, BufferNotice, BufferPolicy, BuiltPolicy, EvictionCandidate, EvictionVeto,
    Evictions, FrameWait, NoDevice, NoVeto, PageAccess, PolicyVisitor, WhenExhausted, build,
};

use crate::models::{Left, Objections};

/// A built policy.
pub(crate) trait Driven {
    fn grow(&mut self, pages: u32);
    fn compares_addresses(&self) -> bool;
    fn learn_borders(&mut self, borders: &[BlockBorder]);
    fn access(&mut self, access: PageAccess, out: &mut Vec<Left>) -> AccessOutcome;
    fn access_with(&mut self, access: PageAccess, veto: &mut Objector, out: &mut Vec<Left>) -> AccessOutcome;
    fn evict_with(&mut self, veto: &mut Objector, out: &mut Vec<Left>) -> bool;
    fn notify(&mut self, notice: BufferNotice, out: &mut Vec<Left>);
    /// Fetches ahead what an access to `page` needs; returns the pages named as those that leave
    /// next.
    fn look_ahead(&self, page: u32, most: usize) -> Vec<u32>;
    fn len(&self) -> u32;
    fn is_empty(&self) -> bool;
    fn memory_accesses(&self) -> u64;
}

struct Wrapped<B> {
    buffer: B,
    evictions: Evictions,
}

impl<B: BufferPolicy> Wrapped<B> {
    /// Moves what was decided to `out`; every field that the models do not carry has its only value
    /// here.
    fn tell(&mut self, out: &mut Vec<Left>) {
        for (group, pages) in self.evictions.groups() {
            assert_eq!(group.wait, FrameWait::All);
            assert!(!group.is_empty());
            assert_eq!(group.len() as usize, pages.len());
            let pages = pages.iter().map(|p| p.0).collect();
            let channels = self.evictions.channels(group).map(<[u16]>::to_vec);
            out.push(Left { kind: group.kind, pages, units: group.units, channels, background: group.background });
        }
        self.evictions.clear();
    }
}

impl<B: BufferPolicy> Driven for Wrapped<B> {
    fn grow(&mut self, pages: u32) {
        self.buffer.grow(pages);
    }
    fn compares_addresses(&self) -> bool {
        self.buffer.compares_addresses()
    }
    fn learn_borders(&mut self, borders: &[BlockBorder]) {
        self.buffer.learn_borders(borders);
    }
    fn access(&mut self, access: PageAccess, out: &mut Vec<Left>) -> AccessOutcome {
        let outcome = self.buffer.access(access, &NoDevice, &mut NoVeto, &mut self.evictions);
        self.tell(out);
        outcome
    }
    fn access_with(&mut self, access: PageAccess, veto: &mut Objector, out: &mut Vec<Left>) -> AccessOutcome {
        let outcome = self.buffer.access(access, &NoDevice, veto, &mut self.evictions);
        self.tell(out);
        outcome
    }
    fn evict_with(&mut self, veto: &mut Objector, out: &mut Vec<Left>) -> bool {
        let left = self.buffer.evict(&NoDevice, veto, &mut self.evictions);
        self.tell(out);
        left
    }
    fn notify(&mut self, notice: BufferNotice, out: &mut Vec<Left>) {
        self.buffer.notify(notice, &NoDevice, &mut NoVeto, &mut self.evictions);
        self.tell(out);
    }
    fn look_ahead(&self, page: u32, most: usize) -> Vec<u32> {
        self.buffer.prefetch(PageNo(page));
        let mut named = Vec::new();
        self.buffer.leaves_next(most, &mut |page| named.push(page.0));
        named
    }
    fn len(&self) -> u32 {
        self.buffer.len()
    }
    fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }
    fn memory_accesses(&self) -> u64 {
        self.buffer.memory_accesses()
    }
}

struct Boxed;

impl PolicyVisitor for Boxed {
    type Out = Box<dyn Driven>;
    fn visit<B: BufferPolicy + Send + 'static>(self, buffer: B, _: BuiltPolicy) -> Self::Out {
        Box::new(Wrapped { buffer, evictions: Evictions::default() })
    }
}

/// The policy `spec` with room for the pages `0..page_space`.
pub(crate) fn driven(spec: &str, config: BufferConfig, page_space: u32) -> Box<dyn Driven> {
    let parsed: PolicySpec = spec.parse().unwrap_or_else(|e| panic!("{e}"));
    let mut buffer = build(&parsed, config, Boxed).unwrap_or_else(|e| panic!("{spec}: {e}"));
    buffer.grow(page_space);
    buffer
}

/// An active veto: objects to the units of `objections`, and notes what it was asked.
pub(crate) struct Objector {
    pub(crate) objections: Objections,
    /// Object to everything.
    pub(crate) to_all: bool,
    /// Each unit it was asked about, by first page: what the policy said was buffered, and whether
    /// it would be padded.
    pub(crate) asked: Vec<Asked>,
    /// Counts how often the veto was told that no other victim is left.
    pub(crate) exhausted: u32,
    pub(crate) pages_per_block: u32,
    /// Elements for whose sake it objects; see [`Self::element_of`].
    pub(crate) elements: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) first: u32,
    pub(crate) cached: Vec<u32>,
    pub(crate) padded: bool,
    pub(crate) refused: bool,
}

impl Objector {
    pub(crate) fn new(objections: Objections, pages_per_block: u32) -> Self {
        Self { objections, to_all: false, asked: Vec::new(), exhausted: 0, pages_per_block, elements: 1 }
    }

    /// Of so many elements the one that the unit which begins at `first` belongs to.
    pub(crate) fn element_of(first: u32, elements: u32) -> Element {
        Element((first.wrapping_mul(2_654_435_761) >> 16) % elements)
    }

    pub(crate) fn to_all(exhausted: WhenExhausted, pages_per_block: u32) -> Self {
        Self { to_all: true, ..Self::new(Objections { exhausted, ..Objections::none() }, pages_per_block) }
    }
}

impl EvictionVeto for Objector {
    const ACTIVE: bool = true;

    fn passes_over(&mut self, candidate: EvictionCandidate<'_>) -> Option<Element> {
        let (first, cached, padded) = match candidate {
            EvictionCandidate::Page { page: PageNo(page), .. } => (page, vec![page], false),
            EvictionCandidate::Block { first: PageNo(first), cached, padded, .. } => {
                assert_eq!(first % self.pages_per_block, 0, "a block begins at {first}");
                let held = |offset: &u32| cached[*offset as usize / 64] >> (offset % 64) & 1 == 1;
                let beyond = |offset: &u32| *offset as usize / 64 < cached.len() && held(offset);
                let end = cached.len() as u32 * 64;
                assert_eq!((self.pages_per_block..end).find(beyond), None, "a bit beyond the block is set");
                (first, (0..self.pages_per_block).filter(held).map(|offset| first + offset).collect(), padded)
            }
        };
        let refused = self.to_all || self.objections.to(first);
        self.asked.push(Asked { first, cached, padded, refused });
        refused.then(|| Self::element_of(first, self.elements))
    }

    fn avoids(&mut self, channel: u32) -> bool {
        self.objections.channels.contains(&channel)
    }

    fn exhausted(&mut self) -> WhenExhausted {
        self.exhausted += 1;
        self.objections.exhausted
    }
}
