//! Other people's clients against a disk in memory, and the client here against other people's
//! servers. Those that are not installed are skipped, which is said.

#[path = "../../../examples/memory/disk.rs"]
mod disk;
#[path = "../../../examples/memory/serve.rs"]
mod serve;

mod clients;
mod own;
mod servers;
mod shells;

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;

use destage_nbd::{BlockSizes, ExportFeatures, ExportList};
use disk::Disk;

/// Blocks of each disk: 8 MiB.
const BLOCKS: usize = 2048;

/// Returns true if a program can be run; if not, reports that the test is skipped.
fn have(test: &str, program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        skip(test, &format!("no {program}"));
    }
    found
}

/// Says that a test is skipped.
fn skip(test: &str, why: &str) {
    // Past the harness's capture, so that the count of what was skipped sees it.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}

/// A server of disks in memory, on a Unix socket and over TCP, until the test ends.
struct Served {
    folder: tempfile::TempDir,
    port: u16,
}

impl Served {
    fn new() -> Self {
        let (all, sizes) = (Disk::everything(), BlockSizes::default());
        let disks = Arc::new([
            Disk::new(BLOCKS, all, sizes),
            Disk::new(BLOCKS, all, BlockSizes { minimum: 512, ..sizes }),
            Disk::new(BLOCKS, ExportFeatures { read_only: true, ..all }, sizes),
        ]);
        let names = ["disk", "sectors", "frozen"];
        let exports = names.iter().zip(&*disks).map(|(name, disk)| disk.export(name)).collect();
        let exports = Arc::new(ExportList::new(exports, Some("disk")).expect("exports that can be served"));
        let folder = tempfile::tempdir().expect("a folder");
        let unix = UnixListener::bind(folder.path().join("socket")).expect("a socket");
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = tcp.local_addr().expect("an address").port();
        let (for_tcp, tcp_disks) = (exports.clone(), disks.clone());
        thread::spawn(move || {
            for stream in unix.incoming().flatten() {
                let (exports, disks) = (exports.clone(), disks.clone());
                // How a connection ends is the client's affair here: those that break rules are dropped.
                thread::spawn(move || serve::serve(stream, &exports, &*disks));
            }
        });
        thread::spawn(move || {
            for stream in tcp.incoming().flatten() {
                let (exports, disks) = (for_tcp.clone(), tcp_disks.clone());
                thread::spawn(move || serve::serve(stream, &exports, &*disks));
            }
        });
        Self { folder, port }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn unix(&self) -> UnixStream {
        UnixStream::connect(self.socket()).expect("a connection")
    }

    fn tcp(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).expect("a connection")
    }

    /// Returns the URI of an export.
    fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.socket().display())
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// A file of so many bytes that are no zeroes, with some zeroes between them.
    fn file(&self, name: &str, len: usize) -> (String, Vec<u8>) {
        let bytes: Vec<u8> =
            (0..len).map(|at| if at / 20_000 % 3 == 1 { 0 } else { (at * 31 % 251 + 1) as u8 }).collect();
        let path = self.path(name);
        std::fs::write(&path, &bytes).expect("a file");
        (path, bytes)
    }
}

/// Runs a program to its end, which has to be a good one; gives what it printed.
fn run(program: &str, args: &[&str]) -> String {
    let Output { status, stdout, stderr } = Command::new(program).args(args).output().expect("it can be run");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{program} {args:?}: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}
