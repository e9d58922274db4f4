//! Seeds of the fuzz target of results: they are results of this version, or nothing behind the check of that is tried.

use std::fs;
use std::path::Path;

#[test]
fn seeds_of_results_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/results");
    let mut seeds = 0;
    for seed in fs::read_dir(&folder).expect("seeds") {
        let path = seed.expect("a seed").path();
        let bytes = fs::read(&path).expect("a file");
        let runs = destage_report::read("seed", &bytes);
        let runs = runs.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(!runs.is_empty());
        seeds += 1;
    }
    assert!(seeds >= 3, "{seeds} seeds");
}
