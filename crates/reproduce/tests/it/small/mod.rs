//! A small paper with a workload of its own.

use std::path::Path;

use destage_reproduce::paper::PaperFile;

/// The paper of this text, whose `WORKLOAD` is the one of the other text, in a file `few.toml` in the folder.
pub(crate) fn paper(folder: &Path, text: &str, workload: &str) -> Result<PaperFile, String> {
    let file = folder.join("few.toml");
    std::fs::write(&file, workload).expect("a file");
    let text = text.replace("WORKLOAD", file.to_str().expect("UTF-8"));
    PaperFile::parse(Path::new("small.toml"), &text).map_err(|error| error.to_string())
}
