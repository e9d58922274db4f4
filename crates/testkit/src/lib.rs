//! Helpers that the tests of several crates share. Only tests use this crate.

mod requests;
mod scripted_controller;
mod test_rng;

pub use requests::{ArraySizes, ExpectedContent, data, draw};
pub use scripted_controller::ScriptedController;
pub use test_rng::TestRng;

use tempfile::TempDir;

/// Makes a temporary folder for an array's files: in memory where possible, since most tests do not
/// ask what is durable.
pub fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder")
}

/// Returns true if `DESTAGE_SOAK` asks for many more cases.
pub fn soak() -> bool {
    std::env::var_os("DESTAGE_SOAK").is_some()
}
