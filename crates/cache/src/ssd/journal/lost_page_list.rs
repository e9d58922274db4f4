//! Keeps the list of pages that were lost with a device: in memory, and in slots of the NVRAM, so that a start knows them
//! without the device. A page is on it until it is written again.

use std::collections::BTreeSet;
use std::ops::Range;

use destage_plan::{Buf, NvHeld, NvPut, NvSlot, OpId, Out, Tag};

use super::lost_pages::{LostChunk, decode, encode};
use super::{KIND_LOST, VERSION};

/// Reports what the NVRAM says of lost pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LossNote {
    /// Says that nothing is lost.
    #[default]
    None,
    /// Says that something is, and not what.
    Unlisted,
    /// Says that the pages that are listed are.
    Listed,
}

/// Keeps the pages that are lost, and which of them the NVRAM lists.
#[derive(Default)]
pub(super) struct LostPageList {
    pages: BTreeSet<u64>,
    noted: LossNote,
    /// Holds what the NVRAM lists: the first and the last page of each chunk, ascending, and its slot.
    chunks: Vec<(u64, u64, NvSlot)>,
    /// Holds the pages that came or went since the update that was begun last.
    changed: BTreeSet<u64>,
    /// Is true if some came since then.
    has_come: bool,
    /// Is true if some that came are not listed yet.
    is_new: bool,
    /// Counts the updates that were begun.
    begun: u64,
    /// Counts those that have ended.
    ended: u64,
    /// Counts the pages that were too many for the slots that a list may take, if they were.
    // Then the NVRAM says only that something is lost, not what: the list must
    // leave slots for the log.
    too_many: Option<usize>,
    /// Is true if something that was found of a list is damaged.
    is_damaged: bool,
    update: Option<ListUpdate>,
}

/// Holds chunks that take the place of others.
struct ListUpdate {
    /// Numbers those that they replace.
    replaced: Vec<Range<usize>>,
    /// Holds the new ones, each with its slot.
    chunks: Vec<(LostChunk, NvSlot)>,
    /// Reports what is noted with it.
    note: LossNote,
}

impl LostPageList {
    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    pub(super) fn pages(&self) -> impl Iterator<Item = u64> {
        self.pages.iter().copied()
    }

    /// Adds pages that are lost.
    pub(super) fn lose(&mut self, pages: impl IntoIterator<Item = u64>) {
        for page in pages {
            // Only a page that is new to the list changes it, so a page that is
            // lost twice costs one update.
            if self.pages.insert(page) {
                self.changed.insert(page);
                (self.has_come, self.is_new) = (true, true);
            }
        }
    }

    /// Takes a page off that is whole again.
    pub(super) fn heal(&mut self, page: u64) {
        if self.pages.remove(&page) {
            self.changed.insert(page);
        }
    }

    /// Returns the number of the update that tells what has changed until now.
    pub(super) fn number(&self) -> u64 {
        // Numbers count updates, so a waiting write compares one integer instead of
        // searching lists.
        self.begun + u64::from(!self.changed.is_empty())
    }

    /// Returns true if the update of this number is in the NVRAM.
    #[inline]
    pub(super) const fn has_told(&self, number: u64) -> bool {
        self.ended >= number
    }

    /// Forgets all pages: whatever is found of them is right. Returns slots that are not needed any more.
    pub(super) fn accept(&mut self) -> Vec<NvSlot> {
        // A restart after this knows of no losses: whoever accepted them takes what
        // the members have.
        self.pages.clear();
        self.changed.clear();
        (self.has_come, self.is_new, self.too_many, self.is_damaged) = (false, false, None, false);
        self.chunks.drain(..).map(|(_, _, slot)| slot).collect()
    }

    /// Returns true if a start knows of all pages that are lost, or at least that there are some where they are too many.
    #[inline]
    pub(super) const fn is_settled(&self) -> bool {
        match self.noted {
            LossNote::None => !self.is_new,
            LossNote::Listed => !self.is_new && !self.is_damaged,
            LossNote::Unlisted => !self.is_new && self.too_many.is_some(),
        }
    }

    /// Returns true if the NVRAM says, or is to say, that pages are lost.
    pub(super) fn is_any(&self) -> bool {
        !self.pages.is_empty() || self.noted != LossNote::None
    }

    /// Returns true if it was found at the start that pages are lost of which it is not known which.
    pub(super) fn are_unknown(&self) -> bool {
        self.noted == LossNote::Unlisted || self.is_damaged
    }

    /// Returns true if there is something to be told.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.update.is_some() || !self.changed.is_empty() || self.is_to_be_cleared()
    }

    /// Returns true if losses are noted that were accepted.
    fn is_to_be_cleared(&self) -> bool {
        self.noted != LossNote::None && self.pages.is_empty() && self.chunks.is_empty()
    }

    /// Returns what the last note says.
    pub(super) const fn noted_before(&self) -> LossNote {
        self.noted
    }

    /// Returns what a note says that is made now, with the update if there is one.
    pub(super) fn note(&self) -> LossNote {
        match &self.update {
            // A page that came after the update was begun is not in it. Until the
            // next update the NVRAM must not claim that its list is complete.
            _ if self.has_come || self.is_new && self.update.is_none() => LossNote::Unlisted,
            Some(update) => update.note,
            None if self.is_to_be_cleared() => LossNote::None,
            None => self.noted,
        }
    }

    /// Takes what was found of losses beside the list.
    pub(super) const fn load_note(&mut self, noted: LossNote) {
        self.noted = noted;
    }

    /// Takes that all that was noted is loaded.
    pub(super) fn loaded(&mut self) {
        // Chunks without the note that completes them come from an update that a
        // power failure interrupted, or from damage.
        self.is_damaged |= self.noted != LossNote::Listed && !self.chunks.is_empty();
    }

    /// Takes a slot that was in use when this life began. Returns true if it is a chunk of a list of an array of so many
    /// pages.
    pub(super) fn load(&mut self, held: &NvHeld<'_>, array_pages: u64) -> bool {
        let number = |at: usize| u64::from_le_bytes(held.tag[at..at + 8].try_into().expect("eight bytes"));
        let pages = u32::from_le_bytes(held.tag[4..8].try_into().expect("four bytes"));
        let chunk = LostChunk { first: number(8), last: number(16), pages: pages.into(), bytes: held.bytes.to_vec() };
        let is_known = held.tag[0] == VERSION && held.tag[2..4] == [0; 2] && !held.is_empty();
        // A page beyond the array belongs to another array, so nothing of this slot
        // can be trusted.
        if !is_known || chunk.last >= array_pages {
            return false;
        }
        if held.is_damaged {
            self.is_damaged = true;
        } else {
            let Some(pages) = decode(&chunk) else { return false };
            self.pages.extend(pages);
        }
        self.chunks.push((chunk.first, chunk.last, held.slot));
        self.chunks.sort_unstable_by_key(|chunk| chunk.0);
        // Chunks ascend and do not overlap; anything else is no list that was
        // written whole.
        self.chunks.windows(2).all(|pair| pair[0].1 < pair[1].0)
    }

    /// Prepares the chunks that take the place of those of which pages came or went, if some did and none are under way, with
    /// so many slots from `take`, which gives none if they are not there. A list may take `most` of them.
    pub(super) fn prepare(&mut self, slot_bytes: u32, most: usize, take: impl FnOnce(usize) -> Vec<NvSlot>) {
        // One update at a time: the next one replaces chunks that this one has just
        // put.
        if self.update.is_some() || self.changed.is_empty() {
            return;
        }
        // Far fewer may fit where so many did not.
        let is_tried = self.too_many.is_none_or(|pages| self.pages.len() <= pages / 2);
        let all = || std::iter::once(0..self.chunks.len()).collect();
        let mut replaced: Vec<Range<usize>> = all();
        let mut chunks = Vec::new();
        if is_tried {
            replaced = self.affected();
            for range in &replaced {
                let first = if range.start == 0 { 0 } else { self.chunks[range.start].0 };
                let end = self.chunks.get(range.end).map_or(u64::MAX, |chunk| chunk.0);
                chunks.extend(encode(self.pages.range(first..end).copied(), slot_bytes as usize));
            }
        }
        let kept = self.chunks.len() - replaced.iter().map(Range::len).sum::<usize>();
        let fits = is_tried && kept + chunks.len() <= most;
        if !fits {
            // A list in part would be taken for the whole one. Without any chunk
            // the note alone says that pages are lost.
            (replaced, chunks) = (all(), Vec::new());
        }
        let slots = take(chunks.len());
        // Taking fewer slots than needed would leave a commit that cannot be
        // planned; the next turn tries again.
        if slots.len() < chunks.len() {
            return;
        }
        let note = match self.pages.len() {
            0 => LossNote::None,
            _ if fits => LossNote::Listed,
            _ => LossNote::Unlisted,
        };
        // An attempt costs an encoding of the whole list. It is repeated only when
        // half of the pages are gone.
        self.too_many = if fits { None } else { self.too_many.filter(|_| !is_tried).or(Some(self.pages.len())) };
        self.changed.clear();
        self.has_come = false;
        self.begun += 1;
        self.update = Some(ListUpdate { replaced, chunks: chunks.into_iter().zip(slots).collect(), note });
    }

    /// Returns the chunks of which pages came or went, as ranges that do not touch. The place of a page is the chunk that begins
    /// before it, or the first.
    fn affected(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for page in &self.changed {
            let at = self.chunks.partition_point(|chunk| chunk.0 <= *page).saturating_sub(1);
            let end = (at + 1).min(self.chunks.len());
            match ranges.last_mut() {
                Some(last) if at <= last.end => last.end = last.end.max(end),
                _ => ranges.push(at..end),
            }
        }
        ranges
    }

    /// Plans the update: appends what is put and what is freed.
    pub(super) fn plan(&self, op: OpId, puts: &mut Vec<NvPut>, frees: &mut Vec<NvSlot>, out: &mut Out) {
        let Some(update) = &self.update else { return };
        for (chunk, slot) in &update.chunks {
            let src = Buf::Kept(out.bytes(op, &chunk.bytes));
            puts.push(NvPut { slot: *slot, tag: tag(chunk), src, len: chunk.bytes.len() as u32 });
        }
        // The old chunks are freed in the same commit that puts the new ones, so no
        // crash leaves both.
        frees.extend(update.replaced.iter().flat_map(|range| &self.chunks[range.clone()]).map(|chunk| chunk.2));
    }

    /// Takes that a note is in the NVRAM, with the update if one was prepared. Returns the slots that this freed.
    pub(super) fn noted(&mut self, note: LossNote) -> Vec<NvSlot> {
        self.noted = note;
        let Some(ListUpdate { replaced, chunks, .. }) = self.update.take() else { return Vec::new() };
        let is_replaced = |at: usize| replaced.iter().any(|range| range.contains(&at));
        let (mut kept, mut freed) = (Vec::new(), Vec::new());
        for (at, chunk) in self.chunks.drain(..).enumerate() {
            if is_replaced(at) {
                freed.push(chunk.2);
            } else {
                kept.push(chunk);
            }
        }
        kept.extend(chunks.into_iter().map(|(chunk, slot)| (chunk.first, chunk.last, slot)));
        kept.sort_unstable_by_key(|chunk| chunk.0);
        self.chunks = kept;
        // Pages that came since the update was begun are still unknown to the
        // NVRAM.
        (self.is_new, self.ended) = (self.has_come, self.begun);
        freed
    }
}

/// Says which pages a slot lists.
fn tag(chunk: &LostChunk) -> Tag {
    let mut tag = [0; 24];
    (tag[0], tag[1]) = (VERSION, KIND_LOST);
    tag[4..8].copy_from_slice(&(chunk.pages as u32).to_le_bytes());
    tag[8..16].copy_from_slice(&chunk.first.to_le_bytes());
    tag[16..].copy_from_slice(&chunk.last.to_le_bytes());
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: usize = 64;

    fn slots(from: &mut u32) -> impl FnOnce(usize) -> Vec<NvSlot> {
        |count| {
            let first = *from;
            *from += count as u32;
            (first..*from).map(|index| NvSlot { index, generation: 1 }).collect()
        }
    }

    /// Prepares an update of at most so many slots and has it in the NVRAM. Returns what is noted.
    fn update(losses: &mut LostPageList, most: usize, next: &mut u32) -> LossNote {
        losses.prepare(SLOT as u32, most, slots(next));
        let note = losses.note();
        losses.noted(note);
        note
    }

    #[test]
    fn only_the_chunks_of_pages_that_come_or_go_are_put_anew() {
        let (mut losses, mut next) = (LostPageList::default(), 0);
        losses.lose((0..400).map(|page| page * 10));
        assert_eq!((losses.is_settled(), losses.note()), (false, LossNote::Unlisted));
        assert_eq!(update(&mut losses, 100, &mut next), LossNote::Listed);
        assert_eq!((losses.chunks.len(), next), (400_usize.div_ceil(SLOT), 7));
        assert!(losses.is_settled() && !losses.is_due() && losses.is_any());
        losses.heal(10);
        losses.heal(3_990);
        let number = losses.number();
        assert!(losses.is_settled() && losses.is_due() && !losses.has_told(number), "the list has more than there are");
        losses.prepare(SLOT as u32, 100, slots(&mut next));
        assert_eq!((next, losses.update.as_ref().map(|update| update.replaced.clone())), (9, Some(vec![0..1, 6..7])));
        // Between that the list is made and that it is there another page goes.
        losses.heal(20);
        losses.lose([25]);
        assert_eq!((losses.note(), losses.noted(LossNote::Unlisted).len()), (LossNote::Unlisted, 2));
        assert!(!losses.is_settled(), "a start would not know of the last one");
        assert_eq!(update(&mut losses, 100, &mut next), LossNote::Listed);
        losses.heal(25);
        assert!(losses.has_told(number) && !losses.has_told(losses.number()));
        assert_eq!(losses.chunks.iter().map(|chunk| (chunk.0, chunk.1)).next(), Some((0, 630)));
        assert!(losses.is_settled());
        losses.pages().collect::<Vec<_>>().into_iter().for_each(|page| losses.heal(page));
        assert_eq!(update(&mut losses, 100, &mut next), LossNote::None);
        assert!(losses.chunks.is_empty() && !losses.is_any() && !losses.is_due());
    }

    #[test]
    fn what_is_longer_than_its_slots_is_noted_without_a_list_until_far_less_is_left() {
        let (mut losses, mut next) = (LostPageList::default(), 0);
        losses.lose((0..400).map(|page| page * 10));
        assert_eq!(update(&mut losses, 6, &mut next), LossNote::Unlisted);
        assert!(losses.is_settled() && losses.chunks.is_empty() && !losses.is_due());
        (0..100).for_each(|page| losses.heal(page * 10));
        assert_eq!(update(&mut losses, 6, &mut next), LossNote::Unlisted, "it would fit, which is not tried each time");
        assert!(losses.has_told(losses.number()), "writes of lost pages are answered");
        (100..200).for_each(|page| losses.heal(page * 10));
        assert_eq!(update(&mut losses, 6, &mut next), LossNote::Listed);
        assert_eq!((losses.is_settled(), losses.chunks.len()), (true, 4));
        losses.lose([7]);
        assert_eq!((losses.is_settled(), losses.note()), (false, LossNote::Unlisted));
    }

    #[test]
    fn without_slots_nothing_is_begun() {
        let mut losses = LostPageList::default();
        losses.lose([3]);
        losses.prepare(SLOT as u32, 6, |_| Vec::new());
        assert!(losses.is_due() && !losses.is_settled() && losses.update.is_none());
        assert_eq!(update(&mut losses, 6, &mut 0), LossNote::Listed);
    }

    #[test]
    fn a_start_takes_what_was_listed_and_refuses_what_was_not() {
        let chunk = encode([3, 4, 9].into_iter(), SLOT).remove(0);
        let held =
            |tag: Tag, bytes, is_damaged| NvHeld { slot: NvSlot { index: 1, generation: 1 }, tag, bytes, is_damaged };
        let loaded = |tag, bytes, is_damaged| {
            let mut losses = LostPageList::default();
            let is_taken = losses.load(&held(tag, bytes, is_damaged), 10);
            losses.load_note(LossNote::Listed);
            losses.loaded();
            is_taken.then(|| (losses.pages().collect::<Vec<_>>(), losses.are_unknown()))
        };
        let tag = tag(&chunk);
        assert_eq!(loaded(tag, &chunk.bytes, false), Some((vec![3, 4, 9], false)));
        assert_eq!(loaded(tag, &chunk.bytes, true), Some((vec![], true)), "it is not known which");
        assert_eq!((loaded(tag, &[], false), loaded(tag, &chunk.bytes[1..], false)), (None, None));
        for (at, to) in [(0, 1), (2, 1), (3, 1), (4, 2), (8, 2), (16, 10), (23, 1)] {
            let mut other = tag;
            other[at] = to;
            assert_eq!(loaded(other, &chunk.bytes, false), None, "byte {at}");
        }
        let mut twice = LostPageList::default();
        assert!(twice.load(&held(tag, &chunk.bytes, false), 10) && !twice.load(&held(tag, &chunk.bytes, false), 10));
        let mut beside = LostPageList::default();
        assert!(beside.load(&held(tag, &chunk.bytes, false), 10));
        beside.loaded();
        assert!(beside.are_unknown(), "a list that nothing says to be one");
    }
}
