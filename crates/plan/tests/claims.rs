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

#[derive(Clone, Copy, Debug)]
enum Action {
    Claim(Claim),
    /// Of those that are there, counted around.
    Release(usize),
}

fn action() -> impl Strategy<Value = Action> {
    let claim = (0..3_u64, 0..6_u32, 1..4_u32, 0..32_u64, 0..32_u64).prop_map(|(stripe, first, rows, r, w)| {
        let (r, w) = (ColumnSet::from_bits(r), ColumnSet::from_bits(w));
        Action::Claim(Claim { stripe: Stripe(stripe), first, rows, r, w })
    });
    prop_oneof![claim, any::<usize>().prop_map(Action::Release)]
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
                Action::Release(_) => {}
            }
            prop_assert_eq!(table.len(), naive.queue.len());
            prop_assert_eq!(table.is_empty(), naive.queue.is_empty());
        }
        let wait = table.waits()[Class::Write as usize];
        prop_assert_eq!((wait.claims, wait.waited, wait.total, wait.max), (claims, waited, Nanos(total), Nanos(max)));
    }
}
