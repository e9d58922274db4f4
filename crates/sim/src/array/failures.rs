//! Failures and replacements of devices in a run, and how long the array was without one.

use std::collections::VecDeque;

use destage_cache::ServedTier;
use destage_plan::{Dev, DevSet, Nanos};

use super::device::VirtualDevice;
use super::executor::VirtualExecutor;

/// Lists the changes that a run makes to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectionKind {
    /// Fails the device.
    Fail,
    /// Another takes its place.
    Replace,
}

/// Something that happens to a device at a time. Of events at the same time it comes after
/// completions and what devices say of their collections, and before timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceInjection {
    /// When.
    pub at: Nanos,
    /// To which device.
    pub dev: Dev,
    /// Names the event.
    pub kind: InjectionKind,
}

/// A device that failed, and what followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceFailure {
    pub(super) dev: Dev,
    pub(super) failed: Nanos,
    pub(super) replaced: Option<Nanos>,
    pub(super) rebuilt: Option<Nanos>,
}

/// In what state the array was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RedundancyPhase {
    #[default]
    Healthy,
    Degraded,
    Rebuilding,
}

/// Makes the device that replaces another.
pub(super) type MakeReplacement = Box<dyn Fn(Dev) -> VirtualDevice + Send>;

/// Tracks the failures of a run's devices: those to come and those that happened.
pub(super) struct DeviceFailures {
    to_come: VecDeque<DeviceInjection>,
    replacement: MakeReplacement,
    past: Vec<DeviceFailure>,
    phase: RedundancyPhase,
    since: Nanos,
    degraded_time: Nanos,
    rebuild_time: Nanos,
}

impl DeviceFailures {
    /// The injections are in order of time.
    pub(super) fn new(injections: Vec<DeviceInjection>, replacement: MakeReplacement) -> Self {
        Self {
            to_come: injections.into(),
            replacement,
            past: Vec::new(),
            phase: RedundancyPhase::Healthy,
            since: Nanos::ZERO,
            degraded_time: Nanos::ZERO,
            rebuild_time: Nanos::ZERO,
        }
    }

    /// The next injection, if there is one to come.
    pub(super) fn next(&self) -> Option<DeviceInjection> {
        self.to_come.front().copied()
    }

    /// In what state the array is.
    pub(super) const fn phase(&self) -> RedundancyPhase {
        self.phase
    }

    /// Lets the next injection happen.
    pub(super) fn inject(&mut self, executor: &mut VirtualExecutor<Box<dyn ServedTier>>) {
        let Some(DeviceInjection { at, dev, kind }) = self.to_come.pop_front() else { return };
        // A held-back host may have let the time pass.
        let at = at.max(executor.now());
        match kind {
            InjectionKind::Fail => {
                executor.fail(at, dev);
                self.past.push(DeviceFailure { dev, failed: at, replaced: None, rebuilt: None });
            }
            InjectionKind::Replace => {
                executor.replace(at, dev, (self.replacement)(dev));
                if let Some(failure) = self.past.iter_mut().rfind(|failure| failure.dev == dev) {
                    failure.replaced = Some(at);
                }
            }
        }
    }

    /// Sees in what state the array is now, after an event.
    #[inline]
    pub(super) fn see(&mut self, executor: &VirtualExecutor<Box<dyn ServedTier>>) {
        // Most runs have no failure, and this is asked after every event.
        if !self.past.is_empty() {
            self.see_phase(executor);
        }
    }

    fn see_phase(&mut self, executor: &VirtualExecutor<Box<dyn ServedTier>>) {
        let array = executor.controller().array();
        let lost = array.degraded();
        let members = array.config().geometry.member_set();
        let phase = match () {
            () if lost.is_empty() => RedundancyPhase::Healthy,
            () if is_rebuilding(executor) => RedundancyPhase::Rebuilding,
            () => RedundancyPhase::Degraded,
        };
        let now = executor.now();
        // A member that failed again before it was filled was not rebuilt the first time.
        let mut later = DevSet::EMPTY;
        for failure in self.past.iter_mut().rev() {
            let whole = members.contains(failure.dev) && !lost.contains(failure.dev);
            if whole && !later.contains(failure.dev) && failure.replaced.is_some() && failure.rebuilt.is_none() {
                failure.rebuilt = Some(now);
            }
            later.insert(failure.dev);
        }
        if phase != self.phase {
            self.credit(now);
            self.phase = phase;
        }
    }

    /// Counts the time of the present state up to now.
    fn credit(&mut self, now: Nanos) {
        let time = now.since(self.since);
        self.since = now;
        if self.phase != RedundancyPhase::Healthy {
            self.degraded_time += time;
        }
        if self.phase == RedundancyPhase::Rebuilding {
            self.rebuild_time += time;
        }
    }

    /// Drops the times counted so far, where the measured part begins.
    pub(super) fn restart(&mut self, now: Nanos) {
        self.credit(now);
        (self.degraded_time, self.rebuild_time) = (Nanos::ZERO, Nanos::ZERO);
    }

    /// The run ends: what failed, and the time with a member lost or not filled, and the part of it in which
    /// one was being filled.
    pub(super) fn end(&mut self, now: Nanos) -> (Vec<DeviceFailure>, Nanos, Nanos) {
        self.credit(now);
        (std::mem::take(&mut self.past), self.degraded_time, self.rebuild_time)
    }
}

/// Is true if a rebuild is in progress that can end. No data can be computed if more members are lost than
/// the level tolerates.
pub(super) fn is_rebuilding(executor: &VirtualExecutor<Box<dyn ServedTier>>) -> bool {
    let array = executor.controller().array();
    let tolerated = u32::from(array.config().geometry.parity_columns());
    array.is_rebuilding() && array.degraded().len() <= tolerated
}
