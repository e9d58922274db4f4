//! The files of an array, open.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::files::bitmap::WriteIntentBitmap;
use crate::files::error::FilesError;
use crate::files::io::file::{FileIdentity, OsFile};
use crate::files::io::state_file::StateFile;
use crate::files::layout::bad_page_list::BadPageList;
use crate::files::layout::roster::MemberRoster;
use crate::files::nvram::region::FileRegion;
use crate::files::nvram::store::StateStore;
use crate::nvram::MemoryNvram;

/// Reports how an array went on whose NVRAM or intents were lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayResync {
    /// The files that were lost. Both were made anew.
    pub lost: Vec<PathBuf>,
    /// Is true if these were there, and were older copies.
    pub is_behind: bool,
    /// Rows that were marked, and are made consistent.
    pub rows: u64,
    /// Counts these marks.
    pub marks: u64,
    /// All rows.
    pub of: u64,
    /// Is true if the NVRAM, or a cache's device, may have had the only copy of something.
    pub data_lost: bool,
}

/// Reports damage of the intents, with which an array was opened all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedIntents {
    /// Says what is wrong with each damaged sector.
    pub errors: Vec<String>,
    /// Counts the rows that are made consistent: those with open intents, and those of damaged sectors that members have
    /// marked.
    pub rows: u64,
    /// All rows.
    pub of: u64,
}

/// Reports damage of the NVRAM, with which an array was opened all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedNvram {
    /// Says what is wrong with each damaged record or header, of the first few.
    pub errors: Vec<String>,
    /// Counts the slots whose bytes are damaged: what the controller does not need of these costs nothing.
    pub slots: u64,
}

impl DamagedNvram {
    /// Makes the report; none if nothing is damaged.
    pub(super) fn of(errors: &[FilesError], found: &MemoryNvram) -> Option<Self> {
        let slots = found.slots().filter(|held| held.is_damaged).count() as u64;
        (!errors.is_empty()).then(|| Self { errors: errors.iter().map(ToString::to_string).collect(), slots })
    }
}

/// The files of an array, open.
pub(crate) struct OpenedArray {
    /// A file for each device; the error if it does not answer.
    pub(crate) devices: Vec<io::Result<Arc<dyn OsFile>>>,
    pub(crate) store: StateStore,
    pub(crate) roster: MemberRoster,
    /// The file of the intents, which has the roster in its header.
    pub(crate) roster_file: Arc<StateFile>,
    /// The NVRAM and the intents.
    pub(crate) state: [FileIdentity; 2],
    /// The NVRAM if it lies on a device.
    pub(crate) home: Option<Arc<FileRegion>>,
    /// Names the spare place of the NVRAM if it lies there, since its device is lost.
    pub(crate) spare: Option<PathBuf>,
    /// Holds what the NVRAM and the intents say.
    pub(crate) nvram: MemoryNvram,
    /// Holds what the members say of that.
    pub(crate) marks: WriteIntentBitmap,
    /// Lists what each member says that it cannot keep; none if that is damaged.
    pub(crate) bad_pages: Vec<Option<BadPageList>>,
    /// Reports what was made anew because it was lost.
    pub(crate) resynchronised: Option<ArrayResync>,
    /// Reports damage of the intents.
    pub(crate) damaged: Option<DamagedIntents>,
    /// Reports damage of the NVRAM.
    pub(crate) damaged_nvram: Option<DamagedNvram>,
    /// The lock on the array: the NVRAM's file once more, or the intents' if that is a device's.
    pub(crate) lock: Arc<dyn OsFile>,
}
