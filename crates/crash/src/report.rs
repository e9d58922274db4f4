//! Selects how a history is run, and reports its result.

use destage_plan::{ClaimWait, Class, Nanos, StepKind};

use crate::history::CrashHistory;
use crate::mutant::StepFault;

/// Selects how a history is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// A fault that the executor commits.
    pub mutant: Option<StepFault>,
    /// Do not look at rows: only what a host sees counts.
    pub blind: bool,
    /// Write down every step.
    pub log: bool,
}

/// Counts the events of runs that found nothing wrong.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    /// Histories.
    pub runs: u64,
    /// Requests answered.
    pub requests: u64,
    /// Of these, answered that they could not be served, while more was lost than the level can do
    /// without.
    pub unserved: u64,
    /// Steps carried out.
    pub steps: u64,
    /// Losses of power.
    pub cuts: u64,
    /// Of these, while the array was still recovering from one.
    pub cuts_in_recovery: u64,
    /// Of these, while a member was lost or being filled.
    pub cuts_degraded: u64,
    /// Starts that were refused, rightly.
    pub refusals: u64,
    /// Starts made after one was refused, with the losses accepted that it named.
    pub accepted: u64,
    /// Devices lost.
    pub losses: u64,
    /// Counts the pages that were spoiled.
    pub spoiled: u64,
    /// Counts the pages that the array made anew.
    pub corrected: u64,
    /// Bits of caches that were flipped.
    pub rotten: u64,
    /// Counts the starts at which the intents of all rows were open.
    pub damaged_intents: u64,
    /// Pages of caches that were dropped for what they held.
    pub dropped: u64,
    /// Counts the orders to compare rows.
    pub scrubs: u64,
    /// Counts the rows that were compared.
    pub compared_rows: u64,
    /// Members filled.
    pub rebuilds: u64,
    /// Counts the pages that writes found in memory instead of reading them.
    pub cached_reads: u64,
    /// Counts the dirty pages that were overwritten past caches.
    pub overwritten: u64,
    /// Times that devices said that they collect, do so no longer, or will have to soon.
    pub collections: u64,
    /// Orders to drain the cache.
    pub drains: u64,
    /// Steps issued, by kind.
    pub counts: [u64; StepKind::ALL.len()],
    /// Time waited for claims, by class.
    pub waits: [ClaimWait; Class::ALL.len()],
    /// Virtual time.
    pub time: Nanos,
}

impl RunReport {
    /// Adds another report to this one.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.requests += other.requests;
        self.spoiled += other.spoiled;
        self.corrected += other.corrected;
        self.rotten += other.rotten;
        self.damaged_intents += other.damaged_intents;
        self.scrubs += other.scrubs;
        self.compared_rows += other.compared_rows;
        self.dropped += other.dropped;
        self.unserved += other.unserved;
        self.steps += other.steps;
        self.cuts += other.cuts;
        self.cuts_in_recovery += other.cuts_in_recovery;
        self.cuts_degraded += other.cuts_degraded;
        self.refusals += other.refusals;
        self.accepted += other.accepted;
        self.losses += other.losses;
        self.rebuilds += other.rebuilds;
        self.cached_reads += other.cached_reads;
        self.overwritten += other.overwritten;
        self.collections += other.collections;
        self.drains += other.drains;
        self.time += other.time;
        self.add_counters(&other.counts, &other.waits);
    }

    pub(crate) fn add_counters(&mut self, counts: &[u64], waits: &[ClaimWait]) {
        self.counts.iter_mut().zip(counts).for_each(|(count, more)| *count += more);
        for (wait, more) in self.waits.iter_mut().zip(waits) {
            wait.claims += more.claims;
            wait.waited += more.waited;
            wait.total += more.total;
            wait.max = wait.max.max(more.max);
        }
    }
}

/// A history that must not be.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what}\n{history}{}", log.join("\n"))]
pub struct FailedHistory {
    /// Describes the violation.
    pub what: String,
    /// The history.
    pub history: Box<CrashHistory>,
    /// The steps, if they were to be written down.
    pub log: Vec<String>,
}
