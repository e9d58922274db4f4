//! Holds the state of an executor, and ends its life.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Instant;
use std::{fmt, io};

use destage_plan::{Controller, DevSet, Engine, Issue, Nanos, PageReport, ScrubTally, StepOutcome};

use super::clock::LoopClock;
use super::device::FileDevice;
use super::nvram_move::NvramMove;
use super::request::{InFlightRequest, RequestCompletion};
use super::successor::DroppedSuccessor;
use super::watch::{StoredChange, TimeoutWatch};
use crate::bytes::BufferTable;
use crate::files::bad_page_lists::BadPageLists;
use crate::files::bitmap::WriteIntentBitmap;
use crate::files::config::FilesConfig;
use crate::files::error::FilesError;
use crate::files::io::backend::CommandBackend;
use crate::files::io::command;
use crate::files::io::file::{FileIdentity, OsFile};
use crate::files::io::os::OsInterface;
use crate::files::io::port::LoopWakeup;
use crate::files::io::ring::EndedOperation;
use crate::files::io::state_file::StateFile;
use crate::files::io::threads::pool::WorkerPool;
use crate::files::io::uring::shared::SharedRing;
use crate::files::layout::roster::MemberRoster;
use crate::files::nvram::group_commit::GroupCommit;
use crate::files::nvram::region::FileRegion;
use crate::files::nvram::store;
use crate::files::nvram::store::{IntentsGate, StateAccounts, StateStore, StepLists};
use crate::files::open::opened::{ArrayResync, DamagedIntents, DamagedNvram};

/// Serves an array in files.
pub struct FileExecutor<C> {
    pub(super) os: Arc<dyn OsInterface>,
    pub(super) engine: Engine<C>,
    pub(super) bytes: BufferTable,
    pub(super) config: FilesConfig,
    pub(super) devices: Vec<FileDevice>,
    pub(super) store: WorkerPool<StateStore>,
    /// Counts what the store has written.
    pub(super) accounts: StateAccounts,
    pub(super) roster: MemberRoster,
    /// The file that it is in: that of the intents.
    pub(super) roster_file: Arc<StateFile>,
    /// Says why the files of the NVRAM and of the intents go through the page cache, if they were not to.
    pub(super) buffered_state: [Option<io::Error>; 2],
    /// Gives the event count that the NVRAM got last.
    pub(super) counted: u64,
    /// Is true if the event count of this start is being written.
    pub(super) is_counting: bool,
    /// Devices in whose place a file stands that the roster does not name so far.
    pub(super) standing_in: DevSet,
    /// Steps for which the store has no room, or of which members are to know first.
    pub(super) store_backlog: VecDeque<Issue>,
    /// Keeps what the store has of the intents when it is abandoned.
    pub(super) store_gate: IntentsGate,
    /// Lists the changes that the store has, in order.
    pub(super) store_under_way: VecDeque<StoredChange>,
    /// Notes when a change of the store ended last.
    pub(super) store_moved: Nanos,
    pub(super) timeout: TimeoutWatch,
    pub(super) group_commit: GroupCommit,
    pub(super) marks: WriteIntentBitmap,
    pub(super) bad_pages: BadPageLists,
    /// Names the members whose lists of bad pages were damaged at the start.
    pub(super) damaged_lists: DevSet,
    pub(super) resynchronised: Option<ArrayResync>,
    pub(super) damaged: Option<DamagedIntents>,
    pub(super) damaged_nvram: Option<DamagedNvram>,
    /// The ring, if one serves devices.
    pub(super) ring: Option<SharedRing>,
    /// Holds the error for which no ring serves, if nobody asked for threads.
    pub(super) no_ring: Option<io::Error>,
    /// The NVRAM and the intents.
    pub(super) state: [FileIdentity; 2],
    /// The NVRAM if it lies on a device.
    pub(super) home: Option<Arc<FileRegion>>,
    /// Holds what waits while the NVRAM leaves that device.
    pub(super) moving: Option<NvramMove>,
    /// Names the device that it has left, which a store that hangs may still write to.
    pub(super) left_home: Option<(PathBuf, Weak<FileRegion>)>,
    pub(super) wakeup: Arc<LoopWakeup>,
    /// By the number that the engine knows them by: the callers' tags may come twice.
    pub(super) requests: Vec<Option<InFlightRequest>>,
    pub(super) free: Vec<u64>,
    /// Requests that were acknowledged, and whether they were served, while notices are read.
    pub(super) answered: Vec<(u64, bool)>,
    pub(super) unanswered: usize,
    /// Counts the requests until buffers are [tidied](BufferTable::tidy).
    pub(super) until_tidy: u32,
    /// Answers that wait for commits to be durable: for how many.
    pub(super) blocked: VecDeque<(u64, RequestCompletion)>,
    pub(super) completions: VecDeque<RequestCompletion>,
    /// Lists what became of pages that members could not read, and nobody has heard of.
    pub(super) page_reports: VecDeque<PageReport>,
    pub(super) clean: bool,
    /// Tells of the last successor that was dropped, unless that was fetched.
    pub(super) dropped: Option<DroppedSuccessor>,
    /// Orders to [drain](Self::drain) that are not done.
    pub(super) draining: bool,
    /// Is true if rows are being compared.
    pub(super) scrubbing: bool,
    /// Counts what the last comparison has found, unless that was fetched.
    pub(super) scrubbed: Option<ScrubTally>,
    pub(super) stopped: bool,
    pub(super) clock: LoopClock,
    pub(super) device_results: VecDeque<command::EndedCommand>,
    pub(super) ended: VecDeque<EndedOperation>,
    pub(super) store_results: VecDeque<store::EndedChange>,
    pub(super) spare_lists: Vec<StepLists>,
    /// Held until every thread has ended, hence the last: nobody else may open the array while
    /// something is still written.
    pub(super) lock: Arc<dyn OsFile>,
}

impl<C: Controller> FileExecutor<C> {
    /// Time since the beginning of this life.
    pub(super) fn now(&self) -> Nanos {
        match self.clock {
            LoopClock::Real(begin) => Nanos(begin.elapsed().as_nanos() as u64),
            // Virtual time makes runs without threads depend on a seed alone.
            LoopClock::Virtual(now) => now,
        }
    }

    pub(super) const fn check(&self) -> Result<(), FilesError> {
        // After an error nothing is tried again: what the files hold then is for a
        // start to find out.
        if self.stopped { Err(FilesError::Stopped) } else { Ok(()) }
    }

    /// Ends this life with an error.
    pub(super) fn stop(&mut self, error: FilesError) -> FilesError {
        self.stopped = true;
        self.close();
        error
    }

    pub(super) fn complete(&mut self, issue: Issue, outcome: StepOutcome) {
        let now = self.now();
        self.engine.complete(now, issue, outcome);
    }
}

impl<C> FileExecutor<C> {
    /// Lets all threads end with what they are at work on.
    fn close(&mut self) {
        self.store.close();
        self.devices.iter_mut().flat_map(FileDevice::backends_mut).for_each(|backend| drop(backend.close()));
    }
}

impl<C> Drop for FileExecutor<C> {
    fn drop(&mut self) {
        // Every thread is told first, then each is waited for, but not for ever:
        // their ends overlap. Those that hang keep the array's lock.
        self.close();
        let until = Instant::now() + self.config.patience;
        // Who has had no answer in time gets no more of it.
        let now = Instant::now();
        let is_over = self.timeout.is_over || self.devices.iter().any(|device| device.hangs);
        for device in &mut self.devices {
            // A device that hangs gets no second patience; the drop must end.
            let until = if device.hangs { now } else { until };
            for backend in device.backends_mut() {
                // The lock goes along to threads that are abandoned, so nobody opens
                // the array while they may still write.
                backend.end(until, Some(&self.lock));
            }
        }
        self.store.end(if self.timeout.is_over { now } else { until }, Some(&self.lock));
        if let Some(ring) = self.ring.take() {
            ring.end(&self.wakeup, if is_over { now } else { until }, &self.lock);
        }
    }
}

impl<C> fmt::Debug for FileExecutor<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files")
            .field("unanswered", &self.unanswered)
            .field("stopped", &self.stopped)
            .finish_non_exhaustive()
    }
}
