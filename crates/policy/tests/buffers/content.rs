//! Derives the content that a buffer must have from its own answers alone, and checks the laws that these
//! answers must obey.

use std::collections::BTreeMap;

use destage_policy::buffer::{AccessOutcome, BufferNotice, EvictionKind, PageAccess};

use crate::models::Left;

/// The pages in a buffer and what has happened to them.
#[derive(Default)]
pub(crate) struct Content {
    /// Page → dirty.
    pub(crate) pages: BTreeMap<u32, bool>,
    /// Dirtying episodes begun, per page: a write that finds the page clean or missing and is
    /// admitted.
    pub(crate) begun: BTreeMap<u32, u64>,
    /// Dirtying episodes ended by a flush, a cleaning, or a trim, per page.
    pub(crate) ended: BTreeMap<u32, u64>,
    pub(crate) pages_in: u64,
    pub(crate) pages_out: u64,
    pub(crate) writes_admitted: u64,
    pub(crate) write_hits: u64,
    pub(crate) dirty_insertions: u64,
}

impl Content {
    /// Takes in what an access did.
    pub(crate) fn access(&mut self, access: PageAccess, outcome: AccessOutcome, left: &[Left]) {
        let page = access.page.0;
        let held = self.pages.contains_key(&page);
        assert_eq!(outcome == AccessOutcome::Hit, held, "{access:?} is a {outcome:?}");
        if outcome != AccessOutcome::Inserted {
            assert_eq!(left, [], "{access:?} is a {outcome:?} and needs no room");
        }
        for group in left {
            assert_ne!(group.kind, EvictionKind::Clean, "an eviction keeps nothing");
            self.leave(group, false);
        }
        if outcome == AccessOutcome::Bypassed {
            return;
        }
        self.writes_admitted += u64::from(access.write);
        if outcome == AccessOutcome::Inserted {
            self.pages_in += 1;
            self.dirty_insertions += u64::from(access.write);
        } else {
            self.write_hits += u64::from(access.write);
        }
        let dirty = self.pages.entry(page).or_insert(false);
        if access.write && !*dirty {
            *dirty = true;
            *self.begun.entry(page).or_default() += 1;
        }
    }

    /// Takes in what left on demand.
    pub(crate) fn evicted(&mut self, left: &[Left]) {
        for group in left {
            self.leave(group, false);
        }
    }

    /// Takes in what a notice did.
    pub(crate) fn notify(&mut self, notice: BufferNotice, left: &[Left]) {
        let trim = matches!(notice, BufferNotice::Trim { .. });
        for group in left {
            self.leave(group, trim);
        }
        match notice {
            BufferNotice::Flush => assert!(self.pages.values().all(|dirty| !dirty), "a flush leaves a dirty page"),
            BufferNotice::Trim { page } => assert!(!self.pages.contains_key(&page.0), "a trimmed page stays"),
            BufferNotice::Destage { page, .. } => {
                assert_ne!(self.pages.get(&page.0), Some(&true), "dirty after it was destaged");
            }
            BufferNotice::GcEnd { .. } | BufferNotice::Resume { .. } | BufferNotice::Idle => assert_eq!(left, []),
        }
    }

    fn leave(&mut self, group: &Left, trim: bool) {
        assert!(!group.pages.is_empty());
        let one_unit = group.channels.is_none();
        assert!(!one_unit || group.pages.is_sorted_by(|a, b| a < b), "{group:?} is not ascending");
        for page in &group.pages {
            if group.kind == EvictionKind::Pad {
                assert_eq!(group.units, 0, "padding without the pages it pads");
                assert!(!self.pages.contains_key(page), "page {page} is buffered and padded");
                continue;
            }
            let dirty = self.pages.get(page).copied().unwrap_or_else(|| panic!("page {page} leaves and was not there"));
            match group.kind {
                EvictionKind::Drop => assert!(trim || !dirty, "dirty page {page} is dropped"),
                _ => assert!(dirty, "clean page {page} is written"),
            }
            if dirty {
                *self.ended.entry(*page).or_default() += 1;
            }
            if group.kind == EvictionKind::Clean {
                self.pages.insert(*page, false);
            } else {
                self.pages.remove(page);
                self.pages_out += 1;
            }
        }
    }

    /// Specs §12.3 and §12.4, at any time.
    pub(crate) fn check_laws(&self) {
        assert_eq!(self.pages_in, self.pages_out + self.pages.len() as u64, "pages in = pages out + pages held");
        assert_eq!(self.dirty_insertions + self.write_hits, self.writes_admitted);
        for (page, begun) in &self.begun {
            let open = u64::from(self.pages.get(page).copied().unwrap_or(false));
            let ended = self.ended.get(page).copied().unwrap_or(0);
            assert_eq!(*begun, ended + open, "episodes of page {page}");
        }
    }
}
