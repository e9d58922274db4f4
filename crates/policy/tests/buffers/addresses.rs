//! Tests that policies which go by addresses do so under any numbering of blocks, if they are told which
//! blocks are neighbours.

use std::collections::BTreeMap;

use destage_plan::PageNo;
use destage_policy::buffer::{BlockBorder, BufferConfig, BufferNotice, PageAccess, layers, policies};

use crate::driven::{Driven, driven};
use crate::models::Left;
use crate::workload::{Mix, Op, PATTERNS, Workload};

/// A policy whose blocks are numbered by first touch.
struct Renumbered {
    policy: Box<dyn Driven>,
    pages_per_block: u32,
    /// Block by address → number.
    numbers: BTreeMap<u32, u32>,
    /// Number → block by address.
    addresses: Vec<u32>,
}

impl Renumbered {
    fn new(spec: &str, config: BufferConfig) -> Self {
        let mut policy = driven(spec, config, 0);
        policy.learn_borders(&[]);
        let (numbers, addresses) = (BTreeMap::new(), Vec::new());
        Self { policy, pages_per_block: config.pages_per_block, numbers, addresses }
    }

    /// The page with this address; its block gets a number.
    fn number(&mut self, address: PageNo) -> PageNo {
        let n = self.pages_per_block;
        let block = address.0 / n;
        if !self.numbers.contains_key(&block) {
            let number = self.addresses.len() as u32;
            self.numbers.insert(block, number);
            self.addresses.push(block);
            self.policy.grow((number + 1) * n);
            let before = block.checked_sub(1).and_then(|before| self.numbers.get(&before));
            let before = before.map(|&before| BlockBorder { before, after: number });
            let after = self.numbers.get(&(block + 1)).map(|&after| BlockBorder { before: number, after });
            let borders: Vec<BlockBorder> = before.into_iter().chain(after).collect();
            self.policy.learn_borders(&borders);
        }
        PageNo(self.numbers[&block] * n + address.0 % n)
    }

    /// The addresses of what left.
    fn addressed(&self, mut left: Vec<Left>) -> Vec<Left> {
        let n = self.pages_per_block;
        for page in left.iter_mut().flat_map(|group| &mut group.pages) {
            *page = self.addresses[(*page / n) as usize] * n + *page % n;
        }
        left
    }
}

#[test]
fn cawr_follows_addresses_across_the_borders_of_blocks() {
    let mut crossings = 0;
    for spec in ["cawr", "cawr:cdl_max=16", "cawr:cawr_seq=any", "cawr:cawr_seq=same_block", "gcar+cawr"] {
        for (pages_per_block, capacity_pages) in [(1, 30), (2, 9), (4, 40), (16, 100)] {
            for (seed, pattern) in (7000..).zip(PATTERNS) {
                let config = BufferConfig { capacity_pages, pages_per_block, elements: 4 };
                let pages = 2 * capacity_pages + 3 * pages_per_block;
                let mut by_address = driven(spec, config, pages + 2 * pages_per_block);
                let mut renumbered = Renumbered::new(spec, config);
                // Blocks are first touched in another order than that of their addresses, and two
                // are never.
                let half = pages / 2 / pages_per_block;
                let place = |page: PageNo| {
                    PageNo(if page.0 / pages_per_block < half { page.0 } else { page.0 + 2 * pages_per_block })
                };
                for block in (0..pages / pages_per_block).rev().step_by(2) {
                    renumbered.number(place(PageNo(block * pages_per_block)));
                }
                for op in Workload::new(seed, pattern, Mix::ALL, pages).take(3000) {
                    let (mut left, mut expected) = (Vec::new(), Vec::new());
                    let outcomes = match op {
                        Op::Access(PageAccess { page, write }) => {
                            let page = place(page);
                            let access = PageAccess { page: renumbered.number(page), write };
                            let outcome = by_address.access(PageAccess { page, write }, &mut expected);
                            (Some(renumbered.policy.access(access, &mut left)), Some(outcome))
                        }
                        Op::Notify(notice) => {
                            let (there, here) = match notice {
                                BufferNotice::Trim { page } => {
                                    let page = place(page);
                                    (BufferNotice::Trim { page: renumbered.number(page) }, BufferNotice::Trim { page })
                                }
                                BufferNotice::Destage { page, keep } => {
                                    let page = place(page);
                                    let there = renumbered.number(page);
                                    (BufferNotice::Destage { page: there, keep }, BufferNotice::Destage { page, keep })
                                }
                                other => (other, other),
                            };
                            renumbered.policy.notify(there, &mut left);
                            by_address.notify(here, &mut expected);
                            (None, None)
                        }
                    };
                    assert_eq!(outcomes.0, outcomes.1, "{spec} {config:?} seed {seed}: {op:?}");
                    assert_eq!(renumbered.addressed(left), expected, "{spec} {config:?} seed {seed}: {op:?}");
                    assert_eq!(renumbered.policy.memory_accesses(), by_address.memory_accesses(), "{spec} {config:?}");
                }
                let numbers = renumbered.numbers.values().zip(renumbered.numbers.values().skip(1));
                crossings += numbers.filter(|(a, b)| **a + 1 != **b).count();
            }
        }
    }
    assert!(crossings > 1000, "{crossings} borders between blocks whose numbers do not follow each other");
}

/// Layers pass on what the policy inside asks for.
#[test]
fn only_cawr_compares_addresses() {
    let config = BufferConfig { capacity_pages: 4, pages_per_block: 4, elements: 2 };
    for policy in policies() {
        let own = driven(policy.name, config, 0).compares_addresses();
        assert_eq!(own, policy.name == "cawr", "{}", policy.name);
        for layer in layers().iter().filter(|layer| layer.goes_over(policy)) {
            let spec = format!("{}+{}", layer.name, policy.name);
            assert_eq!(driven(&spec, config, 0).compares_addresses(), own, "{spec}");
        }
    }
}
