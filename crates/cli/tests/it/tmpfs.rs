//! Mounts file systems in memory, as small as a test wants them.

use std::fs;
use std::path::PathBuf;

use crate::loop_device::{skip, tool};

/// Holds a file system in memory, mounted at this folder, until it is dropped.
pub struct TmpfsDisk(pub PathBuf);

impl TmpfsDisk {
    /// Mounts one at a folder that it makes, with these options of `mount`. Says that the test is skipped and returns
    /// `None` if that is not possible.
    pub fn new(test: &str, folder: PathBuf, options: &str) -> Option<Self> {
        fs::create_dir(&folder).expect("a folder");
        match tool("mount", &["-t", "tmpfs", "-o", options, "none", &folder.display().to_string()]) {
            Ok(_) => Some(Self(folder)),
            Err(why) => {
                skip(test, &why);
                None
            }
        }
    }
}

impl Drop for TmpfsDisk {
    fn drop(&mut self) {
        // Lazily: a process that another test begins may have our files open until it is another
        // program.
        let _ = tool("umount", &["--lazy", self.0.to_str().unwrap_or_default()]);
    }
}
