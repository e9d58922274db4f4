//! A start that was refused over lost data, made with the losses accepted that it names.

use std::collections::BTreeSet;

use destage_exec::{NextStep, ReplacementContent};
use destage_plan::{DevSet, HostNotice, HostOp, HostRequest, PageRange, Refusal, Status};
use destage_raid::array::ArrayConfig;

use super::{HistoryRun, PATIENCE};
use crate::RandomDraws;
use crate::cell::{PAGE, PAGE_SECTORS};

/// Starts within which all losses of arrays as small as these are named.
const STARTS: u32 = 100;

impl HistoryRun<'_> {
    /// Starts the array with the losses accepted that the refusal names, as often as it names
    /// others: then everything else is there, rows are consistent, and what was lost stays what it
    /// was found to be.
    pub(super) fn accept_losses(&mut self) -> Result<(), String> {
        self.dice = RandomDraws::part(self.history.seed, u64::MAX - 6);
        let mut accepted: Vec<PageRange> = Vec::new();
        let mut starts = 0;
        while self.refused {
            let Status::Refused(Refusal::WriteHole { lost, .. }) = self.memory.status() else { return Ok(()) };
            for page in lost.named().iter().flat_map(|range| range.first..range.end()) {
                let place = self.cell.geometry.locate(page);
                let row = self.cell.geometry.row(place.stripe, place.row_in_chunk);
                // A refusal may name only rows that were open in the double-fault window.
                if !self.hole.contains(row) {
                    return Err(format!("page {page} is told of as lost, but row {row} was not open"));
                }
            }
            accepted.extend(lost.named());
            starts += 1;
            if starts > STARTS {
                return Err(format!("{starts} starts are refused, though {accepted:?} is accepted"));
            }
            self.refused = false;
            // A refusal names a few ranges at a time, so accepting may take several starts.
            let config = ArrayConfig { accepted_losses: accepted.clone(), ..self.cell.array() };
            self.accepting = Some(self.cell.build_with(self.cache, &config));
            self.cut(DevSet::EMPTY, None)?;
            self.become_ready()?;
        }
        self.report.accepted += 1;
        // Nothing may be lost in the end: a start that loses a member on its way does not look into the log.
        let lost = self.memory.engine().controller().array().lost().to_vec();
        let lost: BTreeSet<u64> = lost.iter().flat_map(|range| range.first..range.end()).collect();
        if let Some(page) = lost.iter().find(|page| !accepted.iter().any(|range| range.contains(**page))) {
            return Err(format!("page {page} is told of as lost, but nobody has accepted that"));
        }
        self.read_others(&lost)?;
        let found = self.read_lost(&lost)?;
        // Rebuilding over accepted losses must keep them as they were found.
        for dev in self.lost().iter() {
            let content = ReplacementContent::Garbage(self.dice.draw());
            self.replace(dev, content)?;
        }
        let mut patience = PATIENCE;
        while !self.lost().is_empty() && !self.refused {
            self.wait(&mut patience, "replaced members are not filled")?;
        }
        self.drain()?;
        self.read_others(&lost)?;
        if self.read_lost(&lost)? != found {
            return Err("what was lost is not what it was found to be".to_owned());
        }
        Ok(())
    }

    /// Reads all pages but these.
    fn read_others(&mut self, lost: &BTreeSet<u64>) -> Result<(), String> {
        let pages = self.cell.geometry.data_pages();
        for page in (0..pages).filter(|page| !lost.contains(page)) {
            self.request(HostOp::Read, page * PAGE_SECTORS, PAGE_SECTORS, false)?;
        }
        self.drain()
    }

    /// Returns the content of the lost pages, of which the model knows nothing.
    fn read_lost(&mut self, lost: &BTreeSet<u64>) -> Result<Vec<u8>, String> {
        let mut found = Vec::new();
        for page in lost {
            self.number += 1;
            let tag = self.number;
            let (offset, len) = (page * PAGE as u64, PAGE as u64);
            let request = HostRequest { tag, op: HostOp::Read, offset, len, fua: false };
            self.memory.submit(request, &[]).map_err(|error| format!("lost page {page}: {error}"))?;
            let before = found.len();
            while found.len() == before {
                match self.memory.next_notice() {
                    Some(HostNotice::Acked { ok: true, .. }) => found.extend(self.memory.request_bytes(tag)),
                    Some(HostNotice::Acked { .. }) => return Err(format!("lost page {page} is not read")),
                    Some(_) => {}
                    None => {
                        let ran = self
                            .memory
                            .run(NextStep::Oldest, &self.check)
                            .map_err(|violation| violation.to_string())?;
                        if ran.is_none() && self.memory.is_idle() {
                            return Err(format!("the read of lost page {page} is not answered"));
                        }
                    }
                }
            }
        }
        Ok(found)
    }
}
