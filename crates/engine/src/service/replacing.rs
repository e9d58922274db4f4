//! Replacing a device that has what is nowhere else: it is written back first. At the end of that requests wait, so that
//! it comes to an end.

use super::Service;
use crate::control::Reply;
use crate::replacement::{ReplaceError, Replacement};
use crate::{Backend, Event};

/// How far a replacement has come whose device is written back first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It is written back while requests are served.
    Draining,
    /// No request begins, and those under way are waited for.
    Quieting,
    /// What they have left is written back.
    Emptying,
}

/// A replacement whose device is written back first.
#[derive(Debug)]
pub(super) struct Replacing {
    boss: usize,
    replacement: Replacement,
    phase: Phase,
}

impl<B: Backend> Service<B> {
    /// Replaces a device, now or when it is written back, and tells who ordered it.
    pub(super) fn replace(&mut self, boss: usize, replacement: Replacement) {
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
                self.replacing = Some(Replacing { boss, replacement, phase: Phase::Draining });
            }
            Err(error) => self.give_up(&error),
        }
    }

    /// Returns true if no request begins for the time being.
    pub(super) fn holds_requests(&self) -> bool {
        self.replacing.as_ref().is_some_and(|replacing| replacing.phase != Phase::Draining)
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
            Phase::Draining if is_drained => {
                replacing.phase = Phase::Quieting;
                self.stir_all();
            }
            Phase::Quieting if is_drained && self.pending.is_empty() => {
                replacing.phase = Phase::Emptying;
                if let Err(error) = self.backend.begin_drain() {
                    self.give_up(&error);
                }
                self.begun = true;
            }
            Phase::Emptying if is_drained => self.end_replacing(),
            _ => return false,
        }
        true
    }

    fn end_replacing(&mut self) {
        let Some(Replacing { boss, replacement, .. }) = self.replacing.take() else { return };
        let replaced = self.backend.replace(&replacement);
        self.bosses[boss].waits_for_replacement = false;
        self.tell_replaced(boss, &replacement, replaced);
        self.stir_all();
    }

    fn tell_replaced(&mut self, boss: usize, replacement: &Replacement, replaced: Result<(), ReplaceError>) {
        self.begun = true;
        let refused = replaced.as_ref().err().map(ToString::to_string);
        self.happened(|| Event::Ordered { order: replacement.to_string(), refused });
        self.bosses[boss].reply(&match replaced {
            Ok(()) => Reply::Done,
            Err(error) if error.yields_to_force() => {
                Reply::Failed(format!("{error} (--force replaces it all the same)"))
            }
            Err(error) => Reply::Failed(error.to_string()),
        });
    }

    /// Has every client looked at.
    fn stir_all(&mut self) {
        self.stirred.extend(self.clients.iter().map(|(at, _)| at));
    }
}
