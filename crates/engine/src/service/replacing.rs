//! Brings an array to rest before another device takes the place of one that answers, or that is taken out: a cache is written
//! back, and no row is left that would be torn without a member. Requests wait at the end, or it might never be.

use std::time::{Duration, Instant};

use super::BlockService;
use crate::control::ControlReply;
use crate::replacement::{DeviceReplacement, ReplaceError, ReplaceOutcome};
use crate::{BlockBackend, ServiceEvent};

/// Tells how far a replacement has come whose device is written back first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplacementPhase {
    /// Waits until the file answers that is to take its place.
    Asking,
    /// Writes it back while requests are served.
    Draining,
    /// Begins no request, and waits for those in flight.
    Quieting,
    /// Writes back what these have left, and makes it durable.
    Emptying,
    /// Has replaced it, and waits until that is noted.
    Noting,
}

/// Holds a replacement until its device is written back.
#[derive(Debug)]
pub(super) struct PendingReplacement {
    control: usize,
    replacement: DeviceReplacement,
    phase: ReplacementPhase,
    /// Says when it goes on whatever is left.
    until: Option<Instant>,
}

impl<B: BlockBackend> BlockService<B> {
    /// Replaces a device, now or when it is written back, and tells who ordered it.
    pub(super) fn replace(&mut self, control: usize, replacement: DeviceReplacement) {
        // The array comes to rest for one replacement at a time.
        if self.replacing.is_some() {
            return self.tell_replaced(control, &replacement, Err(ReplaceError::UnderWay));
        }
        // A file that hangs is found before anything is written back, and while requests are served.
        match self.backend.ask_file(&replacement) {
            Ok(true) => {
                self.controls[control].waits_for_replacement = true;
                self.replacing =
                    Some(PendingReplacement { control, replacement, phase: ReplacementPhase::Asking, until: None });
            }
            Ok(false) => self.begin_replacing(control, replacement),
            Err(error) => self.tell_replaced(control, &replacement, Err(error)),
        }
    }

    /// Replaces a device by a file that answers.
    fn begin_replacing(&mut self, control: usize, replacement: DeviceReplacement) {
        let settles = self.backend.settles_before(&replacement).filter(|_| self.broken.is_none());
        let Some(longest) = settles else {
            let replaced = self.backend.replace(&replacement);
            return self.tell_replaced(control, &replacement, replaced);
        };
        match self.backend.begin_drain() {
            Ok(()) => {
                self.controls[control].waits_for_replacement = true;
                let (phase, until) = (ReplacementPhase::Draining, Instant::now().checked_add(longest));
                self.replacing = Some(PendingReplacement { control, replacement, phase, until });
            }
            Err(error) => self.stop_answering(&error),
        }
    }

    /// Returns true if no request begins for the time being.
    pub(super) fn holds_requests(&self) -> bool {
        // Requests are served while the bulk is written back, and held back only for the rest.
        let serves = [ReplacementPhase::Asking, ReplacementPhase::Draining];
        self.replacing.as_ref().is_some_and(|replacing| !serves.contains(&replacing.phase))
    }

    /// Returns how long a replacement waits yet, if it does not wait for ever.
    pub(super) fn replacement_left(&self) -> Option<Duration> {
        let until = self.replacing.as_ref()?.until?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// Goes on with a replacement whose device is written back first, as far as it can.
    pub(super) fn go_on_replacing(&mut self) {
        while self.take_step() {}
    }

    /// Takes the next step, if it can be taken.
    fn take_step(&mut self) -> bool {
        let is_overdue = self.replacement_left() == Some(Duration::ZERO);
        let Some(replacing) = &mut self.replacing else { return false };
        let is_drained = !self.backend.is_draining();
        match replacing.phase {
            // The device is replaced by then, so running out of time cannot undo it.
            ReplacementPhase::Noting if self.broken.is_some() || is_overdue => {
                self.end_replacing(Ok(ReplaceOutcome::Done));
            }
            _ if self.broken.is_some() || is_overdue => self.carry_out(),
            ReplacementPhase::Asking => match self.backend.file_answers() {
                None => return false,
                Some(Ok(())) => {
                    let Some(PendingReplacement { control, replacement, .. }) = self.replacing.take() else {
                        return false;
                    };
                    self.controls[control].waits_for_replacement = false;
                    self.begin_replacing(control, replacement);
                }
                Some(Err(error)) => self.end_replacing(Err(error)),
            },
            ReplacementPhase::Draining if is_drained => {
                // What requests dirtied meanwhile is little; only stopping them lets the cache become empty.
                replacing.phase = ReplacementPhase::Quieting;
                self.stir_all();
            }
            ReplacementPhase::Quieting if is_drained && self.pending.is_empty() => {
                replacing.phase = ReplacementPhase::Emptying;
                if let Err(error) = self.backend.begin_settle() {
                    self.stop_answering(&error);
                }
                self.begun = true;
            }
            ReplacementPhase::Emptying if !self.backend.is_settling() => self.carry_out(),
            // Told before the loss is durable, the operator could pull the device and a start would believe it.
            ReplacementPhase::Noting if self.backend.is_noted() => self.end_replacing(Ok(ReplaceOutcome::Done)),
            _ => return false,
        }
        true
    }

    /// Replaces the device now.
    fn carry_out(&mut self) {
        let Some(replacing) = &mut self.replacing else { return };
        match self.backend.replace(&replacing.replacement) {
            Ok(ReplaceOutcome::Done) => replacing.phase = ReplacementPhase::Noting,
            ended => self.end_replacing(ended),
        }
        self.begun = true;
    }

    fn end_replacing(&mut self, replaced: Result<ReplaceOutcome, ReplaceError>) {
        let Some(PendingReplacement { control, replacement, .. }) = self.replacing.take() else { return };
        self.controls[control].waits_for_replacement = false;
        self.tell_replaced(control, &replacement, replaced);
        self.stir_all();
    }

    fn tell_replaced(
        &mut self,
        control: usize,
        replacement: &DeviceReplacement,
        replaced: Result<ReplaceOutcome, ReplaceError>,
    ) {
        self.begun = true;
        let refused = replaced.as_ref().err().map(ToString::to_string);
        self.happened(|| ServiceEvent::Ordered { order: replacement.to_string(), refused });
        self.controls[control].reply(&match replaced {
            Ok(ReplaceOutcome::Done) => ControlReply::Done,
            Ok(ReplaceOutcome::Copying) => ControlReply::Copying,
            // Only refusals that force overrides may suggest it.
            Err(error) if error.yields_to_force() => {
                let does = if replacement.takes_out { "takes it out" } else { "replaces it" };
                ControlReply::Failed(format!("{error} (--force {does} all the same)"))
            }
            Err(error) => ControlReply::Failed(error.to_string()),
        });
    }

    /// Has every client looked at.
    fn stir_all(&mut self) {
        self.stirred.extend(self.clients.iter().map(|(at, _)| at));
    }
}
