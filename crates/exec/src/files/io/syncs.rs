//! The syncs of one device, whose workers all ask for them.
//!
//! An operating system tells of a sync that failed once, to whoever asked: the next sync succeeds
//! and says nothing of it. So syncs follow one another, and what one of them learns holds for every
//! worker that has not had its answer: a success of whatever was asked later would be acknowledged
//! before the failure is heard of. A sync that begins when a worker's write has ended covers it,
//! whoever asked for it, and the worker needs none of its own. All interleavings are tried in
//! `tests/files_port.rs`, which compiles this very file.

use super::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What the workers of a device know of its syncs.
#[derive(Default)]
pub struct DeviceSyncs {
    state: Mutex<SyncState>,
    ended: Condvar,
}

#[derive(Default)]
struct SyncState {
    /// Syncs that have begun.
    begun: u64,
    /// The number of the last one that succeeded, from 1 on.
    done: u64,
    under_way: bool,
    failed: bool,
}

/// When a worker asked: the syncs that had begun by then do not cover it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncTicket(u64);

/// What becomes of a worker that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncTurn {
    /// It is to sync, and to say how it went ([`DeviceSyncs::end`]).
    Yours,
    /// A sync that began after it asked has succeeded.
    Covered,
    /// A sync has failed, now or long ago.
    Failed,
}

impl DeviceSyncs {
    /// A worker asks for a sync. What it is to cover has ended before.
    pub fn ask(&self) -> SyncTicket {
        SyncTicket(self.lock().begun)
    }

    /// Whether a sync is under way, so that [`begin`](Self::begin) would wait.
    pub fn is_under_way(&self) -> bool {
        self.lock().under_way
    }

    /// Waits while a sync is under way; what becomes of a worker that asked.
    pub fn begin(&self, ticket: SyncTicket) -> SyncTurn {
        let mut state = self.lock();
        while state.under_way {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.failed {
            SyncTurn::Failed
        } else if state.done > ticket.0 {
            SyncTurn::Covered
        } else {
            state.begun += 1;
            state.under_way = true;
            SyncTurn::Yours
        }
    }

    /// How the sync went that is under way.
    pub fn end(&self, success: bool) {
        let mut state = self.lock();
        state.under_way = false;
        if success {
            state.done = state.begun;
        } else {
            state.failed = true;
        }
        drop(state);
        self.ended.notify_all();
    }

    /// No code panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
