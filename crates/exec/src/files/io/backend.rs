//! Defines the trait of everything that carries commands out: a pool of threads, or the main loop by a ring.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::file::OsFile;

/// Takes commands in order and ends them in any order.
/// Every user names the backend's type, so that no call is a dynamic one.
pub(crate) trait CommandBackend {
    /// Is the type of a command.
    type Command;
    /// Is the type of a result.
    type Done;

    /// Returns true if another command may be sent.
    fn has_room(&self) -> bool;

    /// Returns true if commands are without a result.
    fn is_busy(&self) -> bool;

    /// Returns true if there is surely no result. Threads are not asked: that would cost as much as asking for the results.
    fn is_silent(&self) -> bool {
        !self.is_busy()
    }

    /// Sends a command, for which there must be room.
    fn send(&mut self, command: Self::Command);

    /// Returns how long no result has come though commands are in flight.
    fn stuck(&self) -> Duration;

    /// Counts the workers that could go on in a [`turn`](Self::turn) now.
    /// Only a backend without threads has any.
    fn ready(&self) -> usize {
        // A default, since only the backends of the recording have workers to
        // choose from.
        0
    }

    /// Lets one of the ready workers take one step, with a new command or with its current one.
    /// `choose` picks a number below its argument.
    fn turn(&mut self, _choose: impl Fn(usize) -> usize) {}

    /// Appends the results that there are.
    ///
    /// # Panics
    /// Panics as a thread did, if one did.
    fn results(&mut self, into: &mut VecDeque<Self::Done>);

    /// Starts no further command and returns those that were not begun.
    /// Commands in flight run to their end.
    fn close(&mut self) -> VecDeque<Self::Command>;

    /// Closes the backend and waits for its threads until `until` at most; threads that still run then are
    /// abandoned.
    ///
    /// A command of an abandoned thread may never end. Its file stays open and locked until it does, and `keep`
    /// is held as long. Operations of a ring end with the ring.
    fn end(&mut self, until: Instant, keep: Option<&Arc<dyn OsFile>>);
}
