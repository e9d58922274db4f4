//! Tests the accesses and evictions that policies announce, so that they can be fetched from memory ahead.

use destage_policy::buffer::{BufferConfig, policies};

use crate::driven::driven;
use crate::models::Left;
use crate::workload::{Mix, Op, PATTERNS, Workload};

const MOST: usize = 7;

/// Drives a policy; before each access it is asked ahead. `check` is given the pages that it named,
/// how many it held, and what left.
fn drive(policy: &str, mut check: impl FnMut(&[u32], u32, &[Left])) {
    let config = BufferConfig { capacity_pages: 40, pages_per_block: 4, elements: 2 };
    let pages = 160;
    for (seed, pattern) in (1_u64..).zip(PATTERNS) {
        let mut buffer = driven(policy, config, pages);
        let mut left = Vec::new();
        for op in Workload::new(seed, pattern, Mix::ALL, pages).take(2_000) {
            match op {
                Op::Access(access) => {
                    let (named, held) = (buffer.look_ahead(access.page.0, MOST), buffer.len());
                    buffer.access(access, &mut left);
                    check(&named, held, &left);
                }
                Op::Notify(notice) => buffer.notify(notice, &mut left),
            }
            left.clear();
        }
    }
}

#[test]
fn any_policy_can_be_asked_ahead_for_any_page() {
    let plain = policies().iter().map(|info| info.name);
    let layered = ["gcar+lru", "gcar+lb-clock", "gate+lru", "cave+fab", "cawr+lb-clock", "gcar+cawr+bplru"];
    for policy in plain.chain(layered) {
        drive(policy, |named, held, _| {
            assert!(named.len() <= MOST.min(held as usize), "{policy}: {named:?} of {held}");
        });
    }
}

#[test]
fn lru_and_fifo_name_their_next_victims_from_the_first_on() {
    for policy in ["lru", "gcar+lru", "fifo", "gcar+fifo"] {
        let mut evicted = 0;
        drive(policy, |named, held, left| {
            assert_eq!(named.len(), MOST.min(held as usize), "{policy}");
            if let Some(victim) = left.first() {
                assert_eq!(victim.pages, named[..1], "{policy}");
                evicted += 1;
            }
        });
        assert!(evicted > 1_000, "{policy}: {evicted}");
    }
}
