//! The one mechanism by which several pages are written at the same time, each through a channel of
//! its own (specs §6).
//!
//! [`WriteChannels`] says which channels a multi-eviction goes through and gives them out in turn; what
//! is written leaves with [`Evictions::spread`]. A multi-eviction is as wide as there are channels.
//!
//! Under a veto the channels that it avoids are left out, and a multi-eviction is as wide as there
//! are channels left. Where it avoids all of them the policy goes on as without it up to the point
//! where it would program; there it asks what to do ([`WriteChannels::permits`]) and programs through
//! all of them, or nothing. What was passed over or collected till then stays buffered and is
//! written by the next multi-eviction that its channel takes part in.

use destage_plan::{Element, PageNo};

use super::{
    BufferConfig, EvictionCandidate, EvictionKind, EvictionVeto, Evictions, NoVeto, PolicyError, WhenExhausted,
};

/// The most channels that can be told apart: lists are numbered by the `u16` of a channel, and some
/// are not channels'.
const MOST: u32 = u16::MAX as u32 - 7;

/// The channels that a policy writes through.
#[derive(Clone, Debug)]
pub(super) struct WriteChannels {
    /// Marks the channels that are left out for now.
    avoided: Vec<bool>,
    /// Channels not left out, at least one.
    open: u32,
    /// The veto avoids all channels; none is left out then.
    closed: bool,
    /// The channel whose turn it is.
    next: u32,
}

impl WriteChannels {
    /// The channels of the device, all open.
    pub(super) fn new(config: BufferConfig) -> Result<Self, PolicyError> {
        let channels = config.elements;
        if channels > MOST {
            return Err(PolicyError::TooManyChannels { channels, most: MOST });
        }
        Ok(Self { avoided: vec![false; channels as usize], open: channels, closed: false, next: 0 })
    }

    /// Returns the number of channels.
    #[inline]
    pub(super) fn count(&self) -> u32 {
        self.avoided.len() as u32
    }

    /// Asks which channels to leave out of the coming multi-eviction.
    #[inline]
    pub(super) fn look<V: EvictionVeto>(&mut self, veto: &mut V) {
        if V::ACTIVE {
            self.open = 0;
            for (channel, avoided) in (0..).zip(&mut self.avoided) {
                *avoided = veto.avoids(channel);
                self.open += u32::from(!*avoided);
            }
        }
        if self.open == 0 || !V::ACTIVE && self.open < self.count() {
            self.avoided.fill(false);
            self.open = self.count();
            // With all channels avoided the policy goes on as without a veto until it would program.
            self.closed = V::ACTIVE;
        } else {
            self.closed = false;
        }
    }

    /// Leaves out none: what is written because it was asked for goes through all channels.
    pub(super) fn open_all(&mut self) {
        self.look(&mut NoVeto);
    }

    /// Returns the number of pages that a multi-eviction writes at the same time.
    #[inline]
    pub(super) fn width(&self) -> u32 {
        self.open
    }

    /// Is true if the channel takes part.
    #[inline]
    pub(super) fn is_open(&self, channel: u32) -> bool {
        !self.avoided[channel as usize]
    }

    /// Is true if the veto avoids all channels.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns true if pages may be programmed; asks the veto where it avoids all channels.
    #[inline]
    pub(super) fn permits<V: EvictionVeto>(&self, veto: &mut V) -> bool {
        !self.closed || veto.exhausted() == WhenExhausted::TakeBase
    }

    /// The next channel in turn that takes part.
    #[inline]
    pub(super) fn turn(&mut self) -> u16 {
        loop {
            let channel = self.next;
            self.next = if channel + 1 == self.count() { 0 } else { channel + 1 };
            if self.is_open(channel) {
                return channel as u16;
            }
        }
    }

    /// Writes all of `pages`, each a victim unit of its own, through the channels in turn, as many
    /// at the same time as a multi-eviction does.
    pub(super) fn write_all(&mut self, kind: EvictionKind, pages: impl Iterator<Item = PageNo>, out: &mut Evictions) {
        let width = self.open as usize;
        let mut pages = pages.peekable();
        while pages.peek().is_some() {
            // One page per channel at a time: the pages of a multi-eviction are programmed together.
            out.spread_pages(kind, pages.by_ref().take(width).map(|page| (page, self.turn())));
        }
    }
}

/// Restricts the questions to the veto of a policy inside a layer that chooses channels. The policy asks
/// about clean victims and about those that are padded. Channels decide where dirty pages go, and the layer
/// asks about channels itself.
pub(super) struct ChannelsAside<'a, V>(pub(super) &'a mut V);

impl<V: EvictionVeto> EvictionVeto for ChannelsAside<'_, V> {
    const ACTIVE: bool = V::ACTIVE;

    #[inline]
    fn passes_over(&mut self, candidate: EvictionCandidate<'_>) -> Option<Element> {
        let asked = match candidate {
            EvictionCandidate::Page { dirty, .. } => !dirty,
            EvictionCandidate::Block { dirty, padded, .. } => padded || dirty.iter().all(|&word| word == 0),
        };
        if asked { self.0.passes_over(candidate) } else { None }
    }

    fn avoids(&mut self, channel: u32) -> bool {
        self.0.avoids(channel)
    }

    fn exhausted(&mut self) -> WhenExhausted {
        self.0.exhausted()
    }
}
