//! libFuzzer over one target of `destage-hostile`, which the environment variable
//! `DESTAGE_FUZZ_TARGET` names. The rest of the command line is libFuzzer's. Called by
//! `scripts/fuzz`.

#![no_main]

use std::sync::OnceLock;

use destage_hostile::{Target, target, targets};
use libfuzzer_sys::fuzz_target;

/// The target to fuzz; none for the canary.
static CHOSEN: OnceLock<Option<&'static Target>> = OnceLock::new();

fn chosen() -> Option<&'static Target> {
    let name = std::env::var("DESTAGE_FUZZ_TARGET").unwrap_or_default();
    if name == "canary" {
        return None;
    }
    let known = target(&name);
    assert!(known.is_some(), "DESTAGE_FUZZ_TARGET is \"{name}\", expected one of {}", names());
    known
}

fn names() -> String {
    targets().iter().map(|target| target.name).collect::<Vec<_>>().join(", ")
}

/// Fails on purpose, on input that only a fuzzer that sees comparisons finds: one that does not
/// find it finds nothing.
fn canary(bytes: &[u8]) {
    let number = bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    assert!(number != Some(0x6465_7374), "the canary was found");
}

/// With `DESTAGE_FUZZ_TARGET=list`: the targets, one to a line, and nothing else.
fn list() {
    if std::env::var("DESTAGE_FUZZ_TARGET").is_ok_and(|name| name == "list") {
        for target in targets() {
            println!("{} {} {}", target.name, target.max_bytes, target.what);
        }
        std::process::exit(0);
    }
}

fuzz_target!(init: list(), |bytes: &[u8]| match CHOSEN.get_or_init(chosen) {
    Some(target) => target.check(bytes),
    None => canary(bytes),
});
