//! The readers through the public interface: what each format's sample yields, what goes wrong and
//! how it is said, that nothing panics, and that real traces hold the requests that they are known
//! to hold.

mod detection;

use std::fmt::Write as _;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};

use destage_trace::{
    BATCH_REQUESTS, Compression, FORMATS, FormatId, FormatSpec, Nanos, NativeWriter, Op, OpenOptions, Place, Request,
    Skipped, Source, Trace, TraceError, open, open_stream,
};
use proptest::prelude::*;

fn options(format: &str, lenient: bool) -> OpenOptions {
    let format = (!format.is_empty()).then(|| format.parse().unwrap());
    OpenOptions { format, lenient }
}

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn memory(bytes: impl Into<Vec<u8>>, options: &OpenOptions) -> Result<Trace, TraceError> {
    let bytes = bytes.into();
    let size = Some(bytes.len() as u64);
    open_stream("memory", Box::new(Cursor::new(bytes)), size, options)
}

fn drain(trace: &mut Trace) -> Result<Vec<Request>, TraceError> {
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
fn read(bytes: impl Into<Vec<u8>>, format: &str, lenient: bool) -> Result<(Vec<Request>, Skipped), String> {
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
    assert_eq!(trace.compression(), Compression::None);
    assert_eq!(trace.file(), sample(name));
    let requests = drain(&mut trace).unwrap();
    assert_eq!(requests, expected, "{name}");
    assert_eq!(trace.volume_names(), names, "{name}");
    assert_eq!(trace.skipped(), Skipped::default());
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
         then one every 200.5 ms on average"
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
        "memory, line 1: op is \"X\", expected one of R, W"
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
            assert_eq!(read(bytes.clone(), format, false).unwrap(), (expected.to_vec(), Skipped::default()));
        }
        let len = bytes.len();
        let mut untold = bytes.clone();
        untold.extend(record(5, 24, 0x42, 0, 1_000_007));
        let message = format!(
            "memory, byte {len}: the SCSI command 0x42 (unmap) changes the medium in a way that the trace does not tell"
        );
        assert_eq!(error(untold.clone(), ""), message);
        let skipped = Skipped { count: 1, first: Some(message) };
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

#[test]
fn malformed_lines_name_line_field_text_and_what_is_right() {
    let good = "5,R,0,8\n";
    let cases = [
        ("5,R,0x10,8", "the address is \"0x10\", expected a whole number"),
        ("5,R,-1,8", "the address is \"-1\", expected a whole number"),
        ("5,X,0,8", "the kind is \"X\", expected R, W, WF, F or D"),
        ("1e3,R,0,8", "the time is \"1e3\", expected a plain decimal number of microseconds such as 12.345"),
        ("5,R,0", "the line ends before the length"),
        ("5,R,0,8,9", "there is a further field \"9\" where the line should end"),
        ("5,R,0,\u{0}8", "the length is \"\\x008\", expected a whole number"),
        ("5,R,0,8\u{e9}", "the length is \"8\\xc3\\xa9\", expected a whole number"),
        ("5,\"R\",0,8", "the kind is \"\\\"R\\\"\": quoted fields are not read, remove the quotes"),
        ("5,,0,8", "the kind is empty, expected text"),
        ("5,R,18446744073709551616,8", "the address is \"18446744073709551616\", expected a whole number below 2^64"),
        ("5,R,36028797018963968,8", "the address is 36028797018963968 sectors, more than 2^64 bytes"),
        ("5,R,36028797018963967,8", "4096 bytes at byte 18446744073709551104 reach beyond 2^64"),
        ("99999999999999999999,R,0,8", "expected a time below 2^64 nanoseconds (584 years)"),
    ];
    for (line, reason) in cases {
        let text = format!("{good}\r\n \t\n{line}\n{good}");
        let message = error(text.clone(), "rq-csv");
        assert!(message.starts_with("memory, line 4: ") && message.ends_with(reason), "{line}: {message}");
        let (requests, skipped) = read(text, "rq-csv", true).unwrap();
        assert_eq!(requests.len(), 2, "{line}");
        assert_eq!((skipped.count, skipped.first), (1, Some(message)));
    }
    let long = format!("{good}5,R,{},8\n", "y".repeat(60));
    assert!(error(long, "rq-csv").contains(&format!("the address is \"{}\"..., expected", "y".repeat(40))));
}

#[test]
fn lenient_readers_count_and_keep_the_first_reason() {
    let mut text = String::new();
    for n in 0..30_000 {
        text.push_str(if n % 3 == 2 { "junk\n" } else { "5,W,8,8\n" });
    }
    let (requests, skipped) = read(text.clone(), "rq-csv", true).unwrap();
    assert_eq!((requests.len(), skipped.count), (20_000, 10_000));
    assert!(skipped.first.unwrap().starts_with("memory, line 3: the time is \"junk\""));
    assert!(read("junk\n", "rq-csv", true).unwrap_err().contains("none of its lines can be read as this format"));
    // The time base is that of the first readable line.
    let (requests, _) = read("1,W,x,8\n7,W,8,8\n9,W,8,8\n", "rq-csv", true).unwrap();
    assert_eq!(requests.iter().map(|r| r.time.0).collect::<Vec<_>>(), [0, 2000]);
}

#[test]
fn lines_may_be_long_but_not_too_long() {
    let line = |bytes: usize| format!("{}5,W,8,8", " ".repeat(bytes - 7));
    let text = |bytes: usize| format!("1,W,0,8\n{}\n9,W,8,8\n", line(bytes));
    assert_eq!(read(text(65_536), "rq-csv", false).unwrap().0.len(), 3);
    let message = "memory, line 2: the line is longer than 64 KiB, expected one request per line";
    for bytes in [65_537, 400_000, 5_000_000] {
        assert_eq!(error(text(bytes), "rq-csv"), message);
        let (requests, skipped) = read(text(bytes), "rq-csv", true).unwrap();
        assert_eq!((requests.len(), skipped.count), (2, 1), "{bytes}");
    }
    // The last line, without an end.
    assert_eq!(error(format!("1,W,0,8\n{}", line(70_000)), "rq-csv"), message);
}

#[test]
fn line_ends_and_blank_lines_do_not_matter() {
    let plain = "5,W,8,8\n6,R,8,8\n";
    let expected = read(plain, "", false).unwrap();
    for text in [
        "5,W,8,8\r\n6,R,8,8\r\n",
        "5,W,8,8\n6,R,8,8",
        "\n\n5,W,8,8\n  \n\t\n6,R,8,8\n\n",
        "\u{feff}5,W,8,8\n6,R,8,8\n",
        " 5 , W , 8 , 8 \n6,R,8,8\n",
    ] {
        assert_eq!(read(text, "", false).unwrap(), expected, "{text:?}");
    }
}

#[test]
fn lines_survive_any_cut_of_the_stream() {
    /// Gives a few bytes at a time.
    struct Dribble(Cursor<Vec<u8>>, usize);
    impl std::io::Read for Dribble {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            self.1 = self.1 % 7 + 1;
            let n = buf.len().min(self.1);
            self.0.read(&mut buf[..n])
        }
    }
    let text: String = many_lines(30_000, "\r\n");
    let whole = read(text.clone(), "", false).unwrap().0;
    assert_eq!(whole.len(), 30_000);
    let stream = Box::new(Dribble(Cursor::new(text.into_bytes()), 0));
    let mut trace = open_stream("memory", stream, None, &OpenOptions::default()).unwrap();
    assert_eq!(drain(&mut trace).unwrap(), whole);
    assert_eq!(trace.progress(), None);
}

#[test]
fn files_that_hold_nothing_are_errors() {
    assert_eq!(error("", ""), "memory: is empty, expected a trace");
    assert_eq!(error("", "msr"), "memory: is empty, expected a trace");
    assert_eq!(error("\n\n", "msr"), "memory: holds no request");
    assert_eq!(error("Timestamp,Response,IOType,LUN,Offset,Size\n", "systor"), "memory: holds no request");
    assert!(error("what is this\n", "").contains("fits no known format; it begins \"what is this\""));
    let missing = open("no/such/file", &OpenOptions::default()).unwrap_err();
    assert!(missing.to_string().starts_with("no/such/file: cannot be opened: "));
    let directory = open(env!("CARGO_MANIFEST_DIR"), &OpenOptions::default()).unwrap_err();
    assert!(directory.reason.contains("is a directory"));
}

type Compress = fn(&[u8]) -> Vec<u8>;

#[test]
fn after_an_error_there_is_nothing_more() {
    let mut broken = vscsi1(1, 4096, 0x28, 8, 1).repeat(3);
    broken.extend([1; 32]);
    broken.extend(vscsi1(1, 4096, 0x28, 8, 1));
    for (bytes, format) in [(b"5,W,8,8\njunk\n6,W,8,8\n".to_vec(), "rq-csv"), (broken, "vscsi")] {
        let mut trace = memory(bytes, &options(format, false)).unwrap();
        let mut batch = Vec::new();
        assert!(trace.next_batch(&mut batch).is_err());
        assert!(batch.is_empty());
        trace.next_batch(&mut batch).unwrap();
        assert!(batch.is_empty());
    }
}

/// Runs itself with a trace as its standard input.
#[test]
fn standard_input() {
    const CHILD: &str = "DESTAGE_TEST_READS_STANDARD_INPUT";
    if std::env::var_os(CHILD).is_some() {
        let mut trace = open("-", &OpenOptions::default()).unwrap();
        assert_eq!(trace.file(), Path::new("standard input"));
        let requests = drain(&mut trace).unwrap();
        println!("{} requests of {} by {}", requests.len(), trace.format(), trace.compression());
        assert_eq!(trace.progress(), None);
        return;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["readers::standard_input", "--exact", "--nocapture"])
        .env(CHILD, "1")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&gzip(many_lines(50_000, "\n").as_bytes())).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("50000 requests of rq-csv by gzip"), "{text}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

/// An .xz stream of stored chunks (the decoder's crate has no encoder here): stream header, one
/// block, index, footer.
fn xz(bytes: &[u8]) -> Vec<u8> {
    const FLAGS: [u8; 2] = [0, 1]; // CRC-32
    let crc = |bytes: &[u8]| {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        crc.sum().to_le_bytes()
    };
    let pad = |out: &mut Vec<u8>| out.resize(out.len().next_multiple_of(4), 0);
    let number = |out: &mut Vec<u8>, mut n: u64| {
        while n > 0x7f {
            out.push(n as u8 | 0x80);
            n >>= 7;
        }
        out.push(n as u8);
    };
    let mut out = b"\xfd7zXZ\0".to_vec();
    out.extend(FLAGS);
    out.extend(crc(&FLAGS));
    // Header of 12 bytes: one filter, LZMA2 with a dictionary of 64 KiB.
    let header = [2, 0, 0x21, 1, 8, 0, 0, 0];
    let block = out.len();
    out.extend(header);
    out.extend(crc(&header));
    for (n, chunk) in bytes.chunks(1 << 16).enumerate() {
        out.push(if n == 0 { 1 } else { 2 });
        out.extend(((chunk.len() - 1) as u16).to_be_bytes());
        out.extend(chunk);
    }
    out.push(0);
    let unpadded = out.len() - block + 4;
    pad(&mut out);
    out.extend(crc(bytes));
    let mut index = vec![0, 1];
    number(&mut index, unpadded as u64);
    number(&mut index, bytes.len() as u64);
    pad(&mut index);
    index.extend(crc(&index));
    let mut footer = ((index.len() / 4 - 1) as u32).to_le_bytes().to_vec();
    footer.extend(FLAGS);
    out.extend(index);
    out.extend(crc(&footer));
    out.extend(footer);
    out.extend(b"YZ");
    out
}

#[test]
fn xz_files_as_the_usual_tool_writes_them() {
    let mut trace = open(sample("rq40.csv.xz"), &OpenOptions::default()).unwrap();
    assert_eq!((trace.format(), trace.compression()), (FormatId::RqCsv, Compression::Xz));
    let once = std::fs::read(sample("rq.csv")).unwrap();
    assert_eq!(drain(&mut trace).unwrap(), read(once.repeat(40), "", false).unwrap().0);
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn compression_is_undone_and_its_damage_reported() {
    let text: String = many_lines(60_000, "\n");
    let (first, second) = text.as_bytes().split_at(text.len() / 3);
    let expected = read(text.clone(), "", false).unwrap().0;
    let kinds: [(Compression, Compress); 4] =
        [(Compression::Gzip, gzip), (Compression::Zstd, zstd), (Compression::Xz, xz), (Compression::Bzip2, bzip2)];
    for (kind, compress) in kinds {
        let whole = compress(text.as_bytes());
        // Members, frames and streams that follow one another.
        let parts = [compress(first), compress(second)].concat();
        for bytes in [&whole, &parts] {
            let mut trace = memory(bytes.clone(), &OpenOptions::default()).unwrap();
            assert_eq!(trace.compression(), kind);
            assert_eq!(trace.format(), FormatId::RqCsv);
            assert!(trace.progress().unwrap() < 1.0 || whole.len() < 200_000);
            assert!(drain(&mut trace).unwrap() == expected, "{kind}");
            assert_eq!(trace.progress(), Some(1.0));
        }
        for cut in [whole.len() - 1, whole.len() - 5, whole.len() * 2 / 3, parts.len() - compress(second).len() + 3] {
            let bytes = if cut < whole.len() { &whole[..cut] } else { &parts[..cut] };
            for lenient in [false, true] {
                let message = read(bytes, "", lenient).unwrap_err();
                assert!(
                    message.starts_with("memory, byte ") && message.contains(kind.name()),
                    "{kind} {cut}: {message}"
                );
                assert!(message.contains("cut short") || message.contains("damaged"), "{kind} {cut}: {message}");
            }
        }
        let message = error(&whole[..whole.len() * 2 / 3], "");
        assert!(message.contains("is cut short after this decompressed byte"), "{kind}: {message}");
        for garbage in [&b"garbage that is long enough to be noticed"[..], &[0; 64], b"x"] {
            if kind == Compression::Xz && garbage[0] == 0 {
                continue; // Zeros in multiples of four are the padding that the format allows.
            }
            let message = error([&whole[..], garbage].concat(), "");
            assert!(message.contains(kind.name()), "{kind}: {message}");
        }
        let mut damaged = whole.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 0x55;
        damaged[middle + 1] ^= 0x55;
        assert!(read(damaged, "rq-csv", true).is_err(), "{kind}");
    }
}

/// A short valid sample of every format: one made by hand, or else the beginning of one that the
/// format declares.
fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let mut samples = samples_by_hand();
    for id in FORMATS {
        if !samples.iter().any(|(name, _)| name.split(':').next() == Some(id.name())) {
            samples.push((id.examples()[0], id.info().samples[0].pieces(4).concat()));
        }
    }
    samples
}

fn samples_by_hand() -> Vec<(&'static str, Vec<u8>)> {
    let file = |name: &str| std::fs::read(sample(name)).unwrap();
    let disks = "disks = { 0 -> { sectorsize = 256 } };";
    let record = [56, 0x40001, 10, 500, 174, 19687, 4096, 1056, 0x0800_0107, 4, 1, 27, 0, 1];
    let mut native = Vec::new();
    let mut writer = NativeWriter::new(&mut native).unwrap();
    writer.write(&[request(5, W, 4096, 4096, 0), request(9, R, 0, 512, 0)]).unwrap();
    writer.finish().unwrap();
    vec![
        ("native", native),
        ("msr", file("msr.csv")),
        ("systor", file("systor.csv")),
        ("rq-csv", file("rq.csv")),
        ("tencent", file("tencent.csv")),
        ("alibaba", file("alibaba.csv")),
        ("spc", file("umass.spc")),
        ("disksim", file("disksim.trace")),
        ("ssdsim", file("ssdsim.trace")),
        ("msr-cut", file("msr-cut.trace")),
        ("diskmon", file("diskmon.txt")),
        ("wiscsee", file("wiscsee.txt")),
        ("blkparse", file("blkparse.txt")),
        ("blktrace", file("loop.blktrace")),
        ("fio:wait=us", file("fio-v2.log")),
        ("vscsi", [vscsi1(1, 4096, 0x28, 8, 1_000_000), vscsi1(2, 512, 0x8a, 16, 1_000_005)].concat()),
        ("srt", srt(disks, &[record, record])),
        ("oracle-general:op=R", oracle(&[(5, 3, 4096), (7, 10, 512)])),
        ("columns:ts=s,op,off=pages4k,_,len=4096,dev,sep=semicolon,skip=1", file("table.txt")),
    ]
}

#[test]
fn every_sample_is_read() {
    for (format, bytes) in samples() {
        assert!(!read(bytes, format, false).unwrap().0.is_empty(), "{format}");
    }
    for id in FORMATS {
        for (name, sample) in id.samples() {
            // A request for each line or record: one of them can be an event that is none.
            let requests = read(sample.pieces(40).concat(), id.examples()[0], false).unwrap().0;
            assert!((20..=40).contains(&requests.len()), "{name}: {} requests", requests.len());
        }
    }
}

/// Reads bytes in every way; only that nothing panics matters.
fn survive(bytes: &[u8], format: &str) {
    for lenient in [false, true] {
        drop(read(bytes, format, lenient));
    }
}

/// How many times as much `make soak` does.
fn soak() -> u32 {
    if std::env::var_os("DESTAGE_SOAK").is_some() { 50 } else { 1 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400 * soak(), failure_persistence: None, ..ProptestConfig::default() })]

    /// Every format over the same random bytes: 400 cases of all formats and the detection.
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for (format, _) in samples() {
            survive(&bytes, format);
        }
        survive(&bytes, "");
    }

    /// Random text out of the characters that traces are made of.
    #[test]
    fn random_text_never_panics(text in "[0-9RWDCF,;. \t\n+\\[\\]()-]{0,300}") {
        for (format, _) in samples() {
            survive(text.as_bytes(), format);
        }
        survive(text.as_bytes(), "");
    }

    /// Every format's sample with bytes changed, left out, put in and cut off: 400 cases of each.
    #[test]
    fn mutated_samples_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..6),
    ) {
        for (format, bytes) in samples() {
            let mut bytes = bytes;
            for (at, value, how) in &changes {
                if bytes.is_empty() {
                    break;
                }
                let at = at.index(bytes.len());
                match how {
                    0 => bytes[at] = *value,
                    1 => { bytes.remove(at); }
                    2 => bytes.insert(at, *value),
                    _ => bytes.truncate(at),
                }
            }
            survive(&bytes, format);
            survive(&bytes, "");
        }
    }

    /// The same for what stands before the format: compressed data.
    #[test]
    fn mutated_compression_never_panics(at in any::<prop::sample::Index>(), value in any::<u8>(), cut in any::<bool>()) {
        let text: String = many_lines(500, "\n");
        for compress in [gzip, zstd, xz, bzip2] {
            let mut bytes = compress(text.as_bytes());
            let at = at.index(bytes.len());
            bytes[at] = value;
            if cut {
                bytes.truncate(at + 1);
            }
            survive(&bytes, "");
        }
    }
}

/// The folder of real traces, if it is there.
fn shared(test: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("DESTAGE_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"),
        |shared| PathBuf::from(shared).join("traces"),
    );
    if folder.is_dir() {
        return Some(folder);
    }
    // Past the test harness, which keeps what a passing test prints.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: there is no folder {}", folder.display());
    None
}

/// File, format to give (none where the content decides), format, reads and writes, discards,
/// percent of reads (of reads and writes), seconds: the traces' own README, but for the discard,
/// which it does not count.
const REAL: [(&str, &str, FormatId, u64, u64, f64, f64); 20] = [
    ("Financial1.first10000.ssdsim.ascii.zst", "", FormatId::Ssdsim, 10_000, 0, 40.8, 259.6),
    ("WebSearch1.first24783.mqsim.trace.zst", "", FormatId::Ssdsim, 24_783, 0, 99.98, 60.06),
    ("tpcc-small.mqsim.trace.zst", "", FormatId::Ssdsim, 6_999, 0, 62.6, 0.136),
    ("hm_0.sample1000.csv.zst", "", FormatId::Msr, 1_000, 0, 50.8, 127.2),
    ("msr.cut.per_10k.rw_20_80.105.trace.zst", "msr-cut", FormatId::MsrCut, 10_000, 0, 20.2, 242.9),
    ("msr.cut.per_10k.most_thpt_rand_iops.1006.trace.zst", "msr-cut", FormatId::MsrCut, 10_000, 0, 83.2, 1.017),
    ("cloudPhysicsIO.2h.vscsi.zst", "", FormatId::Vscsi, 113_872, 0, 41.3, 7_200.0),
    ("mayun.txt.zst", "", FormatId::Diskmon, 24_844, 0, 57.1, 6_530.0),
    ("mayun2.txt.zst", "", FormatId::Diskmon, 87_160, 0, 42.1, 11_720.0),
    ("ssd-postmark-aligned2.trace.zst", "disksim", FormatId::Disksim, 62_257, 0, 83.2, 490.4),
    ("alibaba.first1h.cut.trace.zst", "msr-cut", FormatId::MsrCut, 52_274, 0, 10.4, 3_597.0),
    // Two seconds in turn, of which the first line has the later one.
    ("cloud_storage-sample50000.csv.zst", "", FormatId::Tencent, 50_000, 0, 49.0, 1.0),
    ("systor17-traces-sample999.csv.zst", "", FormatId::Systor, 999, 0, 82.7, 2.45),
    ("hplajw.1992-05-30.1week.srt.zst", "", FormatId::Srt, 44_519, 0, 29.3, 603_065.0),
    ("sqlitewal-update.txt.zst", "", FormatId::Wiscsee, 5_007, 1, 0.1, 1.41),
    ("own.oltp-pgbench-ext4.csv.zst", "", FormatId::RqCsv, 119_807, 0, 1.7, 120.5),
    ("own.install-ext4.csv.zst", "", FormatId::RqCsv, 5_500, 0, 0.1, 12.7),
    ("own.copy-media-ext4.csv.zst", "", FormatId::RqCsv, 1_157, 0, 0.4, 3.8),
    ("own.tree-xfs.csv.zst", "", FormatId::RqCsv, 26_542, 0, 0.1, 34.3),
    // Read as if all its records were of the other decimal format, to show that nothing but the
    // user can tell.
    ("alibaba.first1h.cut.trace.zst", "disksim", FormatId::Disksim, 52_274, 0, 10.4, 3_597.0),
];

#[test]
fn real_traces_hold_what_they_are_known_to_hold() {
    let Some(folder) = shared("real_traces_hold_what_they_are_known_to_hold") else { return };
    let mut seen = 0;
    for (name, format, id, accesses, discards, reads, seconds) in REAL {
        let mut trace = open(folder.join(name), &options(format, false)).unwrap();
        assert_eq!((trace.format(), trace.compression()), (id, Compression::Zstd), "{name}");
        let requests = drain(&mut trace).unwrap();
        let count = |op: Op| requests.iter().filter(|r| r.op == op).count() as u64;
        assert_eq!(count(R) + count(W), accesses, "{name}");
        assert_eq!(count(Discard), discards, "{name}");
        assert_eq!(requests.len() as u64, accesses + discards, "{name}");
        let share = count(R) as f64 * 100.0 / accesses as f64;
        assert!((share - reads).abs() <= 0.05 + 1e-9, "{name}: {share} % reads");
        let span = requests.iter().map(|r| r.time.0).max().unwrap() as f64 / 1e9;
        assert!((span - seconds).abs() <= seconds * 0.005 + 0.05, "{name}: {span} s");
        assert_eq!(trace.progress(), Some(1.0), "{name}");
        println!("{name}: {id}, {} requests, {share:.2} % reads, {span:.3} s", requests.len());
        seen += 1;
    }
    assert_eq!(seen, REAL.len());
    // The ambiguous ones are refused without a format.
    for (name, format, ..) in REAL {
        let refused = open(folder.join(name), &OpenOptions::default());
        assert_eq!(refused.is_err(), !format.is_empty(), "{name}");
        if let Err(error) = refused {
            assert!(error.reason.contains("--format disksim") && error.reason.contains("--format msr-cut"), "{error}");
        }
    }
    // No trace in the folder is missing from the table.
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            Path::new(&name).extension().is_none_or(|e| e != "zst") || REAL.iter().any(|row| row.0 == name),
            "{name} is not in the table"
        );
    }
}
