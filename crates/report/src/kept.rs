//! Results of single runs, kept in a folder so that what was interrupted can go on.
//!
//! An entry's name is the SHA-256 of all that decides about the results: the program, what the settings and the
//! workload were resolved to, and what the trace holds. So nothing has to be asked of an entry but whether it is whole,
//! for which it has the SHA-256 of its results. Numbers in them are read back to the last bit (`float_roundtrip`).

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use crate::ReportRun;

/// The first line of an entry.
const MAGIC: &str = "destage run 1";

/// A SHA-256.
pub type Hash = [u8; 32];

/// Results of single runs in a folder.
#[derive(Debug)]
pub struct Kept {
    folder: PathBuf,
    program: Hash,
    written: AtomicU64,
}

/// Why results cannot be kept.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct KeptError {
    /// The file or folder.
    pub file: PathBuf,
    /// What is wrong.
    pub why: String,
}

impl KeptError {
    fn new(file: &Path, why: impl std::fmt::Display) -> Self {
        Self { file: file.to_owned(), why: why.to_string() }
    }
}

/// What decides about a run's results, as its entry is named.
#[derive(Clone, Debug)]
pub struct Key(Sha256);

impl Key {
    /// Takes in a part, told from those beside it.
    pub fn part(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }
}

impl Kept {
    /// Results that this program keeps in this folder, which is made if it is not there.
    ///
    /// # Errors
    /// If the folder cannot be made or written to, or the program cannot be read.
    pub fn open(folder: &Path, program: &Path) -> Result<Self, KeptError> {
        fs::create_dir_all(folder).map_err(|error| KeptError::new(folder, format_args!("cannot be made: {error}")))?;
        let kept =
            Self { folder: folder.to_owned(), program: content(&[program.to_owned()])?, written: AtomicU64::new(0) };
        // What cannot be written shall be known before anything is run.
        let probe = kept.part_file();
        fs::write(&probe, "").map_err(|error| KeptError::new(folder, format_args!("cannot be written to: {error}")))?;
        fs::remove_file(&probe).map_err(|error| KeptError::new(&probe, error))?;
        Ok(kept)
    }

    /// The beginning of a run's key.
    pub fn key(&self) -> Key {
        let mut key = Key(Sha256::new());
        key.part(MAGIC);
        key.part(self.program);
        key
    }

    fn part_file(&self) -> PathBuf {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        self.folder.join(format!(".destage-{}-{number}.part", std::process::id()))
    }

    /// The results under this key, if they are there.
    ///
    /// # Errors
    /// If what is there is not what was kept.
    pub fn get(&self, key: &Key) -> Result<Option<Vec<ReportRun>>, KeptError> {
        let name = hex(&key.0.clone().finalize());
        let file = self.folder.join(format!("{name}.json"));
        let text = match fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(KeptError::new(&file, format_args!("cannot be read: {error}"))),
        };
        let damaged = |why: &str| KeptError::new(&file, format_args!("is no entry of results kept by destage: {why}"));
        let results = text.strip_prefix(MAGIC.as_bytes()).and_then(|rest| rest.strip_prefix(b"\n"));
        let results = results.ok_or_else(|| damaged("it begins otherwise"))?;
        let results = results.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"\n"));
        let results = results.ok_or_else(|| damaged("it has another's name"))?;
        let (sum, results) = results.split_at_checked(64).ok_or_else(|| damaged("it is cut off"))?;
        let results = results.strip_prefix(b"\n").ok_or_else(|| damaged("it is cut off"))?;
        if sum != hex(&Sha256::digest(results)).as_bytes() {
            return Err(damaged("it has changed since it was written"));
        }
        let runs = crate::read(&file.display().to_string(), results);
        runs.map(Some).map_err(|error| KeptError::new(&file, error))
    }

    /// Keeps results under this key.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn put(&self, key: &Key, runs: &[ReportRun]) -> Result<(), KeptError> {
        let name = hex(&key.0.clone().finalize());
        let file = self.folder.join(format!("{name}.json"));
        let failed = |error: &dyn std::fmt::Display| KeptError::new(&file, format_args!("cannot be written: {error}"));
        let results = crate::json(runs).map_err(|error| failed(&error))?;
        let mut text = format!("{MAGIC}\n{name}\n{}\n", hex(&Sha256::digest(&results))).into_bytes();
        text.extend(results);
        // Whole or not at all; what a power cut leaves of it is found out by its sum.
        let part = self.part_file();
        let written = fs::write(&part, text).and_then(|()| fs::rename(&part, &file));
        written.map_err(|error| {
            let _ = fs::remove_file(&part);
            failed(&error)
        })
    }
}

/// What files hold, one after the other.
///
/// # Errors
/// If one cannot be read.
pub fn content(files: &[PathBuf]) -> Result<Hash, KeptError> {
    let mut all = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    for file in files {
        let wrong = |error: std::io::Error| KeptError::new(file, format_args!("cannot be read: {error}"));
        let mut opened = fs::File::open(file).map_err(wrong)?;
        let mut of_file = Sha256::new();
        loop {
            match opened.read(&mut buffer).map_err(wrong)? {
                0 => break,
                n => of_file.update(&buffer[..n]),
            }
        }
        all.update(of_file.finalize());
    }
    Ok(all.finalize().into())
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
