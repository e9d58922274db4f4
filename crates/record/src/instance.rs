//! A tracing instance of our own in tracefs, and its ring buffers.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::time::{ClockId, clock_gettime};

use crate::RecordError;
use crate::layout::EventLayout;
use crate::merge::CpuRings;

/// Lists the places at which tracefs may be mounted, the newer one first.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Begins the names of this program's instances.
const PREFIX: &str = "destage-";
/// The trace clock, by its names in tracefs and in `clock_gettime`.
const CLOCK: (&str, ClockId) = ("mono", ClockId::Monotonic);

/// Events that the kernel could not keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelLosses {
    /// Because a buffer was full.
    pub dropped: u64,
    /// Overwritten by younger ones.
    pub overrun: u64,
    /// Because an interrupt's events filled a buffer while another event was being written.
    pub commit_overrun: u64,
}

impl KernelLosses {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.dropped.saturating_add(self.overrun).saturating_add(self.commit_overrun)
    }

    fn add(&mut self, text: &str) {
        let count = |key: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            value.and_then(|value| value.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        self.dropped = self.dropped.saturating_add(count("dropped events"));
        self.overrun = self.overrun.saturating_add(count("overrun"));
        self.commit_overrun = self.commit_overrun.saturating_add(count("commit overrun"));
    }
}

/// The place of tracefs; mounts it if it is not and that is allowed.
pub(crate) fn tracefs() -> Result<&'static Path, RecordError> {
    let found = || PLACES.into_iter().map(Path::new).find(|place| place.join("instances").is_dir());
    if let Some(place) = found() {
        return Ok(place);
    }
    // Without root the place may exist and not be visible.
    if !rustix::process::geteuid().is_root() {
        let cause = io::Error::from(ErrorKind::PermissionDenied);
        return Err(RecordError::NotAllowed { path: PLACES[0].into(), cause });
    }
    let tried = match Command::new("mount").args(["-t", "tracefs", "tracefs", PLACES[0]]).output() {
        Ok(output) if output.status.success() => String::new(),
        Ok(output) => format!(", and mounting it failed ({})", String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => format!(", and mounting it failed (mount: {error})"),
    };
    found().ok_or(RecordError::NoTracefs { tried })
}

/// Returns the error of a file of tracefs.
fn failed(doing: &'static str, path: &Path, cause: io::Error) -> RecordError {
    let path = path.to_owned();
    match cause.kind() {
        ErrorKind::PermissionDenied => RecordError::NotAllowed { path, cause },
        _ => RecordError::Tracefs { doing, path, cause },
    }
}

fn read(path: &Path) -> Result<String, RecordError> {
    read_whole(path).map_err(|error| failed("reading", path, error))
}

/// Reads a file of tracefs. Not `fs::read_to_string`, which begins with a small piece: some of
/// these files give all they hold to the first read, or lose the rest.
fn read_whole(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut bytes, mut piece) = (vec![], vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error)),
            Ok(n) => bytes.extend_from_slice(&piece[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A tracing instance; removed when dropped.
pub(crate) struct TracingInstance {
    tracefs: &'static Path,
    folder: PathBuf,
    cpus: Vec<PathBuf>,
    pipes: Vec<File>,
    /// Each CPU's account of what was lost, kept open: they are read many times a second.
    stats: Vec<File>,
    page_bytes: usize,
}

/// Returns the time at which a process began, in the kernel's ticks. Together with its number it names a process
/// for good.
fn start_of(pid: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the process's name, is in parentheses and may hold spaces and parentheses itself.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_owned)
}

/// Removes instances of ours whose process is gone. One that is still read cannot be removed, so
/// nothing of a process that is not seen from here (in another container) is lost.
fn remove_stale(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some((pid, start)) = name.to_str().and_then(|name| {
            let mut parts = name.strip_prefix(PREFIX)?.split('-');
            Some((parts.next()?, parts.next()?))
        }) else {
            continue;
        };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A process number is used again, so the start time decides whether the instance is an orphan.
        if is_number(pid) && is_number(start) && start_of(pid).as_deref() != Some(start) {
            // An instance that cannot be removed is still read by somebody, and does no harm.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

impl TracingInstance {
    /// Makes an instance whose buffers have so many bytes per CPU. Nothing is recorded yet.
    pub(crate) fn create(tracefs: &'static Path, buffer_bytes: u64) -> Result<Self, RecordError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let instances = tracefs.join("instances");
        remove_stale(&instances);
        let pid = std::process::id().to_string();
        let start = start_of(&pid).unwrap_or_else(|| "0".to_owned());
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = instances.join(format!("{PREFIX}{pid}-{start}-{number}"));
        fs::create_dir(&folder).map_err(|cause| match cause.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                RecordError::NotAllowed { path: folder.clone(), cause }
            }
            _ => RecordError::NoInstance { path: folder.clone(), cause },
        })?;
        // The instance is owned from here on, so it is removed whatever fails below.
        let mut instance = Self { tracefs, folder, cpus: vec![], pipes: vec![], stats: vec![], page_bytes: 0 };
        instance.set("tracing_on", "0")?;
        instance.set("trace_clock", CLOCK.0)?;
        // A full buffer keeps the oldest events: they have no holes, and the reader's page is never overwritten.
        instance.set("options/overwrite", "0")?;
        instance.set("buffer_size_kb", &buffer_bytes.div_ceil(1024).max(1).to_string()).map_err(
            |error| match error {
                RecordError::Tracefs { path, cause, .. } => RecordError::NoInstance { path, cause },
                other => other,
            },
        )?;
        let folder = instance.folder.join("per_cpu");
        let entries = fs::read_dir(&folder).map_err(|error| failed("reading", &folder, error))?;
        let mut cpus: Vec<(u32, PathBuf)> = entries
            .flatten()
            .filter_map(|entry| {
                let number = entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok()?;
                Some((number, entry.path()))
            })
            .collect();
        cpus.sort();
        for (_, cpu) in cpus {
            let path = cpu.join("trace_pipe_raw");
            // A blocking read would wait for the CPU's next event, while other CPUs' buffers fill.
            let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            let pipe = OpenOptions::new().read(true).custom_flags(nonblock).open(&path);
            instance.pipes.push(pipe.map_err(|error| failed("opening", &path, error))?);
            let path = cpu.join("stats");
            instance.stats.push(File::open(&path).map_err(|error| failed("opening", &path, error))?);
            instance.cpus.push(cpu);
        }
        Ok(instance)
    }

    fn set(&self, file: &str, value: &str) -> Result<(), RecordError> {
        let path = self.folder.join(file);
        // `fs::write` would create or truncate, and tracefs allows neither.
        let open = OpenOptions::new().write(true).open(&path);
        open.and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()))
            .map_err(|error| failed("writing to", &path, error))
    }

    /// The text of `events/header_page`.
    pub(crate) fn page_header(&self) -> Result<String, RecordError> {
        read(&self.tracefs.join("events/header_page"))
    }

    /// Makes pages of at least this size fit; newer kernels can have larger ones than the header
    /// says.
    pub(crate) fn expect_pages(&mut self, bytes: usize) {
        let larger = fs::read_to_string(self.folder.join("buffer_subbuf_size_kb")).ok();
        let larger = larger.and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or(0);
        self.page_bytes = bytes.max(larger.min(1 << 14) * 1024);
    }

    /// The description of a block event.
    pub(crate) fn event(&self, event: &'static str) -> Result<EventLayout, RecordError> {
        let path = self.folder.join("events/block").join(event).join("format");
        match read_whole(&path) {
            Ok(text) => Ok(EventLayout::parse(&text)?),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(RecordError::NoEvent { event, path }),
            Err(error) => Err(failed("reading", &path, error)),
        }
    }

    /// Switches a block event on for these devices alone, and where the condition holds, if there
    /// is one.
    pub(crate) fn enable(&self, event: &str, devs: &[u32], condition: Option<&str>) -> Result<(), RecordError> {
        let devs: Vec<String> = devs.iter().map(|dev| format!("dev == {dev}")).collect();
        let devs = devs.join(" || ");
        let filter = condition.map_or_else(|| devs.clone(), |condition| format!("({devs}) && {condition}"));
        self.set(&format!("events/block/{event}/filter"), &filter)?;
        self.set(&format!("events/block/{event}/enable"), "1")
    }

    /// Switches a block event off.
    pub(crate) fn disable(&self, event: &str) -> Result<(), RecordError> {
        self.set(&format!("events/block/{event}/enable"), "0")
    }

    /// Lets events into the buffers, or no more.
    pub(crate) fn switch(&self, on: bool) -> Result<(), RecordError> {
        self.set("tracing_on", if on { "1" } else { "0" })
    }

    /// Returns the events that were lost so far.
    ///
    /// # Errors
    /// If the kernel's counts cannot be read.
    pub(crate) fn losses(&self) -> Result<KernelLosses, RecordError> {
        let mut losses = KernelLosses::default();
        // The few lines come with one read, so the file is opened once and read at 0 many times a second.
        let mut text = [0; 4096];
        for (stats, cpu) in self.stats.iter().zip(&self.cpus) {
            let bytes = stats.read_at(&mut text, 0).map_err(|error| failed("reading", &cpu.join("stats"), error))?;
            losses.add(&String::from_utf8_lossy(&text[..bytes]));
        }
        Ok(losses)
    }
}

impl CpuRings for TracingInstance {
    fn cpus(&self) -> usize {
        self.pipes.len()
    }

    fn read(&mut self, cpu: usize, page: &mut Vec<u8>) -> Result<bool, RecordError> {
        page.resize(self.page_bytes, 0);
        loop {
            match self.pipes[cpu].read(page) {
                Ok(0) => return Ok(false),
                Ok(bytes) => {
                    page.truncate(bytes);
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed("reading", &self.cpus[cpu].join("trace_pipe_raw"), error)),
            }
        }
    }

    fn now(&self) -> u64 {
        let time = clock_gettime(CLOCK.1);
        // Neither part is negative: the clock counts from the machine's start.
        time.tv_sec.cast_unsigned().saturating_mul(1_000_000_000).saturating_add(time.tv_nsec.cast_unsigned())
    }
}

impl Drop for TracingInstance {
    fn drop(&mut self) {
        // The kernel refuses to remove an instance whose buffers are open.
        self.pipes.clear();
        self.stats.clear();
        // The next recording removes what is left after a failure here.
        let _ = fs::remove_dir(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_added_up() {
        let text = "entries: 113\noverrun: 5\ncommit overrun: 2\nbytes: 6600\ndropped events: 70\nread events: 0\n";
        let mut losses = KernelLosses::default();
        losses.add(text);
        losses.add(text);
        assert_eq!(losses, KernelLosses { dropped: 140, overrun: 10, commit_overrun: 4 });
        assert_eq!(losses.total(), 154);
    }

    #[test]
    fn a_process_is_known_by_its_start() {
        let own = start_of(&std::process::id().to_string()).unwrap();
        assert!(own.parse::<u64>().is_ok());
        assert_ne!(start_of("1"), Some(own));
        assert_eq!(start_of("0"), None);
    }
}
