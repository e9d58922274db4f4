//! What the tests of several crates share. Only tests use it.

mod dice;
mod requests;
mod script;

pub use dice::Dice;
pub use requests::{Content, Sizes, data, draw};
pub use script::Script;

use tempfile::TempDir;

/// A folder for an array's files; in memory if this machine can, since what is durable is not what
/// most tests ask.
pub fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder")
}

/// Whether many more cases are wanted.
pub fn soak() -> bool {
    std::env::var_os("DESTAGE_SOAK").is_some()
}
