//! The newest versions of old pages: which delta makes them, wherever that is, and who is reading it
//! (specs §9.3, §9.4).

use destage_plan::{Buf, NvSlot, OpId, Out, Span, Step, StepSet};
use destage_raid::array::{Change, Delta, DeltaPlace, Source};

use super::super::copies::FrameReader;
use super::super::frames::{Frame, Frames};
use super::super::of;
use super::Key;
use super::staging::Staging;
use super::zone::Zone;

/// What an operation reads.
#[derive(Clone, Copy)]
enum Named {
    Frame(Frame),
    Slot(NvSlot),
}

/// The deltas.
pub(super) struct Deltas {
    pub(super) staging: Staging,
    pub(super) zone: Zone,
    /// What each operation reads.
    named: Vec<Vec<Named>>,
    /// Operations that read each slot of the NVRAM.
    pins: Vec<u16>,
    /// Slots that hold nothing that is needed.
    dead: Vec<NvSlot>,
}

impl Deltas {
    pub(super) const fn new(staging: Staging, zone: Zone) -> Self {
        Self { staging, zone, named: Vec::new(), pins: Vec::new(), dead: Vec::new() }
    }

    /// Where a delta is.
    pub(super) fn get(&self, key: Key, frames: &Frames) -> Option<Change> {
        if matches!(key, Key::Covered(_)) && !self.zone.makes() {
            return None;
        }
        if let Some(staged) = self.staging.get(key) {
            return Some(Change { place: DeltaPlace::Nv(staged.slot), offset: 0, len: staged.len });
        }
        let packed = self.zone.get(key)?;
        Some(Change { place: DeltaPlace::Page(frames.ext(packed.page)), offset: packed.offset, len: packed.len })
    }

    /// Where the newest version of a page is that is kept as it was.
    pub(super) fn newest(&self, base: Frame, frames: &Frames) -> Source {
        let delta = self.get(Key::Frame(base), frames).or_else(|| self.get(Key::Covered(base), frames));
        made_of(base, delta, frames)
    }

    /// Where what the parity covers is of a page that is kept as it was.
    pub(super) fn covered_in(&self, base: Frame, frames: &Frames) -> Source {
        made_of(base, self.get(Key::Covered(base), frames), frames)
    }

    /// The parity covers the newest version of a page that is kept as it was; whether that is made with a delta, which
    /// stays.
    pub(super) fn cover(&mut self, base: Frame, frames: &mut Frames) -> bool {
        let is_made = self.get(Key::Frame(base), frames).is_some();
        if is_made {
            self.drop_delta(Key::Covered(base), frames);
            self.staging.rename(Key::Frame(base), Key::Covered(base));
            self.zone.cover(base);
        }
        is_made
    }

    /// Frames that do not hold any more what they did have their deltas go; whether there is room for others since.
    pub(super) fn shed(&mut self, frames: &mut Frames) -> bool {
        let staged = self.staging.bytes();
        while let Some(frame) = frames.take_shed() {
            self.drop_delta(Key::Covered(frame), frames);
        }
        self.staging.bytes() < staged
    }

    /// Where what the parity covers is of a page of which there is nothing but a delta, if that.
    pub(super) fn covered(&self, page: u64, frames: &Frames) -> Source {
        let change = self.get(Key::Page(page), frames);
        match (change, self.zone.is_written(page)) {
            (Some(change), true) => Source::Before(change),
            // It was to be written, and was not.
            (None, true) => Source::Member,
            (_, false) => Source::Parity(change),
        }
    }

    /// Takes the delta of a page back of which there is nothing else, and whose newest version is there after some
    /// steps: what the parity covers, and the steps after which it is there.
    pub(super) fn take_back(
        &mut self,
        op: OpId,
        page: u64,
        newest: (Buf, StepSet),
        frames: &mut Frames,
        out: &mut Out,
    ) -> (Buf, StepSet) {
        let key = Key::Page(page);
        let Some(change) = self.get(key, frames) else { return newest };
        self.uses(op, key, frames);
        let (newest, there) = newest;
        let (buf, read) = fetch(op, change.place, out);
        let dst = out.tmp(op, 1);
        let step = if change.len < out.page_bytes() {
            let delta = Span { buf, offset: change.offset, len: change.len };
            Step::Decode { base: newest, delta, dst }
        } else {
            Step::Xor { srcs: out.list(op, &[newest, buf]), pages: 1, dst }
        };
        (dst, out.step(op, step, there | read))
    }

    /// An operation reads a delta, and the page as it was if there is one, with what the parity covers of it.
    pub(super) fn uses(&mut self, op: OpId, key: Key, frames: &mut Frames) {
        if let Key::Frame(base) = key {
            frames.hold(base);
            of(&mut self.named, op).push(Named::Frame(base));
            if self.zone.makes() {
                self.uses_delta(op, Key::Covered(base), frames);
            }
        }
        self.uses_delta(op, key, frames);
    }

    fn uses_delta(&mut self, op: OpId, key: Key, frames: &mut Frames) {
        let named = of(&mut self.named, op);
        if let Some(staged) = self.staging.get(key) {
            let index = staged.slot.place();
            if self.pins.len() <= index {
                self.pins.resize(index + 1, 0);
            }
            self.pins[index] += 1;
            named.push(Named::Slot(staged.slot));
        } else if let Some(packed) = self.zone.get(key) {
            frames.hold(packed.page);
            named.push(Named::Frame(packed.page));
        }
    }

    /// An operation reads nothing any more.
    pub(super) fn released(&mut self, op: OpId, frames: &mut Frames) {
        while let Some(named) = of(&mut self.named, op).pop() {
            match named {
                Named::Frame(frame) => frames.done(frame),
                Named::Slot(slot) => self.pins[slot.place()] -= 1,
            }
        }
    }

    /// The delta of a page is not needed any more: the parity covers the page as it is, a newer delta comes,
    /// or the page is not kept.
    pub(super) fn drop_delta(&mut self, key: Key, frames: &mut Frames) {
        if matches!(key, Key::Covered(_)) && !self.zone.makes() {
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
            slot.is_in_memory() == in_memory && pins.get(slot.place()).is_none_or(|pins| *pins == 0)
        };
        into.extend(self.dead.extract_if(.., is_free));
    }

    /// Whether the first of the slots that hold nothing that is needed is one of memory.
    pub(super) fn dead_in_memory(&self) -> bool {
        self.dead.first().is_some_and(|slot| slot.is_in_memory())
    }

    /// The device is lost.
    pub(super) fn lose(&mut self, frames: &mut Frames) {
        self.dead.extend(self.staging.clear());
        self.zone.lose(frames);
    }
}

impl FrameReader for Deltas {
    fn read(&mut self, op: OpId, base: Frame, dst: Buf, frames: &mut Frames, out: &mut Out) -> StepSet {
        let newest = self.newest(base, frames);
        let Source::Delta(delta) = newest else {
            return out.step(op, Step::Read { ext: frames.ext(base), dst }, StepSet::EMPTY);
        };
        self.uses(op, Key::Frame(base), frames);
        let page = out.tmp(op, 1);
        let there = out.step(op, Step::Read { ext: delta.base, dst: page }, StepSet::EMPTY);
        let (buf, read) = fetch(op, delta.place, out);
        let delta = Span { buf, offset: delta.offset, len: delta.len };
        out.step(op, Step::Decode { base: page, delta, dst }, there | read)
    }
}

/// A page that a delta, if there is one, makes of what is in a frame.
fn made_of(base: Frame, delta: Option<Change>, frames: &Frames) -> Source {
    let base = frames.ext(base);
    delta.map_or(Source::Page(base), |Change { place, offset, len }| Source::Delta(Delta { base, place, offset, len }))
}

/// Where the bytes of a delta are to be had, and the step that reads them if one does.
fn fetch(op: OpId, place: DeltaPlace, out: &mut Out) -> (Buf, StepSet) {
    match place {
        DeltaPlace::Nv(slot) => (Buf::Nv(slot), StepSet::EMPTY),
        DeltaPlace::Page(ext) => {
            let dst = out.tmp(op, 1);
            (dst, out.step(op, Step::Read { ext, dst }, StepSet::EMPTY))
        }
    }
}
