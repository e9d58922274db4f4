//! Copies of the write-intent bitmap as a start finds them on members and writes them there.

use std::io;
use std::sync::Arc;

use destage_plan::Condition;

use crate::files::bitmap::WriteIntentBitmap;
use crate::files::config::{FilesConfig, MAX_DEVICES};
use crate::files::error::FilesError;
use crate::files::io::file::{OsFile, SyncPoint};
use crate::files::layout::bitmap::{BitmapCopy, BitmapHead, decode};
use crate::files::layout::label::ArrayOrigin;

/// Names the attempt in errors.
pub(super) const MARK: &str = "mark its rows";

/// Returns what members say beside their marks at a start.
pub(super) const fn head(
    origin: ArrayOrigin,
    generations: &[u32; MAX_DEVICES],
    epoch: u32,
    condition: Condition,
) -> BitmapHead {
    // `holds` is true until the controller says otherwise: a start without the
    // NVRAM has to ask.
    BitmapHead { drawn: origin.drawn, epoch, holds: true, condition, generations: *generations }
}

/// Writes a member's marks of a start; not durable yet.
pub(super) fn write_marks(
    file: &dyn OsFile,
    config: &FilesConfig,
    dev: usize,
    marks: &WriteIntentBitmap,
) -> io::Result<()> {
    file.write_all_at(&marks.first_write(), config.marks_offset(dev) + marks.place())
}

/// The newest copy that a device has; the inner error if it cannot be read.
pub(super) fn newest_on(
    file: &dyn OsFile,
    config: &FilesConfig,
    dev: usize,
) -> Result<io::Result<Option<BitmapCopy>>, FilesError> {
    let layout = config.bitmap_layout();
    let mut newest: Option<BitmapCopy> = None;
    let mut copy = vec![0; layout.copy as usize];
    // Both copies are read: the one that was being written may be torn, and the
    // other is older but whole.
    for number in 0..2 {
        let offset = config.marks_offset(dev) + number * u64::from(layout.copy);
        if let Err(error) = file.read_exact_at(&mut copy, offset) {
            return Ok(Err(error));
        }
        let Some(found) = decode(layout, &config.devices[dev].path, offset, &copy)? else { continue };
        if newest.as_ref().is_none_or(|newest| newest.sequence < found.sequence) {
            newest = Some(found);
        }
    }
    Ok(Ok(newest))
}

/// The newest marks of the members among these files that are the array's. One that cannot be read counts as not there.
pub(super) fn newest_marks(
    devices: &mut [io::Result<Arc<dyn OsFile>>],
    config: &FilesConfig,
    drawn: [u8; 16],
) -> Result<Option<BitmapCopy>, FilesError> {
    let mut newest: Option<BitmapCopy> = None;
    for (dev, device) in devices.iter_mut().enumerate().take(config.members) {
        let Ok(file) = device else { continue };
        match newest_on(&**file, config, dev)? {
            // The array goes on without a member that does not give its marks.
            Err(error) => *device = Err(error),
            Ok(Some(found))
                // Marks of another array would name rows at random.
                if found.head.drawn == drawn && newest.as_ref().is_none_or(|newest| newest.is_before(&found)) =>
            {
                newest = Some(found);
            }
            Ok(_) => {}
        }
    }
    Ok(newest)
}

/// Writes the marks to all members, durably. A member that cannot be written counts as missing.
pub(super) fn mark_all(devices: &mut [io::Result<Arc<dyn OsFile>>], config: &FilesConfig, marks: &WriteIntentBitmap) {
    for (dev, device) in devices.iter_mut().enumerate().take(config.members) {
        let Ok(file) = device else { continue };
        let marked = write_marks(&**file, config, dev, marks).and_then(|()| file.sync_data(SyncPoint::OpenMarks));
        if let Err(error) = marked {
            *device = Err(error);
        }
    }
}
