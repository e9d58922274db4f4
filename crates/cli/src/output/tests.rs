use std::io::Write;
use std::os::unix::fs::symlink;

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

fn outputs() -> CommandOutputs {
    CommandOutputs::apart_from([] as [PathBuf; 0]).unwrap()
}

#[test]
fn a_name_has_its_content_only_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    std::fs::write(&one, "old").unwrap();
    let mut all = outputs();
    let mut files = [all.file(&one).unwrap(), all.file(&two).unwrap()];
    for file in &mut files {
        file.write_all(b"new").unwrap();
        file.flush().unwrap();
    }
    assert_eq!(std::fs::read(&one).unwrap(), b"old");
    assert!(!two.exists());
    all.commit(files).unwrap();
    assert_eq!((std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap()), (b"new".to_vec(), b"new".to_vec()));
    assert_eq!(names(folder.path()), ["one", "two"]);
}

#[test]
fn one_that_cannot_be_completed_keeps_all_from_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let one = folder.path().join("one");
    let mut all = outputs();
    let mut files = [all.file(&one).unwrap(), all.file(Path::new("/dev/full")).unwrap()];
    for file in &mut files {
        file.write_all(b"new").unwrap();
    }
    let error = all.commit(files).unwrap_err();
    assert!(format!("{error:#}").starts_with("cannot write /dev/full: No space left on device"), "{error:#}");
    assert!(names(folder.path()).is_empty());
}

#[test]
fn folders_stay_only_with_something_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let deeper = folder.path().join("a/b/../c/");
    let mut all = outputs();
    drop(all.folder(&deeper, &["page"]).unwrap());
    assert!(folder.path().join("a/c").is_dir());
    drop(all);
    assert!(names(folder.path()).is_empty());
    let mut all = outputs();
    let files = all.folder(&deeper, &["page"]).unwrap();
    all.commit(files.into_iter().map(|(_, file)| file)).unwrap();
    drop(all);
    assert_eq!(names(&folder.path().join("a/c")), ["page"]);
    // A file has the name.
    assert!(outputs().folder(&folder.path().join("a/c/page"), &["page"]).is_err());
    assert!(outputs().folder(&folder.path().join("a/c/page/d"), &["page"]).is_err());
}

#[test]
fn what_only_swallows_may_be_named_twice() {
    let mut all = outputs();
    let files = [all.file(Path::new("/dev/null")).unwrap(), all.file(Path::new("/dev/null")).unwrap()];
    assert!(files.iter().all(NewFile::is_direct));
    all.commit(files).unwrap();
    assert!(all.file(Path::new("-")).is_ok() && all.file(Path::new("-")).is_err());
}

#[test]
fn links_in_a_circle_are_no_place() {
    let folder = tempfile::tempdir().unwrap();
    symlink("b", folder.path().join("a")).unwrap();
    symlink("a", folder.path().join("b")).unwrap();
    assert!(outputs().file(&folder.path().join("a")).is_err());
    assert_eq!(names(folder.path()), ["a", "b"]);
}
