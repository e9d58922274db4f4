//! Tells whoever ordered a scrub how far it is, and ends it if nobody wants to know any more.

use std::time::{Duration, Instant};

use super::BlockService;
use crate::control::ControlReply;
use crate::scrub::{ScrubRequest, ScrubState};
use crate::{BlockBackend, ServiceEvent};

/// Sets how often it is told.
const EVERY: Duration = Duration::from_millis(500);

/// Says who waits for a scrub.
#[derive(Debug)]
pub(super) struct OrderedScrub {
    control: usize,
    /// Notes when it was told last how far it is.
    told: Instant,
}

impl<B: BlockBackend> BlockService<B> {
    /// Begins a scrub, which is told of until it ends.
    pub(super) fn scrub(&mut self, control: usize, order: &ScrubRequest) {
        if let Some(why) = self.broken.clone() {
            return self.controls[control].reply(&ControlReply::Failed(why));
        }
        match self.backend.begin_scrub(order) {
            Ok(()) => {
                self.controls[control].waits_for_scrub = true;
                self.scrubbing = Some(OrderedScrub { control, told: Instant::now() });
                self.begun = true;
            }
            Err(error) => {
                self.happened(|| ServiceEvent::Ordered { order: order.to_string(), refused: Some(error.to_string()) });
                self.controls[control].reply(&ControlReply::Failed(error.to_string()));
            }
        }
    }

    /// Returns true while rows are being compared.
    pub(super) fn is_scrubbing(&self) -> bool {
        self.scrubbing.is_some()
    }

    /// Tells how far the scrub is, and its end.
    pub(super) fn tell_scrub(&mut self) {
        let Some(scrubbing) = &mut self.scrubbing else { return };
        // Another connection may have the number by now, so the flag of this one decides.
        let control = self.controls.get_mut(scrubbing.control).filter(|control| control.waits_for_scrub);
        let Some(status) = self.backend.scrub().filter(|_| self.broken.is_none()) else {
            if let Some(control) = control {
                control.scrubbed(&ControlReply::Failed(self.broken.clone().unwrap_or_default()));
            }
            self.scrubbing = None;
            return;
        };
        if status.state != ScrubState::Running {
            if let Some(control) = control {
                control.scrubbed(&ControlReply::Scrubbed(Box::new(status)));
            }
            self.scrubbing = None;
        } else if let Some(control) = control {
            if scrubbing.told.elapsed() >= EVERY {
                scrubbing.told = Instant::now();
                control.tell_progress(&ControlReply::Scrubbing(Box::new(status)));
            }
        } else {
            // A scrub that nobody waits for would go on for hours without anybody knowing how to end it.
            self.backend.end_scrub("whoever ordered it has gone");
            self.begun = true;
        }
    }

    /// Returns how long the service may wait at most, if somebody is to be told how far a scrub is.
    pub(super) fn until_scrub_is_told(&self) -> Option<Duration> {
        self.scrubbing.as_ref().map(|scrubbing| EVERY.saturating_sub(scrubbing.told.elapsed()))
    }
}
