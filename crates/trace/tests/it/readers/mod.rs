//! The readers through the public interface: what each format's sample yields, what goes wrong and
//! how it is said, that nothing panics, and that real traces hold the requests that they are known
//! to hold.

mod compression;
mod damage;
mod detection;
mod kernel_text;
mod libcachesim;
mod lines;
mod real;
mod tables;
mod units;

use std::fmt::Write as _;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};

use destage_trace::{
    BATCH_REQUESTS, FORMATS, FilePlace, FormatId, FormatSpec, Nanos, NativeWriter, Op, OpenOptions, Request,
    SkippedLines, TraceCompression, TraceError, TraceRequests, TraceSource, open, open_stream,
};

fn options(format: &str, lenient: bool) -> OpenOptions {
    let format = (!format.is_empty()).then(|| format.parse().unwrap());
    OpenOptions { format, lenient }
}

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn memory(bytes: impl Into<Vec<u8>>, options: &OpenOptions) -> Result<TraceRequests, TraceError> {
    let bytes = bytes.into();
    let size = Some(bytes.len() as u64);
    open_stream("memory", Box::new(Cursor::new(bytes)), size, options)
}

fn drain(trace: &mut TraceRequests) -> Result<Vec<Request>, TraceError> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        trace.next_batch(&mut batch)?;
        assert!(batch.len() <= BATCH_REQUESTS + 1);
        if batch.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&batch);
    }
}

/// Requests, volume names and what was left out, of bytes in memory.
fn read(bytes: impl Into<Vec<u8>>, format: &str, lenient: bool) -> Result<(Vec<Request>, SkippedLines), String> {
    let mut trace = memory(bytes, &options(format, lenient)).map_err(|e| e.to_string())?;
    let requests = drain(&mut trace).map_err(|e| e.to_string())?;
    Ok((requests, trace.skipped()))
}

fn error(bytes: impl Into<Vec<u8>>, format: &str) -> String {
    read(bytes, format, false).unwrap_err()
}

/// Recordings of writes all over a small disk.
fn many_lines(lines: u64, end: &str) -> String {
    let mut text = String::new();
    for n in 0..lines {
        write!(text, "{n},W,{},8{end}", n * 7919 % 1_000_003).unwrap();
    }
    text
}

/// A request as `(time, op, offset, len, volume)`.
fn request(time: u64, op: Op, offset: u64, len: u64, volume: u32) -> Request {
    Request { time: Nanos(time), offset, len, volume, op, fua: false }
}

use Op::{Discard, Flush, Read as R, Write as W};

/// Opens a sample, finding its format if `format` is empty, and checks everything.
fn check(name: &str, format: &str, id: FormatId, names: &[&str], expected: &[Request]) {
    let mut trace = open(sample(name), &options(format, false)).unwrap();
    assert_eq!(trace.format(), id, "{name}");
    assert_eq!(trace.compression(), TraceCompression::None);
    assert_eq!(trace.file(), sample(name));
    let requests = drain(&mut trace).unwrap();
    assert_eq!(requests, expected, "{name}");
    assert_eq!(trace.volume_names(), names, "{name}");
    assert_eq!(trace.skipped(), SkippedLines::default());
    assert_eq!(trace.progress(), Some(1.0));
}

#[test]
fn msr() {
    check(
        "msr.csv",
        "",
        FormatId::Msr,
        &["web_0", "web_1"],
        &[
            request(1000, R, 81920, 32768, 0),
            request(2000, W, 512, 4096, 1),
            // Dated before the first: the trace begins here, in the file's order.
            request(0, R, 0, 0, 0),
        ],
    );
}

#[test]
fn systor() {
    let expected = [
        request(100_000_000, R, 7_000_064_000, 131_072, 0),
        request(0, W, 4096, 512, 1),
        request(1_100_000_001, R, 0, 4096, 0),
    ];
    check("systor.csv", "", FormatId::Systor, &["0", "3"], &expected);
    // The header is optional.
    let text = std::fs::read_to_string(sample("systor.csv")).unwrap();
    let (_, body) = text.split_once('\n').unwrap();
    assert_eq!(read(body, "", false).unwrap().0, expected);
}

#[test]
fn rq_csv() {
    check(
        "rq.csv",
        "",
        FormatId::RqCsv,
        &[],
        &[
            request(0, R, 8192, 4096, 0),
            request(2000, W, 12288, 8192, 0),
            Request { fua: true, ..request(3000, W, 20480, 4096, 0) },
            request(3000, Flush, 0, 0, 0),
            request(4500, Discard, 1_048_576, 524_288, 0),
        ],
    );
}

#[test]
fn tencent() {
    check(
        "tencent.csv",
        "",
        FormatId::Tencent,
        &["17", "18"],
        &[
            request(1_000_000_000, W, 1000 * 512, 65536, 0),
            request(0, R, 2000 * 512, 65536, 1),
            request(3_000_000_000, R, 0, 512, 0),
        ],
    );
}

#[test]
fn alibaba() {
    check(
        "alibaba.csv",
        "",
        FormatId::Alibaba,
        &["11", "3"],
        &[request(0, W, 40960, 16384, 0), request(100_000, R, 0, 4096, 1), request(101_000, R, 4096, 4096, 0)],
    );
}

#[test]
fn spc() {
    check(
        "umass.spc",
        "",
        FormatId::Spc,
        &["0", "1"],
        &[
            request(0, W, 2001 * 512, 1536, 0),
            request(20_000_000, R, 3001 * 512, 3072, 1),
            request(123_456_789, W, 2008 * 512, 1536, 0),
        ],
    );
}

#[test]
fn disksim() {
    let expected = [
        request(0, W, 5000 * 512, 4096, 0),
        request(384_373_000, R, 6000 * 512, 253_952, 1),
        // Flags b (1011) and 12 (10010) in hexadecimal.
        request(386_500_000, R, 0, 4096, 0),
        request(387_500_000, W, 4096, 4096, 0),
    ];
    check("disksim.trace", "disksim", FormatId::Disksim, &["0", "1"], &expected);
    // The flags of the last lines exclude the other formats.
    check("disksim.trace", "", FormatId::Disksim, &["0", "1"], &expected);
}

#[test]
fn ssdsim() {
    let expected = [
        request(0, W, 2001 * 512, 3584, 0),
        request(26_000_000_000, R, 2008 * 512, 3584, 0),
        request(26_000_000_001, W, 4096, 8192, 1),
    ];
    for format in ["", "ssdsim", "mqsim"] {
        check("ssdsim.trace", format, FormatId::Ssdsim, &["0", "2"], &expected);
    }
}

#[test]
fn msr_cut() {
    for format in ["msr-cut", "ms-bytes"] {
        check(
            "msr-cut.trace",
            format,
            FormatId::MsrCut,
            &["0", "5"],
            &[request(0, W, 12_345_344, 4096, 0), request(200_500_000, R, 98304, 36864, 1)],
        );
    }
}

#[test]
fn ambiguous_traces_are_refused_with_what_each_would_mean() {
    let error = open(sample("msr-cut.trace"), &OpenOptions::default()).unwrap_err();
    assert_eq!(error.file, sample("msr-cut.trace"));
    assert_eq!(
        error.reason,
        "the content fits 2 formats that mean different things; say which it is:\n  \
         --format disksim: the first request is a write of 2097152 B (2 MiB) at byte 6320816128 of volume 0, \
         then one every 200.5 ms on average\n  \
         --format msr-cut: the first request is a write of 4096 B (4 KiB) at byte 12345344 of volume 0, \
         then one every 200.5 ms on average\n  \
         none of these: describe the columns, such as --format 'columns:ts=s,op(0=R,1=W,3=D),off=pages4k,len=bytes,_'"
    );
}

#[test]
fn diskmon() {
    check(
        "diskmon.txt",
        "",
        FormatId::Diskmon,
        &["0", "1"],
        &[request(0, W, 7001 * 512, 16384, 0), request(0, R, 7101 * 512, 4096, 1), request(500_000_000, R, 0, 512, 0)],
    );
}

#[test]
fn etw() {
    check(
        "etw.csv",
        "",
        FormatId::Etw,
        &["3", "0"],
        &[
            request(0, R, 0x01_2345_6000, 8192, 0),
            request(557_000, W, 4096, 512, 1),
            request(1_057_000, Flush, 0, 0, 1),
        ],
    );
    // Many events may come before the first request, and a summary.
    let events = "ThreadDCStart, 7, a (1), 1\n".repeat(4000);
    let head = "BeginHeader\n DiskRead, TimeStamp\nEndHeader\nOS Version: 6.0.6001, Trace Size: 2048KB\n";
    let many = format!("{head}{events} DiskRead, 9, a (1), 1, 0x1, 0x200, 0x400, 9, 2\n");
    assert_eq!(read(many, "", false).unwrap().0, [request(0, R, 512, 1024, 0)]);
    // Without its header, and with nothing but events that are no requests.
    let rows = "DiskRead, 5, a (1), 1, 0x1, 0x200, 0x400, 9, 2\nDiskReadInit, 6, a (1), 1, 0x1\n";
    assert_eq!(read(rows, "", false).unwrap().0, [request(0, R, 512, 1024, 0)]);
    for (row, reason) in [
        (
            "DiskRead, 5, a (1), 1, 0x1, zero, 0x400, 9, 2\n",
            "ByteOffset is \"zero\", expected a whole number below 2^64",
        ),
        ("DiskRead, soon, a (1), 1, 0x1, 0, 0, 9, 2\n", "TimeStamp is \"soon\""),
        ("DiskWrite, 5, a (1), 1, 0x1, 0, 0\n", "the line ends before ElapsedTime"),
        ("5, DiskRead, 0\n", "the event is \"5\", expected DiskRead, DiskWrite or the word of another event"),
    ] {
        let error = error(row, "etw");
        assert!(error.starts_with("memory, line 1: ") && error.contains(reason), "{error}");
    }
}

#[test]
fn wiscsee() {
    check(
        "wiscsee.txt",
        "",
        FormatId::Wiscsee,
        &[],
        &[
            request(0, R, 28672, 4096, 0),
            request(1_000_000_005, W, 81920, 8192, 0),
            request(2_000_000_000, Discard, 0, 1_048_576, 0),
            request(2_000_000_001, Flush, 0, 0, 0),
        ],
    );
    assert_eq!(
        error("0 C read 0 4096 0.1 0.1 False\n", "wiscsee"),
        "memory: holds no issue (D), only 1 completions (C); only issues are requests"
    );
}

#[test]
fn blkparse() {
    let fua = |r: Request| Request { fua: true, ..r };
    check(
        "blkparse.txt",
        "",
        FormatId::Blkparse,
        &["8,0", "8,16"],
        &[
            request(0, Flush, 0, 0, 0),
            request(1_670_000, W, 5001 * 512, 17 * 512, 0),
            request(1_970_000, R, 640 * 512, 4096, 1),
            request(2_970_000, Flush, 0, 0, 0),
            fua(request(2_970_000, W, 51200, 4096, 0)),
            request(2_970_001, Discard, 4096 * 512, 2048 * 512, 0),
        ],
    );
    check(
        "blkparse.txt",
        "blkparse:event=Q",
        FormatId::Blkparse,
        &["8,0"],
        &[request(0, Flush, 0, 0, 0), fua(request(0, W, 5001 * 512, 17 * 512, 0))],
    );
    let queued = "8,0 0 1 0.000000000 400  Q WS 8 + 8 [sync]\n8,0 0 1 0.1 400  G WS 8 + 8 [sync]\n";
    assert_eq!(
        error(queued, ""),
        "memory: holds no event of kind D, but 1 of G, 1 of Q; use --format blkparse:event=Q or \
         --format blkparse:event=G"
    );
    assert_eq!(
        error("8,0 0 1 0.0 1 D ZR 8 + 8 [a]\n", "blkparse"),
        "memory, line 1: RWBS is \"ZR\", expected no zone command: these are not read"
    );
    assert_eq!(
        error("8,0 0 1 0.0 1 D N 0 (00 ..) [a]\n", "blkparse"),
        "memory: the events of kind D hold no request (the file holds 1 of D)"
    );
}

#[test]
fn fio() {
    let rest = [request(2000, R, 0, 512, 1), request(4000, Flush, 0, 0, 0)];
    let expected = [&[request(0, W, 4096, 8192, 0)][..], &rest, &[request(7000, Discard, 1_048_576, 65536, 0)]];
    check("fio-v3.log", "", FormatId::Fio, &["/dev/sda", "/dev/sdb"], &expected.concat());

    let waiting = |t: [u64; 4]| {
        [
            request(t[0], W, 4096, 8192, 0),
            request(t[1], R, 0, 512, 1),
            request(t[2], Flush, 0, 0, 0),
            request(t[3], Discard, 1_048_576, 65536, 0),
        ]
    };
    let names = ["/dev/sda", "/dev/sdb"];
    check("fio-v2.log", "fio:wait=us", FormatId::Fio, &names, &waiting([0, 150_000, 1_150_000, 1_150_000]));
    check("fio-v2.log", "fio:wait=ms", FormatId::Fio, &names, &waiting([0, 150_000_000, 1_000_000_000, 1_000_000_000]));
    for lenient in [false, true] {
        let text = std::fs::read(sample("fio-v2.log")).unwrap();
        let error = read(text, "", lenient).unwrap_err();
        assert!(error.starts_with("memory, line 6: fio's documentation and code disagree"), "{error}");
        assert!(error.contains("--format fio:wait=us") && error.contains("--format fio:wait=ms"), "{error}");
    }
    assert!(error("/a read 0 1\n", "fio").contains("expected \"fio version 2 iolog\""));
    assert_eq!(
        error("fio version 3 iolog\n0 /a wait 5 0\n", ""),
        "memory, line 2: version 3 has no wait, as its lines have times"
    );
    assert_eq!(error("fio version 2 iolog\n/a add\n", ""), "memory: holds no request");
    assert_eq!(error("fio version 2 iolog\n/a read 5\n", ""), "memory, line 2: the line ends before the length");
}

#[test]
fn described_columns() {
    let names = ["left", "right"];
    let expected = [
        request(0, W, 10 * 4096, 2 * 4096, 0),
        request(250_000_000, R, 0, 4096, 1),
        request(500_000_000, Flush, 0, 0, 0),
    ];
    let table = "columns:ts=s,op,off=pages4k,_,len=4096,dev,skip=1";
    check("table.txt", table, FormatId::Columns, &names, &expected);
    let table = "columns:ts=s,op(write=W;read=R;flush=F),off=pages4k,_,len=4096,dev,sep=semicolon,skip=1";
    check("table.txt", table, FormatId::Columns, &names, &expected);
    // The same columns as DiskSim's.
    let text = std::fs::read(sample("msr-cut.trace")).unwrap();
    let table = "columns:ts=ms,dev,off=bytes,len=bytes,op(1=R)";
    assert_eq!(read(text.clone(), table, false).unwrap(), read(text, "msr-cut", false).unwrap());
    // Without times and volumes, tabs, everything a write.
    assert_eq!(
        read("8\t1\n16\t2\textra\n", "columns:off=sectors,len=sectors,op=W", false).unwrap().0,
        [request(0, W, 4096, 512, 0), request(0, W, 8192, 1024, 0)]
    );
    assert_eq!(
        error("1,2\n", "columns:off=bytes,len=bytes,_,op=W"),
        "memory: the first line is \"1,2\": no comma, tab, semicolon or blank cuts it into 3 columns"
    );
    assert_eq!(
        error("1,2,X\n", "columns:off=bytes,len=bytes,op(R=R,W=W)"),
        "memory, line 1: op is \"X\", expected one of R, W; name it too, with =_ if such rows are no requests"
    );
    assert_eq!(
        error("1,2,R\n\"1\",2,R\n", "columns:off=bytes,len=bytes,op"),
        "memory, line 2: off is \"\\\"1\\\"\": quoted fields are not read, remove the quotes"
    );
    assert_eq!(error("1,2,R\n1\n", "columns:off=bytes,len=bytes,op"), "memory, line 2: the line ends before op");
    let far = "columns:off=pages4k,len=bytes,op=R";
    assert!(error("4503599627370496,1\n", far).contains("below 2^64 bytes"));
}

fn vscsi1(serial: u32, len: u32, code: u16, sector: u64, micros: u64) -> Vec<u8> {
    let mut record = Vec::new();
    for n in [serial, len, 1] {
        record.extend(n.to_le_bytes());
    }
    record.extend(code.to_le_bytes());
    record.extend([0x00, 0x01]);
    record.extend(sector.to_le_bytes());
    record.extend(micros.to_le_bytes());
    record
}

fn vscsi2(serial: u32, len: u32, code: u16, sector: u64, micros: u64) -> Vec<u8> {
    let mut record = code.to_le_bytes().to_vec();
    record.extend([0x07, 0x02]);
    for n in [serial, len, 1] {
        record.extend(n.to_le_bytes());
    }
    record.extend(sector.to_le_bytes());
    record.extend(micros.to_le_bytes());
    record.extend(99_u64.to_le_bytes());
    record
}

#[test]
fn vscsi() {
    let expected = [request(0, R, 4096, 4096, 0), request(5000, W, 8192, 512, 0), request(6000, Flush, 0, 0, 0)];
    for record in [vscsi1, vscsi2] {
        let mut bytes = record(1, 4096, 0x28, 8, 1_000_000);
        bytes.extend(record(2, 512, 0x8a, 16, 1_000_005));
        bytes.extend(record(3, 36, 0x12, 0, 1_000_005));
        bytes.extend(record(4, 0, 0x35, 0, 1_000_006));
        for format in ["", "vscsi", "cloudphysics"] {
            assert_eq!(read(bytes.clone(), format, false).unwrap(), (expected.to_vec(), SkippedLines::default()));
        }
        let len = bytes.len();
        let mut untold = bytes.clone();
        untold.extend(record(5, 24, 0x42, 0, 1_000_007));
        let message = format!(
            "memory, byte {len}: the SCSI command 0x42 (unmap) changes the medium in a way that the trace does not tell"
        );
        assert_eq!(error(untold.clone(), ""), message);
        let skipped = SkippedLines { count: 1, first: Some(message) };
        assert_eq!(read(untold, "", true).unwrap(), (expected.to_vec(), skipped));
        // Cut inside the last record.
        let start = len - len / 4;
        bytes.truncate(len - 3);
        let held = len / 4 - 3;
        let message =
            format!("memory, byte {start}: the file ends inside a record, after {held} of its {} bytes", len / 4);
        assert_eq!(error(bytes.clone(), ""), message);
        let (requests, skipped) = read(bytes, "", true).unwrap();
        assert_eq!((&requests[..], skipped.count), (&expected[..2], 1));
    }
    assert!(error(vec![0; 64], "vscsi").contains("has no vscsi version"));
}

fn srt(header: &str, records: &[[i32; 14]]) -> Vec<u8> {
    let mut bytes = format!("$$TR_IOREC-1.3\n{header}\n\u{c}").into_bytes();
    for record in records {
        bytes.extend(record.iter().flat_map(|n| n.to_be_bytes()).take(usize::try_from(record[0]).unwrap().min(56)));
    }
    bytes
}

#[test]
fn hp_srt() {
    let disks = "disks = { 0 -> { sectorsize = 256, }, 1 -> { sectorsize  = 256 } };";
    let records = [
        [56, 0x40001, 10, 500, 174, 19687, 4096, 1056, 0x0800_0107, 4, 1, 27, 0, 1],
        [56, 0x40001, 10, 501, 76, 10038, 8192, 16, 0x0800_0008, 4, 1, 26, 0, 1],
        // The raw device of another section of the first disk, without the queue's length.
        [52, 0x30001, 11, 0, 76, 10038, 512, 2, 0x0700_0102, 4, 1, 2, 0, 0],
    ];
    let expected =
        [request(0, R, 1056 * 256, 4096, 0), request(1000, W, 4096, 8192, 1), request(999_500_000, W, 512, 512, 0)];
    let bytes = srt(disks, &records);
    for format in ["", "srt"] {
        let mut trace = memory(bytes.clone(), &options(format, false)).unwrap();
        assert_eq!(drain(&mut trace).unwrap(), expected);
        assert_eq!(trace.volume_names(), ["disk1", "disk0"]);
    }
    let unit = |header: &str, format: &str| read(srt(header, &records), format, false).map(|(r, _)| r[0].offset);
    assert_eq!(unit("", "srt:unit=1024"), Ok(1056 * 1024));
    assert!(unit("", "").unwrap_err().contains("no sectorsize; give the size of a block, --format srt:unit=BYTES"));
    assert!(unit("sectorsize = 256, sectorsize = 512", "").unwrap_err().contains("different sector sizes"));
    assert!(error("$$TR_IOREC no end", "").contains("a form feed, is not within"));
    assert!(error("something else\u{c}", "srt").contains("expected \"$$TR_IOREC\""));

    let begin = bytes.len() - 56 - 56 - 52;
    let mut suspect = records;
    suspect[1] = [60, 0x40004, 10, 501, 76, 10038, 8192, 16, 0x0800_0008, 4, 1, 26, 0, 1];
    let mut marked = srt(disks, &suspect[..2]);
    marked.extend([0; 4]);
    assert_eq!(
        error(marked.clone(), ""),
        format!("memory, byte {}: the recorder marked the record as suspect", begin + 56)
    );
    let (requests, skipped) = read(marked, "", true).unwrap();
    assert_eq!((&requests[..], skipped.count), (&expected[..1], 1));
    // A length that cannot be is where even a lenient reader stops: the next record cannot be
    // found.
    let mut lost = bytes;
    lost[begin + 56 + 3] = 57;
    let message = format!("memory, byte {}: the record's length is 57, expected 56 for id 0x40001", begin + 56);
    for lenient in [false, true] {
        assert_eq!(read(lost.clone(), "", lenient).unwrap_err(), message);
    }
}

fn oracle(records: &[(u32, u64, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &(time, object, size) in records {
        bytes.extend(time.to_le_bytes());
        bytes.extend(object.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend((-1_i64).to_le_bytes());
    }
    bytes
}

#[test]
fn oracle_general() {
    let bytes = oracle(&[(5, 3, 4096), (7, 10, 512)]);
    assert_eq!(
        read(bytes.clone(), "oracle-general:op=R", false).unwrap().0,
        [request(0, R, 3 * 4096, 4096, 0), request(2_000_000_000, R, 40960, 512, 0)]
    );
    assert_eq!(
        read(bytes.clone(), "oracleGeneral:op=W,unit=512", false).unwrap().0,
        [request(0, W, 1536, 4096, 0), request(2_000_000_000, W, 5120, 512, 0)]
    );
    let refusal = error(bytes, "");
    assert!(refusal.starts_with("memory: could be oracle-general records"), "{refusal}");
    assert!(error(oracle(&[(5, u64::MAX / 4096 + 1, 1)]), "oracle-general:op=R").contains("give a smaller unit="));
}

#[test]
fn native() {
    let requests: Vec<Request> = (0..40_000).map(|n| request(n * 1000, W, n * 4096, 4096, 0)).collect();
    let mut bytes = Vec::new();
    let mut writer = NativeWriter::new(&mut bytes).unwrap();
    writer.write(&requests).unwrap();
    writer.finish().unwrap();
    let mut trace = memory(bytes.clone(), &OpenOptions::default()).unwrap();
    assert_eq!(trace.format(), FormatId::Native);
    assert_eq!(drain(&mut trace).unwrap(), requests);
    // A file can be looked at from its end.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.trace");
    std::fs::write(&path, &bytes).unwrap();
    let mut trace = open(&path, &OpenOptions::default()).unwrap();
    assert_eq!(trace.len_hint(), Some(40_000));
    assert_eq!(drain(&mut trace).unwrap(), requests);
    assert_eq!(trace.progress(), Some(1.0));
}
