//! The format that is found for damaged samples: the right one or none, never another.
//!
//! Every format's samples, with a line (record) near the beginning damaged in every column (field) in every way that
//! comes to mind, and with every other format's lines put in. The short samples are those of the readers' tests; the long
//! ones have so many lines that one damaged line is within what detection puts up with.

use std::fmt::Write as _;

use super::*;

/// A sample, and how it is cut into the pieces that are damaged.
struct Host {
    name: &'static str,
    /// What may be found.
    right: FormatId,
    pieces: Vec<Vec<u8>>,
    cut: Cut,
}

/// How a piece is cut into columns.
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

const VSCSI1: &[usize] = &[4, 4, 4, 2, 2, 8, 8];
const VSCSI2: &[usize] = &[2, 2, 4, 4, 4, 8, 8, 8];
const SRT: &[usize] = &[4, 2, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4];
const ORACLE: &[usize] = &[4, 8, 4, 8];
const BLKTRACE: &[usize] = &[4, 4, 8, 8, 4, 2, 2, 4, 4, 4, 2, 2];
const NATIVE: &[usize] = &[8, 2, 2, 4, 4, 8, 4];

/// The short samples of all formats.
fn short() -> Vec<Host> {
    samples()
        .into_iter()
        .map(|(name, bytes)| {
            let format: FormatSpec = name.parse().unwrap();
            let right = format.id();
            let (cut, pieces) = match right {
                FormatId::Native => (Cut::Fields(NATIVE), native_pieces(&bytes)),
                FormatId::Blktrace => (Cut::Fields(BLKTRACE), blktrace_records(&bytes)),
                FormatId::Vscsi => (Cut::Fields(VSCSI1), bytes.chunks(32).map(<[u8]>::to_vec).collect()),
                FormatId::Srt => (Cut::Fields(SRT), srt_pieces(&bytes)),
                FormatId::OracleGeneral => (Cut::Fields(ORACLE), bytes.chunks(24).map(<[u8]>::to_vec).collect()),
                FormatId::Columns => (Cut::Separator(b';'), lines(&bytes)),
                FormatId::Diskmon => (Cut::Separator(b'\t'), lines(&bytes)),
                _ if bytes.contains(&b',') && right != FormatId::Blkparse => (Cut::Separator(b','), lines(&bytes)),
                _ => (Cut::Separator(b' '), lines(&bytes)),
            };
            Host { name, right, pieces, cut }
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

/// Something like random, below 100,000.
const fn at(n: u64) -> u64 {
    n * 7919 % 99_991
}

/// Samples of 40 lines or records. Some formats have several: times of other units, with and without what tells them from
/// their cousins.
fn long() -> Vec<Host> {
    const N: u64 = 40;
    let text = |name, right, separator, line: fn(u64) -> String| {
        let pieces = (0..N).map(|n| (line(n) + "\n").into_bytes()).collect();
        Host { name, right, pieces, cut: Cut::Separator(separator) }
    };
    let with_header = |header: &str, mut host: Host| {
        host.pieces.insert(0, format!("{header}\n").into_bytes());
        host
    };
    let records = |name, right, cut, record: fn(u64) -> Vec<u8>| {
        let pieces = (0..N).map(record).collect();
        Host { name, right, pieces, cut: Cut::Fields(cut) }
    };
    let record = [56, 0x40001, 10, 500, 174, 19687, 4096, 1056, 0x0800_0107, 4, 1, 27, 0, 1];
    let many = srt("disks = { 0 -> { sectorsize = 256 } };", &[record; N as usize]);
    vec![
        text("msr", FormatId::Msr, b',', |n| {
            let kind = ["Read", "Write"][usize::from(n % 3 == 0)];
            format!("{},web,{},{kind},{},4096,{n}", 128_000_000_000_000_000 + n * 20_000, n % 2, at(n) * 4096)
        }),
        with_header(
            "Timestamp,Response,IOType,LUN,Offset,Size",
            text("systor", FormatId::Systor, b',', |n| {
                format!("145{n:07}.5,0.001,{},{},{},8192", ["R", "W"][usize::from(n % 3 == 0)], n % 4, at(n) * 4096)
            }),
        ),
        text("rq-csv", FormatId::RqCsv, b',', |n| {
            format!("{},{},{},8", n * 700, ["R", "W", "WF", "D"][n as usize % 4], at(n) * 8)
        }),
        text("tencent", FormatId::Tencent, b',', |n| {
            format!("{},{},64,{},{}", 1_540_000_000 + n / 9, at(n) * 8, n % 2, 1000 + n % 7)
        }),
        text("alibaba", FormatId::Alibaba, b',', |n| {
            let kind = ["R", "W"][usize::from(n % 3 == 0)];
            format!("{},{kind},{},16384,{}", n % 5, at(n) * 4096, 1_580_000_000_000_000 + n * 350)
        }),
        text("spc", FormatId::Spc, b',', |n| {
            format!("{},{},1536,{},{}.{:06}", n % 3, at(n), ["r", "W"][usize::from(n % 3 == 0)], n / 9, n * 20_011)
        }),
        text("disksim, hexadecimal flags", FormatId::Disksim, b' ', |n| {
            format!("{}.25 {} {} 8 {}", n * 31, n % 2, at(n) * 8, ["0", "1", "b", "12"][n as usize % 4])
        }),
        text("disksim, few such flags", FormatId::Disksim, b' ', |n| {
            format!("{}.25 0 {} 8 {}", n * 31, at(n) * 8, if n == 20 { 4 } else { n % 2 })
        }),
        text("disksim, flags 0 and 1", FormatId::Disksim, b' ', |n| {
            format!("{}.25 0 {} 8 {}", n * 31, at(n) * 8, n % 2)
        }),
        text("disksim, whole times", FormatId::Disksim, b' ', |n| format!("{} 0 {} 16 {}", n * 31, at(n) * 8, n % 2)),
        text("ssdsim", FormatId::Ssdsim, b' ', |n| format!("{} 0 {} 7 {}", n * 26_000_000, at(n) * 8, n % 2)),
        text("ssdsim, times compressed", FormatId::Ssdsim, b' ', |n| {
            format!("{} 0 {} 16 {}", n * n * 700, at(n) * 8, n % 2)
        }),
        text("ssdsim, close together", FormatId::Ssdsim, b' ', |n| format!("{} 0 {} 16 {}", n * 26, at(n) * 8, n % 2)),
        text("msr-cut", FormatId::MsrCut, b' ', |n| format!("{}.5 {} {} 4096 {}", n * 24, n % 2, at(n) * 4096, n % 2)),
        text("msr-cut, whole times", FormatId::MsrCut, b' ', |n| {
            format!("{} 0 {} {} {}", n * 24, at(n) * 512, 512 * (1 + n % 200), n % 2)
        }),
        text("diskmon", FormatId::Diskmon, b'\t', |n| {
            let kind = ["Read", "Write"][usize::from(n % 3 == 0)];
            format!("{n}\t{}.5\t0.0001\t{}\t{kind}\t{}\t16", n / 3, n % 2, at(n) * 8)
        }),
        text("wiscsee", FormatId::Wiscsee, b' ', |n| {
            let action = if n % 4 == 3 { "C" } else { "D" };
            format!("100 {action} {} {} 4096 {}.25 0.1 True", ["read", "write"][n as usize % 2], at(n) * 4096, n / 4)
        }),
        text("blkparse", FormatId::Blkparse, b' ', |n| {
            format!("8,{} 1 {n} 0.{n:09} 500 {} WS {} + 8 [sync]", n % 2 * 16, ["Q", "D"][n as usize % 2], at(n) * 8)
        }),
        with_header(
            "fio version 3 iolog",
            text("fio", FormatId::Fio, b' ', |n| {
                if n == 0 { "0 /dev/sda add".to_owned() } else { format!("{n} /dev/sda write {} 4096", at(n) * 4096) }
            }),
        ),
        records("vscsi, version 1", FormatId::Vscsi, VSCSI1, |n| {
            vscsi1(n as u32, 4096, 0x28 + 2 * (n % 2) as u16, at(n), 5_000_000_000 + n * 900)
        }),
        records("vscsi, version 2", FormatId::Vscsi, VSCSI2, |n| {
            vscsi2(n as u32, 4096, 0x28 + 2 * (n % 2) as u16, at(n), 5_000_000_000 + n * 900)
        }),
        Host { name: "srt", right: FormatId::Srt, pieces: srt_pieces(&many), cut: Cut::Fields(SRT) },
        records("oracle-general", FormatId::OracleGeneral, ORACLE, |n| oracle(&[(n as u32, at(n), 4096)])),
    ]
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
    // Odd operations, text, negative, fractions, and numbers too large for time, address, or anything.
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

/// What happened to the variants of a sample.
#[derive(Default)]
struct Row {
    variants: u64,
    /// The right format, which reads everything; which fails at a line or byte.
    reads: u64,
    fails: u64,
    /// Refused with a line or byte; because several formats fit all of it, or none fits, or the file is of none.
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
                let names = error.place != Place::File
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
            Err(error) if error.place != Place::File => self.fails += 1,
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

/// What is found for the samples as they are.
#[test]
fn whole_samples_are_found_or_refused_as_documented() {
    for host in short().iter().chain(&long()) {
        let found = memory(host.bytes(), &OpenOptions::default());
        let several = match host.name {
            "disksim, flags 0 and 1" | "disksim, whole times" | "ssdsim, close together" | "msr-cut, whole times" => {
                true
            }
            _ => matches!(host.right, FormatId::MsrCut),
        };
        match found {
            Ok(trace) => assert_eq!((trace.format(), several), (host.right, false), "{}", host.name),
            Err(error) if several => assert!(error.reason.contains("say which it is"), "{}: {error}", host.name),
            Err(error) => {
                let named = matches!(host.right, FormatId::OracleGeneral | FormatId::Columns);
                assert!(named, "{}: {error}", host.name);
            }
        }
    }
}
