//! Names the bytes that a step takes and puts. Policies see names of buffers, never bytes.

use crate::{ByteList, FragId};

/// Bytes of one or more consecutive pages, by name; how many is said by the step that uses it.
///
/// `Host` bytes stay where they are until the fragment is acknowledged and all its operations are
/// done. `Tmp` buffers and `Kept` bytes belong to their operation and end with it. `Nv` bytes belong to the
/// executor, the choice of slots to the controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Buf {
    /// Nowhere: a parity page that is not wanted.
    #[default]
    None,
    /// Pages of zeros; only to be read.
    Zero,
    /// The host's bytes of a fragment from this page of the fragment on. Of a fragment smaller than
    /// a page, its sectors.
    Host {
        /// Whose bytes.
        frag: FragId,
        /// Page in the fragment.
        page: u16,
    },
    /// A buffer of the operation, from [`Out::tmp`](crate::Out::tmp).
    Tmp {
        /// Numbers the buffer among those of the operation.
        id: u8,
        /// Page in the buffer.
        page: u16,
    },
    /// The bytes kept in a slot of the NVRAM, or of [memory](NvSlot::is_in_memory).
    Nv(NvSlot),
    /// Names bytes that the controller [keeps](crate::Out::bytes) with the operation; only to be put into a slot.
    Kept(ByteList),
}

/// A slot of the NVRAM with room for a page, together with how often it had been put when it was
/// taken: a slot number alone could name what another use of the slot put there since. Some are slots of
/// memory instead, which [`Step::Hold`](crate::Step::Hold) puts and frees; what they hold ends with the power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NvSlot {
    /// Place in the NVRAM.
    pub index: u32,
    /// Uses of the slot before this one.
    pub generation: u32,
}

impl NvSlot {
    /// The first slot of memory; those of the NVRAM come before it.
    pub const FIRST_IN_MEMORY: u32 = 1 << 31;
    /// Numbers the first slot of memory for the pages of [recent rows](Self::is_of_row); the others come before it.
    pub const FIRST_OF_ROWS: u32 = 3 << 30;

    /// Returns true if the slot is one of memory, and not of the NVRAM.
    pub const fn is_in_memory(self) -> bool {
        self.index >= Self::FIRST_IN_MEMORY
    }

    /// Returns true if it is a slot of memory that holds a page of a row as its member has it: the array's, and not that of
    /// a cache in front of it.
    pub const fn is_of_row(self) -> bool {
        self.index >= Self::FIRST_OF_ROWS
    }

    /// Returns the slot's place among the slots of its kind, from 0 on.
    pub const fn place(self) -> usize {
        // Each kind of slot has a range of numbers of its own, so a step names any of them in 32 bits.
        let first = match self.index {
            ..Self::FIRST_IN_MEMORY => 0,
            Self::FIRST_IN_MEMORY..Self::FIRST_OF_ROWS => Self::FIRST_IN_MEMORY,
            Self::FIRST_OF_ROWS.. => Self::FIRST_OF_ROWS,
        };
        (self.index - first) as usize
    }
}

/// Describes the bytes of a slot of the NVRAM; durable in one piece with them. The controller chooses its content.
pub type Tag = [u8; 24];

/// Puts a tag, and up to a page of bytes, into a slot of the NVRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvPut {
    /// A free slot.
    pub slot: NvSlot,
    /// Holds the tag, which becomes durable together with the bytes.
    pub tag: Tag,
    /// The bytes, from the beginning of a buffer; [`Buf::None`] if there are none.
    pub src: Buf,
    /// Counts the bytes, at most a page. The NVRAM's journal stores so many and no more.
    pub len: u32,
}

/// A slot of the NVRAM that was in use when a life began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvHeld<'a> {
    /// The slot.
    pub slot: NvSlot,
    /// Holds the tag that was put with the bytes.
    pub tag: Tag,
    /// Holds the slot's bytes. The controller checks that there are as many as the tag promises.
    pub bytes: &'a [u8],
    /// Tells that its bytes are damaged and nobody knows what they were. What it says is right.
    pub is_damaged: bool,
}

impl NvHeld<'_> {
    /// Counts its bytes.
    pub const fn len(&self) -> u32 {
        self.bytes.len() as u32
    }

    /// Returns true if it has a tag alone.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl NvPut {
    /// A tag alone.
    pub const fn tag(slot: NvSlot, tag: Tag) -> Self {
        Self { slot, tag, src: Buf::None, len: 0 }
    }

    /// A tag, and a page of so many bytes.
    pub const fn page(slot: NvSlot, tag: Tag, src: Buf, bytes: u32) -> Self {
        Self { slot, tag, src, len: bytes }
    }
}

/// So many bytes of a buffer from one of them on: a delta, which is shorter than a page and may lie
/// in one with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Names the buffer.
    pub buf: Buf,
    /// The first byte.
    pub offset: u32,
    /// Counts the bytes.
    pub len: u32,
}

/// Sectors of a page: a range, since a request covers a page from somewhere to somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sectors {
    /// First sector in the page.
    pub first: u8,
    /// Counts the sectors, at least 1.
    pub count: u8,
}
