//! The NVRAM in a file: slots with a tag and a page.
//!
//! A step is a put of one slot or a free of any number of them. It carries the next sequence number
//! and is durable, by one fdatasync, before the next one begins: so at most the newest step can be
//! torn, and whether it is can be told.
//!
//! * A put is one write of header and page; the page's checksum is in the header. If the newest
//!   slot's page does not match, the put was torn and the slot is free; any other that does not
//!   match is damaged, and an error.
//! * A free rewrites the headers of its slots, which say how many they are. If the newest step has
//!   fewer headers than it says, the free was torn and is undone: a freed slot's header still holds
//!   what the slot held, and its page was not touched since. So a free of several slots is atomic.
//!
//! A header is a sector ([`sectors`]), is never torn, and is damaged if it does not match its
//! checksum. Opening writes anew whatever it relies on before it makes that durable: after a sync
//! that failed, pages may be gone that a read still shows and a later sync says nothing of.
//!
//! ```text
//! sector 0                                  slot s, at 512 + s · (512 + page rounded up to sectors)
//!   0   8  "dstgNVRM"                         0   4  "slot"
//!   8   4  version, 2                         4   2  s
//!  12   4  bytes of a sector, 512             6   2  state: 0 free, 1 tag, 2 tag and page,
//!  16   8  number of the array                       3 freed, was 1; 4 freed, was 2
//!  24   4  bytes of a page                    8   8  sequence number of the step that wrote the header
//!  28   4  slots                             16   4  generation
//!  32   4  devices                           20   4  CRC-32C of the page, 0 if there is none
//!  36 472  0                                 24  24  tag; zeros if the state is 0
//! 508   4  CRC-32C of bytes 0 .. 508         48   4  headers that the step wrote; 0 if it was none
//!                                            52   4  0
//!                                            56   8  freed: the number of the step that put it; else 0
//!                                            64 444  0
//!                                           508   4  CRC-32C of bytes 0 .. 508
//!                                           512      the page
//! ```
//!
//! Version 1, in which a torn free of several slots could not be told, is refused.

use std::io;
use std::path::Path;
use std::sync::Arc;

use destage_plan::{NvSlot, Tag};

use super::FilesError;
use super::os::{OsFile, SyncPoint};
use super::sectors::{self, Reader, SECTOR, Sector, put, seal};
use crate::{Nvram, Page};

const MAGIC: [u8; 8] = *b"dstgNVRM";
const VERSION: u32 = 2;
const SLOT: [u8; 4] = *b"slot";
const FREE: u16 = 0;
const TAG: u16 = 1;
const TAG_AND_PAGE: u16 = 2;
/// What is added to a slot's state when it is freed.
const FREED: u16 = 2;

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

impl Layout {
    const fn stride(&self) -> u64 {
        SECTOR as u64 + (self.page_bytes as u64).next_multiple_of(SECTOR as u64)
    }

    const fn offset(&self, slot: u16) -> u64 {
        SECTOR as u64 + slot as u64 * self.stride()
    }

    /// Bytes of the file.
    pub(super) const fn bytes(&self) -> u64 {
        SECTOR as u64 + self.slots as u64 * self.stride()
    }

    fn header(&self) -> Sector {
        let mut sector = [0; SECTOR];
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
    state: u16,
    tag: Tag,
    page_crc: u32,
    /// Headers that the step wrote.
    together: u32,
    /// Of a freed slot: the step that put it.
    put_by: u64,
}

impl Header {
    const fn free(index: u16, generation: u32, sequence: u64) -> Self {
        let together = (sequence > 0) as u32;
        Self {
            sequence,
            slot: NvSlot { index, generation },
            state: FREE,
            tag: [0; 24],
            page_crc: 0,
            together,
            put_by: 0,
        }
    }

    /// The header of the slot when a step has freed it, with others or alone.
    const fn freed(self, sequence: u64, together: u32) -> Self {
        Self { sequence, state: self.state + FREED, together, put_by: self.sequence, ..self }
    }

    const fn is_freed(&self) -> bool {
        self.state > TAG_AND_PAGE
    }

    /// The header as it was before the slot was freed. Puts write a single one.
    const fn undone(self) -> Self {
        Self { sequence: self.put_by, state: self.state - FREED, together: 1, put_by: 0, ..self }
    }

    fn encode(&self) -> Sector {
        let mut sector = [0; SECTOR];
        put(&mut sector, 0, &SLOT);
        put(&mut sector, 4, &self.slot.index.to_le_bytes());
        put(&mut sector, 6, &self.state.to_le_bytes());
        put(&mut sector, 8, &self.sequence.to_le_bytes());
        put(&mut sector, 16, &self.slot.generation.to_le_bytes());
        put(&mut sector, 20, &self.page_crc.to_le_bytes());
        put(&mut sector, 24, &self.tag);
        put(&mut sector, 48, &self.together.to_le_bytes());
        put(&mut sector, 56, &self.put_by.to_le_bytes());
        seal(&mut sector);
        sector
    }

    fn decode(reader: &Reader<'_>, sector: &Sector, index: u16) -> Result<Self, FilesError> {
        reader.crc("the CRC-32C of a slot's header")?;
        reader.exactly("the mark of a slot", 0, reader.u32(0), u32::from_le_bytes(SLOT))?;
        reader.exactly("the number of a slot", 4, reader.u16(4), index)?;
        let state = reader.u16(6);
        if state > TAG_AND_PAGE + FREED {
            return Err(reader.wrong("the state of a slot", 6, state, "0 to 4"));
        }
        reader.exactly("a reserved number", 52, reader.u32(52), 0)?;
        reader.zeros(64)?;
        let tag = sector[24..48].try_into().expect("twenty-four bytes");
        let slot = NvSlot { index, generation: reader.u32(16) };
        let (sequence, together, put_by) = (reader.u64(8), reader.u32(48), reader.u64(56));
        Ok(Self { sequence, slot, state, tag, page_crc: reader.u32(20), together, put_by })
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
}

impl NvramFile {
    /// Fills a new file: all slots are free. The header is written last; not durable yet.
    pub(super) fn create(file: Arc<dyn OsFile>, layout: Layout) -> io::Result<Self> {
        let headers: Vec<_> = (0..layout.slots).map(|index| Header::free(index as u16, 0, 0)).collect();
        for header in &headers {
            file.write_all_at(&header.encode(), layout.offset(header.slot.index))?;
        }
        file.write_all_at(&layout.header(), 0)?;
        Ok(Self { file, layout, sequence: 0, headers, image: Vec::new() })
    }

    /// Reads a file that is so long, and what is in its slots. A step that was torn is undone, and
    /// all that was found is written anew and made durable.
    pub(super) fn open(
        file: Arc<dyn OsFile>,
        path: &Path,
        length: u64,
        layout: Layout,
    ) -> Result<(Self, Nvram), FilesError> {
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
            reader.zeros(36)?;
        }
        if length != layout.bytes() {
            return Err(FilesError::Size {
                path: path.to_owned(),
                found: length,
                expected: layout.bytes(),
                settings: format!("nv-slots = {} and page-bytes = {}", layout.slots, layout.page_bytes),
            });
        }
        let mut sector = [0; SECTOR];
        let mut headers = Vec::with_capacity(layout.slots as usize);
        for index in 0..layout.slots as u16 {
            let offset = layout.offset(index);
            file.read_exact_at(&mut sector, offset).map_err(FilesError::io(path, "read the header of a slot"))?;
            headers.push(Header::decode(&Reader::new(path, offset, &sector), &sector, index)?);
        }
        let mut opened = Self { file, layout, sequence: 0, headers, image: Vec::new() };
        opened.undo_torn_free(path)?;
        let mut nvram = Nvram::default();
        let mut page = vec![0; layout.page_bytes as usize];
        for index in 0..opened.headers.len() {
            let header = opened.headers[index];
            let mut rewritten = None;
            match header.state {
                TAG => nvram.put(header.slot, header.tag, Page::None),
                TAG_AND_PAGE => {
                    let offset = layout.offset(header.slot.index) + SECTOR as u64;
                    let read = opened.file.read_exact_at(&mut page, offset);
                    read.map_err(FilesError::io(path, "read the page of a slot"))?;
                    let crc = crc32c::crc32c(&page);
                    if crc == header.page_crc {
                        nvram.put(header.slot, header.tag, Page::Bytes(&page));
                        rewritten = Some(&page);
                    } else if header.sequence == opened.sequence {
                        let free = Header::free(header.slot.index, header.slot.generation, header.sequence);
                        opened.headers[index] = free;
                    } else {
                        return Err(FilesError::Field {
                            path: path.to_owned(),
                            field: "the CRC-32C of a slot's page",
                            offset: layout.offset(header.slot.index) + 20,
                            found: header.page_crc.to_string(),
                            expected: crc.to_string(),
                        });
                    }
                }
                _ => {}
            }
            let written = opened.write(opened.headers[index], rewritten.map(Vec::as_slice));
            written.map_err(FilesError::io(path, "write a slot anew"))?;
        }
        let written = opened.file.write_all_at(&layout.header(), 0);
        let durable = written.and_then(|()| opened.file.sync_all(SyncPoint::OpenNvram));
        durable.map_err(FilesError::io(path, "make it durable"))?;
        Ok((opened, nvram))
    }

    /// Finds the newest step, and undoes it if it is a free that was torn. Should that be torn as
    /// well, what is left of the step is undone the next time.
    fn undo_torn_free(&mut self, path: &Path) -> Result<(), FilesError> {
        self.sequence = self.headers.iter().map(|header| header.sequence).max().unwrap_or(0);
        if self.sequence == 0 {
            return Ok(());
        }
        let layout = self.layout;
        let mut newest: Vec<_> = self.headers.iter_mut().filter(|header| header.sequence == self.sequence).collect();
        let found = newest.len() as u32;
        for header in &mut newest {
            // Only frees write several.
            if header.together < found || header.together > 1 && !header.is_freed() {
                return Err(FilesError::Field {
                    path: path.to_owned(),
                    field: "the number of headers of a step",
                    offset: layout.offset(header.slot.index) + 48,
                    found: header.together.to_string(),
                    expected: found.to_string(),
                });
            }
            if header.together > found {
                **header = header.undone();
            }
        }
        Ok(())
    }

    /// Puts a tag, and a page if there is one, into a free slot, durably.
    pub(super) fn put(&mut self, slot: NvSlot, tag: Tag, page: Option<&[u8]>) -> io::Result<()> {
        self.sequence += 1;
        let state = if page.is_some() { TAG_AND_PAGE } else { TAG };
        let page_crc = page.map_or(0, crc32c::crc32c);
        let header = Header { sequence: self.sequence, slot, state, tag, page_crc, together: 1, put_by: 0 };
        self.write(header, page)?;
        self.file.sync_data(SyncPoint::Put)
    }

    /// Frees slots in use, all of them or none, durably.
    pub(super) fn free(&mut self, slots: &[NvSlot]) -> io::Result<()> {
        if slots.is_empty() {
            return Ok(());
        }
        self.sequence += 1;
        for slot in slots {
            let header = self.headers[usize::from(slot.index)];
            debug_assert!(header.slot == *slot && !header.is_freed(), "{slot:?} is in use");
            self.write(header.freed(self.sequence, slots.len() as u32), None)?;
        }
        self.file.sync_data(SyncPoint::Free)
    }

    /// Writes a slot's header, and a page behind it if there is one.
    fn write(&mut self, header: Header, page: Option<&[u8]>) -> io::Result<()> {
        self.image.clear();
        self.image.extend_from_slice(&header.encode());
        self.image.extend_from_slice(page.unwrap_or_default());
        self.headers[usize::from(header.slot.index)] = header;
        self.file.write_all_at(&self.image, self.layout.offset(header.slot.index))
    }

    /// Makes the file durable as a whole, its size too.
    pub(super) fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all(SyncPoint::CreateNvram)
    }
}
