//! Orders the syncs of one device, for which all its workers ask.
//!
//! * An operating system reports a failed sync once, to whoever asked; the next sync succeeds and says nothing
//!   of it.
//! * So syncs follow one another, and the result of one holds for every worker that still waits. Else a later
//!   success could be acknowledged before the failure is heard of.
//! * A sync that begins after a worker's write has ended covers that write, whoever asked. The worker needs
//!   none of its own.
//!
//! `tests/files_port.rs` compiles this very file and tries all interleavings.

use super::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Holds what the workers of a device know of its syncs.
#[derive(Default)]
pub struct DeviceSyncs {
    state: Mutex<SyncState>,
    ended: Condvar,
}

#[derive(Default)]
struct SyncState {
    /// Counts the syncs that have begun.
    begun: u64,
    /// Numbers the last one that succeeded, from 1 on.
    done: u64,
    under_way: bool,
    failed: bool,
}

/// Records when a worker asked: syncs that had begun by then do not cover it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncTicket(u64);

/// Says what a worker that asked must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncTurn {
    /// Tells the worker to sync, and to report the result ([`DeviceSyncs::end`]).
    Yours,
    /// Reports that a sync that began after the question has succeeded.
    Covered,
    /// Reports that a sync has failed, now or long ago.
    Failed,
}

impl DeviceSyncs {
    /// Asks for a sync, after everything that it is to cover has ended.
    pub fn ask(&self) -> SyncTicket {
        SyncTicket(self.lock().begun)
    }

    /// Returns true if a sync is running, so that [`begin`](Self::begin) would wait.
    pub fn is_under_way(&self) -> bool {
        self.lock().under_way
    }

    /// Waits while a sync is running, and returns what the worker must do.
    pub fn begin(&self, ticket: SyncTicket) -> SyncTurn {
        let mut state = self.lock();
        while state.under_way {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // For ever: the lost writes cannot be told, so no later sync of this file
        // proves anything.
        if state.failed {
            SyncTurn::Failed
        } else if state.done > ticket.0 {
            // Strictly later than the ticket: a sync that had begun already may
            // have missed the write.
            SyncTurn::Covered
        } else {
            state.begun += 1;
            state.under_way = true;
            SyncTurn::Yours
        }
    }

    /// Ends the running sync, with its result.
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

    /// Locks the state even after a panic: no code panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
