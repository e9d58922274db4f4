//! The NVRAM in a file: slots with a tag and bytes, as a [journal](crate::files::layout::journal) of what was put and freed.
//!
//! A commit is a record, which is written behind the newest one. [`sync`](NvramFile::sync) makes all that were written
//! durable, so there may be any number that are not. After a loss of power some of these are whole and others are not:
//! what counts is the longest run of whole records from the first one on, and nothing behind it ever does. So a commit
//! is there or not as a whole, and none without those before it.
//!
//! The ring comes round: what the oldest records hold that is still in use is written once more, behind the newest, and
//! when that and all before it is durable the header says that the first record is a later one. Only when the header
//! is durable, too, is anything written over the old ones. They may say that a slot is in use which a newer record
//! frees, so that has to be durable as well.
//!
//! Opening finds the run, writes all of it and the header anew and makes it durable: after a sync that failed, pages may be
//! gone that a read still shows and a later sync says nothing of. The header says that the run is there when it gets the
//! event count of the start, before the next record is written. From then on a record of the run that is not whole is
//! damaged, and an error, and the next one has the number of this opening. Damage to a record that was written since is an
//! error, too, if one behind it says that it was durable: what would else be taken for torn.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use destage_plan::{NvPut, NvSlot, Tag};

use crate::files::error::FilesError;
use crate::files::io::file::{OsFile, SyncPoint, Unfit};
use crate::files::io::sectors;
use crate::files::layout::journal::{ArrayEpoch, Bounds, Commit, Head, JournalLayout, Record, Stamp, Wanted, Wrong};
use crate::files::layout::sectors::SECTOR;
use crate::nvram::Nvram;

/// Sectors behind the newest record in which others are looked for that say of damage: 32 MiB.
const LOOKED_AT: u64 = 65_536;

/// The file.
pub(crate) struct NvramFile {
    file: Arc<dyn OsFile>,
    layout: JournalLayout,
    epoch: ArrayEpoch,
    /// As the header has them, durably.
    bounds: Bounds,
    /// Place of the next record.
    head: u64,
    /// Place before which all is durable.
    durable: u64,
    /// From the first one that counts on.
    records: VecDeque<Written>,
    slots: Vec<Option<Holds>>,
    /// A record as it is read or will be written.
    image: Vec<u8>,
    copied: Copied,
    /// Bytes written, and syncs, since it was opened.
    borne: (u64, u64),
}

/// A record in the ring.
#[derive(Clone, Copy)]
struct Written {
    place: u64,
    sectors: u64,
    /// Slots that it has put and that are in use.
    live: u32,
}

/// A slot in use.
#[derive(Clone, Copy)]
struct Holds {
    generation: u32,
    /// The record that has put it, the last time.
    place: u64,
}

/// A part of the ring that was read.
#[derive(Default)]
struct View {
    place: u64,
    bytes: Vec<u8>,
}

/// Sectors that are read at a time.
const VIEW: u64 = 512;

impl View {
    /// The record at a place, if it is whole or is to be believed. What was read before it is written anew if that is
    /// wanted.
    fn record(
        &mut self,
        of: &NvramFile,
        wanted: Wanted,
        believed: bool,
        anew: bool,
    ) -> io::Result<Result<Record<'_>, Wrong>> {
        let Wanted { place, .. } = wanted;
        self.turn_to(of, place, 1, anew)?;
        let from = (place - self.place) as usize * SECTOR;
        let head = match Head::read(&self.bytes[from..][..SECTOR], wanted) {
            Ok(head) => head,
            Err(wrong) => return Ok(Err(wrong)),
        };
        self.turn_to(of, place, head.sectors, anew)?;
        let from = (place - self.place) as usize * SECTOR;
        let bytes = &self.bytes[from..][..head.sectors as usize * SECTOR];
        Ok(Record::whole(&head, bytes, &of.layout, believed))
    }

    /// Has so many sectors from a place on be there.
    fn turn_to(&mut self, of: &NvramFile, place: u64, sectors: u64, anew: bool) -> io::Result<()> {
        let end = self.place + (self.bytes.len() / SECTOR) as u64;
        if place < self.place || place + sectors > end {
            if anew {
                self.write_back(of, place)?;
            }
            self.place = place;
            self.bytes.resize(sectors.max(VIEW.min(of.end() - place)) as usize * SECTOR, 0);
            of.read_at(place, &mut self.bytes)?;
        }
        Ok(())
    }

    /// Writes anew what was read and is before a place.
    fn write_back(&self, of: &NvramFile, place: u64) -> io::Result<()> {
        of.write_at(self.place, &self.bytes[..(place - self.place) as usize * SECTOR])
    }
}

/// What is written once more.
#[derive(Default)]
struct Copied {
    puts: Vec<NvPut>,
    bytes: Vec<u8>,
}

impl NvramFile {
    fn with(file: Arc<dyn OsFile>, layout: JournalLayout, epoch: ArrayEpoch, bounds: Bounds) -> Self {
        Self {
            file,
            layout,
            epoch,
            bounds,
            head: bounds.tail,
            durable: bounds.tail,
            records: VecDeque::new(),
            slots: vec![None; layout.slots as usize],
            image: Vec::new(),
            copied: Copied::default(),
            borne: (0, 0),
        }
    }

    /// Fills a new file, of zeros: all slots are free. The header is written when the file is durable as it is, and so
    /// not before it can be opened; not durable yet.
    pub(crate) fn create(
        file: Arc<dyn OsFile>,
        layout: JournalLayout,
        (epoch, event_count): (ArrayEpoch, u64),
    ) -> io::Result<Self> {
        file.sync_all(SyncPoint::CreateNvram)?;
        let made = Self::with(file, layout, epoch, Bounds { tail: 0, sealed: 0, opening: 1, event_count });
        made.write_header(made.bounds)?;
        Ok(made)
    }

    /// Reads a file that is so long, and what is in its slots. Records that are not all there are gone for good, and
    /// what was found is written anew and made durable.
    pub(crate) fn open(
        file: Arc<dyn OsFile>,
        path: &Path,
        length: u64,
        layout: JournalLayout,
    ) -> Result<(Self, Nvram, ArrayEpoch), FilesError> {
        // Before the size is looked at: the header knows which setting is another.
        let header = sectors::first(&*file, path, length)?;
        let header = header.map(|sector| layout.decode(path, &sector)).transpose()?;
        let Some((epoch, bounds)) = header.filter(|_| length == layout.bytes()) else {
            return Err(FilesError::Size {
                path: path.to_owned(),
                found: length,
                expected: layout.bytes(),
                settings: format!("nv-slots = {} and page-bytes = {}", layout.slots, layout.page_bytes),
            });
        };
        let mut opened = Self::with(file, layout, epoch, bounds);
        let nvram = opened.take_over(path)?;
        let opening = bounds.opening + 1;
        let written = opened.write_header(bounds).and_then(|()| opened.file.sync_all(SyncPoint::OpenNvram));
        written.map_err(FilesError::io(path, "make it durable"))?;
        // The header says so with the event count of the start, before which nothing is written behind them.
        opened.bounds = Bounds { sealed: opened.head, opening, ..bounds };
        opened.durable = opened.head;
        Ok((opened, nvram, epoch))
    }

    /// Finds the records that count, reads what they have put, and writes them anew.
    fn take_over(&mut self, path: &Path) -> Result<Nvram, FilesError> {
        let mut found: Vec<Option<(NvSlot, Tag, Vec<u8>)>> = vec![None; self.slots.len()];
        let mut view = View { place: self.head, ..View::default() };
        let (believes_stale, believes_torn) = (self.file.believes(Unfit::Stale), self.file.believes(Unfit::Torn));
        while self.head < self.end() {
            let (place, is_sealed) = (self.head, self.head < self.bounds.sealed);
            let opening = (!is_sealed && !believes_stale).then_some(self.bounds.opening);
            let read = view.record(self, self.wanted(place, opening), believes_torn, true);
            let record = match read.map_err(FilesError::io(path, "read a record and write it anew"))? {
                Ok(record) => record,
                Err(wrong) if is_sealed => return Err(wrong.at(path, self.layout.offset(place))),
                Err(_) => break,
            };
            for slot in record.frees() {
                // What had put it may be older than the first record.
                if found[slot.index as usize].take_if(|found| found.0 == slot).is_some() {
                    self.release(slot);
                }
            }
            for (put, bytes) in record.puts() {
                if let Some((slot, ..)) = found[put.slot.index as usize].take() {
                    // It was written once more.
                    self.release(slot);
                }
                found[put.slot.index as usize] = Some((put.slot, put.tag, bytes.to_vec()));
            }
            self.note(record.puts().map(|(put, _)| put.slot), record.sectors());
        }
        view.write_back(self, self.head).map_err(FilesError::io(path, "write a record anew"))?;
        self.check_behind(path, view)?;
        let mut nvram = Nvram::default();
        for (slot, tag, bytes) in found.iter().flatten() {
            nvram.put(*slot, *tag, bytes);
        }
        Ok(nvram)
    }

    /// Whether what is not whole at the end is damaged: a record behind it says that it was durable.
    fn check_behind(&self, path: &Path, mut view: View) -> Result<(), FilesError> {
        let mut is_durable = |place| -> io::Result<bool> {
            let wanted = self.wanted(place, Some(self.bounds.opening));
            Ok(view.record(self, wanted, false, false)?.is_ok_and(|record| record.durable() > self.head))
        };
        for place in self.head + 1..self.end().min(self.head + LOOKED_AT) {
            if !is_durable(place).map_err(FilesError::io(path, "read a record"))? {
                continue;
            }
            let wanted = self.wanted(self.head, Some(self.bounds.opening));
            let mut torn = View::default();
            let read = torn.record(self, wanted, false, false);
            if let Err(wrong) = read.map_err(FilesError::io(path, "read a record"))? {
                return Err(wrong.at(path, self.layout.offset(self.head)));
            }
        }
        Ok(())
    }

    /// Where the first record would be written over.
    const fn end(&self) -> u64 {
        self.bounds.tail + self.layout.ring()
    }

    fn wanted(&self, place: u64, opening: Option<u64>) -> Wanted {
        // Where all must be there, not beyond that.
        let sealed = if place < self.bounds.sealed { self.bounds.sealed } else { u64::MAX };
        Wanted { place, drawn: self.epoch.drawn, opening, most: self.end().min(sealed).saturating_sub(place) }
    }

    /// Bytes before the end of the ring from this place on; at most so many.
    fn before_end(&self, place: u64, bytes: usize) -> usize {
        let sectors = self.layout.ring() - place % self.layout.ring();
        bytes.min(sectors as usize * SECTOR)
    }

    fn read_at(&self, place: u64, bytes: &mut [u8]) -> io::Result<()> {
        let (first, rest) = bytes.split_at_mut(self.before_end(place, bytes.len()));
        self.file.read_exact_at(first, self.layout.offset(place))?;
        if rest.is_empty() { Ok(()) } else { self.file.read_exact_at(rest, self.layout.offset(0)) }
    }

    fn write_at(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let (first, rest) = bytes.split_at(self.before_end(place, bytes.len()));
        self.file.write_all_at(first, self.layout.offset(place))?;
        if rest.is_empty() { Ok(()) } else { self.file.write_all_at(rest, self.layout.offset(0)) }
    }

    fn write_header(&self, bounds: Bounds) -> io::Result<()> {
        self.file.write_all_at(&self.layout.header(self.epoch, bounds), 0)
    }

    /// Returns the event count of the header.
    pub(crate) const fn event_count(&self) -> u64 {
        self.bounds.event_count
    }

    /// Tells whether a fault is planted: this is believed.
    pub(crate) fn believes(&self, what: Unfit) -> bool {
        self.file.believes(what)
    }

    /// Writes another event count to the header, durably.
    pub(crate) fn set_event_count(&mut self, event_count: u64) -> io::Result<()> {
        let bounds = Bounds { event_count, ..self.bounds };
        self.write_header(bounds)?;
        self.file.sync_data(SyncPoint::EventCount)?;
        self.bounds = bounds;
        Ok(())
    }

    /// Puts free slots, and frees slots in use: all of it or nothing. Durable, with all before it, after
    /// [`sync`](Self::sync).
    pub(crate) fn append(&mut self, commit: &Commit<'_>) -> io::Result<()> {
        if commit.puts.is_empty() && commit.frees.is_empty() {
            return Ok(());
        }
        self.make_room(commit.sectors())?;
        for slot in commit.frees {
            self.release(*slot);
        }
        self.write(commit)
    }

    /// Bytes written, and syncs, since it was opened.
    pub(crate) const fn borne(&self) -> (u64, u64) {
        self.borne
    }

    /// Whether all that was written is durable.
    pub(crate) const fn is_durable(&self) -> bool {
        self.durable == self.head
    }

    /// Makes all that was written durable.
    pub(crate) fn sync(&mut self, at: SyncPoint) -> io::Result<()> {
        if self.durable < self.head {
            self.borne.1 += 1;
            self.file.sync_data(at)?;
            self.durable = self.head;
        }
        Ok(())
    }

    /// Makes the file durable as a whole, its size too.
    pub(crate) fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all(SyncPoint::CreateNvram)
    }

    /// Writes a record behind the newest one.
    fn write(&mut self, commit: &Commit<'_>) -> io::Result<()> {
        let (place, drawn) = (self.head, self.epoch.drawn);
        let stamp = Stamp { place, drawn, opening: self.bounds.opening, durable: self.durable };
        commit.encode(stamp, &mut self.image);
        self.borne.0 += self.image.len() as u64;
        self.write_at(place, &self.image)?;
        self.note(commit.puts.iter().map(|put| put.slot), commit.sectors());
        Ok(())
    }

    /// The next record has put these slots.
    fn note(&mut self, puts: impl Iterator<Item = NvSlot>, sectors: u64) {
        let (place, mut live) = (self.head, 0);
        for slot in puts {
            let before = self.slots[slot.index as usize].replace(Holds { generation: slot.generation, place });
            debug_assert!(before.is_none(), "{slot:?} is put while it is in use");
            live += 1;
        }
        self.records.push_back(Written { place, sectors, live });
        self.head += sectors;
    }

    /// A slot is not in use any more, as far as the record goes that has put it.
    fn release(&mut self, slot: NvSlot) {
        let held = self.slots[slot.index as usize].take_if(|held| held.generation == slot.generation);
        let Holds { place, .. } = held.unwrap_or_else(|| panic!("{slot:?} is freed but not in use"));
        let at = self.records.partition_point(|record| record.place < place);
        self.records[at].live -= 1;
    }

    /// Sectors in which nothing is that counts.
    const fn free(&self) -> u64 {
        self.end() - self.head
    }

    /// Has room for a record of so many sectors, and behind it for the longest there may be, which is to be copied.
    fn make_room(&mut self, sectors: u64) -> io::Result<()> {
        let wanted = sectors + self.layout.longest();
        if self.free() >= wanted { Ok(()) } else { self.clean(wanted + self.layout.room() / 2) }
    }

    /// Writes what the oldest records hold once more and gives their place up, until there is so much room.
    fn clean(&mut self, wanted: u64) -> io::Result<()> {
        while self.free() < wanted {
            let mut tail = self.bounds.tail;
            while let Some(&oldest) = self.records.front()
                && self.free() + (tail - self.bounds.tail) < wanted
                && (oldest.live == 0 || oldest.sectors <= self.free())
            {
                if oldest.live > 0 {
                    self.copy(oldest)?;
                }
                self.records.pop_front();
                tail = oldest.place + oldest.sectors;
            }
            debug_assert!(tail > self.bounds.tail, "there is room to copy a record");
            self.sync(SyncPoint::Copied)?;
            let bounds = Bounds { tail, sealed: self.head, ..self.bounds };
            self.borne = (self.borne.0 + SECTOR as u64, self.borne.1 + 1);
            self.write_header(bounds)?;
            self.file.sync_data(SyncPoint::Tail)?;
            self.bounds = bounds;
        }
        Ok(())
    }

    /// Writes what a record has put and is in use once more.
    fn copy(&mut self, record: Written) -> io::Result<()> {
        let (mut image, mut copied) = (std::mem::take(&mut self.image), std::mem::take(&mut self.copied));
        let damaged = || io::Error::other("a record of it that was written is damaged");
        image.resize(record.sectors as usize * SECTOR, 0);
        self.read_at(record.place, &mut image)?;
        let wanted = Wanted { most: record.sectors, ..self.wanted(record.place, None) };
        let whole = Record::read(&image, wanted, &self.layout).map_err(|_| damaged())?;
        copied.puts.clear();
        copied.bytes.clear();
        for (put, bytes) in whole.puts() {
            let held = self.slots[put.slot.index as usize];
            if held.is_some_and(|held| held.place == record.place && held.generation == put.slot.generation) {
                self.slots[put.slot.index as usize] = None;
                copied.puts.push(put);
                copied.bytes.extend_from_slice(bytes);
            }
        }
        self.image = image;
        let written = self.write(&Commit { puts: &copied.puts, bytes: &copied.bytes, frees: &[] });
        self.copied = copied;
        written
    }
}
