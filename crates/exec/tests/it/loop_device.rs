//! Makes a loop device over a file of zeros.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Is detached when dropped.
pub struct LoopDevice(pub String);

impl LoopDevice {
    /// Makes one with logical blocks of so many bytes; says that `test` skips something if the machine has none.
    pub fn new(image: &Path, bytes: u64, block: u64, test: &str) -> Option<Self> {
        fs::File::create(image).and_then(|file| file.set_len(bytes)).expect("a file");
        let block = block.to_string();
        match Command::new("losetup").args(["--find", "--show", "--sector-size", &block]).arg(image).output() {
            Ok(made) if made.status.success() => Some(Self(String::from_utf8_lossy(&made.stdout).trim().to_owned())),
            _ => {
                let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: no loop devices");
                None
            }
        }
    }

    /// Returns the bytes that the block layer was given to write so far.
    pub fn written_bytes(&self) -> u64 {
        // Sectors of 512 bytes, whatever the device's are.
        self.stat(6) * 512
    }

    /// Returns how many reads it has had, how many the block layer merged with them, and the same of writes.
    pub fn commands(&self) -> [u64; 4] {
        [0, 1, 4, 5].map(|number| self.stat(number))
    }

    /// Returns a number of the kernel's block/stat.rst, counted from 0.
    fn stat(&self, number: usize) -> u64 {
        let name = self.0.strip_prefix("/dev/").expect("a device");
        let stat = fs::read_to_string(format!("/sys/block/{name}/stat")).expect("it is counted");
        stat.split_whitespace().nth(number).and_then(|sectors| sectors.parse().ok()).expect("a number")
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}
