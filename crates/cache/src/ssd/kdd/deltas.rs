//! The newest versions of old pages: which delta makes them, wherever that is, and who is reading it
//! (specs §9.3, §9.4).

use destage_plan::{Buf, NvSlot, OpId, Out, Span, Step, StepSet};
use destage_raid::array::{DeltaPlace, PageDelta, VersionDelta, VersionSource};

use super::super::copies::FrameReader;
use super::super::frames::{FrameNo, FrameTable};
use super::super::of;
use super::DeltaKey;
use super::staging::StagingBuffer;
use super::zone::DeltaZone;

/// Identifies something that an operation reads.
#[derive(Clone, Copy)]
enum DeltaSource {
    Frame(FrameNo),
    Slot(NvSlot),
}

/// The deltas.
pub(super) struct DeltaStore {
    pub(super) staging: StagingBuffer,
    pub(super) zone: DeltaZone,
    /// Lists what each operation reads.
    named: Vec<Vec<DeltaSource>>,
    /// Operations that read each slot of the NVRAM.
    pins: Vec<u16>,
    /// Slots that hold nothing that is needed.
    dead: Vec<NvSlot>,
}

impl DeltaStore {
    pub(super) const fn new(staging: StagingBuffer, zone: DeltaZone) -> Self {
        Self { staging, zone, named: Vec::new(), pins: Vec::new(), dead: Vec::new() }
    }

    /// Returns the place of a delta.
    pub(super) fn get(&self, key: DeltaKey, frames: &FrameTable) -> Option<VersionDelta> {
        // With `reclaim=free` no page is clean and made of a delta, so the table of
        // covered deltas does not exist.
        if matches!(key, DeltaKey::Covered(_)) && !self.zone.makes() {
            return None;
        }
        // Staged deltas come first: a delta that is being packed has both places,
        // and the NVRAM costs no read of the SSD.
        if let Some(staged) = self.staging.get(key) {
            return Some(VersionDelta { place: DeltaPlace::Nv(staged.slot), offset: 0, len: staged.len });
        }
        let packed = self.zone.get(key)?;
        Some(VersionDelta { place: DeltaPlace::Page(frames.ext(packed.page)), offset: packed.offset, len: packed.len })
    }

    /// Returns the source of the newest version of a page that is kept as it was.
    pub(super) fn newest(&self, base: FrameNo, frames: &FrameTable) -> VersionSource {
        // If the parity covers a made page, that delta is also what makes its
        // newest version, until a newer one comes.
        let delta = self.get(DeltaKey::Frame(base), frames).or_else(|| self.get(DeltaKey::Covered(base), frames));
        made_of(base, delta, frames)
    }

    /// Returns the source of the version that the parity covers of a page that is kept as it was.
    pub(super) fn covered_in(&self, base: FrameNo, frames: &FrameTable) -> VersionSource {
        made_of(base, self.get(DeltaKey::Covered(base), frames), frames)
    }

    /// The parity covers the newest version of a page that is kept as it was; whether that is made with a delta, which
    /// stays.
    pub(super) fn cover(&mut self, base: FrameNo, frames: &mut FrameTable) -> bool {
        let is_made = self.get(DeltaKey::Frame(base), frames).is_some();
        if is_made {
            // One delta against the same base takes the place of the other; the
            // base stays unread and unwritten.
            self.drop_delta(DeltaKey::Covered(base), frames);
            self.staging.rename(DeltaKey::Frame(base), DeltaKey::Covered(base));
            self.zone.cover(base);
        }
        is_made
    }

    /// Frames that do not hold any more what they did have their deltas go; whether there is room for others since.
    pub(super) fn shed(&mut self, frames: &mut FrameTable) -> bool {
        let staged = self.staging.bytes();
        while let Some(frame) = frames.take_shed() {
            self.drop_delta(DeltaKey::Covered(frame), frames);
        }
        self.staging.bytes() < staged
    }

    /// Returns the source of the version that the parity covers of a page of which only a delta is kept, if
    /// any.
    pub(super) fn covered(&self, page: u64, frames: &FrameTable) -> VersionSource {
        let change = self.get(DeltaKey::Page(page), frames);
        match (change, self.zone.is_written(page)) {
            // With the newest version on its member the delta alone tells what the
            // parity covers (`VersionSource::Before`).
            (Some(change), true) => VersionSource::Before(change),
            // It was to be written, and was not.
            (None, true) => VersionSource::Member,
            // Only the parity can tell what it covers: the member may or may not
            // have been written.
            (_, false) => VersionSource::Parity(change),
        }
    }

    /// Takes the delta of a page back of which there is nothing else, and whose newest version is there after some
    /// steps: what the parity covers, and the steps after which it is there.
    pub(super) fn take_back(
        &mut self,
        op: OpId,
        page: u64,
        newest: (Buf, StepSet),
        frames: &mut FrameTable,
        out: &mut Out,
    ) -> (Buf, StepSet) {
        let key = DeltaKey::Page(page);
        let Some(change) = self.get(key, frames) else { return newest };
        self.uses(op, key, frames);
        let (newest, there) = newest;
        let (buf, read) = fetch(op, change.place, out);
        let dst = out.tmp(op, 1);
        // A raw delta of a page without a base is the XOR of both versions
        // (`write_raw`).
        let step = if change.len < out.page_bytes() {
            let delta = Span { buf, offset: change.offset, len: change.len };
            Step::Decode { base: newest, delta, dst }
        } else {
            Step::Xor { srcs: out.list(op, &[newest, buf]), pages: 1, dst }
        };
        (dst, out.step(op, step, there | read))
    }

    /// An operation reads a delta, and the page as it was if there is one, with what the parity covers of it.
    pub(super) fn uses(&mut self, op: OpId, key: DeltaKey, frames: &mut FrameTable) {
        if let DeltaKey::Frame(base) = key {
            // The base is held as well: a delta without the bytes that it was made
            // against decodes to nothing useful.
            frames.hold(base);
            of(&mut self.named, op).push(DeltaSource::Frame(base));
            if self.zone.makes() {
                self.uses_delta(op, DeltaKey::Covered(base), frames);
            }
        }
        self.uses_delta(op, key, frames);
    }

    fn uses_delta(&mut self, op: OpId, key: DeltaKey, frames: &mut FrameTable) {
        let named = of(&mut self.named, op);
        if let Some(staged) = self.staging.get(key) {
            let index = staged.slot.place();
            if self.pins.len() <= index {
                self.pins.resize(index + 1, 0);
            }
            self.pins[index] += 1;
            named.push(DeltaSource::Slot(staged.slot));
        } else if let Some(packed) = self.zone.get(key) {
            frames.hold(packed.page);
            named.push(DeltaSource::Frame(packed.page));
        }
    }

    /// An operation reads nothing any more.
    pub(super) fn released(&mut self, op: OpId, frames: &mut FrameTable) {
        while let Some(named) = of(&mut self.named, op).pop() {
            match named {
                DeltaSource::Frame(frame) => frames.done(frame),
                DeltaSource::Slot(slot) => self.pins[slot.place()] -= 1,
            }
        }
    }

    /// The delta of a page is not needed any more: the parity covers the page as it is, a newer delta comes,
    /// or the page is not kept.
    pub(super) fn drop_delta(&mut self, key: DeltaKey, frames: &mut FrameTable) {
        if matches!(key, DeltaKey::Covered(_)) && !self.zone.makes() {
            return;
        }
        self.dead.extend(self.staging.take(key));
        self.zone.drop_delta(key, frames);
    }

    /// A slot holds nothing that is needed.
    pub(super) fn bury(&mut self, slot: NvSlot) {
        self.dead.push(slot);
    }

    /// Slots that hold nothing that is needed.
    pub(super) const fn dead(&self) -> usize {
        self.dead.len()
    }

    /// Takes the slots of the NVRAM, or of memory, that can be freed: they hold nothing that is needed, and nobody
    /// reads them.
    pub(super) fn take_dead(&mut self, in_memory: bool, into: &mut Vec<NvSlot>) {
        let pins = &self.pins;
        let is_free = |slot: &mut NvSlot| {
            // A slot that is read may not be freed: its place would be overwritten
            // by the next delta while the operation decodes.
            slot.is_in_memory() == in_memory && pins.get(slot.place()).is_none_or(|pins| *pins == 0)
        };
        into.extend(self.dead.extract_if(.., is_free));
    }

    /// Returns true if the first slot that holds nothing needed is one of memory.
    pub(super) fn dead_in_memory(&self) -> bool {
        self.dead.first().is_some_and(|slot| slot.is_in_memory())
    }

    /// The device is lost.
    pub(super) fn lose(&mut self, frames: &mut FrameTable) {
        // The NVRAM keeps its bytes, but a delta needs its base from the lost
        // device.
        self.dead.extend(self.staging.clear());
        self.zone.lose(frames);
    }
}

impl FrameReader for DeltaStore {
    fn read(&mut self, op: OpId, base: FrameNo, dst: Buf, frames: &mut FrameTable, out: &mut Out) -> StepSet {
        let newest = self.newest(base, frames);
        let VersionSource::Delta(delta) = newest else {
            return out.step(op, Step::Read { ext: frames.ext(base), dst }, StepSet::EMPTY);
        };
        self.uses(op, DeltaKey::Frame(base), frames);
        let page = out.tmp(op, 1);
        let there = out.step(op, Step::Read { ext: delta.base, dst: page }, StepSet::EMPTY);
        let (buf, read) = fetch(op, delta.place, out);
        let delta = Span { buf, offset: delta.offset, len: delta.len };
        out.step(op, Step::Decode { base: page, delta, dst }, there | read)
    }
}

/// A page that a delta, if there is one, makes of what is in a frame.
fn made_of(base: FrameNo, delta: Option<VersionDelta>, frames: &FrameTable) -> VersionSource {
    let base = frames.ext(base);
    delta.map_or(VersionSource::Page(base), |VersionDelta { place, offset, len }| {
        VersionSource::Delta(PageDelta { base, place, offset, len })
    })
}

/// Returns the buffer with the bytes of a delta, and the step that reads them if one does.
fn fetch(op: OpId, place: DeltaPlace, out: &mut Out) -> (Buf, StepSet) {
    match place {
        DeltaPlace::Nv(slot) => (Buf::Nv(slot), StepSet::EMPTY),
        DeltaPlace::Page(ext) => {
            let dst = out.tmp(op, 1);
            (dst, out.step(op, Step::Read { ext, dst }, StepSet::EMPTY))
        }
    }
}
