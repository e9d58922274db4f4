//! Sets up what the tests need of the machine: a loop device over a file, tools, root. Reports the reason if it
//! cannot.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use destage_record::{RecordError, RecordOptions, RecordSummary, RecordedDevice, RecordedRequest, TraceRecorder};

/// Says that a test cannot run here.
pub fn skip(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}

/// Runs a tool to its end.
pub fn tool(name: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(name).args(args).output().map_err(|error| format!("{name}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{name} {args:?}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A loop device over a sparse file in a temporary folder; detached when dropped.
pub struct Loop {
    /// The device.
    pub path: PathBuf,
    /// Holds the folder of the file, with room for others.
    pub folder: tempfile::TempDir,
    /// While it is locked udev does not read from the device whenever somebody has closed it.
    lock: Option<File>,
    /// Settings of its queue as they were. The kernel does not reset them when the device is detached.
    before: Mutex<Vec<(PathBuf, String)>>,
}

impl Loop {
    /// A device of so many bytes, or why there can be none.
    pub fn new(bytes: u64, options: &[&str]) -> Result<Self, String> {
        if tool("id", &["-u"])? != "0" {
            return Err("recording needs root".into());
        }
        // In memory if possible: a flush of the device is a flush of the file.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = folder.map_err(|error| error.to_string())?;
        let image = folder.path().join("image");
        File::create(&image).and_then(|file| file.set_len(bytes)).map_err(|error| error.to_string())?;
        let image = image.to_string_lossy();
        let path = tool("losetup", &[options, &["--find", "--show", &image]].concat())?;
        let mut made = Self { path: path.into(), folder, lock: None, before: Mutex::default() };
        // udev looks at a new device, where there is udev.
        let _ = tool("udevadm", &["settle"]);
        let lock = File::open(&made.path).and_then(|file| file.lock().map(|()| file));
        made.lock = Some(lock.map_err(|error| format!("{}: {error}", made.name()))?);
        Ok(made)
    }

    /// The path as text.
    pub fn name(&self) -> &str {
        self.path.to_str().expect("losetup names devices in ASCII")
    }

    /// Lets the device take no more than so many KiB at once: what is larger is split.
    pub fn split_at(&self, kib: u32) {
        self.set("max_sectors_kb", kib);
    }

    /// Gives the device so many tags, at least 4, which limits the requests in flight.
    pub fn limit_tags(&self, tags: u32) {
        self.set("nr_requests", tags);
    }

    fn set(&self, setting: &str, value: u32) {
        let name = self.path.file_name().expect("a device has a name").to_string_lossy();
        let file = PathBuf::from(format!("/sys/block/{name}/queue/{setting}"));
        let before = fs::read_to_string(&file).expect("it is a setting of every queue");
        fs::write(&file, value.to_string()).expect("root may change it");
        self.before.lock().unwrap_or_else(PoisonError::into_inner).push((file, before));
    }

    /// A file in the temporary folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.lock = None;
        let before = self.before.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (file, before) in before.iter().rev() {
            let _ = fs::write(file, before);
        }
        let _ = tool("losetup", &["--detach", self.name()]);
    }
}

/// One recording at a time: what one test does with its devices must not come between another's
/// events and their expected times.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records a device while `work` runs.
pub fn record(
    device: &Path,
    options: &RecordOptions,
    work: impl FnOnce() + Send,
) -> Result<(Vec<RecordedRequest>, RecordSummary), RecordError> {
    let recorder = TraceRecorder::start(&RecordedDevice::open(device)?, options)?;
    let mut all = vec![];
    let summary = std::thread::scope(|scope| {
        let work = scope.spawn(work);
        let summary = recorder.run(&mut |_| !work.is_finished(), &mut |requests| {
            all.extend_from_slice(requests);
            Ok(())
        });
        work.join().expect("the work succeeds");
        summary
    })?;
    Ok((all, summary))
}
