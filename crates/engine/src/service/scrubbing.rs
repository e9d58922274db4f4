//! Tells whoever ordered a scrub how far it is, and ends it if nobody wants to know any more.

use std::time::{Duration, Instant};

use super::Service;
use crate::control::Reply;
use crate::scrub::{ScrubRequest, ScrubState};
use crate::{Backend, ServiceEvent};

/// Sets how often it is told.
const EVERY: Duration = Duration::from_millis(500);

/// Says who waits for a scrub.
#[derive(Debug)]
pub(super) struct OrderedScrub {
    boss: usize,
    /// Notes when it was told last how far it is.
    told: Instant,
}

impl<B: Backend> Service<B> {
    /// Begins a scrub, which is told of until it ends.
    pub(super) fn scrub(&mut self, boss: usize, order: &ScrubRequest) {
        if let Some(why) = self.broken.clone() {
            return self.bosses[boss].reply(&Reply::Failed(why));
        }
        match self.backend.begin_scrub(order) {
            Ok(()) => {
                self.bosses[boss].waits_for_scrub = true;
                self.scrubbing = Some(OrderedScrub { boss, told: Instant::now() });
                self.begun = true;
            }
            Err(error) => {
                self.happened(|| ServiceEvent::Ordered { order: order.to_string(), refused: Some(error.to_string()) });
                self.bosses[boss].reply(&Reply::Failed(error.to_string()));
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
        // Somebody else may have its number by now.
        let boss = self.bosses.get_mut(scrubbing.boss).filter(|boss| boss.waits_for_scrub);
        let Some(status) = self.backend.scrub().filter(|_| self.broken.is_none()) else {
            if let Some(boss) = boss {
                boss.scrubbed(&Reply::Failed(self.broken.clone().unwrap_or_default()));
            }
            self.scrubbing = None;
            return;
        };
        if status.state != ScrubState::Running {
            if let Some(boss) = boss {
                boss.scrubbed(&Reply::Scrubbed(Box::new(status)));
            }
            self.scrubbing = None;
        } else if let Some(boss) = boss {
            if scrubbing.told.elapsed() >= EVERY {
                scrubbing.told = Instant::now();
                boss.tell_progress(&Reply::Scrubbing(Box::new(status)));
            }
        } else {
            self.backend.end_scrub("whoever ordered it has gone");
            self.begun = true;
        }
    }

    /// Returns how long the service may wait at most, if somebody is to be told how far a scrub is.
    pub(super) fn until_scrub_is_told(&self) -> Option<Duration> {
        self.scrubbing.as_ref().map(|scrubbing| EVERY.saturating_sub(scrubbing.told.elapsed()))
    }
}
