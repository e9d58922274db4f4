//! Puts older copies of an array's own files back before a start.

use std::path::PathBuf;
use std::rc::Rc;

use destage_exec::RecordingOs;
use destage_plan::{Dev, DevSet};

use super::{FileLife, FilesReport, HistoryScene, KnownArray, LifeOutcome};
use crate::RandomDraws;

/// Holds what each file held.
#[derive(Debug)]
pub(super) struct OldContents(Vec<(PathBuf, Vec<u8>)>);

/// Lists the files of an array: its devices, the NVRAM if that has a file of its own, the intents.
fn files_of(scene: &HistoryScene, known: &KnownArray) -> Vec<PathBuf> {
    let config = scene.config(&known.paths);
    let own = scene.home.is_none().then(|| config.nvram_path().to_owned());
    known.paths.iter().cloned().chain(own).chain([config.intents.clone()]).collect()
}

impl OldContents {
    /// Copies all files as they are; none if one is not there.
    fn of(scene: &HistoryScene, os: &RecordingOs, known: &KnownArray) -> Option<Self> {
        let copied = files_of(scene, known).into_iter().map(|path| os.content(&path).map(|bytes| (path, bytes)));
        copied.collect::<Option<_>>().map(Self)
    }

    /// Puts some of those back that differ; returns what was there.
    fn put_back(
        &self,
        scene: &HistoryScene,
        os: &RecordingOs,
        known: &KnownArray,
        dice: &mut RandomDraws,
    ) -> Vec<(PathBuf, Vec<u8>)> {
        let mut chosen = files_of(scene, known);
        let left_out = match dice.below(3) {
            // All but one.
            0 => 1,
            // Exactly two files are put back: two older copies may agree with each other.
            1 => chosen.len() as u64 - 2,
            _ => chosen.len() as u64 - 1,
        };
        for _ in 0..left_out {
            chosen.swap_remove(dice.below(chosen.len() as u64) as usize);
        }
        let mut before = Vec::new();
        for (path, bytes) in self.0.iter().filter(|copy| chosen.contains(&copy.0)) {
            if let Some(now) = os.content(path).filter(|now| now != bytes) {
                os.put(path, bytes);
                before.push((path.clone(), now));
            }
        }
        before
    }
}

impl<'a> FileLife<'a> {
    /// Opens what an earlier life left with older copies of some files in it, if there are any. None if nothing is put
    /// back, or it was refused: all is again as it was left then, but for what a start that is refused changes.
    pub(super) fn open_with_copies(
        scene: &'a HistoryScene,
        os: &RecordingOs,
        known: &mut KnownArray,
        dice: &mut RandomDraws,
        report: &mut FilesReport,
    ) -> Result<Option<Self>, String> {
        // Older copies of an array with losses may be all that is left of it, and nothing could be demanded then.
        if known.depth > 1 || !known.is_whole() {
            return Ok(None);
        }
        let Some(copies) = known.copies.take() else {
            known.copies = OldContents::of(scene, os, known).map(Rc::new);
            return Ok(None);
        };
        if dice.one_in(2) {
            // Mostly a later start sees the copies, when the event counts have gone further apart.
            known.copies = Some(copies).filter(|_| !dice.one_in(3));
            return Ok(None);
        }
        let before = copies.put_back(scene, os, known, dice);
        if before.is_empty() {
            return Ok(None);
        }
        let old: DevSet = (0..known.paths.len() as u8)
            .map(Dev)
            .filter(|dev| before.iter().any(|(path, _)| *path == known.paths[dev.index()]))
            .collect();
        let mut with_copies = KnownArray { has_copies: true, ..known.clone() };
        with_copies.down |= old;
        with_copies.lost |= old & scene.members();
        // A start that counts a member as missing may find torn rows with data of it.
        with_copies.excused |= !with_copies.lost.is_empty();
        if scene.holder().is_some_and(|holder| old.contains(holder)) {
            with_copies.doubt_all(scene);
        }
        scene.diary.note(|| format!("older copies: {:?}", before.iter().map(|copy| &copy.0).collect::<Vec<_>>()));
        let opened = Self::open_as_left(scene, os.clone(), with_copies.clone(), dice.clone(), report)?;
        if let Some(mut life) = opened {
            if matches!(life.ready(report)?, LifeOutcome::Refused) {
                // The files are not put back at once: devices that the start found stale are not the array's any
                // more.
                *known = with_copies;
                return Ok(None);
            }
            report.copied[0] += 1;
            life.known.has_copies = false;
            return Ok(Some(life));
        }
        report.copied[1] += 1;
        scene.diary.note(|| "they are taken away again".to_owned());
        for (path, bytes) in before {
            os.put(&path, &bytes);
        }
        // Those moments hold the older copies, which the answer to this start has ruled out.
        drop(os.take_moments());
        Ok(None)
    }
}
