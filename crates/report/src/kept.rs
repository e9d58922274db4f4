//! Results of single runs, kept in a folder so that what was interrupted can go on.
//!
//! An entry's name is the SHA-256 of all that decides about the results: the program, what the settings and the
//! workload were resolved to, and what the trace holds. So nothing has to be asked of an entry but whether it is whole,
//! for which it has the SHA-256 of its results. Numbers in them are read back to the last bit (`float_roundtrip`).

mod folder;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::ReportRun;
pub use folder::ResultFolder;

/// The first line of an entry.
const MAGIC: &str = "destage run 1";

/// A SHA-256.
pub type Sha256Hash = [u8; 32];

/// Results of single runs in a folder.
#[derive(Debug)]
pub struct ResultCache {
    folder: ResultFolder,
    program: Sha256Hash,
}

/// Why results cannot be kept.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct KeptError {
    /// The file or folder.
    pub file: PathBuf,
    /// Names the fault.
    pub why: String,
}

impl KeptError {
    fn new(file: &Path, why: impl std::fmt::Display) -> Self {
        Self { file: file.to_owned(), why: why.to_string() }
    }
}

/// Hashes everything that decides about a run's results, which names the run's entry.
#[derive(Clone, Debug)]
pub struct ResultKey(Sha256);

impl ResultKey {
    /// The beginning of the key of what this program finds.
    pub fn of(program: &Sha256Hash) -> Self {
        let mut key = Self(Sha256::new());
        key.part(MAGIC);
        key.part(program);
        key
    }

    /// The hash of all parts.
    pub fn hash(self) -> Sha256Hash {
        self.0.finalize().into()
    }

    /// Takes in a part, told from those beside it.
    pub fn part(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        // The length comes first, so that two parts cannot be taken for one.
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }
}

impl ResultCache {
    /// Results that this program keeps in this folder, which is made if it is not there.
    ///
    /// # Errors
    /// If the folder cannot be made or written to, or the program cannot be read.
    pub fn open(folder: &Path, program: &Path) -> Result<Self, KeptError> {
        fs::create_dir_all(folder).map_err(|error| KeptError::new(folder, format_args!("cannot be made: {error}")))?;
        let kept = Self { folder: ResultFolder::at(folder), program: content(&[program.to_owned()])? };
        // What cannot be written shall be known before anything is run.
        let probed = kept.folder.probe();
        probed.map_err(|error| KeptError::new(folder, format_args!("cannot be written to: {error}")))?;
        Ok(kept)
    }

    /// The beginning of a run's key.
    pub fn key(&self) -> ResultKey {
        ResultKey::of(&self.program)
    }

    /// The name of an entry and its file.
    fn entry(&self, key: &ResultKey) -> (String, PathBuf) {
        let name = hex(&key.0.clone().finalize());
        let file = self.folder.path().join(format!("{name}.json"));
        (name, file)
    }

    /// The results under this key, if they are there.
    ///
    /// # Errors
    /// If what is there is not what was kept.
    pub fn get(&self, key: &ResultKey) -> Result<Option<Vec<ReportRun>>, KeptError> {
        let Some(results) = self.content(key)? else { return Ok(None) };
        let (_, file) = self.entry(key);
        let runs = crate::read(&file.display().to_string(), &results);
        runs.map(Some).map_err(|error| KeptError::new(&file, error))
    }

    /// The one result under this key, if it is there, as what it was when it was kept.
    ///
    /// # Errors
    /// If what is there is not what was kept.
    pub fn get_one<R: DeserializeOwned>(&self, key: &ResultKey) -> Result<Option<R>, KeptError> {
        let Some(results) = self.content(key)? else { return Ok(None) };
        let wrong = |error| KeptError::new(&self.entry(key).1, format_args!("does not hold one result: {error}"));
        let [result] = serde_json::from_slice::<[R; 1]>(&results).map_err(wrong)?;
        Ok(Some(result))
    }

    /// Returns the content stored under this key, or none.
    fn content(&self, key: &ResultKey) -> Result<Option<Vec<u8>>, KeptError> {
        let (name, file) = self.entry(key);
        let text = match fs::read(&file) {
            Ok(text) => text,
            // A missing entry is a run that has not been made; any other error would silently repeat hours
            // of work.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(KeptError::new(&file, format_args!("cannot be read: {error}"))),
        };
        let damaged = |why: &str| KeptError::new(&file, format_args!("is no entry of results kept by destage: {why}"));
        let results = text.strip_prefix(MAGIC.as_bytes()).and_then(|rest| rest.strip_prefix(b"\n"));
        let results = results.ok_or_else(|| damaged("it begins otherwise"))?;
        // The entry holds its own name: a file that was copied or renamed must not answer for another run.
        let results = results.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"\n"));
        let results = results.ok_or_else(|| damaged("it has another's name"))?;
        let (sum, results) = results.split_at_checked(64).ok_or_else(|| damaged("it is cut off"))?;
        let results = results.strip_prefix(b"\n").ok_or_else(|| damaged("it is cut off"))?;
        if sum != hex(&Sha256::digest(results)).as_bytes() {
            return Err(damaged("it has changed since it was written"));
        }
        Ok(Some(results.to_owned()))
    }

    /// Keeps results under this key.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn put(&self, key: &ResultKey, runs: &[ReportRun]) -> Result<(), KeptError> {
        self.keep(key, crate::json(runs).map_err(|error| error.to_string()))
    }

    /// Keeps the one result that there is under this key.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put_one<R: Serialize>(&self, key: &ResultKey, result: &R) -> Result<(), KeptError> {
        self.keep(key, serde_json::to_vec_pretty(&[result]).map_err(|error| error.to_string()))
    }

    /// Keeps what could be made of results.
    fn keep(&self, key: &ResultKey, results: Result<Vec<u8>, String>) -> Result<(), KeptError> {
        let (name, file) = self.entry(key);
        let failed = |why: String| KeptError::new(&file, format_args!("cannot be written: {why}"));
        let results = results.map_err(failed)?;
        let mut text = format!("{MAGIC}\n{name}\n{}\n", hex(&Sha256::digest(&results))).into_bytes();
        text.extend(results);
        self.folder.write(&file, &text).map_err(|error| failed(error.to_string()))
    }
}

/// Returns the SHA-256 over the files' contents, one after the other.
///
/// # Errors
/// Fails if a file cannot be read.
pub fn content(files: &[PathBuf]) -> Result<Sha256Hash, KeptError> {
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
        // The hashes of files are joined, not their bytes, so that the border between two files counts.
        all.update(of_file.finalize());
    }
    Ok(all.finalize().into())
}

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
