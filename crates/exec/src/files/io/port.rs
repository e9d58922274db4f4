//! What the main loop and the threads of a pool share: commands one way, results the other, and the
//! wake-up of the main loop.
//!
//! There is a port for each pool and one wake-up for all ports. Threads take commands in the order in
//! which they were sent; several threads end them in any. No lock is held while another is
//! taken, nor while anything blocks. All interleavings are tried in `tests/files_port.rs`, which
//! compiles this very file.

use std::collections::VecDeque;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use super::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Wakes the main loop. It stays signalled until it is heard, so that none is lost between a look at
/// the ports and the wait.
#[derive(Default)]
pub struct LoopWakeup {
    signalled: Mutex<bool>,
    heard: Condvar,
    /// Wakes a main loop that waits for other things too.
    waker: OnceLock<WakeCallback>,
    /// Wakes one that waits for a ring of the kernel too.
    ring_waker: OnceLock<WakeCallback>,
}

/// What is called at the first signal since the wake-up was heard last.
pub type WakeCallback = Box<dyn Fn() + Send + Sync>;

impl LoopWakeup {
    /// Wakes the main loop.
    pub fn signal(&self) {
        let before = std::mem::replace(&mut *lock(&self.signalled), true);
        self.heard.notify_one();
        if !before {
            self.waker.get().into_iter().chain(self.ring_waker.get()).for_each(|waker| waker());
        }
    }

    /// Has this called at each signal that is the first since it was [heard](Self::hear); only the
    /// first such call counts.
    pub fn wake_with(&self, waker: WakeCallback) {
        drop(self.waker.set(waker));
        // An earlier signal called nobody.
        self.signal();
    }

    /// As [`wake_with`](Self::wake_with), and beside it: the executor's own.
    pub fn wake_also_with(&self, waker: WakeCallback) {
        drop(self.ring_waker.set(waker));
        self.signal();
    }

    /// Whether there was a signal since it was heard last; it is heard now.
    pub fn hear(&self) -> bool {
        std::mem::take(&mut *lock(&self.signalled))
    }

    /// Waits for a signal, or for none if there was one since the last wait; at most as long as `limit`, if there is
    /// one.
    pub fn wait(&self, limit: Option<Duration>) {
        let mut signalled = lock(&self.signalled);
        while !*signalled {
            signalled = match limit {
                None => self.heard.wait(signalled).unwrap_or_else(PoisonError::into_inner),
                Some(limit) => {
                    // Woken for nothing, it returns early; the caller looks at the ports and waits
                    // again.
                    let woken = self.heard.wait_timeout(signalled, limit);
                    signalled = woken.unwrap_or_else(PoisonError::into_inner).0;
                    break;
                }
            };
        }
        *signalled = false;
    }
}

impl fmt::Debug for LoopWakeup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wakeup").field("signalled", &*lock(&self.signalled)).finish_non_exhaustive()
    }
}

struct PortState<T, R> {
    commands: VecDeque<T>,
    results: VecDeque<R>,
    closed: bool,
    /// Threads that have ended, a bit each.
    ended: u32,
}

/// Commands to the threads of a pool, and their results.
pub struct CommandPort<T, R> {
    state: Mutex<PortState<T, R>>,
    work: Condvar,
    wakeup: Arc<LoopWakeup>,
}

impl<T, R> CommandPort<T, R> {
    /// A port with room for `depth` commands and as many results. Its owner has no more than that
    /// under way at a time.
    pub fn new(depth: usize, wakeup: Arc<LoopWakeup>) -> Self {
        let (commands, results) = (VecDeque::with_capacity(depth), VecDeque::with_capacity(depth));
        let state = PortState { commands, results, closed: false, ended: 0 };
        Self { state: Mutex::new(state), work: Condvar::new(), wakeup }
    }

    /// Gives the threads a command.
    pub fn send(&self, command: T) {
        lock(&self.state).commands.push_back(command);
        self.work.notify_one();
    }

    /// Appends the results that there are; which threads have ended, a bit each: theirs are the last.
    pub fn results(&self, into: &mut VecDeque<R>) -> u32 {
        let mut state = lock(&self.state);
        into.append(&mut state.results);
        state.ended
    }

    /// Tells the threads to end, and takes back the commands that none has taken. What they are at
    /// work on comes to an end, and its results can still be fetched.
    pub fn close(&self) -> VecDeque<T> {
        let mut state = lock(&self.state);
        state.closed = true;
        let left = std::mem::take(&mut state.commands);
        drop(state);
        self.work.notify_all();
        left
    }

    /// For a thread: waits for commands and takes up to `most` of them; none when the port is
    /// closed.
    pub fn take(&self, most: usize, into: &mut VecDeque<T>) {
        let mut state = lock(&self.state);
        while state.commands.is_empty() && !state.closed {
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let count = state.commands.len().min(most);
        into.extend(state.commands.drain(..count));
    }

    /// For a thread: hands results over.
    pub fn finish(&self, results: impl IntoIterator<Item = R>) {
        lock(&self.state).results.extend(results);
        self.wakeup.signal();
    }

    /// For a thread, of which each has a number below 32: it ends, because the port is closed or
    /// because it panicked.
    pub fn end(&self, thread: usize) {
        lock(&self.state).ended |= 1 << thread;
        self.wakeup.signal();
    }
}

/// No code panics while it holds one of these locks, so what they guard is whole even if a thread
/// did.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
