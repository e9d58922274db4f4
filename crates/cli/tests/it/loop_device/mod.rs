//! Disks to record from, where there is root to make them.

use std::fs::File;
use std::io::Write;
use std::process::Command;

/// Says that a test is skipped.
pub fn skip(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}

/// Standard output of a tool of the system.
pub fn tool(name: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(name).args(args).output().map_err(|error| format!("{name}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{name} {args:?}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A loop device of 16 MiB; detached when dropped.
pub struct Loop {
    pub path: String,
    folder: tempfile::TempDir,
    /// While it is locked udev does not read from the device whenever somebody has closed it.
    lock: Option<File>,
}

impl Loop {
    /// A new one, unless this machine gives none, which is said.
    pub fn new(test: &str) -> Option<Self> {
        let made = || {
            if tool("id", &["-u"])? != "0" {
                return Err("recording needs root".to_owned());
            }
            let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
            let image = folder.path().join("image");
            File::create(&image).and_then(|file| file.set_len(16 << 20)).map_err(|error| error.to_string())?;
            let path = tool("losetup", &["--find", "--show", &image.to_string_lossy()])?;
            let mut made = Self { path, folder, lock: None };
            let _ = tool("udevadm", &["settle"]);
            let lock = File::open(&made.path).and_then(|file| file.lock().map(|()| file));
            made.lock = Some(lock.map_err(|error| format!("{}: {error}", made.path))?);
            Ok(made)
        };
        made().map_err(|why| skip(test, &why)).ok()
    }

    /// A file beside its image.
    pub fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.lock = None;
        let _ = tool("losetup", &["--detach", &self.path]);
    }
}
