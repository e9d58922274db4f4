//! The files of a recording: blktrace writes `NAME.blktrace.0`, `NAME.blktrace.1`, ..., one for
//! each CPU.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::error::{FilePlace, TraceError};

/// Files that a recording may have: the most CPUs that Linux can be built for.
const MAX_PARTS: usize = 8192;

/// Between a recording's name and the CPU's number.
const INFIX: &str = ".blktrace.";

/// The number in `NAME.blktrace.N` after `NAME`.
fn number(file: &OsStr, name: &str) -> Option<u32> {
    let digits = file.to_str()?.strip_prefix(name)?.strip_prefix(INFIX)?;
    // No signs, and no zeroes in front: each number has one file.
    let number: u32 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

/// The files of the recording `name` in a folder.
fn list(folder: &Path, name: &str) -> std::io::Result<Vec<PathBuf>> {
    let folder_or_here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder_or_here)? {
        numbers.extend(number(&entry?.file_name(), name));
    }
    numbers.sort_unstable();
    Ok(numbers.into_iter().map(|n| folder.join(format!("{name}{INFIX}{n}"))).collect())
}

fn split(path: &Path) -> Option<(&Path, &str)> {
    Some((path.parent()?, path.file_name()?.to_str()?))
}

/// The files of the recording, by number of the CPU, that a path names without being a file, `NAME`
/// or `NAME.blktrace`; none if it names none.
///
/// # Errors
/// If it has more files than there can be CPUs.
pub(super) fn recording(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    if path == Path::new("-") || path.exists() {
        return Ok(Vec::new());
    }
    let Some((folder, name)) = split(path) else { return Ok(Vec::new()) };
    let name = name.strip_suffix(".blktrace").unwrap_or(name);
    // A folder that cannot be listed is told when the path itself is opened.
    let files = list(folder, name).unwrap_or_default();
    if files.len() > MAX_PARTS {
        let reason = format!("has {} files, expected at most {MAX_PARTS}, one for each CPU", files.len());
        return Err(TraceError::new(path, FilePlace::File, reason));
    }
    Ok(files)
}

/// Of a file `NAME.blktrace.N`: the recording's name, and its other files that are not empty.
pub(super) fn other_parts(path: &Path) -> Option<(PathBuf, Vec<PathBuf>)> {
    let (folder, file) = split(path)?;
    let (name, _) = file.rsplit_once(INFIX)?;
    number(OsString::from(file).as_os_str(), name)?;
    let mut files = list(folder, name).ok()?;
    files.retain(|other| {
        other.file_name() != path.file_name() && std::fs::metadata(other).is_ok_and(|meta| meta.len() > 0)
    });
    (!files.is_empty()).then(|| (folder.join(name), files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_numbers_are_parts() {
        let number = |file: &str| number(OsStr::new(file), "sda");
        assert_eq!(number("sda.blktrace.0"), Some(0));
        assert_eq!(number("sda.blktrace.17"), Some(17));
        for other in
            ["sda.blktrace.", "sda.blktrace.01", "sda.blktrace.+1", "sda.blktrace.1.gz", "sdb.blktrace.1", "sda"]
        {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
