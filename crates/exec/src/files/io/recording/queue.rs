//! Is the ring of a recording: operations wait until a random choice lets one of them go on.
//!
//! A write of several sectors may be done in part, and a merged one up to any of its parts. Other operations
//! may come between the beginning and the end of a sync.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

use rustix::fd::BorrowedFd;

use super::slip::ExecutorFault;
use super::state::RecordingOs;
use crate::files::io::ring::{EndedOperation, FileOp, IoRing, MergeRole, RingEntries, RingEntry, tell_parts};

/// Holds the operations that wait.
#[derive(Debug)]
pub(super) struct OperationQueue {
    os: RecordingOs,
    waiting: Vec<QueuedOperation>,
    ended: VecDeque<EndedOperation>,
}

#[derive(Debug)]
struct QueuedOperation {
    entry: RingEntry,
    /// Lists the entries that are merged with it.
    others: Vec<RingEntry>,
    /// Is true if it is a sync that has begun.
    begun: bool,
}

impl QueuedOperation {
    fn can_go_on(&self) -> bool {
        !self.entry.file.hangs()
    }

    /// Takes one step; returns the result if the operation has ended.
    fn go_on(&mut self, choose: &dyn Fn(usize) -> usize) -> Option<io::Result<usize>> {
        if !self.others.is_empty() {
            return Some(self.go_on_merged());
        }
        let RingEntry { tag, file, operation, bytes, range, .. } = &mut self.entry;
        file.asked_by(tag.command as usize);
        // A quarter of the operations that can be are done in part, as a kernel may
        // do.
        let sector = file.sector();
        let sectors = range.len() / sector;
        let part = sectors > 1 && choose(4) == 0;
        let len = if part { (1 + choose(sectors - 1)) * sector } else { range.len() };
        let range = range.start..range.start + len;
        let done = match *operation {
            FileOp::Read { offset } => {
                let bytes = Arc::get_mut(bytes).expect("nobody else has what is to be filled");
                file.read_exact_at(&mut bytes[range], offset).map(|()| len)
            }
            FileOp::Write { offset } => file.write_all_at(&bytes[range], offset).map(|()| len),
            FileOp::PunchHole { offset, len } => file.punch_hole(offset, len).map(|()| 0),
            FileOp::Sync(_) if !self.begun => {
                // Two steps, so that writes of other commands come between the
                // beginning and the end.
                file.sync_begins();
                self.begun = true;
                return None;
            }
            FileOp::Sync(at) => file.sync_data(at).map(|()| 0),
        };
        Some(done)
    }

    /// Does what several entries ask for in one operation.
    fn go_on_merged(&mut self) -> io::Result<usize> {
        let Self { entry: first, others, .. } = self;
        let (file, operation) = (Arc::clone(&first.file), first.operation);
        file.asked_by(first.tag.command as usize);
        let parts = std::iter::once(first).chain(others);
        match operation {
            FileOp::Read { offset } => {
                let mut buffers = Vec::new();
                for RingEntry { bytes, range, .. } in parts {
                    let bytes = Arc::get_mut(bytes).expect("nobody else has what is to be filled");
                    buffers.push(IoSliceMut::new(&mut bytes[range.clone()]));
                }
                file.read_vectored_at(&mut buffers, offset)
            }
            FileOp::Write { offset } => {
                let buffers: Vec<_> = parts.map(|part| IoSlice::new(&part.bytes[part.range.clone()])).collect();
                file.write_vectored_at(&buffers, offset)
            }
            other => unreachable!("{other:?} is not merged"),
        }
    }
}

impl OperationQueue {
    /// Makes a queue without operations.
    pub(super) const fn of(os: RecordingOs) -> Self {
        Self { os, waiting: Vec::new(), ended: VecDeque::new() }
    }

    /// Tells the parts of a merged operation how they ended, or what a planted fault reports.
    fn tell_parts(&mut self, parts: Vec<RingEntry>, result: &io::Result<usize>) {
        let begin = self.ended.len();
        tell_parts(parts.into_iter(), result, &mut self.ended);
        let told = &mut self.ended.make_contiguous()[begin..];
        match self.os.lock().slip {
            Some(ExecutorFault::MergedErrorOfFirst) if result.is_err() => {
                // The fault hides the error from all parts but the first; tests
                // demand that somebody notices.
                told.iter_mut().skip(1).for_each(|(part, result)| *result = Ok(part.range.len()));
            }
            Some(ExecutorFault::MergedErrorOfAll) if result.is_err() => {
                for (part, _) in told {
                    part.role = MergeRole::Single;
                }
            }
            Some(ExecutorFault::MergedExchanged) => {
                for at in 0..told.len() / 2 {
                    let [one, other] = told.get_disjoint_mut([at, told.len() - 1 - at]).expect("two parts");
                    std::mem::swap(&mut one.1, &mut other.1);
                }
            }
            _ => {}
        }
    }
}

impl IoRing for OperationQueue {
    fn submit(&mut self, entries: &mut RingEntries) -> io::Result<()> {
        while let Some(entry) = entries.pop_front() {
            let others = entries.drain(..entry.parts() - 1).collect();
            self.waiting.push(QueuedOperation { entry, others, begun: false });
        }
        Ok(())
    }

    fn reap(&mut self, into: &mut VecDeque<EndedOperation>) {
        into.append(&mut self.ended);
    }

    fn under_way(&self) -> usize {
        self.waiting.iter().map(|waiting| 1 + waiting.others.len()).sum::<usize>() + self.ended.len()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn ready(&self) -> usize {
        self.waiting.iter().filter(|waiting| waiting.can_go_on()).count()
    }

    fn turn(&mut self, choose: &dyn Fn(usize) -> usize) {
        let ready = self.ready();
        if ready == 0 {
            return;
        }
        let chosen = choose(ready);
        let at = self.waiting.iter().enumerate().filter(|(_, waiting)| waiting.can_go_on()).nth(chosen);
        let Some((at, _)) = at else { return };
        if let Some(result) = self.waiting[at].go_on(choose) {
            let QueuedOperation { entry, others, .. } = self.waiting.swap_remove(at);
            if others.is_empty() {
                self.ended.push_back((entry, result));
            } else {
                self.tell_parts(std::iter::once(entry).chain(others).collect(), &result);
            }
        }
    }
}
