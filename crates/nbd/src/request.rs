//! Requests: what they ask for, and their bytes.

use crate::wire::{REQUEST_BYTES, REQUEST_MAGIC, WireFields, command, command_flag};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NbdCommand {
    /// Bytes of the export.
    Read {
        /// In one piece (the flag DF).
        whole: bool,
    },
    /// Bytes to be written; they follow the request.
    Write,
    /// That everything answered before becomes durable.
    Flush,
    /// That these bytes are no longer needed.
    Trim,
    /// That these bytes be made ready to be read.
    Cache,
    /// That these bytes become zeroes.
    WriteZeroes {
        /// They have to be allocated (the flag `NO_HOLE`).
        no_hole: bool,
        /// Only if that is faster than writing them (`FAST_ZERO`); otherwise the answer is
        /// [`NotSup`](crate::Errno::NotSup), at once.
        fast: bool,
    },
    /// What is known of these bytes.
    BlockStatus {
        /// Of the first extent alone (`REQ_ONE`).
        one: bool,
    },
}

impl NbdCommand {
    /// Its type on the wire.
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

    /// Its flags on the wire.
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

    /// Whether it changes what the export holds.
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
    /// What the client knows it by; its replies bear it too. Several requests under way may have
    /// the same if the client is careless.
    pub cookie: u64,
    /// What is asked for.
    pub command: NbdCommand,
    /// It is answered only when what it writes is durable.
    pub fua: bool,
    /// The first byte; 0 for a flush.
    pub offset: u64,
    /// Bytes; 0 for a flush.
    pub length: u32,
}

impl NbdRequest {
    /// Its bytes; after a write the payload has to follow.
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
        self.offset.saturating_add(self.length as u64)
    }
}

/// A request as it stands on the wire, whatever it may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// Its flags.
    pub flags: u16,
    /// Its type.
    pub kind: u16,
    /// Its cookie.
    pub cookie: u64,
    /// Its first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u32,
}

impl RequestHead {
    /// Its bytes.
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

    /// What bytes say, or the number that stands where the magic one should.
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
            Some((magic, _)) => Err(magic),
            None => Err(0),
        }
    }

    /// What it asks for, with the flags that it may have besides FUA; none of an unknown type.
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
