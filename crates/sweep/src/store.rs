//! The folder of a sweep: parts that hold rows, and the rows of the plan in one file.
//!
//! A part is named by the SHA-256 of what it holds, and appears whole. So whoever reads `parts` while a sweep goes on
//! sees rows that are right, a killed sweep leaves nothing else, and a part that has changed is known as that.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use destage_report::kept::{ResultFolder, hex};
use destage_report::{ResultColumn, ResultTable, TableCell, read_parquet};
use sha2::{Digest, Sha256};

use crate::SweepError;

/// The folder of parts.
pub const PARTS: &str = "parts";
/// The rows of the plan, in order.
pub const RESULT: &str = "sweep.parquet";
/// Holds prefix and suffix of a part's file name.
const NAME: (&str, &str) = ("part-", ".parquet");

/// The folder of a sweep.
#[derive(Debug)]
pub(crate) struct SweepStore {
    pub(crate) out: PathBuf,
    parts: ResultFolder,
    /// Maps a key to its row: the number of the part, and of the row within the part.
    rows: HashMap<String, (usize, usize)>,
    files: Vec<PathBuf>,
    /// Locked as long as there is one; none where folders cannot be locked.
    _lock: Option<File>,
}

impl SweepStore {
    /// The sweep in this folder, which is made if it is not there. `note` hears of parts that cannot be used.
    ///
    /// # Errors
    /// If the folder cannot be made, read or written, or another sweep writes to it.
    pub(crate) fn open(out: &Path, note: &dyn Fn(&str)) -> Result<Self, SweepError> {
        let folder = out.join(PARTS);
        let made = fs::create_dir_all(&folder);
        made.map_err(|error| SweepError::file(&folder, format_args!("cannot be made: {error}")))?;
        let lock = File::open(out).ok();
        // File systems without locks are used without one: names by content keep two sweeps from harming
        // each other.
        if let Some(Err(fs::TryLockError::WouldBlock)) = lock.as_ref().map(File::try_lock) {
            return Err(SweepError::file(out, "another sweep writes to this folder; wait for it, or give another"));
        }
        let parts = ResultFolder::at(&folder);
        // A folder that cannot be written to must not cost the first group's work.
        let probed = parts.probe();
        probed.map_err(|error| SweepError::file(&folder, format_args!("cannot be written to: {error}")))?;
        let mut store = Self { out: out.to_owned(), parts, rows: HashMap::new(), files: Vec::new(), _lock: lock };
        let entries = fs::read_dir(&folder);
        let entries = entries.map_err(|error| SweepError::file(&folder, format_args!("cannot be read: {error}")))?;
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        // The first of two parts with the same key counts, in the same order on every machine.
        files.sort();
        for file in files {
            store.look_at(&file, note)?;
        }
        Ok(store)
    }

    /// Takes in a file of the folder, if it is a part.
    fn look_at(&mut self, file: &Path, note: &dyn Fn(&str)) -> Result<(), SweepError> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if !name.ends_with(NAME.1) || name.starts_with('.') {
            return Ok(());
        }
        let sum = name.strip_prefix(NAME.0).and_then(|name| name.strip_suffix(NAME.1));
        let Some(sum) = sum.filter(|sum| sum.len() == 64) else {
            note(&format!("{}: is no part of a sweep, and is left alone", file.display()));
            return Ok(());
        };
        match part(file, sum) {
            Ok(keys) => self.index(file.to_owned(), keys),
            Err(why) => {
                // The file is renamed, not deleted: the user may want to know what changed it.
                let aside = file.with_extension("damaged");
                let moved = fs::rename(file, &aside);
                moved.map_err(|error| SweepError::file(file, format_args!("{why}, and cannot be renamed: {error}")))?;
                note(&format!("{}: {why}; it is {} now, and its runs are run again", file.display(), aside.display()));
            }
        }
        Ok(())
    }

    fn index(&mut self, file: PathBuf, keys: Vec<String>) {
        let number = self.files.len();
        self.files.push(file);
        for (row, key) in keys.into_iter().enumerate() {
            // Rows of one key are alike, whoever made them.
            self.rows.entry(key).or_insert((number, row));
        }
    }

    /// Is true if some part has a row of this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.rows.contains_key(key)
    }

    /// Returns the place of a key's row: the number of the part, and of the row within the part.
    pub(crate) fn place(&self, key: &str) -> Option<(usize, usize)> {
        self.rows.get(key).copied()
    }

    /// All columns of a part.
    pub(crate) fn read(&self, part: usize) -> Result<Vec<ResultColumn>, SweepError> {
        let file = &self.files[part];
        let content =
            fs::read(file).map_err(|error| SweepError::file(file, format_args!("cannot be read: {error}")))?;
        read_parquet(content, |_| true).map_err(|error| SweepError::file(file, error))
    }

    /// Adds a part, as [`written`] makes it.
    ///
    /// # Errors
    /// If it cannot be written, or is none.
    pub(crate) fn add(&mut self, content: Vec<u8>) -> Result<(), SweepError> {
        let name = format!("{}{}{}", NAME.0, hex(&Sha256::digest(&content)), NAME.1);
        let file = self.parts.path().join(name);
        // The name is the hash of the content, so writing the same part twice changes nothing.
        let written = self.parts.write(&file, &content);
        written.map_err(|error| SweepError::file(&file, format_args!("cannot be written: {error}")))?;
        let keys = keys(content).map_err(|why| SweepError::file(&file, why))?;
        self.index(file, keys);
        Ok(())
    }

    /// Writes a file beside the parts, whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, SweepError> {
        let file = self.out.join(name);
        // What is not whole yet is among the parts, where it is cleared away.
        let written = self.parts.write(&file, content);
        written.map_err(|error| SweepError::file(&file, format_args!("cannot be written: {error}")))?;
        Ok(file)
    }
}

/// Rows as a part.
///
/// # Errors
/// If they cannot be written as Parquet.
pub(crate) fn written(columns: Vec<ResultColumn>) -> Result<Vec<u8>, SweepError> {
    let table = ResultTable { name: "sweep", columns };
    table.parquet().map_err(SweepError::new)
}

/// The keys of a part of this name, if it is what it was.
fn part(file: &Path, sum: &str) -> Result<Vec<String>, String> {
    let content = fs::read(file).map_err(|error| format!("cannot be read: {error}"))?;
    if hex(&Sha256::digest(&content)) != sum {
        return Err("has changed since it was written".to_owned());
    }
    keys(content)
}

fn keys(content: Vec<u8>) -> Result<Vec<String>, String> {
    let columns = read_parquet(content, |name| name == "key");
    let columns = columns.map_err(|error| format!("is no part of a sweep: {error}"))?;
    let key = columns.into_iter().find(|column| column.name == "key");
    let cells = key.ok_or("is no part of a sweep: it has no column 'key'")?.cells;
    let key = |cell| match cell {
        TableCell::Text(key) => Ok(key),
        _ => Err("is no part of a sweep: a row has no key".to_owned()),
    };
    cells.into_iter().map(key).collect()
}
