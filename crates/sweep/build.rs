//! Hashes everything that the results of this program depend on: the sources of all crates that decide about
//! results, and the versions of their dependencies. The command line and the Python package, built from the
//! same sources, get the same hash.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The crates that decide about results and rows; a test compares them with what this crate depends on.
const CRATES: [&str; 10] = ["plan", "delta", "raid", "cache", "policy", "trace", "sim", "scenario", "report", "sweep"];

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where the crate is"));
    let crates = here.parent().expect("it lies beside the others");
    let mut files = vec![crates.join("../Cargo.lock")];
    for name in CRATES {
        let of = crates.join(name);
        files.push(of.join("Cargo.toml"));
        println!("cargo::rerun-if-changed={}", of.join("src").display());
        add(&of.join("src"), &mut files);
    }
    println!("cargo::rerun-if-changed=build.rs");
    let mut all = Sha256::new();
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let content = fs::read(&file).unwrap_or_else(|error| panic!("{} cannot be read: {error}", file.display()));
        let name = file.strip_prefix(crates).unwrap_or(&file).display().to_string();
        for part in [name.as_bytes(), &content] {
            all.update((part.len() as u64).to_le_bytes());
            all.update(part);
        }
    }
    let hex = all.finalize().iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    println!("cargo::rustc-env=DESTAGE_PROGRAM={hex}");
}

/// All files of a folder, in the order of their names.
fn add(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{} cannot be read: {error}", folder.display()));
    let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            add(&entry, files);
        } else {
            files.push(entry);
        }
    }
}
