//! Which requests are refused, and how, as the protocol's text has it: told once more, from the
//! export and the numbers of a request alone.

use destage_nbd::{Command, Errno, Export, Request};

pub fn errno(export: &Export, structured: bool, contexts: usize, request: &Request) -> Option<Errno> {
    let Request { command, fua, offset, length, .. } = *request;
    let features = export.features;
    let changes = matches!(command, Command::Write | Command::Trim | Command::WriteZeroes { .. });
    if changes && features.read_only {
        return Some(Errno::Perm);
    }
    let invalid = match command {
        Command::Read { whole } => whole && !structured,
        Command::Write => false,
        Command::Flush => !features.flush || offset != 0 || length != 0,
        Command::Trim => !features.trim,
        Command::Cache => !features.cache,
        Command::WriteZeroes { fast, .. } => !features.write_zeroes || fast && !features.fast_zero,
        Command::BlockStatus { .. } => contexts == 0,
    };
    if invalid || fua && !features.fua || command != Command::Flush && length == 0 {
        return Some(Errno::Inval);
    }
    if u128::from(offset) + u128::from(length) > u128::from(export.size) {
        let writes = matches!(command, Command::Write | Command::WriteZeroes { .. });
        return Some(if writes { Errno::NoSpc } else { Errno::Inval });
    }
    let block = u64::from(export.blocks.minimum);
    (offset % block != 0 || u64::from(length) % block != 0).then_some(Errno::Inval)
}
