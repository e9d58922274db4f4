//! Copies a member that answers to the file that takes its place, while requests are served.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use destage_exec::{DroppedSuccessor, FileProbe, FilesError, SuccessionPhase, SuccessorLabelling};
use destage_plan::{Dev, path_text};

use super::{ArrayBackend, ArraySnapshot, SETTLES};
use crate::replacement::check_member;
use crate::status::SuccessorStatus;
use crate::{ArrayDescription, DescriptionError, DeviceReplacement, ReplaceError, ReplaceOutcome, ServiceEvent, holes};

/// Sets how often a file is looked after that something is still being written to.
const AGAIN: Duration = Duration::from_millis(10);

/// Holds a file whose member was lost while it was copied to it: it is filled from the others, once nothing more is
/// written to it.
#[derive(Debug)]
pub(super) struct WaitingReplacement {
    dev: Dev,
    path: PathBuf,
    until: Instant,
    /// Asks the file whether it answers.
    probe: Option<FileProbe>,
}

impl ArrayBackend {
    /// Returns true if an order is one to copy a member, which answers, to another file.
    pub(super) fn is_copied_for(&self, replacement: &DeviceReplacement) -> bool {
        let Some(number) = self.device_numbered(&replacement.device) else { return false };
        let own = &self.files.config().devices[number].path;
        let names_other = replacement.path.as_ref().is_some_and(|path| path != own);
        names_other && !replacement.takes_out && self.files.copies(Dev(number as u8))
    }

    /// Begins to copy a member.
    pub(super) fn begin_copy(
        &mut self,
        dev: Dev,
        replacement: &DeviceReplacement,
    ) -> Result<ReplaceOutcome, ReplaceError> {
        if let Some((copied, path, _)) = self.files.succession() {
            return Err(ReplaceError::Copying { device: self.device_name(copied), path: path_text::of(path) });
        }
        let path = replacement.path.clone().unwrap_or_default();
        if replacement.force {
            self.files.begin_succession_over(dev, &path)?;
        } else {
            self.files.begin_succession(dev, &path)?;
        }
        self.untold.push(ServiceEvent::RebuildStarted { device: self.device_name(dev), path: path_text::of(&path) });
        Ok(ReplaceOutcome::Copying)
    }

    /// Returns the member that is being copied, and how many percent of its rows are.
    pub(super) fn copying(&self) -> Option<(Dev, f64)> {
        let (dev, _, phase) = self.files.succession()?;
        let rows = self.files.engine().controller().array().copying().map(|copying| copying.1);
        let percent = rows.map(|rows| 100.0 * rows as f64 / self.geometry.member_pages() as f64);
        Some((dev, percent.filter(|_| phase == SuccessionPhase::Copying).unwrap_or(100.0)))
    }

    /// Returns the file that is to take a device's place, if there is one, and how far it is.
    pub(super) fn successor_status(&self, dev: Dev) -> Option<SuccessorStatus> {
        let (_, path, _) = self.files.succession().filter(|one| one.0 == dev)?;
        let (_, filled_percent) = self.copying()?;
        Some(SuccessorStatus { path: path_text::of(path), filled_percent })
    }

    /// Goes on with the copying of a member, and has the file take its place.
    pub(super) fn go_on_copying(&mut self) -> Result<(), FilesError> {
        // A turn without a successor looks for one once, and costs no more.
        if self.files.succession().is_some() {
            self.files.begin_hand_over();
            if let Some((dev, path, SuccessionPhase::Quiet)) = self.files.succession() {
                let path = path.to_owned();
                self.hand_over(dev, path)?;
            }
        }
        self.take_dropped();
        self.replace_lost();
        Ok(())
    }

    /// Has a file take the place of its member. The description says which of the two has it.
    fn hand_over(&mut self, dev: Dev, path: PathBuf) -> Result<(), FilesError> {
        // The label says whose place the file takes, and is durable before the description names the file. Either file
        // is the member until then.
        if self.files.label_successor()? != SuccessorLabelling::Durable {
            return Ok(());
        }
        let before = self.description.clone();
        self.description.set_device(dev.index(), &path);
        // The rename of the description is the one step by which the successor becomes the member. Before it nothing
        // has changed, so an error here drops the successor alone.
        if let Err(error) = self.description.put(&*self.os, &self.path) {
            self.description = before;
            return self.files.refuse_successor(io::Error::other(error.to_string()));
        }
        let synced = ArrayDescription::sync_name(&*self.os, &self.path);
        // After the rename a start would take the new file, so this one goes on with it, whether or not the name is
        // durable.
        self.files.hand_over()?;
        let (device, file) = (self.device_name(dev), path_text::of(&path));
        self.holes[dev.index()] = holes::are_made_in_each(vec![path])[0];
        self.untold.push(ServiceEvent::RebuildFinished { device: device.clone(), path: file.clone() });
        self.untold.push(ServiceEvent::DeviceReplaced { device: device.clone(), path: file.clone() });
        if let Err(error) = synced {
            let why = format!("it has taken it, but the description may not outlive the power: {error}");
            self.untold.push(ServiceEvent::ReplacementFailed { device, path: file, why });
        }
        Ok(())
    }

    /// Ends the copying of a member, before the array ends.
    pub(super) fn end_copy(&mut self) {
        // If the array has stopped, the next call returns why.
        drop(self.files.drop_successors());
        self.take_dropped();
        if let Some(waiting) = self.waiting.take() {
            self.note_failed(waiting.dev, &waiting.path, FilesError::StoppedBefore.to_string());
        }
    }

    /// Tells of a file that does not take its member's place, and whose member goes on.
    fn take_dropped(&mut self) {
        let Some(DroppedSuccessor { dev, path, why, is_fit }) = self.files.take_dropped_successor() else { return };
        if is_fit {
            // If the file cannot be asked, opening it will show why.
            let probe = self.files.ask_file(dev, &path).ok().flatten();
            // The file may still take writes that were begun for the copy: it is filled only once they have ended.
            self.waiting = Some(WaitingReplacement { dev, path, until: Instant::now() + SETTLES, probe });
        } else {
            self.note_failed(dev, &path, why.to_string());
        }
    }

    fn note_failed(&mut self, dev: Dev, path: &std::path::Path, why: String) {
        let (device, path) = (self.device_name(dev), path_text::of(path));
        self.untold.push(ServiceEvent::ReplacementFailed { device, path, why });
    }

    /// Puts a file in the place of a member that was lost while it was copied to it: as a lost one is replaced.
    fn replace_lost(&mut self) {
        let Some(WaitingReplacement { dev, path, until, mut probe }) = self.waiting.take() else { return };
        let is_over = Instant::now() >= until;
        let answered = match probe.as_mut().map(FileProbe::poll) {
            Some(None) if !is_over => {
                self.waiting = Some(WaitingReplacement { dev, path, until, probe });
                return;
            }
            Some(None) => Err(FilesError::Hangs(path.clone())),
            Some(Some(answered)) => answered,
            None => Ok(()),
        };
        // The array may have lost more meanwhile, and then nothing can fill the file.
        let checked = check_member(&**self.files.engine().controller(), self.files.status(), dev, true);
        let checked = checked.and_then(|()| Ok(answered?));
        let replaced = checked.and_then(|()| Ok(self.files.replace(dev, &path)?));
        match replaced {
            // The old writes are in flight: another try in a few milliseconds is likely to do.
            Err(ReplaceError::Files(FilesError::AtWork(_))) if !is_over => {
                self.waiting = Some(WaitingReplacement { dev, path, until, probe: None });
            }
            replaced => {
                let noted = replaced.and_then(|()| Ok(self.note_replaced(dev)?));
                if let Err(error) = noted {
                    let lost = FilesError::LostBefore(path.clone());
                    self.note_failed(dev, &path, format!("{lost}, and cannot be filled from the others: {error}"));
                }
            }
        }
    }

    /// Notes that another file has a device's place, and has the description name it.
    pub(super) fn note_replaced(&mut self, dev: Dev) -> Result<(), DescriptionError> {
        let (number, path) = (dev.index(), self.files.config().devices[dev.index()].path.clone());
        self.holes[number] = holes::are_made_in_each(vec![path.clone()])[0];
        self.untold.push(ServiceEvent::DeviceReplaced { device: self.device_name(dev), path: self.device_file(dev) });
        // A device made anew in its own file is named already.
        if path == self.device_path(number) {
            return Ok(());
        }
        self.description.set_device(number, &path);
        self.description.save(&*self.os, &self.path)
    }

    /// Tells how the copying of a member has gone on.
    pub(super) fn copying_news(&self, seen: ArraySnapshot, now: ArraySnapshot, tell: &mut dyn FnMut(ServiceEvent)) {
        if let (Some((before, tenths)), Some((dev, more))) = (seen.copying, now.copying)
            && before == dev
            && more > tenths
        {
            tell(ServiceEvent::RebuildProgress { device: self.device_name(dev), percent: more * 10 });
        }
    }

    /// Returns when a file is tried again, or looked after while it is asked or its label is written.
    pub(super) fn until_tried_again(&self) -> Option<Duration> {
        let looks_after = self.waiting.is_some() || self.probe.is_some() || self.files.is_labelling();
        looks_after.then_some(AGAIN)
    }
}
