//! The NVRAM in a file: slots with a tag and bytes.
//!
//! A step is a commit: it puts any number of slots and frees any number; steps that wait at the same time become one, unless
//! two touch the same slot. It carries the next sequence number and is durable, by one fdatasync, before the next one begins:
//! so at most the newest step can be torn, and whether it is can be told. Its headers say how many they are, and
//! those of slots that it put have the checksum of the slot's bytes. If there are fewer headers
//! than they say, or bytes that do not match, the commit was torn, and all of it is undone:
//!
//! * a slot that it freed is in use again: its header still says what it held, and its bytes were
//!   not touched since;
//! * a slot that it put is free.
//!
//! Either header keeps the number of the commit and says that it was undone: what the slot's header
//! said before is lost, and the headers of the commit before this one must not be counted any more.
//!
//! Bytes that do not match in a slot of an earlier commit are damaged, and an error.
//!
//! A header is a sector ([`sectors`]), is never torn, and is damaged if it does not match its
//! checksum. Opening writes anew whatever it relies on before it makes that durable: after a sync
//! that failed, pages may be gone that a read still shows and a later sync says nothing of.
//!
//! ```text
//! sector 0                                  slot s, at 512 + s · (512 + page rounded up to sectors)
//!   0   8  "dstgNVRM"                         0   4  "slot"
//!   8   4  version, 4                         4   4  s
//!  12   4  bytes of a sector, 512             8   8  sequence number of the step that wrote the header
//!  16   8  number of the array               16   4  generation
//!  24   4  bytes of a page                   20   4  CRC-32C of the slot's bytes, 0 if there are none
//!  28   4  slots                             24  24  tag; zeros if the state is 0
//!  32   4  devices                           48   4  headers that the step wrote; 0 if it was none, or undone
//!  36  16  drawn, as in the intents
//!  52   4  epoch, likewise
//!  56 452  0                                 52   4  bytes that the slot holds
//! 508   4  CRC-32C of bytes 0 .. 508         56   4  state: 0 free, 1 in use, 2 freed and was 1
//!                                            60 448  0
//!                                           508   4  CRC-32C of bytes 0 .. 508
//!                                           512      the bytes; behind them, anything
//! ```
//!
//! Versions 1 and 2, whose slots held whole pages, and 3, which says of no loss, are refused.

use std::io;
use std::path::Path;
use std::sync::Arc;

use destage_plan::{NvPut, NvSlot, Tag};

use super::FilesError;
use super::os::{OsFile, SyncPoint};
use super::sectors::{self, Reader, SECTOR, Sector, put, seal};
use crate::Nvram;

const MAGIC: [u8; 8] = *b"dstgNVRM";
const VERSION: u32 = 4;
const SLOT: [u8; 4] = *b"slot";
const FREE: u32 = 0;
const USED: u32 = 1;
const FREED: u32 = 2;

/// What the file's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Number of the array.
    pub(super) array: u64,
    /// Bytes of a page.
    pub(super) page_bytes: u32,
    /// Slots.
    pub(super) slots: u32,
    /// Devices of the array.
    pub(super) devices: u32,
}

/// Of which array it is, and of which of its lives: an earlier one ended with the loss of the NVRAM or the intents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    /// As in the intents.
    pub(super) drawn: [u8; 16],
    /// As in the intents.
    pub(super) epoch: u32,
}

impl Layout {
    const fn stride(&self) -> u64 {
        SECTOR as u64 + (self.page_bytes as u64).next_multiple_of(SECTOR as u64)
    }

    const fn offset(&self, slot: u32) -> u64 {
        SECTOR as u64 + slot as u64 * self.stride()
    }

    /// Bytes of the file.
    pub(super) const fn bytes(&self) -> u64 {
        SECTOR as u64 + self.slots as u64 * self.stride()
    }

    fn header(&self, Life { drawn, epoch }: Life) -> Sector {
        let mut sector = [0; SECTOR];
        put(&mut sector, 36, &drawn);
        put(&mut sector, 52, &epoch.to_le_bytes());
        put(&mut sector, 0, &MAGIC);
        put(&mut sector, 8, &VERSION.to_le_bytes());
        put(&mut sector, 12, &(SECTOR as u32).to_le_bytes());
        put(&mut sector, 16, &self.array.to_le_bytes());
        put(&mut sector, 24, &self.page_bytes.to_le_bytes());
        put(&mut sector, 28, &self.slots.to_le_bytes());
        put(&mut sector, 32, &self.devices.to_le_bytes());
        seal(&mut sector);
        sector
    }
}

/// A slot's header.
#[derive(Clone, Copy)]
struct Header {
    sequence: u64,
    slot: NvSlot,
    state: u32,
    tag: Tag,
    /// Bytes that the slot holds, and their checksum.
    len: u32,
    crc: u32,
    /// Headers that the step wrote.
    together: u32,
}

impl Header {
    const fn free(slot: NvSlot, sequence: u64) -> Self {
        Self { sequence, slot, state: FREE, tag: [0; 24], len: 0, crc: 0, together: 0 }
    }

    /// The header of a slot that a step has put, with others or alone.
    fn put(put: &NvPut, bytes: &[u8], sequence: u64, together: u32) -> Self {
        let crc = if bytes.is_empty() { 0 } else { crc32c::crc32c(bytes) };
        let free = Self::free(put.slot, sequence);
        Self { state: USED, tag: put.tag, len: put.len, crc, together, ..free }
    }

    /// The header of the slot when a step has freed it, with others or alone.
    const fn freed(self, sequence: u64, together: u32) -> Self {
        Self { sequence, state: FREED, together, ..self }
    }

    /// The header when the step that wrote it is undone.
    const fn undone(self) -> Self {
        match self.state {
            FREED => Self { state: USED, together: 0, ..self },
            _ => Self::free(self.slot, self.sequence),
        }
    }

    fn encode(&self) -> Sector {
        let mut sector = [0; SECTOR];
        put(&mut sector, 0, &SLOT);
        put(&mut sector, 4, &self.slot.index.to_le_bytes());
        put(&mut sector, 8, &self.sequence.to_le_bytes());
        put(&mut sector, 16, &self.slot.generation.to_le_bytes());
        put(&mut sector, 20, &self.crc.to_le_bytes());
        put(&mut sector, 24, &self.tag);
        put(&mut sector, 48, &self.together.to_le_bytes());
        put(&mut sector, 52, &self.len.to_le_bytes());
        put(&mut sector, 56, &self.state.to_le_bytes());
        seal(&mut sector);
        sector
    }

    fn decode(reader: &Reader<'_>, sector: &Sector, index: u32, page_bytes: u32) -> Result<Self, FilesError> {
        reader.crc("the CRC-32C of a slot's header")?;
        reader.exactly("the mark of a slot", 0, reader.u32(0), u32::from_le_bytes(SLOT))?;
        reader.exactly("the number of a slot", 4, reader.u32(4), index)?;
        let (len, state) = (reader.u32(52), reader.u32(56));
        if len > page_bytes {
            return Err(reader.wrong("the bytes in a slot", 52, len, format_args!("at most {page_bytes}")));
        }
        if state > FREED {
            return Err(reader.wrong("the state of a slot", 56, state, "0 to 2"));
        }
        reader.zeros(60)?;
        Ok(Self {
            sequence: reader.u64(8),
            slot: NvSlot { index, generation: reader.u32(16) },
            state,
            tag: sector[24..48].try_into().expect("twenty-four bytes"),
            len,
            crc: reader.u32(20),
            together: reader.u32(48),
        })
    }
}

/// The file.
pub(super) struct NvramFile {
    file: Arc<dyn OsFile>,
    layout: Layout,
    /// Of the newest step.
    sequence: u64,
    headers: Vec<Header>,
    /// A slot as it will be written.
    image: Vec<u8>,
    /// Of each slot the last group that it was touched in.
    touched: Vec<u64>,
    /// Groups so far.
    groups: u64,
}

/// What a step puts and frees.
#[derive(Clone, Copy)]
pub(super) struct Commit<'a> {
    /// Slots that it puts, which are free.
    pub(super) puts: &'a [NvPut],
    /// Their bytes, one after the other.
    pub(super) bytes: &'a [u8],
    /// Slots that it frees, which are in use.
    pub(super) frees: &'a [NvSlot],
}

/// The slots of commits that become one.
pub(super) struct Group<'a> {
    number: u64,
    touched: &'a mut [u64],
}

impl Group<'_> {
    /// Lets in a commit unless it touches a slot that another has touched: what is undone could not be told then, since
    /// what the slot held before is gone.
    pub(super) fn joins(&mut self, puts: &[NvPut], frees: &[NvSlot]) -> bool {
        let slots = || puts.iter().map(|put| put.slot).chain(frees.iter().copied()).map(|slot| slot.index as usize);
        if slots().any(|slot| self.touched[slot] == self.number) {
            return false;
        }
        slots().for_each(|slot| self.touched[slot] = self.number);
        true
    }
}

impl NvramFile {
    fn with(file: Arc<dyn OsFile>, layout: Layout, headers: Vec<Header>) -> Self {
        let touched = vec![0; headers.len()];
        Self { file, layout, sequence: 0, headers, image: Vec::new(), touched, groups: 0 }
    }

    /// Fills a new file: all slots are free. The header is written when they are durable, and so not before the file
    /// can be opened; not durable yet.
    pub(super) fn create(file: Arc<dyn OsFile>, layout: Layout, life: Life) -> io::Result<Self> {
        let headers: Vec<_> = (0..layout.slots).map(|index| Header::free(NvSlot { index, generation: 0 }, 0)).collect();
        for header in &headers {
            file.write_all_at(&header.encode(), layout.offset(header.slot.index))?;
        }
        file.sync_all(SyncPoint::CreateNvram)?;
        file.write_all_at(&layout.header(life), 0)?;
        Ok(Self::with(file, layout, headers))
    }

    /// Reads a file that is so long, and what is in its slots. A step that was torn is undone, and
    /// all that was found is written anew and made durable.
    pub(super) fn open(
        file: Arc<dyn OsFile>,
        path: &Path,
        length: u64,
        layout: Layout,
    ) -> Result<(Self, Nvram, Life), FilesError> {
        let mut life = None;
        // Before the size is looked at: the header knows which setting is another.
        if let Some(sector) = sectors::first(&*file, path, length)? {
            let reader = Reader::new(path, 0, &sector);
            reader.magic(MAGIC)?;
            reader.exactly("the version", 8, reader.u32(8), VERSION)?;
            reader.crc("the header's CRC-32C")?;
            reader.exactly("the sector's size", 12, reader.u32(12), SECTOR as u32)?;
            reader.setting("array", "the array's number", 16, reader.u64(16), layout.array)?;
            reader.setting("page-bytes", "the page's size", 24, reader.u32(24), layout.page_bytes)?;
            reader.setting("nv-slots", "the number of slots", 28, reader.u32(28), layout.slots)?;
            reader.setting("devices", "the number of devices", 32, reader.u32(32), layout.devices)?;
            reader.zeros(56)?;
            let drawn = sector[36..52].try_into().expect("sixteen bytes");
            life = Some(Life { drawn, epoch: reader.u32(52) });
        }
        let Some(life) = life.filter(|_| length == layout.bytes()) else {
            return Err(FilesError::Size {
                path: path.to_owned(),
                found: length,
                expected: layout.bytes(),
                settings: format!("nv-slots = {} and page-bytes = {}", layout.slots, layout.page_bytes),
            });
        };
        let mut sector = [0; SECTOR];
        let mut headers = Vec::with_capacity(layout.slots as usize);
        for index in 0..layout.slots {
            let offset = layout.offset(index);
            file.read_exact_at(&mut sector, offset).map_err(FilesError::io(path, "read the header of a slot"))?;
            headers.push(Header::decode(&Reader::new(path, offset, &sector), &sector, index, layout.page_bytes)?);
        }
        let mut opened = Self::with(file, layout, headers);
        let nvram = opened.take_over(path)?;
        let written = opened.file.write_all_at(&layout.header(life), 0);
        let durable = written.and_then(|()| opened.file.sync_all(SyncPoint::OpenNvram));
        durable.map_err(FilesError::io(path, "make it durable"))?;
        Ok((opened, nvram, life))
    }

    /// Finds the newest step and undoes it if it was torn, reads what is in the slots, and writes
    /// all of it anew. Should that be torn as well, what is left of the step is undone the next
    /// time.
    fn take_over(&mut self, path: &Path) -> Result<Nvram, FilesError> {
        self.sequence = self.headers.iter().map(|header| header.sequence).max().unwrap_or(0);
        let is_newest = |header: &Header| header.sequence == self.sequence && header.together > 0;
        let newest = self.headers.iter().filter(|header| is_newest(header)).count() as u32;
        let mut torn = false;
        for header in self.headers.iter().filter(|header| is_newest(header)) {
            if header.together < newest {
                let (field, at) = ("the number of headers of a step", 48);
                return Err(self.wrong(path, header, field, at, header.together, newest));
            }
            torn |= header.together > newest;
        }
        let (mut nvram, mut bytes) = (Nvram::default(), Vec::new());
        for header in self.headers.iter().filter(|header| header.state == USED) {
            let crc = self.read(header, &mut bytes).map_err(FilesError::io(path, "read the bytes of a slot"))?;
            if crc == header.crc {
                nvram.put(header.slot, header.tag, &bytes);
            } else if is_newest(header) {
                torn = true;
            } else {
                return Err(self.wrong(path, header, "the CRC-32C of a slot's bytes", 20, header.crc, crc));
            }
        }
        if torn {
            for index in 0..self.headers.len() {
                let header = self.headers[index];
                if header.sequence != self.sequence || header.together == 0 {
                    continue;
                }
                let undone = header.undone();
                self.headers[index] = undone;
                if header.state == FREED {
                    let crc =
                        self.read(&undone, &mut bytes).map_err(FilesError::io(path, "read the bytes of a slot"))?;
                    if crc != undone.crc {
                        return Err(self.wrong(path, &undone, "the CRC-32C of a slot's bytes", 20, undone.crc, crc));
                    }
                    nvram.put(undone.slot, undone.tag, &bytes);
                } else if nvram.holds(header.slot) {
                    nvram.free(header.slot);
                }
            }
        }
        for index in 0..self.headers.len() {
            let header = self.headers[index];
            let kept: &[u8] = if header.state == USED { nvram.bytes(header.slot) } else { &[] };
            self.write(header, kept).map_err(FilesError::io(path, "write a slot anew"))?;
        }
        Ok(nvram)
    }

    /// Reads the bytes that a slot holds; their checksum.
    fn read(&self, header: &Header, bytes: &mut Vec<u8>) -> io::Result<u32> {
        bytes.resize(header.len as usize, 0);
        if header.len == 0 {
            return Ok(0);
        }
        self.file.read_exact_at(bytes, self.layout.offset(header.slot.index) + SECTOR as u64)?;
        Ok(crc32c::crc32c(bytes))
    }

    fn wrong(
        &self,
        path: &Path,
        header: &Header,
        field: &'static str,
        at: u64,
        found: u32,
        expected: u32,
    ) -> FilesError {
        FilesError::Field {
            path: path.to_owned(),
            field,
            offset: self.layout.offset(header.slot.index) + at,
            found: found.to_string(),
            expected: expected.to_string(),
        }
    }

    /// What several commits that are made durable together may touch.
    pub(super) fn group(&mut self) -> Group<'_> {
        self.groups += 1;
        Group { number: self.groups, touched: &mut self.touched }
    }

    /// Puts free slots, and frees slots in use: all of it or nothing, durably. Several commits become one; they must be
    /// of one [`group`](Self::group).
    pub(super) fn commit<'a>(&mut self, commits: impl Iterator<Item = Commit<'a>> + Clone) -> io::Result<()> {
        let together = commits.clone().map(|commit| (commit.puts.len() + commit.frees.len()) as u32).sum();
        if together == 0 {
            return Ok(());
        }
        self.sequence += 1;
        for Commit { puts, mut bytes, frees } in commits {
            for put in puts {
                let (own, others) = bytes.split_at(put.len as usize);
                bytes = others;
                debug_assert!(self.headers[put.slot.index as usize].state != USED, "{:?} is free", put.slot);
                self.write(Header::put(put, own, self.sequence, together), own)?;
            }
            for slot in frees {
                let header = self.headers[slot.index as usize];
                debug_assert!(header.slot == *slot && header.state == USED, "{slot:?} is in use");
                self.write(header.freed(self.sequence, together), &[])?;
            }
        }
        self.file.sync_data(SyncPoint::Commit)
    }

    /// Writes a slot's header, and bytes behind it if there are any.
    fn write(&mut self, header: Header, bytes: &[u8]) -> io::Result<()> {
        self.image.clear();
        self.image.extend_from_slice(&header.encode());
        self.image.extend_from_slice(bytes);
        self.headers[header.slot.index as usize] = header;
        self.file.write_all_at(&self.image, self.layout.offset(header.slot.index))
    }

    /// Makes the file durable as a whole, its size too.
    pub(super) fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all(SyncPoint::CreateNvram)
    }
}
