//! A thread and what it shares with the main loop.
//!
//! A thread that panics takes the main loop with it ([`Lane::results`]): else that would wait for
//! ever for results that nobody will bring.

use std::collections::VecDeque;
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use super::port::{Bell, Port};

/// A thread that serves a port. It ends when the lane is dropped: what it is at work on is
/// finished, what it has not begun never is.
pub(super) struct Lane<T, R> {
    port: Arc<Port<T, R>>,
    thread: Option<JoinHandle<()>>,
    /// Commands without a result so far.
    in_flight: usize,
    depth: usize,
}

impl<T: Send + 'static, R: Send + 'static> Lane<T, R> {
    /// Starts a thread that has at most `depth` commands at a time.
    pub(super) fn start(
        name: String,
        depth: usize,
        bell: &Arc<Bell>,
        serve: impl FnOnce(&Port<T, R>) + Send + 'static,
    ) -> io::Result<Self> {
        let port = Arc::new(Port::new(depth, Arc::clone(bell)));
        let shared = Arc::clone(&port);
        let thread = Builder::new().name(name).spawn(move || {
            let end = End(shared);
            serve(&end.0);
        })?;
        Ok(Self { port, thread: Some(thread), in_flight: 0, depth })
    }
}

impl<T, R> Lane<T, R> {
    /// Whether another command may be sent.
    pub(super) const fn has_room(&self) -> bool {
        self.in_flight < self.depth
    }

    /// Whether commands are without a result.
    pub(super) const fn is_busy(&self) -> bool {
        self.in_flight > 0
    }

    /// Gives the thread a command.
    pub(super) fn send(&mut self, command: T) {
        debug_assert!(self.has_room(), "the caller looks for room");
        self.in_flight += 1;
        self.port.send(command);
    }

    /// Appends the results that there are.
    ///
    /// # Panics
    /// As the thread did, if it did.
    pub(super) fn results(&mut self, into: &mut VecDeque<R>) {
        let before = into.len();
        let ended = self.port.results(into);
        self.in_flight -= into.len() - before;
        if ended {
            self.join();
            // Its panic was caught and the lane is used all the same.
            assert!(self.in_flight == 0, "a thread that panicked brings no more results");
        }
    }

    /// Tells the thread to end; the commands that it has not begun.
    pub(super) fn close(&mut self) -> VecDeque<T> {
        let left = self.port.close();
        self.in_flight -= left.len();
        left
    }

    /// Waits for the end of the thread, after [`close`](Self::close).
    ///
    /// # Panics
    /// As the thread did, if it did.
    pub(super) fn join(&mut self) {
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            resume_unwind(panic);
        }
    }
}

impl<T, R> Drop for Lane<T, R> {
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so, and what is dropped may be dropped by that very
            // panic.
            drop(thread.join());
        }
    }
}

/// Says that a thread has ended, however it did.
struct End<T, R>(Arc<Port<T, R>>);

impl<T, R> Drop for End<T, R> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn the_panic_of_a_thread_is_the_main_loops() {
        let bell = Arc::new(Bell::default());
        // It does one command, and panics over the next.
        let serve = |port: &Port<u32, u32>| {
            let mut taken = VecDeque::new();
            port.take(1, &mut taken);
            port.finish(taken.drain(..));
            port.take(1, &mut taken);
            panic!("over {}", taken[0]);
        };
        let mut lane = Lane::start("destage-panics".to_owned(), 3, &bell, serve).expect("a thread");
        (1..=3).for_each(|command| lane.send(command));
        let mut results = VecDeque::new();
        let panic = loop {
            bell.wait(None);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| lane.results(&mut results))) {
                break panic;
            }
        };
        assert_eq!(panic.downcast_ref::<String>().map(String::as_str), Some("over 2"));
        assert_eq!(results, [1], "what was done before is not lost");
        let again = catch_unwind(AssertUnwindSafe(|| lane.results(&mut results)));
        assert!(again.is_err(), "nobody waits for what is not done either");
    }

    #[test]
    fn a_thread_that_ended_as_it_was_told_has_not_panicked() {
        let bell = Arc::new(Bell::default());
        let serve = |port: &Port<u32, u32>| {
            let mut taken = VecDeque::new();
            port.take(1, &mut taken);
            port.finish(taken.drain(..));
        };
        let mut lane = Lane::start("destage-ends".to_owned(), 1, &bell, serve).expect("a thread");
        lane.send(1);
        let mut results = VecDeque::new();
        while results.is_empty() {
            bell.wait(None);
            lane.results(&mut results);
        }
        assert!(lane.close().is_empty() && !lane.is_busy());
        lane.join();
        lane.results(&mut results);
        assert_eq!(results, [1]);
    }
}
