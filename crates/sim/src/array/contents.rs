//! Holds the contents that an executor without bytes needs: the lengths of deltas, and the bytes that
//! controllers write and read themselves.

use destage_plan::{Controller, Dev, Engine, Issue, Step};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// The length of a delta in bytes, of a page of the array and how often that was encoded before. It
/// is cut to between a byte and a page.
pub type DeltaLengths = Box<dyn FnMut(u64, u32) -> u32 + Send>;

/// Tells the lengths of deltas.
#[derive(Default)]
pub(super) struct DeltaDraws {
    pub(super) lengths: Option<DeltaLengths>,
    /// Counts how often each page was encoded.
    versions: HashMap<u64, u32, FixedState>,
}

impl DeltaDraws {
    /// The length of the next delta of a page.
    pub(super) fn next(&mut self, page: u64, page_bytes: u64) -> u32 {
        let Some(lengths) = &mut self.lengths else { return (page_bytes / 4) as u32 };
        let version = self.versions.entry(page).or_default();
        // The length depends on page and version alone, so that runs with other timing see the same deltas.
        *version += 1;
        lengths(page, *version - 1).clamp(1, page_bytes as u32)
    }
}

/// The metadata on the devices, by page; zeros where there is none.
#[derive(Default)]
pub(super) struct DeviceMetadata {
    pages: HashMap<(Dev, u64), Box<[u8]>, FixedState>,
    /// Steps under way that read or write some.
    under_way: u32,
    read: Vec<u8>,
}

impl DeviceMetadata {
    /// A step that reads or writes metadata begins.
    pub(super) const fn begin(&mut self) {
        self.under_way += 1;
    }

    /// A step of a device ends, done or not.
    #[inline]
    pub(super) fn end<C: Controller>(&mut self, engine: &mut Engine<C>, issue: Issue, done: bool) {
        if self.under_way > 0 {
            self.end_step(engine, issue, done);
        }
    }

    fn end_step<C: Controller>(&mut self, engine: &mut Engine<C>, issue: Issue, done: bool) {
        let page_bytes = engine.shape().page_bytes() as usize;
        match *engine.step(issue) {
            Step::MetaWrite { ext, bytes, .. } if done => {
                let bytes = engine.bytes(issue.op, bytes);
                for (page, bytes) in (ext.first()..).zip(bytes.chunks_exact(page_bytes)) {
                    let place = self.pages.entry((ext.dev(), page)).or_insert_with(|| vec![0; page_bytes].into());
                    place.copy_from_slice(bytes);
                }
            }
            Step::MetaRead { ext } if done => {
                self.read.clear();
                for page in ext.first()..ext.first() + u64::from(ext.pages()) {
                    let end = self.read.len() + page_bytes;
                    self.read.extend_from_slice(self.pages.get(&(ext.dev(), page)).map_or(&[], |bytes| &bytes[..]));
                    // Pages never written read as zeros, as on a new device.
                    self.read.resize(end, 0);
                }
                engine.read(issue, &self.read);
            }
            Step::MetaWrite { .. } | Step::MetaRead { .. } => {}
            _ => return,
        }
        self.under_way -= 1;
    }

    /// Another device is in the place of one.
    pub(super) fn forget(&mut self, dev: Dev) {
        self.pages.retain(|(of, _), _| *of != dev);
    }
}
