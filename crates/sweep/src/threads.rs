//! A sweep on threads of this process.

use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use destage_sim::experiment::StopSignal;

use crate::{ParameterSweep, SweepError, SweepSummary, group};

/// Runs all that is left of a sweep, a group on each thread at a time, and writes the rows of each group as soon as it has
/// ended; `show` is told how many runs are done, and of how many. On as many threads as the scenario says, or processors,
/// unless told otherwise.
///
/// # Errors
/// If rows cannot be written, or it was told to stop.
pub fn local(
    sweep: ParameterSweep,
    threads: Option<NonZero<usize>>,
    stop: &StopSignal,
    show: &(dyn Fn(usize, usize) + Sync),
) -> Result<SweepSummary, SweepError> {
    let threads = threads.map_or(sweep.threads(), NonZero::get);
    // All lanes simulate at once, so they share what the scenario grants.
    let memory = sweep.memory() / threads as u64;
    let runs = sweep.runs();
    show(sweep.done(), runs);
    let (sweep, wrong) = (Mutex::new(sweep), Mutex::new(None));
    let lock = || sweep.lock().unwrap_or_else(PoisonError::into_inner);
    let lane = || {
        loop {
            // An error of the folder would meet every further group.
            if wrong.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
                return;
            }
            let Some((group, file)) = lock().next(threads) else { return };
            let began = Instant::now();
            let ended = group::run(&group, file.as_deref(), Some(memory), stop);
            let taken = ended.and_then(|outcome| {
                // Rows are made outside the lock, so that others go on meanwhile.
                let made = outcome.made()?;
                let mut sweep = lock();
                sweep.take(made, began.elapsed().as_secs_f64())?;
                show(sweep.done(), runs);
                Ok(())
            });
            if let Err(error) = taken {
                wrong.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // One thread less does no harm.
            let _ = std::thread::Builder::new().name("runs".into()).spawn_scoped(scope, lane);
        }
        lane();
    });
    match wrong.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => sweep.into_inner().unwrap_or_else(PoisonError::into_inner).finish(),
    }
}
