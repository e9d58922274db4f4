//! The claim table against a list that is searched from the beginning every time.

use destage_plan::{Claim, ClaimTable, Class, ColumnSet, Nanos, OpId, Stripe};
use proptest::prelude::*;

/// Claims in the order in which they were made, with what holds.
#[derive(Default)]
struct Naive {
    queue: Vec<(OpId, Claim, bool)>,
}

impl Naive {
    fn conflicts(a: &Claim, b: &Claim) -> bool {
        let rows = |claim: &Claim| claim.first..claim.first + claim.rows;
        let columns = (0..64).any(|column| {
            let has = |set: ColumnSet| set.bits() >> column & 1 != 0;
            has(a.w) && (has(b.r) || has(b.w)) || has(b.w) && has(a.r)
        });
        a.stripe == b.stripe && rows(a).any(|row| rows(b).contains(&row)) && columns
    }

    /// Lets everything hold that conflicts with nothing before it; what began to, in order.
    fn settle(&mut self) -> Vec<OpId> {
        let mut granted = Vec::new();
        for at in 0..self.queue.len() {
            let free = self.queue[..at].iter().all(|earlier| !Self::conflicts(&earlier.1, &self.queue[at].1));
            if free && !self.queue[at].2 {
                self.queue[at].2 = true;
                granted.push(self.queue[at].0);
            }
        }
        granted
    }

    fn claim(&mut self, op: OpId, claim: Claim) -> bool {
        self.queue.push((op, claim, false));
        !self.settle().is_empty()
    }

    fn release(&mut self, at: usize) -> Vec<OpId> {
        self.queue.remove(at);
        self.settle()
    }
}

impl Naive {
    fn claim_behind(&mut self, at: usize, op: OpId, claim: Claim) -> bool {
        self.queue.insert(at + 1, (op, claim, false));
        !self.settle().is_empty()
    }

    fn narrow(&mut self, at: usize, to: Claim) -> Vec<OpId> {
        self.queue[at].1 = to;
        self.settle()
    }
}

impl Naive {
    /// Returns the operations that wait for the one at a place and for such as were taken before them, and for nothing else; every
    /// third is not taken.
    fn followers(&self, at: usize) -> Vec<OpId> {
        let (mut together, mut offered) = (vec![at], Vec::new());
        for (index, (op, claim, _)) in self.queue.iter().enumerate().skip(at + 1) {
            let mut before = (0..index).filter(|earlier| Self::conflicts(&self.queue[*earlier].1, claim)).peekable();
            if before.peek().is_some() && before.all(|earlier| together.contains(&earlier)) {
                offered.push(*op);
                if op.0 % 3 > 0 {
                    together.push(index);
                }
            }
        }
        offered
    }
}

/// A part of a claim: fewer rows and columns.
fn part(claim: Claim, less: u64) -> Claim {
    let rows = 1 + (less % u64::from(claim.rows)) as u32;
    let mask = |set: ColumnSet, bits: u64| ColumnSet::from_bits(set.bits() & bits);
    let first = claim.first + (less / 7 % u64::from(claim.rows - rows + 1)) as u32;
    Claim { first, rows, r: mask(claim.r, less / 64), w: mask(claim.w, less / 2048), ..claim }
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Claim(Claim),
    /// Of those that are there, counted around.
    Release(usize),
    /// Of those that hold, counted around; by how much.
    Narrow(usize, u64),
    /// Claims behind one of those that hold, counted around: a part of its claim, and by how much less that is.
    Behind(usize, u64),
}

fn action() -> impl Strategy<Value = Action> {
    let claim = (0..3_u64, 0..6_u32, 1..4_u32, 0..32_u64, 0..32_u64).prop_map(|(stripe, first, rows, r, w)| {
        let (r, w) = (ColumnSet::from_bits(r), ColumnSet::from_bits(w));
        Action::Claim(Claim { stripe: Stripe(stripe), first, rows, r, w })
    });
    prop_oneof![
        2 => claim,
        1 => any::<usize>().prop_map(Action::Release),
        1 => (any::<usize>(), any::<u64>()).prop_map(|(which, less)| Action::Narrow(which, less)),
        1 => (any::<usize>(), any::<u64>()).prop_map(|(which, less)| Action::Behind(which, less)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("DESTAGE_SOAK").is_some() { 100_000 } else { 2_000 }))]

    #[test]
    fn claims_hold_in_the_order_in_which_they_were_made(actions in prop::collection::vec(action(), 1..80)) {
        let (mut table, mut naive) = (ClaimTable::default(), Naive::default());
        let (mut now, mut next) = (0_u64, 0);
        let mut since = std::collections::BTreeMap::new();
        let (mut claims, mut waited, mut total, mut max) = (0, 0, 0, 0);
        for action in actions {
            now += 10;
            match action {
                Action::Claim(claim) => {
                    let op = OpId(next);
                    next += 1;
                    let holds = naive.claim(op, claim);
                    prop_assert_eq!(table.claim(Nanos(now), op, Class::Write, claim), holds);
                    claims += 1;
                    waited += u64::from(!holds);
                    since.insert(op, now);
                }
                Action::Release(at) if !naive.queue.is_empty() => {
                    let at = at % naive.queue.len();
                    let (op, claim, _) = naive.queue[at];
                    let granted = naive.release(at);
                    let mut told = Vec::new();
                    table.release(Nanos(now), op, claim.stripe, |op| told.push(op));
                    for op in &granted {
                        total += now - since[op];
                        max = max.max(now - since[op]);
                    }
                    prop_assert_eq!(told, granted);
                }
                Action::Narrow(which, less) if naive.queue.iter().any(|entry| entry.2) => {
                    let held: Vec<usize> = (0..naive.queue.len()).filter(|at| naive.queue[*at].2).collect();
                    let at = held[which % held.len()];
                    let (op, claim, _) = naive.queue[at];
                    let to = part(claim, less);
                    let granted = naive.narrow(at, to);
                    let mut told = Vec::new();
                    table.narrow(Nanos(now), op, to, |op| told.push(op));
                    for op in &granted {
                        total += now - since[op];
                        max = max.max(now - since[op]);
                    }
                    prop_assert_eq!(told, granted);
                }
                Action::Behind(which, less) if naive.queue.iter().any(|entry| entry.2) => {
                    let held: Vec<usize> = (0..naive.queue.len()).filter(|at| naive.queue[*at].2).collect();
                    let at = held[which % held.len()];
                    let (holder, claim, _) = naive.queue[at];
                    // What the holder writes may be read.
                    let part = part(Claim { r: claim.r | claim.w, ..claim }, less);
                    let op = OpId(next);
                    next += 1;
                    let holds = naive.claim_behind(at, op, part);
                    prop_assert_eq!(table.claim_behind(Nanos(now), holder, op, Class::Write, part), holds);
                    claims += 1;
                    waited += u64::from(!holds);
                    since.insert(op, now);
                }
                Action::Release(_) | Action::Narrow(..) | Action::Behind(..) => {}
            }
            for (at, (op, claim, holds)) in naive.queue.iter().enumerate() {
                let mut offered = Vec::new();
                table.followers(*op, claim.stripe, |other| {
                    offered.push(other);
                    other.0 % 3 > 0
                });
                prop_assert_eq!(offered, if *holds { naive.followers(at) } else { Vec::new() });
            }
            prop_assert_eq!(table.len(), naive.queue.len());
            prop_assert_eq!(table.is_empty(), naive.queue.is_empty());
        }
        let wait = table.waits()[Class::Write as usize];
        prop_assert_eq!((wait.claims, wait.waited, wait.total, wait.max), (claims, waited, Nanos(total), Nanos(max)));
    }
}
