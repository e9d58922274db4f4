//! Has the description name the file in which an NVRAM lies that has left the cache's device.

use destage_exec::NvramPlace;
use destage_plan::{Dev, path_text};

use super::ArrayBackend;
use crate::ServiceEvent;

impl ArrayBackend {
    /// Has the description name where the NVRAM lies, if that is another place than it says. A start would find it without
    /// that, so an error keeps nothing from going on.
    pub(super) fn note_nvram(&mut self) {
        let NvramPlace::Own(path) = &self.files.config().nvram else { return };
        // The description names a file already: this is the usual case, and runs every turn.
        if self.description.nvram.on.is_none() {
            return;
        }
        let path = path_text::of(path);
        self.description.nvram = self.description.nvram.moved();
        // The roster of the intents' file names the place as well, so a start finds the NVRAM without the
        // description.
        let unnamed = self.description.save(&*self.os, &self.path).err().map(|error| error.to_string());
        let from = self.device_file(Dev(self.geometry.members()));
        self.untold.push(ServiceEvent::NvramMoved { from, path, unnamed });
    }
}
