//! Short histories, looked at after every step, and what must hold after each cut of them.

use destage_cache::{HostCacheInfo, ServedTier};
use destage_exec::{CrashRemains, MemoryExecutor, NextStep};
use destage_plan::{HostNotice, HostOp, HostRequest, Status};

use crate::RandomDraws;
use crate::history::{CrashHistory, HistoryAction};
use crate::model::{SECTOR, SectorModel};
use crate::parity::ParityCheck;
use crate::report::RunOptions;
use crate::run::{HistoryRun, PATIENCE};

/// Everything that must hold after a cut: the array starts, and every page reads as one that could
/// be, twice. If the power is to be cut `again`, that is before these two, after so many steps.
pub(crate) fn recovers(
    cache: &'static HostCacheInfo,
    history: &CrashHistory,
    check: &ParityCheck,
    remains: CrashRemains,
    model: &mut SectorModel,
    again: Option<(u64, &mut RandomDraws)>,
) -> Result<u64, String> {
    let cell = &history.cell;
    let mut steps = 0;
    let mut remains = remains;
    if let Some((after, dice)) = again {
        let mut memory = HistoryRun::prepare(cache, history, remains, None, None);
        memory.begin();
        while memory.steps() < after && !memory.is_idle() {
            memory.run(NextStep::Oldest, check).map_err(|violation| format!("while recovering: {violation}"))?;
        }
        steps += memory.steps();
        remains = memory.cut(dice.draw_cut());
    }
    // Twice: the first recovery must leave a state that the second finds consistent, with all that was volatile
    // lost.
    for life in 0..2 {
        let mut memory = HistoryRun::prepare(cache, history, remains, None, None);
        memory.begin();
        let len = cell.sectors() * SECTOR as u64;
        memory
            .submit(HostRequest { tag: 1, op: HostOp::Read, offset: 0, len, fua: false }, &[])
            .map_err(|error| error.to_string())?;
        let submitted = model.read_begins();
        let mut read = false;
        while !memory.is_idle() {
            if let Status::Refused(why) = memory.status() {
                return Err(format!("life {life} after the cut is refused: {why:?}"));
            }
            if memory.steps() > PATIENCE {
                return Err(format!("life {life} after the cut does not come to rest"));
            }
            memory.run(NextStep::Oldest, check).map_err(|violation| violation.to_string())?;
            while let Some(notice) = memory.next_notice() {
                if let HostNotice::Acked { ok, .. } = notice {
                    if !ok {
                        return Err("reading everything after the cut fails".to_owned());
                    }
                    model
                        .read(submitted, 0, memory.request_bytes(1))
                        .map_err(|wrong| format!("after the cut: {wrong}"))?;
                    read = true;
                }
            }
        }
        if !read {
            return Err(format!("life {life} after the cut ends without an answer"));
        }
        memory.check_all(check, check.geometry().member_pages()).map_err(|violation| violation.to_string())?;
        steps += memory.steps();
        // Everything volatile is lost, so the next life sees what is durable and nothing else.
        remains = memory.cut(&mut TotalLoss);
    }
    Ok(steps)
}

/// A cut that loses all that can be lost.
pub(crate) struct TotalLoss;

impl destage_exec::CutChoice for TotalLoss {
    fn page(&mut self, _: usize, _: u64, _: u128) -> u128 {
        0
    }
    fn nvram(&mut self, _: usize) -> usize {
        0
    }
}

/// Runs a short history without misfortunes and shows the machine after every step, first when
/// everything is submitted.
pub(crate) fn watch(
    cache: &'static HostCacheInfo,
    history: &CrashHistory,
    mut at: impl FnMut(&MemoryExecutor<Box<dyn ServedTier>>, &SectorModel, &ParityCheck) -> Result<(), String>,
) -> Result<(), String> {
    let mut run = HistoryRun::new(cache, history, RunOptions::default(), None);
    run.become_ready()?;
    for numbered in &history.actions {
        match numbered.action {
            HistoryAction::Request { op, sector, sectors, fua } => run.request(op, sector, sectors, fua)?,
            HistoryAction::Drain => {
                while !run.memory.is_idle() {
                    at(&run.memory, &run.model, &run.check)?;
                    run.step()?;
                }
            }
            // The loss is noted before anything is asked.
            HistoryAction::Lose { dev, told, beyond } => {
                run.lose(dev, told, beyond);
                run.drain()?;
            }
            other => return Err(format!("{other:?} has no place in a short history")),
        }
    }
    at(&run.memory, &run.model, &run.check)?;
    while !run.memory.is_idle() {
        run.step()?;
        at(&run.memory, &run.model, &run.check)?;
    }
    Ok(())
}
