//! The ring that all devices without threads share.
//!
//! One ring for all, since what a request begins on several devices, as a write to a RAID-5 does, goes to the kernel in one call
//! then. A device that hangs keeps nothing of it but its own operations: they are the kernel's, and their bytes and
//! file stay with the ring.

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

/// The ring of all devices that have no threads.
pub(crate) struct SharedRing {
    ring: Box<dyn IoRing>,
    /// What the ring had no room for.
    outgoing: RingEntries,
    merger: RequestMerger,
    /// Files that were given to it in this life.
    lives: u32,
    /// Counts the operations of files that were abandoned, by their numbers.
    abandoned: BTreeMap<u32, usize>,
    /// Where threads of the NVRAM signal while the main loop waits for the ring.
    wake: Arc<EventFd>,
}

impl SharedRing {
    /// Around a ring; `wakeup` ends its waits.
    pub(crate) fn new(ring: Box<dyn IoRing>, wakeup: &LoopWakeup) -> io::Result<Self> {
        let wake = Arc::new(EventFd::new()?);
        let rung = Arc::clone(&wake);
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

    /// A number for the next file that is given to it.
    pub(crate) const fn next_life(&mut self) -> u32 {
        self.lives += 1;
        self.lives
    }

    /// The ring.
    pub(crate) fn inner(&self) -> &dyn IoRing {
        &*self.ring
    }

    /// Without threads: an operation goes on.
    pub(crate) fn turn(&mut self, choose: &dyn Fn(usize) -> usize) {
        self.ring.turn(choose);
    }

    /// Takes what one file is to be asked for, neighbours merged, to give it to the ring next. Counts what was merged.
    pub(crate) fn take_from(&mut self, outgoing: &mut RingEntries) -> MergeCounts {
        let counts = self.merger.merge(outgoing);
        self.outgoing.append(outgoing);
        counts
    }

    /// Gives it all that there is for it, in one call.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        if self.outgoing.is_empty() && !self.ring.is_behind() { Ok(()) } else { self.ring.submit(&mut self.outgoing) }
    }

    /// Whether something is to be given to it.
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

    /// Abandons the operations of a file: nobody asks for their results, and nobody waits for them at the end. They keep
    /// their bytes, and the file with its lock, until they have ended. Those that the ring was not given never begin.
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

    /// Counts the operations in flight that are waited for.
    fn awaited(&self) -> usize {
        self.ring.under_way() - self.abandoned.values().sum::<usize>()
    }

    /// Waits until something has ended, or there is a signal, or was one since the wake-up was heard last; at most as long as `limit`, if
    /// there is one.
    pub(crate) fn wait(&self, wakeup: &LoopWakeup, limit: Option<Duration>) {
        if wakeup.hear() {
            return;
        }
        // Woken for nothing, it returns early; the caller looks and waits again.
        self.wake.wait(self.ring.descriptor(), limit);
        wakeup.hear();
    }

    /// Waits until nothing is under way, but not beyond `until`. What is left is left to a thread that does nothing but
    /// hold the bytes, the files, and what it is given to `keep`, until the kernel has done with them.
    pub(crate) fn end(mut self, wakeup: &LoopWakeup, until: Instant, keep: &Arc<dyn OsFile>) {
        self.outgoing.clear();
        if self.ring.descriptor().is_none() {
            // What was not done never happens.
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
        // What was abandoned changes nothing of the array.
        let keep = (self.awaited() > 0).then(|| Arc::clone(keep));
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
            // Nobody can wait for them: they are held until the process ends.
            std::mem::forget(left);
        }
    }
}
