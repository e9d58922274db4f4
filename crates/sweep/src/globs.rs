//! Names with `*` and `?`, as shells have them.

use std::path::{Component, Path, PathBuf};

use crate::SweepError;

/// Is true if the name is a pattern with `*` or `?`.
pub(crate) fn is_glob(name: &str) -> bool {
    name.contains(['*', '?'])
}

/// The files that a name stands for, in the order of their names. A name that begins with a point is only meant by one
/// that does too.
///
/// # Errors
/// If there is none, or a folder cannot be read.
pub(crate) fn expand(pattern: &Path) -> Result<Vec<PathBuf>, SweepError> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let Component::Normal(name) = part else {
            for path in &mut found {
                path.push(part);
            }
            continue;
        };
        let bytes = name.as_encoded_bytes();
        if bytes.windows(2).any(|two| two == b"**") {
            return Err(SweepError::file(pattern, "'**' is not known here: name the folders, such as */*.csv"));
        }
        if bytes.iter().any(|byte| b"*?".contains(byte)) {
            let mut within = Vec::new();
            for folder in &found {
                within.extend(matching(folder, bytes)?);
            }
            found = within;
        } else {
            for path in &mut found {
                path.push(name);
            }
        }
    }
    found.retain(|path| path.exists());
    // The order of a directory is the file system's, and plans must be reproducible.
    found.sort();
    if found.is_empty() { Err(SweepError::file(pattern, "there is no such file")) } else { Ok(found) }
}

/// Lists the entries of a folder whose names match the pattern; the order is the file system's.
fn matching(folder: &Path, pattern: &[u8]) -> Result<Vec<PathBuf>, SweepError> {
    let read = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    // A file where others have a folder has nothing in it.
    if !read.is_dir() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(read);
    let entries = entries.map_err(|error| SweepError::file(read, format_args!("cannot be read: {error}")))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    // Hidden files are meant only by patterns that begin with a dot, as in shells.
    let meant = |name: &[u8]| matches(pattern, name) && (pattern.starts_with(b".") || !name.starts_with(b"."));
    Ok(names.filter(|name| meant(name.as_encoded_bytes())).map(|name| folder.join(name)).collect())
}

/// `*` is any number of bytes, `?` one.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    // Where to go on if the last `*` stands for one byte more.
    let (mut at, mut of, mut again) = (0, 0, None);
    while at < name.len() {
        match pattern.get(of) {
            Some(b'*') => {
                again = Some((at, of));
                of += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[at] => {
                at += 1;
                of += 1;
            }
            _ => {
                let Some((from, star)) = again else { return false };
                again = Some((from + 1, star));
                (at, of) = (from + 1, star + 1);
            }
        }
    }
    pattern[of..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, name, is) in [
            ("*.csv", "hm_0.csv", true),
            ("*.csv", "hm_0.csv.gz", false),
            ("*_0*", "hm_0.csv.gz", true),
            ("hm_?.csv", "hm_0.csv", true),
            ("hm_?.csv", "hm_.csv", false),
            ("*a*ab", "aaab", true),
            ("*a*ab", "aaaba", false),
            ("*", "", true),
            ("?", "", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), is, "{pattern} {name}");
        }
    }

    #[test]
    fn files_come_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b/2.csv", "a/1.csv", "a/3.csv", "a/.hidden.csv", "a/4.txt"] {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        let found = expand(&folder.path().join("?/*.csv")).unwrap();
        let names: Vec<_> =
            found.iter().map(|file| file.strip_prefix(folder.path()).unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a/1.csv", "a/3.csv", "b/2.csv"]);
        assert!(expand(&folder.path().join("c*/x")).unwrap_err().to_string().contains("there is no such file"));
        assert!(expand(&folder.path().join("**/x")).unwrap_err().to_string().contains("'**'"));
    }
}
