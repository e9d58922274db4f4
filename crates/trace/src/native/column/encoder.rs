//! Writes columns.

use std::io;

use super::super::layout::{MAX_BLOCK_REQUESTS, id};
use super::{ColumnEncoding, MAX_DICTIONARY, PLANE_ENTRY_BYTES, form, planes_for};

/// A way to write a column, and its quotients.
#[derive(Default)]
struct EncodingCandidate {
    encoding: u8,
    first: u64,
    base: u64,
    unit: u64,
    dictionary: Vec<u64>,
    quotients: Vec<u64>,
}

/// Writes columns; keeps its buffers from one to the next.
pub(in crate::native) struct ColumnEncoder {
    zstd: zstd::bulk::Compressor<'static>,
    /// `c * log2(c)` in 1/256 bits for every count in a block.
    weights: Vec<u32>,
    best: EncodingCandidate,
    other: EncodingCandidate,
    plane: Vec<u8>,
    compressed: Vec<u8>,
}

impl ColumnEncoder {
    pub(in crate::native) fn new(level: i32) -> io::Result<Self> {
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
            best: EncodingCandidate::default(),
            other: EncodingCandidate::default(),
            plane: Vec::with_capacity(MAX_BLOCK_REQUESTS),
            compressed: vec![0; zstd::zstd_safe::compress_bound(MAX_BLOCK_REQUESTS)],
        })
    }

    /// Appends the column `values` (1 to [`MAX_BLOCK_REQUESTS`]) to `out`. `lengths` are those of
    /// the same requests.
    pub(in crate::native) fn encode(
        &mut self,
        column: u16,
        values: &[u64],
        lengths: &[u64],
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        frame(values, &mut self.best);
        let mut best_cost = cost(&self.best, &self.weights);
        let mut consider = |candidate: &mut EncodingCandidate, best: &mut EncodingCandidate, weights: &[u32]| {
            let c = cost(candidate, weights);
            if c < best_cost {
                best_cost = c;
                std::mem::swap(candidate, best);
            }
        };
        if values.iter().any(|&v| v != values[0]) {
            delta(values, &mut self.other);
            consider(&mut self.other, &mut self.best, &self.weights);
            zigzag_delta(values, |i| values[i], ColumnEncoding::Zigzag, &mut self.other);
            consider(&mut self.other, &mut self.best, &self.weights);
            if column == id::OFFSET {
                let end = |i: usize| values[i].wrapping_add(lengths[i]);
                zigzag_delta(values, end, ColumnEncoding::AfterEnd, &mut self.other);
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

/// Estimates the size of a candidate, in 1/256 bits: the order-0 entropy of its planes. A plane that will be
/// stored counts whole.
fn cost(candidate: &EncodingCandidate, weights: &[u32]) -> u64 {
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

impl EncodingCandidate {
    /// Begins anew.
    fn reset(&mut self, encoding: ColumnEncoding, first: u64, base: u64) {
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

fn frame(values: &[u64], c: &mut EncodingCandidate) {
    let base = values.iter().copied().min().unwrap_or(0);
    c.reset(ColumnEncoding::Frame, 0, base);
    c.quotients.extend(values.iter().map(|v| v - base));
    let unit = divisor(c.quotients.iter().copied());
    c.factor(unit, |q, unit| q / unit);
}

fn delta(values: &[u64], c: &mut EncodingCandidate) {
    let steps = || values.windows(2).map(|w| w[1].wrapping_sub(w[0]).cast_signed());
    let base = steps().min().unwrap_or(0);
    c.reset(ColumnEncoding::Delta, values[0], base.cast_unsigned());
    c.quotients.push(0);
    c.quotients.extend(steps().map(|d| d.wrapping_sub(base).cast_unsigned()));
    let unit = divisor(c.quotients.iter().copied());
    c.factor(unit, |q, unit| q / unit);
}

/// Remainders against `predict(i)` for value `i + 1`.
fn zigzag_delta(values: &[u64], predict: impl Fn(usize) -> u64, encoding: ColumnEncoding, c: &mut EncodingCandidate) {
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

/// Returns true if the values are few enough for a dictionary.
fn dictionary(values: &[u64], c: &mut EncodingCandidate) -> bool {
    c.reset(ColumnEncoding::Dictionary, 0, 0);
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

const fn zigzag(delta: i64) -> u64 {
    ((delta << 1) ^ (delta >> 63)).cast_unsigned()
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::super::{ColumnFault, DecodedColumn, HEADER_BYTES, PlaneDecoder};
    use super::*;

    /// All values of a column, in uneven pieces.
    fn decode(bytes: &[u8], n: usize, column: u16, lengths: &[u64]) -> Result<Vec<u64>, ColumnFault> {
        let mut decoder = PlaneDecoder::new().unwrap();
        let mut column = DecodedColumn::open(bytes, n, column, &mut decoder.room())?;
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
        assert_eq!(round_trip(id::LEN, &constant, &constant), (ColumnEncoding::Frame as u8, HEADER_BYTES));
        let steady: Vec<u64> = (0..n as u64).map(|i| 77 + i * 1_000_003).collect();
        assert_eq!(round_trip(id::TIME, &steady, &steady), (ColumnEncoding::Delta as u8, HEADER_BYTES));
        let sizes: Vec<u64> = noise(n).map(|x| [512, 4096, 1 << 20, 7, 1 << 40][(x % 5) as usize]).collect();
        assert_eq!(round_trip(id::LEN, &sizes, &sizes).0, ColumnEncoding::Dictionary as u8);
        let near: Vec<u64> = noise(n)
            .scan(1 << 50, |at, x| {
                Some({
                    *at += x % 100 * 4096;
                    *at - 99 * 4096
                })
            })
            .collect();
        assert_eq!(round_trip(id::TIME, &near, &near).0, ColumnEncoding::Delta as u8);
        let random: Vec<u64> = noise(n).collect();
        let (encoding, bytes) = round_trip(id::TIME, &random, &random);
        assert_eq!(encoding, ColumnEncoding::Frame as u8);
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
        assert_eq!(round_trip(id::OFFSET, &sequential, &sizes), (ColumnEncoding::AfterEnd as u8, HEADER_BYTES));
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
            let mut c = EncodingCandidate::default();
            for encoding in 0..5 {
                match encoding {
                    0 => frame(values, &mut c),
                    1 => delta(values, &mut c),
                    2 => zigzag_delta(values, |i| values[i], ColumnEncoding::Zigzag, &mut c),
                    3 => zigzag_delta(values, |i| values[i] + lengths[i], ColumnEncoding::AfterEnd, &mut c),
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
