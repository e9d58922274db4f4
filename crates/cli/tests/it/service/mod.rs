//! The block service from outside: arrays are made, served, asked, killed and stopped by the binary, and clients
//! come over its sockets: this project's own and others'.

/// Selects the I/O backend of a served array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IoMode {
    /// Leaves it as `destage create` sets it: by `io_uring` and direct I/O where the machine has them.
    Auto,
    /// By a thread pool, through the page cache.
    BufferedThreads,
}

impl IoMode {
    /// Returns the name of the module that [`io_mode_tests`] makes for it.
    const fn module(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::BufferedThreads => "buffered_threads",
        }
    }
}

/// Makes a test in each I/O mode of every function named.
macro_rules! io_mode_tests {
    ($($(#[$attribute:meta])* $name:ident,)+) => {
        mod auto {
            $(#[test] $(#[$attribute])* fn $name() { super::$name($crate::service::IoMode::Auto) })+
        }
        mod buffered_threads {
            $(#[test] $(#[$attribute])* fn $name() { super::$name($crate::service::IoMode::BufferedThreads) })+
        }
    };
}

mod adopted;
mod bad_sectors;
mod cache_pages;
mod chain;
mod crashes;
mod created;
mod cuts;
mod descriptors;
mod events;
mod fuse_files;
mod hangs;
mod losses;
mod media;
mod memory;
mod metrics;
mod orders;
mod peers;
mod place;
pub mod programs;
mod recorded;
mod refusals;
mod replacements;
mod requests;
mod scrubs;
mod states;
mod unaligned;
mod ways_on;

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use destage_nbd::client::blocking::{BlockingConnection, ExportRequest};
use serde_json::Value;

use crate::binary;

/// Limits how long a service may take to do what it is asked for.
const PATIENCE: Duration = Duration::from_mins(1);

/// The caches with a size, and those without, over arrays that suit them: as `create` takes it.
const ARRAYS: [&[&str]; 10] = [
    &["--policy", "none"],
    &["--policy", "write-around", "--cache", "1MiB"],
    &["--policy", "write-through", "--cache", "1MiB"],
    &["--policy", "write-back", "--cache", "1MiB"],
    &["--policy", "leavo", "--cache", "1MiB"],
    &["--policy", "kdd", "--cache", "1MiB"],
    &["--policy", "kdd", "--cache", "1MiB", "--nvram", "cache-device"],
    &["--policy", "wow", "--cache", "256KiB"],
    &["--policy", "iwc", "--cache", "256KiB"],
    &["--policy", "lawc", "--cache", "256KiB"],
];

/// An array of four members in a folder of its own; what serves it is killed when dropped.
struct Array {
    folder: tempfile::TempDir,
    service: Option<Child>,
}

impl Array {
    /// An array of members of 2 MiB with these settings beside level and size.
    fn new(io_mode: IoMode, settings: &[&str]) -> Self {
        Self::sized(io_mode, "2MiB", settings)
    }

    /// An array of members of this size with these settings beside.
    fn sized(io_mode: IoMode, member: &str, settings: &[&str]) -> Self {
        Self::of_level(io_mode, "raid5:4", member, settings)
    }

    /// An array of this level and members of this size with these settings beside.
    fn of_level(io_mode: IoMode, level: &str, member: &str, settings: &[&str]) -> Self {
        Self::in_folder(tempfile::tempdir().expect("a folder"), io_mode, level, member, settings)
    }

    /// An array in this folder, in which there may be a folder for it.
    fn in_folder(folder: tempfile::TempDir, io_mode: IoMode, level: &str, member: &str, settings: &[&str]) -> Self {
        let array = Self { folder, service: None };
        let path = array.path();
        let made = [&["create", &path, "--level", level, "--member-size", member], settings].concat();
        let made = binary::destage(&made);
        assert!(made.status.success(), "{settings:?}: {}", String::from_utf8_lossy(&made.stderr));
        if io_mode == IoMode::BufferedThreads {
            let text = std::fs::read_to_string(array.file("array.toml")).expect("a description");
            let changed = text.replace("io = \"auto\"", "io = \"threads\"").replace("direct = true", "direct = false");
            assert_ne!(changed, text);
            std::fs::write(array.file("array.toml"), changed).expect("a description");
        }
        array
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("array").join(name)
    }

    fn path(&self) -> String {
        self.folder.path().join("array").display().to_string()
    }

    /// Begins to serve it, and waits for the first client to be let in.
    fn serve(&mut self, more: &[&str]) {
        let path = self.path();
        self.start(binary::signalled(&[&["serve", &path], more].concat()));
    }

    /// Serves it under a limit, as `ulimit` of a shell takes it.
    fn serve_limited(&mut self, limit: &str) {
        let served = binary::signalled(&["serve", &self.path()]);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit {limit}; exec \"$@\""), "sh"]);
        shell.arg(served.get_program()).args(served.get_args());
        self.start(shell);
    }

    fn start(&mut self, mut command: Command) {
        let log = std::fs::File::create(self.folder.path().join("log")).expect("a file");
        let service = command.stderr(log).spawn().expect("the binary starts");
        self.service = Some(service);
        let begin = Instant::now();
        while UnixStream::connect(self.file("nbd.sock")).is_err() {
            let ended = self.service.as_mut().and_then(|service| service.try_wait().expect("it can be waited for"));
            assert!(ended.is_none() && begin.elapsed() < PATIENCE, "it does not serve: {}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// A client.
    fn client(&self) -> BlockingConnection<UnixStream> {
        let stream = UnixStream::connect(self.file("nbd.sock")).expect("the service takes clients");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        BlockingConnection::begin(stream, &ExportRequest { structured: true, ..ExportRequest::default() })
            .expect("the export is there")
    }

    /// One of the commands about it.
    fn command(&self, command: &str, more: &[&str]) -> Output {
        binary::destage(&[&[command, &self.path()], more].concat())
    }

    /// Returns the events of this name in its log, which is of JSON.
    fn events(&self, name: &str) -> Vec<Value> {
        let log = self.log();
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter(|event| event["event"] == name).collect()
    }

    fn status(&self) -> Value {
        let output = self.command("status", &["--json"]);
        let status: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&output.stderr)));
        let code = match status["array"]["state"].as_str() {
            Some("serving" | "recovering") => 0,
            Some("degraded" | "rebuilding") => 3,
            _ => 4,
        };
        assert_eq!(output.status.code(), Some(code), "{status}");
        status
    }

    /// Ends the service in order.
    fn stop(&mut self) {
        let stopped = self.command("stop", &[]);
        assert!(stopped.status.success(), "{} {}", String::from_utf8_lossy(&stopped.stderr), self.log());
        let mut service = self.service.take().expect("it is served");
        assert!(service.wait().expect("it ends").success(), "{}", self.log());
    }

    /// Ends the service as a crash of the process does, and waits until the kernel has ended what it had under way in a ring.
    fn kill(&mut self) {
        self.end();
        let begin = Instant::now();
        for entry in fs::read_dir(self.path()).expect("a folder").map(|entry| entry.expect("an entry")) {
            // A file by FUSE may hang; whoever serves it has the image.
            let (is_file, name) = (entry.file_type().expect("a type").is_file(), entry.file_name());
            if is_file && !name.to_string_lossy().ends_with(".fuse") {
                let file = fs::File::open(entry.path()).expect("a file");
                while file.try_lock().is_err() {
                    assert!(begin.elapsed() < PATIENCE, "{} is locked", name.display());
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }

    fn end(&mut self) {
        let mut service = self.service.take().expect("it is served");
        service.kill().expect("it is there");
        service.wait().expect("it ends");
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        if self.service.is_some() {
            self.end();
        }
    }
}

/// A page that no other number has.
fn page(number: u64) -> Vec<u8> {
    pages([number])
}

/// Returns the pages of these numbers. Word by word: byte by byte, tests that are compiled without optimisation would spend
/// their time in this.
fn pages(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in numbers {
        for at in 0..512 {
            let word = (number << 16 ^ at).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    }
    bytes
}

/// Numbers that look drawn, and are the same each time.
struct Draws(u64);

impl Draws {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}
