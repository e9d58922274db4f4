//! Pairs the time at which something is done with the cause that matters most to a tail: collection.

use destage_plan::Nanos;

/// Holds the time at which something is done, and whether it waited for a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DoneTime {
    /// When.
    pub(super) at: Nanos,
    /// Is true if a collection stood between issue and end.
    pub(super) gc: bool,
}

impl DoneTime {
    /// Done at `at`, whatever collections do.
    #[inline]
    pub(super) const fn undelayed(at: Nanos) -> Self {
        Self { at, gc: false }
    }

    /// Whichever of both is later; of two at the same time either may have waited.
    #[inline]
    pub(super) fn max(self, other: Self) -> Self {
        match self.at.cmp(&other.at) {
            std::cmp::Ordering::Less => other,
            std::cmp::Ordering::Greater => self,
            std::cmp::Ordering::Equal => Self { at: self.at, gc: self.gc | other.gc },
        }
    }

    /// The same, but not before `at`.
    #[inline]
    pub(super) fn not_before(self, at: Nanos) -> Self {
        if self.at < at { Self::undelayed(at) } else { self }
    }

    /// So much later for a reason of its own.
    #[inline]
    pub(super) fn later_by(self, time: Nanos) -> Self {
        Self { at: self.at + time, ..self }
    }
}
