//! Compressed traces, whole and damaged.

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
fn xz_files_as_the_usual_tool_writes_them() {
    let mut trace = open(sample("rq40.csv.xz"), &OpenOptions::default()).unwrap();
    assert_eq!((trace.format(), trace.compression()), (FormatId::RqCsv, Compression::Xz));
    let once = std::fs::read(sample("rq.csv")).unwrap();
    assert_eq!(drain(&mut trace).unwrap(), read(once.repeat(40), "", false).unwrap().0);
}

pub(super) fn bzip2(bytes: &[u8]) -> Vec<u8> {
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
