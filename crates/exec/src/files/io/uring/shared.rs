//! Shares one ring among all devices without threads.
//!
//! One ring serves all devices, since a request often begins operations on several devices, as a write to a RAID-5 does.
//! These operations go to the kernel in one call. A device that hangs occupies only its own operations: the kernel
//! holds them, and the ring holds their bytes and file.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::files::io::event_fd::EventFd;
use crate::files::io::file::OsFile;
use crate::files::io::merge::{MergeCounts, RequestMerger};
use crate::files::io::port::LoopWakeup;
use crate::files::io::ring::{EndedOperation, IoRing, RingEntries, RingEntry};

/// Is the ring of all devices that have no threads.
pub(crate) struct SharedRing {
    ring: Box<dyn IoRing>,
    /// Holds what the ring had no room for.
    outgoing: RingEntries,
    merger: RequestMerger,
    /// Counts the files that were given to it in this life.
    lives: u32,
    /// Counts the operations of files that were abandoned, by their numbers.
    abandoned: BTreeMap<u32, usize>,
    /// Wakes the main loop when threads of the NVRAM signal while it waits for the ring.
    wake: Arc<EventFd>,
}

impl SharedRing {
    /// Wraps a ring; `wakeup` ends its waits.
    pub(crate) fn new(ring: Box<dyn IoRing>, wakeup: &LoopWakeup) -> io::Result<Self> {
        let wake = Arc::new(EventFd::new()?);
        let rung = Arc::clone(&wake);
        // A signal of another thread must end a wait for the ring's descriptor too.
        wakeup.wake_also_with(Box::new(move || rung.wake()));
        Ok(Self {
            ring,
            outgoing: RingEntries::new(),
            merger: RequestMerger::default(),
            lives: 0,
            abandoned: BTreeMap::new(),
            wake,
        })
    }

    /// Returns a number for the next file.
    pub(crate) const fn next_life(&mut self) -> u32 {
        self.lives += 1;
        self.lives
    }

    /// Returns the ring.
    pub(crate) fn inner(&self) -> &dyn IoRing {
        &*self.ring
    }

    /// Lets one operation go on, without threads.
    pub(crate) fn turn(&mut self, choose: &dyn Fn(usize) -> usize) {
        self.ring.turn(choose);
    }

    /// Takes the operations of one file, merges neighbours, and queues them. Counts the merged ones.
    pub(crate) fn take_from(&mut self, outgoing: &mut RingEntries) -> MergeCounts {
        // Merged per file before they mix: only operations of one file can be
        // neighbours.
        let counts = self.merger.merge(outgoing);
        self.outgoing.append(outgoing);
        counts
    }

    /// Gives the ring everything that there is for it, in one call.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        // An empty submission would cost a system call per turn.
        if self.outgoing.is_empty() && !self.ring.is_behind() { Ok(()) } else { self.ring.submit(&mut self.outgoing) }
    }

    /// Returns true if something must be given to the ring.
    pub(crate) fn is_behind(&self) -> bool {
        !self.outgoing.is_empty() || self.ring.is_behind()
    }

    /// Appends what has ended.
    pub(crate) fn reap(&mut self, into: &mut VecDeque<EndedOperation>) {
        let before = into.len();
        self.ring.reap(into);
        if !self.abandoned.is_empty() {
            for (entry, _) in into.range(before..) {
                self.forget_abandoned(entry.tag.life);
            }
        }
    }

    /// Abandons the operations of a file: nobody asks for their results, and nobody waits for them at the end.
    ///
    /// They hold their bytes, and the file with its lock, until they have ended. Those that the ring was not
    /// given never begin.
    pub(crate) fn abandon(&mut self, life: u32, operations: usize) {
        if operations > 0 {
            self.abandoned.insert(life, operations);
        }
        let (unbegun, others) =
            std::mem::take(&mut self.outgoing).into_iter().partition(|one: &RingEntry| one.tag.life == life);
        self.outgoing = others;
        let unbegun: RingEntries = unbegun;
        for entry in unbegun {
            self.forget_abandoned(entry.tag.life);
        }
    }

    fn forget_abandoned(&mut self, life: u32) {
        if let Some(operations) = self.abandoned.get_mut(&life) {
            *operations -= 1;
            if *operations == 0 {
                self.abandoned.remove(&life);
            }
        }
    }

    /// Counts the operations in flight that somebody waits for.
    fn awaited(&self) -> usize {
        self.ring.under_way() - self.abandoned.values().sum::<usize>()
    }

    /// Waits until something has ended or there is a signal, or was one since the wake-up was heard last; for
    /// `limit` at most.
    pub(crate) fn wait(&self, wakeup: &LoopWakeup, limit: Option<Duration>) {
        if wakeup.hear() {
            return;
        }
        // A spurious wake-up returns early; the caller looks and waits again.
        self.wake.wait(self.ring.descriptor(), limit);
        wakeup.hear();
    }

    /// Waits until nothing is in flight, until `until` at most.
    /// A thread that does nothing else holds the rest, with the bytes, the files and `keep`, until the kernel
    /// has ended it.
    pub(crate) fn end(mut self, wakeup: &LoopWakeup, until: Instant, keep: &Arc<dyn OsFile>) {
        self.outgoing.clear();
        if self.ring.descriptor().is_none() {
            // In memory nothing runs by itself, so what was not done never happens.
            return;
        }
        let mut ended = VecDeque::new();
        loop {
            self.reap(&mut ended);
            ended.clear();
            let left = until.saturating_duration_since(Instant::now());
            if self.ring.under_way() == 0 {
                return;
            }
            if left.is_zero() || self.awaited() == 0 {
                break;
            }
            self.wait(wakeup, Some(left));
        }
        // Operations that were abandoned belong to a replaced file, so they need
        // not hold the array's lock.
        let keep = (self.awaited() > 0).then(|| Arc::clone(keep));
        // A failed spawn drops its closure, so the ring is shared with this
        // function until then.
        let left = Arc::new(std::sync::Mutex::new(Some((self, keep))));
        let held = Arc::clone(&left);
        let thread = Builder::new().name("destage-left".to_owned()).spawn(move || {
            let left = held.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
            let Some((mut ring, keep)) = left else { return };
            let wakeup = LoopWakeup::default();
            let mut ended = VecDeque::new();
            while ring.ring.under_way() > 0 {
                ring.wait(&wakeup, None);
                ring.reap(&mut ended);
                ended.clear();
            }
            drop((ring, keep));
        });
        if thread.is_err() {
            // There is no thread to wait for them, and freeing them would corrupt
            // memory: they stay until the process ends.
            std::mem::forget(left);
        }
    }
}
