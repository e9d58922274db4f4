//! Makes pages anew that members cannot read or do not hold: computes them from the others, writes, reads and flushes them.

use destage_plan::{
    BadPage, Buf, Claim, Class, Ext, NvSlot, OpId, Out, PageFate, PageReport, PutList, Row, Rows, Step, StepSet,
};

use super::bad_pages::BadPageState;
use super::{ArrayTask, PageVersions, RaidArray};

/// Holds what an operation makes anew.
#[derive(Clone, Copy)]
pub(super) struct PageRepair {
    page: BadPage,
    stage: RepairStage,
    /// Tells that an earlier life could not have the page kept, and that the member was not asked for it in this one.
    is_noted: bool,
}

/// Says how far the repair of a page has come.
#[derive(Clone, Copy)]
enum RepairStage {
    /// Waits for its claim, or has given up.
    Opened,
    /// Computes the page into this buffer.
    Computing(Buf),
    /// Stores the page: writes, reads and flushes it.
    Writing,
    /// Frees the slot that noted the page as missing.
    Freeing(NvSlot),
}

impl RaidArray {
    /// Opens the repair of a page. It holds its row alone.
    pub(super) fn open_repair(&mut self, page: BadPage, out: &mut Out) {
        self.open_repair_of(PageRepair { page, stage: RepairStage::Opened, is_noted: false }, out);
    }

    /// Opens the repair of a page that its member could not keep in an earlier life.
    pub(super) fn open_noted_repair(&mut self, page: BadPage, out: &mut Out) {
        self.open_repair_of(PageRepair { page, stage: RepairStage::Opened, is_noted: true }, out);
    }

    fn open_repair_of(&mut self, repair: PageRepair, out: &mut Out) {
        let page = repair.page;
        let (stripe, first) = self.config.geometry.stripe_of(Row(page.page));
        // No write may change the row between the computation and the write of the page.
        let claim = Claim { stripe, first, rows: 1, r: self.all, w: self.all };
        let op = out.open(Class::Rebuild, Some(claim), None);
        self.set_task(op, ArrayTask::Repair(repair));
        self.repairs += 1;
    }

    /// Opens the repair of all pages that recovery found, or an earlier life noted.
    pub(super) fn repair_all(&mut self, out: &mut Out) {
        for page in self.unreadable() {
            self.open_repair(page, out);
        }
    }

    /// Repairs the missing pages of rows that were written or filled in: that may have made it possible.
    pub(super) fn repair_missing(&mut self, rows: Rows, out: &mut Out) {
        self.members.bad.note_written(rows);
        for page in self.members.bad.missing_of(rows) {
            self.open_repair(page, out);
        }
    }

    /// Plans to compute the page.
    #[cold]
    pub(super) fn plan_repair(&mut self, op: OpId, repair: PageRepair, versions: &mut dyn PageVersions, out: &mut Out) {
        if !self.members.persisted() {
            self.waiting.push(op);
            return;
        }
        let page = repair.page;
        let fate_if_lost = match self.members.bad.state(page) {
            Some(BadPageState::Unreadable) => PageFate::Lost,
            Some(BadPageState::Missing(_)) => PageFate::Missing,
            // The member was lost meanwhile, or cannot keep the page; or another repair of the page has found it lost.
            Some(BadPageState::Unwritable | BadPageState::Lost) | None => return out.close(op),
        };
        let rows = Rows::new(Row(page.page), 1);
        let stripe = self.config.geometry.stripe_of(rows.first).0;
        let column = self.config.geometry.column(stripe, page.dev);
        if let Ok((src, ready)) = self.page_anew(op, rows, column, versions, out) {
            self.set_task(op, ArrayTask::Repair(PageRepair { stage: RepairStage::Computing(src), ..repair }));
            out.step_notify(op, Step::Join, ready);
            return;
        }
        if repair.is_noted {
            // The member may be able to read it again: it is asked with the next read.
            self.members.bad.remove(page);
        } else if self.members.bad.note_lost(page) {
            out.report(PageReport { page, fate: fate_if_lost });
        }
        versions.released(op);
        out.restart(op);
        out.close(op);
    }

    /// Plans what follows when the page is computed, or flushed.
    #[cold]
    pub(super) fn repair_goes_on(&mut self, op: OpId, repair: PageRepair, out: &mut Out) {
        let PageRepair { page, stage, .. } = repair;
        match (stage, self.members.bad.state(page)) {
            (RepairStage::Computing(src), Some(_)) => {
                // To compute it may have taken nearly all steps that an operation has.
                out.renew(op);
                // An attempt may fail without costing the member: the others still make up the page.
                out.attempt(op);
                self.set_task(op, ArrayTask::Repair(PageRepair { stage: RepairStage::Writing, ..repair }));
                self.row_cache.drop_rows(Rows::new(Row(page.page), 1));
                let ext = Ext::new(page.dev, page.page, 1);
                let column = self.config.geometry.column(self.config.geometry.stripe_of(Row(page.page)).0, page.dev);
                let step = Step::Write { ext, src, fua: false };
                let written = out.step_placed(op, step, self.stream_of(column), StepSet::EMPTY);
                let dst = out.tmp(op, 1);
                // The read checks that the member keeps the page.
                let read = out.step(op, Step::Read { ext, dst }, written);
                // Then nobody needs what is logged of the row.
                out.step_notify(op, Step::FlushDev { dev: page.dev }, read);
            }
            (RepairStage::Writing, Some(BadPageState::Missing(slot))) => {
                // The member holds the page durably. From now on the operation alone frees the slot.
                self.members.bad.remove(page);
                self.set_task(op, ArrayTask::Repair(PageRepair { stage: RepairStage::Freeing(slot), ..repair }));
                let frees = out.slots(op, &[slot]);
                out.step(op, Step::NvCommit { puts: PutList::EMPTY, frees }, StepSet::EMPTY);
                out.close(op);
            }
            // The page is made; or its member was lost meanwhile.
            _ => out.close(op),
        }
    }

    /// Begins again without the members and pages that failed, or gives up if the failed page is its own.
    #[cold]
    pub(super) fn repair_stuck(
        &mut self,
        op: OpId,
        repair: PageRepair,
        versions: &mut dyn PageVersions,
        out: &mut Out,
    ) {
        let page = repair.page;
        let gives_up = out.unreadable(op).contains(&page);
        // The member stays: it serves all other pages, and writes keep the row consistent.
        if gives_up && self.members.bad.give_up(page) {
            out.report(PageReport { page, fate: PageFate::Unwritable });
        }
        versions.released(op);
        out.restart(op);
        self.set_task(op, ArrayTask::Repair(PageRepair { stage: RepairStage::Opened, ..repair }));
        if gives_up {
            out.close(op);
        } else {
            out.again(op);
        }
    }

    /// Takes a page that was made off the list, and lets go on what waited for it.
    #[cold]
    pub(super) fn repair_done(&mut self, op: OpId, repair: PageRepair, versions: &mut dyn PageVersions, out: &mut Out) {
        let PageRepair { page, stage, .. } = repair;
        self.repairs -= 1;
        versions.released(op);
        let is_made = match stage {
            RepairStage::Opened | RepairStage::Computing(_) => false,
            RepairStage::Writing => self.members.bad.remove(page),
            RepairStage::Freeing(slot) => {
                self.slots.free(slot);
                true
            }
        };
        if is_made {
            self.stats.corrected_pages += 1;
            out.report(PageReport { page, fate: PageFate::Corrected });
            self.rebuild.go_on();
        }
        self.members.bad.ask_anew(Row(page.page));
        self.free_needless_logs(out);
        self.forget_exposed();
        self.rebuild_more(out);
        self.wake(out);
    }
}
