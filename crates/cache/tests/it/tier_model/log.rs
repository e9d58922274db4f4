//! The metadata log: a buffer in NVRAM, and a circle of pages on the SSD (specs §9.5, §9.8.16).

use std::collections::{BTreeMap, VecDeque};

use super::counters::{Ask, Cause, Key, Place};
use super::params::Params;

/// Identifies the place of a delta on the SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    pub slot: u64,
    pub offset: u32,
    pub len: u32,
}

/// Names what an entry says of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    Free,
    Clean(u64),
    Dirty(u64),
    New(u64),
    /// `LeavO`'s old version.
    Pair(u64),
    /// KDD's clean page of which a delta is kept: base and delta are what the parity covers.
    Kept {
        page: u64,
        covered: At,
    },
    /// KDD's page whose newest delta is on the SSD, perhaps with a kept one.
    Old {
        page: u64,
        covered: Option<At>,
        newest: At,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Key,
    pub fact: Fact,
}

#[derive(Clone, Debug)]
pub struct Log {
    pages: u64,
    entries: usize,
    usage_max: (u64, u64),
    buffer: Vec<Entry>,
    /// Pages head to tail.
    used: VecDeque<Vec<Entry>>,
    head: u64,
    tail: u64,
    /// The page with the newest logged entry of a key.
    newest: BTreeMap<Key, u64>,
    cleaning: bool,
    /// Live entries do not fit: the run is over.
    full: bool,
    reinserted: u64,
}

impl Log {
    pub fn new(params: &Params) -> Self {
        assert!(params.log_pages > 0 && params.log_entries > 0);
        Self {
            pages: params.log_pages,
            entries: params.log_entries,
            usage_max: params.usage_max,
            buffer: Vec::new(),
            used: VecDeque::new(),
            head: 0,
            tail: 0,
            newest: BTreeMap::new(),
            cleaning: false,
            full: false,
            reinserted: 0,
        }
    }

    /// Counters of the first page in use and of the next page.
    pub const fn ends(&self) -> (u64, u64) {
        (self.head, self.tail)
    }

    /// Entries that wait in the NVRAM.
    pub fn buffer(&self) -> &[Entry] {
        &self.buffer
    }

    /// The pages in use, from the head on.
    pub const fn used(&self) -> &VecDeque<Vec<Entry>> {
        &self.used
    }

    pub const fn is_full(&self) -> bool {
        self.full
    }

    pub const fn reinserted(&self) -> u64 {
        self.reinserted
    }

    /// Returns true if the newest entry of a key says that something is there.
    pub fn holds(&self, key: Key) -> bool {
        let logged = || self.used.get((self.newest.get(&key)? - self.head) as usize)?.iter().find(|e| e.key == key);
        let newest = self.buffer.iter().find(|entry| entry.key == key).or_else(logged);
        newest.is_some_and(|entry| entry.fact != Fact::Free)
    }

    /// An entry; what is asked of NVRAM and SSD for it.
    pub fn put(&mut self, key: Key, fact: Fact, asks: &mut Vec<Ask>) {
        asks.push(Ask::PutEntry { key });
        self.insert(Entry { key, fact });
        if self.buffer.len() >= self.entries {
            self.append(asks);
        }
    }

    fn insert(&mut self, entry: Entry) {
        match self.buffer.iter_mut().find(|other| other.key == entry.key) {
            Some(other) => *other = entry,
            None => self.buffer.push(entry),
        }
    }

    fn append(&mut self, asks: &mut Vec<Ask>) {
        let page = std::mem::take(&mut self.buffer);
        for entry in &page {
            self.newest.insert(entry.key, self.tail);
        }
        asks.push(Ask::SsdWrite { place: Place::Log(self.tail % self.pages), cause: Cause::Metadata });
        self.used.push_back(page);
        self.tail += 1;
        self.full |= self.tail - self.head > self.pages;
        if !self.cleaning {
            self.cleaning = true;
            self.clean(asks);
            self.cleaning = false;
        }
    }

    fn clean(&mut self, asks: &mut Vec<Ask>) {
        let mut cleaned = 0;
        while (self.tail - self.head) * self.usage_max.1 > self.pages * self.usage_max.0 {
            if cleaned == self.pages {
                self.full = true;
                return;
            }
            let page = self.used.front().expect("pages are in use").clone();
            for entry in page {
                let superseded = self.newest.get(&entry.key) != Some(&self.head)
                    || self.buffer.iter().any(|other| other.key == entry.key);
                if superseded {
                    continue;
                }
                if entry.fact == Fact::Free {
                    self.newest.remove(&entry.key);
                    continue;
                }
                self.reinserted += 1;
                asks.push(Ask::PutEntry { key: entry.key });
                self.insert(entry);
                if self.buffer.len() >= self.entries {
                    self.append(asks);
                }
            }
            self.used.pop_front();
            self.head += 1;
            cleaned += 1;
        }
    }

    /// Returns what a start makes of the log and its buffer: the newest fact of each key that is not free.
    pub fn replay(&self) -> BTreeMap<Key, Fact> {
        let mut facts = BTreeMap::new();
        for entry in self.used.iter().flatten().chain(&self.buffer) {
            facts.insert(entry.key, entry.fact);
        }
        facts.retain(|_, fact| *fact != Fact::Free);
        facts
    }

    /// Entries that are live: those of the buffer, and logged ones that nothing supersedes.
    pub fn live(&self) -> BTreeMap<Key, Fact> {
        let mut live = BTreeMap::new();
        for (number, page) in (self.head..).zip(&self.used) {
            for entry in page {
                let buffered = self.buffer.iter().any(|other| other.key == entry.key);
                if !buffered && self.newest.get(&entry.key) == Some(&number) {
                    assert_eq!(live.insert(entry.key, entry.fact), None, "one newest entry of {:?}", entry.key);
                }
            }
        }
        live.extend(self.buffer.iter().map(|entry| (entry.key, entry.fact)));
        live.retain(|_, fact| *fact != Fact::Free);
        live
    }
}
