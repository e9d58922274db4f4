//! The file of the intents, with the roster in its header.

use std::io;
use std::path::Path;
use std::sync::Arc;

use destage_plan::Rows;

use crate::files::config::MAX_DEVICES;
use crate::files::error::FilesError;
use crate::files::io::file::{OsFile, SyncPoint};
use crate::files::io::sectors;
use crate::files::io::state_file::StateFile;
use crate::files::layout::event_count::EventCount;
use crate::files::layout::intents::{IntentSectors, bytes, new_roster, read_roster};
use crate::files::layout::label::ArrayOrigin;
use crate::files::layout::roster::MemberRoster;
use crate::nvram::RowSet;

/// The file.
pub(crate) struct IntentsFile {
    file: Arc<StateFile>,
    /// As they are in the file or will be after [`sync`](Self::sync).
    sectors: IntentSectors,
}

/// Holds what a file of the intents says.
pub(crate) struct FoundIntents {
    pub(crate) file: IntentsFile,
    /// Lists the rows whose intent is open; those of damaged sectors are among them.
    pub(crate) open: RowSet,
    pub(crate) roster: MemberRoster,
    /// Says what is wrong with each damaged sector.
    pub(crate) damaged: Vec<FilesError>,
}

/// Reads the roster of a file that is so long; none if it is too short for one.
pub(crate) fn roster(
    file: &dyn OsFile,
    path: &Path,
    length: u64,
    array: u64,
    rows: u64,
) -> Result<Option<MemberRoster>, FilesError> {
    let sector = sectors::first(file, path, length)?;
    sector.map(|sector| read_roster(path, &sector, array, rows)).transpose()
}

/// Returns what makes a roster durable as it is now, in this file of the intents.
pub(crate) fn sync_roster(
    file: &Arc<StateFile>,
    roster: &MemberRoster,
    at: SyncPoint,
) -> impl FnOnce() -> io::Result<()> + Send + use<> {
    // The header is copied now; the roster may change before the thread writes it.
    let (file, header) = (Arc::clone(file), *roster.sector());
    move || {
        file.write_all_at(&header, 0)?;
        file.sync_data(at)
    }
}

impl IntentsFile {
    /// Fills a new file: intents of these rows are open, and all files are of these generations. The header is written
    /// last; not durable yet.
    pub(crate) fn create(
        file: Arc<StateFile>,
        origin: ArrayOrigin,
        rows: u64,
        open: &RowSet,
        (epoch, count, generations): (u32, EventCount, &[u32; MAX_DEVICES]),
    ) -> io::Result<(Self, MemberRoster)> {
        let roster = new_roster(origin, rows, (epoch, count), generations);
        let made = Self { file, sectors: IntentSectors::new(rows, open) };
        // The bits first, then the header, which makes the file one.
        made.file.write_all_at(made.sectors.bytes(), IntentSectors::OFFSET)?;
        made.file.write_all_at(roster.sector(), 0)?;
        Ok((made, roster))
    }

    /// Goes on with a file that holds the intents of these rows, or is about to: what was being changed is changed once more.
    pub(crate) fn resume(file: Arc<StateFile>, rows: u64, open: &RowSet) -> Self {
        Self { file, sectors: IntentSectors::new(rows, open) }
    }

    /// Reads a file that is so long, and writes anew what it says, damaged sectors of the bitmap as well. Durable with the
    /// event count of the start.
    pub(crate) fn open(
        file: Arc<StateFile>,
        path: &Path,
        length: u64,
        array: u64,
        rows: u64,
    ) -> Result<FoundIntents, FilesError> {
        // Before the size is looked at: the header knows which setting is another.
        let roster = roster(&*file, path, length, array, rows)?;
        let Some(roster) = roster.filter(|_| length == bytes(rows)) else {
            let (path, settings) = (path.to_owned(), format!("rows = {rows}"));
            return Err(FilesError::Size { path, found: length, expected: bytes(rows), settings });
        };
        let mut sectors = IntentSectors::zeroed(rows);
        let read = file.read_exact_at(sectors.bytes_mut(), IntentSectors::OFFSET);
        read.map_err(FilesError::io(path, "read the bitmap"))?;
        let (open, damaged) = sectors.take_up(path);
        // Written anew for the same reason as the NVRAM.
        let written = file.write_all_at(roster.sector(), 0);
        let written = written.and_then(|()| file.write_all_at(sectors.bytes(), IntentSectors::OFFSET));
        written.map_err(FilesError::io(path, "write it anew"))?;
        Ok(FoundIntents { file: Self { file, sectors }, open, roster, damaged })
    }

    /// Sets or clears intents; durable after [`sync`](Self::sync).
    pub(crate) fn set(&mut self, rows: Rows, to: bool) {
        self.sectors.set(rows, to);
    }

    /// Bytes that the next [`sync`](Self::sync) writes.
    pub(crate) fn unwritten(&mut self) -> u64 {
        self.sectors.unwritten()
    }

    /// Makes what was set and cleared durable; nothing is written if no bit has changed.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if self.unwritten() == 0 {
            return Ok(());
        }
        for (offset, sectors) in self.sectors.sealed() {
            self.file.write_all_at(sectors, offset)?;
        }
        self.file.sync_data(SyncPoint::Intents)?;
        self.sectors.written();
        Ok(())
    }

    /// Returns the file, to be read and written past the page cache.
    pub(crate) fn state_file(&self) -> Arc<StateFile> {
        Arc::clone(&self.file)
    }

    /// Makes the file durable as a whole, its size too.
    pub(crate) fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all(SyncPoint::CreateIntents)
    }
}
