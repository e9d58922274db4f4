//! Serialises operations that touch the same rows: claims, and the table of those that are held or wait.
//!
//! Invariants:
//! * Claims on one stripe are granted in the order in which they came, as far as they conflict.
//! * An operation makes all its claims at once, so no two operations wait for each other.
//! * A claim is narrowed, never widened: widening could make two holders wait for each other.

use crate::{ColumnSet, Nanos, OpId, Stripe};

/// Lists the rows and columns of one stripe that an operation reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// The stripe.
    pub stripe: Stripe,
    /// First page row in the stripe's chunks.
    pub first: u32,
    /// Rows.
    pub rows: u32,
    /// Columns that are read.
    pub r: ColumnSet,
    /// Columns that are written.
    pub w: ColumnSet,
}

impl Claim {
    /// Returns true if the two claims may not be held together: their rows overlap, and one writes a column that the
    /// other reads or writes.
    #[inline]
    pub const fn conflicts(&self, other: &Self) -> bool {
        // Two claims that only read never conflict, so any number of reads share a row.
        self.stripe.0 == other.stripe.0
            && self.first < other.first + other.rows
            && other.first < self.first + self.rows
            && (self.w.meets(other.r) || self.w.meets(other.w) || other.w.meets(self.r))
    }
}

impl Claim {
    /// Returns true if this claim is part of `other`.
    pub const fn is_within(&self, other: &Self) -> bool {
        self.stripe.0 == other.stripe.0
            && self.first >= other.first
            && self.first + self.rows <= other.first + other.rows
            && other.r.contains_all(self.r)
            && other.w.contains_all(self.w)
    }
}

/// Why an operation claims, for the account of time waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// A read of the host.
    Read,
    /// A write of the host.
    Write,
    /// Making rows consistent after an unclean start.
    Recovery,
    /// Filling a replaced member.
    Rebuild,
    /// Making parity cover data that was written without it.
    Parity,
    /// Writing back what a cache holds.
    Destage,
    /// Work of the controller's own that claims nothing: flushes, notes in the NVRAM.
    Internal,
}

impl Class {
    /// All classes, in the order of their numbers.
    pub const ALL: [Self; 7] =
        [Self::Read, Self::Write, Self::Recovery, Self::Rebuild, Self::Parity, Self::Destage, Self::Internal];

    /// The name used in tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Recovery => "recovery",
            Self::Rebuild => "rebuild",
            Self::Parity => "parity",
            Self::Destage => "destage",
            Self::Internal => "internal",
        }
    }
}

/// Time spent waiting for claims by one class of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimWait {
    /// Claims made.
    pub claims: u64,
    /// Counts the claims that had to wait.
    pub waited: u64,
    /// Sum of the waits.
    pub total: Nanos,
    /// The longest.
    pub max: Nanos,
}

struct Entry {
    op: OpId,
    claim: Claim,
    class: Class,
    since: Nanos,
    /// Earlier entries of the stripe that conflict with this one; it holds when there are none.
    blockers: u32,
}

impl Entry {
    /// Returns true if it is the claim of an operation of this stripe.
    #[inline]
    fn is_of(&self, op: OpId, stripe: Stripe) -> bool {
        self.op == op && self.claim.stripe == stripe
    }

    /// One that it waited for is gone; if it was the last, its operation is told to `granted`.
    #[inline]
    fn unblock(&mut self, now: Nanos, waits: &mut [ClaimWait; Class::ALL.len()], granted: &mut impl FnMut(OpId)) {
        // Counting makes a release one pass over the line, instead of a test of each waiting claim against all
        // before it.
        self.blockers -= 1;
        if self.blockers == 0 {
            let waited = now.since(self.since);
            let wait = &mut waits[self.class as usize];
            wait.total += waited;
            wait.max = wait.max.max(waited);
            granted(self.op);
        }
    }
}

/// The line of a stripe among so many, a power of two.
#[inline]
const fn line_of(stripe: Stripe, lines: usize) -> usize {
    // Multiplied by 2⁶⁴ over the golden ratio, neighbouring stripes go to unrelated lines.
    (stripe.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (lines - 1)
}

/// The claims of all operations. FIFO per stripe: an operation waits for exactly those that came
/// before it and conflict with it, whether they hold or wait themselves. An operation has at most one claim of a stripe,
/// and makes all that it has at once, hence none waits for itself in a circle.
#[derive(Default)]
pub struct ClaimTable {
    /// The claims in the order in which they came, in lines by their stripes' hash, of which there are a power
    /// of two and no fewer than claims: few lines have more than one stripe.
    lines: Vec<Vec<Entry>>,
    claims: usize,
    waits: [ClaimWait; Class::ALL.len()],
}

impl ClaimTable {
    /// Queues a claim; whether it holds at once. An operation must not have two of one stripe, nor queue one after others
    /// have queued theirs since its first.
    pub fn claim(&mut self, now: Nanos, op: OpId, class: Class, claim: Claim) -> bool {
        // As many lines as claims keep each line short, so a pass over a line costs little.
        if self.claims == self.lines.len() {
            self.grow();
        }
        self.claims += 1;
        let queue = self.line(claim.stripe);
        debug_assert!(queue.iter().all(|entry| !entry.is_of(op, claim.stripe)), "{op:?} has a claim already");
        // Waiting claims count as well as held ones. Otherwise a stream of reads could keep a write waiting for
        // ever.
        let blockers = queue.iter().filter(|entry| entry.claim.conflicts(&claim)).count() as u32;
        queue.push(Entry { op, claim, class, since: now, blockers });
        let wait = &mut self.waits[class as usize];
        wait.claims += 1;
        wait.waited += u64::from(blockers > 0);
        blockers == 0
    }

    /// Queues a claim right behind that of another operation, in front of all that came later: for one that does a part of
    /// what an operation that holds its claim was to do. It waits for that one, too, unless they do not conflict.
    ///
    /// # Panics
    /// If an operation that came later holds what this one would have to wait for: the claim is not part of one that is held.
    pub fn claim_behind(&mut self, now: Nanos, behind: OpId, op: OpId, class: Class, claim: Claim) -> bool {
        if self.claims == self.lines.len() {
            self.grow();
        }
        self.claims += 1;
        let queue = self.line(claim.stripe);
        let at = queue.iter().position(|entry| entry.is_of(behind, claim.stripe)).expect("that one has a claim") + 1;
        for later in queue[at..].iter_mut().filter(|later| later.claim.conflicts(&claim)) {
            // Letting the new claim pass a holder would break the order of the stripe: the holder may have planned
            // already.
            assert!(later.blockers > 0, "{:?} holds what {op:?} would have to wait for", later.op);
            later.blockers += 1;
        }
        let blockers = queue[..at].iter().filter(|entry| entry.claim.conflicts(&claim)).count() as u32;
        queue.insert(at, Entry { op, claim, class, since: now, blockers });
        let wait = &mut self.waits[class as usize];
        wait.claims += 1;
        wait.waited += u64::from(blockers > 0);
        blockers == 0
    }

    /// Gives a claim back, held or not; `granted` is told of each operation whose claim holds from
    /// now on, in the order of the queue.
    pub fn release(&mut self, now: Nanos, op: OpId, stripe: Stripe, mut granted: impl FnMut(OpId)) {
        let line = line_of(stripe, self.lines.len());
        let queue = &mut self.lines[line];
        let at = queue.iter().position(|entry| entry.is_of(op, stripe)).expect("the operation has a claim");
        let gone = queue.remove(at);
        self.claims -= 1;
        // Earlier claims never wait for later ones, so only those that follow can be set free.
        for entry in &mut queue[at..] {
            if entry.claim.conflicts(&gone.claim) {
                entry.unblock(now, &mut self.waits, &mut granted);
            }
        }
    }

    /// Gives a part of a claim back that is held: from now on it is `to`. Those that come later and
    /// conflict with what was given back alone hold now. To give back all and claim anew would put
    /// the operation behind them.
    ///
    /// # Panics
    /// If the claim is not held, or `to` is not part of it.
    pub fn narrow(&mut self, now: Nanos, op: OpId, to: Claim, mut granted: impl FnMut(OpId)) {
        let line = line_of(to.stripe, self.lines.len());
        let queue = &mut self.lines[line];
        let at = queue.iter().position(|entry| entry.is_of(op, to.stripe)).expect("the operation has a claim");
        let from = std::mem::replace(&mut queue[at].claim, to);
        assert!(queue[at].blockers == 0 && to.is_within(&from), "{op:?} holds {from:?}, not {to:?}");
        // Giving back all and claiming anew would put the operation behind those that came meanwhile.
        for entry in &mut queue[at + 1..] {
            if entry.claim.conflicts(&from) && !entry.claim.conflicts(&to) {
                entry.unblock(now, &mut self.waits, &mut granted);
            }
        }
    }

    /// Offers the operations whose claims wait for nothing but the one that `op` holds and for such as were `taken` before,
    /// in the order of the queue. What is taken could have come with `op`: nobody stands between them.
    pub fn followers(&self, op: OpId, stripe: Stripe, mut taken: impl FnMut(OpId) -> bool) {
        if self.lines.is_empty() {
            return;
        }
        let queue = &self.lines[line_of(stripe, self.lines.len())];
        let Some(at) = queue.iter().position(|entry| entry.is_of(op, stripe)) else { return };
        // An operation that waits itself cannot take others along.
        if queue[at].blockers > 0 {
            return;
        }
        let first = queue[at].claim;
        // Nothing is taken for most, and then nothing is allocated.
        let mut together = Vec::new();
        for (index, entry) in queue.iter().enumerate().skip(at + 1) {
            // A claim that holds already has begun its own plan, and needs nobody to carry it out.
            if entry.blockers == 0 || entry.claim.stripe != stripe {
                continue;
            }
            // The claim may wait for `op` and for taken ones alone. Waiting for anybody else would mean that it
            // overtakes.
            let conflicts = |&&before: &&usize| queue[before].claim.conflicts(&entry.claim);
            let before = usize::from(first.conflicts(&entry.claim)) + together.iter().filter(conflicts).count();
            if before == entry.blockers as usize && taken(entry.op) {
                together.push(index);
            }
        }
    }

    /// The line of a stripe.
    fn line(&mut self, stripe: Stripe) -> &mut Vec<Entry> {
        let line = line_of(stripe, self.lines.len());
        &mut self.lines[line]
    }

    #[cold]
    fn grow(&mut self) {
        let lines = (2 * self.lines.len()).max(64);
        let before = std::mem::replace(&mut self.lines, std::iter::repeat_with(Vec::new).take(lines).collect());
        // Claims of one stripe keep their order, since each goes to the same line as before.
        for entry in before.into_iter().flatten() {
            self.line(entry.claim.stripe).push(entry);
        }
    }

    /// Claims that are held or wait.
    pub const fn len(&self) -> usize {
        self.claims
    }

    /// Returns true if nothing is claimed.
    pub const fn is_empty(&self) -> bool {
        self.claims == 0
    }

    /// Time waited, by [`Class`].
    pub const fn waits(&self) -> &[ClaimWait; Class::ALL.len()] {
        &self.waits
    }
}
