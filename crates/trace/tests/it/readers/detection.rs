//! The format that is found for damaged samples: the right one or none, never another.
//!
//! Every format's samples, with a line (record) near the beginning damaged in every column (field)
//! in every way that comes to mind, and with every other format's lines put in. The short samples
//! are those of the readers' tests; the long ones have so many lines that one damaged line is
//! within what detection puts up with.

use std::fmt::Write as _;

use destage_trace::{FormatContent, FormatFinding};

use super::damage::samples;
use super::*;

/// A sample, and how it is cut into the pieces that are damaged.
struct Host {
    name: String,
    /// Holds the format that may be found.
    right: FormatId,
    /// Is true if the format is found for the unchanged sample.
    found: bool,
    pieces: Vec<Vec<u8>>,
    cut: Cut,
}

/// Selects how a piece is split into columns.
#[derive(Clone, Copy)]
enum Cut {
    Separator(u8),
    /// Fields of a record by their lengths in bytes.
    Fields(&'static [usize]),
}

impl Host {
    fn bytes(&self) -> Vec<u8> {
        self.pieces.concat()
    }
}

/// Lines with their ends.
fn lines(text: &[u8]) -> Vec<Vec<u8>> {
    text.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec).collect()
}

/// Returns how the pieces of a sample of the format are split.
fn cut(content: FormatContent) -> Cut {
    match content {
        FormatContent::Lines { separator, .. } => Cut::Separator(separator),
        FormatContent::Records { fields, .. } => Cut::Fields(fields),
    }
}

/// The short samples of all formats.
fn short() -> Vec<Host> {
    samples()
        .into_iter()
        .map(|(name, bytes)| {
            let format: FormatSpec = name.parse().unwrap();
            let right = format.id();
            let sample = &right.info().samples[0];
            let pieces = match right {
                FormatId::Native => native_pieces(&bytes),
                FormatId::Blktrace => blktrace_records(&bytes),
                FormatId::Vscsi => bytes.chunks(32).map(<[u8]>::to_vec).collect(),
                FormatId::Srt => srt_pieces(&bytes),
                FormatId::OracleGeneral => bytes.chunks(24).map(<[u8]>::to_vec).collect(),
                _ if matches!(sample.content, FormatContent::Lines { .. }) => lines(&bytes),
                _ => sample.pieces(4),
            };
            Host { name: name.to_owned(), right, found: sample.found, pieces, cut: cut(sample.content) }
        })
        .collect()
}

/// The file header, then header and payload of each record.
fn native_pieces(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (header, mut rest) = bytes.split_at(32);
    let mut pieces = vec![header.to_vec()];
    while !rest.is_empty() {
        let payload = u32::from_le_bytes(rest[8..12].try_into().unwrap());
        let (record, behind) = rest.split_at(20 + usize::try_from(payload).unwrap());
        pieces.push(record.to_vec());
        rest = behind;
    }
    pieces
}

fn blktrace_records(mut rest: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while !rest.is_empty() {
        let behind = u16::from_le_bytes(rest[46..48].try_into().unwrap());
        let (record, others) = rest.split_at(48 + usize::from(behind));
        records.push(record.to_vec());
        rest = others;
    }
    records
}

/// The lines of the header, then the records.
fn srt_pieces(bytes: &[u8]) -> Vec<Vec<u8>> {
    let end = bytes.iter().position(|&b| b == 0x0c).unwrap() + 1;
    let mut pieces = lines(&bytes[..end]);
    pieces.extend(bytes[end..].chunks(56).map(<[u8]>::to_vec));
    pieces
}

/// The samples that formats declare, of 40 lines or records. Some formats have several: times of
/// other units, with and without what tells them from their cousins.
fn long() -> Vec<Host> {
    let host = |right: FormatId| {
        right.samples().map(move |(name, sample)| {
            let (pieces, cut) = (sample.pieces(40), cut(sample.content));
            Host { name, right, found: sample.found, pieces, cut }
        })
    };
    FORMATS.iter().copied().flat_map(host).collect()
}

/// A piece with column after column damaged.
fn damaged(piece: &[u8], cut: Cut) -> Vec<Vec<u8>> {
    match cut {
        Cut::Separator(separator) => damaged_line(piece, separator),
        // The first pieces of `srt` are lines of text.
        Cut::Fields(lengths) if lengths.iter().sum::<usize>() <= piece.len() => damaged_record(piece, lengths),
        Cut::Fields(_) => damaged_line(piece, b' '),
    }
}

fn damaged_line(line: &[u8], separator: u8) -> Vec<Vec<u8>> {
    // Odd operations, text, negative, fractions, and numbers too large for time, address, or
    // anything.
    const VALUES: [&str; 17] = [
        "2",
        "5",
        "b",
        "X",
        "read",
        "x1y",
        "-7",
        "",
        "12.5",
        "0x10",
        "\"1\"",
        "1e3",
        "0",
        "99999999999999",
        "36028797018963968",
        "18446744073709551615",
        "99999999999999999999999",
    ];
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let columns: Vec<&[u8]> = line.split(|&b| b == separator).filter(|c| separator != b' ' || !c.is_empty()).collect();
    let joined = |columns: &[&[u8]]| [&columns.join(&separator)[..], b"\n"].concat();
    let mut all = vec![b"\xff\xfe\0\n".to_vec(), b"\n".to_vec()];
    for column in 0..columns.len() {
        let mut changed = columns.clone();
        for value in VALUES {
            changed[column] = value.as_bytes();
            all.push(joined(&changed));
        }
        // Missing, and twice.
        changed.remove(column);
        all.push(joined(&changed));
        let mut more = columns.clone();
        more.insert(column, columns[column]);
        all.push(joined(&more));
    }
    all
}

fn damaged_record(record: &[u8], lengths: &[usize]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut at = 0;
    for &length in lengths {
        let with = |field: &[u8]| [&record[..at], field, &record[at + length..]].concat();
        let field = &record[at..at + length];
        for value in [0, 0xff, 0x7f, 0x5a, 1, b't'] {
            all.push(with(&vec![value; length]));
        }
        for bit in [0x80, 1] {
            for byte in [0, length - 1] {
                let mut field = field.to_vec();
                field[byte] ^= bit;
                all.push(with(&field));
            }
        }
        // Missing, and twice.
        all.push(with(&[]));
        all.push(with(&field.repeat(2)));
        at += length;
    }
    all
}

/// Counts the results of the variants of a sample.
#[derive(Default)]
struct Row {
    variants: u64,
    /// The right format, which reads everything; which fails at a line or byte.
    reads: u64,
    fails: u64,
    /// Refused with a line or byte; because several formats fit all of it, or none fits, or the
    /// file is of none.
    names: u64,
    refused: u64,
}

impl Row {
    /// Opens a variant; an error if another format is found.
    fn open(&mut self, host: &Host, bytes: Vec<u8>) -> Result<(), String> {
        self.variants += 1;
        let mut trace = match memory(bytes, &OpenOptions::default()) {
            Ok(trace) => trace,
            Err(error) => {
                let names = error.place != FilePlace::File
                    || ["line ", "; byte ", "from byte "].iter().any(|place| {
                        let after = error.reason.split(place).nth(1);
                        after.is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit()))
                    });
                if names {
                    self.names += 1;
                } else {
                    self.refused += 1;
                }
                return Ok(());
            }
        };
        if trace.format() != host.right {
            return Err(format!("{} is read as {}", host.name, trace.format()));
        }
        match drain(&mut trace) {
            Ok(_) => self.reads += 1,
            Err(error) if error.place != FilePlace::File => self.fails += 1,
            // What makes the whole file none of this format, such as the only request gone.
            Err(_) => self.refused += 1,
        }
        Ok(())
    }
}

/// The lines or records near the beginning, and the last.
fn near_the_beginning(host: &Host) -> Vec<usize> {
    let mut pieces: Vec<usize> = (0..host.pieces.len().min(6)).collect();
    pieces.extend((host.pieces.len() > 6).then_some(host.pieces.len() - 1));
    pieces
}

/// Prints a table, past the test harness only with `--nocapture`.
fn print(title: &str, rows: &[(String, Row)]) {
    let mut table = format!(
        "{title}\n{:<30}{:>9}{:>9}{:>9}{:>9}{:>9}\n",
        "sample", "variants", "reads", "fails", "names", "refused"
    );
    for (name, row) in rows {
        let Row { variants, reads, fails, names, refused } = row;
        writeln!(table, "{name:<30}{variants:>9}{reads:>9}{fails:>9}{names:>9}{refused:>9}").unwrap();
    }
    println!("{table}");
}

/// Tries variants of all samples, short and long; prints the table.
fn try_all(title: &str, variants: impl Fn(&Host, &mut dyn FnMut(&str, Vec<u8>))) {
    let mut rows = Vec::new();
    let mut wrong = Vec::new();
    for (length, hosts) in [("short", short()), ("long", long())] {
        for host in hosts {
            let mut row = Row::default();
            variants(&host, &mut |what, bytes| {
                let shown = bytes[..bytes.len().min(200)].escape_ascii().to_string();
                if let Err(error) = row.open(&host, bytes) {
                    wrong.push(format!("{length}: {error}: {what}: {shown}"));
                }
            });
            assert!(row.variants > 0, "{}", host.name);
            rows.push((format!("{} ({length})", host.name.split(':').next().unwrap()), row));
        }
    }
    print(title, &rows);
    println!("read as another format: {}", wrong.len());
    assert!(wrong.is_empty(), "{} are read as another format:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_sample_with_a_damaged_line_is_never_read_as_another_format() {
    try_all("one line or record damaged, in every column", |host, open| {
        for piece in near_the_beginning(host) {
            for damaged in damaged(&host.pieces[piece], host.cut) {
                let mut pieces = host.pieces.clone();
                pieces[piece] = damaged;
                open(&format!("line {}", piece + 1), pieces.concat());
            }
        }
    });
}

#[test]
fn a_sample_with_another_format_s_line_is_never_read_as_another_format() {
    let guests = short();
    try_all("a line or record of every other format put in", |host, open| {
        for guest in &guests {
            if guest.right == host.right {
                continue;
            }
            for line in near_the_beginning(guest) {
                for at in near_the_beginning(host) {
                    let mut pieces = host.pieces.clone();
                    pieces.insert(at, guest.pieces[line].clone());
                    open(&format!("{}, line {}, before line {}", guest.name, line + 1, at + 1), pieces.concat());
                }
            }
        }
    });
}

/// Tests that unchanged samples are found or refused as documented.
#[test]
fn whole_samples_are_found_or_refused_as_documented() {
    for host in short().iter().chain(&long()) {
        let found = memory(host.bytes(), &OpenOptions::default());
        let finding = host.right.info().finding;
        match found {
            Ok(trace) => assert_eq!((trace.format(), true), (host.right, host.found), "{}", host.name),
            Err(error) => {
                assert!(!host.found, "{}: {error}", host.name);
                let asked = error.reason.contains("say which it is");
                assert_eq!(asked, finding == FormatFinding::Ambiguous, "{}: {error}", host.name);
            }
        }
    }
}
