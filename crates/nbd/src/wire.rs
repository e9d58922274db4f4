//! The protocol's numbers, and reading and writing them: everything is in network byte order.
//!
//! Names are those of the protocol without its prefixes; `option::GO` is its `NBD_OPT_GO`.

/// The first eight bytes that a server sends.
pub const SERVER_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// The second eight, if it negotiates in the newer style; also before each option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Before each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Before each request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Before each simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Before each chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Bytes of a request, without the payload of a write.
pub const REQUEST_BYTES: usize = 28;
/// Bytes that a string may have.
pub const STRING_BYTES: usize = 4096;
/// Zeroes after the reply to `EXPORT_NAME`, unless both sides do without.
pub const PADDING_BYTES: usize = 124;
/// A payload up to here is no attack, whatever maximum was agreed on.
pub const HARMLESS_PAYLOAD: u32 = 1 << 25;
/// Extents that one chunk of a block status may have.
pub const EXTENTS: u32 = 1 << 20;

/// Lists the flags of a server in the negotiation.
pub mod handshake {
    /// Is set if the server answers options.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// Is set if the server can leave out the zeroes after the reply to `EXPORT_NAME`.
    pub const NO_ZEROES: u16 = 2;
}

/// Lists the flags of a client in the negotiation.
pub mod client_flag {
    /// Is set if the client understands answers to options.
    pub const FIXED_NEWSTYLE: u32 = 1;
    /// Is set if the client expects no zeroes after the reply to `EXPORT_NAME`.
    pub const NO_ZEROES: u32 = 2;
}

/// Options of the negotiation.
#[expect(missing_docs, reason = "they are the protocol's, which says what they are")]
pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Replies to options.
#[expect(missing_docs, reason = "they are the protocol's, which says what they are")]
pub mod option_reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    /// Set in those that are errors.
    pub const ERROR: u32 = 1 << 31;
    pub const ERR_UNSUP: u32 = ERROR + 1;
    pub const ERR_POLICY: u32 = ERROR + 2;
    pub const ERR_INVALID: u32 = ERROR + 3;
    pub const ERR_PLATFORM: u32 = ERROR + 4;
    pub const ERR_TLS_REQD: u32 = ERROR + 5;
    pub const ERR_UNKNOWN: u32 = ERROR + 6;
    pub const ERR_SHUTDOWN: u32 = ERROR + 7;
    pub const ERR_BLOCK_SIZE_REQD: u32 = ERROR + 8;
    pub const ERR_TOO_BIG: u32 = ERROR + 9;
}

/// Lists the kinds of information about an export.
#[expect(missing_docs, reason = "they are the protocol's, which says what they are")]
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Flags of an export.
#[expect(missing_docs, reason = "they are the protocol's, which says what they are")]
pub mod transmission {
    pub const HAS_FLAGS: u16 = 1;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const ROTATIONAL: u16 = 1 << 4;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_CACHE: u16 = 1 << 10;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Types of requests.
#[expect(missing_docs, reason = "they are the protocol's, which says what they are")]
pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests.
#[expect(missing_docs, reason = "they are the protocol's, which says what they are")]
pub mod command_flag {
    pub const FUA: u16 = 1;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Types of chunks, and their flag.
#[expect(missing_docs, reason = "they are the protocol's, which says what they are")]
pub mod chunk {
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const OFFSET_HOLE: u16 = 2;
    pub const BLOCK_STATUS: u16 = 5;
    /// Set in types that are errors.
    pub const ERROR_BIT: u16 = 1 << 15;
    pub const ERROR: u16 = ERROR_BIT + 1;
    pub const ERROR_OFFSET: u16 = ERROR_BIT + 2;
    /// The flag of the last chunk of a reply.
    pub const DONE: u16 = 1;
}

/// Status in the context `base:allocation`.
pub mod allocation {
    /// Not allocated.
    pub const HOLE: u32 = 1;
    /// Reads as zeroes.
    pub const ZERO: u32 = 2;
}

/// Fields that are taken from the front of bytes; none where they are too short.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WireFields<'a>(pub(crate) &'a [u8]);

impl<'a> WireFields<'a> {
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string that its length precedes.
    pub(crate) fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.bytes(len as usize)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Numbers that are appended.
pub(crate) trait PutNumbers {
    fn put16(&mut self, number: u16);
    fn put32(&mut self, number: u32);
    fn put64(&mut self, number: u64);
    /// A string after its length.
    fn put_string(&mut self, text: &[u8]);
}

impl PutNumbers for Vec<u8> {
    fn put16(&mut self, number: u16) {
        self.extend_from_slice(&number.to_be_bytes());
    }

    fn put32(&mut self, number: u32) {
        self.extend_from_slice(&number.to_be_bytes());
    }

    fn put64(&mut self, number: u64) {
        self.extend_from_slice(&number.to_be_bytes());
    }

    fn put_string(&mut self, text: &[u8]) {
        self.put32(text.len() as u32);
        self.extend_from_slice(text);
    }
}
