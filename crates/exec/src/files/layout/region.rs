//! Lays out label, event count, copies of the write-intent bitmap and NVRAM in a device's file.

use std::ops::Range;
use std::path::Path;

use destage_plan::Dev;

use super::bitmap::BitmapLayout;
use super::event_count;
use super::journal::JournalLayout;
use super::label;
use crate::files::config::{FilesConfig, NvramPlace};
use crate::files::error::FilesError;

impl FilesConfig {
    /// Counts the bytes of a device's file: its pages with what is before them, behind them a label and the
    /// event count, and behind that the marks of a member, or the NVRAM.
    pub fn file_bytes(&self, dev: usize) -> u64 {
        self.region(dev).map_or_else(|| self.own_end(dev), |region| region.end)
    }

    /// Returns the bytes of a device on which the NVRAM lies, if it does.
    pub(crate) fn region(&self, dev: usize) -> Option<Range<u64>> {
        (self.home() == Some(dev)).then(|| {
            // Whole pages of the operating system, so that the page cache never has
            // a page of both the NVRAM and the marks.
            let from = self.own_end(dev).next_multiple_of(self.grain());
            from..from + self.journal_layout().bytes().next_multiple_of(self.grain())
        })
    }

    /// Returns true if a device's file, a cache's, is as long as if the NVRAM lay on it, which it does not.
    pub(crate) fn had_nvram(&self, dev: usize, found: u64) -> bool {
        // A device whose NVRAM has moved to its spare place is as long as before.
        let is_home = || Self { nvram: NvramPlace::Behind(Dev(dev as u8)), ..self.clone() }.file_bytes(dev) == found;
        dev >= self.members && self.home().is_none() && is_home()
    }

    /// Returns the unit in which the NVRAM begins and ends: a page of the array, or of the operating system if
    /// that is larger.
    pub(crate) fn grain(&self) -> u64 {
        self.shape.page_bytes().max(4096)
    }

    /// Returns the end of what a device's file has without the NVRAM.
    pub(crate) fn own_end(&self, dev: usize) -> u64 {
        self.end_behind(dev, self.label_end(dev))
    }

    /// Returns where ends what is behind the label of a device if that ends there, without the NVRAM.
    pub(crate) fn end_behind(&self, dev: usize, label_end: u64) -> u64 {
        // A cache's device has no marks: its rows are not made consistent from
        // others.
        let marks = if dev < self.members { self.bitmap_layout().bytes() } else { 0 };
        self.count_behind(dev, label_end) + 2 * self.count_bytes() + marks
    }

    fn count_behind(&self, dev: usize, label_end: u64) -> u64 {
        let end = self.pages_end(dev);
        // Counts begin on a page of the array, so that direct I/O can write them.
        end + (label_end - end).next_multiple_of(self.shape.page_bytes())
    }

    /// Returns the end of a device's label.
    fn label_end(&self, dev: usize) -> u64 {
        self.label_offset(dev) + label::bytes(&self.about)
    }

    /// Returns where a device's event count is: as many whole pages behind its pages as it takes for the label.
    pub(crate) fn count_offset(&self, dev: usize) -> u64 {
        self.count_behind(dev, self.label_end(dev))
    }

    /// Returns the bytes of one of the two places for them.
    pub(crate) fn count_bytes(&self) -> u64 {
        event_count::place_bytes(self.shape.page_bytes())
    }

    /// Returns where a member's marks begin: at the page behind them.
    pub(crate) fn marks_offset(&self, dev: usize) -> u64 {
        self.count_offset(dev) + 2 * self.count_bytes()
    }

    /// Describes the marks of rows.
    pub(crate) fn bitmap_layout(&self) -> BitmapLayout {
        BitmapLayout::new(self.rows, self.rows_per_mark, self.shape.page_bytes())
    }

    /// Returns the offset of a device's label.
    pub(crate) fn label_offset(&self, dev: usize) -> u64 {
        label::offset(self.pages_end(dev))
    }

    /// The error that a device's file is if it is so long.
    pub(crate) fn wrong_size(&self, dev: usize, path: &Path, found: u64) -> FilesError {
        FilesError::Size {
            path: path.to_owned(),
            found,
            expected: self.file_bytes(dev),
            settings: self.size_settings(dev),
        }
    }

    /// Returns what the journal's format has to know of the array.
    pub(crate) fn journal_layout(&self) -> JournalLayout {
        JournalLayout {
            array: self.array,
            page_bytes: self.shape.page_bytes() as u32,
            slots: self.nv_slots,
            devices: self.devices.len() as u32,
        }
    }
}
