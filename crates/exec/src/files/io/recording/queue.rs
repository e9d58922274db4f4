//! The ring of a recording: operations wait until chance has one of them go on. A write of several sectors may be done
//! in part, and others come between the beginning and the end of a sync.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use rustix::fd::BorrowedFd;

use crate::files::io::ring::{Ended, Entries, Entry, Operation, Ring};

/// Operations that wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Vec<Waiting>,
    ended: VecDeque<Ended>,
}

#[derive(Debug)]
struct Waiting {
    entry: Entry,
    /// Of a sync: it has begun.
    begun: bool,
}

impl Waiting {
    fn can_go_on(&self) -> bool {
        !self.entry.file.hangs()
    }

    /// Goes on; how it ended, if it did.
    fn go_on(&mut self, choose: &dyn Fn(usize) -> usize) -> Option<io::Result<usize>> {
        let Entry { tag, file, operation, bytes, range } = &mut self.entry;
        file.asked_by(tag.command as usize);
        // A quarter of those that can be are done in part.
        let sector = file.sector();
        let sectors = range.len() / sector;
        let part = sectors > 1 && choose(4) == 0;
        let len = if part { (1 + choose(sectors - 1)) * sector } else { range.len() };
        let range = range.start..range.start + len;
        let done = match *operation {
            Operation::Read { offset } => {
                let bytes = Arc::get_mut(bytes).expect("nobody else has what is to be filled");
                file.read_exact_at(&mut bytes[range], offset).map(|()| len)
            }
            Operation::Write { offset } => file.write_all_at(&bytes[range], offset).map(|()| len),
            Operation::PunchHole { offset, len } => file.punch_hole(offset, len).map(|()| 0),
            Operation::Sync(_) if !self.begun => {
                file.sync_begins();
                self.begun = true;
                return None;
            }
            Operation::Sync(at) => file.sync_data(at).map(|()| 0),
        };
        Some(done)
    }
}

impl Ring for Queue {
    fn submit(&mut self, entries: &mut Entries) -> io::Result<()> {
        self.waiting.extend(entries.drain(..).map(|entry| Waiting { entry, begun: false }));
        Ok(())
    }

    fn reap(&mut self, into: &mut VecDeque<Ended>) {
        into.append(&mut self.ended);
    }

    fn under_way(&self) -> usize {
        self.waiting.len() + self.ended.len()
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
            self.ended.push_back((self.waiting.swap_remove(at).entry, result));
        }
    }
}
