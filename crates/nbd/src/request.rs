//! Requests: what they ask for, and their bytes.

use crate::wire::{REQUEST_BYTES, REQUEST_MAGIC, WireFields, command, command_flag};

/// Names the kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NbdCommand {
    /// Bytes of the export.
    Read {
        /// In one piece (the flag DF).
        whole: bool,
    },
    /// Bytes to be written; they follow the request.
    Write,
    /// Makes durable everything that was answered before.
    Flush,
    /// Tells that these bytes are no longer needed.
    Trim,
    /// Makes these bytes ready to be read.
    Cache,
    /// Writes zeroes.
    WriteZeroes {
        /// They have to be allocated (the flag `NO_HOLE`).
        no_hole: bool,
        /// Only if that is faster than writing them (`FAST_ZERO`); otherwise the answer is
        /// [`NotSup`](crate::Errno::NotSup), at once.
        fast: bool,
    },
    /// Asks for the status of these bytes.
    BlockStatus {
        /// Of the first extent alone (`REQ_ONE`).
        one: bool,
    },
}

impl NbdCommand {
    /// Returns the type on the wire.
    pub const fn number(self) -> u16 {
        match self {
            Self::Read { .. } => command::READ,
            Self::Write => command::WRITE,
            Self::Flush => command::FLUSH,
            Self::Trim => command::TRIM,
            Self::Cache => command::CACHE,
            Self::WriteZeroes { .. } => command::WRITE_ZEROES,
            Self::BlockStatus { .. } => command::BLOCK_STATUS,
        }
    }

    /// Returns the flags on the wire.
    fn flags(self) -> u16 {
        let bit = |set: bool, flag: u16| if set { flag } else { 0 };
        match self {
            Self::Read { whole } => bit(whole, command_flag::DF),
            Self::WriteZeroes { no_hole, fast } => {
                bit(no_hole, command_flag::NO_HOLE) | bit(fast, command_flag::FAST_ZERO)
            }
            Self::BlockStatus { one } => bit(one, command_flag::REQ_ONE),
            Self::Write | Self::Flush | Self::Trim | Self::Cache => 0,
        }
    }

    /// Returns true if the request changes the content of the export.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::WriteZeroes { .. })
    }

    /// A word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Trim => "trim",
            Self::Cache => "cache",
            Self::WriteZeroes { .. } => "write of zeroes",
            Self::BlockStatus { .. } => "block status",
        }
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NbdRequest {
    /// Holds the cookie by which the client knows the request; replies carry it as well. Careless clients may use one
    /// cookie for several requests in flight.
    pub cookie: u64,
    /// Names the kind of request.
    pub command: NbdCommand,
    /// Asks for an answer only once the written bytes are durable.
    pub fua: bool,
    /// The first byte; 0 for a flush.
    pub offset: u64,
    /// Bytes; 0 for a flush.
    pub length: u32,
}

impl NbdRequest {
    /// Encodes the request; the payload of a write has to follow.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let fua = if self.fua { command_flag::FUA } else { 0 };
        RequestHead {
            flags: self.command.flags() | fua,
            kind: self.command.number(),
            cookie: self.cookie,
            offset: self.offset,
            length: self.length,
        }
        .encode()
    }

    /// The byte after the last one.
    pub const fn end(&self) -> u64 {
        // Saturates, since a client may send any 64 bits: an end that wrapped could pass for one inside the export.
        self.offset.saturating_add(self.length as u64)
    }
}

/// A request as it stands on the wire, whatever it may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// Holds the flags.
    pub flags: u16,
    /// Holds the type.
    pub kind: u16,
    /// Holds the cookie.
    pub cookie: u64,
    /// Holds the first byte in the export.
    pub offset: u64,
    /// Counts the bytes.
    pub length: u32,
}

impl RequestHead {
    /// Encodes the head.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Decodes a head.
    ///
    /// # Errors
    /// If the magic number is wrong: returns the number that stands there.
    #[inline]
    pub fn decode(bytes: &[u8; REQUEST_BYTES]) -> Result<Self, u32> {
        let mut fields = WireFields(bytes);
        let mut head = || {
            let magic = fields.u32()?;
            let (flags, kind) = (fields.u16()?, fields.u16()?);
            let (cookie, offset, length) = (fields.u64()?, fields.u64()?, fields.u32()?);
            Some((magic, Self { flags, kind, cookie, offset, length }))
        };
        match head() {
            Some((REQUEST_MAGIC, head)) => Ok(head),
            // The number goes into the message, since it often shows which other protocol was spoken.
            Some((magic, _)) => Err(magic),
            None => Err(0),
        }
    }

    /// Returns the command, with the flags that it may have besides FUA; none of an unknown type.
    pub(crate) fn command(&self) -> Option<(NbdCommand, u16)> {
        let has = |flag: u16| self.flags & flag != 0;
        Some(match self.kind {
            command::READ => (NbdCommand::Read { whole: has(command_flag::DF) }, command_flag::DF),
            command::WRITE => (NbdCommand::Write, 0),
            command::FLUSH => (NbdCommand::Flush, 0),
            command::TRIM => (NbdCommand::Trim, 0),
            command::CACHE => (NbdCommand::Cache, 0),
            command::WRITE_ZEROES => {
                let (no_hole, fast) = (has(command_flag::NO_HOLE), has(command_flag::FAST_ZERO));
                (NbdCommand::WriteZeroes { no_hole, fast }, command_flag::NO_HOLE | command_flag::FAST_ZERO)
            }
            command::BLOCK_STATUS => {
                (NbdCommand::BlockStatus { one: has(command_flag::REQ_ONE) }, command_flag::REQ_ONE)
            }
            _ => return None,
        })
    }
}
