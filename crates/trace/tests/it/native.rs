//! The native format through its public interface: everything comes back, and nothing damaged is
//! believed.

use std::io::{Cursor, Read};
use std::path::Path;

use destage_trace::{
    BATCH_REQUESTS, FilePlace, LATENCY_UNKNOWN, NATIVE_MAGIC, Nanos, NativeReader, NativeWriter, Op, Request,
    TraceError, TraceSource,
};
use proptest::prelude::*;

const FILE_HEADER: usize = 32;
const RECORD_HEADER: usize = 20;

fn write(requests: &[Request], names: &[&str]) -> Vec<u8> {
    let mut writer = NativeWriter::new(vec![]).unwrap();
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    writer.volume_names(&names).unwrap();
    writer.write(requests).unwrap();
    writer.finish().unwrap()
}

fn open(bytes: &[u8]) -> Result<NativeReader, TraceError> {
    NativeReader::open(Path::new("t.dst"), Box::new(Cursor::new(bytes.to_vec())))
}

fn read(bytes: &[u8]) -> Result<(Vec<Request>, Vec<String>), TraceError> {
    let mut reader = open(bytes)?;
    let mut all = vec![];
    let mut batch = vec![];
    loop {
        reader.next_batch(&mut batch)?;
        assert!(batch.len() <= BATCH_REQUESTS);
        if batch.is_empty() {
            reader.next_batch(&mut batch)?;
            assert!(batch.is_empty(), "the end stays the end");
            return Ok((all, reader.volume_names().to_vec()));
        }
        all.extend_from_slice(&batch);
    }
}

fn byte_of(error: &TraceError) -> u64 {
    match error.place {
        FilePlace::Byte(at) => at,
        other => panic!("{error} names {other:?} instead of a byte"),
    }
}

/// A generator good enough to vary requests.
fn requests(n: usize) -> Vec<Request> {
    let mut x = 88_172_645_463_325_252_u64;
    let mut time = 0_u64;
    (0..n)
        .map(|i| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            time = (time + x % 50_000).saturating_sub(if i % 97 == 0 { 60_000 } else { 0 });
            Request {
                time: Nanos(time),
                offset: (x >> 20) % 1_000_000 * 512,
                len: (x >> 8) % 9 * 4096,
                volume: (x >> 50) as u32 % 5,
                op: Op::ALL[(x >> 40) as usize % 4],
                fua: x >> 60 == 3,
            }
        })
        .collect()
}

fn any_request() -> impl Strategy<Value = Request> {
    let number =
        || prop_oneof![any::<u64>(), 0..4096_u64, (0..1_u64 << 40).prop_map(|n| n << 9), Just(u64::MAX), Just(0)];
    (number(), number(), number(), 0..1_u32 << 20, 0..4_usize, any::<bool>()).prop_map(
        |(time, offset, len, volume, op, fua)| Request { time: Nanos(time), offset, len, volume, op: Op::ALL[op], fua },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_requests_come_back(
        requests in prop::collection::vec(any_request(), 0..300),
        level in prop_oneof![Just(1), Just(3), Just(19)],
        cut in 0..300_usize,
    ) {
        let mut writer = NativeWriter::with_level(vec![], level).unwrap();
        let (a, b) = requests.split_at(cut.min(requests.len()));
        writer.write(a).unwrap();
        writer.write(b).unwrap();
        let bytes = writer.finish().unwrap();
        prop_assert_eq!(read(&bytes).unwrap().0, requests);
    }

    #[test]
    fn noise_after_a_good_start_never_panics(noise in prop::collection::vec(any::<u8>(), 0..400), keep in 0..400_usize) {
        let mut bytes = write(&requests(50), &["a"]);
        bytes.truncate(keep);
        bytes.extend(noise);
        prop_assert!(read(&bytes).is_err());
    }
}

#[test]
fn blocks_do_not_depend_on_how_requests_are_handed_over() {
    let all = requests(3 * BATCH_REQUESTS + 1234);
    let whole = write(&all, &[]);
    for chunk in [1, 7, 1000, BATCH_REQUESTS, BATCH_REQUESTS + 1] {
        let mut writer = NativeWriter::new(vec![]).unwrap();
        all.chunks(chunk).for_each(|part| writer.write(part).unwrap());
        assert!(writer.finish().unwrap() == whole, "chunks of {chunk}");
    }
    assert_eq!(read(&whole).unwrap().0, all);
}

/// Requests, and the latencies of each block that has any.
fn read_latencies(bytes: &[u8]) -> (Vec<Request>, Vec<Option<Vec<Nanos>>>) {
    let mut reader = open(bytes).unwrap();
    let (mut all, mut latencies, mut batch) = (vec![], vec![], vec![]);
    loop {
        reader.next_batch(&mut batch).unwrap();
        let mut of_batch = vec![Nanos(7)];
        let has = reader.latencies(&mut of_batch).unwrap();
        assert_eq!(of_batch.len(), if has { batch.len() } else { 0 });
        if batch.is_empty() {
            assert!(!has);
            return (all, latencies);
        }
        all.extend_from_slice(&batch);
        latencies.push(has.then_some(of_batch));
    }
}

fn latencies(n: usize) -> Vec<Nanos> {
    let of = |i: usize| if i.is_multiple_of(91) { LATENCY_UNKNOWN } else { Nanos(20_000 + i as u64 * 7919 % 100_000) };
    (0..n).map(of).collect()
}

#[test]
fn latencies_come_back_and_requests_do_not_change() {
    let n = 2 * BATCH_REQUESTS + 77;
    let (all, times) = (requests(n), latencies(n));
    let without = write(&all, &[]);
    let mut whole = None;
    for chunk in [1, 1000, BATCH_REQUESTS, n] {
        let mut writer = NativeWriter::new(vec![]).unwrap();
        for (part, times) in all.chunks(chunk).zip(times.chunks(chunk)) {
            writer.write_with_latencies(part, times).unwrap();
        }
        let bytes = writer.finish().unwrap();
        let (back, back_times) = read_latencies(&bytes);
        assert!(back == all, "chunks of {chunk}");
        let back_times: Vec<Nanos> = back_times.into_iter().flat_map(Option::unwrap).collect();
        assert!(back_times == times, "chunks of {chunk}");
        assert!(bytes.len() > without.len());
        assert!(*whole.get_or_insert(bytes.clone()) == bytes, "chunks of {chunk} give other bytes");
        // Whoever does not ask reads the same requests.
        assert_eq!(read(&bytes).unwrap().0, all);
    }
    assert!(read_latencies(&without).1.iter().all(Option::is_none));
    let mut writer = NativeWriter::new(vec![]).unwrap();
    let uneven = writer.write_with_latencies(&all[..3], &times[..2]).unwrap_err();
    assert_eq!(uneven.to_string(), "2 latencies for 3 requests");
}

#[test]
fn extreme_latencies_come_back() {
    let times = [Nanos(0), LATENCY_UNKNOWN, Nanos(u64::MAX - 1), Nanos(1)];
    let mut writer = NativeWriter::new(vec![]).unwrap();
    writer.write_with_latencies(&requests(4), &times).unwrap();
    assert_eq!(read_latencies(&writer.finish().unwrap()).1, [Some(times.to_vec())]);
}

#[test]
fn requests_with_and_without_latencies_may_be_mixed() {
    let all = requests(BATCH_REQUESTS + 30);
    let mut writer = NativeWriter::new(vec![]).unwrap();
    writer.write(&all[..5]).unwrap();
    writer.write_with_latencies(&all[5..7], &[Nanos(9), Nanos(8)]).unwrap();
    writer.write(&all[7..]).unwrap();
    let (back, times) = read_latencies(&writer.finish().unwrap());
    assert_eq!(back, all);
    let [Some(first), None] = &times[..] else { panic!("{} blocks", times.len()) };
    assert_eq!(first[5..7], [Nanos(9), Nanos(8)]);
    let unknown = first.iter().filter(|&&time| time == LATENCY_UNKNOWN).count();
    assert_eq!(unknown, BATCH_REQUESTS - 2);
}

#[test]
fn a_malformed_latency_column_is_an_error_of_whoever_asks() {
    let mut writer = NativeWriter::new(vec![]).unwrap();
    writer.write_with_latencies(&requests(50), &latencies(50)).unwrap();
    let mut bytes = writer.finish().unwrap();
    // The block's payload; its last column is the latencies'.
    let start = FILE_HEADER + RECORD_HEADER;
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let columns = usize::from(u16::from_le_bytes(bytes[start + 4..start + 6].try_into().unwrap()));
    assert_eq!(columns, 6);
    let data = start + 8 + columns * 8 + (0..5).map(|i| number(start + 8 + i * 8 + 4)).sum::<usize>();
    let payload = number(FILE_HEADER + 8);
    bytes[data] = 9;
    let crc =
        crc32c::crc32c_append(crc32c::crc32c(&bytes[FILE_HEADER..FILE_HEADER + 16]), &bytes[start..start + payload]);
    bytes[FILE_HEADER + 16..FILE_HEADER + 20].copy_from_slice(&crc.to_le_bytes());
    let mut reader = open(&bytes).unwrap();
    let (mut batch, mut times) = (vec![], vec![]);
    reader.next_batch(&mut batch).unwrap();
    assert_eq!(batch, requests(50));
    let error = reader.latencies(&mut times).unwrap_err();
    assert_eq!(byte_of(&error), data as u64);
    assert!(error.to_string().contains("column 6: column encoding 9"), "{error}");
    assert!(times.is_empty());
}

#[test]
fn an_empty_trace_is_a_trace() {
    let bytes = write(&[], &[]);
    assert_eq!(bytes.len(), FILE_HEADER + RECORD_HEADER + 24);
    assert_eq!(bytes[..8], NATIVE_MAGIC);
    assert_eq!(read(&bytes).unwrap(), (vec![], vec![]));
}

#[test]
fn volume_names_come_back_in_order() {
    let mut writer = NativeWriter::new(vec![]).unwrap();
    let mut names: Vec<String> = vec!["hm_0".into(), String::new()];
    writer.volume_names(&names).unwrap();
    writer.write(&requests(10)).unwrap();
    names.extend((0..3000).map(|i| format!("Datenträger {i}")));
    writer.volume_names(&names).unwrap();
    writer.volume_names(&names).unwrap();
    let bytes = writer.finish().unwrap();
    let (back, back_names) = read(&bytes).unwrap();
    assert_eq!(back, requests(10));
    assert_eq!(back_names, names);
}

#[test]
fn names_that_cannot_be_stored_are_refused() {
    let mut writer = NativeWriter::new(vec![]).unwrap();
    writer.volume_names(&["a".into(), "b".into()]).unwrap();
    for bad in [vec!["a".into()], vec!["a".into(), "c".into()], vec!["a".into(), "b".into(), "x".repeat(4097)]] {
        assert_eq!(writer.volume_names(&bad).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    }
    let bytes = writer.finish().unwrap();
    assert_eq!(read(&bytes).unwrap().1, ["a", "b"]);
    assert!(NativeWriter::with_level(vec![], 99).is_err());
}

#[test]
fn every_truncation_is_recognised() {
    let bytes = write(&requests(200), &["vol"]);
    for keep in 0..bytes.len() {
        let error = read(&bytes[..keep]).expect_err("truncated");
        assert!(error.reason.contains("truncated"), "{keep}: {error}");
        assert_eq!(byte_of(&error), keep as u64, "{error}");
    }
}

#[test]
fn every_damaged_byte_is_recognised() {
    let bytes = write(&requests(200), &["vol"]);
    for at in 0..bytes.len() {
        for bit in [0, 7] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            assert!(read(&damaged).is_err(), "byte {at} bit {bit}");
        }
    }
}

#[test]
fn a_failed_reader_stays_failed() {
    let mut bytes = write(&requests(100), &[]);
    bytes[FILE_HEADER + RECORD_HEADER + 30] ^= 1;
    let mut reader = open(&bytes).unwrap();
    let mut batch = vec![];
    let error = reader.next_batch(&mut batch).unwrap_err();
    assert_eq!(byte_of(&error), FILE_HEADER as u64);
    assert!(error.to_string().starts_with("t.dst, byte 32: "), "{error}");
    assert!(reader.next_batch(&mut batch).unwrap_err().reason.contains("already failed"));
    assert!(batch.is_empty());
}

#[test]
fn missing_and_exchanged_records_are_recognised() {
    let all = requests(3 * BATCH_REQUESTS);
    let bytes = write(&all, &[]);
    let mut records = vec![];
    let mut at = FILE_HEADER;
    while at < bytes.len() {
        let payload = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        records.push(&bytes[at..at + RECORD_HEADER + payload]);
        at += RECORD_HEADER + payload;
    }
    assert_eq!(records.len(), 4);
    for order in [vec![1, 0, 2, 3], vec![0, 2, 3], vec![0, 0, 1, 2, 3], vec![0, 1, 3], vec![3]] {
        let mut file = bytes[..FILE_HEADER].to_vec();
        for i in &order {
            file.extend_from_slice(records[*i]);
        }
        let error = read(&file).unwrap_err();
        assert!(error.reason.contains("does not follow"), "{order:?}: {error}");
    }
    let error = read(&[&bytes[..], &[0]].concat()).unwrap_err();
    assert!(error.reason.contains("after the end record"), "{error}");
    assert_eq!(byte_of(&error), bytes.len() as u64);
}

#[test]
fn other_files_are_refused() {
    let good = write(&requests(5), &[]);
    let error = open(b"a line of text that is longer than a file header").err().unwrap();
    assert!(error.reason.contains("not a native trace"), "{error}");
    let mut newer = good.clone();
    newer[8] = 2;
    let error = open(&newer).err().unwrap();
    assert!(error.reason.contains("version 2"), "{error}");
    assert_eq!(byte_of(&error), 8);
}

/// Id, flags and bytes.
type Column = (u16, u16, Vec<u8>);

/// Builds files record by record, with right checksums, to reach what lies behind them.
struct Forge {
    bytes: Vec<u8>,
    chain: u32,
}

impl Forge {
    fn new() -> Self {
        Self::with_header(|_| {})
    }

    fn with_header(change: impl Fn(&mut [u8])) -> Self {
        let mut bytes = write(&[], &[])[..FILE_HEADER].to_vec();
        change(&mut bytes[..28]);
        let chain = crc32c::crc32c(&bytes[..28]);
        bytes[28..].copy_from_slice(&chain.to_le_bytes());
        Self { bytes, chain }
    }

    fn record(mut self, tag: [u8; 4], flags: u32, payload: &[u8]) -> Self {
        let mut record = tag.to_vec();
        record.extend(flags.to_le_bytes());
        record.extend((payload.len() as u32).to_le_bytes());
        record.extend(self.chain.to_le_bytes());
        self.chain = crc32c::crc32c_append(crc32c::crc32c(&record), payload);
        record.extend(self.chain.to_le_bytes());
        record.extend(payload);
        self.bytes.extend(record);
        self
    }

    fn block(self, requests: u32, columns: &[Column]) -> Self {
        let mut payload = requests.to_le_bytes().to_vec();
        payload.extend((columns.len() as u16).to_le_bytes());
        payload.extend([0; 2]);
        for (id, flags, data) in columns {
            payload.extend(id.to_le_bytes());
            payload.extend(flags.to_le_bytes());
            payload.extend((data.len() as u32).to_le_bytes());
        }
        for (_, _, data) in columns {
            payload.extend(data);
        }
        self.record(*b"BLCK", 0, &payload)
    }

    fn end(self, requests: u64, blocks: u64, names: u32) -> Vec<u8> {
        let mut payload = requests.to_le_bytes().to_vec();
        payload.extend(blocks.to_le_bytes());
        payload.extend(names.to_le_bytes());
        payload.extend([0; 4]);
        self.record(*b"DONE", 0, &payload).bytes
    }
}

/// A column whose values are all `value`.
fn constant(value: u64) -> Vec<u8> {
    let mut column = vec![0; 32];
    column[16..24].copy_from_slice(&value.to_le_bytes());
    column[24] = 1;
    column
}

fn five() -> Vec<Column> {
    (1..=5).map(|id| (id, 0, constant(1))).collect()
}

#[test]
fn forged_files_read_like_written_ones() {
    let expected = Request { time: Nanos(1), offset: 1, len: 1, volume: 1, op: Op::Write, fua: false };
    let file = Forge::new().block(3, &five()).end(3, 1, 0);
    assert_eq!(read(&file).unwrap().0, [expected; 3]);
    let mut backwards = five();
    backwards.reverse();
    assert_eq!(read(&Forge::new().block(3, &backwards).end(3, 1, 0)).unwrap().0, [expected; 3]);
}

#[test]
fn volumes_have_a_bound() {
    let with = |volume: u64| {
        let mut columns = five();
        columns[4].2 = constant(volume);
        read(&Forge::new().block(3, &columns).end(3, 1, 0))
    };
    assert_eq!(with((1 << 20) - 1).unwrap().0[0].volume, (1 << 20) - 1);
    assert!(with(1 << 20).unwrap_err().to_string().contains("column 5 holds a value that it cannot have"));

    let beyond = Request { time: Nanos(0), offset: 0, len: 1, volume: 1 << 20, op: Op::Read, fua: false };
    let refused = NativeWriter::new(Vec::new()).unwrap().write(&[beyond]).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("at most 1048576 volumes"), "{refused}");
}

#[test]
fn what_is_optional_is_passed_over() {
    let mut columns = five();
    columns.insert(2, (77, 1, vec![9; 100]));
    columns.push((78, 1, vec![]));
    let file = Forge::new().record(*b"NOTE", 1, b"text").block(2, &columns).record(*b"INDX", 1, &[]).end(2, 1, 0);
    assert_eq!(read(&file).unwrap().0.len(), 2);
}

#[test]
fn what_is_not_optional_is_refused() {
    let with = |change: &dyn Fn(&mut Vec<Column>)| {
        let mut columns = five();
        change(&mut columns);
        Forge::new().block(2, &columns).end(2, 1, 0)
    };
    let header = |at: usize, value: u8| Forge::with_header(|h| h[at] = value).end(0, 0, 0);
    let small_blocks = Forge::with_header(|h| h[16..20].copy_from_slice(&[5, 0, 0, 0]));
    let block = |payload: &[u8]| Forge::new().record(*b"BLCK", 0, payload).end(0, 1, 0);
    let long_name = [&4097_u16.to_le_bytes()[..], &[b'x'; 4097]].concat();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (Forge::new().record(*b"NOTE", 0, b"text").end(0, 0, 0), "record kind \"NOTE\" is unknown"),
        (with(&|c| c.push((77, 0, vec![]))), "column 77 is unknown"),
        (with(&|c| c.push((3, 0, constant(1)))), "column 3 occurs twice"),
        (with(&|c| c[2].1 = 2), "reserved flags of column 3"),
        (Forge::new().record(*b"NOTE", 3, b"text").end(0, 0, 0), "reserved flags of the record"),
        (
            Forge::new().record(*b"DONE", 0, &[[0; 20], [1; 20]].concat()[..24]).bytes,
            "reserved bytes of the end record",
        ),
        (small_blocks.block(6, &five()).end(6, 1, 0), "a block of 6 requests; 1 to 5"),
        (with(&|c| c.truncate(4)), "column 5 is missing"),
        (with(&|c| c[3].2 = constant(4)), "column 4 holds a value"),
        (with(&|c| c[4].2 = constant(1 << 32)), "column 5 holds a value"),
        (with(&|c| c[0].2.push(0)), "column 1: 1 B after"),
        (with(&|c| c[0].2[0] = 3), "offset column only"),
        (with(&|c| (0..60).for_each(|i| c.push((100 + i, 1, vec![])))), "65 columns"),
        (Forge::new().block(0, &five()).end(0, 1, 0), "a block of 0 requests"),
        (Forge::new().block(16_385, &five()).end(16_385, 1, 0), "a block of 16385 requests"),
        (Forge::new().block(u32::MAX, &five()).end(1, 1, 0), "a block of 4294967295 requests"),
        (block(&[0; 7]), "its header alone"),
        (block(&[1, 0, 0, 0, 5, 0, 0, 0]), "for their directory"),
        (block(&[1, 0, 0, 0, 0, 0, 1, 0]), "reserved"),
        (block(&[1, 0, 0, 0, 0, 0, 0, 0, 5]), "after the block's last column"),
        (block(&[1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 255, 255, 255, 255]), "column 1 has 4294967295 B"),
        (Forge::new().block(2, &five()).end(3, 1, 0), "counts 3 requests"),
        (Forge::new().block(2, &five()).end(2, 2, 0), "2 blocks"),
        (Forge::new().block(2, &five()).end(2, 1, 1), "1 volume names"),
        (Forge::new().record(*b"DONE", 0, &[0; 23]).bytes, "an end record of 23 B"),
        (Forge::new().record(*b"NAME", 0, &[5, 0, b'a']).end(0, 0, 1), "runs past its record"),
        (Forge::new().record(*b"NAME", 0, &[1]).end(0, 0, 1), "runs past its record"),
        (Forge::new().record(*b"NAME", 0, &[1, 0, 0xff]).end(0, 0, 1), "not UTF-8"),
        (Forge::new().record(*b"NAME", 0, &long_name).end(0, 0, 1), "a volume name of 4097 B"),
        (header(10, 40), "a file header of 40 B"),
        (header(12, 1), "needs features 0x1"),
        (header(17, 0), "blocks of up to 0 requests"),
        (header(18, 1), "blocks of up to 81920 requests"),
        (header(20, 1), "reserved"),
    ];
    for (file, says) in cases {
        let error = read(&file).expect_err(says);
        assert!(error.reason.contains(says), "{error} should say {says}");
        assert!(byte_of(&error) <= file.len() as u64);
    }
}

/// Checksums keep out accidents, not malice: whatever a block says, reading ends in requests or an
/// error.
#[test]
fn damage_behind_right_checksums_never_panics() {
    let good = write(&requests(700), &[]);
    let bytes = u32::from_le_bytes(good[FILE_HEADER + 8..FILE_HEADER + 12].try_into().unwrap()) as usize;
    let payload = &good[FILE_HEADER + RECORD_HEADER..][..bytes];
    let mut refused = 0;
    let mut x = 1_u64;
    for round in 0..5_000 {
        let mut payload = payload.to_vec();
        for _ in 0..=round % 3 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // The first bytes decide most.
            let range = if x & 1 == 0 { payload.len() } else { 200 };
            let at = (x >> 20) as usize % range;
            payload[at] = match (x >> 8) % 4 {
                0 => 0,
                1 => 255,
                2 => payload[at].wrapping_add(1),
                _ => (x >> 50) as u8,
            };
        }
        if round % 7 == 0 {
            payload.truncate((x >> 13) as usize % payload.len());
        }
        match read(&Forge::new().record(*b"BLCK", 0, &payload).end(700, 1, 0)) {
            Ok((back, _)) => assert_eq!(back.len(), 700),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 1_000, "{refused} of 5000 refused");
}

/// An input that never ends, to see how much a reader takes of it.
struct Endless {
    start: Vec<u8>,
    given: usize,
}

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let rest = &self.start[self.given.min(self.start.len())..];
        assert!(self.given < 32 << 20, "the reader took {} B", self.given);
        let n = if rest.is_empty() { into.len() } else { rest.len().min(into.len()) };
        into[..n].fill(0);
        into[..n.min(rest.len())].copy_from_slice(&rest[..n.min(rest.len())]);
        self.given += n;
        Ok(n)
    }
}

#[test]
fn a_declared_size_is_bounded() {
    for declared in [(8 << 20) + 1, u32::MAX, 8 << 20] {
        let mut start = Forge::new().record(*b"BLCK", 0, &[]).bytes;
        start[FILE_HEADER + 8..FILE_HEADER + 12].copy_from_slice(&declared.to_le_bytes());
        let mut reader = NativeReader::open(Path::new("t.dst"), Box::new(Endless { start, given: 0 })).unwrap();
        let error = reader.next_batch(&mut vec![]).unwrap_err();
        assert!(error.reason.contains("damaged"), "{error}");
    }
}

#[test]
fn reads_of_any_size_do() {
    struct Drip(Cursor<Vec<u8>>, usize);
    impl Read for Drip {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            self.1 = self.1 % 13 + 1;
            if self.1 == 5 {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            let n = into.len().min(self.1);
            self.0.read(&mut into[..n])
        }
    }
    let all = requests(500);
    let drip = Drip(Cursor::new(write(&all, &[])), 0);
    let mut reader = NativeReader::open(Path::new("t.dst"), Box::new(drip)).unwrap();
    let mut batch = vec![];
    reader.next_batch(&mut batch).unwrap();
    assert_eq!(batch, all);
    assert_eq!((reader.len_hint(), reader.progress()), (None, None));
}

#[test]
fn an_error_of_the_input_says_its_cause_once() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("cable pulled"))
        }
    }
    let error = NativeReader::open(Path::new("t.dst"), Box::new(Broken)).err().unwrap();
    // A caller that prints the chain of sources must not print the cause again.
    assert!(error.to_string().contains("cable pulled"), "{error}");
    assert!(std::error::Error::source(&error).is_none());
}

#[test]
fn a_file_knows_its_length() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.dst");
    let all = requests(BATCH_REQUESTS + 5);
    let bytes = write(&all, &[]);
    std::fs::write(&path, &bytes).unwrap();
    let mut reader = NativeReader::open_file(&path).unwrap();
    assert_eq!(reader.len_hint(), Some(all.len() as u64));
    assert_eq!(reader.progress(), Some(0.0));
    let mut batch = vec![];
    reader.next_batch(&mut batch).unwrap();
    assert_eq!(batch, all[..BATCH_REQUESTS]);
    assert!(reader.progress().is_some_and(|p| p > 0.99 && p < 1.0));
    reader.next_batch(&mut batch).unwrap();
    assert_eq!(batch, all[BATCH_REQUESTS..]);
    assert_eq!(reader.progress(), Some(1.0));

    for keep in [0, 10, FILE_HEADER, 100, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..keep]).unwrap();
        let error = NativeReader::open_file(&path).err().expect("truncated");
        assert!(error.reason.contains("truncated"), "{keep}: {error}");
        assert_eq!(byte_of(&error), keep as u64);
    }
    std::fs::write(&path, vec![b'x'; 500]).unwrap();
    assert!(NativeReader::open_file(&path).err().unwrap().reason.contains("not a native trace"));
    assert!(NativeReader::open_file(&folder.path().join("none")).err().unwrap().reason.contains("opening"));
    assert!(NativeReader::open_file(folder.path()).is_err(), "a folder is no trace");
}
