//! The NVRAM in a file: slots with a tag and a page.
//!
//! A slot is put with one write of its header and page and one fdatasync; the page's checksum is in
//! the header, so a torn put is found. Slots are freed by writing their headers. Every step carries
//! the next sequence number and is durable before the next one begins, so at most the newest step
//! can be torn: a page that does not match is a torn put, and its slot free, if the slot is the
//! newest; else it is damaged, and an error. A header is a sector ([`sectors`]), is never torn, and
//! is damaged if it does not match its checksum.
//!
//! ```text
//! sector 0                                  slot s, at 512 + s · (512 + page rounded up to sectors)
//!   0   8  "dstgNVRM"                         0   4  "slot"
//!   8   4  version, 1                         4   2  s
//!  12   4  bytes of a sector, 512             6   2  state: 0 free, 1 tag, 2 tag and page
//!  16   8  number of the array                8   8  sequence number of the step that wrote the header
//!  24   4  bytes of a page                   16   4  generation
//!  28   4  slots                             20   4  CRC-32C of the page, 0 if there is none
//!  32   4  devices                           24  24  tag, zeros if free
//!  36 472  0                                 48 460  0
//! 508   4  CRC-32C of bytes 0 .. 508        508   4  CRC-32C of bytes 0 .. 508
//!                                           512      the page
//! ```

use std::io;
use std::path::Path;
use std::sync::Arc;

use destage_plan::{NvSlot, Tag};

use super::FilesError;
use super::os::{OsFile, SyncPoint};
use super::sectors::{self, Reader, SECTOR, Sector, put, seal};
use crate::{Nvram, Page};

const MAGIC: [u8; 8] = *b"dstgNVRM";
const VERSION: u32 = 1;
const SLOT: [u8; 4] = *b"slot";
const FREE: u16 = 0;
const TAG: u16 = 1;
const TAG_AND_PAGE: u16 = 2;

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
struct Header {
    sequence: u64,
    slot: NvSlot,
    state: u16,
    tag: Tag,
    page_crc: u32,
}

impl Header {
    const fn free(index: u16, generation: u32, sequence: u64) -> Self {
        Self { sequence, slot: NvSlot { index, generation }, state: FREE, tag: [0; 24], page_crc: 0 }
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
        seal(&mut sector);
        sector
    }

    fn decode(reader: &Reader<'_>, sector: &Sector, index: u16) -> Result<Self, FilesError> {
        reader.crc("the CRC-32C of a slot's header")?;
        reader.exactly("the mark of a slot", 0, reader.u32(0), u32::from_le_bytes(SLOT))?;
        reader.exactly("the number of a slot", 4, reader.u16(4), index)?;
        let state = reader.u16(6);
        if state > TAG_AND_PAGE {
            return Err(reader.wrong("the state of a slot", 6, state, "0, 1 or 2"));
        }
        reader.zeros(48)?;
        let tag = sector[24..48].try_into().expect("twenty-four bytes");
        let slot = NvSlot { index, generation: reader.u32(16) };
        Ok(Self { sequence: reader.u64(8), slot, state, tag, page_crc: reader.u32(20) })
    }
}

/// The file.
pub(super) struct NvramFile {
    file: Arc<dyn OsFile>,
    layout: Layout,
    /// Of the newest step.
    sequence: u64,
    /// A slot as it will be written.
    image: Vec<u8>,
}

impl NvramFile {
    /// Fills a new file: all slots are free. The header is written last; not durable yet.
    pub(super) fn create(file: Arc<dyn OsFile>, layout: Layout) -> io::Result<Self> {
        for index in 0..layout.slots {
            let header = Header::free(index as u16, 0, 0).encode();
            file.write_all_at(&header, layout.offset(index as u16))?;
        }
        file.write_all_at(&layout.header(), 0)?;
        Ok(Self { file, layout, sequence: 0, image: Vec::new() })
    }

    /// Reads a file that is so long, and what is in its slots. A put that was torn is made undone,
    /// durably.
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
        let newest = headers.iter().map(|header| header.sequence).max().unwrap_or(0);
        let mut nvram = Nvram::default();
        let mut page = vec![0; layout.page_bytes as usize];
        let mut torn = None;
        for header in &headers {
            match header.state {
                FREE => {}
                TAG => nvram.put(header.slot, header.tag, Page::None),
                _ => {
                    let offset = layout.offset(header.slot.index) + SECTOR as u64;
                    file.read_exact_at(&mut page, offset).map_err(FilesError::io(path, "read the page of a slot"))?;
                    let crc = crc32c::crc32c(&page);
                    if crc == header.page_crc {
                        nvram.put(header.slot, header.tag, Page::Bytes(&page));
                    } else if header.sequence == newest {
                        torn = Some(header.slot);
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
            }
        }
        let mut opened = Self { file, layout, sequence: newest, image: Vec::new() };
        if let Some(slot) = torn {
            opened.free(&[slot]).map_err(FilesError::io(path, "free a slot whose put was torn"))?;
        }
        Ok((opened, nvram))
    }

    /// Puts a tag, and a page if there is one, into a free slot, durably.
    pub(super) fn put(&mut self, slot: NvSlot, tag: Tag, page: Option<&[u8]>) -> io::Result<()> {
        self.sequence += 1;
        let state = if page.is_some() { TAG_AND_PAGE } else { TAG };
        let page_crc = page.map_or(0, crc32c::crc32c);
        let header = Header { sequence: self.sequence, slot, state, tag, page_crc };
        self.image.clear();
        self.image.extend_from_slice(&header.encode());
        self.image.extend_from_slice(page.unwrap_or_default());
        self.file.write_all_at(&self.image, self.layout.offset(slot.index))?;
        self.file.sync_data(SyncPoint::Put)
    }

    /// Frees slots, durably.
    pub(super) fn free(&mut self, slots: &[NvSlot]) -> io::Result<()> {
        self.sequence += 1;
        for slot in slots {
            let header = Header::free(slot.index, slot.generation, self.sequence).encode();
            self.file.write_all_at(&header, self.layout.offset(slot.index))?;
        }
        self.file.sync_data(SyncPoint::Free)
    }

    /// Makes the file durable as a whole, its size too.
    pub(super) fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all(SyncPoint::CreateNvram)
    }
}
