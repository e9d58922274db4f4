//! Asking the operating system for what it may never answer: on a thread of its own, which is left
//! to itself when nothing comes of it.

use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::file::{OsFile, SyncPoint};
use super::os::{OsInterface, PathPresence};
use crate::files::error::FilesError;

/// Does some work that begins with the file or folder at `path`, but waits for no file longer than
/// `patience`. What is left behind drops its result, with all files and locks in it, if it ever
/// comes to an end.
pub(crate) fn patiently<T: Send + 'static>(
    os: &Arc<dyn OsInterface>,
    path: &Path,
    patience: Duration,
    work: impl FnOnce(&dyn OsInterface) -> Result<T, FilesError> + Send + 'static,
) -> Result<T, FilesError> {
    if os.is_in_line() {
        return work(&**os);
    }
    let mut asked = FileWork::begin(os, path, work)?;
    loop {
        match asked.receiver.recv_timeout(patience) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => asked.panic(),
            Err(RecvTimeoutError::Timeout) => asked.check_goes_on()?,
        }
    }
}

/// Does some work with files on a thread of its own, while its owner does something else.
pub(crate) struct FileWork<T> {
    receiver: Receiver<Result<T, FilesError>>,
    thread: Option<JoinHandle<()>>,
    /// Counts what it has asked for, and names for which file it did last.
    at: Arc<Mutex<(u64, PathBuf)>>,
    /// Says how much of that was seen, and when.
    seen: (u64, Instant),
}

impl<T: Send + 'static> FileWork<T> {
    /// Begins some work with the file or folder at `path`.
    pub(crate) fn begin(
        os: &Arc<dyn OsInterface>,
        path: &Path,
        work: impl FnOnce(&dyn OsInterface) -> Result<T, FilesError> + Send + 'static,
    ) -> Result<Self, FilesError> {
        let at = Arc::new(Mutex::new((0, path.to_owned())));
        let watched = WatchedFile { os: Arc::clone(os), at: Arc::clone(&at) };
        let (sender, receiver) = sync_channel(1);
        let thread = Builder::new().name("destage-asks".to_owned()).spawn(move || drop(sender.send(work(&watched))));
        let thread = Some(thread.map_err(FilesError::io(path, "start a thread for it"))?);
        Ok(Self { receiver, thread, at, seen: (0, Instant::now()) })
    }

    /// Returns what came of it: none so far, or that it hangs if it has asked for nothing new for so long.
    pub(crate) fn poll(&mut self, patience: Duration) -> Option<Result<T, FilesError>> {
        match self.receiver.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Disconnected) => self.panic(),
            // It is looked at often: the time counts from what it has asked for last.
            Err(TryRecvError::Empty) => match self.check_goes_on() {
                Err(_) if self.seen.1.elapsed() < patience => None,
                gone_on => gone_on.err().map(Err),
            },
        }
    }

    /// Returns an error if it has asked for nothing new since this was called before.
    fn check_goes_on(&mut self) -> Result<(), FilesError> {
        let (asked, path) = &*self.at.lock().unwrap_or_else(PoisonError::into_inner);
        if *asked == self.seen.0 {
            return Err(FilesError::Hangs(path.clone()));
        }
        self.seen = (*asked, Instant::now());
        Ok(())
    }

    /// Goes on with the panic of the thread.
    fn panic(&mut self) -> ! {
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(panic)) => resume_unwind(panic),
            _ => unreachable!("a thread that does not panic sends its result"),
        }
    }
}

/// An operating system, and with which file it has to do.
#[derive(Debug)]
struct WatchedFile {
    os: Arc<dyn OsInterface>,
    /// Counts how often it was asked for a file or folder or told that one goes on, and names which.
    at: Arc<Mutex<(u64, PathBuf)>>,
}

impl WatchedFile {
    fn note(&self, path: &Path) {
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        *at = (at.0 + 1, path.to_owned());
    }
}

impl OsInterface for WatchedFile {
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.note(path);
        self.os.exists(path)
    }

    fn is_block_device(&self, path: &Path) -> bool {
        self.note(path);
        self.os.is_block_device(path)
    }

    fn open(&self, path: &Path, presence: PathPresence) -> io::Result<Arc<dyn OsFile>> {
        self.note(path);
        self.os.open(path, presence)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.note(path);
        self.os.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.note(to);
        self.os.rename(from, to)
    }

    fn sync_folder(&self, folder: &Path, at: SyncPoint) -> io::Result<()> {
        self.note(folder);
        self.os.sync_folder(folder, at)
    }

    fn goes_on(&self, path: &Path) {
        self.note(path);
    }

    fn draw(&self) -> [u8; 16] {
        self.os.draw()
    }
}
