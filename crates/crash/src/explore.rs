//! Many histories: of random seeds, and short ones cut everywhere.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use destage_cache::HostCacheInfo;
use destage_exec::CutChoice;
use rayon::prelude::*;

use crate::RandomDraws;
use crate::history::{CrashHistory, DrawLimits, lose_holder_and_cut};
use crate::report::{FailedHistory, RunOptions, RunReport};
use crate::run::run;
use crate::short::{recovers, watch};

/// The history of a seed for this kind of controller.
pub fn history(cache: &'static HostCacheInfo, seed: u64, limits: &DrawLimits) -> CrashHistory {
    let cell = crate::CrashCell::of_seed(seed, &mut RandomDraws::new(seed), limits.level);
    let mut history = CrashHistory::draw(seed, limits, cache.devices(cell.pages_of(cache)).len() as u8);
    // The loss of the only copy and the note of it are rare together, so this history is helped to it.
    if cache.holds_dirty && !limits.no_cuts && !limits.no_losses {
        lose_holder_and_cut(&mut history);
    }
    history
}

/// Runs the histories of a range of seeds on all processors; stops at the lowest seed that fails.
/// Says on the standard error how far it has come.
pub fn explore(
    cache: &'static HostCacheInfo,
    seeds: std::ops::Range<u64>,
    limits: &DrawLimits,
    options: RunOptions,
) -> Result<RunReport, Box<FailedHistory>> {
    let begun = Instant::now();
    let done = AtomicU64::new(0);
    let total = Mutex::new(RunReport::default());
    let count = seeds.end - seeds.start;
    let found = AtomicBool::new(false);
    let chunk = 256;
    // A later chunk is left out only after an earlier failure, so the lowest failing seed is found however threads
    // run.
    let failure = (0..count.div_ceil(chunk)).into_par_iter().find_map_first(|index| {
        let from = seeds.start + index * chunk;
        let mut report = RunReport::default();
        for seed in from..(from + chunk).min(seeds.end) {
            match run(cache, &history(cache, seed, limits), options) {
                Ok(one) => report.add(&one),
                Err(failure) => {
                    found.store(true, Ordering::Relaxed);
                    return Some(Box::new(failure));
                }
            }
        }
        total.lock().expect("no thread panics with it").add(&report);
        let so_far = done.fetch_add(1, Ordering::Relaxed) + 1;
        if so_far.is_multiple_of(4096) {
            let (seeds, seconds) = (so_far * chunk, begun.elapsed().as_secs_f64());
            eprintln!("{}: {seeds} of {count} seeds, {:.0} a second", cache.name, seeds as f64 / seconds);
        }
        None
    });
    match failure {
        Some(failure) => Err(failure),
        None => Ok(total.into_inner().expect("no thread panics with it")),
    }
}

/// Returns how many seeds it takes until one fails, counted from 1; none if all of them pass.
pub fn first_failure(
    cache: &'static HostCacheInfo,
    seeds: std::ops::Range<u64>,
    limits: &DrawLimits,
    options: RunOptions,
) -> Option<(u64, Box<FailedHistory>)> {
    let first = seeds.start;
    let mut seeds = seeds;
    seeds.find_map(|seed| {
        let failure = run(cache, &history(cache, seed, limits), options).err()?;
        Some((seed - first + 1, Box::new(failure)))
    })
}

/// Counts the short histories that were tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExhaustedHistories {
    /// Histories.
    pub histories: u64,
    /// Moments at which the power was cut.
    pub moments: u64,
    /// Contents of devices and NVRAM that were started from.
    pub cuts: u64,
    /// Moments with more subsets than the cap, of which so many were drawn at random.
    pub capped: u64,
}

/// A cut of which every choice is given: bit i of `pages` is whether the i-th page that is asked
/// for survives.
struct GivenCut {
    pages: u64,
    /// The page of which only these sectors survive, or of which they alone are lost.
    torn: Option<(u64, u128)>,
    asked: u64,
    nvram: usize,
}

impl CutChoice for GivenCut {
    fn page(&mut self, _: usize, _: u64, all: u128) -> u128 {
        let index = self.asked;
        self.asked += 1;
        match self.torn {
            Some((torn, sectors)) if torn == index => sectors & all,
            _ => all * u128::from(self.pages >> index.min(63) & 1),
        }
    }
    fn nvram(&mut self, _: usize) -> usize {
        self.nvram
    }
}

/// Counts what a cut asks for.
#[derive(Default)]
struct CutQuestions {
    pages: u64,
    nvram: usize,
}

impl CutChoice for CutQuestions {
    fn page(&mut self, _: usize, _: u64, _: u128) -> u128 {
        self.pages += 1;
        0
    }
    fn nvram(&mut self, queued: usize) -> usize {
        self.nvram = queued;
        0
    }
}

/// Cuts a history of one to three requests, steps in the order of issue, after every step, with
/// every subset of the pages that were written and not flushed or are being written (at most `cap`
/// subsets at a moment, then random ones), with each page of them torn in every way that leaves a
/// first or a last part while the others survive or do not, and with every number of NVRAM steps
/// through. The recovery from every fourth of these cuts is cut itself.
pub fn exhaust(
    cache: &'static HostCacheInfo,
    seeds: std::ops::Range<u64>,
    limits: &DrawLimits,
    cap: u64,
) -> Result<ExhaustedHistories, Box<FailedHistory>> {
    let total = Mutex::new(ExhaustedHistories::default());
    let failure = seeds.into_par_iter().find_map_first(|seed| {
        let mut dice = RandomDraws::part(seed, 2);
        let history = CrashHistory::short(seed, limits, 1 + (seed % 3) as usize);
        let mut found = ExhaustedHistories { histories: 1, ..ExhaustedHistories::default() };
        let mut again = RandomDraws::part(seed, 3);
        let outcome = watch(cache, &history, |memory, model, check| {
            let mut counted = CutQuestions::default();
            // A crash that keeps nothing counts the choices without changing the machine.
            memory.cut(&mut counted);
            found.moments += 1;
            let mut try_one = |pages: u64, torn: Option<(u64, u128)>, nvram: usize| {
                let remains = memory.cut(&mut GivenCut { pages, torn, asked: 0, nvram });
                let mut model = model.clone();
                model.cut(u64::from(u32::MAX));
                found.cuts += 1;
                // Recovery may write, so its own interruption is a state that no first crash produces.
                let after = again.one_in(4).then(|| again.within(1, 24));
                let again = after.map(|after| (after, &mut again));
                recovers(cache, &history, check, remains, &mut model, again).map(|_| ()).map_err(|what| {
                    format!(
                        "step {}: cut with pages {pages:#b}, torn {torn:?}, {nvram} NVRAM steps, again after {after:?} steps: {what}",
                        memory.steps()
                    )
                })
            };
            let subsets = 1_u64.checked_shl(counted.pages as u32).unwrap_or(u64::MAX);
            for nvram in 0..=counted.nvram {
                if subsets <= cap {
                    (0..subsets).try_for_each(|pages| try_one(pages, None, nvram))?;
                // With more subsets than the cap, the two extremes are tried for certain: most faults show there.
                } else {
                    try_one(0, None, nvram)?;
                    try_one(u64::MAX, None, nvram)?;
                    (0..cap).try_for_each(|_| try_one(dice.draw(), None, nvram))?;
                }
            }
            for page in 0..counted.pages.min(cap) {
                // First sector, first half, last sector and the middle: what a torn write can leave of a page of
                // four sectors.
                for torn in [0b0001, 0b0011, 0b1000, 0b0110] {
                    try_one(0, Some((page, torn)), counted.nvram)?;
                    try_one(u64::MAX, Some((page, torn)), counted.nvram)?;
                }
            }
            found.capped += u64::from(subsets > cap);
            Ok(())
        });
        let mut total = total.lock().expect("no thread panics with it");
        total.histories += found.histories;
        total.moments += found.moments;
        total.cuts += found.cuts;
        total.capped += found.capped;
        outcome.err().map(|what| Box::new(FailedHistory { what, history: Box::new(history), log: Vec::new() }))
    });
    match failure {
        Some(failure) => Err(failure),
        None => Ok(total.into_inner().expect("no thread panics with it")),
    }
}
