//! Hostile files, made up while they are read: none makes memory grow, and each ends in an error
//! that says why, or is read to its end. Memory is the process's own peak, where the system tells
//! it.

use std::io::{Read, Write as _};

use destage_plan::PageGeometry;
use destage_trace::{OpenOptions, Request, TraceCompression, TraceSource, TraceStat, open_stream};

/// Bytes that this process may take, with all of its tests at work.
const MEMORY: u64 = 256 << 20;

/// A stream of pieces, each made up by its number, until there are none.
struct MadeUp<F> {
    next: F,
    number: u64,
    piece: Vec<u8>,
    at: usize,
}

impl<F: FnMut(u64, &mut Vec<u8>) -> bool> MadeUp<F> {
    /// `next` appends the piece with a number, or returns `false` at the end.
    fn new(next: F) -> Self {
        Self { next, number: 0, piece: Vec::new(), at: 0 }
    }
}

impl<F: FnMut(u64, &mut Vec<u8>) -> bool> Read for MadeUp<F> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        while self.at == self.piece.len() {
            self.piece.clear();
            self.at = 0;
            if !(self.next)(self.number, &mut self.piece) {
                return Ok(0);
            }
            self.number += 1;
        }
        let n = buf.len().min(self.piece.len() - self.at);
        buf[..n].copy_from_slice(&self.piece[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// `pieces` pieces made up by `make`.
fn pieces(pieces: u64, make: impl Fn(u64, &mut Vec<u8>) + Send + 'static) -> Box<dyn Read + Send> {
    Box::new(MadeUp::new(move |number, piece| {
        if number < pieces {
            make(number, piece);
        }
        number < pieces
    }))
}

/// Requests read and what was left out; or the error.
fn read(stream: Box<dyn Read + Send>, format: &str, lenient: bool) -> Result<(u64, u64), String> {
    let options = OpenOptions { format: (!format.is_empty()).then(|| format.parse().unwrap()), lenient };
    let mut trace = open_stream("made up", stream, None, &options).map_err(|e| e.to_string())?;
    let mut requests = 0;
    let mut batch: Vec<Request> = Vec::new();
    loop {
        trace.next_batch(&mut batch).map_err(|e| e.to_string())?;
        if batch.is_empty() {
            return Ok((requests, trace.skipped().count));
        }
        requests += batch.len() as u64;
    }
}

/// The most memory that the process ever had, in bytes, if the system tells.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    kib.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// Files of some 100 MB each cost no memory: in one test, so that no other adds to the peak.
#[test]
fn no_file_makes_memory_grow() {
    let mib = |n: u64| pieces(n, |_, piece| piece.resize(1 << 20, b'x'));

    // A line without an end.
    let error = read(mib(100), "msr", false).unwrap_err();
    assert_eq!(error, "made up, line 1: the line is longer than 64 KiB, expected one request per line");
    let error = read(mib(100), "msr", true).unwrap_err();
    assert!(error.contains("none of its lines can be read as this format"), "{error}");
    assert!(read(mib(100), "", false).unwrap_err().contains("has no end of line in its first 64 KiB"));

    // Lines of 60,000 fields, and of one field of 60,000 characters.
    let fields = |what: &'static [u8]| {
        pieces(100, move |_, piece| {
            while piece.len() < 60_000 {
                piece.extend_from_slice(what);
            }
            piece.push(b'\n');
        })
    };
    for format in ["msr", "spc", "disksim", "blkparse", "wiscsee", "columns:off=bytes,len=bytes,op=W,sep=comma"] {
        for what in [&b"1,"[..], b"1 ", b"9", b"\0", b"8,0 "] {
            // Where a number is wanted and the rest of the line does not matter, such a line is a
            // request.
            match read(fields(what), format, true) {
                Ok(requests) => assert_eq!(requests, (100, 0), "{format}"),
                Err(error) => assert!(error.len() < 1000, "{error}"),
            }
        }
    }

    // Every line skipped: only the first is kept.
    let lines = |n| pieces(n, |_, piece| piece.extend(b"bad\n".repeat(16_384)));
    assert!(read(lines(100), "msr", true).unwrap_err().contains("none of its lines"));
    let one_good = lines(100).chain(&b"5,destage,0,Read,0,512,0\n"[..]);
    assert_eq!(read(Box::new(one_good), "msr", true), Ok((1, 100 * 16_384)));

    // A new volume in every line: by short names, by long names, by number, by device.
    let long = "v".repeat(4000);
    let hosts = pieces(1 << 20, move |n, piece| writeln!(piece, "{n},{long}{n},0,Read,0,512,0").unwrap());
    let error = read(hosts, "msr", true).unwrap_err();
    assert!(error.contains("the names of all volumes are longer than 16 MiB together"), "{error}");
    for (format, line) in [
        ("msr", "5,#,0,Read,0,512,0\n"),
        ("spc", "#,0,512,r,0.5\n"),
        ("blkparse", "8,# 0 1 0.5 7 D R 8 + 8 [x]\n"),
        ("columns:dev,off=bytes,len=bytes,op=W,sep=comma", "#,0,512\n"),
    ] {
        let many = pieces(1 << 20, move |n, piece| piece.extend(line.replace('#', &n.to_string()).bytes()));
        let error = read(many, format, true).unwrap_err();
        assert!(error.contains("line 65537: this is the 65537th volume"), "{format}: {error}");
    }
    let files = pieces(1 << 20, |n, piece| {
        if n == 0 {
            piece.extend(b"fio version 3 iolog\n");
        }
        writeln!(piece, "{n} file{n} write 0 4096").unwrap();
    });
    assert!(read(files, "", true).unwrap_err().contains("this is the 65537th volume"));

    // A header without an end, and records that promise more than there is.
    let srt = Box::new((&b"$$TR_IOREC"[..]).chain(mib(100)));
    assert!(read(srt, "", false).unwrap_err().contains("is not within the first 1 MiB"));
    let huge = pieces(100, |n, piece| {
        if n == 0 {
            piece.extend(b"$$TR_IOREC sectorsize 256\x0c");
        }
        piece.resize(1 << 20, 0xff);
    });
    assert!(read(huge, "", true).unwrap_err().contains("the record's id is 0xffffffff"));
    let blktrace = |device: fn(u64) -> u32| {
        pieces(100_000, move |n, piece| {
            let mut record = [0_u8; 48];
            record[..4].copy_from_slice(&0x6561_7407_u32.to_le_bytes());
            record[8..16].copy_from_slice(&(u64::MAX - n).to_le_bytes());
            record[24..28].copy_from_slice(&4096_u32.to_le_bytes());
            record[28..32].copy_from_slice(&(7_u32 | 1 << 22 | 1 << 17).to_le_bytes());
            record[36..40].copy_from_slice(&device(n).to_le_bytes());
            record[46..].copy_from_slice(&2000_u16.to_le_bytes());
            piece.extend(record);
            piece.resize(2048, 0);
        })
    };
    assert_eq!(read(blktrace(|_| 7), "", false), Ok((100_000, 0)));
    assert!(read(blktrace(|n| n as u32), "", true).unwrap_err().contains("this is the 65537th volume"));

    // Objects all over the place, and bytes that are no records at all.
    let objects = pieces(1_000_000, |n, piece| {
        piece.extend(5_u32.to_le_bytes());
        piece.extend((n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 12).to_le_bytes());
        piece.extend(4096_u32.to_le_bytes());
        piece.extend((-1_i64).to_le_bytes());
    });
    assert_eq!(read(objects, "oracle-general:op=W", false), Ok((1_000_000, 0)));

    if let Some(peak) = peak() {
        assert!(peak < MEMORY, "{} MiB", peak >> 20);
    } else {
        writeln!(std::io::stderr(), "SKIPPED: no_file_makes_memory_grow: the peak of memory, which is not told")
            .unwrap();
    }
}

/// A quarter of a gigabyte out of less than a megabyte: it streams.
#[test]
fn compressed_bombs_stream() {
    let line = b"5,R,0,8\n";
    let plain: Vec<u8> = line.repeat((64 << 20) / line.len());
    let gzip = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        encoder.write_all(&plain).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = zstd::encode_all(&plain[..], 3).unwrap();
    for (kind, member) in [(TraceCompression::Gzip, gzip), (TraceCompression::Zstd, zstd)] {
        assert!(member.len() < 1 << 20, "{kind}");
        let members = pieces(4, move |_, piece| piece.extend_from_slice(&member));
        assert_eq!(read(members, "", false), Ok((4 * (64 << 20) / 8, 0)), "{kind}");
    }
    // Members without content, a hundred thousand.
    let empty = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()).finish().unwrap();
    let members = pieces(100_000, move |_, piece| piece.extend_from_slice(&empty));
    assert!(read(members, "", false).unwrap_err().contains("is empty"));
    // A header's name without an end.
    let mut name = vec![0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3];
    name.resize(1 << 20, b'x');
    let endless = pieces(20, move |_, piece| piece.extend_from_slice(&name));
    assert!(read(endless, "", false).unwrap_err().contains("the gzip data is"));
}

#[test]
fn windows_beyond_128_mib_are_refused() {
    // Frame header: magic, no single segment, window of 2^28 B (exponent 18, over 2^10); then one
    // raw block.
    let zstd = |exponent: u8| {
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, exponent << 3];
        frame.extend([8 << 3 | 1, 0, 0]);
        frame.extend(b"5,R,0,8\n");
        frame
    };
    assert_eq!(read(Box::new(std::io::Cursor::new(zstd(17))), "", false), Ok((1, 0)));
    let error = read(Box::new(std::io::Cursor::new(zstd(18))), "", false).unwrap_err();
    assert!(error.contains("the zstd data is") && error.contains("more than 128 MiB"), "{error}");
}

/// A request over nearly all addresses is counted as one range: no loop over its pages, and no
/// memory.
#[test]
fn huge_requests_cost_no_time() {
    let huge = pieces(100_000, |n, piece| writeln!(piece, "{n},d,0,Write,{n},{},0", u64::MAX / 2).unwrap());
    let options = OpenOptions { format: Some("msr".parse().unwrap()), lenient: false };
    let mut trace = open_stream("huge", huge, None, &options).unwrap();
    let mut stat = TraceStat::new(PageGeometry::new(512, 1).unwrap());
    let mut batch = Vec::new();
    loop {
        trace.next_batch(&mut batch).unwrap();
        if batch.is_empty() {
            break;
        }
        stat.feed(&batch);
    }
    let summary = stat.finish();
    assert_eq!(summary.requests, 100_000);
    assert_eq!(summary.unique_pages, (1 << 54) + 99_997 / 512 + 1);
    assert_eq!(summary.write_bytes, u64::MAX);
}
