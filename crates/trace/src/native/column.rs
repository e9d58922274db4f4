//! One column of a block: a prediction, what remains of each value, and its byte planes
//! (docs/trace-format.md).
//!
//! A value is predicted (not at all, from the value before it, or from the end of the request
//! before it), the remainder is divided by the greatest common divisor of the block's remainders,
//! and byte k of every quotient goes to plane k. Values in which few distinct ones occur may go
//! through a dictionary instead. The writer takes the way whose planes have the least order-0
//! entropy.

use std::io;

use super::layout::{MAX_BLOCK_REQUESTS, id, u16_at, u32_at, u64_at};

/// Bytes before a column's dictionary.
const HEADER_BYTES: usize = 32;
/// Bytes of a plane's entry.
const PLANE_ENTRY_BYTES: usize = 8;
/// Entries in a dictionary at most, so that an index is one plane.
const MAX_DICTIONARY: usize = 256;
/// Columns that a block is decoded from: the fields of a request, operation and FUA in one.
pub(super) const COLUMNS: usize = 5;

/// How a value follows from its quotient `q` (docs/trace-format.md has the numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Encoding {
    /// `base + unit * q`
    Frame = 0,
    /// previous value `+ base + unit * q`
    Delta = 1,
    /// previous value `+ unit * zigzag(q)`
    Zigzag = 2,
    /// previous value `+` previous length `+ unit * zigzag(q)`; of the offset column only
    AfterEnd = 3,
    /// entry `q` of the dictionary
    Dictionary = 4,
}

impl Encoding {
    const fn from_u8(n: u8) -> Option<Self> {
        match n {
            0 => Some(Self::Frame),
            1 => Some(Self::Delta),
            2 => Some(Self::Zigzag),
            3 => Some(Self::AfterEnd),
            4 => Some(Self::Dictionary),
            _ => None,
        }
    }
}

/// How a plane is stored.
mod form {
    /// One byte, which every value has.
    pub(super) const REPEATED: u8 = 0;
    /// A byte per value.
    pub(super) const STORED: u8 = 1;
    /// A zstd frame that holds a byte per value.
    pub(super) const ZSTD: u8 = 2;
}

const fn zigzag(delta: i64) -> u64 {
    ((delta << 1) ^ (delta >> 63)).cast_unsigned()
}

const fn unzigzag(q: u64) -> u64 {
    (q >> 1) ^ (q & 1).wrapping_neg()
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Planes that a quotient this large needs.
const fn planes_for(max: u64) -> usize {
    (64 - max.leading_zeros()).div_ceil(8) as usize
}

// ----------------------------------------------------------------------------------------------------------
// writing

/// A way to write a column, and its quotients.
#[derive(Default)]
struct Candidate {
    encoding: u8,
    first: u64,
    base: u64,
    unit: u64,
    dictionary: Vec<u64>,
    quotients: Vec<u64>,
}

/// Writes columns; keeps its buffers from one to the next.
pub(super) struct ColumnEncoder {
    zstd: zstd::bulk::Compressor<'static>,
    /// `c * log2(c)` in 1/256 bits for every count in a block.
    weights: Vec<u32>,
    best: Candidate,
    other: Candidate,
    plane: Vec<u8>,
    compressed: Vec<u8>,
}

impl ColumnEncoder {
    pub(super) fn new(level: i32) -> io::Result<Self> {
        let mut zstd = zstd::bulk::Compressor::new(level)?;
        // Both are in the plane's entry and in the block's header.
        zstd.set_parameter(zstd::zstd_safe::CParameter::ContentSizeFlag(false))?;
        zstd.set_parameter(zstd::zstd_safe::CParameter::ChecksumFlag(false))?;
        // In a byte plane short matches save next to nothing over entropy coding alone, and cost
        // the reader the most.
        zstd.set_parameter(zstd::zstd_safe::CParameter::MinMatch(7))?;
        // libm and not f64::log2: the choice between encodings must be the same on every machine.
        #[expect(clippy::cast_sign_loss, reason = "the logarithm of a count is not negative")]
        let weight = |c: usize| (c as f64 * libm::log2(c.max(1) as f64) * 256.0) as u32;
        Ok(Self {
            zstd,
            weights: (0..=MAX_BLOCK_REQUESTS).map(weight).collect(),
            best: Candidate::default(),
            other: Candidate::default(),
            plane: Vec::with_capacity(MAX_BLOCK_REQUESTS),
            compressed: vec![0; zstd::zstd_safe::compress_bound(MAX_BLOCK_REQUESTS)],
        })
    }

    /// Appends the column `values` (1 to [`MAX_BLOCK_REQUESTS`]) to `out`. `lengths` are those of
    /// the same requests.
    pub(super) fn encode(&mut self, column: u16, values: &[u64], lengths: &[u64], out: &mut Vec<u8>) -> io::Result<()> {
        frame(values, &mut self.best);
        let mut best_cost = cost(&self.best, &self.weights);
        let mut consider = |candidate: &mut Candidate, best: &mut Candidate, weights: &[u32]| {
            let c = cost(candidate, weights);
            if c < best_cost {
                best_cost = c;
                std::mem::swap(candidate, best);
            }
        };
        if values.iter().any(|&v| v != values[0]) {
            delta(values, &mut self.other);
            consider(&mut self.other, &mut self.best, &self.weights);
            zigzag_delta(values, |i| values[i], Encoding::Zigzag, &mut self.other);
            consider(&mut self.other, &mut self.best, &self.weights);
            if column == id::OFFSET {
                let end = |i: usize| values[i].wrapping_add(lengths[i]);
                zigzag_delta(values, end, Encoding::AfterEnd, &mut self.other);
                consider(&mut self.other, &mut self.best, &self.weights);
            }
            if dictionary(values, &mut self.other) {
                consider(&mut self.other, &mut self.best, &self.weights);
            }
        }
        self.put(out)
    }

    /// Appends the best candidate.
    fn put(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let c = &self.best;
        let n = c.quotients.len();
        let planes = planes_for(c.quotients.iter().fold(0, |all, &q| all | q));
        out.extend_from_slice(&[c.encoding, planes as u8]);
        out.extend_from_slice(&(c.dictionary.len() as u16).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        for v in [c.first, c.base, c.unit] {
            out.extend_from_slice(&v.to_le_bytes());
        }
        for v in &c.dictionary {
            out.extend_from_slice(&v.to_le_bytes());
        }
        let mut entry = out.len();
        out.resize(entry + planes * PLANE_ENTRY_BYTES, 0);
        for k in 0..planes {
            self.plane.clear();
            self.plane.extend(c.quotients.iter().map(|q| (q >> (8 * k)) as u8));
            let (form, bytes) = if self.plane.iter().all(|&b| b == self.plane[0]) {
                (form::REPEATED, &self.plane[..1])
            } else {
                let compressed = self.zstd.compress_to_buffer(&self.plane, &mut self.compressed[..])?;
                if compressed < worth_compressing(n) {
                    (form::ZSTD, &self.compressed[..compressed])
                } else {
                    (form::STORED, &self.plane[..])
                }
            };
            out[entry] = form;
            out[entry + 4..entry + 8].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
            entry += PLANE_ENTRY_BYTES;
            out.extend_from_slice(bytes);
        }
        Ok(())
    }
}

/// A plane of this size stays as it is unless it becomes smaller than this: a stored plane decodes
/// for nothing.
const fn worth_compressing(size: usize) -> usize {
    size - size / 16
}

/// What a candidate will take, in 1/256 bits: the order-0 entropy of its planes, a plane that will
/// be stored counted whole.
fn cost(candidate: &Candidate, weights: &[u32]) -> u64 {
    let q = &candidate.quotients;
    let planes = planes_for(q.iter().fold(0, |all, &q| all | q));
    let stored = q.len() << 11;
    let mut bits = candidate.dictionary.len() as u64 * (64 << 8);
    for k in 0..planes {
        let mut counts = [0_usize; 256];
        for q in q {
            counts[(q >> (8 * k)) as usize & 0xff] += 1;
        }
        let sum: u64 = counts.iter().map(|&c| u64::from(weights[c])).sum();
        let entropy = u64::from(weights[q.len()]).saturating_sub(sum);
        bits += ((PLANE_ENTRY_BYTES as u64) << 11)
            + if entropy < worth_compressing(stored) as u64 { entropy } else { stored as u64 };
    }
    bits
}

impl Candidate {
    /// Begins anew.
    fn reset(&mut self, encoding: Encoding, first: u64, base: u64) {
        self.encoding = encoding as u8;
        self.first = first;
        self.base = base;
        self.dictionary.clear();
        self.quotients.clear();
    }

    /// Divides the remainders by their greatest common divisor.
    fn factor(&mut self, unit: u64, divide: impl Fn(u64, u64) -> u64) {
        self.unit = unit.max(1);
        if self.unit > 1 {
            for q in &mut self.quotients {
                *q = divide(*q, self.unit);
            }
        }
    }
}

fn frame(values: &[u64], c: &mut Candidate) {
    let base = values.iter().copied().min().unwrap_or(0);
    c.reset(Encoding::Frame, 0, base);
    c.quotients.extend(values.iter().map(|v| v - base));
    let unit = divisor(c.quotients.iter().copied());
    c.factor(unit, |q, unit| q / unit);
}

fn delta(values: &[u64], c: &mut Candidate) {
    let steps = || values.windows(2).map(|w| w[1].wrapping_sub(w[0]).cast_signed());
    let base = steps().min().unwrap_or(0);
    c.reset(Encoding::Delta, values[0], base.cast_unsigned());
    c.quotients.push(0);
    c.quotients.extend(steps().map(|d| d.wrapping_sub(base).cast_unsigned()));
    let unit = divisor(c.quotients.iter().copied());
    c.factor(unit, |q, unit| q / unit);
}

/// Remainders against `predict(i)` for value `i + 1`.
fn zigzag_delta(values: &[u64], predict: impl Fn(usize) -> u64, encoding: Encoding, c: &mut Candidate) {
    let steps = || (1..values.len()).map(|i| values[i].wrapping_sub(predict(i - 1)).cast_signed());
    c.reset(encoding, values[0], 0);
    let unit = divisor(steps().map(i64::unsigned_abs)).max(1);
    c.unit = unit;
    c.quotients.push(0);
    match i64::try_from(unit) {
        Ok(1) => c.quotients.extend(steps().map(zigzag)),
        Ok(unit) => c.quotients.extend(steps().map(|d| zigzag(d / unit))),
        // Only 2^63 divides itself here: every step is 0 or -2^63, and -1 * 2^63 wraps to the
        // latter.
        Err(_) => c.quotients.extend(steps().map(|d| zigzag(d.signum()))),
    }
}

/// Whether the values are few enough for a dictionary.
fn dictionary(values: &[u64], c: &mut Candidate) -> bool {
    c.reset(Encoding::Dictionary, 0, 0);
    c.unit = 1;
    for &v in values {
        if let Err(at) = c.dictionary.binary_search(&v) {
            if c.dictionary.len() == MAX_DICTIONARY {
                return false;
            }
            c.dictionary.insert(at, v);
        }
    }
    let entries = &c.dictionary;
    c.quotients.extend(values.iter().map(|v| entries.partition_point(|e| e < v) as u64));
    true
}

fn divisor(values: impl Iterator<Item = u64>) -> u64 {
    let mut divisor = 0;
    for v in values {
        // Most values are multiples of what has been found; the others make it smaller.
        if divisor == 0 || v % divisor != 0 {
            divisor = gcd(v, divisor);
            if divisor == 1 {
                break;
            }
        }
    }
    divisor
}

// ----------------------------------------------------------------------------------------------------------
// reading

/// What is wrong with a column or a block, and at which of its bytes.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) at: usize,
    pub(super) reason: String,
}

impl Fault {
    pub(super) fn new(at: usize, reason: impl Into<String>) -> Self {
        Self { at, reason: reason.into() }
    }
}

/// Decompresses the planes of a block's columns.
pub(super) struct PlaneDecoder {
    zstd: zstd::bulk::Decompressor<'static>,
    /// Room for all planes of the columns that [`Request`](destage_plan::Request) needs.
    planes: Vec<u8>,
}

/// What is left of the room for planes.
pub(super) struct Room<'a> {
    zstd: &'a mut zstd::bulk::Decompressor<'static>,
    planes: &'a mut [u8],
}

impl PlaneDecoder {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { zstd: zstd::bulk::Decompressor::new()?, planes: vec![0; COLUMNS * 8 * MAX_BLOCK_REQUESTS] })
    }

    /// The whole room, for up to [`COLUMNS`] columns.
    pub(super) fn room(&mut self) -> Room<'_> {
        Room { zstd: &mut self.zstd, planes: &mut self.planes }
    }
}

/// A column whose planes are decompressed, ready to give its values.
pub(super) struct Column<'a> {
    encoding: Encoding,
    base: u64,
    unit: u64,
    /// What the next value is predicted from.
    value: u64,
    planes: usize,
    parts: [&'a [u8]; 8],
    dictionary: [u64; MAX_DICTIONARY],
}

impl<'a> Column<'a> {
    /// Reads `bytes`, a whole column of `n` values (at most [`MAX_BLOCK_REQUESTS`]).
    pub(super) fn open(bytes: &'a [u8], n: usize, column: u16, room: &mut Room<'a>) -> Result<Self, Fault> {
        if bytes.len() < HEADER_BYTES {
            return Err(Fault::new(0, format!("a column of {} B; its header alone has {HEADER_BYTES} B", bytes.len())));
        }
        let Some(encoding) = Encoding::from_u8(bytes[0]) else {
            return Err(Fault::new(0, format!("column encoding {} is unknown; 0 to 4 are", bytes[0])));
        };
        if encoding == Encoding::AfterEnd && column != id::OFFSET {
            return Err(Fault::new(0, "column encoding 3 is for the offset column only"));
        }
        let planes = usize::from(bytes[1]);
        if planes > 8 || (encoding == Encoding::Dictionary && planes > 1) {
            return Err(Fault::new(1, format!("{planes} byte planes; a value has 8, a dictionary index 1")));
        }
        let entries = usize::from(u16_at(bytes, 2));
        let expected = if encoding == Encoding::Dictionary { 1..=MAX_DICTIONARY } else { 0..=0 };
        if !expected.contains(&entries) {
            return Err(Fault::new(2, format!("{entries} dictionary entries; 1 to 256 with encoding 4, else none")));
        }
        if u32_at(bytes, 4) != 0 {
            return Err(Fault::new(4, "reserved bytes of a column's header are not zero"));
        }
        let (first, base, unit) = (u64_at(bytes, 8), u64_at(bytes, 16), u64_at(bytes, 24));
        let plane_entries = HEADER_BYTES + entries * 8;
        let mut data = plane_entries + planes * PLANE_ENTRY_BYTES;
        if bytes.len() < data {
            let reason = format!("a column of {} B; its dictionary and planes need {data} B", bytes.len());
            return Err(Fault::new(0, reason));
        }

        let mut parts: [&[u8]; 8] = [&[]; 8];
        for (k, part) in parts.iter_mut().enumerate().take(planes) {
            let entry = plane_entries + k * PLANE_ENTRY_BYTES;
            let [form, 0, 0, 0] = bytes[entry..entry + 4] else {
                return Err(Fault::new(entry + 1, "reserved bytes of a plane's entry are not zero"));
            };
            let size = u32_at(bytes, entry + 4) as usize;
            let Some(stored) = data.checked_add(size).and_then(|end| bytes.get(data..end)) else {
                let left = bytes.len() - data;
                return Err(Fault::new(entry + 4, format!("a plane of {size} B where the column has {left} B left")));
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
                        Ok(got) => return Err(Fault::new(data, format!("a plane of {got} values; the block has {n}"))),
                        Err(e) => {
                            let reason = format!("a plane of {n} values does not decompress: {e}");
                            return Err(Fault::new(data, reason));
                        }
                    }
                }
                form::REPEATED | form::STORED => {
                    return Err(Fault::new(entry + 4, format!("a plane of {size} B in form {form} for {n} values")));
                }
                _ => return Err(Fault::new(entry, format!("plane form {form} is unknown; 0 to 2 are"))),
            };
            data += size;
        }
        if data != bytes.len() {
            return Err(Fault::new(data, format!("{} B after the column's last plane", bytes.len() - data)));
        }

        let mut dictionary = [0; MAX_DICTIONARY];
        if encoding == Encoding::Dictionary {
            let highest = parts[0].iter().copied().fold(0, u8::max);
            if usize::from(highest) >= entries {
                let reason = format!("dictionary index {highest} of {entries} entries");
                return Err(Fault::new(plane_entries, reason));
            }
            for (i, slot) in dictionary.iter_mut().enumerate().take(entries) {
                *slot = u64_at(bytes, HEADER_BYTES + i * 8);
            }
        }
        let value = if encoding == Encoding::Delta { first.wrapping_sub(base) } else { first };
        Ok(Self { encoding, base, unit, value, planes, parts, dictionary })
    }

    /// Gives the values from number `start` on, as many as `out` holds. Columns are read from the
    /// beginning, without gaps. `lengths` are those of the same requests; the offset column alone
    /// looks at them.
    ///
    /// Several plain loops over few values instead of one over all: each but the running sum
    /// becomes vector code, and the values stay in the first-level cache meanwhile.
    #[inline(always)]
    pub(super) fn next(&mut self, start: usize, lengths: &[u64], out: &mut [u64]) {
        gather(&self.parts[..self.planes], start, out);
        match self.encoding {
            Encoding::Frame => {
                scale(self.unit, out);
                add(self.base, out);
            }
            Encoding::Delta => {
                scale(self.unit, out);
                add(self.base, out);
                self.value = running_sum(self.value, out);
            }
            Encoding::Zigzag => {
                unzigzag_all(out);
                scale(self.unit, out);
                self.value = running_sum(self.value, out);
            }
            Encoding::AfterEnd => {
                unzigzag_all(out);
                scale(self.unit, out);
                for (value, length) in out.iter_mut().skip(1).zip(lengths) {
                    *value = value.wrapping_add(*length);
                }
                let last = running_sum(self.value, out);
                self.value = last.wrapping_add(lengths.get(out.len() - 1).copied().unwrap_or(0));
            }
            Encoding::Dictionary => {
                for value in out {
                    // The highest index has been checked; the mask spares checking each.
                    *value = self.dictionary[*value as usize & (MAX_DICTIONARY - 1)];
                }
            }
        }
    }
}

impl<'a> Room<'a> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// All values of a column, in uneven pieces.
    fn decode(bytes: &[u8], n: usize, column: u16, lengths: &[u64]) -> Result<Vec<u64>, Fault> {
        let mut decoder = PlaneDecoder::new().unwrap();
        let mut column = Column::open(bytes, n, column, &mut decoder.room())?;
        let mut out = vec![7; n];
        let mut start = 0;
        while start < n {
            let end = n.min(start * 2 + 1);
            column.next(start, &lengths[start..end], &mut out[start..end]);
            start = end;
        }
        Ok(out)
    }

    fn round_trip(column: u16, values: &[u64], lengths: &[u64]) -> (u8, usize) {
        let mut bytes = vec![];
        ColumnEncoder::new(3).unwrap().encode(column, values, lengths, &mut bytes).unwrap();
        assert_eq!(decode(&bytes, values.len(), column, lengths).unwrap(), values);
        (bytes[0], bytes.len())
    }

    /// A generator good enough to fill a column.
    fn noise(n: usize) -> impl Iterator<Item = u64> {
        let mut x = 1_u64;
        (0..n).map(move |_| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            x ^ (x >> 29)
        })
    }

    #[test]
    fn each_kind_of_column_takes_its_encoding() {
        let n = MAX_BLOCK_REQUESTS;
        let constant = vec![u64::MAX; n];
        assert_eq!(round_trip(id::LEN, &constant, &constant), (Encoding::Frame as u8, HEADER_BYTES));
        let steady: Vec<u64> = (0..n as u64).map(|i| 77 + i * 1_000_003).collect();
        assert_eq!(round_trip(id::TIME, &steady, &steady), (Encoding::Delta as u8, HEADER_BYTES));
        let sizes: Vec<u64> = noise(n).map(|x| [512, 4096, 1 << 20, 7, 1 << 40][(x % 5) as usize]).collect();
        assert_eq!(round_trip(id::LEN, &sizes, &sizes).0, Encoding::Dictionary as u8);
        let near: Vec<u64> = noise(n)
            .scan(1 << 50, |at, x| {
                Some({
                    *at += x % 100 * 4096;
                    *at - 99 * 4096
                })
            })
            .collect();
        assert_eq!(round_trip(id::TIME, &near, &near).0, Encoding::Delta as u8);
        let random: Vec<u64> = noise(n).collect();
        let (encoding, bytes) = round_trip(id::TIME, &random, &random);
        assert_eq!(encoding, Encoding::Frame as u8);
        assert_eq!(bytes, HEADER_BYTES + 8 * (PLANE_ENTRY_BYTES + n), "noise is stored as it is");
        let sequential: Vec<u64> = sizes
            .iter()
            .scan(0, |at, len| {
                Some({
                    *at += len;
                    *at - len
                })
            })
            .collect();
        assert_eq!(round_trip(id::OFFSET, &sequential, &sizes), (Encoding::AfterEnd as u8, HEADER_BYTES));
    }

    #[test]
    fn extreme_values_come_back() {
        let extremes = [0, 1, u64::MAX, 1 << 63, (1 << 63) - 1, 0, u64::MAX, u64::MAX, 5];
        for column in [id::TIME, id::OFFSET] {
            for n in 1..=extremes.len() {
                round_trip(column, &extremes[..n], &extremes[..n]);
            }
            round_trip(column, &[0, 1 << 63, 0, 1 << 63], &[0; 4]);
            round_trip(column, &[9, (1 << 63) + 9, 9, 9], &[0; 4]);
        }
        let wide: Vec<u64> = (0..5000).map(|i| if i % 2 == 0 { u64::MAX - i } else { i }).collect();
        round_trip(id::OFFSET, &wide, &wide);
    }

    #[test]
    fn every_candidate_decodes_to_its_values() {
        let lengths: Vec<u64> = noise(3000).map(|x| x % 3 * 512).collect();
        let near: Vec<u64> = noise(3000).map(|x| (x % 4000) * 768).collect();
        let halves: Vec<u64> = noise(3000).map(|x| (x & 1) << 63).collect();
        let mut encoder = ColumnEncoder::new(3).unwrap();
        for values in [&near, &halves, &lengths] {
            let mut c = Candidate::default();
            for encoding in 0..5 {
                match encoding {
                    0 => frame(values, &mut c),
                    1 => delta(values, &mut c),
                    2 => zigzag_delta(values, |i| values[i], Encoding::Zigzag, &mut c),
                    3 => zigzag_delta(values, |i| values[i] + lengths[i], Encoding::AfterEnd, &mut c),
                    _ if dictionary(values, &mut c) => {}
                    _ => continue,
                }
                encoder.best = std::mem::take(&mut c);
                let mut bytes = vec![];
                encoder.put(&mut bytes).unwrap();
                assert_eq!(bytes[0], encoding);
                let back = decode(&bytes, values.len(), id::OFFSET, &lengths).unwrap();
                assert_eq!(&back, values, "encoding {encoding}");
            }
        }
    }

    #[test]
    fn a_malformed_column_is_named() {
        let values: Vec<u64> = (0..100).map(|i| i * i).collect();
        let mut good = vec![];
        ColumnEncoder::new(3).unwrap().encode(id::TIME, &values, &values, &mut good).unwrap();
        let fault = |bytes: &[u8]| decode(bytes, 100, id::TIME, &[0; 100]).unwrap_err();
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            bytes
        };
        assert!(fault(&good[..20]).reason.contains("header"));
        assert!(fault(&with(0, 9)).reason.contains("encoding 9"));
        assert!(fault(&with(0, 3)).reason.contains("offset column only"));
        assert!(fault(&with(1, 9)).reason.contains("9 byte planes"));
        assert!(fault(&with(1, 200)).reason.contains("200 byte planes"));
        assert!(fault(&with(2, 1)).reason.contains("dictionary entries"));
        assert!(fault(&with(4, 1)).reason.contains("reserved"));
        assert!(fault(&with(HEADER_BYTES, 7)).reason.contains("plane form 7"));
        assert!(fault(&with(HEADER_BYTES + 1, 7)).reason.contains("reserved"));
        assert!(fault(&with(HEADER_BYTES + 7, 255)).reason.contains("B left"));
        assert!(fault(&good[..good.len() - 1]).reason.contains("B left"));
        assert!(fault(&[&good[..], &[0]].concat()).reason.contains("after the column's last plane"));

        // A dictionary of one entry and an index of 3; a frame that is none.
        let mut bytes = vec![4, 1, 1, 0, 0, 0, 0, 0];
        bytes.resize(HEADER_BYTES + 8, 0);
        bytes.extend([form::REPEATED, 0, 0, 0, 1, 0, 0, 0, 3]);
        assert!(fault(&bytes).reason.contains("dictionary index 3 of 1"));
        let mut bytes = vec![0, 1];
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend([form::ZSTD, 0, 0, 0, 2, 0, 0, 0, 3, 4]);
        assert!(fault(&bytes).reason.contains("does not decompress"));
    }

    #[test]
    fn a_frame_larger_or_smaller_than_the_block_is_refused() {
        for values in [99_usize, 101, 1 << 24] {
            let compressed = zstd::bulk::compress(&vec![5; values], 3).unwrap();
            let mut bytes = vec![0, 1];
            bytes.resize(HEADER_BYTES, 0);
            bytes.extend([form::ZSTD, 0, 0, 0]);
            bytes.extend((compressed.len() as u32).to_le_bytes());
            bytes.extend(&compressed);
            assert!(decode(&bytes, 100, id::TIME, &[0; 100]).is_err(), "{values}");
        }
    }
}
