//! Real traces: those that belong to the project, and those that lie beside the checkout.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use destage_plan::Request;
use destage_trace::{OpenOptions, TraceSource, open};

/// The project's own traces.
const OWN: [&str; 4] = ["own.oltp-pgbench-ext4", "own.install-ext4", "own.copy-media-ext4", "own.tree-xfs"];

/// Files of the project.
pub(crate) fn own() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    OWN.iter().map(|name| folder.join(format!("{name}.destage"))).collect()
}

/// A file of the shared folder beside the checkout, if that is there.
pub(crate) fn shared(test: &str, file: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("DESTAGE_SHARED").map_or_else(beside, PathBuf::from).join("traces");
    if folder.is_dir() {
        return Some(folder.join(file));
    }
    // Past the test harness, which keeps what a passing test prints.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: no folder shared/traces");
    None
}

/// Up to so many requests of a trace.
pub(crate) fn requests(file: &Path, most: usize) -> Arc<Vec<Request>> {
    let mut trace = open(file, &OpenOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    while all.len() < most {
        trace.next_batch(&mut batch).unwrap_or_else(|error| panic!("{error}"));
        if batch.is_empty() {
            break;
        }
        all.extend_from_slice(&batch);
    }
    all.truncate(most);
    Arc::new(all)
}
