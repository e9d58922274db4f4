//! Makes a failing history small: what is left is what it takes.

use destage_cache::HostCacheInfo;
use destage_plan::{DevSet, HostOp};

use crate::cell::PAGE_SECTORS;
use crate::history::{CompletionOrder, CrashHistory, HistoryAction, NumberedAction};
use crate::report::{FailedHistory, RunOptions};
use crate::run::run;

/// The smallest history found that still fails in the same way, with its steps. Actions are left
/// out as long as it fails without them, then simplified one by one; `tries` bounds how many
/// histories are run.
pub fn shrink(
    cache: &'static HostCacheInfo,
    failure: &FailedHistory,
    options: RunOptions,
    tries: usize,
) -> FailedHistory {
    let mut shrinker = HistoryShrinker { cache, options, best: failure.clone(), left: tries };
    loop {
        let size = shrinker.best.history.actions.len();
        shrinker.leave_out();
        shrinker.simplify();
        // A simpler action may make others needless, so leaving out is tried again until it changes nothing.
        if shrinker.left == 0 || shrinker.best.history.actions.len() == size {
            break;
        }
    }
    // Only the last run keeps a log, since logs would slow down all tries.
    let logged = RunOptions { log: true, ..options };
    run(cache, &shrinker.best.history, logged).err().unwrap_or(shrinker.best)
}

struct HistoryShrinker {
    cache: &'static HostCacheInfo,
    options: RunOptions,
    best: FailedHistory,
    left: usize,
}

impl HistoryShrinker {
    /// Takes a history if it fails too.
    fn fails(&mut self, history: &CrashHistory) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        match run(self.cache, history, self.options) {
            Ok(_) => false,
            Err(failure) => {
                // Another failure would lead away from the one that is looked for.
                let same = kind(&failure.what) == kind(&self.best.what);
                if same {
                    self.best = failure;
                }
                same
            }
        }
    }

    /// Leaves out runs of actions, long ones first.
    fn leave_out(&mut self) {
        // Long runs first: halving leaves out most of a history in a few tries.
        let mut size = self.best.history.actions.len().div_ceil(2);
        while size > 0 {
            let mut from = 0;
            while from < self.best.history.actions.len() {
                let mut history = (*self.best.history).clone();
                history.actions.drain(from..(from + size).min(history.actions.len()));
                if !self.fails(&history) {
                    from += size;
                }
            }
            size /= 2;
        }
    }

    fn simplify(&mut self) {
        // A fixed order of steps is easier to read than chance, and often fails as well.
        for order in [CompletionOrder::Oldest, CompletionOrder::Latency] {
            if self.best.history.order == CompletionOrder::Random {
                let history = CrashHistory { order, ..(*self.best.history).clone() };
                self.fails(&history);
            }
        }
        for requests in [1, 2, 4] {
            if self.best.history.requests > requests {
                let history = CrashHistory { requests, ..(*self.best.history).clone() };
                self.fails(&history);
            }
        }
        if !self.best.history.compute_at_once {
            let history = CrashHistory { compute_at_once: true, ..(*self.best.history).clone() };
            self.fails(&history);
        }
        for at in 0..self.best.history.actions.len() {
            for action in simpler(self.best.history.actions[at].action) {
                let mut history = (*self.best.history).clone();
                history.actions[at] = NumberedAction { action, ..history.actions[at] };
                if self.fails(&history) {
                    break;
                }
            }
        }
    }
}

/// Returns a violation without the numbers that differ from history to history.
pub(crate) fn kind(what: &str) -> String {
    // Numbers of requests and rows change with each try, and are no part of what went wrong.
    what.chars().take(120).filter(|c| !c.is_ascii_digit()).collect()
}

/// Simpler things that could happen instead, the simplest first.
fn simpler(action: HistoryAction) -> Vec<HistoryAction> {
    match action {
        HistoryAction::Request { op, sector, sectors, fua } => {
            let page = sector / PAGE_SECTORS * PAGE_SECTORS;
            let with = |sector, sectors, fua| HistoryAction::Request { op, sector, sectors, fua };
            let mut all = vec![with(page, PAGE_SECTORS, false), with(page, PAGE_SECTORS, fua), with(sector, 1, fua)];
            all.push(with(sector, sectors.div_ceil(2), fua));
            if op != HostOp::Write {
                all.push(HistoryAction::Request { op: HostOp::Write, sector, sectors, fua });
            }
            all.retain(|simpler| *simpler != action && (op != HostOp::Flush));
            all
        }
        HistoryAction::Steps(count) => [1, count / 2, count.saturating_sub(1)]
            .into_iter()
            .filter(|n| *n < count)
            .map(HistoryAction::Steps)
            .collect(),
        HistoryAction::Lose { dev, told: false, beyond } => vec![HistoryAction::Lose { dev, told: true, beyond }],
        HistoryAction::Cut { back, gone } if !back.is_empty() || gone.is_some() => {
            vec![
                HistoryAction::Cut { back: DevSet::EMPTY, gone: None },
                HistoryAction::Cut { back: DevSet::EMPTY, gone },
                HistoryAction::Cut { back, gone: None },
            ]
        }
        HistoryAction::Stop => vec![HistoryAction::Cut { back: DevSet::EMPTY, gone: None }],
        HistoryAction::Spoil { dev, page, broken: true } => vec![HistoryAction::Spoil { dev, page, broken: false }],
        HistoryAction::Drain
        | HistoryAction::DamageIntents
        | HistoryAction::Lose { .. }
        | HistoryAction::Spoil { .. }
        | HistoryAction::Rot { .. }
        | HistoryAction::Scrub { .. }
        | HistoryAction::Replace { .. }
        | HistoryAction::Cut { .. } => Vec::new(),
    }
}
