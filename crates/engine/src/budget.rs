//! Bounds the memory that requests and replies of all connections hold together.
//!
//! A request is begun when its connection may hold what the request takes. The rules, from small to large:
//!
//! * Within its floor every connection may hold what it likes, whatever the others hold. The floors of all connections
//!   that there can be are set aside.
//! * A *light* connection, which holds little beyond its floor, may hold no more of the part for light ones than stays
//!   free of it: the dynamic threshold of switches that share one memory among ports. So a newcomer finds room there.
//!   While nobody waits the same is true of the whole.
//! * A *heavy* connection, which holds more, needs room in the part for heavy ones.
//! * Who has to wait is served in the order of coming, but for light ones that find room in their part before.
//!
//! So whoever waits is served in the end if those before let go of what they hold; who does not let go is dismissed
//! by the service.

use std::collections::VecDeque;

use destage_exec::AlignedBuffer;

use crate::buffer_pool::BufferPool;
use crate::sectors::SECTOR;

/// Limits the bytes of one request. Clients that are told nothing keep to 32 MiB, those of other servers take 64 MiB for
/// granted.
pub(crate) const LONGEST: u32 = 64 << 20;
/// Limits the bytes that requests and replies of all clients hold, unless told otherwise.
pub(crate) const MEMORY: u64 = 256 << 20;
/// Allows each connection so many bytes, whatever others hold.
pub(crate) const FLOOR: usize = 64 << 10;
/// Sets the bytes beyond the floor above which a connection is heavy.
const LIGHT: usize = 4 << 20;
/// Counts the bytes of a request beside its buffer: its own state, and the head of its reply.
pub(crate) const REQUEST: usize = 256;
/// Counts what each connection holds, and decides which may hold more.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    limit: usize,
    /// Limits what all connections hold beyond their floors, and the part of it for heavy ones.
    shared: usize,
    heavy_part: usize,
    /// Counts the bytes that each connection holds, by its number.
    held: Vec<usize>,
    /// Sums these up.
    total: usize,
    /// Sums up what they hold beyond their floors, and the part of it that heavy ones hold.
    excess: usize,
    heavy: usize,
    /// Lists the connections that wait, each with the bytes that it waits for, in the order of coming.
    waiting: VecDeque<(usize, usize)>,
    /// Tells that memory was released since waiting connections were last looked at.
    is_released: bool,
    pub(crate) pool: BufferPool,
    /// Counts the requests that failed for want of memory.
    failed: u64,
}

/// Answers a request for a buffer.
#[derive(Debug)]
pub(crate) enum BufferGrant {
    /// Grants the buffer.
    Given(AlignedBuffer),
    /// Has the connection wait; it is told when it may go on.
    Later,
    /// Fails, since the system has no memory.
    Failed,
}

impl MemoryBudget {
    /// Makes a budget of so many bytes for so many connections. If they are too few for the floors beside the longest request
    /// the floors come on top.
    pub(crate) fn new(limit: usize, clients: usize) -> Self {
        let longest = LONGEST as usize;
        // The longest request must fit, or its client would wait for ever.
        let shared = limit.saturating_sub(clients * FLOOR).max(longest);
        Self {
            limit,
            shared,
            // A quarter is left to light connections, so a few large writers cannot keep small readers
            // waiting.
            heavy_part: (shared / 4 * 3).max(longest),
            held: Vec::new(),
            total: 0,
            excess: 0,
            heavy: 0,
            waiting: VecDeque::new(),
            is_released: false,
            pool: BufferPool::default(),
            failed: 0,
        }
    }

    /// Returns the bytes that may be held.
    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the bytes that are held, with those that are kept to be used again.
    pub(crate) const fn held(&self) -> usize {
        self.total + self.pool.bytes()
    }

    /// Returns how many connections wait for room.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns how many requests failed for want of memory.
    pub(crate) const fn failed(&self) -> u64 {
        self.failed
    }

    /// Returns true if this connection keeps something that others may wait for.
    pub(crate) fn is_beyond_floor(&self, client: usize) -> bool {
        self.held_by(client) > FLOOR
    }

    fn held_by(&self, client: usize) -> usize {
        self.held.get(client).copied().unwrap_or_default()
    }

    /// Notes what a connection holds now.
    #[inline]
    pub(crate) fn settle(&mut self, client: usize, now: usize) {
        let before = self.held_by(client);
        if now != before {
            self.change(client, before, now);
        }
    }

    fn change(&mut self, client: usize, before: usize, now: usize) {
        if client >= self.held.len() {
            self.held.resize(client + 1, 0);
        }
        self.held[client] = now;
        self.total = self.total - before + now;
        // Most connections stay within their floor, and cost no sums.
        if before > FLOOR || now > FLOOR {
            self.excess = self.excess - excess(before) + excess(now);
            self.heavy = self.heavy - heavy(before) + heavy(now);
            self.is_released |= now < before;
        }
    }

    /// Takes a connection out of those that wait, if it does.
    pub(crate) fn leave(&mut self, client: usize) {
        if let Some(place) = self.waiting.iter().position(|(other, _)| *other == client) {
            self.waiting.remove(place);
            // The next in line may have waited for this place alone.
            self.is_released = true;
        }
    }

    /// Returns true if a connection that holds `held` bytes may hold so many more.
    fn admits(&self, client: usize, held: usize, more: usize) -> bool {
        let own = excess(held + more);
        if own == 0 {
            return true;
        }
        let is_next = self.waiting.front().is_none_or(|(first, _)| *first == client);
        let excess_after = self.excess - excess(held) + own;
        // The dynamic threshold of shared-memory switches (Choudhury and Hahne, 1998): a light one may hold as much as
        // stays free after it.
        if own <= LIGHT && is_next && own + excess_after <= self.shared {
            return true;
        }
        let heavy_after = self.heavy - heavy(held) + heavy(held + more);
        // Heavy connections are served in the order of coming: else small ones would pass a long request for ever.
        if own > LIGHT {
            return is_next && heavy_after <= self.heavy_part && excess_after <= self.shared;
        }
        let (light_part, light_after) = (self.shared - self.heavy_part, excess_after - heavy_after);
        // Light ones pass heavy ones that wait, but only within the part that is set aside for them.
        own + light_after <= light_part
    }

    /// Returns true if a connection that holds `held` bytes may have one request more, however short. Otherwise
    /// it waits.
    #[inline]
    pub(crate) fn admits_request(&mut self, client: usize, held: usize) -> bool {
        held + REQUEST <= FLOOR || self.admits_or_waits(client, held, REQUEST)
    }

    /// Returns true if a connection that holds `held` bytes may hold so many more. Otherwise it waits.
    fn admits_or_waits(&mut self, client: usize, held: usize, more: usize) -> bool {
        self.settle(client, held);
        let admits = self.admits(client, held, more);
        // Admitted ones skip the search of the queue, which is empty in nearly every call.
        if self.waiting.is_empty() && admits {
            return true;
        }
        let place = self.waiting.iter().position(|(other, _)| *other == client);
        match (place, admits) {
            (Some(_), true) => self.leave(client),
            (Some(place), false) => self.waiting[place].1 = more,
            (None, true) => {}
            (None, false) => self.waiting.push_back((client, more)),
        }
        admits
    }

    /// Gives a connection that holds `held` bytes a buffer of `len` bytes for a request, if it may have one, and so many bytes
    /// `beside` it.
    pub(crate) fn take(&mut self, client: usize, held: usize, len: usize, beside: usize) -> BufferGrant {
        let bytes = beside + if len == 0 { 0 } else { AlignedBuffer::footprint(len) };
        if !self.admits_or_waits(client, held, bytes + REQUEST) {
            return BufferGrant::Later;
        }
        if len == 0 {
            self.settle(client, held + REQUEST);
            return BufferGrant::Given(AlignedBuffer::new());
        }
        let mut buffer = self.pool.take(len);
        // Buffers kept for reuse count as memory, and give way to a request.
        if self.excess + bytes + self.pool.bytes() > self.shared {
            self.pool.clear();
        }
        // The system may be short where the budget is not: kept buffers are returned to it before a request fails.
        if buffer.try_resize(len).is_err() {
            self.pool.clear();
            if buffer.try_resize(len).is_err() {
                self.failed += 1;
                return BufferGrant::Failed;
            }
        }
        self.settle(client, held + buffer.capacity() + beside + REQUEST);
        BufferGrant::Given(buffer)
    }

    /// Gives room for a sector at an edge of a request, which was [taken](Self::take) beside its buffer; none if the system
    /// has no memory.
    pub(crate) fn edge(&mut self) -> Option<AlignedBuffer> {
        let mut buffer = self.pool.take(SECTOR as usize);
        if buffer.try_resize(SECTOR as usize).is_err() {
            self.pool.clear();
            self.failed += 1;
            return None;
        }
        Some(buffer)
    }

    /// Keeps a buffer to be used again while there is room for it.
    pub(crate) fn keep(&mut self, buffer: AlignedBuffer) {
        // Nobody waits for memory that idle buffers hold.
        let room = self.shared.saturating_sub(self.excess + self.pool.bytes());
        self.pool.keep(buffer, room);
    }

    /// Tells which of those that wait can go on, if something was let go of; the first comes last.
    pub(crate) fn ready(&mut self, mut tell: impl FnMut(usize)) {
        if std::mem::take(&mut self.is_released) && !self.waiting.is_empty() {
            // In reverse, since the caller takes clients from the end of its list: the first in line is served
            // first.
            for (client, more) in self.waiting.iter().rev() {
                if self.admits(*client, self.held_by(*client), *more) {
                    tell(*client);
                }
            }
        }
    }
}

/// Returns the bytes beyond the floor.
const fn excess(held: usize) -> usize {
    held.saturating_sub(FLOOR)
}

/// Returns the same of a heavy connection, else nothing.
const fn heavy(held: usize) -> usize {
    let excess = excess(held);
    if excess > LIGHT { excess } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENTS: usize = 60;
    const LONGEST: usize = super::LONGEST as usize;

    /// Has connections ask at random, some of which never release what they have.
    struct BudgetHistory {
        budget: MemoryBudget,
        held: [usize; CLIENTS],
        /// Lists for how much each waits.
        wants: [Option<usize>; CLIENTS],
        random: u64,
    }

    impl BudgetHistory {
        fn new(limit: usize, seed: u64) -> Self {
            let budget = MemoryBudget::new(limit, CLIENTS);
            Self { budget, held: [0; CLIENTS], wants: [None; CLIENTS], random: seed }
        }

        fn below(&mut self, n: usize) -> usize {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.random >> 33) as usize % n
        }

        fn ask(&mut self, client: usize, more: usize) -> bool {
            let admits = self.budget.admits_or_waits(client, self.held[client], more);
            self.wants[client] = (!admits).then_some(more);
            if admits {
                self.held[client] += more;
                self.budget.settle(client, self.held[client]);
            }
            assert!(admits || self.held[client] + more > FLOOR, "{more} bytes are within the floor");
            self.check();
            admits
        }

        fn let_go(&mut self, client: usize, bytes: usize) {
            self.held[client] -= bytes;
            self.budget.settle(client, self.held[client]);
            self.check();
        }

        /// Has those go on that wait and can.
        fn go_on(&mut self) {
            let mut ready = Vec::new();
            self.budget.ready(|client| ready.push(client));
            while let Some(client) = ready.pop() {
                // It may be told of twice.
                if let Some(more) = self.wants[client] {
                    self.ask(client, more);
                }
                self.budget.ready(|client| ready.push(client));
            }
        }

        fn check(&self) {
            let budget = &self.budget;
            assert_eq!(budget.total, self.held.iter().sum::<usize>());
            assert_eq!(budget.excess, self.held.iter().copied().map(excess).sum::<usize>());
            assert_eq!(budget.heavy, self.held.iter().copied().map(heavy).sum::<usize>());
            assert!(budget.excess <= budget.shared, "{} of {}", budget.excess, budget.shared);
            assert_eq!(budget.waiting.len(), self.wants.iter().flatten().count());
        }
    }

    #[test]
    fn whatever_is_asked_for_is_within_the_limit_and_had_in_the_end() {
        for seed in 0..200 {
            let limit = [64, 100, 128, 256, 1024][seed as usize % 5] << 20;
            let mut history = BudgetHistory::new(limit, seed);
            for _ in 0..2000 {
                let client = history.below(CLIENTS);
                if history.wants[client].is_none() && history.below(2) == 0 {
                    let bits = history.below(26);
                    let more = (history.below(1 << bits) + 256).min(LONGEST - FLOOR);
                    // No connection has more than one of the longest.
                    if history.held[client] + more <= LONGEST {
                        history.ask(client, more);
                    }
                } else if !client.is_multiple_of(4) {
                    let bytes = history.below(history.held[client] + 1);
                    history.let_go(client, bytes);
                }
                history.go_on();
            }
            assert!(history.budget.total <= limit.max(LONGEST + CLIENTS * FLOOR));
            // Whoever holds most lets go, as if dismissed, until all have what they want.
            let mut rounds = 0;
            while history.wants.iter().any(Option::is_some) {
                let most = (0..CLIENTS).max_by_key(|client| history.held[*client]).expect("there are some");
                assert!(history.held[most] > 0, "seed {seed}: they wait for nothing: {:?}", history.budget.waiting);
                let all = history.held[most];
                history.let_go(most, all);
                history.go_on();
                rounds += 1;
                assert!(rounds < 3 * CLIENTS, "seed {seed}");
            }
        }
    }

    #[test]
    fn heavy_ones_leave_a_part_to_light_ones() {
        let mut history = BudgetHistory::new(256 << 20, 0);
        for client in 0..50 {
            history.ask(client, LONGEST - (1 << 20));
        }
        assert!(history.budget.waiting() >= 47, "{}", history.budget.waiting());
        for client in 50..CLIENTS {
            assert!(history.ask(client, 3 << 20), "{client} has to wait");
        }
        // The first that waited is the next.
        history.let_go(0, LONGEST - (1 << 20));
        history.go_on();
        let has = |history: &BudgetHistory| (0..50).filter(|client| history.held[*client] > 0).collect::<Vec<_>>();
        assert_eq!(has(&history), [1, 2, 3]);
    }
}
