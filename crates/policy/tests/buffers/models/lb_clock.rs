//! LB-CLOCK (specs §5.5): a ring of blocks with a recency bit, and a hand.
//!
//! Not in the specification, resolved by the policy: where every candidate is protected or refused,
//! the blocks that were reset in this round are next, and then those that the hand would reset in a
//! further turn, which it makes if one of these is the victim; a round that ends in a bypass has
//! moved the hand all the same; a flush gives up the blocks clockwise from the hand and is no
//! eviction that `prev` remembers.

use std::cmp::Reverse;

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, EvictionKind, PageAccess, WhenExhausted};

use super::{Block, Left, Model, Objections, param, switch};

pub(crate) struct LbClockModel {
    /// The blocks clockwise, beginning with the one under the hand. So the hand advances when the
    /// ring is turned by one, and the place immediately before the hand is the end.
    ring: Vec<Block>,
    previous: u32,
    pages_per_block: u32,
    capacity: u32,
    preempt: bool,
    sequential: bool,
    anchor_is_initial_hand: bool,
    only_prior_zero: bool,
    read_sets_bit: bool,
    protect_current: bool,
    memory_accesses: u64,
}

impl LbClockModel {
    pub(crate) fn new(spec: &str, config: BufferConfig) -> Self {
        Self {
            ring: Vec::new(),
            previous: match param(spec, "prev_init", "block") {
                "block" => config.pages_per_block,
                pages => pages.parse().expect("a number of pages"),
            },
            pages_per_block: config.pages_per_block,
            capacity: config.capacity_pages,
            preempt: switch(spec, "opt_preempt", true),
            sequential: switch(spec, "opt_seq", true),
            anchor_is_initial_hand: param(spec, "insert_anchor", "initial_hand") == "initial_hand",
            only_prior_zero: param(spec, "candidate_rule", "prior_zero") == "prior_zero",
            read_sets_bit: switch(spec, "read_sets_bit", false),
            protect_current: switch(spec, "protect_current", false),
            memory_accesses: 0,
        }
    }

    fn place_of(&self, number: u32) -> Option<usize> {
        self.ring.iter().position(|b| b.number == number)
    }

    /// Evicts one block for a page of block `current`. Returns the evicted block and its clockwise
    /// successor; `None` if all blocks are refused and the access shall bypass.
    fn make_room(
        &mut self,
        current: Option<u32>,
        objections: &Objections,
        out: &mut Vec<Left>,
    ) -> Option<(u32, Option<u32>)> {
        let mut reset = Vec::new();
        while self.ring[0].recent {
            self.ring[0].recent = false;
            reset.push(self.ring[0].number);
            self.ring.rotate_left(1);
            self.memory_accesses += 1;
        }
        let full_revolution = reset.len() == self.ring.len();
        let is_candidate =
            |b: &Block| !b.recent && (full_revolution || !self.only_prior_zero || !reset.contains(&b.number));
        let places = |wanted: &dyn Fn(&Block) -> bool| -> Vec<usize> {
            (0..self.ring.len()).filter(|at| wanted(&self.ring[*at])).collect()
        };
        let candidates = places(&is_candidate);
        let reset_now = places(&|b| !b.recent && !is_candidate(b));
        let still_set = places(&|b| b.recent);

        let may_go =
            |at: &usize| !(self.protect_current && self.ring.len() > 1 && Some(self.ring[*at].number) == current);
        let is_welcome = |at: &&usize| !objections.to(self.ring[**at].number * self.pages_per_block);
        let (mut victim, mut base) = (None, None);
        for mut choices in [candidates, reset_now, still_set] {
            self.memory_accesses += choices.len() as u64;
            choices.retain(may_go);
            // The largest first, of several the first clockwise from the hand: the sort is stable.
            choices.sort_by_key(|at| Reverse(self.ring[*at].pages.len()));
            victim = choices.iter().find(is_welcome).copied();
            base = base.or(choices.first().copied());
            if victim.is_some() {
                break;
            }
        }
        if victim.is_none() && objections.exhausted == WhenExhausted::Bypass {
            return None;
        }
        let victim = victim.or(base).expect("a block that may go");
        if self.ring[victim].recent {
            self.memory_accesses += self.ring.len() as u64;
            self.ring.iter_mut().for_each(|b| b.recent = false);
        }

        self.previous = self.ring[victim].pages.len() as u32;
        let successor = self.ring[(victim + 1) % self.ring.len()].number;
        let number = self.give_up(victim, out);
        Some((number, (successor != number).then_some(successor)))
    }

    fn give_up(&mut self, at: usize, out: &mut Vec<Left>) -> u32 {
        let block = self.ring.remove(at);
        out.push(Left::unit(EvictionKind::Flush, &block.pages_that_are(true)));
        block.number
    }
}

impl Model for LbClockModel {
    fn access(&mut self, access: PageAccess, objections: &Objections, out: &mut Vec<Left>) -> AccessOutcome {
        let page = access.page.0;
        let (number, offset) = (page / self.pages_per_block, page % self.pages_per_block);
        self.memory_accesses += 1;
        let hit = self.ring.iter().any(|b| b.holds(page));
        if !access.write {
            if !hit {
                return AccessOutcome::Bypassed;
            }
            if self.read_sets_bit {
                let at = self.place_of(number).expect("the block of a hit");
                self.ring[at].recent = true;
                self.memory_accesses += 1;
            }
            return AccessOutcome::Hit;
        }

        let initial_hand = self.ring.first().map(|b| b.number);
        let mut anchor = initial_hand;
        if !hit && self.len() == self.capacity {
            let Some((victim, successor)) = self.make_room(Some(number), objections, out) else {
                return AccessOutcome::Bypassed;
            };
            if anchor == Some(victim) {
                anchor = successor;
            }
        }
        if !self.anchor_is_initial_hand {
            anchor = self.ring.first().map(|b| b.number);
        }

        if self.place_of(number).is_none() {
            let block = Block::new(number);
            match anchor.map(|a| self.place_of(a).expect("the anchor is in the ring")) {
                // Before the block under the hand: the last place clockwise.
                None | Some(0) => self.ring.push(block),
                Some(at) => self.ring.insert(at, block),
            }
        }

        let at = self.place_of(number).expect("just inserted");
        let block = &mut self.ring[at];
        block.pages.insert(page, true);
        block.recent = true;
        self.memory_accesses += 1;

        if offset == self.pages_per_block - 1 {
            let pages = block.pages.len() as u32;
            let full = pages == self.pages_per_block;
            if (full && (self.preempt || self.sequential)) || (self.preempt && pages > self.previous) {
                block.recent = false;
                self.memory_accesses += 1;
            }
        }
        if hit { AccessOutcome::Hit } else { AccessOutcome::Inserted }
    }

    fn evict(&mut self, objections: &Objections, out: &mut Vec<Left>) -> bool {
        !self.ring.is_empty() && self.make_room(None, objections, out).is_some()
    }

    fn notify(&mut self, notice: BufferNotice, out: &mut Vec<Left>) {
        match notice {
            BufferNotice::Flush => {
                while !self.ring.is_empty() {
                    self.give_up(0, out);
                }
            }
            BufferNotice::Trim { page } => {
                if let Some(block) = self.ring.iter_mut().find(|b| b.holds(page.0)) {
                    block.pages.remove(&page.0);
                    out.push(Left::unit(EvictionKind::Drop, &[page.0]));
                }
                self.ring.retain(|b| !b.pages.is_empty());
            }
            BufferNotice::Destage { page, .. } => {
                if let Some(at) = self.ring.iter().position(|b| b.holds(page.0)) {
                    self.give_up(at, out);
                }
            }
            BufferNotice::GcEnd { .. } | BufferNotice::Resume { .. } | BufferNotice::Idle => {}
        }
    }

    fn len(&self) -> u32 {
        self.ring.iter().map(|b| b.pages.len() as u32).sum()
    }

    fn dirty(&self) -> Vec<u32> {
        let mut pages: Vec<u32> = self.ring.iter().flat_map(|b| b.pages_that_are(true)).collect();
        pages.sort_unstable();
        pages
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }

    /// `B7r1{28,29} B2r0{10} prev 4`: clockwise from the hand, with the recency bits, and the last
    /// victim's size.
    fn state(&self) -> String {
        let word = |b: &Block| b.to_string().replacen('{', &format!("r{}{{", u8::from(b.recent)), 1) + " ";
        format!("{}prev {}", self.ring.iter().map(word).collect::<String>(), self.previous)
    }
}
