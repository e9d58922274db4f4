//! Writes a cache back before another device takes its place. Requests wait at the end, or it might never be clean.

use super::Service;
use crate::control::Reply;
use crate::replacement::{DeviceReplacement, ReplaceError};
use crate::{Backend, ServiceEvent};

/// Tells how far a replacement has come whose device is written back first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplacementPhase {
    /// Writes it back while requests are served.
    Draining,
    /// Begins no request, and waits for those in flight.
    Quieting,
    /// Writes back what these have left.
    Emptying,
}

/// Holds a replacement until its device is written back.
#[derive(Debug)]
pub(super) struct PendingReplacement {
    boss: usize,
    replacement: DeviceReplacement,
    phase: ReplacementPhase,
}

impl<B: Backend> Service<B> {
    /// Replaces a device, now or when it is written back, and tells who ordered it.
    pub(super) fn replace(&mut self, boss: usize, replacement: DeviceReplacement) {
        if self.replacing.is_some() {
            return self.tell_replaced(boss, &replacement, Err(ReplaceError::UnderWay));
        }
        if self.broken.is_some() || !self.backend.drains_before(&replacement) {
            let replaced = self.backend.replace(&replacement);
            return self.tell_replaced(boss, &replacement, replaced);
        }
        match self.backend.begin_drain() {
            Ok(()) => {
                self.bosses[boss].waits_for_replacement = true;
                self.replacing = Some(PendingReplacement { boss, replacement, phase: ReplacementPhase::Draining });
            }
            Err(error) => self.give_up(&error),
        }
    }

    /// Returns true if no request begins for the time being.
    pub(super) fn holds_requests(&self) -> bool {
        self.replacing.as_ref().is_some_and(|replacing| replacing.phase != ReplacementPhase::Draining)
    }

    /// Goes on with a replacement whose device is written back first, as far as it can.
    pub(super) fn go_on_replacing(&mut self) {
        while self.take_step() {}
    }

    /// Takes the next step, if it can be taken.
    fn take_step(&mut self) -> bool {
        let Some(replacing) = &mut self.replacing else { return false };
        let is_drained = !self.backend.is_draining();
        match replacing.phase {
            _ if self.broken.is_some() => self.end_replacing(),
            ReplacementPhase::Draining if is_drained => {
                replacing.phase = ReplacementPhase::Quieting;
                self.stir_all();
            }
            ReplacementPhase::Quieting if is_drained && self.pending.is_empty() => {
                replacing.phase = ReplacementPhase::Emptying;
                if let Err(error) = self.backend.begin_drain() {
                    self.give_up(&error);
                }
                self.begun = true;
            }
            ReplacementPhase::Emptying if is_drained => self.end_replacing(),
            _ => return false,
        }
        true
    }

    fn end_replacing(&mut self) {
        let Some(PendingReplacement { boss, replacement, .. }) = self.replacing.take() else { return };
        let replaced = self.backend.replace(&replacement);
        self.bosses[boss].waits_for_replacement = false;
        self.tell_replaced(boss, &replacement, replaced);
        self.stir_all();
    }

    fn tell_replaced(&mut self, boss: usize, replacement: &DeviceReplacement, replaced: Result<(), ReplaceError>) {
        self.begun = true;
        let refused = replaced.as_ref().err().map(ToString::to_string);
        self.happened(|| ServiceEvent::Ordered { order: replacement.to_string(), refused });
        self.bosses[boss].reply(&match replaced {
            Ok(()) => Reply::Done,
            Err(error) if error.yields_to_force() => {
                let does = if replacement.takes_out { "takes it out" } else { "replaces it" };
                Reply::Failed(format!("{error} (--force {does} all the same)"))
            }
            Err(error) => Reply::Failed(error.to_string()),
        });
    }

    /// Has every client looked at.
    fn stir_all(&mut self) {
        self.stirred.extend(self.clients.iter().map(|(at, _)| at));
    }
}
