//! What survives a power failure beside the devices: slots with a tag and bytes, and the rows with
//! an open intent.

use destage_plan::{NvSlot, Row, Rows, Tag};

/// A set of rows: a bit each, as dense as the members are long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowSet {
    words: Vec<u64>,
}

impl RowSet {
    /// Adds rows, or takes them out.
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

    /// Whether a row is in the set.
    #[inline]
    pub fn contains(&self, row: Row) -> bool {
        self.words.get((row.0 / 64) as usize).is_some_and(|word| word >> (row.0 % 64) & 1 != 0)
    }

    /// Adds the rows of another set.
    pub fn add(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Takes out the rows that are not in another set.
    pub fn keep(&mut self, other: &Self) {
        self.words.truncate(other.words.len());
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    /// Takes all rows out.
    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Row> {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            std::iter::successors((word != 0).then_some(word), |word| Some(word & (word - 1)).filter(|left| *left != 0))
                .map(move |word| Row(at as u64 * 64 + u64::from(word.trailing_zeros())))
        })
    }

    /// The rows as ranges, ascending, as [`Start`](destage_plan::Start) wants them.
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
struct Entry {
    generation: u32,
    tag: Tag,
    bytes: Vec<u8>,
}

/// The NVRAM. Each change is atomic, and durable when made.
#[derive(Clone, Debug, Default)]
pub struct Nvram {
    slots: Vec<Option<Entry>>,
    /// The generation of each slot's last use in this life, if it had one.
    last: Vec<Option<u32>>,
    /// Rows with an open intent.
    pub intents: RowSet,
    spare: Vec<Vec<u8>>,
}

impl Nvram {
    /// A life begins: no step can name a use of a slot that has ended.
    pub fn begin(&mut self) {
        self.last.clear();
        self.last.extend(self.slots.iter().map(|entry| entry.as_ref().map(|entry| entry.generation)));
    }

    /// Puts a tag, and exactly these bytes, into a free slot.
    ///
    /// # Panics
    /// If the slot is in use: what it holds would be lost before what replaces it is durable. If the
    /// generation is that of the slot's use before this one: steps that mean that would find this.
    pub fn put(&mut self, slot: NvSlot, tag: Tag, bytes: &[u8]) {
        let mut kept = self.room();
        kept.extend_from_slice(bytes);
        self.keep(slot, tag, kept);
    }

    /// Puts a tag and so many zeros.
    ///
    /// # Panics
    /// As [`put`](Self::put).
    pub fn put_zeros(&mut self, slot: NvSlot, tag: Tag, len: usize) {
        let mut kept = self.room();
        kept.resize(len, 0);
        self.keep(slot, tag, kept);
    }

    /// Puts a tag and the first bytes of another slot.
    ///
    /// # Panics
    /// As [`put`](Self::put) and [`bytes`](Self::bytes), and if the other slot holds fewer bytes.
    pub fn put_copy(&mut self, slot: NvSlot, tag: Tag, from: NvSlot, len: usize) {
        let mut kept = self.room();
        kept.extend_from_slice(&self.bytes(from)[..len]);
        self.keep(slot, tag, kept);
    }

    fn keep(&mut self, slot: NvSlot, tag: Tag, bytes: Vec<u8>) {
        let index = slot.index as usize;
        if index >= self.slots.len() {
            self.slots.resize(index + 1, None);
        }
        assert!(self.slots[index].is_none(), "{slot:?} is put while it is in use");
        if index >= self.last.len() {
            self.last.resize(index + 1, None);
        }
        let before = self.last[index].replace(slot.generation);
        assert_ne!(before, Some(slot.generation), "{slot:?} is the name of the use before this one");
        self.slots[index] = Some(Entry { generation: slot.generation, tag, bytes });
    }

    fn room(&mut self) -> Vec<u8> {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes
    }

    /// Frees a slot.
    ///
    /// # Panics
    /// If this use of the slot has ended already.
    pub fn free(&mut self, slot: NvSlot) {
        let entry = self.slots.get_mut(slot.index as usize).and_then(Option::take);
        let entry = entry.filter(|entry| entry.generation == slot.generation);
        let entry = entry.unwrap_or_else(|| panic!("{slot:?} is freed but not in use"));
        self.spare.push(entry.bytes);
    }

    /// Whether this use of a slot goes on.
    pub fn holds(&self, slot: NvSlot) -> bool {
        let entry = self.slots.get(slot.index as usize).and_then(Option::as_ref);
        entry.is_some_and(|entry| entry.generation == slot.generation)
    }

    /// The bytes in a slot, as many as were put.
    ///
    /// # Panics
    /// If this use of the slot has ended.
    pub fn bytes(&self, slot: NvSlot) -> &[u8] {
        let entry = self.slots.get(slot.index as usize).and_then(Option::as_ref);
        let entry = entry.filter(|entry| entry.generation == slot.generation);
        &entry.unwrap_or_else(|| panic!("{slot:?} is read but not in use")).bytes
    }

    /// The slots in use, ascending, with what they say.
    pub fn slots(&self) -> impl Iterator<Item = (NvSlot, Tag)> {
        self.slots.iter().enumerate().filter_map(|(index, entry)| {
            let entry = entry.as_ref()?;
            Some((NvSlot { index: index as u32, generation: entry.generation }, entry.tag))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_rows_that_follow_each_other() {
        let mut rows = RowSet::default();
        assert!(rows.is_empty());
        rows.set(Rows::new(Row(62), 4), true);
        rows.set(Rows::new(Row(3), 1), true);
        rows.set(Rows::new(Row(64), 1), false);
        rows.set(Rows::new(Row(900), 2), false);
        assert_eq!(rows.ranges(), [Rows::new(Row(3), 1), Rows::new(Row(62), 2), Rows::new(Row(65), 1)]);
        assert!(rows.contains(Row(65)) && !rows.contains(Row(64)) && !rows.contains(Row(5000)));
    }

    #[test]
    fn a_slot_is_known_by_its_generation() {
        let mut nvram = Nvram::default();
        let (first, second) = (NvSlot { index: 2, generation: 1 }, NvSlot { index: 2, generation: 2 });
        nvram.put(first, [7; 24], b"page");
        assert_eq!(nvram.bytes(first), b"page");
        assert_eq!(nvram.slots().collect::<Vec<_>>(), [(first, [7; 24])]);
        nvram.free(first);
        nvram.put(second, [8; 24], &[]);
        assert!(nvram.bytes(second).is_empty());
        assert!(std::panic::catch_unwind(|| nvram.bytes(first).len()).is_err());
    }

    #[test]
    #[should_panic(expected = "is the name of the use before this one")]
    fn each_use_of_a_slot_has_a_generation_of_its_own() {
        let mut nvram = Nvram::default();
        let slot = NvSlot { index: 0, generation: 1 };
        nvram.put(slot, [7; 24], b"page");
        nvram.free(slot);
        nvram.begin();
        nvram.put(slot, [7; 24], b"another life");
        nvram.free(slot);
        nvram.put(slot, [7; 24], b"the same");
    }
}
