//! blktrace's records: a real recording of a loop device equals what blkparse made of it as text;
//! made-up records equal what an installed blkparse makes of them; files of several CPUs, both byte
//! orders, both versions; and what goes wrong.
//!
//! `loop.blktrace` was recorded by the kernel's `blk` tracer with the option `bin`, which yields
//! the records of blktrace, while direct, synchronous and buffered writes, reads, a discard and a
//! zeroing ran on both CPUs. `loop.blkparse.txt` is what blkparse 1.2.0 makes of it.

use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use destage_trace::{FormatId, Op, OpenOptions, Request, TraceRequests, TraceSource, open, open_stream};
use proptest::prelude::*;

const RECORD: usize = 48;

fn options(format: &str) -> OpenOptions {
    OpenOptions { format: (!format.is_empty()).then(|| format.parse().unwrap()), lenient: false }
}

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn drain(mut trace: TraceRequests) -> Result<(Vec<Request>, Vec<String>), String> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        trace.next_batch(&mut batch).map_err(|e| e.to_string())?;
        if batch.is_empty() {
            return Ok((all, trace.volume_names().to_vec()));
        }
        all.extend_from_slice(&batch);
    }
}

fn file(path: &Path, format: &str) -> Result<(Vec<Request>, Vec<String>), String> {
    drain(open(path, &options(format)).map_err(|e| e.to_string())?)
}

fn memory_with(bytes: Vec<u8>, options: &OpenOptions) -> Result<(Vec<Request>, Vec<String>), String> {
    drain(open_stream("memory", Box::new(Cursor::new(bytes)), None, options).map_err(|e| e.to_string())?)
}

fn memory(bytes: impl Into<Vec<u8>>, format: &str) -> Result<(Vec<Request>, Vec<String>), String> {
    memory_with(bytes.into(), &options(format))
}

/// The records of a little-endian stream of version 7, each with what stands behind it.
fn records(bytes: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = RECORD + usize::from(u16::from_le_bytes([rest[46], rest[47]]));
        let (record, behind) = rest.split_at(length);
        records.push(record);
        rest = behind;
    }
    records
}

fn cpu(record: &[u8]) -> u32 {
    u32::from_le_bytes(record[40..44].try_into().unwrap())
}

/// One little-endian record of version 7.
#[derive(Clone, Copy, Debug)]
struct Record {
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    device: u32,
    cpu: u32,
}

impl Record {
    fn bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(RECORD);
        out.extend(0x6561_7407_u32.to_le_bytes());
        out.extend([0; 4]);
        out.extend(self.time.to_le_bytes());
        out.extend(self.sector.to_le_bytes());
        out.extend(self.bytes.to_le_bytes());
        out.extend(self.action.to_le_bytes());
        out.extend(77_u32.to_le_bytes());
        out.extend(self.device.to_le_bytes());
        out.extend(self.cpu.to_le_bytes());
        out.extend([0; 4]);
        out
    }
}

/// The same record in the other byte order, or as version 8.
fn transformed(record: &[u8], big: bool, wide: bool) -> Vec<u8> {
    let u16_at = |at: usize| u16::from_le_bytes(record[at..at + 2].try_into().unwrap());
    let u32_at = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
    let mut out = Vec::new();
    let b2 = |v: u16| if big { v.to_be_bytes() } else { v.to_le_bytes() };
    let b4 = |v: u32| if big { v.to_be_bytes() } else { v.to_le_bytes() };
    let b8 = |v: u64| if big { v.to_be_bytes() } else { v.to_le_bytes() };
    out.extend(b4(u32_at(0) + u32::from(wide)));
    out.extend(b4(u32_at(4)));
    out.extend(b8(u64_at(8)));
    out.extend(b8(u64_at(16)));
    out.extend(b4(u32_at(24)));
    if wide {
        out.extend(b4(u32_at(32)));
        out.extend(b8(u64::from(u32_at(28))));
    } else {
        out.extend(b4(u32_at(28)));
        out.extend(b4(u32_at(32)));
    }
    out.extend(b4(u32_at(36)));
    out.extend(b4(u32_at(40)));
    out.extend(b2(u16_at(44)));
    out.extend(b2(u16_at(46)));
    if wide {
        out.extend([0xee; 12]);
    }
    out.extend(&record[RECORD..]);
    out
}

#[test]
fn a_recording_equals_its_text() {
    for event in ["D", "Q", "G", "I", "C"] {
        let text = file(&sample("loop.blkparse.txt"), &format!("blkparse:event={event}")).unwrap();
        let records = file(&sample("loop.blktrace"), &format!("blktrace:event={event}")).unwrap();
        assert_eq!(records, text, "{event}");
        assert!(!text.0.is_empty(), "{event}");
        assert_eq!(text.1, ["7,0"]);
    }
    let trace = open(sample("loop.blktrace"), &options("")).unwrap();
    assert_eq!(trace.format(), FormatId::Blktrace);
    let (requests, _) = drain(trace).unwrap();
    assert_eq!(requests, file(&sample("loop.blktrace"), "blktrace").unwrap().0);
    // What was done: six direct writes with two flushes behind them, one write with a flush, five
    // pages in one write.
    let lengths: Vec<u64> = requests.iter().filter(|r| r.op == Op::Write).map(|r| r.len).collect();
    assert_eq!(lengths, [4096, 8192, 12288, 16384, 20480, 24576, 16384, 20480, 8192]);
    let count = |op| requests.iter().filter(|r| r.op == op).count();
    assert_eq!((count(Op::Read), count(Op::Flush), count(Op::Discard)), (3, 5, 1));
}

#[test]
fn both_byte_orders_and_both_versions_are_read() {
    let plain = std::fs::read(sample("loop.blktrace")).unwrap();
    let expected = memory(plain.clone(), "").unwrap();
    for (big, wide) in [(true, false), (false, true), (true, true)] {
        let bytes: Vec<u8> = records(&plain).into_iter().flat_map(|r| transformed(r, big, wide)).collect();
        assert_eq!(memory(bytes, "").unwrap(), expected, "big-endian {big}, version 8 {wide}");
    }
}

/// Writes the records to a file for each CPU.
fn write_parts(folder: &Path, name: &str, bytes: &[u8], cpus: u32) {
    for n in 0..cpus {
        let part: Vec<u8> = records(bytes).into_iter().filter(|r| cpu(r) == n).flatten().copied().collect();
        std::fs::write(folder.join(format!("{name}.blktrace.{n}")), part).unwrap();
    }
}

#[test]
fn the_files_of_all_cpus_are_one_trace() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(sample("loop.blktrace")).unwrap();
    let expected = memory(bytes.clone(), "").unwrap();
    // The third CPU's file is empty.
    write_parts(folder.path(), "rec", &bytes, 3);
    for name in ["rec", "rec.blktrace"] {
        assert_eq!(file(&folder.path().join(name), "").unwrap(), expected, "{name}");
        assert_eq!(
            file(&folder.path().join(name), "blktrace:event=Q").unwrap(),
            memory(bytes.clone(), "blktrace:event=Q").unwrap()
        );
    }
    let mut trace = open(folder.path().join("rec"), &options("")).unwrap();
    let mut batch = Vec::new();
    trace.next_batch(&mut batch).unwrap();
    assert_eq!(trace.progress(), Some(1.0));
    assert_eq!(trace.file(), folder.path().join("rec"));

    let part = folder.path().join("rec.blktrace.0");
    let error = file(&part, "").unwrap_err();
    assert!(error.contains("is one CPU's file of a recording that has 1 more; give "), "{error}");
    assert!(error.contains("or --format blktrace:cpus=one to read this one alone"), "{error}");
    let alone = file(&part, "blktrace:cpus=one").unwrap().0;
    assert!(!alone.is_empty() && alone.len() < expected.0.len());
    let error = file(&folder.path().join("rec"), "blktrace:cpus=one").unwrap_err();
    assert!(error.contains("is a whole recording; give one CPU's file, such as "), "{error}");
    let error = file(&folder.path().join("rec"), "msr").unwrap_err();
    assert!(
        error.contains("is not a file; there is a recording of blktrace") && error.ends_with("which is not msr"),
        "{error}"
    );
    assert!(file(&folder.path().join("other"), "").unwrap_err().contains("cannot be opened"));

    // With the others empty, one file is the recording.
    std::fs::write(folder.path().join("rec.blktrace.1"), []).unwrap();
    assert_eq!(file(&part, "").unwrap().0, alone);
    std::fs::write(&part, []).unwrap();
    assert!(file(&folder.path().join("rec"), "").unwrap_err().contains("all files of the recording are empty"));
    // A file of the recording's own name goes first.
    std::fs::write(folder.path().join("rec"), "5,R,0,8\n").unwrap();
    assert_eq!(file(&folder.path().join("rec"), "").unwrap().0.len(), 1);
}

/// Made-up events of `cpus` CPUs, ascending times, none twice.
fn made_up(cpus: u32) -> impl Strategy<Value = Vec<Record>> {
    let action =
        (prop::sample::select(vec![1_u32, 2, 4, 7, 8, 12]), any::<u16>(), 0..12_u32).prop_map(|(act, bits, kind)| {
            // Of the categories: write, flush, sync, read-ahead, metadata, FUA.
            let free = u32::from(bits) & (1 << 1 | 1 << 2 | 1 << 3 | 1 << 11 | 1 << 12 | 1 << 15);
            // blkparse passes over records without any category: a read has its own.
            let free = if free & 1 << 1 == 0 { free | 1 } else { free };
            let categories = match kind {
                // Discards; commands passed through, which blkparse prints otherwise for Q, G and
                // M.
                0 | 1 => free | 1 << 13 | 1 << 1,
                2 if matches!(act, 7 | 8 | 12) => (free & !(1 << 2)) | 1 << 9,
                _ => free,
            };
            act | categories << 16
        });
    let record = (1..4000_u64, 0..1_u64 << 40, 0..5_u32, action, 0..3_u32, 0..cpus);
    prop::collection::vec(record, 1..200).prop_map(|records| {
        let mut time = 0;
        let record = |(gap, sector, pages, action, minor, cpu): (u64, u64, u32, u32, u32, u32)| {
            time += gap;
            // Requests without data have no place.
            let sector = if pages == 0 { 0 } else { sector };
            Record { time, sector, bytes: pages * 4096, action, device: 253 << 20 | minor, cpu }
        };
        records.into_iter().map(record).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// blkparse's text of made-up records, read as such, equals the records, of every kind of
    /// event.
    #[test]
    fn made_up_records_equal_what_blkparse_makes_of_them(records in made_up(3)) {
        if Command::new("blkparse").arg("-V").output().is_err() {
            writeln!(std::io::stderr(), "SKIPPED: made_up_records_equal_what_blkparse_makes_of_them: no blkparse").unwrap();
            return Ok(());
        }
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = records.iter().flat_map(|r| r.bytes()).collect();
        write_parts(folder.path(), "rec", &bytes, 3);
        let output = Command::new("blkparse").args(["-q", "-i", "rec"]).current_dir(folder.path()).output().unwrap();
        prop_assert!(output.status.success());
        for event in ["D", "Q", "G", "I", "C"] {
            let ours = file(&folder.path().join("rec"), &format!("blktrace:event={event}"));
            let text = memory(output.stdout.clone(), &format!("blkparse:event={event}"));
            match (ours, text) {
                (Ok(ours), Ok(text)) => prop_assert_eq!(ours, text, "{}", event),
                (Err(ours), Err(text)) => {
                    let plain = |e: String| e.split_once(": ").unwrap().1.replace("blkparse", "blktrace");
                    prop_assert_eq!(plain(ours), plain(text));
                }
                (ours, text) => prop_assert!(false, "{event}: {ours:?} {text:?}"),
            }
        }
    }

    /// The stream of `blktrace -o -` holds the buffers of one CPU after the other.
    #[test]
    fn streams_of_buffers_come_out_in_order(records in made_up(4), buffer in 1..60_usize) {
        let bytes: Vec<u8> = records.iter().flat_map(|r| r.bytes()).collect();
        let mut cpus: Vec<Vec<&Record>> = (0..4).map(|n| records.iter().filter(|r| r.cpu == n).collect()).collect();
        let mut stream = Vec::new();
        while cpus.iter().any(|c| !c.is_empty()) {
            for cpu in &mut cpus {
                let n = buffer.min(cpu.len());
                stream.extend(cpu.drain(..n).flat_map(|r| r.bytes()));
            }
        }
        prop_assert_eq!(memory(stream, "blktrace:event=Q").map_err(|_| ()), memory(bytes, "blktrace:event=Q").map_err(|_| ()));
    }

    /// Damaged records are errors or requests, never a panic.
    #[test]
    fn damage_never_panics(
        damage in prop::collection::vec((0..5432_usize, any::<u8>()), 1..40),
        cut in 0..5432_usize,
        lenient in any::<bool>(),
    ) {
        let mut bytes = std::fs::read(sample("loop.blktrace")).unwrap();
        for (at, value) in damage {
            bytes[at] = value;
        }
        bytes.truncate(cut);
        let format = Some("blktrace:event=Q".parse().unwrap());
        let _ = memory_with(bytes, &OpenOptions { format, lenient });
    }
}

fn event(action: u32) -> Record {
    Record { time: 5, sector: 8, bytes: 4096, action, device: 8 << 20 | 1, cpu: 0 }
}

#[test]
fn what_cannot_be_read_is_said() {
    const ISSUE: u32 = 7 | 1 << (16 + 6) | 1 << (16 + 1);
    let good = event(ISSUE).bytes();
    assert_eq!(memory(good.clone(), "").unwrap().1, ["8,1"]);

    let cut: Vec<u8> = [&good[..], &good[..20]].concat();
    let error = memory(cut.clone(), "").unwrap_err();
    assert_eq!(error, "memory, byte 48: the file ends inside a record, after 20 of its 48 bytes");
    let lenient = OpenOptions { format: None, lenient: true };
    assert_eq!(memory_with(cut, &lenient).unwrap().0.len(), 1);

    // A record that promises more than there is.
    let mut long = good.clone();
    long[46..48].copy_from_slice(&u16::MAX.to_le_bytes());
    let error = memory(long, "").unwrap_err();
    assert_eq!(error, "memory, byte 0: the file ends inside a record, after 48 of its 65583 bytes");

    let mut old = good.clone();
    old[0] = 6;
    assert!(memory(old, "").unwrap_err().contains("the record's version is 6, expected 7"));
    let error = memory([&good[..], b"nonsense"].concat(), "").unwrap_err();
    assert!(
        error.starts_with("memory, byte 48: the record begins with 6e 6f 6e 73, expected blktrace's magic"),
        "{error}"
    );
    let text = std::fs::read(sample("loop.blkparse.txt")).unwrap();
    assert!(memory(text, "blktrace").unwrap_err().contains("blkparse's text is --format blkparse"));

    let mut far = event(ISSUE);
    far.sector = 1 << 55;
    assert!(memory(far.bytes(), "").unwrap_err().contains("reach beyond 2^64 bytes"));
    let zone = transformed(&event(ISSUE).bytes(), false, true);
    let mut zone = zone;
    zone[36] = 2;
    assert!(memory(zone.clone(), "").unwrap_err().contains("a zone command: these are not read"));
    // The writing of zeroes is a write.
    zone[36] = 1 << 6;
    assert_eq!(memory(zone.clone(), "").unwrap().0[0].op, Op::Write);
    zone[39] = 1;
    assert!(memory(zone, "").unwrap_err().contains("upper categories are not known"));

    let error = memory(event(1 | 1 << 17).bytes(), "").unwrap_err();
    assert_eq!(error, "memory: holds no event of kind D, but 1 of Q; use --format blktrace:event=Q");
    // Passed through to the device, and a note.
    let error = memory(event(ISSUE | 1 << 25).bytes(), "").unwrap_err();
    assert_eq!(error, "memory: the events of kind D hold no request (the file holds 1 of D)");
    assert_eq!(memory(event(1 << 26).bytes(), "").unwrap_err(), "memory: holds no request");
}

/// Requests of one time stay in the order of the records, with a flush in front of its write.
#[test]
fn ties_keep_their_order() {
    let mut bytes = Vec::new();
    for n in 0..3_u64 {
        let mut record = event(7 | 1 << (16 + 1) | 1 << (16 + 2));
        record.sector = 1000 - n;
        bytes.extend(record.bytes());
    }
    let (requests, _) = memory(bytes, "").unwrap();
    let seen: Vec<(Op, u64)> = requests.iter().map(|r| (r.op, r.offset / 512)).collect();
    assert_eq!(
        seen,
        [(Op::Flush, 0), (Op::Write, 1000), (Op::Flush, 0), (Op::Write, 999), (Op::Flush, 0), (Op::Write, 998)]
    );
}
