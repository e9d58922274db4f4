//! Making the intents anew whose file is missing or has a damaged header, where the NVRAM is there: it keeps all that it has.
//!
//! The members' marks say all that the intents do: which file is which device's, and which rows may be inconsistent, though
//! of these in larger groups. The NVRAM says of what time it is, so that older marks are not taken for the array's.

use std::sync::Arc;

use super::bitmap::newest_marks;
use super::devices::{FoundSizes, open_device};
use super::event_count::member_counts;
use super::identify::{FileIdentities, lock, make_file, open_file};
use super::nvram_place::{at_home, nvram_is_there};
use super::opened::DamagedIntents;
use super::prepare::make_intents;
use crate::files::config::{ExistingFiles, FilesConfig};
use crate::files::error::FilesError;
use crate::files::io::metadata::length;
use crate::files::io::os::OsInterface;
use crate::files::io::state_file::StateFile;
use crate::files::layout::bitmap::BitmapCopy;
use crate::files::layout::event_count::EventCount;
use crate::files::layout::label::ArrayOrigin;
use crate::files::nvram::journal::read_headers;
use crate::files::nvram::region::FileRegion;

/// Makes the intents anew that cannot be read, with what the members have marked; what is to be told of that. Nothing is done,
/// and nothing told, if the NVRAM is missing, damaged, or not of the same time as the marks.
pub(super) fn mend_intents(
    os: &dyn OsInterface,
    config: &FilesConfig,
    why: &FilesError,
) -> Result<Option<DamagedIntents>, FilesError> {
    // Without the NVRAM the intents cannot be mended: marks alone do not tell what
    // it held.
    if !nvram_is_there(os, config)? {
        return Ok(None);
    }
    let (mut files, mut sizes) = (FileIdentities::default(), FoundSizes::default());
    let mut devices = Vec::with_capacity(config.devices.len());
    for dev in 0..config.devices.len() {
        devices.push(open_device(os, config, dev, (&mut files, &mut sizes), (false, false))?);
    }
    sizes.check()?;
    let path = config.nvram_path();
    let nvram = match config.own_nvram() {
        None => at_home(os, config, &devices)?.file,
        Some(path) => {
            let Ok(file) = open_file(os, path)? else { return Ok(None) };
            let file = FileRegion::whole(file, config, path)?;
            lock(&*file, path)?;
            file
        }
    };
    let nvram_bytes = length(&*nvram, path)?;
    let header = match read_headers(&*nvram, path, nvram_bytes, &config.journal_layout()) {
        Err(FilesError::DamagedNvram { .. }) => return Ok(None),
        header => header?,
    };
    // Marks of another time may lack rows that are inconsistent.
    let Some(BitmapCopy { head, rows, .. }) = newest_marks(&mut devices, config, header.epoch.drawn)? else {
        return Ok(None);
    };
    let origin = ArrayOrigin { array: config.array, drawn: head.drawn };
    let counts = member_counts(config, origin, &head.generations, &devices);
    let number = header.bounds.event_count;
    let is_of_one_time = counts.iter().max().is_some_and(|newest| newest.is_of(number));
    // Older marks would leave rows without an intent that have one. Then the array
    // has to be resynchronised instead.
    if head.epoch != header.epoch.epoch || !is_of_one_time {
        return Ok(None);
    }
    // Only now is the old file overwritten: everything that may refuse has been
    // asked.
    let file = make_file(os, &config.intents, ExistingFiles::Overwrite)?;
    lock(&*file, &config.intents)?;
    make_intents(
        Arc::new(StateFile::new(file)),
        config,
        origin,
        &rows,
        (head.epoch, EventCount::settled(number), &head.generations),
    )?;
    let marked = rows.iter().count() as u64;
    Ok(Some(DamagedIntents { errors: vec![why.to_string()], rows: marked, of: config.rows }))
}
