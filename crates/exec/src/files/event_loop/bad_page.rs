//! Finds out which page of a read a member cannot read.

use std::io;

use destage_plan::{BadPage, Controller, Dev, Ext, PageFate, PageReport, Step, StepOutcome};
use rustix::io::Errno;

use super::device::PageSearch;
use super::executor::FileExecutor;
use crate::bytes::checksum;
use crate::files::error::FilesError;
use crate::files::io::backend::CommandBackend;
use crate::files::io::command::{CommandFailure, DeviceAction, DeviceCommand};

/// Bounds the reports that are kept until somebody asks for them.
// A failing member can report pages faster than anybody fetches them. The counters
// still see every page.
const MOST_REPORTS: usize = 1 << 10;

/// Returns true if an error says that a device, or a file system, cannot read what was asked for, and not that it is gone:
/// an error of the medium, of integrity, or just of I/O, as most say.
fn is_of_medium(failure: &CommandFailure) -> bool {
    matches!(
        Errno::from_io_error(&failure.source),
        Some(Errno::IO | Errno::NODATA | Errno::ILSEQ | Errno::BADMSG | Errno::UCLEAN)
    )
}

impl<C: Controller> FileExecutor<C> {
    /// Returns the first page of what was read that is not what was written there, if checksums of it are kept.
    pub(super) fn mismatch(&mut self, ext: Ext, bytes: &[u8]) -> Option<BadPage> {
        let dev = ext.dev();
        // Only a cache keeps checksums, since its log has room for them. Of members
        // nothing of the kind is known.
        let checksums = self.engine.controller().checksums().filter(|checksums| checksums.dev() == dev)?;
        let page = checksum::mismatch(checksums, ext, bytes)?;
        self.devices[dev.index()].traffic.mismatches += 1;
        Some(BadPage { dev, page })
    }

    /// Returns true if the controller can do without a page of a device that answers otherwise.
    fn may_miss_pages(&self, dev: Dev) -> bool {
        let of_cache = || self.engine.controller().checksums().is_some_and(|checksums| checksums.dev() == dev);
        // The cache plans without any page of its device, and a member's page is
        // made up from the others.
        dev.index() < self.config.members || of_cache()
    }

    /// Takes a read of a member that ended, if it is one that is tried page by page or is to be, and a write of a page that
    /// was tried. What is left for the caller is one that is done, or that failed for good.
    #[cold]
    pub(super) fn search_bad_page(
        &mut self,
        dev: Dev,
        command: DeviceCommand,
        done: Result<(), CommandFailure>,
    ) -> Option<(DeviceCommand, Result<(), CommandFailure>)> {
        let Some(issue) = command.issue else { return Some((command, done)) };
        // The array writes a repaired page as an attempt. A device that cannot even
        // write it is not lost for that.
        if let (Step::Write { ext, .. }, Err(failure)) = (self.engine.step(issue), &done)
            && self.engine.out().is_attempt(issue.op)
            && !self.devices[dev.index()].failed
            && is_of_medium(failure)
        {
            let page = BadPage { dev, page: ext.first() };
            self.bytes.give_back(command.bytes);
            self.end_step(dev, issue, StepOutcome::Unreadable(page));
            return None;
        }
        let searches = &mut self.devices[dev.index()].searches;
        let known = searches.iter().position(|search| search.issue == issue);
        // Only reads of plans are searched. Marks and lists of bad pages are small,
        // and are written anew as a whole.
        let (Step::Read { ext, .. } | Step::Duplicate { ext, .. }) = *self.engine.step(issue) else {
            return Some((command, done));
        };
        let DeviceAction::Read { offset } = command.work else { return Some((command, done)) };
        let failed = self.devices[dev.index()].failed;
        let may_miss_pages = self.may_miss_pages(dev);
        let searches = &mut self.devices[dev.index()].searches;
        match (known, done) {
            (None, Ok(())) => Some((command, Ok(()))),
            // The device failed meanwhile: which page it was is of no interest any
            // more.
            (_, done) if failed => {
                searches.retain(|search| search.issue != issue);
                Some((command, done))
            }
            (Some(at), Ok(())) => {
                searches[at].at += 1;
                if searches[at].at < searches[at].pages {
                    self.try_page(dev, at, command);
                    return None;
                }
                // All of them could be read one by one.
                let search = searches.swap_remove(at);
                let page = self.engine.shape().page_bytes() as usize;
                let range = search.start..search.start + usize::from(search.pages) * page;
                Some((DeviceCommand { range, ..command }, Ok(())))
            }
            (known, Err(failure)) => {
                // A device that is gone answers with another error.
                if !may_miss_pages || !is_of_medium(&failure) {
                    searches.retain(|search| search.issue != issue);
                    return Some((command, Err(failure)));
                }
                // A long read names no page. The array needs to know which one to
                // make anew, and which are good.
                if known.is_none() && ext.pages() > 1 {
                    let search = PageSearch { issue, start: command.range.start, offset, pages: ext.pages(), at: 0 };
                    searches.push(search);
                    let at = searches.len() - 1;
                    self.try_page(dev, at, command);
                    return None;
                }
                let nth = known.map_or(0, |at| searches.swap_remove(at).at);
                let page = BadPage { dev, page: ext.first() + u64::from(nth) };
                self.bytes.give_back(command.bytes);
                self.end_step(dev, issue, StepOutcome::Unreadable(page));
                None
            }
        }
    }

    /// Takes in what became of pages that members could not read. One that has too many of them is used no more.
    pub(super) fn take_page_reports(&mut self) -> Result<(), FilesError> {
        while let Some(report) = self.engine.next_report() {
            let dev = report.page.dev;
            self.bad_pages.note(report);
            self.devices[dev.index()].traffic.corrected += u64::from(report.fate == PageFate::Corrected);
            let why = match report.fate {
                PageFate::Corrected
                | PageFate::Lost
                | PageFate::Missing
                | PageFate::Unwritable
                | PageFate::Dropped
                | PageFate::Mismatched
                | PageFate::Rewritten
                | PageFate::DirtyLost(_) => None,
                // Without it the NVRAM would be lost.
                // The controller would lose the NVRAM with the device.
                PageFate::TooMany if self.config.home() == Some(dev.index()) => None,
                PageFate::TooMany => Some("more of its pages could not be read than max-corrected allows"),
            };
            // Nobody has to fetch them: a test, or a caller without interest, must
            // not grow the queue for ever.
            if self.page_reports.len() < MOST_REPORTS {
                self.page_reports.push_back(report);
            }
            if let Some(why) = why {
                let path = self.config.devices[dev.index()].path.clone();
                let error = FilesError::Io { path, what: "read from it", source: io::Error::other(why) };
                // The first error stays: it explains why the device was given up,
                // not what followed from that.
                self.devices[dev.index()].error.get_or_insert(error);
                self.fail(dev)?;
            }
        }
        Ok(())
    }

    /// Returns what became of a page that a member could not read, in order, once each.
    pub fn next_page_report(&mut self) -> Option<PageReport> {
        self.page_reports.pop_front()
    }

    fn try_page(&mut self, dev: Dev, at: usize, command: DeviceCommand) {
        let page = self.engine.shape().page_bytes();
        // Each page is a command of its own for the time-out, so a drive that
        // retries long does not fail the whole read.
        self.note_sent(dev, command.issue);
        let device = &mut self.devices[dev.index()];
        let search = &device.searches[at];
        let before = u64::from(search.at) * page;
        let start = search.start + before as usize;
        let work = DeviceAction::Read { offset: search.offset + before };
        device.traffic.reads += 1;
        device.traffic.read_bytes += page;
        let backend = device.backend.as_mut().expect("a device that answers has a backend");
        backend.send(DeviceCommand { work, range: start..start + page as usize, ..command });
    }
}
