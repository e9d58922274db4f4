//! Connects the main loop and the threads of a pool: commands go one way, results the other, and a wake-up
//! reaches the main loop.
//!
//! There is a port for each pool and one wake-up for all ports. Threads take commands in the order in which
//! they were sent; several threads end them in any order. No lock is held while another is taken, nor while
//! anything blocks. `tests/files_port.rs` compiles this very file and tries all interleavings.

use std::collections::VecDeque;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use super::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Wakes the main loop. It stays signalled until the main loop hears it, so that no signal is lost between a
/// look at the ports and the wait.
#[derive(Default)]
pub struct LoopWakeup {
    signalled: Mutex<bool>,
    heard: Condvar,
    /// Wakes a main loop that waits for other things too.
    waker: OnceLock<WakeCallback>,
    /// Wakes a main loop that waits for a ring of the kernel too.
    ring_waker: OnceLock<WakeCallback>,
}

/// Is called at the first signal since the wake-up was heard last.
pub type WakeCallback = Box<dyn Fn() + Send + Sync>;

impl LoopWakeup {
    /// Wakes the main loop.
    pub fn signal(&self) {
        let before = std::mem::replace(&mut *lock(&self.signalled), true);
        self.heard.notify_one();
        // Only the first signal calls back: a write to an eventfd costs a system
        // call, and one wakes for all results.
        if !before {
            self.waker.get().into_iter().chain(self.ring_waker.get()).for_each(|waker| waker());
        }
    }

    /// Registers a callback for each signal that is the first since the wake-up was [heard](Self::hear).
    /// Only the first registration counts.
    pub fn wake_with(&self, waker: WakeCallback) {
        drop(self.waker.set(waker));
        // An earlier signal called nobody.
        self.signal();
    }

    /// Registers the executor's own callback beside that of [`wake_with`](Self::wake_with).
    pub fn wake_also_with(&self, waker: WakeCallback) {
        drop(self.ring_waker.set(waker));
        self.signal();
    }

    /// Returns true if there was a signal since it was heard last, and hears it.
    pub fn hear(&self) -> bool {
        std::mem::take(&mut *lock(&self.signalled))
    }

    /// Waits for a signal, unless there was one since the last wait; for `limit` at most, if there is one.
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
    /// Holds a bit for each thread that has ended.
    ended: u32,
}

/// Carries commands to the threads of a pool, and their results back.
pub struct CommandPort<T, R> {
    state: Mutex<PortState<T, R>>,
    work: Condvar,
    wakeup: Arc<LoopWakeup>,
}

impl<T, R> CommandPort<T, R> {
    /// Makes a port with room for `depth` commands and as many results.
    /// The owner has no more than that in flight at a time.
    pub fn new(depth: usize, wakeup: Arc<LoopWakeup>) -> Self {
        // Both have their room from the beginning, so no thread allocates while it
        // holds the lock.
        let (commands, results) = (VecDeque::with_capacity(depth), VecDeque::with_capacity(depth));
        let state = PortState { commands, results, closed: false, ended: 0 };
        Self { state: Mutex::new(state), work: Condvar::new(), wakeup }
    }

    /// Sends the threads a command.
    pub fn send(&self, command: T) {
        lock(&self.state).commands.push_back(command);
        self.work.notify_one();
    }

    /// Appends the results that there are. Returns a bit for each thread that has ended: its results are among
    /// these or came before.
    pub fn results(&self, into: &mut VecDeque<R>) -> u32 {
        let mut state = lock(&self.state);
        into.append(&mut state.results);
        state.ended
    }

    /// Tells the threads to end, and takes back the commands that none has taken.
    /// Commands that a thread has taken run to their end, and their results can still be fetched.
    pub fn close(&self) -> VecDeque<T> {
        let mut state = lock(&self.state);
        state.closed = true;
        let left = std::mem::take(&mut state.commands);
        // Unlocked first: a thread that wakes would wait for this lock at once.
        drop(state);
        self.work.notify_all();
        left
    }

    /// Waits in a thread for commands and takes up to `most` of them; none when the port is closed.
    pub fn take(&self, most: usize, into: &mut VecDeque<T>) {
        let mut state = lock(&self.state);
        while state.commands.is_empty() && !state.closed {
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let count = state.commands.len().min(most);
        into.extend(state.commands.drain(..count));
    }

    /// Hands results over from a thread.
    pub fn finish(&self, results: impl IntoIterator<Item = R>) {
        lock(&self.state).results.extend(results);
        self.wakeup.signal();
    }

    /// Records that the thread with this number, below 32, ends: the port is closed, or it panicked.
    pub fn end(&self, thread: usize) {
        // Under the same lock as the results, so that whoever sees the bit has seen all
        // of the thread's results.
        lock(&self.state).ended |= 1 << thread;
        self.wakeup.signal();
    }
}

/// Locks a mutex even after a panic: no code panics while it holds one of these, so the content is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
