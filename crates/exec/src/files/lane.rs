//! A thread and what it shares with the main loop.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use super::port::{Bell, Port};

/// A thread that serves a port. It ends when the lane is dropped: what it is at work on is finished, what it has not
/// begun never is.
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
        let thread = Builder::new().name(name).spawn(move || serve(&shared))?;
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
    pub(super) fn results(&mut self, into: &mut VecDeque<R>) {
        let before = into.len();
        self.port.results(into);
        self.in_flight -= into.len() - before;
    }

    /// Tells the thread to end; the commands that it has not begun.
    pub(super) fn close(&mut self) -> VecDeque<T> {
        let left = self.port.close();
        self.in_flight -= left.len();
        left
    }

    /// Waits for the end of the thread, after [`close`](Self::close).
    pub(super) fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so; there is nothing to be done about it here.
            drop(thread.join());
        }
    }
}

impl<T, R> Drop for Lane<T, R> {
    fn drop(&mut self) {
        self.close();
        self.join();
    }
}
