//! Any other table of text, described by its columns.
//!
//! `columns:ITEM,ITEM,...` with the items in the order of the columns:
//!
//! | item | column |
//! |---|---|
//! | `ts=UNIT` | time: `s`, `ms`, `us`, `ns` or `filetime` (100 ns ticks) |
//! | `dev` | the volume, any text |
//! | `off=UNIT` | offset: `bytes`, `sectors` (512 B), `pages4k`, or a number of bytes per unit |
//! | `len=UNIT` | length: the same units |
//! | `op` | the kind as a word: `R`, `Read`, `W`, `Write`, `WF`, `F`, `Flush`, `D`, `Discard` or `Trim`, in any case |
//! | `op(VALUE=KIND)` | this value is this kind (`R` or `W`), every other value the other of the two |
//! | `op(VALUE=KIND,VALUE=KIND,...)` | these values are these kinds (`R`, `W`, `WF`, `F`, `D`), all others errors |
//! | `only(VALUE,...)` | rows with any other value are passed over |
//! | `_` | passed over |
//!
//! The kind `_` passes over a row, and the value `*` stands for all that are not named. Two columns `ts` are added
//! (seconds and nanoseconds), two columns `dev` are major and minor number.
//!
//! and, anywhere among them, settings that are no column: `op=KIND` (all requests are of this
//! kind), `sign=R` or `sign=W` (an offset with a minus sign is a read, or a write, of the address
//! behind it, and any other offset the other of the two), `sep=comma`, `tab`, `semicolon` or
//! `blanks` (found in the first line unless given), `skip=N` (lines to pass over at the start).
//!
//! `off`, `len` and the kind are required. Without `ts` all requests come at time 0; without `dev`
//! there is one volume. Columns after the last one described are passed over.

use std::fmt;

use super::block_events::EventRequest;
use super::row_kinds::{self, RowKinds};
use super::row_values::{moment, scaled};
use crate::error::{FilePlace, TraceError};
use crate::fields::{BLANKS, FieldFault, LineFields, ParsedLine, TimeUnit, all_blank, shown};
use crate::format::{FormatFinding, FormatInfo, FormatSample, FormatSign, HEAD, TraceFormat, TraceOpening, scattered};
use crate::lines::{LineFormat, LineKind, LineSource};
use crate::options::FormatError;
use crate::sink::RequestSink;
use crate::source::TraceSource;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    table: TableDescription,
}

impl TraceFormat for Columns {
    const INFO: FormatInfo = FormatInfo {
        name: "columns",
        aliases: &[],
        what: "any other table of text, described column by column",
        columns: "as described: columns:ts=ms,dev,off=bytes,len=bytes,op(1=R)",
        options: &[
            "ts=s|ms|us|ns|filetime, dev, off=UNIT, len=UNIT, op, op(VALUE=KIND,...), only(VALUE,...), _: the columns in order",
            "op=KIND, sign=R|W (what a minus sign before the offset says), sep=comma|tab|semicolon|blanks, skip=LINES: settings",
        ],
        finding: FormatFinding::Never,
        examples: &[
            "columns:ts=ms,dev,off=bytes,len=bytes,op(1=R)",
            "columns:ts=s,op,off=pages4k,_,len=pages4k,dev,sep=semicolon,skip=1",
        ],
        samples: &[FormatSample::lines("", b';', |n| {
            format!("{}.5;{};{};4096;{}", n * 24, n % 2, scattered(n) * 4096, n % 2)
        })
        .not_found()],
    };

    const SIGN: FormatSign = FormatSign::None;

    fn plain() -> Option<Self> {
        None
    }

    fn parse(text: Option<&str>) -> Result<Self, FormatError> {
        let description = text.ok_or_else(|| {
            FormatError::new("format columns: describe them, such as columns:ts=ms,dev,off=bytes,len=bytes,op(1=R)")
        })?;
        let table =
            TableDescription::parse(description).map_err(|e| FormatError::new(format!("format columns: {e}")))?;
        Ok(Self { table })
    }

    fn options(&self) -> Vec<String> {
        vec![self.table.to_string()]
    }

    fn open(&self, opening: TraceOpening<'_>) -> Result<Box<dyn TraceSource>, TraceError> {
        let TraceOpening { mut input, lenient, .. } = opening;
        let separator = self.table.separator(input.look_ahead(HEAD)?);
        let separator = separator.map_err(|reason| TraceError::new(input.file(), FilePlace::File, reason))?;
        let table = self.table.clone();
        Ok(match separator {
            b',' => Box::new(LineSource::new(TableLines::<b','> { table, passed_over: 0 }, input, lenient)),
            b'\t' => Box::new(LineSource::new(TableLines::<b'\t'> { table, passed_over: 0 }, input, lenient)),
            b';' => Box::new(LineSource::new(TableLines::<b';'> { table, passed_over: 0 }, input, lenient)),
            _ => Box::new(LineSource::new(TableLines::<BLANKS> { table, passed_over: 0 }, input, lenient)),
        })
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TableColumn {
    Pass,
    Time(TimeUnit),
    Device,
    /// Bytes per unit.
    Offset(u64),
    Length(u64),
    Kind(RowKinds),
    /// Passes over rows with other values than these.
    Only(Vec<String>),
}

/// The description of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TableDescription {
    columns: Vec<TableColumn>,
    separator: Option<u8>,
    skip: u64,
    /// The kind of all requests, where no column tells it.
    kind: Option<EventRequest>,
    /// Gives the kinds that an offset tells by its sign, where no column does.
    signs: Option<SignKinds>,
}

/// Gives the kinds of requests whose offsets have a minus sign, and of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SignKinds {
    minus: EventRequest,
    others: EventRequest,
}

const SEPARATORS: [(&str, u8); 4] = [("comma", b','), ("tab", b'\t'), ("semicolon", b';'), ("blanks", BLANKS)];
const TIME_UNITS: [(&str, TimeUnit); 5] = [
    ("s", TimeUnit::Seconds),
    ("ms", TimeUnit::Millis),
    ("us", TimeUnit::Micros),
    ("ns", TimeUnit::Nanos),
    ("filetime", TimeUnit::Filetime),
];
const SIZE_UNITS: [(&str, u64); 3] = [("bytes", 1), ("sectors", 512), ("pages4k", 4096)];

fn named<T: Copy>(table: &[(&str, T)], what: &str, text: &str) -> Result<T, String> {
    table.iter().find(|(name, _)| *name == text).map(|&(_, value)| value).ok_or_else(|| {
        let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
        format!("{what} \"{}\" is not one of {}", text.escape_debug(), names.join(", "))
    })
}

fn name_of<T: Copy + PartialEq>(table: &[(&'static str, T)], value: T) -> Option<&'static str> {
    table.iter().find(|(_, v)| *v == value).map(|(name, _)| *name)
}

fn size_unit(item: &str, text: &str) -> Result<u64, String> {
    if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() {
        return match text.parse::<u64>() {
            Ok(n @ 1..=0xffff_ffff) => Ok(n),
            _ => Err(format!("{item}={text}: the bytes per unit are not between 1 and 4294967295")),
        };
    }
    named(&SIZE_UNITS, &format!("{item}: the unit"), text).map_err(|e| format!("{e}, or a number of bytes"))
}

/// The items of the description: cut at commas that are not inside parentheses.
fn items(text: &str) -> Result<Vec<&str>, String> {
    let mut items = Vec::new();
    let (mut start, mut depth) = (0, 0_u32);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or("a parenthesis closes that was not opened")?,
            ',' if depth == 0 => {
                items.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err("a parenthesis is not closed".to_owned());
    }
    items.push(&text[start..]);
    Ok(items)
}

impl TableDescription {
    /// Parses what follows `columns:`.
    fn parse(text: &str) -> Result<Self, String> {
        let mut table = Self { columns: Vec::new(), separator: None, skip: 0, kind: None, signs: None };
        let mut skip = None;
        for item in items(text)? {
            let (key, value) = match item.split_once('=') {
                Some((key, value)) if !key.contains('(') => (key, Some(value)),
                _ => (item, None),
            };
            match (key, value) {
                ("_", None) => table.columns.push(TableColumn::Pass),
                ("dev", None) => table.columns.push(TableColumn::Device),
                ("ts", Some(unit)) => {
                    table.columns.push(TableColumn::Time(named(&TIME_UNITS, "ts: the unit", unit)?));
                }
                ("off", Some(unit)) => table.columns.push(TableColumn::Offset(size_unit("off", unit)?)),
                ("len", Some(unit)) => table.columns.push(TableColumn::Length(size_unit("len", unit)?)),
                ("op", None) => table.columns.push(TableColumn::Kind(RowKinds::Words)),
                ("op", Some(kind)) => {
                    if table.kind.replace(row_kinds::parse(kind)?).is_some() {
                        return Err("op= is given twice".to_owned());
                    }
                }
                ("sign", Some(kind)) => {
                    let (read, write) = (row_kinds::parse("R")?, row_kinds::parse("W")?);
                    let signs = match kind {
                        "R" => SignKinds { minus: read, others: write },
                        "W" => SignKinds { minus: write, others: read },
                        _ => return Err(format!("sign={}: expected R or W", kind.escape_debug())),
                    };
                    if table.signs.replace(signs).is_some() {
                        return Err("sign= is given twice".to_owned());
                    }
                }
                ("sep", Some(name)) => {
                    let separator = named(&SEPARATORS, "sep:", name)?;
                    if table.separator.replace(separator).is_some() {
                        return Err("sep= is given twice".to_owned());
                    }
                }
                ("skip", Some(n)) => {
                    let lines = n.parse().map_err(|_| format!("skip={} is not a number", n.escape_debug()))?;
                    if skip.replace(lines).is_some() {
                        return Err("skip= is given twice".to_owned());
                    }
                }
                ("ts" | "off" | "len", None) => {
                    return Err(format!("{key} needs a unit, such as {key}={}", example(key)));
                }
                _ => match item.strip_suffix(')').and_then(|item| item.split_once('(')) {
                    Some(("op", inside)) => table.columns.push(TableColumn::Kind(RowKinds::parse(inside)?)),
                    Some(("only", inside)) => {
                        let values = inside.split([',', ';']).map(str::to_owned);
                        table.columns.push(TableColumn::Only(values.filter(|value| !value.is_empty()).collect()));
                    }
                    _ => {
                        return Err(format!(
                            "\"{}\" is not an item: expected ts=UNIT, dev, off=UNIT, len=UNIT, op, op(VALUE=KIND,...), \
                             only(VALUE,...), _, op=KIND, sign=R, sign=W, sep=NAME or skip=N",
                            item.escape_debug()
                        ));
                    }
                },
            }
        }
        table.skip = skip.unwrap_or(0);
        table.check()?;
        Ok(table)
    }

    fn check(&self) -> Result<(), String> {
        let count = |is: fn(&TableColumn) -> bool| self.columns.iter().filter(|c| is(c)).count();
        let once = [
            ("ts", count(|c| matches!(c, TableColumn::Time(_)))),
            ("dev", count(|c| matches!(c, TableColumn::Device))),
            ("off", count(|c| matches!(c, TableColumn::Offset(_)))),
            ("len", count(|c| matches!(c, TableColumn::Length(_)))),
            ("op", count(|c| matches!(c, TableColumn::Kind(_)))),
        ];
        // Seconds and nanoseconds, and major and minor numbers, may stand in columns of their own.
        let is_too_often = |(name, n): &&(&str, usize)| *n > if matches!(*name, "ts" | "dev") { 2 } else { 1 };
        if let Some((name, n)) = once.iter().find(is_too_often) {
            let times = if *n == 2 { "twice".to_owned() } else { format!("{n} times") };
            return Err(format!("the column {name} is given {times}"));
        }
        if let Some((name, _)) = once[2..4].iter().find(|(_, n)| *n == 0) {
            return Err(format!("there is no column {name}: it is required, such as {name}={}", example(name)));
        }
        match (once[4].1, self.kind) {
            (0, None) if self.signs.is_none() => Err(
                "nothing tells reads from writes: add a column op or op(VALUE=R), op=R or op=W if all requests are \
                     the same, or sign=W if writes have a minus sign before the offset"
                    .to_owned(),
            ),
            (1, _) | (0, Some(_)) if self.signs.is_some() => {
                Err("sign= says that the offset tells the kind, but op does too".to_owned())
            }
            (1, Some(_)) => Err("op= says that all requests are the same, but there is a column op too".to_owned()),
            _ => Ok(()),
        }
    }

    /// The separator: the one given, or the only one that cuts the first line into enough columns.
    fn separator(&self, head: &[u8]) -> Result<u8, String> {
        if let Some(separator) = self.separator {
            return Ok(separator);
        }
        let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        let mut lines = (0..).zip(text.split(|&b| b == b'\n'));
        let first = lines.find(|(n, line)| *n >= self.skip && !all_blank(line.trim_ascii_end()));
        let Some((_, line)) = first else {
            return Err(format!("holds no line after the {} to skip", self.skip));
        };
        let line = line.trim_ascii_end();
        let wanted = self.columns.len();
        let mut fits: Vec<(&str, u8)> = SEPARATORS
            .into_iter()
            .filter(|&(_, separator)| match separator {
                BLANKS => line.split(|b| *b == b' ' || *b == b'\t').filter(|f| !f.is_empty()).count() >= wanted,
                _ => memchr::memchr_iter(separator, line).count() + 1 >= wanted && line.contains(&separator),
            })
            .collect();
        // Tabs count as blanks too.
        if fits.len() == 2 && fits[0].0 == "tab" && fits[1].0 == "blanks" {
            fits.pop();
        }
        match fits[..] {
            [(_, separator)] => Ok(separator),
            [] => Err(format!(
                "the first line is {}: no comma, tab, semicolon or blank cuts it into {wanted} columns",
                shown(line)
            )),
            _ => {
                let names: Vec<String> = fits.iter().map(|(name, _)| format!("sep={name}")).collect();
                Err(format!("more than one separator fits the first line; give {}", names.join(" or ")))
            }
        }
    }
}

fn example(item: &str) -> &'static str {
    if item == "ts" { "ms" } else { "bytes" }
}

impl fmt::Display for TableDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |unit: u64| name_of(&SIZE_UNITS, unit).map_or_else(|| unit.to_string(), str::to_owned);
        let mut items: Vec<String> = self
            .columns
            .iter()
            .map(|column| match column {
                TableColumn::Pass => "_".to_owned(),
                TableColumn::Time(unit) => format!("ts={}", name_of(&TIME_UNITS, *unit).unwrap_or("s")),
                TableColumn::Device => "dev".to_owned(),
                TableColumn::Offset(unit) => format!("off={}", size(*unit)),
                TableColumn::Length(unit) => format!("len={}", size(*unit)),
                TableColumn::Kind(kinds) => kinds.to_string(),
                TableColumn::Only(values) => format!("only({})", values.join(",")),
            })
            .collect();
        if let Some(kind) = self.kind {
            items.push(format!("op={}", row_kinds::letters(kind)));
        }
        if let Some(signs) = self.signs {
            items.push(format!("sign={}", row_kinds::letters(signs.minus)));
        }
        if let Some(name) = self.separator.and_then(|s| name_of(&SEPARATORS, s)) {
            items.push(format!("sep={name}"));
        }
        if self.skip > 0 {
            items.push(format!("skip={}", self.skip));
        }
        f.write_str(&items.join(","))
    }
}

/// A described table whose columns `SEP` separates.
struct TableLines<const SEP: u8> {
    table: TableDescription,
    /// Counts the rows that are no requests.
    passed_over: u64,
}

impl<const SEP: u8> LineFormat for TableLines<SEP> {
    fn skip_lines(&self) -> u64 {
        self.table.skip
    }

    fn passed_over(&self) -> u64 {
        self.passed_over
    }

    fn parse_line(&mut self, line: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<LineKind> {
        let mut fields = LineFields::<SEP>::new(line);
        let (mut time, mut device, mut minor) = (0_u64, None, None);
        let (mut offset, mut len) = ((&b""[..], 1), (&b""[..], 1));
        let mut kind = self.table.kind;
        for column in &self.table.columns {
            match column {
                TableColumn::Pass => fields.skip("an ignored column (_)")?,
                TableColumn::Time(unit) => {
                    let text = fields.text("ts")?;
                    time = time.checked_add(moment(text, *unit)?).ok_or_else(|| {
                        FieldFault::field(
                            "ts",
                            text,
                            "a time that makes less than 2^64 nanoseconds with the other column ts",
                        )
                    })?;
                }
                TableColumn::Device if device.is_some() => minor = Some(fields.text("dev")?),
                TableColumn::Device => device = Some(fields.text("dev")?),
                // A flush needs none, and its kind may come later.
                TableColumn::Offset(unit) => offset = (fields.next().unwrap_or_default(), *unit),
                TableColumn::Length(unit) => len = (fields.next().unwrap_or_default(), *unit),
                TableColumn::Kind(kinds) => {
                    let asked = kinds.of(fields.text("op")?)?;
                    // What a row that is no request has further on does not matter.
                    if asked.op.is_none() && !asked.flush_before {
                        self.passed_over += 1;
                        return Ok(LineKind::Data);
                    }
                    kind = Some(asked);
                }
                TableColumn::Only(values) => {
                    let text = fields.text("the column only(...)")?;
                    if !values.iter().any(|value| value.as_bytes() == text) {
                        self.passed_over += 1;
                        return Ok(LineKind::Data);
                    }
                }
            }
        }
        if let Some(signs) = self.table.signs {
            let behind_sign = offset.0.strip_prefix(b"-");
            kind = Some(if behind_sign.is_some() { signs.minus } else { signs.others });
            offset.0 = behind_sign.unwrap_or(offset.0);
        }
        // The description was checked to name the kind.
        let Some(asked) = kind else {
            return Err(FieldFault::fatal("nothing says what kind of request it is"));
        };
        let range = if asked.op.is_some() {
            let bytes = scaled("len", len.0, len.1)?;
            // A flush with nothing to write, whose sector is -1 in some kernels.
            let is_flush = asked.flush_before && bytes == 0;
            if is_flush { None } else { Some((scaled("off", offset.0, offset.1)?, bytes)) }
        } else {
            None
        };
        let volume = match (device, minor) {
            (Some(major), Some(minor)) => sink.volumes.text(&[major, b",", minor].concat())?,
            (Some(name), None) => sink.volumes.text(name)?,
            (None, _) => 0,
        };
        match (asked, range) {
            (EventRequest { flush_before: false, op: Some(op), fua }, Some((offset, len))) => {
                sink.push(time, volume, op, fua, offset, len)?;
            }
            _ => asked
                .requests(range)
                .try_for_each(|(op, fua, offset, len)| sink.push(time, volume, op, fua, offset, len))?,
        }
        Ok(LineKind::Data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_come_back_as_they_were() {
        for text in [
            "ts=ms,dev,off=bytes,len=bytes,op(1=R)",
            "_,ts=filetime,off=sectors,_,len=520,op(R=R,W=W,T=D,S=F,X=WF),sep=semicolon,skip=3",
            "off=pages4k,len=pages4k,op=W",
            "ts=s,op,off=sectors,len=sectors,sep=blanks",
        ] {
            let table = TableDescription::parse(text).unwrap();
            assert_eq!(table.to_string(), text);
            assert_eq!(TableDescription::parse(&table.to_string()).unwrap(), table);
        }
        assert_eq!(
            TableDescription::parse("skip=1,off=512,sep=tab,len=1,op(a=R;b=W)").unwrap().to_string(),
            "off=sectors,len=bytes,op(a=R,b=W),sep=tab,skip=1"
        );
    }

    #[test]
    fn wrong_descriptions_say_what_would_be_right() {
        let wrong = |text: &str| TableDescription::parse(text).unwrap_err();
        assert_eq!(wrong("ts=ms,len=bytes,op"), "there is no column off: it is required, such as off=bytes");
        assert!(wrong("off=bytes,len=bytes").contains("add a column op"));
        assert!(wrong("off=bytes,len=bytes,op,op=R").contains("a column op too"));
        assert_eq!(wrong("off=bytes,off=bytes,len=bytes,op"), "the column off is given twice");
        assert_eq!(wrong("ts=s,ts=ns,ts=us,off=bytes,len=bytes,op"), "the column ts is given 3 times");
        assert!(wrong("off=blocks,len=bytes,op").contains("is not one of bytes, sectors, pages4k, or a number"));
        assert!(wrong("off=0,len=bytes,op").contains("between 1 and"));
        assert!(wrong("ts=min,off=bytes,len=bytes,op").contains("is not one of s, ms, us, ns, filetime"));
        assert_eq!(wrong("ts,off=bytes,len=bytes,op"), "ts needs a unit, such as ts=ms");
        assert!(wrong("off=bytes,len=bytes,op(1=D)").contains("must be R or W"));
        assert!(wrong("off=bytes,len=bytes,op(1=X)").contains("not R, W, WF, F, D or _"));
        assert!(wrong("off=bytes,len=bytes,op(1=R,1=W)").contains("is given twice"));
        assert!(wrong("off=bytes,len=bytes,op(R)").contains("expected VALUE=KIND"));
        assert!(wrong("off=bytes,len=bytes,op(1=R").contains("not closed"));
        assert!(wrong("off=bytes,len=bytes,op)").contains("not opened"));
        assert!(wrong("off=bytes,len=bytes,op,sep=|").contains("comma, tab, semicolon, blanks"));
        assert!(wrong("off=bytes,len=bytes,op,skip=x").contains("not a number"));
        assert!(wrong("").contains("is not an item"));
        assert!(wrong("off=bytes,len=bytes,op,size").contains("is not an item"));
    }

    #[test]
    fn the_separator_is_found_where_only_one_fits() {
        let table = TableDescription::parse("ts=s,off=bytes,len=bytes,op").unwrap();
        assert_eq!(table.separator(b"1,2,3,R\n"), Ok(b','));
        assert_eq!(table.separator(b"\n 1 2\t3 R\r\n"), Ok(b' '));
        assert_eq!(table.separator(b"1\t2\t3\tR"), Ok(b'\t'));
        assert_eq!(table.separator(b"1;2;3;R"), Ok(b';'));
        assert!(table.separator(b"1, 2, 3, R").unwrap_err().contains("sep=comma or sep=blanks"));
        assert!(table.separator(b"1,2,3").unwrap_err().contains("into 4 columns"));
        assert!(table.separator(b"\n\n").unwrap_err().contains("no line"));
    }
}
