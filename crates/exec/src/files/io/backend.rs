//! What carries commands out: a pool of threads, or the main loop by a ring.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::file::OsFile;

/// An I/O backend: takes commands in order and ends them in any. It is known by its type wherever it is used, so that no
/// call of it is a dynamic one.
pub(crate) trait CommandBackend {
    /// What it is told.
    type Command;
    /// What it answers.
    type Done;

    /// Returns true if another command may be sent.
    fn has_room(&self) -> bool;

    /// Returns true if commands are without a result.
    fn is_busy(&self) -> bool;

    /// Returns true if there is surely no result. Threads are not asked: that would cost as much as asking for the results.
    fn is_silent(&self) -> bool {
        !self.is_busy()
    }

    /// Gives it a command, for which there must be room.
    fn send(&mut self, command: Self::Command);

    /// Returns for how long no result has come though commands are in flight.
    fn stuck(&self) -> Duration;

    /// Counts the workers that could go on in a [`turn`](Self::turn) now. Only a backend without threads has any.
    fn ready(&self) -> usize {
        0
    }

    /// Lets one of the workers that are ready go on a little, with a new command or with what it is at work on.
    /// `choose` says which of so many.
    fn turn(&mut self, _choose: impl Fn(usize) -> usize) {}

    /// Appends the results that there are.
    ///
    /// # Panics
    /// As a thread did, if one did.
    fn results(&mut self, into: &mut VecDeque<Self::Done>);

    /// Starts no further command and returns those of which nothing was begun. What is in flight comes to its end.
    fn close(&mut self) -> VecDeque<Self::Command>;

    /// Closes it and waits for the end of its threads, but not beyond `until`: then they are left to themselves. What
    /// they are at work on may never come to an end; their file stays open, and locked, as long as that lasts, and so
    /// does what they are given to `keep`. What a ring has in flight ends with the ring.
    fn end(&mut self, until: Instant, keep: Option<&Arc<dyn OsFile>>);
}
