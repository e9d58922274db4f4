//! Predicts which requests are refused, and how, by the protocol's text.
//!
//! The rules are written once more here, from the export and the numbers of a request alone.

use destage_nbd::{Errno, NbdCommand, NbdExport, NbdRequest};

pub fn errno(export: &NbdExport, structured: bool, contexts: usize, request: &NbdRequest) -> Option<Errno> {
    let NbdRequest { command, fua, offset, length, .. } = *request;
    let features = export.features;
    let changes = matches!(command, NbdCommand::Write | NbdCommand::Trim | NbdCommand::WriteZeroes { .. });
    if changes && features.read_only {
        return Some(Errno::Perm);
    }
    let invalid = match command {
        NbdCommand::Read { whole } => whole && !structured,
        NbdCommand::Write => false,
        NbdCommand::Flush => !features.flush || offset != 0 || length != 0,
        NbdCommand::Trim => !features.trim,
        NbdCommand::Cache => !features.cache,
        NbdCommand::WriteZeroes { fast, .. } => !features.write_zeroes || fast && !features.fast_zero,
        NbdCommand::BlockStatus { .. } => contexts == 0,
    };
    if invalid || fua && !features.fua || command != NbdCommand::Flush && length == 0 {
        return Some(Errno::Inval);
    }
    if u128::from(offset) + u128::from(length) > u128::from(export.size) {
        let writes = matches!(command, NbdCommand::Write | NbdCommand::WriteZeroes { .. });
        return Some(if writes { Errno::NoSpc } else { Errno::Inval });
    }
    let block = u64::from(export.blocks.minimum);
    (offset % block != 0 || u64::from(length) % block != 0).then_some(Errno::Inval)
}
