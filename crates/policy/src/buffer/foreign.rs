//! A policy that is written elsewhere, and says only which pages leave.
//!
//! Idea: whoever tries an idea decides which pages leave, and nothing else. What is held, what is dirty, what a flush
//! and a trim do is kept here, once, so that a [`PageChooser`] cannot get it wrong, and one that breaks the rules is stopped
//! with a message in place of a wrong result.

use std::sync::Arc;

use destage_plan::PageNo;

use super::{
    AccessOutcome, BufferConfig, BufferNotice, BufferPolicy, DeviceView, EvictionKind, EvictionUnit, EvictionVeto,
    Evictions, PageAccess,
};

/// Chooses the pages that leave a buffer.
pub trait PageChooser: Send {
    /// A page is accessed, which is `held` or not. The victims for it go into `victims`. Whether the page is let in; of a
    /// page that is held the answer does not matter.
    ///
    /// # Errors
    /// Why the run has to end. The chooser is not asked again.
    fn access(&mut self, access: PageAccess, held: bool, victims: &mut VictimList) -> Result<bool, ChooserFailed>;

    /// A victim is to leave, as for a page that is about to come in.
    ///
    /// # Errors
    /// As [`Self::access`].
    fn evict(&mut self, victims: &mut VictimList) -> Result<(), ChooserFailed>;

    /// Returns true if a page that is not held would be let in.
    ///
    /// # Errors
    /// Fails as [`Self::access`] does.
    fn admits(&self, access: PageAccess) -> Result<bool, ChooserFailed>;

    /// The page has left without having been chosen: its content is no longer needed, or it was written past the buffer.
    ///
    /// # Errors
    /// As [`Self::access`].
    fn trimmed(&mut self, page: PageNo) -> Result<(), ChooserFailed>;

    /// These pages were written, and are held as clean ones.
    ///
    /// # Errors
    /// As [`Self::access`].
    fn cleaned(&mut self, pages: &[PageNo]) -> Result<(), ChooserFailed>;

    /// Tells the chooser that an answer broke the rules; the message says how.
    fn broke(&self, message: String);
}

/// A chooser has failed, and whoever made it knows why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChooserFailed;

/// The victims that a [`PageChooser`] names: units of pages.
#[derive(Clone, Debug, Default)]
pub struct VictimList {
    pages: Vec<u64>,
    /// Holds the end of each unit in `pages`.
    ends: Vec<usize>,
}

impl VictimList {
    /// Adds a page to the unit in the making.
    pub fn page(&mut self, page: u64) {
        self.pages.push(page);
    }

    /// Ends the unit: what leaves at once, a page or those of a block.
    pub fn end_unit(&mut self) {
        self.ends.push(self.pages.len());
    }

    fn clear(&mut self) {
        self.pages.clear();
        self.ends.clear();
    }

    /// The pages of each unit.
    fn units(&self) -> impl Iterator<Item = &[u64]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.pages[start..end])
    }
}

/// A policy that is written elsewhere, by the name that an experiment calls it by.
#[derive(Clone)]
pub struct ForeignPolicy {
    /// The name, which is no listed policy's.
    pub name: String,
    /// Selects the unit that leaves at once.
    pub unit: EvictionUnit,
    /// Makes a chooser for each run.
    pub make: MakeChooser,
}

/// Makes a chooser for a buffer of this size.
pub type MakeChooser = Arc<dyn Fn(BufferConfig) -> Result<Box<dyn PageChooser>, ChooserFailed> + Send + Sync>;

impl std::fmt::Debug for ForeignPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForeignPolicy").field("name", &self.name).field("unit", &self.unit).finish_non_exhaustive()
    }
}

/// Says whether a page is held, and if it is dirty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PageState {
    #[default]
    Away,
    Clean,
    Dirty,
}

/// The buffer around a chooser.
pub struct ForeignBuffer {
    chooser: Box<dyn PageChooser>,
    unit: EvictionUnit,
    capacity: u32,
    pages_per_block: u32,
    held: u32,
    pages: Vec<PageState>,
    victims: VictimList,
    /// Is true after an error: the chooser is not asked any more, and the run's result means nothing.
    failed: bool,
}

impl ForeignPolicy {
    /// The policy's buffer.
    ///
    /// # Errors
    /// Fails where the policy cannot be made; its maker knows why.
    pub fn build(&self, config: BufferConfig) -> Result<ForeignBuffer, ChooserFailed> {
        Ok(ForeignBuffer {
            chooser: (self.make)(config)?,
            unit: self.unit,
            capacity: config.capacity_pages,
            pages_per_block: config.pages_per_block,
            held: 0,
            pages: Vec::new(),
            victims: VictimList::default(),
            failed: false,
        })
    }
}

impl ForeignBuffer {
    fn state(&self, page: PageNo) -> PageState {
        self.pages[page.0 as usize]
    }

    /// Returns the chooser's answer, or none after an error, which ends the questions.
    fn heard<T>(&mut self, answer: Result<T, ChooserFailed>) -> Option<T> {
        // A chooser that failed once is not asked again: its state is no longer known.
        self.failed |= answer.is_err();
        answer.ok()
    }

    fn refuse(&mut self, message: String) {
        self.failed = true;
        self.chooser.broke(message);
    }

    /// Takes the victims out, for the page `coming` if there is one. Whether all of them could leave.
    fn give_up(&mut self, coming: Option<PageNo>, out: &mut Evictions) -> bool {
        // The list is taken out so that the pages can be given up, and put back for its memory.
        let victims = std::mem::take(&mut self.victims);
        let wrong = victims.units().find_map(|unit| self.give_up_unit(unit, coming, out).err());
        self.victims = victims;
        self.victims.clear();
        if let Some(wrong) = wrong {
            self.refuse(wrong);
            return false;
        }
        true
    }

    fn give_up_unit(&mut self, unit: &[u64], coming: Option<PageNo>, out: &mut Evictions) -> Result<(), String> {
        if self.unit == EvictionUnit::Page && unit.len() > 1 {
            return Err(format!(
                "evicts {} pages as one victim, which only a policy that evicts blocks does",
                unit.len()
            ));
        }
        let block = |page: u64| page / u64::from(self.pages_per_block);
        if let Some(other) = unit.iter().find(|&&page| block(page) != block(unit[0])) {
            return Err(format!("evicts pages {} and {other} as one victim, which are of different blocks", unit[0]));
        }
        let (mut clean, mut dirty) = (Vec::new(), Vec::new());
        for &number in unit {
            let page = u32::try_from(number).ok().filter(|&page| (page as usize) < self.pages.len()).map(PageNo);
            let state = page.map_or(PageState::Away, |page| self.state(page));
            let Some(page) = page.filter(|_| state != PageState::Away) else {
                let accessed = coming.map_or_else(String::new, |page| format!(" at the access to page {}", page.0));
                return Err(format!("evicts page {number}{accessed}, which is not in the buffer"));
            };
            if coming == Some(page) {
                // A hit needs its page to stay.
                return Err(format!("evicts page {number} at the access to that page, which is a hit"));
            }
            // The page is gone before the next one is checked, so that a page named twice is found.
            self.pages[page.0 as usize] = PageState::Away;
            self.held -= 1;
            if state == PageState::Dirty { dirty.push(page) } else { clean.push(page) }
        }
        match (self.unit, &dirty[..], &clean[..]) {
            (EvictionUnit::Page, &[page], _) => out.page(EvictionKind::Flush, page),
            (EvictionUnit::Page, _, &[page]) => out.page(EvictionKind::Drop, page),
            _ => {
                let written = out.group(EvictionKind::Flush, dirty.into_iter());
                if out.group(EvictionKind::Drop, clean.into_iter()) || written {
                    out.end_unit();
                }
            }
        }
        Ok(())
    }

    fn clean(&mut self, pages: &[PageNo], out: &mut Evictions) {
        for page in pages {
            self.pages[page.0 as usize] = PageState::Clean;
        }
        match self.unit {
            EvictionUnit::Page => pages.iter().for_each(|&page| out.page(EvictionKind::Clean, page)),
            EvictionUnit::Block => {
                let block = |page: &PageNo| page.0 / self.pages_per_block;
                for of_block in pages.chunk_by(|a, b| block(a) == block(b)) {
                    out.group(EvictionKind::Clean, of_block.iter().copied());
                    out.end_unit();
                }
            }
        }
        // The pages are written even where the chooser has failed: a host's flush must not lose them.
        if !self.failed && !pages.is_empty() {
            let answer = self.chooser.cleaned(pages);
            self.heard(answer);
        }
    }
}

impl BufferPolicy for ForeignBuffer {
    fn grow(&mut self, pages: u32) {
        if self.pages.len() < pages as usize {
            self.pages.resize(pages as usize, PageState::Away);
        }
    }

    fn access<D: DeviceView, V: EvictionVeto>(
        &mut self,
        access: PageAccess,
        _device: &D,
        _veto: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome {
        if self.failed {
            return AccessOutcome::Bypassed;
        }
        let before = self.state(access.page);
        let held = before != PageState::Away;
        let answer = self.chooser.access(access, held, &mut self.victims);
        let Some(lets_in) = self.heard(answer) else { return AccessOutcome::Bypassed };
        if !self.give_up(Some(access.page), out) {
            return AccessOutcome::Bypassed;
        }
        let after = if access.write || before == PageState::Dirty { PageState::Dirty } else { PageState::Clean };
        if held {
            self.pages[access.page.0 as usize] = after;
            return AccessOutcome::Hit;
        }
        if !lets_in {
            return AccessOutcome::Bypassed;
        }
        if self.held == self.capacity {
            let pages = self.capacity;
            self.refuse(format!(
                "lets page {} in while the buffer is full: it holds {pages} pages, so that one has to leave first",
                access.page.0
            ));
            return AccessOutcome::Bypassed;
        }
        self.held += 1;
        self.pages[access.page.0 as usize] = after;
        AccessOutcome::Inserted
    }

    fn evict<D: DeviceView, V: EvictionVeto>(&mut self, _device: &D, _veto: &mut V, out: &mut Evictions) -> bool {
        if self.failed || self.held == 0 {
            return false;
        }
        let before = self.held;
        let answer = self.chooser.evict(&mut self.victims);
        if self.heard(answer).is_none() || !self.give_up(None, out) {
            return false;
        }
        // An eviction that frees nothing would be asked for forever.
        if self.held == before {
            self.refuse(format!("evicts nothing, though it is asked to and the buffer holds {before} pages"));
        }
        self.held < before
    }

    fn notify<D: DeviceView, V: EvictionVeto>(&mut self, notice: BufferNotice, _: &D, _: &mut V, out: &mut Evictions) {
        match notice {
            BufferNotice::GcEnd { .. } | BufferNotice::Idle | BufferNotice::Resume { .. } => {}
            BufferNotice::Destage { page, .. } => {
                if self.state(page) == PageState::Dirty {
                    self.clean(&[page], out);
                }
            }
            BufferNotice::Flush => {
                let dirty = (0..).zip(&self.pages).filter(|(_, state)| **state == PageState::Dirty);
                let dirty: Vec<_> = dirty.map(|(page, _)| PageNo(page)).collect();
                self.clean(&dirty, out);
            }
            BufferNotice::Trim { page } => {
                if self.state(page) != PageState::Away {
                    self.pages[page.0 as usize] = PageState::Away;
                    self.held -= 1;
                    out.page(EvictionKind::Drop, page);
                    if !self.failed {
                        let answer = self.chooser.trimmed(page);
                        self.heard(answer);
                    }
                }
            }
        }
    }

    fn admits(&self, access: PageAccess) -> bool {
        !self.failed && self.state(access.page) == PageState::Away && self.chooser.admits(access).unwrap_or(false)
    }

    fn len(&self) -> u32 {
        self.held
    }

    /// Nobody counts them where the policy is.
    fn memory_accesses(&self) -> u64 {
        0
    }
}
