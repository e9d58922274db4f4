//! Models what survives a power failure beside the devices: slots with a tag and bytes, and the rows with an
//! open intent.

use destage_plan::{NvHeld, NvSlot, Row, Rows, Tag};

/// Holds a set of rows: a bit for each, up to the largest row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowSet {
    words: Vec<u64>,
}

impl RowSet {
    /// Adds rows, or removes them.
    pub fn set(&mut self, rows: Rows, to: bool) {
        for row in rows.iter() {
            let (word, bit) = ((row.0 / 64) as usize, 1 << (row.0 % 64));
            if word >= self.words.len() {
                if !to {
                    return;
                }
                self.words.resize(word + 1, 0);
            }
            if to {
                self.words[word] |= bit;
            } else {
                self.words[word] &= !bit;
            }
        }
    }

    /// Returns true if a row is in the set.
    #[inline]
    pub fn contains(&self, row: Row) -> bool {
        self.words.get((row.0 / 64) as usize).is_some_and(|word| word >> (row.0 % 64) & 1 != 0)
    }

    /// Returns true if one of these rows is in the set.
    pub fn holds_any(&self, rows: Rows) -> bool {
        let (first, end) = (rows.first.0, rows.end().0);
        // By words of 64 rows: a mark stands for many rows, and each clearing asks
        // for each mark.
        let words = (first / 64) as usize..(end.div_ceil(64) as usize).min(self.words.len());
        words.into_iter().any(|at| {
            let from = at as u64 * 64;
            let low = if from < first { u64::MAX << (first - from) } else { u64::MAX };
            let high = if from + 64 > end { u64::MAX >> (from + 64 - end) } else { u64::MAX };
            self.words[at] & low & high != 0
        })
    }

    /// Adds the rows of another set.
    pub fn add(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Removes the rows that are not in another set.
    pub fn keep(&mut self, other: &Self) {
        self.words.truncate(other.words.len());
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// Returns true if there are no rows.
    // Words stay when rows go, so their number does not tell.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Iterates over the rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Row> {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            std::iter::successors((word != 0).then_some(word), |word| Some(word & (word - 1)).filter(|left| *left != 0))
                .map(move |word| Row(at as u64 * 64 + u64::from(word.trailing_zeros())))
        })
    }

    /// Returns the rows as ranges, ascending, as [`Start`](destage_plan::Start) wants them.
    pub fn ranges(&self) -> Vec<Rows> {
        let mut ranges: Vec<Rows> = Vec::new();
        for row in self.iter() {
            match ranges.last_mut() {
                Some(last) if last.end() == row => last.count += 1,
                _ => ranges.push(Rows::new(row, 1)),
            }
        }
        ranges
    }
}

#[derive(Clone, Debug)]
struct SlotEntry {
    generation: u32,
    tag: Tag,
    bytes: Vec<u8>,
    is_damaged: bool,
}

/// Holds slots and their content.
#[derive(Clone, Debug, Default)]
struct SlotTable {
    entries: Vec<Option<SlotEntry>>,
    /// Records the generation of each slot's last use in this life, if it had one.
    last: Vec<Option<u32>>,
}

/// Holds the NVRAM, whose changes are atomic, and durable when made; and the slots of memory beside it.
#[derive(Clone, Debug, Default)]
pub struct MemoryNvram {
    durable: SlotTable,
    in_memory: SlotTable,
    /// Holds the pages of recent rows, in memory as well.
    of_rows: SlotTable,
    /// Holds the rows with an open intent.
    pub intents: RowSet,
    spare: Vec<Vec<u8>>,
}

impl SlotTable {
    fn get(&self, slot: NvSlot) -> Option<&SlotEntry> {
        let entry = self.entries.get(slot.place()).and_then(Option::as_ref);
        entry.filter(|entry| entry.generation == slot.generation)
    }

    fn keep(&mut self, slot: NvSlot, tag: Tag, bytes: Vec<u8>, is_damaged: bool) {
        let index = slot.place();
        if index >= self.entries.len() {
            self.entries.resize(index + 1, None);
        }
        // A put over a slot in use would lose its content before the replacement is
        // durable.
        assert!(self.entries[index].is_none(), "{slot:?} is put while it is in use");
        if index >= self.last.len() {
            self.last.resize(index + 1, None);
        }
        // Generations tell uses apart; the same one twice would let an old step
        // read new bytes.
        let before = self.last[index].replace(slot.generation);
        assert_ne!(before, Some(slot.generation), "{slot:?} is the name of the use before this one");
        self.entries[index] = Some(SlotEntry { generation: slot.generation, tag, bytes, is_damaged });
    }

    fn free(&mut self, slot: NvSlot) -> Vec<u8> {
        let entry = self.entries.get_mut(slot.place()).and_then(Option::take);
        let entry = entry.filter(|entry| entry.generation == slot.generation);
        entry.unwrap_or_else(|| panic!("{slot:?} is freed but not in use")).bytes
    }
}

/// Records how to undo a commit.
#[derive(Clone, Debug)]
pub(crate) struct CommitUndo {
    puts: Vec<NvSlot>,
    frees: Vec<(NvSlot, SlotEntry)>,
}

impl MemoryNvram {
    /// Records how to undo a commit that is about to put and free these.
    pub(crate) fn undo(&self, puts: impl Iterator<Item = NvSlot>, frees: impl Iterator<Item = NvSlot>) -> CommitUndo {
        let held = |slot| (slot, self.get(slot).unwrap_or_else(|| panic!("{slot:?} is freed but not in use")).clone());
        CommitUndo { puts: puts.collect(), frees: frees.map(held).collect() }
    }

    /// Undoes the newest commit.
    pub(crate) fn take_back(&mut self, CommitUndo { puts, frees }: &CommitUndo) {
        // Only the newest commit can be undone: a later one may have put into the
        // slots that this one freed.
        for slot in puts {
            self.durable.entries[slot.place()] = None;
        }
        for (slot, entry) in frees {
            self.durable.entries[slot.place()] = Some(entry.clone());
        }
    }

    /// Begins a life: no step can name a use of a slot that has ended, and nothing is in memory.
    pub fn begin(&mut self) {
        // Only the durable slots survive; the memory beside them begins empty.
        let SlotTable { entries, last } = &mut self.durable;
        last.clear();
        last.extend(entries.iter().map(|entry| entry.as_ref().map(|entry| entry.generation)));
        self.in_memory = SlotTable::default();
        self.of_rows = SlotTable::default();
    }

    /// Puts a tag, and exactly these bytes, into a free slot.
    ///
    /// # Panics
    /// Panics if the slot is in use: its content would be lost before its replacement is durable.
    /// Panics if the generation is that of the slot's use before this one: steps that mean that use would find
    /// this one.
    pub fn put(&mut self, slot: NvSlot, tag: Tag, bytes: &[u8]) {
        let mut kept = self.room();
        kept.extend_from_slice(bytes);
        self.slots_of(slot).keep(slot, tag, kept, false);
    }

    /// Puts a tag and so many zeros.
    ///
    /// # Panics
    /// Panics as [`put`](Self::put) does.
    pub fn put_zeros(&mut self, slot: NvSlot, tag: Tag, len: usize) {
        let mut kept = self.room();
        kept.resize(len, 0);
        self.slots_of(slot).keep(slot, tag, kept, false);
    }

    /// Puts a tag, and so many bytes of which nobody knows the content.
    ///
    /// # Panics
    /// Panics as [`put`](Self::put) does.
    pub fn put_damaged(&mut self, slot: NvSlot, tag: Tag, len: usize) {
        self.slots_of(slot).keep(slot, tag, vec![0; len], true);
    }

    /// Puts a tag and the first bytes of another slot.
    ///
    /// # Panics
    /// Panics as [`put`](Self::put) and [`bytes`](Self::bytes) do, and if the other slot holds fewer bytes.
    pub fn put_copy(&mut self, slot: NvSlot, tag: Tag, from: NvSlot, len: usize) {
        let mut kept = self.room();
        kept.extend_from_slice(&self.bytes(from)[..len]);
        self.slots_of(slot).keep(slot, tag, kept, false);
    }

    const fn slots_of(&mut self, slot: NvSlot) -> &mut SlotTable {
        match (slot.is_in_memory(), slot.is_of_row()) {
            (false, _) => &mut self.durable,
            (true, false) => &mut self.in_memory,
            (true, true) => &mut self.of_rows,
        }
    }

    fn get(&self, slot: NvSlot) -> Option<&SlotEntry> {
        match (slot.is_in_memory(), slot.is_of_row()) {
            (false, _) => self.durable.get(slot),
            (true, false) => self.in_memory.get(slot),
            (true, true) => self.of_rows.get(slot),
        }
    }

    fn room(&mut self) -> Vec<u8> {
        let mut bytes = self.spare.pop().unwrap_or_default();
        // The old content must not show after a shorter put.
        bytes.clear();
        bytes
    }

    /// Frees a slot.
    ///
    /// # Panics
    /// Panics if this use of the slot has ended already.
    pub fn free(&mut self, slot: NvSlot) {
        let bytes = self.slots_of(slot).free(slot);
        self.spare.push(bytes);
    }

    /// Returns true if this use of a slot goes on.
    pub fn holds(&self, slot: NvSlot) -> bool {
        self.get(slot).is_some()
    }

    /// Returns the bytes in a slot, as many as were put.
    ///
    /// # Panics
    /// Panics if this use of the slot has ended, or its bytes are [damaged](NvHeld::is_damaged).
    pub fn bytes(&self, slot: NvSlot) -> &[u8] {
        let entry = self.get(slot).unwrap_or_else(|| panic!("{slot:?} is read but not in use"));
        // Nobody may compute with bytes whose content is unknown.
        assert!(!entry.is_damaged, "{slot:?} is read, and its bytes are damaged");
        &entry.bytes
    }

    /// Returns the slots of the NVRAM in use from this index on, ascending, with what they hold.
    pub(crate) fn held_from(&self, first: u32) -> impl Iterator<Item = NvHeld<'_>> {
        let entries = self.durable.entries.iter().zip(0_u32..).skip(first as usize);
        entries.filter_map(|(entry, index)| {
            let SlotEntry { generation, tag, bytes, is_damaged } = entry.as_ref()?;
            let slot = NvSlot { index, generation: *generation };
            Some(NvHeld { slot, tag: *tag, bytes, is_damaged: *is_damaged })
        })
    }

    /// Returns the slots of the NVRAM in use, ascending, with what they hold.
    pub fn slots(&self) -> impl Iterator<Item = NvHeld<'_>> {
        self.held_from(0)
    }
}
