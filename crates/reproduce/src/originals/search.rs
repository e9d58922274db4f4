//! Searches folders for traces.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::paper::PaperFile;

use super::catalogue::TraceCatalogue;
use super::recogniser::{FoundFile, TraceRecogniser};
use super::verdict::TraceVerdict;

/// Counts the folders within folders that are looked into.
pub const FOLDERS_DEEP: usize = 16;
/// Counts the files that are looked at together, over all threads.
const AT_A_TIME: usize = 64;

/// Says what a pipe or a device is.
const NEITHER: &str = "is neither a file nor a folder";

/// Tells what was found in some folders.
#[derive(Clone, Debug, Default)]
pub struct FoundTraces {
    /// Lists the files that are traces, or look like ones, in the order of their paths within a folder.
    pub files: Vec<FoundFile>,
    /// Counts the other files.
    pub others: u64,
    /// Says what could not be looked at, and why.
    pub skipped: Vec<String>,
}

/// Looks at every file in a folder and the folders in it, or at the one file that `folder` is, as many at a time as the current rayon pool has threads. `step` hears
/// of each file before it is looked at. Links are followed, but no folder is looked into twice.
pub fn search(
    catalogue: &TraceCatalogue,
    wanted: Option<&BTreeSet<String>>,
    folder: &Path,
    step: &(dyn Fn(&Path) + Sync),
) -> FoundTraces {
    let recogniser = TraceRecogniser::new(catalogue, wanted);
    let mut found = FoundTraces::default();
    let mut walk = FolderWalk { to_do: vec![(folder.to_owned(), 0)], known: BTreeSet::new(), files: Vec::new() };
    loop {
        walk.fill(&mut found.skipped);
        if walk.files.is_empty() {
            return found;
        }
        let files = std::mem::take(&mut walk.files);
        // Files are looked at side by side, but few at a time: each takes memory for its pages.
        for part in files.chunks(AT_A_TIME) {
            let look = |file: &PathBuf| {
                step(file);
                recogniser.look(file)
            };
            let looked: Vec<FoundFile> = part.par_iter().map(look).collect();
            let (other, traces): (Vec<_>, Vec<_>) =
                looked.into_iter().partition(|file| matches!(file.verdict, TraceVerdict::NoTrace { .. }));
            found.others += other.len() as u64;
            found.files.extend(traces);
        }
    }
}

/// Walks through folders, one at a time.
struct FolderWalk {
    /// Holds folders to look into, the next one last, and how deep they lie.
    to_do: Vec<(PathBuf, usize)>,
    /// Holds device and inode of those that were.
    known: BTreeSet<(u64, u64)>,
    /// Holds the files of the last one.
    files: Vec<PathBuf>,
}

impl FolderWalk {
    /// Reads folders until there are files to look at.
    fn fill(&mut self, skipped: &mut Vec<String>) {
        while self.files.is_empty() {
            let Some((folder, depth)) = self.to_do.pop() else { return };
            let mut skip =
                |path: &Path, why: &dyn std::fmt::Display| skipped.push(format!("{}: {why}", path.display()));
            match fs::metadata(&folder) {
                Ok(meta) if meta.is_file() => {
                    self.files.push(folder);
                    continue;
                }
                Ok(meta) if !meta.is_dir() => {
                    skip(&folder, &NEITHER);
                    continue;
                }
                // Links may lead back to a folder that was seen.
                Ok(meta) if !self.known.insert((meta.dev(), meta.ino())) => continue,
                Ok(_) => {}
                Err(error) => {
                    skip(&folder, &error);
                    continue;
                }
            }
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) => {
                    skip(&folder, &error);
                    continue;
                }
            };
            let mut paths = Vec::new();
            for entry in entries {
                match entry {
                    Ok(entry) => paths.push(entry.path()),
                    Err(error) => skip(&folder, &error),
                }
            }
            // The order of a folder is the file system's; sorted, two searches find the same first.
            paths.sort();
            let mut within = Vec::new();
            for path in paths {
                // Of a pipe or a device nothing is known that could be read to its end.
                match fs::metadata(&path) {
                    Ok(meta) if meta.is_file() => self.files.push(path),
                    Ok(meta) if meta.is_dir() && depth < FOLDERS_DEEP => within.push((path, depth + 1)),
                    Ok(meta) if meta.is_dir() => {
                        skip(&path, &format_args!("lies more than {FOLDERS_DEEP} folders deep"));
                    }
                    Ok(_) => skip(&path, &NEITHER),
                    Err(error) => skip(&path, &error),
                }
            }
            self.to_do.extend(within.into_iter().rev());
        }
    }
}

impl FoundTraces {
    /// Looks in some folders for the traces that papers name.
    pub fn for_papers(
        catalogue: &TraceCatalogue,
        papers: &[PaperFile],
        folders: &[PathBuf],
        step: &(dyn Fn(&Path) + Sync),
    ) -> Self {
        let workloads = papers.iter().flat_map(|paper| &paper.workload);
        let wanted: BTreeSet<String> = workloads.filter_map(|workload| workload.trace.clone()).collect();
        let mut all = Self::default();
        for folder in folders.iter().filter(|_| !wanted.is_empty()) {
            all.extend(search(catalogue, Some(&wanted), folder, step));
        }
        all.files.retain(|file| file.verdict.trace().is_some_and(|trace| wanted.contains(trace)));
        all
    }

    /// Adds what was found elsewhere.
    pub fn extend(&mut self, other: Self) {
        self.files.extend(other.files);
        self.others += other.others;
        self.skipped.extend(other.skipped);
    }

    /// Returns the file that can take the place of a trace: the first that is one, else the first that is as long, else the first that
    /// is named and formatted like one of which nothing is published.
    pub fn of(&self, trace: &str) -> Option<&FoundFile> {
        let mut files: Vec<&FoundFile> = self.files.iter().filter(|file| file.verdict.trace() == Some(trace)).collect();
        files.retain(|file| file.verdict.is_usable());
        files.sort_by_key(|file| std::cmp::Reverse(file.verdict.rank()));
        files.first().copied()
    }

    /// Returns what speaks against taking a file for a trace by its name alone: it is another, a part of it, or cannot be read to its
    /// end.
    pub fn refusal(&self, path: &Path, trace: &str) -> Option<&FoundFile> {
        let is_it = |file: &FoundFile| file.verdict.is_usable() && file.verdict.trace() == Some(trace);
        self.files.iter().find(|file| file.path == path && !is_it(file))
    }
}
