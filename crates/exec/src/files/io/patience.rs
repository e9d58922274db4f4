//! Asking the operating system for what it may never answer: on a thread of its own, which is left
//! to itself when nothing comes of it.

use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use super::file::{OsFile, SyncPoint};
use super::os::{Os, Presence};
use crate::files::error::FilesError;

/// Does some work that begins with the file or folder at `path`, but waits for no file longer than
/// `patience`. What is left behind drops its result, with all files and locks in it, if it ever
/// comes to an end.
pub(crate) fn patiently<T: Send + 'static>(
    os: &Arc<dyn Os>,
    path: &Path,
    patience: Duration,
    work: impl FnOnce(&dyn Os) -> Result<T, FilesError> + Send + 'static,
) -> Result<T, FilesError> {
    if os.is_in_line() {
        return work(&**os);
    }
    let at = Arc::new(Mutex::new((0, path.to_owned())));
    let watched = Watched { os: Arc::clone(os), at: Arc::clone(&at) };
    let (sender, receiver) = sync_channel(1);
    let thread = Builder::new().name("destage-asks".to_owned()).spawn(move || drop(sender.send(work(&watched))));
    let thread = thread.map_err(FilesError::io(path, "start a thread for it"))?;
    let mut seen = 0;
    loop {
        match receiver.recv_timeout(patience) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => unreachable!("a thread that does not panic sends its result"),
            },
            Err(RecvTimeoutError::Timeout) => {
                let (asked, path) = &*at.lock().unwrap_or_else(PoisonError::into_inner);
                if *asked == seen {
                    return Err(FilesError::Hangs(path.clone()));
                }
                seen = *asked;
            }
        }
    }
}

/// An operating system, and with which file it has to do.
#[derive(Debug)]
struct Watched {
    os: Arc<dyn Os>,
    /// Counts how often it was asked for a file or folder or told that one goes on, and names which.
    at: Arc<Mutex<(u64, PathBuf)>>,
}

impl Watched {
    fn note(&self, path: &Path) {
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        *at = (at.0 + 1, path.to_owned());
    }
}

impl Os for Watched {
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.note(path);
        self.os.exists(path)
    }

    fn is_block_device(&self, path: &Path) -> bool {
        self.note(path);
        self.os.is_block_device(path)
    }

    fn open(&self, path: &Path, presence: Presence) -> io::Result<Arc<dyn OsFile>> {
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
