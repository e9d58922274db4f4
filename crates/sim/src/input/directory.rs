//! Numbers logical blocks as they are touched.

use std::ops::Range;

use destage_policy::buffer::BlockBorder;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Counts the blocks in a chunk of the directory: one chunk is what a first touch costs.
const CHUNK_BLOCKS: usize = 64;
const UNTOUCHED: u32 = u32::MAX;
/// Chunks below this number are found in a table, others in a map; the table never takes more than
/// 1 MiB.
const TABLE_CHUNKS: u64 = 1 << 18;

/// Numbers logical blocks in the order of their first touch, so that the pages of a block stay
/// adjacent and memory is proportional to the blocks touched.
#[derive(Clone, Debug)]
pub struct BlockDirectory {
    low_chunks: Vec<u32>,
    chunk_of: HashMap<u64, u32, FixedState>,
    chunks: Vec<[u32; CHUNK_BLOCKS]>,
    /// Holds the chunk looked up last: requests come in runs.
    last: (u64, u32),
    blocks: u32,
    /// Lists the borders between numbered blocks that were not taken yet, if they are kept.
    pub(super) borders: Option<Vec<BlockBorder>>,
}

impl Default for BlockDirectory {
    fn default() -> Self {
        Self {
            low_chunks: Vec::new(),
            chunk_of: HashMap::with_hasher(FixedState::with_seed(0)),
            chunks: Vec::new(),
            last: (u64::MAX, 0),
            blocks: 0,
            borders: None,
        }
    }
}

impl BlockDirectory {
    /// Counts the blocks numbered so far.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Returns the number of the block with this address, which gets one if it has none.
    #[inline]
    pub fn number(&mut self, address: u64) -> u32 {
        let key = address / CHUNK_BLOCKS as u64;
        // Requests come in runs, so the chunk of the latest block often serves the next.
        if key != self.last.0 {
            let known = self.low_chunks.get(key as usize).copied().filter(|&chunk| chunk != UNTOUCHED);
            self.last = (key, known.unwrap_or_else(|| self.find_or_add_chunk(key)));
        }
        let slot = &mut self.chunks[self.last.1 as usize][(address % CHUNK_BLOCKS as u64) as usize];
        if *slot != UNTOUCHED {
            return *slot;
        }
        let number = self.blocks;
        *slot = number;
        self.blocks += 1;
        // Numbers by first touch say nothing of addresses, so neighbours are noted here, once per block.
        if self.borders.is_some() {
            self.note_borders(address, number);
        }
        number
    }
}

impl BlockDirectory {
    /// Returns the address after the highest that has a number.
    pub(super) fn end(&self) -> u64 {
        // Keys of the map lie above those of the table, so the table counts only if the map is empty.
        let in_map = self.chunk_of.iter().map(|(&key, &chunk)| (key, chunk)).max();
        let in_table = || self.low_chunks.iter().rposition(|chunk| *chunk != UNTOUCHED);
        let last = in_map.or_else(|| in_table().map(|key| (key as u64, self.low_chunks[key])));
        last.map_or(0, |(key, chunk)| {
            let touched = self.chunks[chunk as usize].iter().rposition(|number| *number != UNTOUCHED);
            key * CHUNK_BLOCKS as u64 + touched.map_or(0, |at| at as u64 + 1)
        })
    }

    /// Notes which of the blocks numbered before lie beside a new one.
    fn note_borders(&mut self, address: u64, number: u32) {
        let before = address.checked_sub(1).and_then(|before| self.known(before));
        let after = self.known(address + 1);
        let new = before.map(|before| BlockBorder { before, after: number });
        let new = new.into_iter().chain(after.map(|after| BlockBorder { before: number, after }));
        self.borders.get_or_insert_default().extend(new);
    }

    /// Returns the number of the block with this address, if it has one.
    pub(super) fn known(&self, address: u64) -> Option<u32> {
        let key = address / CHUNK_BLOCKS as u64;
        let chunk = if key < TABLE_CHUNKS { self.low_chunks.get(key as usize) } else { self.chunk_of.get(&key) };
        let chunk = chunk.filter(|&&chunk| chunk != UNTOUCHED)?;
        let number = self.chunks[*chunk as usize][(address % CHUNK_BLOCKS as u64) as usize];
        (number != UNTOUCHED).then_some(number)
    }

    /// Returns the blocks with addresses in `range` that have a number, ascending: address and number. The
    /// work is proportional to the blocks touched or to the range, whichever is less.
    pub(super) fn touched(&self, range: Range<u64>) -> impl Iterator<Item = (u64, u32)> {
        let per_chunk = CHUNK_BLOCKS as u64;
        let keys = range.start / per_chunk..range.end.div_ceil(per_chunk);
        let low = keys.start.min(self.low_chunks.len() as u64)..keys.end.min(self.low_chunks.len() as u64);
        let in_table = low.map(|key| (key, self.low_chunks[key as usize])).filter(|&(_, chunk)| chunk != UNTOUCHED);
        let mut in_map: Vec<(u64, u32)> = if keys.end.saturating_sub(keys.start) <= self.chunk_of.len() as u64 {
            keys.filter_map(|key| self.chunk_of.get(&key).map(|&chunk| (key, chunk))).collect()
        } else {
            self.chunk_of.iter().map(|(&key, &chunk)| (key, chunk)).filter(|(key, _)| keys.contains(key)).collect()
        };
        // The hash order must not show in results.
        in_map.sort_unstable();
        in_table.chain(in_map).flat_map(move |(key, chunk)| {
            let numbers = (key * per_chunk..).zip(self.chunks[chunk as usize]);
            let range = range.clone();
            numbers.filter(move |(address, number)| *number != UNTOUCHED && range.contains(address))
        })
    }

    #[cold]
    fn find_or_add_chunk(&mut self, key: u64) -> u32 {
        let fresh = self.chunks.len() as u32;
        let chunk = if key < TABLE_CHUNKS {
            if self.low_chunks.len() <= key as usize {
                // A table serves low addresses, where most traces lie; a map keeps sparse high ones from
                // costing memory.
                self.low_chunks.resize(key as usize + 1, UNTOUCHED);
            }
            self.low_chunks[key as usize] = fresh;
            fresh
        } else {
            *self.chunk_of.entry(key).or_insert(fresh)
        };
        if chunk == fresh {
            self.chunks.push([UNTOUCHED; CHUNK_BLOCKS]);
        }
        chunk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_costs_what_is_touched() {
        let mut directory = BlockDirectory::default();
        for i in 0..1000 {
            assert_eq!(directory.number(i * 1_000_003), i as u32);
        }
        assert_eq!(directory.chunks.len(), 1000);
        assert_eq!(directory.number(5 * 1_000_003), 5);
    }
}
