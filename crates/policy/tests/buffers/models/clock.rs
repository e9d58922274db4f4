//! CLOCK (specs §4.2): a ring of frames with a reference bit, and a hand.
//!
//! Not in the specification, resolved by the policy: of the slots emptied by trims the last one is
//! filled first; a flush cleans the pages in the order of the hand.

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, EvictionKind, PageAccess, WhenExhausted};

use super::{Left, Model, Objections, param};

#[derive(Clone)]
struct Frame {
    page: u32,
    referenced: bool,
    dirty: bool,
}

pub(crate) struct ClockModel {
    /// Slots in the order of the ring; an empty one has lost its page to a trim.
    ring: Vec<Option<Frame>>,
    emptied: Vec<usize>,
    hand: usize,
    capacity: usize,
    cache_reads: bool,
    memory_accesses: u64,
}

impl ClockModel {
    pub(crate) fn new(spec: &str, config: BufferConfig) -> Self {
        Self {
            ring: Vec::new(),
            emptied: Vec::new(),
            hand: 0,
            capacity: config.capacity_pages as usize,
            cache_reads: param(spec, "reads", "cache") == "cache",
            memory_accesses: 0,
        }
    }
}

impl Model for ClockModel {
    fn access(&mut self, access: PageAccess, objections: &Objections, out: &mut Vec<Left>) -> AccessOutcome {
        let page = access.page.0;
        // The lookup; the bit comes with a hit or an insertion.
        self.memory_accesses += 1;
        if let Some(frame) = self.ring.iter_mut().flatten().find(|f| f.page == page) {
            self.memory_accesses += 1;
            frame.referenced = true;
            frame.dirty |= access.write;
            return AccessOutcome::Hit;
        }
        if !access.write && !self.cache_reads {
            return AccessOutcome::Bypassed;
        }
        let new = Some(Frame { page, referenced: true, dirty: access.write });
        if let Some(at) = self.emptied.pop() {
            self.memory_accesses += 1;
            self.ring[at] = new;
            return AccessOutcome::Inserted;
        }
        if self.ring.len() < self.capacity {
            self.memory_accesses += 1;
            self.ring.push(new);
            return AccessOutcome::Inserted;
        }
        if !self.evict(objections, out) {
            return AccessOutcome::Bypassed;
        }
        self.memory_accesses += 1;
        let at = self.emptied.pop().expect("the victim's slot");
        self.ring[at] = new;
        AccessOutcome::Inserted
    }

    fn evict(&mut self, objections: &Objections, out: &mut Vec<Left>) -> bool {
        let all_refused = self.ring.iter().flatten().all(|f| objections.to(f.page));
        if self.len() == 0 || all_refused && objections.exhausted == WhenExhausted::Bypass {
            return false;
        }
        loop {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.ring.len();
            self.memory_accesses += 1;
            let Some(frame) = self.ring[at].as_mut() else { continue };
            if frame.referenced {
                frame.referenced = false;
            } else if all_refused || !objections.to(frame.page) {
                out.push(Left::unit(if frame.dirty { EvictionKind::Flush } else { EvictionKind::Drop }, &[frame.page]));
                self.ring[at] = None;
                self.emptied.push(at);
                return true;
            }
        }
    }

    fn notify(&mut self, notice: BufferNotice, out: &mut Vec<Left>) {
        match notice {
            BufferNotice::Flush => {
                let (behind, ahead) = self.ring.split_at_mut(self.hand);
                for frame in ahead.iter_mut().chain(behind).flatten().filter(|f| f.dirty) {
                    frame.dirty = false;
                    out.push(Left::unit(EvictionKind::Clean, &[frame.page]));
                }
            }
            BufferNotice::Trim { page } => {
                let holds = |slot: &Option<Frame>| slot.as_ref().is_some_and(|f| f.page == page.0);
                if let Some(at) = self.ring.iter().position(holds) {
                    self.ring[at] = None;
                    self.emptied.push(at);
                    out.push(Left::unit(EvictionKind::Drop, &[page.0]));
                }
            }
            BufferNotice::Destage { page, keep } => {
                let is_wanted = |slot: &Option<Frame>| slot.as_ref().is_some_and(|f| f.page == page.0 && f.dirty);
                if let Some(at) = self.ring.iter().position(is_wanted) {
                    if keep {
                        self.ring[at].as_mut().expect("a frame").dirty = false;
                        out.push(Left::unit(EvictionKind::Clean, &[page.0]));
                    } else {
                        self.ring[at] = None;
                        self.emptied.push(at);
                        out.push(Left::unit(EvictionKind::Flush, &[page.0]));
                    }
                }
            }
            BufferNotice::GcEnd { .. } | BufferNotice::Resume { .. } | BufferNotice::Idle => {}
        }
    }

    fn len(&self) -> u32 {
        self.ring.iter().flatten().count() as u32
    }

    fn dirty(&self) -> Vec<u32> {
        let mut pages: Vec<u32> = self.ring.iter().flatten().filter(|f| f.dirty).map(|f| f.page).collect();
        pages.sort_unstable();
        pages
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }

    /// `(1,1)(2,1)(3,1) hand 1`: page and bit of each slot in the order of the ring, and the page
    /// under the hand.
    fn state(&self) -> String {
        let words = self.ring.iter().map(|slot| match slot {
            Some(f) => format!("({},{})", f.page, u8::from(f.referenced)),
            None => "(-)".to_owned(),
        });
        let hand = self.ring.get(self.hand).and_then(|slot| slot.as_ref());
        let hand = hand.map_or_else(|| "-".to_owned(), |f| f.page.to_string());
        format!("{} hand {hand}", words.collect::<String>())
    }
}
