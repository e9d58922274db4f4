//! Checks that cargo builds this crate as an extension of Python's.
//!
//! The test is also the reason for which `cargo test` builds the crate, with everything that it shares with other
//! crates built once. scripts/python-test has Python test it.

use std::path::PathBuf;

/// The library, beside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("this test is a file");
    test.with_file_name(format!("{}_destage{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX))
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn the_library_has_what_python_looks_for_and_links_nothing_of_python() {
    let library = library();
    let bytes = std::fs::read(&library).unwrap_or_else(|error| panic!("{}: {error}", library.display()));
    assert!(holds(&bytes, "PyInit__destage"), "Python looks for this name");
    assert!(!holds(&bytes, "libpython3"), "it works with every Python from 3.11 on");
}
