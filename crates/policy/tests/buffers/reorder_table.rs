//! CAWR's Table 1 as far as it speaks of single evictions (specs §6.6): which policies spare dirty
//! pages for their writes' sake, and which look at what pages have been written.

use destage_policy::buffer::{BufferConfig, EvictionKind, EvictionUnit, PageAccess, policies};

use crate::driven::driven;
use crate::models::Left;

const CAPACITY: u32 = 8;

/// Returns the groups that `spec` evicts for fresh pages after `accesses`, one read each time.
fn victims(spec: &str, accesses: &[PageAccess], evictions: u32) -> Vec<Left> {
    let config = BufferConfig { capacity_pages: CAPACITY, pages_per_block: 4, elements: 1 };
    let mut policy = driven(spec, config, 1000);
    let mut left = Vec::new();
    for access in accesses {
        policy.access(*access, &mut left);
    }
    assert_eq!(left, [], "{spec}: the buffer is not full before");
    assert_eq!(policy.len(), CAPACITY);
    for fresh in 0..evictions {
        policy.access(PageAccess::read(900 + 4 * fresh), &mut left);
    }
    left
}

/// At equal recency a clean page leaves before a dirty one: of two pages used one right after the
/// other, in either order.
#[test]
fn read_write_asymmetry() {
    let asymmetry = [
        ("lru", false),
        ("ref", false),
        ("fab", false),
        ("cflru", true),
        ("cflru:window=adaptive", true),
        ("lru-wsr", true),
        ("ccf-lru", true),
        ("ccf-lru:hot_clean=spare", true),
    ];
    for (spec, expected) in asymmetry {
        // Of other blocks each, so that FAB has no larger block.
        let rest: Vec<PageAccess> = (3..=CAPACITY).map(|block| PageAccess::write(4 * block)).collect();
        let orders = [[PageAccess::write(4), PageAccess::read(8)], [PageAccess::read(8), PageAccess::write(4)]];
        let clean_first = orders.iter().all(|pair| {
            let accesses: Vec<PageAccess> = pair.iter().chain(&rest).copied().collect();
            victims(spec, &accesses, 1) == [Left::unit(EvictionKind::Drop, &[8])]
        });
        assert_eq!(clean_first, expected, "{spec}");
    }
}

/// A page whose block was evicted from leaves before a less recently used one of another block,
/// although both would be written alike.
#[test]
fn write_pattern() {
    let looks_at_blocks =
        [("ref", true), ("fab", true), ("lru", false), ("cflru", false), ("lru-wsr", false), ("ccf-lru", false)];
    for (spec, expected) in looks_at_blocks {
        let accesses = [0, 4, 1, 8, 12, 16, 20, 24].map(PageAccess::write);
        let pages: Vec<u32> = victims(spec, &accesses, 2).into_iter().flat_map(|group| group.pages).take(2).collect();
        let same_block = pages == [0, 1];
        assert_eq!(same_block, expected, "{spec} evicts {pages:?}");
    }
}

/// Every page-level policy gives up one page at a time: no parallelism.
#[test]
fn one_page_at_a_time() {
    let all = policies().iter().filter(|policy| policy.unit == EvictionUnit::Page && !policy.chooses_channels);
    for spec in all.map(|policy| policy.name).filter(|name| *name != "none") {
        let accesses: Vec<PageAccess> = (0..CAPACITY).map(|page| PageAccess::write(3 * page)).collect();
        let config = BufferConfig { capacity_pages: CAPACITY, pages_per_block: 4, elements: 4 };
        let mut policy = driven(spec, config, 1000);
        let mut left = Vec::new();
        for access in accesses {
            policy.access(access, &mut left);
        }
        for fresh in 0..3 * CAPACITY {
            left.clear();
            policy.access(PageAccess::write(800 + fresh), &mut left);
            assert_eq!(left.len(), 1, "{spec}");
            assert_eq!((left[0].pages.len(), left[0].units, &left[0].channels), (1, 1, &None), "{spec}");
        }
    }
}
