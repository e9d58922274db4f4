//! Tells how the copying of a member to its successor ends.

use crate::BadPage;

/// Tells whether all pages of a member were copied to its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyOutcome {
    /// Tells that the successor holds what the member holds.
    Whole,
    /// Names a page that neither the member nor the others make up. The member stays as it is.
    Unreadable(BadPage),
}

/// Tells what became of a member's successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyEnd {
    /// Tells that it has taken the member's place, and holds what the member held.
    Succeeded,
    /// Tells that the member goes on without it.
    Dropped,
}
