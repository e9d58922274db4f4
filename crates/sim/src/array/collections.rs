//! Queues the notices of SSDs about their collections: that one begins, ends, or is near.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use destage_plan::{Element, Nanos};

use crate::ssd::ElementCollection;

/// Lists the notices of a device about its collections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CollectionNotice {
    /// An element ends a collection of so many blocks.
    Ends(u16, u32),
    /// An element begins one.
    Begins(u16, u32),
    /// An element has come near to where it has to collect.
    Near,
    /// An element begins a slice of collection that its drive paces by itself.
    SliceBegins,
    /// An element ends one.
    SliceEnds,
}

/// Holds the notices that a device will give, in order of time.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceAnnouncements {
    /// Time, order, what.
    due: BinaryHeap<Reverse<(Nanos, u64, CollectionNotice)>>,
    made: u64,
    /// Free blocks of an element at which it says that it will have to collect.
    warn_at: Option<u32>,
    /// Elements that have said so, and not collected since.
    warned: Vec<bool>,
}

impl DeviceAnnouncements {
    pub(super) fn new(elements: u32) -> Self {
        Self { warned: vec![false; elements as usize], ..Self::default() }
    }

    /// Elements say from now on when they come down to so many free blocks.
    pub(super) const fn warn_at(&mut self, blocks: u32) {
        self.warn_at = Some(blocks);
    }

    /// Is true if elements warn.
    pub(super) const fn warns(&self) -> bool {
        self.warn_at.is_some()
    }

    fn add(&mut self, at: Nanos, what: CollectionNotice) {
        // The number breaks ties, so that notices of the same time come in the order in which they were
        // made.
        self.made += 1;
        self.due.push(Reverse((at, self.made, what)));
    }

    /// An element will collect. Those of an element are told in order of time.
    pub(super) fn collects(&mut self, element: Element, collection: ElementCollection) {
        let ElementCollection { start, end, blocks } = collection;
        let unit = element.index() as u16;
        // A collection that takes no time is never seen.
        if start < end {
            self.add(start, CollectionNotice::Begins(unit, blocks));
            self.add(end, CollectionNotice::Ends(unit, blocks));
        }
        // One warning per collection is enough: the controller acts on the first.
        self.warned[element.index()] = false;
    }

    /// An element has so many free blocks.
    #[inline]
    pub(super) fn has_free(&mut self, now: Nanos, element: Element, blocks: u32) {
        if self.warn_at.is_some_and(|least| blocks <= least) && !self.warned[element.index()] {
            self.warned[element.index()] = true;
            self.add(now, CollectionNotice::Near);
        }
    }

    /// Returns the time of the next notice.
    #[inline]
    pub(super) fn next(&self) -> Option<Nanos> {
        self.due.peek().map(|due| due.0.0)
    }

    /// Takes it.
    pub(super) fn take(&mut self) -> Option<CollectionNotice> {
        self.due.pop().map(|Reverse((_, _, what))| what)
    }
}
