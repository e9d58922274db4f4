//! Serves steps one after the other, each in a known time: the NVRAM, and the processor that computes.

use std::collections::VecDeque;

use destage_plan::{Issue, Nanos};

/// Says how a step goes on when its turn ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterTurn {
    /// Completes the step.
    Done,
    /// Carries the step out, after its source has been read.
    CarryOut,
}

/// A server of one queue.
#[derive(Debug, Default)]
pub(super) struct SerialServer {
    queue: VecDeque<(Nanos, Issue, AfterTurn)>,
    busy_until: Nanos,
    busy: Nanos,
}

impl SerialServer {
    /// Takes a step that needs so long; whether it is done at once, since it needs no time and
    /// nothing is before it.
    pub(super) fn take(&mut self, now: Nanos, time: Nanos, issue: Issue, then: AfterTurn) -> bool {
        // Computing is free by default, so most steps of the processor make no event.
        if time == Nanos::ZERO && self.queue.is_empty() {
            return true;
        }
        self.busy_until = self.busy_until.max(now) + time;
        self.busy += time;
        self.queue.push_back((self.busy_until, issue, then));
        false
    }

    /// Returns the time at which the first step in the queue is done.
    pub(super) fn next_completion(&self) -> Option<Nanos> {
        self.queue.front().map(|first| first.0)
    }

    /// Takes the first of the queue.
    pub(super) fn complete(&mut self) -> Option<(Nanos, Issue, AfterTurn)> {
        self.queue.pop_front()
    }

    /// Time taken by everything so far.
    pub(super) const fn busy(&self) -> Nanos {
        self.busy
    }
}
