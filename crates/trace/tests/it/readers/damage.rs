//! Bytes of every kind, of which no reader may panic.

use proptest::prelude::*;

use super::compression::{bzip2, gzip, lz4, xz, zip, zstd};
use super::*;

/// A short valid sample of every format: one made by hand, or else the beginning of one that the
/// format declares.
pub(super) fn samples() -> Vec<(&'static str, Vec<u8>)> {
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
        ("etw", file("etw.csv")),
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

/// Returns the factor by which `make soak` repeats the tests.
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
        for compress in [gzip, zstd, xz, bzip2, lz4, zip] {
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
