//! Compressed traces, whole and damaged.

use std::io;

use super::*;

type Compress = fn(&[u8]) -> Vec<u8>;

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

/// An .xz stream of stored chunks (the decoder's crate has no encoder here): stream header, one
/// block, index, footer.
pub(super) fn xz(bytes: &[u8]) -> Vec<u8> {
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
fn files_as_the_usual_tools_write_them() {
    let once = std::fs::read(sample("rq.csv")).unwrap();
    let expected = read(once.repeat(40), "", false).unwrap().0;
    for (file, compression) in [
        ("rq40.csv.xz", TraceCompression::Xz),
        ("rq40.csv.lz4", TraceCompression::Lz4),
        ("rq40.csv.zip", TraceCompression::Zip),
        // Out of a pipe into a pipe.
        ("rq40-piped.zip", TraceCompression::Zip),
    ] {
        let mut trace = open(sample(file), &OpenOptions::default()).unwrap();
        assert_eq!((trace.format(), trace.compression()), (FormatId::RqCsv, compression), "{file}");
        assert_eq!(drain(&mut trace).unwrap(), expected, "{file}");
    }
}

pub(super) fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns one frame of LZ4, in blocks of 64 KiB with a checksum behind all of them.
pub(super) fn lz4(bytes: &[u8]) -> Vec<u8> {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    let info = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Linked).content_checksum(true);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns an archive with one file, deflated.
pub(super) fn zip(bytes: &[u8]) -> Vec<u8> {
    archive(&[("trace.csv", ZipMember::Deflated, bytes)])
}

/// Says how a file is put into an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZipMember {
    Stored,
    Deflated,
    /// Has the length behind the data, as who writes to a pipe has it.
    Piped,
    /// Gives the same with a length of 64 bits.
    PipedLong,
    /// Has lengths of 64 bits in front.
    Long,
    Encrypted,
    /// Is compressed by zstd.
    Other,
    /// Is stored with its length behind it.
    StoredPiped,
}

/// Returns an archive with these files.
fn archive(files: &[(&str, ZipMember, &[u8])]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, how, bytes) in files {
        let data = if matches!(how, ZipMember::Stored | ZipMember::StoredPiped) {
            bytes.to_vec()
        } else {
            let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        };
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        let is_piped = matches!(how, ZipMember::Piped | ZipMember::PipedLong | ZipMember::StoredPiped);
        let is_long = matches!(how, ZipMember::Long | ZipMember::PipedLong);
        let flags = u16::from(*how == ZipMember::Encrypted) | u16::from(is_piped) << 3;
        let method: u16 = match how {
            ZipMember::Stored | ZipMember::StoredPiped => 0,
            ZipMember::Other => 93,
            _ => 8,
        };
        let lengths = [data.len() as u64, bytes.len() as u64];
        let [short, behind] = [(!is_piped).then_some(lengths), is_piped.then_some(lengths)];
        let mut header = [20_u16, flags, method, 0, 0].map(u16::to_le_bytes).concat();
        header.extend(if is_piped { 0 } else { crc.sum() }.to_le_bytes());
        for length in short.unwrap_or_default() {
            header.extend(if is_long { u32::MAX } else { length as u32 }.to_le_bytes());
        }
        // A field of another kind first, then the lengths, the original one first.
        let mut extra = vec![0x55, 0x54, 1, 0, 7];
        if is_long {
            extra.extend([1, 0, 16, 0]);
            extra.extend(short.unwrap_or_default().into_iter().rev().flat_map(u64::to_le_bytes));
        }
        header.extend((name.len() as u16).to_le_bytes());
        header.extend((extra.len() as u16).to_le_bytes());
        out.extend(b"PK\x03\x04");
        out.extend(&header);
        out.extend(name.as_bytes());
        out.extend(&extra);
        out.extend(&data);
        if let Some(lengths) = behind {
            // The mark in front may be left out.
            out.extend(if *how == ZipMember::Piped { &b"PK\x07\x08"[..] } else { b"" });
            out.extend(crc.sum().to_le_bytes());
            for length in lengths {
                out.extend(&length.to_le_bytes()[..if is_long { 8 } else { 4 }]);
            }
        }
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&header[..24]);
        directory.extend([0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        directory.extend(name.as_bytes());
        directory.extend(b"??");
    }
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([files.len() as u16; 2].map(u16::to_le_bytes).concat());
    out.extend((directory.len() as u32).to_le_bytes());
    out.extend([0, 0, 0, 0, 2, 0]);
    out.extend(b"!!");
    out
}

#[test]
fn files_of_an_archive_are_one_trace_in_order() {
    let text = |from: u64| [from, from + 1, from + 2].map(|n| format!("{n},W,{},8\n", n * 8)).concat();
    let (first, second) = (text(0), text(3));
    let expected = read(first.clone() + &second, "", false).unwrap().0;
    // The first file lacks its last end of line.
    let first = first.trim_end().as_bytes();
    let second = second.as_bytes();
    for how in [ZipMember::Stored, ZipMember::Deflated, ZipMember::Piped, ZipMember::PipedLong, ZipMember::Long] {
        let bytes = archive(&[
            ("traces/", ZipMember::Stored, b""),
            ("traces/a.csv", how, first),
            ("traces/empty", how, b""),
            ("__MACOSX/._a.csv", ZipMember::Deflated, b"no trace"),
            ("b.csv", how, second),
        ]);
        let mut trace = memory(bytes.clone(), &OpenOptions::default()).unwrap();
        assert_eq!(
            (trace.compression(), drain(&mut trace).unwrap()),
            (TraceCompression::Zip, expected.clone()),
            "{how:?}"
        );
        // Cut anywhere, it is never a shorter trace.
        for cut in 4..bytes.len() {
            let message = read(&bytes[..cut], "rq-csv", true).unwrap_err();
            assert!(
                message.contains("zip data is cut short") || message.contains("is empty"),
                "{how:?} {cut}: {message}"
            );
        }
    }
    let one = |how| error(archive(&[("a\n.csv", how, first)]), "");
    assert!(
        one(ZipMember::Encrypted).contains("the file a\\n.csv is encrypted; extract it"),
        "{}",
        one(ZipMember::Encrypted)
    );
    assert!(one(ZipMember::Other).contains("is compressed by method 93, expected deflate or none"));
    assert!(one(ZipMember::StoredPiped).contains("is stored with its length behind it"));
    let whole = archive(&[("a.csv", ZipMember::Stored, first)]);
    let at = whole.windows(5).position(|bytes| bytes == b"0,W,0").unwrap();
    let mut damaged = whole.clone();
    damaged[at] = b'9';
    assert!(error(damaged, "").contains("does not have its checksum"));
    // A file of which the directory does not know was removed, or comes from elsewhere.
    let unlisted = [&whole[..whole.windows(4).position(|mark| mark == b"PK\x01\x02").unwrap()], &zip(second)].concat();
    assert!(error(unlisted, "").contains("its directory lists 1 files, but it holds 2"));
    assert!(error(archive(&[]), "").contains("is empty, expected a trace"));
    assert!(error([&whole[..], b"x"].concat(), "").contains("something follows the zip archive"));
}

#[test]
fn lz4_frames_are_read_with_what_may_stand_between() {
    let text = many_lines(60_000, "\n");
    let expected = read(text.clone(), "", false).unwrap().0;
    let whole = lz4(text.as_bytes());
    let skippable = b"\x5a\x2a\x4d\x18\x03\0\0\0abc";
    let (first, second) = text.as_bytes().split_at(text.len() / 2);
    let parts = [&lz4(first)[..], skippable, &lz4(b""), &lz4(second), skippable].concat();
    assert_eq!(read(parts, "", false).unwrap().0, expected);
    // Between two blocks, too, the end of the input is not that of the frame.
    let block = u32::from_le_bytes(whole[7..11].try_into().unwrap()) as usize;
    for cut in [11 + block, 15 + block, whole.len() - 8, whole.len() - 4] {
        let message = error(&whole[..cut], "");
        assert!(message.contains("lz4 data is cut short"), "{cut}: {message}");
    }
    let old = [&b"\x02\x21\x4c\x18"[..], &whole[7..]].concat();
    assert!(error(old, "").contains("lz4-compressed in lz4's old format"));
}

#[test]
fn utf16_is_read_where_it_says_so() {
    let text = "fio version 3 iolog\n0 /\u{e9}\u{10348} add\n5 /\u{e9}\u{10348} write 4096 8192\n".repeat(2000);
    let text =
        text.split_once('\n').unwrap().0.to_owned() + "\n" + &"5 /\u{e9}\u{10348} write 4096 8192\n".repeat(9000);
    let units: Vec<u16> = text.encode_utf16().collect();
    let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
    let expected = read(text, "", false).unwrap().0;
    for (mark, bytes, order) in [(b"\xff\xfe", &little, "little"), (b"\xfe\xff", &big, "big")] {
        let marked = [&mark[..], bytes].concat();
        for file in [marked.clone(), gzip(&marked)] {
            for format in ["", "fio"] {
                let mut trace = memory(file.clone(), &options(format, false)).unwrap();
                assert_eq!(drain(&mut trace).unwrap(), expected, "{order}");
                assert_eq!(trace.volume_names(), ["/\u{e9}\u{10348}"]);
            }
        }
        let odd = error(&marked[..marked.len() - 1], "");
        assert!(odd.contains(": a last byte alone"), "{odd}");
        // Without the mark it is not guessed at.
        let ascii: Vec<u8> =
            "0,W,8,8\n1,R,8,8\n".bytes().flat_map(|b| if order == "big" { [0, b] } else { [b, 0] }).collect();
        for format in ["", "rq-csv", "columns:ts=us,op,off=sectors,len=sectors"] {
            let message = error(ascii.clone(), format);
            assert!(message.contains("looks like UTF-16 without a byte order mark: convert it"), "{format}: {message}");
        }
        let with_mark = [&mark[..], &ascii].concat();
        assert_eq!(read(with_mark, "rq-csv", false).unwrap().0.len(), 2);
    }
    let half = [0xff, 0xfe, b'0', 0, 0x00, 0xd8, b'1', 0, b'\n', 0];
    assert!(error(half, "").contains(": half a pair of surrogates"));
    assert!(error(b"\xff\xfe\0\x000\0\0\0", "").contains("is UTF-32 text: convert it"));
    // Records may begin so by chance.
    let record = [&b"\xff\xfe\0\0"[..], &[0; 20]].concat();
    assert_eq!(read(record, "oracle-general:op=R", false).unwrap().0.len(), 1);
}

/// Gives a byte at a time, and is interrupted before each, as a pipe may be.
struct InterruptedPipe {
    bytes: io::Cursor<Vec<u8>>,
    is_interrupted: bool,
}

impl io::Read for InterruptedPipe {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.is_interrupted = !self.is_interrupted;
        if self.is_interrupted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let room = buf.len().min(1);
        io::Read::read(&mut self.bytes, &mut buf[..room])
    }
}

#[test]
fn interrupted_reads_lose_nothing_of_text_short_or_long() {
    let utf16 = |text: &str| [b"\xff\xfe".to_vec(), text.encode_utf16().flat_map(u16::to_le_bytes).collect()].concat();
    let kinds: [Compress; 7] = [<[u8]>::to_vec, gzip, zstd, xz, bzip2, lz4, zip];
    for text in ["0,W,8,8\n1,R,8,8\n".to_owned(), many_lines(3_000, "\n")] {
        let expected = read(text.clone(), "", false).unwrap().0;
        for bytes in [text.clone().into_bytes(), utf16(&text)] {
            for compress in kinds {
                let pipe = InterruptedPipe { bytes: io::Cursor::new(compress(&bytes)), is_interrupted: false };
                let mut trace = open_stream("pipe", Box::new(pipe), None, &OpenOptions::default()).unwrap();
                assert_eq!(drain(&mut trace).unwrap(), expected, "{:?}", trace.compression());
            }
        }
    }
}

#[test]
fn compression_is_undone_and_its_damage_reported() {
    let text: String = many_lines(60_000, "\n");
    let (first, second) = text.as_bytes().split_at(text.len() / 3);
    let expected = read(text.clone(), "", false).unwrap().0;
    let kinds: [(TraceCompression, Compress); 6] = [
        (TraceCompression::Gzip, gzip),
        (TraceCompression::Zstd, zstd),
        (TraceCompression::Xz, xz),
        (TraceCompression::Bzip2, bzip2),
        (TraceCompression::Lz4, lz4),
        (TraceCompression::Zip, zip),
    ];
    for (kind, compress) in kinds {
        let whole = compress(text.as_bytes());
        // Members, frames and streams that follow one another; archives have several files instead.
        let parts = match kind {
            TraceCompression::Zip => {
                // Files end with a line.
                let (first, second) = text.split_at(text[..first.len()].rfind('\n').unwrap() + 1);
                archive(&[("a", ZipMember::Deflated, first.as_bytes()), ("b", ZipMember::Deflated, second.as_bytes())])
            }
            _ => [compress(first), compress(second)].concat(),
        };
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
            if kind == TraceCompression::Xz && garbage[0] == 0 {
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
