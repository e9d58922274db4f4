//! Asks the operating system for what it may never answer: on a thread of its own, which is abandoned if no
//! answer comes.

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

/// Does some work that begins with the file or folder at `path`, but waits for no file longer than `patience`.
/// An abandoned thread drops its result, with all files and locks in it, if it ever ends.
pub(crate) fn patiently<T: Send + 'static>(
    os: &Arc<dyn OsInterface>,
    path: &Path,
    patience: Duration,
    work: impl FnOnce(&dyn OsInterface) -> Result<T, FilesError> + Send + 'static,
) -> Result<T, FilesError> {
    // The recording has no clock, so nothing can be too late.
    if os.is_in_line() {
        return work(&**os);
    }
    let mut asked = FileWork::begin(os, path, work)?;
    loop {
        match asked.receiver.recv_timeout(patience) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => asked.panic(),
            // Only a file that gives no answer counts: an opening of many files may
            // take longer in all.
            Err(RecvTimeoutError::Timeout) => asked.check_goes_on()?,
        }
    }
}

/// Runs some work with files on a thread of its own, while its owner does something else.
pub(crate) struct FileWork<T> {
    receiver: Receiver<Result<T, FilesError>>,
    thread: Option<JoinHandle<()>>,
    /// Counts the questions that the work has asked, and names the file of the last one.
    at: Arc<Mutex<(u64, PathBuf)>>,
    /// Holds the last count that was seen, and when.
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
        // Room for one result, so that an abandoned thread can send it and end.
        let (sender, receiver) = sync_channel(1);
        let thread = Builder::new().name("destage-asks".to_owned()).spawn(move || drop(sender.send(work(&watched))));
        let thread = Some(thread.map_err(FilesError::io(path, "start a thread for it"))?);
        Ok(Self { receiver, thread, at, seen: (0, Instant::now()) })
    }

    /// Returns the result: none so far, or an error if the work has asked for nothing new for `patience`.
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

    /// Fails if the work has asked for nothing new since the previous call.
    fn check_goes_on(&mut self) -> Result<(), FilesError> {
        let (asked, path) = &*self.at.lock().unwrap_or_else(PoisonError::into_inner);
        if *asked == self.seen.0 {
            return Err(FilesError::Hangs(path.clone()));
        }
        self.seen = (*asked, Instant::now());
        Ok(())
    }

    /// Resumes the panic of the thread.
    fn panic(&mut self) -> ! {
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(panic)) => resume_unwind(panic),
            _ => unreachable!("a thread that does not panic sends its result"),
        }
    }
}

/// Forwards to an operating system, and records the file in question.
#[derive(Debug)]
struct WatchedFile {
    os: Arc<dyn OsInterface>,
    /// Counts the questions about a file or folder, and the reports that one makes progress, and names the
    /// last.
    at: Arc<Mutex<(u64, PathBuf)>>,
}

impl WatchedFile {
    // Recorded before the question is asked: a hanging file must be the one that is
    // named.
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

    // A random number needs no file, so it cannot hang on one.
    fn draw(&self) -> [u8; 16] {
        self.os.draw()
    }
}
