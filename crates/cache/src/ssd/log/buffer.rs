//! The entries that wait for a page of the log.
//!
//! They wait in two lines. Those that are *due* must be in the next page, since the page of the log
//! that holds what they say, or something older of the same frame, is about to be written over and
//! no slot of the NVRAM keeps it; there are never more of them than go into a page. The others go
//! first in, first out. A newer entry takes the older one's place in its line.

use destage_plan::NvSlot;

use super::entry::{FrameFact, LogEntry};

const NONE: u32 = u32::MAX;

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryList {
    Due,
    Rest,
}

/// An entry that is not in the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingEntry {
    pub(super) entry: LogEntry,
    /// Is the slot in which the entry, or an older one of its frame, is durable meanwhile.
    pub(super) slot: Option<NvSlot>,
    pub(super) due: bool,
    /// Is true if the entry was in the log before and has not changed since.
    pub(super) again: bool,
}

#[derive(Debug)]
// Nodes are linked by number in one vector, so waiting entries cost no allocation
// each.
struct EntryNode {
    waiting: WaitingEntry,
    /// The commit that puts the frame's next entry frees the slot.
    promised: bool,
    before: u32,
    behind: u32,
}

#[derive(Clone, Copy, Debug)]
struct ListEnds {
    first: u32,
    last: u32,
    len: u32,
}

/// The entries that wait.
#[derive(Debug)]
pub(super) struct LogBuffer {
    nodes: Vec<EntryNode>,
    // Numbers that left are used again: the vector never grows beyond the most that
    // ever waited.
    spare: Vec<u32>,
    lines: [ListEnds; 2],
    promised: u32,
}

impl LogBuffer {
    pub(super) const fn new() -> Self {
        let empty = ListEnds { first: NONE, last: NONE, len: 0 };
        Self { nodes: Vec::new(), spare: Vec::new(), lines: [empty; 2], promised: 0 }
    }

    /// Counts the waiting entries.
    pub(super) const fn len(&self) -> u32 {
        self.lines[0].len + self.lines[1].len
    }

    /// Counts the entries that can be written now.
    pub(super) const fn ready(&self) -> u32 {
        self.len() - self.promised
    }

    /// Counts the entries that must be in the next page.
    pub(super) const fn due(&self) -> u32 {
        self.lines[EntryList::Due as usize].len
    }

    /// Counts those of the next `entries` to be written that were in the log before.
    pub(super) fn again(&self, entries: usize) -> usize {
        self.next(entries).filter(|number| self.nodes[*number as usize].waiting.again).count()
    }

    /// Appends an entry to its line; its number.
    pub(super) fn push(&mut self, waiting: WaitingEntry) -> u32 {
        let number = self.node(waiting);
        self.link(number, self.lines[line(waiting.due) as usize].last);
        number
    }

    /// Puts an entry at the front of its line; its number.
    pub(super) fn push_front(&mut self, waiting: WaitingEntry) -> u32 {
        let number = self.node(waiting);
        self.link(number, NONE);
        number
    }

    /// A newer entry takes the place of one. The slot that is not needed any more.
    pub(super) fn replace(&mut self, number: u32, entry: LogEntry, slot: Option<NvSlot>) -> Option<NvSlot> {
        let node = &mut self.nodes[number as usize];
        // The commit that freed the old slot must have put the new entry into one.
        // Otherwise the frame would have no durable entry.
        assert!(!node.promised || slot.is_some(), "the slot of frame {} was to be freed for another", entry.frame);
        node.waiting.entry = entry;
        node.waiting.again = false;
        // Without one, what is in the older one's slot is all that is durable of the frame.
        let slot = slot?;
        let replaced = node.waiting.slot.replace(slot);
        let promised = std::mem::take(&mut node.promised);
        self.promised -= u32::from(promised);
        // With a slot the entry is durable in the NVRAM, so the next page need not
        // have it any more.
        if self.nodes[number as usize].waiting.due {
            // The NVRAM has it now. It was the first to go, and is so among the others.
            self.unlink(number);
            self.nodes[number as usize].waiting.due = false;
            self.link(number, NONE);
        }
        replaced.filter(|_| !promised)
    }

    /// The slot that the commit of the frame's next entry can free: the entry is not written until
    /// then.
    pub(super) fn promise(&mut self, number: u32) -> Option<NvSlot> {
        let node = &mut self.nodes[number as usize];
        // Only one commit can free a slot; a second one would free whatever has
        // taken its place.
        let slot = node.waiting.slot.filter(|_| !node.promised)?;
        node.promised = true;
        self.promised += 1;
        Some(slot)
    }

    /// The slot is not freed after all.
    pub(super) fn keep(&mut self, number: u32) {
        let promised = std::mem::take(&mut self.nodes[number as usize].promised);
        self.promised -= u32::from(promised);
    }

    /// Gives an entry without a slot that of one that it has superseded. The slot that is not
    /// needed.
    pub(super) fn adopt(&mut self, number: u32, slot: Option<NvSlot>) -> Option<NvSlot> {
        let own = &mut self.nodes[number as usize].waiting.slot;
        if own.is_some() {
            return slot;
        }
        *own = slot;
        None
    }

    /// Returns true if the log's page with an older entry of the frame can be overwritten only once this one is
    /// in the log.
    pub(super) fn must_hurry(&self, number: u32) -> bool {
        let WaitingEntry { slot, due, .. } = self.nodes[number as usize].waiting;
        // Without a slot the old page of the log is the only durable word about
        // this frame.
        slot.is_none() && !due
    }

    /// Makes an entry due.
    pub(super) fn hurry(&mut self, number: u32) {
        self.unlink(number);
        self.nodes[number as usize].waiting.due = true;
        self.link(number, self.lines[EntryList::Due as usize].last);
    }

    /// Takes out up to `entries` of those that can be written: all that are due, then the oldest.
    pub(super) fn take(&mut self, entries: usize, taken: &mut Vec<WaitingEntry>) {
        let mut number = self.first();
        while number != NONE && taken.len() < entries {
            let after = self.after(number);
            // A promised entry is about to be replaced by a newer one of its frame,
            // so writing it would waste its place.
            if !self.nodes[number as usize].promised {
                self.unlink(number);
                taken.push(self.nodes[number as usize].waiting);
                self.spare.push(number);
            }
            number = after;
        }
    }

    /// The slots that keep entries.
    pub(super) fn slots(self) -> impl Iterator<Item = NvSlot> {
        let mut number = self.first();
        std::iter::from_fn(move || {
            let node = self.nodes.get(number as usize)?;
            number = self.after(number);
            Some(node.waiting.slot)
        })
        .flatten()
    }

    fn next(&self, entries: usize) -> impl Iterator<Item = u32> {
        let all = std::iter::successors(Some(self.first()), |number| Some(self.after(*number)));
        let all = all.take_while(|number| *number != NONE);
        // The same order as `take`, since `again` must judge the page that would be
        // written.
        all.filter(|number| !self.nodes[*number as usize].promised).take(entries)
    }

    #[cfg(test)]
    pub(super) fn capacities(&self) -> [usize; 2] {
        [self.nodes.capacity(), self.spare.capacity()]
    }

    const fn first(&self) -> u32 {
        let [due, rest] = self.lines;
        if due.len > 0 { due.first } else { rest.first }
    }

    fn after(&self, number: u32) -> u32 {
        let node = &self.nodes[number as usize];
        if node.behind == NONE && node.waiting.due { self.lines[EntryList::Rest as usize].first } else { node.behind }
    }

    fn node(&mut self, waiting: WaitingEntry) -> u32 {
        let node = EntryNode { waiting, promised: false, before: NONE, behind: NONE };
        if let Some(number) = self.spare.pop() {
            self.nodes[number as usize] = node;
            return number;
        }
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    /// Puts a node behind another of its line, or at the front of it.
    fn link(&mut self, number: u32, before: u32) {
        let line = line(self.nodes[number as usize].waiting.due) as usize;
        let behind = match before {
            NONE => std::mem::replace(&mut self.lines[line].first, number),
            before => std::mem::replace(&mut self.nodes[before as usize].behind, number),
        };
        match behind {
            NONE => self.lines[line].last = number,
            behind => self.nodes[behind as usize].before = number,
        }
        let node = &mut self.nodes[number as usize];
        (node.before, node.behind) = (before, behind);
        self.lines[line].len += 1;
    }

    fn unlink(&mut self, number: u32) {
        let node = &self.nodes[number as usize];
        let (line, before, behind) = (line(node.waiting.due) as usize, node.before, node.behind);
        match before {
            NONE => self.lines[line].first = behind,
            before => self.nodes[before as usize].behind = behind,
        }
        match behind {
            NONE => self.lines[line].last = before,
            behind => self.nodes[behind as usize].before = before,
        }
        self.lines[line].len -= 1;
    }
}

const fn line(due: bool) -> EntryList {
    if due { EntryList::Due } else { EntryList::Rest }
}

impl WaitingEntry {
    /// An entry that is put.
    pub(super) const fn new(entry: LogEntry, slot: Option<NvSlot>) -> Self {
        Self { entry, slot, due: false, again: false }
    }

    /// An entry of the oldest page, which is written again.
    pub(super) const fn again(frame: u32, sequence: u64, fact: FrameFact) -> Self {
        Self { entry: LogEntry { frame, sequence, fact }, slot: None, due: true, again: true }
    }
}
