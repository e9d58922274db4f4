//! Makes parts of block devices read as zeros, by the fastest of what a device and the kernel have for that.

use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use rustix::io::Errno;

use super::file::OsFile;
use crate::buffer::AlignedBuffer;

/// Limits the bytes that are made zeros at a time: how far it is can be told often, and an end that is asked for comes soon.
const PIECE: u64 = 64 << 20;
/// Limits the bytes of a write of zeros.
const WRITE: usize = 1 << 20;

/// Names a way to make zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZeroingMethod {
    /// Uses a command of the device, which may give back what held the data.
    Hole,
    /// Uses a command of the device, or writes of the kernel's.
    Range,
    /// Writes zeros.
    Writes,
}

/// Makes a range of a block device read as zeros, a piece at a time, and tells how many bytes do after each of them.
/// `direct` opens the device once more, to be written directly; it is asked if zeros have to be written, and zeros are
/// written to `file` if it gives none.
///
/// # Errors
/// If the device cannot be written, or `told` breaks off, which is [`io::ErrorKind::Interrupted`].
pub(crate) fn make_zeros(
    file: &dyn OsFile,
    range: Range<u64>,
    direct: impl FnOnce() -> io::Result<Option<Arc<dyn OsFile>>>,
    told: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> io::Result<()> {
    // The cheapest way first; a refusal moves on to the next one, for the rest of
    // the range too.
    let (mut method, mut direct, mut written) = (ZeroingMethod::Hole, Some(direct), None);
    let mut at = range.start;
    while at < range.end {
        let len = PIECE.min(range.end - at);
        let made = match method {
            ZeroingMethod::Hole => file.punch_hole(at, len),
            ZeroingMethod::Range => file.zero_range(at, len),
            ZeroingMethod::Writes => {
                // Opened only when it is needed, since most devices have a command.
                if let Some(direct) = direct.take() {
                    written = direct()?;
                }
                write_zeros(written.as_deref().unwrap_or(file), at..at + len)
            }
        };
        match (made, method) {
            (Err(error), ZeroingMethod::Hole) if is_refused(&error) => method = ZeroingMethod::Range,
            (Err(error), ZeroingMethod::Range) if is_refused(&error) => method = ZeroingMethod::Writes,
            (made, _) => {
                made?;
                at += len;
                if told(at - range.start).is_break() {
                    return Err(io::ErrorKind::Interrupted.into());
                }
            }
        }
    }
    Ok(())
}

/// Returns true if an error says that there is no such command for this range, and not that it failed.
fn is_refused(error: &io::Error) -> bool {
    // EBUSY, too: the kernel lets only the sole opener of a block device make
    // holes.
    matches!(Errno::from_io_error(error), Some(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::BUSY))
        || error.kind() == io::ErrorKind::Unsupported
}

fn write_zeros(file: &dyn OsFile, Range { mut start, end }: Range<u64>) -> io::Result<()> {
    // One buffer of at most 1 MiB for the whole piece.
    let zeros = AlignedBuffer::zeroed((end - start).min(WRITE as u64) as usize);
    while start < end {
        let len = (end - start).min(zeros.len() as u64);
        file.write_all_at(&zeros[..len as usize], start)?;
        start += len;
    }
    Ok(())
}
