//! The NVRAM in a file: slots with a tag and bytes, as a [journal](crate::files::layout::journal) of what was put and freed.
//!
//! A commit is a record behind the newest one. Records are gathered until they are [written](NvramFile::write_out), all at
//! once; [`sync`](NvramFile::sync) makes all that were written durable, so there may be any number that are not. After a loss of power some of these are whole and others are not:
//! what counts is the longest run of whole records from the first one on, and nothing behind it ever does. So a commit
//! is there or not as a whole, and none without those before it.
//!
//! The ring comes round: what the oldest records hold that is still in use is written once more, behind the newest, and
//! when that and all before it is durable the header says that the first record is a later one. Only when the header
//! is durable, too, is anything written over the old ones. They may say that a slot is in use which a newer record
//! frees, so that has to be durable as well.
//!
//! Opening finds the run (`replay.rs`), writes all of it and the header anew and makes it durable: after a sync that
//! failed, pages may be gone that a read still shows and a later sync says nothing of. The header says that the run is
//! there when it gets the event count of the start, and so it does with that of a clean shutdown. From then on a record of
//! the run that is not whole is damaged, and the next one has the number of this opening. A record that was written since is
//! damaged, too, if one behind it says that it was durable: what would else be taken for torn.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use destage_plan::{NvPut, NvSlot};

use crate::files::error::FilesError;
use crate::files::io::file::{OsFile, SyncPoint, UntrustedFile};
use crate::files::io::sectors;
use crate::files::io::state_file::StateFile;
use crate::files::layout::journal::{ArrayEpoch, FoundHeader, JournalLayout, MAGIC, NO_SEAL, RecordBounds};
use crate::files::layout::record::{JournalCommit, JournalRecord, RecordHead, RecordStamp, RecordTable, WantedRecord};
use crate::files::layout::sectors::{SECTOR, is_sealed};

/// The file.
pub(crate) struct NvramFile {
    pub(super) file: Arc<StateFile>,
    pub(super) layout: JournalLayout,
    epoch: ArrayEpoch,
    /// As the header has them, durably.
    pub(super) bounds: RecordBounds,
    /// Place of the next record.
    pub(super) head: u64,
    /// Place before which all is durable.
    pub(super) durable: u64,
    /// From the first one that counts on.
    records: VecDeque<WrittenRecord>,
    pub(super) slots: Vec<Option<HeldSlot>>,
    /// Holds what the newest record says of slots: the next one says it once more.
    pub(super) before: RecordTable,
    /// Is filled with what the next one says, to be used again.
    table: RecordTable,
    /// Holds a record as it is read or was made.
    image: Vec<u8>,
    /// Holds the newest records, which are not written yet, from this place on.
    gathered: Vec<u8>,
    gathered_at: u64,
    copied: RewrittenRecord,
    /// Syncs since it was opened.
    syncs: u64,
}

/// A record in the ring.
#[derive(Clone, Copy)]
struct WrittenRecord {
    place: u64,
    sectors: u64,
    /// Slots that it has put and that are in use.
    live: u32,
}

/// A slot in use.
#[derive(Clone, Copy)]
pub(super) struct HeldSlot {
    generation: u32,
    /// The record that has put it, the last time.
    place: u64,
}

/// Holds the puts that are written once more.
#[derive(Default)]
struct RewrittenRecord {
    puts: Vec<NvPut>,
    bytes: Vec<u8>,
    crcs: Vec<u32>,
}

impl NvramFile {
    /// Limits the bytes that are gathered, and the room that is kept for them.
    // A mebibyte bounds the memory that gathered records take.
    const KEPT: usize = 1 << 20;

    pub(super) fn with(file: Arc<dyn OsFile>, layout: JournalLayout, epoch: ArrayEpoch, bounds: RecordBounds) -> Self {
        Self {
            file: Arc::new(StateFile::new(file)),
            layout,
            epoch,
            bounds,
            head: bounds.tail,
            durable: bounds.tail,
            records: VecDeque::new(),
            slots: vec![None; layout.slots as usize],
            before: RecordTable::empty(bounds.tail),
            table: RecordTable::default(),
            image: Vec::new(),
            gathered: Vec::new(),
            gathered_at: bounds.tail,
            copied: RewrittenRecord::default(),
            syncs: 0,
        }
    }

    /// Fills a new file, of zeros: all slots are free. The header is written when the file is durable as it is, and so
    /// not before it can be opened; not durable yet.
    pub(crate) fn create(
        file: Arc<dyn OsFile>,
        layout: JournalLayout,
        (epoch, event_count): (ArrayEpoch, u64),
    ) -> io::Result<Self> {
        // The zeros must be durable before the header: what a device held before
        // could look like records.
        file.sync_all(SyncPoint::CreateNvram)?;
        let made = Self::with(
            file,
            layout,
            epoch,
            RecordBounds { tail: 0, sealed: 0, opening: 1, event_count, seal: NO_SEAL },
        );
        made.write_header(made.bounds)?;
        Ok(made)
    }

    /// Returns the place at which the first record would be overwritten.
    pub(super) const fn end(&self) -> u64 {
        self.bounds.tail + self.layout.ring()
    }

    pub(super) fn wanted(&self, place: u64, opening: Option<u64>) -> WantedRecord {
        // Where all must be there, not beyond that.
        // Up to `sealed` every record must be whole, so one that reaches beyond it
        // is damaged.
        let sealed = if place < self.bounds.sealed { self.bounds.sealed } else { u64::MAX };
        WantedRecord { place, drawn: self.epoch.drawn, opening, most: self.end().min(sealed).saturating_sub(place) }
    }

    /// Bytes before the end of the ring from this place on; at most so many.
    fn before_end(&self, place: u64, bytes: usize) -> usize {
        // A record may go around the end of the ring, so it takes two reads or
        // writes.
        let sectors = self.layout.ring() - place % self.layout.ring();
        bytes.min(sectors as usize * SECTOR)
    }

    pub(super) fn read_at(&self, place: u64, bytes: &mut [u8]) -> io::Result<()> {
        let (first, rest) = bytes.split_at_mut(self.before_end(place, bytes.len()));
        self.file.read_exact_at(first, self.layout.offset(place))?;
        if rest.is_empty() { Ok(()) } else { self.file.read_exact_at(rest, self.layout.offset(0)) }
    }

    pub(super) fn write_at(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let (first, rest) = bytes.split_at(self.before_end(place, bytes.len()));
        self.file.write_all_at(first, self.layout.offset(place))?;
        if rest.is_empty() { Ok(()) } else { self.file.write_all_at(rest, self.layout.offset(0)) }
    }

    /// Writes both headers. The first one comes last: with it there is an NVRAM.
    pub(super) fn write_header(&self, bounds: RecordBounds) -> io::Result<()> {
        let header = self.layout.header(self.epoch, bounds);
        // The second header first: a crash in between leaves the first one as it
        // was, which counts.
        self.file.write_all_at(&header, self.layout.second_header())?;
        self.file.write_all_at(&header, 0)
    }

    /// Returns the event count of the header.
    pub(crate) const fn event_count(&self) -> u64 {
        self.bounds.event_count
    }

    /// Returns true if a fault is planted: this is believed.
    pub(crate) fn believes(&self, what: UntrustedFile) -> bool {
        self.file.believes(what)
    }

    /// Returns true if the file hangs. Only an executor without threads asks.
    pub(crate) fn hangs(&self) -> bool {
        self.file.hangs()
    }

    /// Writes another event count to the header, durably. If all that was written is durable, the header says as well that
    /// it is there: what of it is not whole from then on is damaged, and not torn.
    pub(crate) fn set_event_count(&mut self, event_count: u64) -> io::Result<()> {
        // The seal says what is there. It may be set only when all before it is
        // durable.
        let seal = if self.is_durable() { Some(self.seal()?) } else { None };
        let mut bounds = RecordBounds { event_count, ..self.bounds };
        if let Some(seal) = seal {
            (bounds.seal, bounds.sealed) = (seal, self.head);
        }
        // Records first, the header afterwards: it vouches for them.
        self.write_out()?;
        self.write_header(bounds)?;
        self.file.sync_data(SyncPoint::EventCount)?;
        self.bounds = bounds;
        // The sync of the header has made the records durable as well.
        self.durable = self.durable.max(bounds.sealed);
        Ok(())
    }

    /// Writes a [seal](crate::files::layout::record#seals) behind the newest record, unless that is one; its place. It
    /// becomes durable with the header: where the header is and the seal is not, the seal is damaged, which costs nothing.
    fn seal(&mut self) -> io::Result<u64> {
        match self.records.back() {
            None => Ok(NO_SEAL),
            Some(newest) if newest.place == self.bounds.seal => Ok(newest.place),
            Some(_) => {
                self.make_room(self.layout.longest())?;
                let place = self.head;
                self.write(&JournalCommit { puts: &[], bytes: &[], frees: &[], crcs: None })?;
                Ok(place)
            }
        }
    }

    /// Puts free slots, and frees slots in use: all of it or nothing. Written, with all before it, after
    /// [`write_out`](Self::write_out), and durable after [`sync`](Self::sync).
    pub(crate) fn append(&mut self, commit: &JournalCommit<'_>) -> io::Result<()> {
        if commit.puts.is_empty() && commit.frees.is_empty() {
            return Ok(());
        }
        // Making room writes records, the last of which this one repeats.
        self.make_room(commit.sectors(self.layout.longest_table()))?;
        // Frees take effect before puts, so a commit may put what it frees.
        for slot in commit.frees {
            self.release(*slot);
        }
        self.write(commit)
    }

    /// Returns the file, to be read and written past the page cache.
    pub(crate) fn state_file(&self) -> Arc<StateFile> {
        Arc::clone(&self.file)
    }

    /// Returns the bytes written, and the syncs, since it was opened.
    pub(crate) fn borne(&self) -> (u64, u64) {
        (self.file.written_bytes(), self.syncs)
    }

    /// Writes the records that were gathered.
    pub(crate) fn write_out(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        self.write_at(self.gathered_at, &self.gathered)?;
        self.gathered.clear();
        // One large commit must not keep its memory for ever.
        self.gathered.shrink_to(Self::KEPT);
        Ok(())
    }

    /// Returns true if all that was written is durable.
    pub(crate) const fn is_durable(&self) -> bool {
        self.durable == self.head
    }

    /// Makes all that was written durable.
    pub(crate) fn sync(&mut self, at: SyncPoint) -> io::Result<()> {
        self.write_out()?;
        if self.durable < self.head {
            self.syncs += 1;
            self.file.sync_data(at)?;
            self.durable = self.head;
        }
        Ok(())
    }

    /// Makes the file durable as a whole, its size too.
    pub(crate) fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all(SyncPoint::CreateNvram)
    }

    /// Makes a record behind the newest one.
    fn write(&mut self, commit: &JournalCommit<'_>) -> io::Result<()> {
        let (place, drawn) = (self.head, self.epoch.drawn);
        let stamp = RecordStamp { place, drawn, opening: self.bounds.opening, durable: self.durable };
        // The new record repeats the table of the one before, which is what finds
        // damage.
        commit.encode(stamp, &mut self.before, &mut self.table, &mut self.image);
        if self.gathered.is_empty() {
            self.gathered_at = place;
        }
        self.gathered.extend_from_slice(&self.image);
        if self.gathered.len() >= Self::KEPT {
            self.write_out()?;
        }
        self.note(commit.puts.iter().map(|put| put.slot), (self.image.len() / SECTOR) as u64);
        Ok(())
    }

    /// The next record has put these slots.
    pub(super) fn note(&mut self, puts: impl Iterator<Item = NvSlot>, sectors: u64) {
        let (place, mut live) = (self.head, 0);
        for slot in puts {
            let before = self.slots[slot.index as usize].replace(HeldSlot { generation: slot.generation, place });
            debug_assert!(before.is_none(), "{slot:?} is put while it is in use");
            live += 1;
        }
        self.records.push_back(WrittenRecord { place, sectors, live });
        self.head += sectors;
    }

    /// A slot is not in use any more, as far as the record goes that has put it.
    pub(super) fn release(&mut self, slot: NvSlot) {
        // The generation protects a slot that was put again meanwhile.
        let held = self.slots[slot.index as usize].take_if(|held| held.generation == slot.generation);
        let HeldSlot { place, .. } = held.unwrap_or_else(|| panic!("{slot:?} is freed but not in use"));
        let at = self.records.partition_point(|record| record.place < place);
        self.records[at].live -= 1;
    }

    /// Sectors in which nothing is that counts.
    const fn free(&self) -> u64 {
        self.end() - self.head
    }

    /// Has room for a record of so many sectors, and behind it for the longest there may be, which is to be copied.
    fn make_room(&mut self, sectors: u64) -> io::Result<()> {
        // Room for the longest record stays, so that cleaning can always copy one.
        let wanted = sectors + self.layout.longest();
        // Half of the spare room is made at once, so that cleaning is rare and does
        // not follow each commit.
        if self.free() >= wanted { Ok(()) } else { self.clean(wanted + self.layout.room() / 2) }
    }

    /// Writes what the oldest records hold once more and gives their place up, until there is so much room.
    fn clean(&mut self, wanted: u64) -> io::Result<()> {
        self.write_out()?;
        while self.free() < wanted {
            let mut tail = self.bounds.tail;
            while let Some(&oldest) = self.records.front()
                && self.free() + (tail - self.bounds.tail) < wanted
                && (oldest.live == 0 || oldest.sectors <= self.free())
            {
                // A record in which nothing is in use any more is given up without
                // a copy.
                if oldest.live > 0 {
                    self.copy(oldest)?;
                }
                self.records.pop_front();
                tail = oldest.place + oldest.sectors;
            }
            debug_assert!(tail > self.bounds.tail, "there is room to copy a record");
            // The copies must be durable before the header gives their originals
            // up.
            self.sync(SyncPoint::Copied)?;
            let bounds = RecordBounds { tail, sealed: self.head, ..self.bounds };
            self.syncs += 1;
            self.write_header(bounds)?;
            self.file.sync_data(SyncPoint::Tail)?;
            // Only now may the old places be overwritten: the header does not count
            // them any more.
            self.bounds = bounds;
        }
        Ok(())
    }

    /// Writes what a record has put and is in use once more.
    fn copy(&mut self, record: WrittenRecord) -> io::Result<()> {
        let (mut image, mut copied) = (std::mem::take(&mut self.image), std::mem::take(&mut self.copied));
        let damaged = || io::Error::other("a record of it that was written is damaged");
        image.resize(record.sectors as usize * SECTOR, 0);
        // The record may still be in memory, when the ring is small.
        if !self.gathered.is_empty() && record.place >= self.gathered_at {
            self.write_out()?;
        }
        self.read_at(record.place, &mut image)?;
        let wanted = WantedRecord { most: record.sectors, ..self.wanted(record.place, None) };
        let whole = RecordHead::read(&image, wanted)
            .and_then(|head| JournalRecord::read(&head, &image, self.layout.limits(), false));
        // A record that cannot be read here was right when it was written, so the
        // device damaged it.
        let whole = whole.map_err(|_| damaged())?;
        copied.puts.clear();
        copied.bytes.clear();
        copied.crcs.clear();
        for ((put, bytes, _), number) in whole.puts().zip(0..) {
            let held = self.slots[put.slot.index as usize];
            // Only what this record has put last is copied; newer versions are in
            // newer records.
            if held.is_some_and(|held| held.place == record.place && held.generation == put.slot.generation) {
                self.slots[put.slot.index as usize] = None;
                copied.puts.push(put);
                copied.bytes.extend_from_slice(bytes);
                // What is damaged stays so, and is told at the next start.
                copied.crcs.push(whole.crc(number));
            }
        }
        self.image = image;
        let RewrittenRecord { puts, bytes, crcs } = &copied;
        let written = self.write(&JournalCommit { puts, bytes, frees: &[], crcs: Some(crcs) });
        self.copied = copied;
        written
    }
}

/// Reads the headers of a file that is so long.
pub(crate) fn read_headers(
    file: &dyn OsFile,
    path: &Path,
    length: u64,
    layout: &JournalLayout,
) -> Result<FoundHeader, FilesError> {
    let first = sectors::first(file, path, length)?;
    let wrong_size = || FilesError::Size {
        path: path.to_owned(),
        found: length,
        expected: layout.bytes(),
        settings: format!("nv-slots = {} and page-bytes = {}", layout.slots, layout.page_bytes),
    };
    let first = first.ok_or_else(wrong_size)?;
    if is_sealed(&first) {
        // Before the size is looked at: the header knows which setting is another.
        layout.decode(path, 0, &first)?;
    }
    if length != layout.bytes() {
        return Err(wrong_size());
    }
    let second = sectors::read(file, layout.second_header()).map_err(FilesError::io(path, "read the second header"))?;
    layout.decode_both(path, &first, &second).map_err(|error| {
        // Of a file that has nothing of the kind nobody knows whose it is.
        let is_damaged = !is_sealed(&first) && [first, second].iter().any(|header| header[..8] == MAGIC);
        if is_damaged { FilesError::DamagedNvram { path: path.to_owned(), why: error.to_string() } } else { error }
    })
}
