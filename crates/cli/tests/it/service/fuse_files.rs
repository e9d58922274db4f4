//! Files of QEMU's storage daemon, by FUSE: they can hang, and reads of them can fail.
//!
//! The daemon of QEMU 7.2 corrupts writes that are made at the same time, so that whoever uses them gives a device one command at a time.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::programs::skip;

/// Bounds how long the daemon may take to serve a file.
const LIMIT: Duration = Duration::from_secs(20);

/// Holds a file whose every access is answered by a process that can be stopped.
pub struct FuseFile {
    server: Child,
    path: PathBuf,
}

impl FuseFile {
    /// Makes one that has what `image` has, in the same folder. Rules are options of QEMU's `blkdebug`, which stands before the image;
    /// none are needed. Says that `test` is skipped where this machine has no such server.
    pub fn over(test: &str, image: &Path, rules: &str) -> Option<Self> {
        let rules =
            format!("driver=blkdebug,node-name=image,image.driver=file,image.filename={}{rules}", image.display());
        Self::start(test, image, &["--blockdev", &rules])
    }

    /// Makes one as [`over`](Self::over) does, that writes at most `bytes_per_second`.
    pub fn slow(test: &str, image: &Path, bytes_per_second: u64) -> Option<Self> {
        let limits = format!("throttle-group,id=limits,limits.bps-write={bytes_per_second}");
        let (node, file) = ("driver=throttle,node-name=image,throttle-group=limits", image.display());
        let blockdev = format!("{node},file.driver=file,file.filename={file}");
        Self::start(test, image, &["--object", &limits, "--blockdev", &blockdev])
    }

    /// Serves the block device `image` of the daemon, which `settings` describe.
    fn start(test: &str, image: &Path, settings: &[&str]) -> Option<Self> {
        let path = image.with_extension("fuse");
        fs::write(&path, []).expect("a file");
        let export = format!("type=fuse,id=export,node-name=image,mountpoint={},writable=on", path.display());
        let mut command = Command::new("qemu-storage-daemon");
        command.args(settings).args(["--export", &export]).stderr(Stdio::null());
        let server = command.spawn().map_err(|why| skip(test, &format!("qemu-storage-daemon: {why}"))).ok()?;
        let mut file = Self { server, path };
        let (bytes, begin) = (fs::metadata(image).expect("an image").len(), Instant::now());
        while fs::metadata(&file.path).expect("a file").size() != bytes {
            if file.server.try_wait().expect("it can be waited for").is_some() || begin.elapsed() > LIMIT {
                skip(test, "qemu-storage-daemon serves no file by FUSE");
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(file)
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.server.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
    }

    /// Leaves every access of the file without an answer, from now on.
    pub fn hang(&self) {
        self.signal("-STOP");
    }

    /// Answers again.
    pub fn go_on(&self) {
        self.signal("-CONT");
    }
}

impl Drop for FuseFile {
    fn drop(&mut self) {
        self.go_on();
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = Command::new("fusermount3").args(["-u", "-z"]).arg(&self.path).stderr(Stdio::null()).status();
    }
}
