//! Holds the results of the negotiation, and checks requests against them.

use thiserror::Error;

use crate::errno::Errno;
use crate::export::{BlockSizes, ExportFeatures, NbdExport};
use crate::request::{NbdCommand, NbdRequest, RequestHead};
use crate::wire::{HARMLESS_PAYLOAD, command_flag};

/// Holds the results of the negotiation. It is small and can be copied to whoever answers requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NbdSession {
    /// The number of the export among all.
    pub export: usize,
    /// Counts the bytes of the export.
    pub size: u64,
    /// Lists the features; a read-only export has none that change it.
    pub features: ExportFeatures,
    /// In which sizes.
    pub blocks: BlockSizes,
    /// Replies are structured.
    pub structured: bool,
    /// A bit for each of the export's contexts that was chosen.
    pub(crate) contexts: u32,
}

/// Why a request is refused. The connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RequestRefusal {
    /// Tells that the type is unknown.
    #[error("requests of type {0} are unknown")]
    Unknown(u16),
    /// Tells that the feature is not offered.
    #[error("a {} is not offered", .0.name())]
    NotOffered(NbdCommand),
    /// Flags that it cannot have, or that were not offered.
    #[error("a {} cannot have the flags {flags:#x}", .command.name())]
    Flags {
        /// Names the kind of request.
        command: NbdCommand,
        /// The flags that are too many.
        flags: u16,
    },
    /// Tells that the request would change a read-only export.
    #[error("a {} of an export that is read-only", .0.name())]
    ReadOnly(NbdCommand),
    /// No context was chosen.
    #[error("a block status without a context having been chosen")]
    NoContext,
    /// Tells that the request has no bytes.
    #[error("a {} of no bytes", .0.name())]
    Empty(NbdCommand),
    /// A flush is about everything.
    #[error("a flush with an offset or a length")]
    FlushOfSome,
    /// Tells that the request ends beyond the export.
    #[error("a {} of {length} bytes at {offset} ends beyond the export's {size} bytes", .command.name())]
    Beyond {
        /// Names the kind of request.
        command: NbdCommand,
        /// Holds the first byte.
        offset: u64,
        /// Counts the bytes.
        length: u32,
        /// The export's size in bytes.
        size: u64,
    },
    /// Tells that the request is not aligned.
    #[error("a {} of {length} bytes at {offset} is not aligned to blocks of {minimum} bytes", .command.name())]
    Unaligned {
        /// Names the kind of request.
        command: NbdCommand,
        /// Holds the first byte.
        offset: u64,
        /// Counts the bytes.
        length: u32,
        /// Bytes of a block.
        minimum: u32,
    },
    /// A payload is too long.
    #[error("a {} of {length} bytes is longer than {maximum} bytes", .command.name())]
    TooLong {
        /// Names the kind of request.
        command: NbdCommand,
        /// Counts the bytes.
        length: u32,
        /// Bytes that are allowed.
        maximum: u32,
        /// The client could know what to do about it.
        structured: bool,
    },
    /// The server is being shut down.
    #[error("the server is being shut down")]
    Shutdown,
}

impl RequestRefusal {
    /// Returns the error that the client is told.
    pub const fn errno(&self) -> Errno {
        match self {
            // The protocol names the error of each case: EPERM, ENOSPC, EOVERFLOW, ESHUTDOWN, and EINVAL for the
            // rest.
            Self::ReadOnly(_) => Errno::Perm,
            Self::Beyond { command: NbdCommand::Write | NbdCommand::WriteZeroes { .. }, .. } => Errno::NoSpc,
            Self::TooLong { command: NbdCommand::Read { .. }, structured: true, .. } => Errno::Overflow,
            Self::Shutdown => Errno::Shutdown,
            _ => Errno::Inval,
        }
    }
}

impl NbdSession {
    pub(crate) fn new(number: usize, export: &NbdExport, structured: bool, contexts: u32) -> Self {
        Self {
            export: number,
            size: export.size,
            features: export.features.effective(),
            blocks: export.blocks,
            structured,
            contexts,
        }
    }

    /// The numbers, among the export's contexts, of those that the client chose: a block status is
    /// answered with one chunk for each.
    pub fn contexts(&self) -> impl Iterator<Item = usize> + use<> {
        let chosen = self.contexts;
        (0..u32::BITS as usize).filter(move |at| chosen >> at & 1 == 1)
    }

    /// Bytes of a payload that are still received, if only to be dropped. One that is longer is
    /// taken for an attack.
    pub(crate) fn longest_payload(&self) -> u32 {
        self.blocks.maximum.max(HARMLESS_PAYLOAD)
    }

    /// The request that stands there, if it is one that may be made.
    #[inline]
    pub fn check(&self, head: &RequestHead) -> Result<NbdRequest, RequestRefusal> {
        let Some((command, own_flags)) = head.command() else { return Err(RequestRefusal::Unknown(head.kind)) };
        let RequestHead { offset, length, .. } = *head;
        let features = self.features;
        // Before the features, so the client hears of the true reason.
        if features.read_only && command.writes() {
            return Err(RequestRefusal::ReadOnly(command));
        }
        let offered = match command {
            NbdCommand::BlockStatus { .. } if self.contexts == 0 => return Err(RequestRefusal::NoContext),
            NbdCommand::Read { .. } | NbdCommand::Write | NbdCommand::BlockStatus { .. } => true,
            NbdCommand::Flush => features.flush,
            NbdCommand::Trim => features.trim,
            NbdCommand::Cache => features.cache,
            NbdCommand::WriteZeroes { .. } => features.write_zeroes,
        };
        if !offered {
            return Err(RequestRefusal::NotOffered(command));
        }
        let mut allowed = own_flags;
        if features.fua {
            allowed |= command_flag::FUA;
        }
        if !self.structured {
            allowed &= !command_flag::DF;
        }
        if !features.fast_zero {
            allowed &= !command_flag::FAST_ZERO;
        }
        if head.flags & !allowed != 0 {
            return Err(RequestRefusal::Flags { command, flags: head.flags & !allowed });
        }
        if command == NbdCommand::Flush {
            if (offset, length) != (0, 0) {
                return Err(RequestRefusal::FlushOfSome);
            }
        } else {
            self.check_range(command, offset, length)?;
        }
        let fua = head.flags & command_flag::FUA != 0;
        Ok(NbdRequest { cookie: head.cookie, command, fua, offset, length })
    }

    #[inline]
    fn check_range(&self, command: NbdCommand, offset: u64, length: u32) -> Result<(), RequestRefusal> {
        let BlockSizes { minimum, maximum, .. } = self.blocks;
        if length == 0 {
            // The protocol leaves requests of no bytes undefined, so nothing relies on them.
            return Err(RequestRefusal::Empty(command));
        }
        if offset.checked_add(u64::from(length)).is_none_or(|end| end > self.size) {
            return Err(RequestRefusal::Beyond { command, offset, length, size: self.size });
        }
        // The minimum is a power of two, so a mask finds partial blocks.
        if (offset | u64::from(length)) & u64::from(minimum - 1) != 0 {
            return Err(RequestRefusal::Unaligned { command, offset, length, minimum });
        }
        // Only payloads are limited: a trim of the whole export moves no data.
        if length > maximum && matches!(command, NbdCommand::Read { .. } | NbdCommand::Write) {
            return Err(RequestRefusal::TooLong { command, length, maximum, structured: self.structured });
        }
        Ok(())
    }
}
