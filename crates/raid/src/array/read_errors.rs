//! Counts the pages that a device could not read, as md does: it forgets half of them every hour.

use destage_plan::Nanos;

/// Halves the count each time it passes.
const HALF_LIFE: Nanos = Nanos(3_600_000_000_000);

/// Counts the pages that a device could not read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadErrorCount {
    errors: u32,
    last: Nanos,
}

impl ReadErrorCount {
    /// Counts one more, and returns how many there are.
    pub fn count(&mut self, now: Nanos) -> u32 {
        // The halving is computed at the next error, so no timer runs for it.
        let halvings = now.0.saturating_sub(self.last.0) / HALF_LIFE.0;
        self.errors = self.errors.checked_shr(halvings.min(32) as u32).unwrap_or(0) + 1;
        self.last = now;
        self.errors
    }
}
