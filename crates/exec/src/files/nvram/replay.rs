//! Finds the records of the [journal](super::journal) that count, and what they have put.
//!
//! A record that is not whole where it must be is damaged. The next record repeats what it says of slots. So
//! the tags tell what is damaged, and everything else is preserved. Two damaged records in a row leave nothing
//! that knows what they said; neither does a last record that only a start could have ended. Then nothing of
//! the file is believed.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use destage_plan::{NvSlot, Tag};

use super::journal::{NvramFile, read_headers};
use crate::files::error::FilesError;
use crate::files::io::file::{OsFile, SyncPoint, UntrustedFile};
use crate::files::layout::journal::{ArrayEpoch, FoundHeader, JournalLayout, RecordBounds};
use crate::files::layout::record::{
    JournalRecord, RecordDefect, RecordHead, RecordStamp, RecordTable, WantedRecord, restore, sectors,
};
use crate::files::layout::sectors::SECTOR;
use crate::nvram::MemoryNvram;

/// Sectors behind the newest record in which others are looked for that say of damage: 32 MiB.
const LOOKED_AT: u64 = 65_536;
/// Limits the damaged records that are described.
const MOST_TOLD: usize = 8;
/// Counts the sectors of one read.
const VIEW: u64 = 512;

/// Holds what an opening has found.
pub(crate) struct FoundNvram {
    pub(crate) file: NvramFile,
    pub(crate) nvram: MemoryNvram,
    pub(crate) epoch: ArrayEpoch,
    /// Says what is wrong with headers and records that are damaged, of the first few.
    pub(crate) damaged: Vec<FilesError>,
}

/// Holds what the records that count have put.
struct ReplayedRing {
    nvram: MemoryNvram,
    /// Says what is wrong with the damaged ones, of the first few.
    damaged: Vec<FilesError>,
}

/// Holds what is in a slot as far as the records go that were read.
#[derive(Clone)]
struct FoundSlot {
    slot: NvSlot,
    tag: Tag,
    /// Gives the place of the record that has put it.
    place: u64,
    bytes: Vec<u8>,
    is_damaged: bool,
}

/// Describes a record that is damaged.
struct DamagedRecord {
    place: u64,
    error: FilesError,
    /// Is true if more than bytes of slots was damaged, which is restored.
    is_restored: bool,
}

/// Holds a part of the ring that was read.
#[derive(Default)]
struct RingView {
    place: u64,
    bytes: Vec<u8>,
    /// Is true if what was read is written anew.
    anew: bool,
}

impl RingView {
    /// Returns the record at a place if its table is right or is to be believed. What was read before it is written anew if
    /// that is wanted.
    fn record(
        &mut self,
        of: &NvramFile,
        wanted: WantedRecord,
        believed: bool,
    ) -> io::Result<Result<JournalRecord<'_>, RecordDefect>> {
        let WantedRecord { place, .. } = wanted;
        self.turn_to(of, place, 1)?;
        let head = match RecordHead::read(&self.sectors(place, 1)[..], wanted) {
            Ok(head) => head,
            Err(wrong) => return Ok(Err(wrong)),
        };
        self.turn_to(of, place, head.sectors)?;
        Ok(JournalRecord::read(&head, self.sectors(place, head.sectors), of.layout.limits(), believed))
    }

    /// Returns sectors that are there.
    fn sectors(&mut self, place: u64, sectors: u64) -> &mut [u8] {
        let from = (place - self.place) as usize * SECTOR;
        &mut self.bytes[from..][..sectors as usize * SECTOR]
    }

    /// Has so many sectors from a place on be there.
    fn turn_to(&mut self, of: &NvramFile, place: u64, sectors: u64) -> io::Result<()> {
        let end = self.place + (self.bytes.len() / SECTOR) as u64;
        if place < self.place || place + sectors > end {
            // What was looked at is written back before the view moves on.
            if self.anew {
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

impl NvramFile {
    /// Reads a file that is so long, and what is in its slots. Records that are not all there are gone for good, and
    /// what was found is written anew and made durable. Of damaged records what is not damaged is found as well.
    pub(crate) fn open(
        file: Arc<dyn OsFile>,
        path: &Path,
        length: u64,
        layout: JournalLayout,
    ) -> Result<FoundNvram, FilesError> {
        let FoundHeader { epoch, bounds, damaged } = read_headers(&*file, path, length, &layout)?;
        let mut opened = Self::with(file, layout, epoch, bounds);
        let ReplayedRing { nvram, damaged: of_records } = opened.take_over(path)?;
        let opening = bounds.opening + 1;
        // Written anew and synced: after a sync that failed, pages may be gone that
        // a read still shows.
        let written = opened.write_header(bounds).and_then(|()| opened.file.sync_all(SyncPoint::OpenNvram));
        written.map_err(FilesError::io(path, "make it durable"))?;
        // The header says so with the event count of the start, before which nothing is written behind them.
        opened.bounds = RecordBounds { sealed: opened.head, opening, ..bounds };
        opened.durable = opened.head;
        let damaged = damaged.into_iter().chain(of_records).collect();
        Ok(FoundNvram { file: opened, nvram, epoch, damaged })
    }

    /// Finds the records that count, reads what they have put, and writes them anew. What a damaged record says of slots is
    /// restored; the bytes that are damaged stay as they are.
    fn take_over(&mut self, path: &Path) -> Result<ReplayedRing, FilesError> {
        let mut found: Vec<Option<FoundSlot>> = vec![None; self.slots.len()];
        let mut damaged = Vec::new();
        let mut view = RingView { place: self.head, anew: true, ..RingView::default() };
        let (believes_stale, believes_torn) =
            // Planted faults of the crash harness, which must be found.
            (self.file.believes(UntrustedFile::Stale), self.file.believes(UntrustedFile::Torn));
        while self.head < self.end() {
            let (place, is_sealed) = (self.head, self.head < self.bounds.sealed);
            // From `sealed` on only records of this opening count. What an earlier
            // opening did not find whole must not come back.
            let opening = (!is_sealed && !believes_stale).then_some(self.bounds.opening);
            let wanted = self.wanted(place, opening);
            let read = view.record(self, wanted, believes_torn);
            let read = read.map_err(FilesError::io(path, "read a record and write it anew"))?;
            let whole = |record: JournalRecord<'_>| {
                record.check_whole(believes_torn)?;
                self.check_seal(place, &record)
            };
            if let Err(wrong) = read.and_then(whole) {
                // A torn record ends the journal. If a later one says that it was
                // durable, it is damaged instead.
                if !is_sealed && !self.was_durable(place).map_err(FilesError::io(path, "read a record"))? {
                    break;
                }
                let restored = self.restore(&mut view, wanted).map_err(FilesError::io(path, "read a record"))?;
                let error = wrong.at(path, self.layout.offset(place));
                let Some(is_restored) = restored else {
                    return Err(FilesError::DamagedNvram { path: path.to_owned(), why: error.to_string() });
                };
                // A seal says nothing, and may not have become durable with the header.
                if place != self.bounds.seal {
                    damaged.push(DamagedRecord { place, error, is_restored });
                }
            }
            let record = view.record(self, wanted, believes_torn);
            let record = record.map_err(FilesError::io(path, "read a record and write it anew"))?;
            // After a restore the record must be readable, or the device cannot be
            // trusted.
            let record = record.map_err(|wrong| {
                let why = wrong.at(path, self.layout.offset(place)).to_string();
                FilesError::DamagedNvram { path: path.to_owned(), why }
            })?;
            for slot in record.frees() {
                // What had put it may be older than the first record.
                if found[slot.index as usize].take_if(|found| found.slot == slot).is_some() {
                    self.release(slot);
                }
            }
            for (put, bytes, is_damaged) in record.puts() {
                if let Some(FoundSlot { slot, .. }) = found[put.slot.index as usize].take() {
                    // It was written once more.
                    self.release(slot);
                }
                let (slot, tag, is_damaged) = (put.slot, put.tag, is_damaged && !believes_torn);
                found[slot.index as usize] = Some(FoundSlot { slot, tag, place, bytes: bytes.to_vec(), is_damaged });
            }
            self.before = record.table(place);
            self.note(record.puts().map(|(put, ..)| put.slot), record.sectors());
        }
        view.write_back(self, self.head).map_err(FilesError::io(path, "write a record anew"))?;
        // What is damaged and not in use any more costs nothing, and is not told of at each start.
        let in_use: BTreeSet<u64> =
            found.iter().flatten().filter(|slot| slot.is_damaged).map(|slot| slot.place).collect();
        damaged.retain(|record| record.is_restored || in_use.contains(&record.place));
        let damaged = damaged.into_iter().take(MOST_TOLD).map(|record| record.error).collect();
        let mut nvram = MemoryNvram::default();
        for FoundSlot { slot, tag, bytes, is_damaged, .. } in found.iter().flatten() {
            if *is_damaged {
                nvram.put_damaged(*slot, *tag, bytes.len());
            } else {
                nvram.put(*slot, *tag, bytes);
            }
        }
        Ok(ReplayedRing { nvram, damaged })
    }

    /// Checks that a record is the seal if it is where the header has that. The header may have become durable without the
    /// seal, and what an earlier opening did not find whole lies there then.
    fn check_seal(&self, place: u64, record: &JournalRecord<'_>) -> Result<(), RecordDefect> {
        let is_checked = self.is_unsure_seal(place) && !self.file.believes(UntrustedFile::Stale);
        if is_checked { record.check_seal(&self.before) } else { Ok(()) }
    }

    /// Returns true if the seal is at a place, and may never have been written. The first record was durable before those
    /// before it were given up.
    const fn is_unsure_seal(&self, place: u64) -> bool {
        place == self.bounds.seal && self.bounds.tail < place && place < self.bounds.sealed
    }

    /// Reports whether a record after a place says that what is there was durable.
    fn was_durable(&self, place: u64) -> io::Result<bool> {
        let mut view = RingView::default();
        for behind in place + 1..self.end().min(place + LOOKED_AT) {
            // Only records of this opening are asked: older ones say nothing about
            // this place.
            let wanted = self.wanted(behind, Some(self.bounds.opening));
            if view.record(self, wanted, false)?.is_ok_and(|record| record.durable() > place) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Restores what a damaged record says of slots, in what was read of it. Returns false if that is not damaged, and none
    /// if nobody knows what it said.
    fn restore(&self, view: &mut RingView, wanted: WantedRecord) -> io::Result<Option<bool>> {
        let place = wanted.place;
        let said = match view.record(self, wanted, false)? {
            Ok(record) if self.check_seal(place, &record).is_ok() => {
                if record.before().is_some() {
                    // The bytes of a slot alone are damaged.
                    return Ok(Some(false));
                }
                Some((record.table(place), record.sectors(), record.durable()))
            }
            // Where the seal is not written, what lies in its place or behind that may say what it likes.
            _ if self.is_unsure_seal(place) => Some((RecordTable::empty(place), sectors(0, 0, self.before.len()), 0)),
            _ => self.said_behind(place)?.map(|(table, sectors)| (table, sectors, 0)),
        };
        let Some((table, in_all, durable)) = said else { return Ok(None) };
        // The record before may not be known, if this is the first one.
        let before = if self.before.place < place { self.before.clone() } else { RecordTable::empty(place) };
        // The restored parts must fit into the sectors that the record had.
        if sectors(table.len(), table.put_bytes(), before.len()) > in_all {
            return Ok(None);
        }
        view.turn_to(self, place, in_all)?;
        let stamp = RecordStamp { place, drawn: wanted.drawn, opening: self.bounds.opening, durable };
        restore(view.sectors(place, in_all), stamp, &table, &before);
        Ok(Some(true))
    }

    /// Returns what the record behind a damaged one says of it, and how many sectors the damaged one has.
    fn said_behind(&self, place: u64) -> io::Result<Option<(RecordTable, u64)>> {
        let mut view = RingView::default();
        for next in place + 1..self.end().min(place + 1 + self.layout.longest()) {
            let opening = (next >= self.bounds.sealed).then_some(self.bounds.opening);
            if let Ok(record) = view.record(self, self.wanted(next, opening), false)? {
                let said = record.before().filter(|table| table.place == place);
                return Ok(said.map(|table| (table, next - place)));
            }
        }
        // After a seal there may be nothing that could repeat it; it says nothing
        // anyway.
        let is_seal = place == self.bounds.seal && place < self.bounds.sealed;
        Ok(is_seal.then(|| (RecordTable::empty(place), self.bounds.sealed - place)))
    }
}
