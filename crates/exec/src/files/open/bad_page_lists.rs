//! Lists of pages that members cannot keep, as a start finds them.

use std::io;
use std::sync::Arc;

use super::label;
use crate::files::config::FilesConfig;
use crate::files::io::file::OsFile;
use crate::files::layout::bad_page_list::BadPageList;
use crate::files::layout::label::ArrayOrigin;

/// Reads the list of each member that is there; none of one whose list is damaged. A member that cannot be read counts as not
/// there.
pub(super) fn read_lists(
    config: &FilesConfig,
    origin: ArrayOrigin,
    devices: &mut [io::Result<Arc<dyn OsFile>>],
) -> Vec<Option<BadPageList>> {
    let mut lists = Vec::with_capacity(config.members);
    for (dev, device) in devices.iter_mut().enumerate().take(config.members) {
        let read = device.as_ref().ok().map(|file| label::read_bad_pages(&**file, config, origin, dev));
        lists.push(match read {
            // A missing member has no list that could be wrong.
            None => Some(BadPageList::default()),
            Some(Ok(list)) => list,
            // A member that cannot even give its list is taken as missing, like one
            // that cannot be read otherwise.
            Some(Err(error)) => {
                *device = Err(error);
                Some(BadPageList::default())
            }
        });
    }
    lists
}
