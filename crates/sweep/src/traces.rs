//! The traces of a sweep: where each is, and what it holds.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use destage_report::kept::{Sha256Hash, hex};
use destage_scenario::path_text;
use sha2::{Digest, Sha256};

use crate::{SweepError, globs};

/// A trace as it was named.
#[derive(Clone, Debug)]
pub(crate) struct TraceName {
    /// Names the trace in rows.
    pub(crate) name: String,
    /// Holds the trace's path; none if the trace has to be fetched.
    pub(crate) file: Option<PathBuf>,
    /// Lists the settings for reading the trace.
    pub(crate) settings: Vec<(&'static str, String)>,
}

/// Is true for a URL, such as `s3://bucket/trace.csv`, which has to be fetched.
pub fn is_url(name: &str) -> bool {
    let scheme = name.split_once("://").map_or("", |(scheme, _)| scheme);
    !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+.-:".contains(&byte))
}

impl TraceName {
    /// The traces that a name stands for, which begins at this folder.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn expand(
        folder: &Path,
        name: &str,
        settings: &[(&'static str, String)],
    ) -> Result<Vec<Self>, SweepError> {
        let of = |name: String, file: Option<PathBuf>| Self { name, file, settings: settings.to_vec() };
        if name == "-" {
            return Err(SweepError::new("a sweep reads its traces more than once: give a file in place of '-'"));
        }
        if is_url(name) {
            return Ok(vec![of(name.to_owned(), None)]);
        }
        let file = folder.join(path_text::path(name));
        if !globs::is_glob(name) {
            return Ok(vec![of(name.to_owned(), Some(file))]);
        }
        let files = globs::expand(&file)?;
        let named = |file: PathBuf| {
            let name = path_text::of(file.strip_prefix(folder).unwrap_or(&file));
            of(name, Some(file))
        };
        Ok(files.into_iter().map(named).collect())
    }

    pub(crate) fn is_url(&self) -> bool {
        self.file.is_none()
    }
}

/// Identifies the state of a file when it was read: path, length in bytes, time of change in s and ns, inode.
type SeenFile = (PathBuf, u64, i64, i64, u64);

/// Hashes of files that this process has read whole.
static HASHES: Mutex<Option<HashMap<SeenFile, Sha256Hash>>> = Mutex::new(None);

/// Returns the SHA-256 of a file in hexadecimal. A process reads a file once, unless it has changed
/// meanwhile.
///
/// # Errors
/// Fails if the file cannot be read, or is a pipe or a device.
pub(crate) fn content(file: &Path) -> Result<String, SweepError> {
    let metadata = std::fs::metadata(file);
    let metadata = metadata.map_err(|error| SweepError::file(file, format_args!("cannot be read: {error}")))?;
    if !metadata.is_file() {
        return Err(SweepError::file(file, "is no file: a sweep reads its traces more than once"));
    }
    // Hashing reads the whole file, so an unchanged one is hashed once.
    let seen = (file.to_owned(), metadata.len(), metadata.mtime(), metadata.mtime_nsec(), metadata.ino());
    let known = |seen| HASHES.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.get(seen).copied();
    let hash = if let Some(hash) = known(&seen) {
        hash
    } else {
        let hash = sha256(file).map_err(|error| SweepError::file(file, format_args!("cannot be read: {error}")))?;
        HASHES.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().insert(seen, hash);
        hash
    };
    Ok(hex(&hash))
}

fn sha256(file: &Path) -> std::io::Result<Sha256Hash> {
    let (mut file, mut all, mut block) = (File::open(file)?, Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut block)? {
            0 => return Ok(all.finalize().into()),
            n => all.update(&block[..n]),
        }
    }
}

/// Names of the files that are one trace, without their folders, and what each holds.
pub(crate) fn contents(files: &[PathBuf]) -> Result<Vec<(String, String)>, SweepError> {
    let of = |file: &PathBuf| {
        // The name may tell the format.
        let name = path_text::of(file.file_name().unwrap_or_default());
        Ok((name, content(file)?))
    };
    files.iter().map(of).collect()
}
