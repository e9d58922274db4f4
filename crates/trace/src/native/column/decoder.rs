//! Reads columns.

use std::io;

use super::super::layout::{MAX_BLOCK_REQUESTS, id, u16_at, u32_at, u64_at};
use super::{COLUMNS, ColumnEncoding, HEADER_BYTES, MAX_DICTIONARY, PLANE_ENTRY_BYTES, form};

/// Describes a fault of a column or a block, and the byte at which it is.
#[derive(Debug)]
pub(in crate::native) struct ColumnFault {
    pub(in crate::native) at: usize,
    pub(in crate::native) reason: String,
}

impl ColumnFault {
    pub(in crate::native) fn new(at: usize, reason: impl Into<String>) -> Self {
        Self { at, reason: reason.into() }
    }
}

/// Decompresses the planes of a block's columns.
pub(in crate::native) struct PlaneDecoder {
    zstd: zstd::bulk::Decompressor<'static>,
    /// Room for all planes of the columns that [`Request`](destage_plan::Request) needs.
    planes: Vec<u8>,
}

/// Holds the remaining room for planes.
pub(in crate::native) struct PlaneRoom<'a> {
    zstd: &'a mut zstd::bulk::Decompressor<'static>,
    planes: &'a mut [u8],
}

impl PlaneDecoder {
    pub(in crate::native) fn new() -> io::Result<Self> {
        Ok(Self { zstd: zstd::bulk::Decompressor::new()?, planes: vec![0; COLUMNS * 8 * MAX_BLOCK_REQUESTS] })
    }

    /// The whole room, for up to [`COLUMNS`] columns.
    pub(in crate::native) fn room(&mut self) -> PlaneRoom<'_> {
        PlaneRoom { zstd: &mut self.zstd, planes: &mut self.planes }
    }
}

/// A column whose planes are decompressed, ready to give its values.
pub(in crate::native) struct DecodedColumn<'a> {
    encoding: ColumnEncoding,
    base: u64,
    unit: u64,
    /// Holds the value from which the next one is predicted.
    value: u64,
    planes: usize,
    parts: [&'a [u8]; 8],
    dictionary: [u64; MAX_DICTIONARY],
}

impl<'a> DecodedColumn<'a> {
    /// Reads `bytes`, a whole column of `n` values (at most [`MAX_BLOCK_REQUESTS`]).
    pub(in crate::native) fn open(
        bytes: &'a [u8],
        n: usize,
        column: u16,
        room: &mut PlaneRoom<'a>,
    ) -> Result<Self, ColumnFault> {
        if bytes.len() < HEADER_BYTES {
            return Err(ColumnFault::new(
                0,
                format!("a column of {} B; its header alone has {HEADER_BYTES} B", bytes.len()),
            ));
        }
        let Some(encoding) = ColumnEncoding::from_u8(bytes[0]) else {
            return Err(ColumnFault::new(0, format!("column encoding {} is unknown; 0 to 4 are", bytes[0])));
        };
        if encoding == ColumnEncoding::AfterEnd && column != id::OFFSET {
            return Err(ColumnFault::new(0, "column encoding 3 is for the offset column only"));
        }
        let planes = usize::from(bytes[1]);
        if planes > 8 || (encoding == ColumnEncoding::Dictionary && planes > 1) {
            return Err(ColumnFault::new(1, format!("{planes} byte planes; a value has 8, a dictionary index 1")));
        }
        let entries = usize::from(u16_at(bytes, 2));
        let expected = if encoding == ColumnEncoding::Dictionary { 1..=MAX_DICTIONARY } else { 0..=0 };
        if !expected.contains(&entries) {
            return Err(ColumnFault::new(
                2,
                format!("{entries} dictionary entries; 1 to 256 with encoding 4, else none"),
            ));
        }
        if u32_at(bytes, 4) != 0 {
            return Err(ColumnFault::new(4, "reserved bytes of a column's header are not zero"));
        }
        let (first, base, unit) = (u64_at(bytes, 8), u64_at(bytes, 16), u64_at(bytes, 24));
        let plane_entries = HEADER_BYTES + entries * 8;
        let mut data = plane_entries + planes * PLANE_ENTRY_BYTES;
        if bytes.len() < data {
            let reason = format!("a column of {} B; its dictionary and planes need {data} B", bytes.len());
            return Err(ColumnFault::new(0, reason));
        }

        let mut parts: [&[u8]; 8] = [&[]; 8];
        for (k, part) in parts.iter_mut().enumerate().take(planes) {
            let entry = plane_entries + k * PLANE_ENTRY_BYTES;
            let [form, 0, 0, 0] = bytes[entry..entry + 4] else {
                return Err(ColumnFault::new(entry + 1, "reserved bytes of a plane's entry are not zero"));
            };
            let size = u32_at(bytes, entry + 4) as usize;
            let Some(stored) = data.checked_add(size).and_then(|end| bytes.get(data..end)) else {
                let left = bytes.len() - data;
                return Err(ColumnFault::new(
                    entry + 4,
                    format!("a plane of {size} B where the column has {left} B left"),
                ));
            };
            *part = match form {
                form::REPEATED if size == 1 => {
                    let plane = room.plane(n);
                    plane.fill(stored[0]);
                    plane
                }
                form::STORED if size == n => stored,
                form::ZSTD => {
                    let plane = room.plane(n);
                    match room.zstd.decompress_to_buffer(stored, plane) {
                        Ok(got) if got == n => plane,
                        Ok(got) => {
                            return Err(ColumnFault::new(data, format!("a plane of {got} values; the block has {n}")));
                        }
                        Err(e) => {
                            let reason = format!("a plane of {n} values does not decompress: {e}");
                            return Err(ColumnFault::new(data, reason));
                        }
                    }
                }
                form::REPEATED | form::STORED => {
                    return Err(ColumnFault::new(
                        entry + 4,
                        format!("a plane of {size} B in form {form} for {n} values"),
                    ));
                }
                _ => return Err(ColumnFault::new(entry, format!("plane form {form} is unknown; 0 to 2 are"))),
            };
            data += size;
        }
        if data != bytes.len() {
            return Err(ColumnFault::new(data, format!("{} B after the column's last plane", bytes.len() - data)));
        }

        let mut dictionary = [0; MAX_DICTIONARY];
        if encoding == ColumnEncoding::Dictionary {
            // All indices are checked at once here, so that decoding needs no check for each value.
            let highest = parts[0].iter().copied().fold(0, u8::max);
            if usize::from(highest) >= entries {
                let reason = format!("dictionary index {highest} of {entries} entries");
                return Err(ColumnFault::new(plane_entries, reason));
            }
            for (i, slot) in dictionary.iter_mut().enumerate().take(entries) {
                *slot = u64_at(bytes, HEADER_BYTES + i * 8);
            }
        }
        let value = if encoding == ColumnEncoding::Delta { first.wrapping_sub(base) } else { first };
        Ok(Self { encoding, base, unit, value, planes, parts, dictionary })
    }

    /// Gives the values from number `start` on, as many as `out` holds. Columns are read from the
    /// beginning, without gaps. `lengths` are those of the same requests; the offset column alone
    /// looks at them.
    ///
    /// Several plain loops over few values instead of one over all: each but the running sum
    /// becomes vector code, and the values stay in the first-level cache meanwhile.
    #[inline(always)]
    pub(in crate::native) fn next(&mut self, start: usize, lengths: &[u64], out: &mut [u64]) {
        gather(&self.parts[..self.planes], start, out);
        match self.encoding {
            ColumnEncoding::Frame => {
                scale(self.unit, out);
                add(self.base, out);
            }
            ColumnEncoding::Delta => {
                scale(self.unit, out);
                add(self.base, out);
                self.value = running_sum(self.value, out);
            }
            ColumnEncoding::Zigzag => {
                unzigzag_all(out);
                scale(self.unit, out);
                self.value = running_sum(self.value, out);
            }
            ColumnEncoding::AfterEnd => {
                unzigzag_all(out);
                scale(self.unit, out);
                for (value, length) in out.iter_mut().skip(1).zip(lengths) {
                    *value = value.wrapping_add(*length);
                }
                let last = running_sum(self.value, out);
                self.value = last.wrapping_add(lengths.get(out.len() - 1).copied().unwrap_or(0));
            }
            ColumnEncoding::Dictionary => {
                for value in out {
                    // The highest index has been checked; the mask spares checking each.
                    *value = self.dictionary[*value as usize & (MAX_DICTIONARY - 1)];
                }
            }
        }
    }
}

impl<'a> PlaneRoom<'a> {
    /// Room for a plane of `n` values. There is enough for eight planes of each of [`COLUMNS`]
    /// columns.
    fn plane(&mut self, n: usize) -> &'a mut [u8] {
        let (plane, rest) = std::mem::take(&mut self.planes).split_at_mut(MAX_BLOCK_REQUESTS);
        self.planes = rest;
        &mut plane[..n]
    }
}

/// Multiplies each value. Three cases, because there is no 64-bit multiplication in the vector
/// instructions that every machine has.
#[inline(always)]
fn scale(unit: u64, values: &mut [u64]) {
    if unit == 1 {
        return;
    }
    if unit.is_power_of_two() {
        let shift = unit.trailing_zeros();
        for value in values {
            *value <<= shift;
        }
    } else {
        for value in values {
            *value = value.wrapping_mul(unit);
        }
    }
}

#[inline(always)]
fn add(base: u64, values: &mut [u64]) {
    for value in values {
        *value = value.wrapping_add(base);
    }
}

#[inline(always)]
fn unzigzag_all(values: &mut [u64]) {
    for value in values {
        *value = unzigzag(*value);
    }
}

/// Replaces each value by the sum of `before` and all up to it, and gives the last.
#[inline(always)]
fn running_sum(before: u64, values: &mut [u64]) -> u64 {
    values.iter_mut().fold(before, |sum, value| {
        *value = value.wrapping_add(sum);
        *value
    })
}

/// Puts the bytes of the planes, from value `start` on, together.
#[inline(always)]
fn gather(planes: &[&[u8]], start: usize, out: &mut [u64]) {
    /// Values at a time: of arrays the compiler knows the length, and makes vector code without
    /// checks.
    const GROUP: usize = 64;

    fn put<const P: usize>(planes: &[&[u8]], start: usize, out: &mut [u64]) {
        let planes: [&[u8]; P] = std::array::from_fn(|k| &planes[k][start..start + out.len()]);
        let (planes, ends): ([&[[u8; GROUP]]; P], [&[u8]; P]) =
            (planes.map(|plane| plane.as_chunks().0), planes.map(|plane| plane.as_chunks::<GROUP>().1));
        let (groups, end) = out.as_chunks_mut::<GROUP>();
        for (g, group) in groups.iter_mut().enumerate() {
            let planes: [&[u8; GROUP]; P] = planes.map(|plane| &plane[g]);
            for (i, value) in group.iter_mut().enumerate() {
                *value = join(planes.map(|plane| plane[i]));
            }
        }
        for (i, value) in end.iter_mut().enumerate() {
            *value = join(ends.map(|plane| plane[i]));
        }
    }

    #[inline(always)]
    fn join<const P: usize>(bytes: [u8; P]) -> u64 {
        let mut value = 0;
        for (k, byte) in bytes.into_iter().enumerate() {
            value |= u64::from(byte) << (8 * k);
        }
        value
    }

    match planes.len() {
        0 => out.fill(0),
        1 => put::<1>(planes, start, out),
        2 => put::<2>(planes, start, out),
        3 => put::<3>(planes, start, out),
        4 => put::<4>(planes, start, out),
        5 => put::<5>(planes, start, out),
        6 => put::<6>(planes, start, out),
        7 => put::<7>(planes, start, out),
        _ => put::<8>(planes, start, out),
    }
}

const fn unzigzag(q: u64) -> u64 {
    (q >> 1) ^ (q & 1).wrapping_neg()
}
