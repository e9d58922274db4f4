//! Tests that an entry is given back whole or its fault is reported, and that an unfinished entry leaves no
//! file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use destage_report::kept::{ResultCache, ResultKey};

/// A folder with a program and results kept by it.
struct Here(tempfile::TempDir);

impl Here {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("program"), "a program").expect("a file");
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("kept")
    }

    fn open(&self) -> ResultCache {
        ResultCache::open(&self.path(), &self.0.path().join("program")).expect("a folder")
    }

    fn files(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.path()).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect()
    }

    /// The only entry.
    fn entry(&self) -> PathBuf {
        let files = self.files();
        assert_eq!(files.len(), 1, "{files:?}");
        self.path().join(files.first().expect("a file"))
    }
}

fn key(kept: &ResultCache, parts: &[&str]) -> ResultKey {
    let mut key = kept.key();
    for part in parts {
        key.part(part);
    }
    key
}

fn get(kept: &ResultCache, key: &ResultKey) -> Result<Option<(String, f64)>, String> {
    kept.get_one(key).map_err(|error| error.to_string())
}

#[test]
fn what_was_kept_is_there_under_its_key_alone() {
    let here = Here::new();
    let kept = here.open();
    let result = ("a result".to_owned(), 0.1 + 0.2);
    let under = key(&kept, &["a", "bc"]);
    assert_eq!(get(&kept, &under), Ok(None));
    kept.put_one(&under, &result).expect("it is written");
    assert_eq!(get(&kept, &under), Ok(Some(result.clone())));
    // Parts do not run into each other.
    for other in [&["ab", "c"][..], &["abc"], &["a", "bc", ""], &["bc", "a"], &[]] {
        assert_eq!(get(&kept, &key(&kept, other)), Ok(None), "{other:?}");
    }
    assert_eq!(get(&here.open(), &under), Ok(Some(result)), "another process");
    fs::write(here.0.path().join("program"), "another program").expect("a file");
    let other = here.open();
    assert_eq!(get(&other, &key(&other, &["a", "bc"])), Ok(None), "another program");
}

#[test]
fn no_changed_entry_is_taken_for_a_result() {
    let here = Here::new();
    let kept = here.open();
    let under = key(&kept, &["a run"]);
    kept.put_one(&under, &("a result", 1.5)).expect("it is written");
    let entry = here.entry();
    let whole = fs::read(&entry).expect("an entry");
    let refused = |content: &[u8]| {
        fs::write(&entry, content).expect("an entry");
        let error = get(&kept, &under).expect_err("it is not what was kept");
        assert!(error.starts_with(&entry.display().to_string()) && error.contains("is no entry of results"), "{error}");
    };
    for at in 0..whole.len() {
        refused(&whole[..at]);
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        refused(&flipped);
    }
    refused(&[&whole[..], b" "].concat());
    // Its sum holds, but it is of another kind.
    kept.put_one(&under, &["a", "list"]).expect("it is written");
    let error = get(&kept, &under).expect_err("it is something else");
    assert!(error.contains("does not hold one result"), "{error}");
    // It can be replaced, unless it is no file.
    kept.put_one(&under, &("a result", 1.5)).expect("it is written");
    assert_eq!(fs::read(&entry).expect("an entry"), whole);
    fs::remove_file(&entry).expect("an entry");
    fs::create_dir(&entry).expect("a folder");
    let error = get(&kept, &under).expect_err("it is a folder");
    assert!(error.contains("cannot be read"), "{error}");
    let error = kept.put_one(&under, &1).expect_err("it is a folder").to_string();
    assert!(error.contains("cannot be written"), "{error}");
    assert_eq!(here.entry(), entry, "nothing else is left");
}

#[test]
fn what_was_left_half_written_goes_once_nobody_else_writes() {
    let here = Here::new();
    fs::create_dir(here.path()).expect("a folder");
    let names = [".destage-kept-17-0.part", ".destage-kept-4711-23.part"];
    let others = [".destage-17-0.part", ".destage-kept-mine.part", ".destage-kept-17-0.part.txt", "precious.json"];
    let make = |name: &str| fs::write(here.path().join(name), "half").expect("a file");
    for name in names.iter().chain(&others) {
        make(name);
    }
    let of = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
    let first = here.open();
    assert_eq!(here.files(), of(&others));
    // Now it may be what the first is about to write.
    make(names[0]);
    let second = here.open();
    assert!(here.files().contains(names[0]));
    drop(first);
    here.open();
    assert!(here.files().contains(names[0]), "the second is still there");
    drop(second);
    here.open();
    assert_eq!(here.files(), of(&others));
}

#[test]
fn a_folder_that_cannot_be_written_to_is_told_at_once() {
    let here = Here::new();
    let file = here.0.path().join("program");
    let open =
        |folder: &Path, program: &Path| ResultCache::open(folder, program).expect_err("it cannot be").to_string();
    assert!(open(&file, &file).contains("program: cannot be made"));
    assert!(open(&here.path(), &here.0.path().join("nothing")).contains("nothing: cannot be read"));
}
