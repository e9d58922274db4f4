//! The executor's time.

use std::time::Instant;

use destage_plan::Nanos;

/// Time since the beginning of this life.
pub(super) enum LoopClock {
    Real(Instant),
    /// Without threads: a microsecond for each command, and the time of the next timer when
    /// nothing is under way.
    Virtual(Nanos),
}
