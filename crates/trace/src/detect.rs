//! Finds a file's format by its content. Where the content does not decide, the user is asked; no format is
//! guessed.
//!
//! A file may hold a damaged line, or one of another format, and a foreign mark at its beginning. So no
//! format is taken because it was the first to fit. Text is weighed by all formats' findings, and a mark
//! counts only as far as the records after it confirm it.

mod units;
mod weigh;

use crate::compress::looks_unmarked;
use crate::fields::shown;
use crate::format::{FormatFit, FormatSign, HEAD, MarkedBytes, TextTitle};
use crate::formats::{FORMATS, FormatId, FormatSpec, names};

/// A zero byte within so many bytes is the sign of binary records.
const BINARY_SIGN: usize = 1024;
/// Limits the part of an unknown file's first line that an error shows, in bytes.
const FIRST_LINE: usize = 120;

/// Files that are not traces, but often hold one.
const CONTAINERS: [(usize, &[u8], &str); 5] = [
    (257, b"ustar", "a tar archive: extract it and give the file inside"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive: extract it and give the file inside"),
    (0, b"\x02\x21\x4c\x18", "lz4-compressed in lz4's old format, which is not read: decompress it (lz4 -d)"),
    (0, b"\x1f\x9d", "compressed by compress (.Z), which is not read: decompress it"),
    (0, b"\xff\xfe\0", "UTF-32 text: convert it to UTF-8 (iconv -f UTF-32 -t UTF-8)"),
];

/// Why no format was found, and what to tell the user.
#[derive(Debug, PartialEq, Eq)]
enum DetectionRefusal {
    /// The content fits none.
    Unknown(String),
    /// Asks the user: the content fits several formats, or one with a doubt.
    Undecided(String),
}

type FoundFormat = Result<FormatSpec, DetectionRefusal>;

/// The format that the content fits, or what to tell the user.
pub(crate) fn detect(head: &[u8]) -> Result<FormatSpec, String> {
    let whole = head.len() < HEAD;
    let found = match marked(head, whole) {
        Some((format, held)) => behind_mark(head, whole, format, held),
        None => unmarked(head, whole),
    };
    found.map_err(|(DetectionRefusal::Unknown(reason) | DetectionRefusal::Undecided(reason))| reason)
}

/// The format whose mark the file begins with.
fn marked(head: &[u8], whole: bool) -> Option<(FormatSpec, MarkedBytes)> {
    FORMATS.iter().find_map(|id| match id.sign() {
        FormatSign::Mark(held) => Some((id.plain()?, held(head, whole)?)),
        _ => None,
    })
}

/// A file with a mark is of that format, unless the mark is all that there is of it or the rest
/// fits another one.
fn behind_mark(
    head: &[u8],
    whole: bool,
    format: FormatSpec,
    MarkedBytes { bytes, proven }: MarkedBytes,
) -> FoundFormat {
    let rest = &head[bytes..];
    if rest.is_empty() {
        return Ok(format);
    }
    // A record that is not whole begins like one, but may be what is left of it in front of a text.
    let (other, broken) = match marked(rest, whole).filter(|_| bytes > 0) {
        Some((again, _)) if again == format && proven => return Ok(format),
        Some((again, _)) if again == format => (unmarked(rest, whole), true),
        Some((other, _)) => (Ok(other), false),
        None => (unmarked(rest, whole), false),
    };
    let then = match other {
        Ok(other) => format!("fits {other}"),
        Err(DetectionRefusal::Undecided(_)) => "fits other formats".to_owned(),
        Err(DetectionRefusal::Unknown(_)) if bytes > 0 && !proven && !broken => "fits no known format".to_owned(),
        Err(DetectionRefusal::Unknown(_)) => return Ok(format),
    };
    Err(DetectionRefusal::Undecided(format!(
        "begins like {format}, but from byte {bytes} on it {then}; take away what does not belong there, or say which \
         it is with --format"
    )))
}

/// Returns what holds the trace, of those whose marks have so many bytes.
fn container(head: &[u8], mark: usize) -> Option<String> {
    let is_one = |(at, magic, _): &&(usize, &[u8], &str)| head.get(*at..).is_some_and(|head| head.starts_with(magic));
    let found = CONTAINERS.iter().filter(|(_, magic, _)| magic.len() >= mark).find(is_one);
    found.map(|(_, _, what)| format!("is {what}"))
}

/// Says why the content cannot be of a format that the user has named: it is an archive, or compressed otherwise. Records
/// may begin with a mark of two bytes by chance.
pub(crate) fn refuse(head: &[u8], format: &FormatSpec) -> Option<String> {
    container(head, if format.is_text() { 1 } else { 4 }).or_else(|| unmarked_utf16(head).filter(|_| format.is_text()))
}

/// Says that a text is UTF-16 and lacks the byte order mark, without which it is not read.
fn unmarked_utf16(head: &[u8]) -> Option<String> {
    looks_unmarked(head).then(|| {
        "looks like UTF-16 without a byte order mark: convert it to UTF-8 (iconv -f UTF-16LE -t UTF-8, or UTF-16BE)"
            .to_owned()
    })
}

fn unmarked(head: &[u8], whole: bool) -> FoundFormat {
    if let Some(what) = container(head, 1).or_else(|| unmarked_utf16(head)) {
        return Err(DetectionRefusal::Unknown(what));
    }
    if !head[..head.len().min(BINARY_SIGN)].contains(&0) {
        return detect_text(head, whole);
    }
    // A zero byte is rare in text, so that records are tried first.
    let binary = detect_binary(head, whole);
    if !matches!(binary, Err(DetectionRefusal::Unknown(_))) {
        return binary;
    }
    // A zero byte can also be the damage of a text.
    match detect_text(head, whole) {
        Err(DetectionRefusal::Unknown(_)) => binary,
        text => text,
    }
}

fn detect_binary(head: &[u8], whole: bool) -> FoundFormat {
    let guess = FORMATS.iter().find_map(|id| match id.sign() {
        FormatSign::Guess(ask) => ask(head, whole),
        _ => None,
    });
    let fits: Vec<(FormatId, FormatFit)> = FORMATS
        .iter()
        .filter_map(|id| match id.sign() {
            FormatSign::Records(fit) => Some((*id, fit(head)?)),
            _ => None,
        })
        .collect();
    // The version of a single record proves little.
    let fitting = |fit: &FormatFit| nearly_all(fit.good as u64, fit.bad as u64) && (fit.good > 1 || guess.is_none());
    let found: Vec<FormatSpec> = fits.iter().filter(|(_, fit)| fitting(fit)).filter_map(|(id, _)| id.plain()).collect();
    match &found[..] {
        [] => {}
        [one] => return Ok(one.clone()),
        several => {
            let names: Vec<String> = several.iter().map(|format| format!("--format {format}")).collect();
            return Err(DetectionRefusal::Undecided(format!(
                "the content fits {} formats of records; say which it is: {}",
                names.len(),
                names.join(" or ")
            )));
        }
    }
    if let Some(question) = guess {
        return Err(DetectionRefusal::Undecided(question.to_owned()));
    }
    let closest = fits.into_iter().max_by_key(|(_, fit)| fit.good).and_then(|(id, FormatFit { good, bad, fault })| {
        let (byte, reason) = fault.filter(|(byte, _)| *byte > 0 || good >= bad)?;
        Some(format!(
            "The closest is {id}, which reads {good} of the first {} records; byte {byte}: {reason}",
            good + bad
        ))
    });
    Err(unknown(head, closest))
}

/// The format whose title a text begins with, and what messages call it.
fn titled(text: &[u8]) -> Option<(FormatSpec, &'static str)> {
    FORMATS.iter().find_map(|id| match id.sign() {
        FormatSign::Lines { title: Some(TextTitle { begins, called }), .. } if begins(text) => {
            Some((id.plain()?, called))
        }
        _ => None,
    })
}

fn detect_text(head: &[u8], whole: bool) -> FoundFormat {
    let text = match memchr::memrchr(b'\n', head) {
        _ if whole => head,
        // The last line is cut off by the head's end and would count as a fault.
        Some(end) => &head[..=end],
        None => {
            let reason = format!("has no end of line in its first 64 KiB ({}...): not a text trace", start(head));
            return Err(DetectionRefusal::Unknown(reason));
        }
    };
    let candidates = weigh::candidates(text);
    if let Some((format, called)) = titled(text) {
        let (good, fault) = weigh::behind_title(&format, text);
        // A log of which nothing can be read is too little if it goes on.
        let short = good == 0 && memchr::memchr_iter(b'\n', text).count() <= 2 && !text.contains(&0);
        if (good > 0 || short) && candidates.iter().all(|c| c.lines_read() <= good) {
            return Ok(format);
        }
        if candidates.is_empty() {
            return Err(unknown(head, fault.map(|(line, reason)| format!("As {called}, line {line}: {reason}"))));
        }
    }
    match weigh::weigh(text, candidates) {
        Ok(found) => found.map_err(DetectionRefusal::Undecided),
        Err(closest) => Err(unknown(head, closest)),
    }
}

/// One malformed line or record in ten may be the file's fault, and is reported when it is read.
const fn nearly_all(good: u64, bad: u64) -> bool {
    good > 0 && good >= 9 * bad
}

fn start(head: &[u8]) -> String {
    let line = head.split(|&b| b == b'\n').map(|l| l.strip_suffix(b"\r").unwrap_or(l)).find(|l| !l.is_empty());
    let line = line.unwrap_or_default();
    if line.len() > FIRST_LINE {
        format!("\"{}\"...", line[..FIRST_LINE].escape_ascii())
    } else {
        format!("\"{}\"", line.escape_ascii())
    }
}

fn unknown(head: &[u8], closest: Option<String>) -> DetectionRefusal {
    let closest = closest.map(|c| format!(". {c}")).unwrap_or_default();
    let begins = if head.contains(&0) { shown(head) } else { start(head) };
    DetectionRefusal::Unknown(format!(
        "fits no known format; it begins {begins}{closest}. Known formats: {}. Any other table of text can be \
         described, such as --format columns:ts=ms,dev,off=bytes,len=bytes,op(1=R)",
        names()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> FormatId {
        detect(text.as_bytes()).unwrap().id()
    }

    fn refusal(text: &[u8]) -> String {
        detect(text).unwrap_err()
    }

    #[test]
    fn decimal_times_never_decide_between_sectors_and_bytes() {
        let text = refusal(b"0.000 0 12345344 4096 0\n24.5 0 12345344 4096 1\n");
        assert_eq!(
            text,
            "the content fits 2 formats that mean different things; say which it is:\n  \
             --format disksim: the first request is a write of 2097152 B (2 MiB) at byte 6320816128 of volume 0, \
             then one every 24.5 ms on average\n  \
             --format msr-cut: the first request is a write of 4096 B (4 KiB) at byte 12345344 of volume 0, \
             then one every 24.5 ms on average\n  \
             none of these: describe the columns, such as --format 'columns:ts=s,op(0=R,1=W,3=D),off=pages4k,len=bytes,_'"
        );
    }

    #[test]
    fn whole_times_decide_only_where_milliseconds_are_impossible() {
        assert_eq!(id("0 0 2001 7 0\n26000000 0 2008 7 0\n"), FormatId::Ssdsim);
        let text = refusal(b"0 0 2001 7 0\n26 0 2008 7 0\n");
        assert!(text.starts_with("the content fits 3 formats"), "{text}");
        assert!(text.contains("--format ssdsim: ") && text.contains("one every 26 ns"), "{text}");
        // One request has no gap.
        assert!(refusal(b"99999999 0 2001 7 0\n").starts_with("the content fits 3"));
        // 10 s is still possible.
        assert!(refusal(b"0 0 8 8 0\n10000 0 8 8 1\n").starts_with("the content fits 3"));
        assert_eq!(id("0 0 8 8 0\n10001 0 8 8 1\n"), FormatId::Ssdsim);
        // Flags beyond 0 and 1 are DiskSim's.
        assert_eq!(id("0.5 0 8 8 2\n1.5 0 8 8 3\n"), FormatId::Disksim);
    }

    #[test]
    fn a_few_malformed_lines_do_not_hide_the_format() {
        let mut text = "5,R,0,8\n".repeat(20);
        text.push_str("5,R,zero,8\n");
        assert_eq!(id(&text), FormatId::RqCsv);
        let text = refusal(b"5,R,0,8\n5,R,zero,8\n");
        assert!(
            text.contains("The closest is rq-csv, which reads 1 of the first 2 lines; line 2: the address is \"zero\"")
        );
    }

    #[test]
    fn what_fits_nothing_is_shown() {
        let text = refusal(b"hello world\n");
        assert!(text.starts_with("fits no known format; it begins \"hello world\". Known formats: native, msr,"));
        assert!(text.contains("--format columns:"));
        assert!(refusal(&vec![b'x'; HEAD]).contains("no end of line"));
        assert!(refusal(b"7z\xbc\xaf\x27\x1c").contains("7z archive"));
        let mut tar = vec![0_u8; 512];
        tar[257..262].copy_from_slice(b"ustar");
        assert!(refusal(&tar).contains("tar archive"));
    }

    #[test]
    fn a_mark_counts_as_far_as_the_rest_bears_it_out() {
        let mqsim: Vec<String> = (0..40).map(|n| format!("{} 0 2001 7 0\n", n * 26_000_000)).collect();
        let mqsim = mqsim.concat();
        let mut native = Vec::new();
        crate::native::NativeWriter::new(&mut native).unwrap().finish().unwrap();
        let mark = |mark: &[u8]| refusal(&[mark, mqsim.as_bytes()].concat());
        assert_eq!(
            mark(&native[..32]),
            "begins like native, but from byte 32 on it fits ssdsim; take away what does not belong there, or say which \
             it is with --format"
        );
        assert!(mark(b"$$TR_IOREC-1.3\n").starts_with("begins like srt, but from byte 15 on it fits ssdsim; "));
        let mut record = [0; 48];
        record[..4].copy_from_slice(b"\x07tae");
        assert!(mark(&record).starts_with("begins like blktrace, but from byte 48 on it fits ssdsim; "));
        let text = refusal(&[&record[..], &[b'x'; 60]].concat());
        assert!(text.starts_with("begins like blktrace, but from byte 48 on it fits no known format; "), "{text}");
        // The first four bytes of a second record make no records of what is a text.
        let broken = [&record[..], b"\x07tae\0\0\0\0\n"].concat();
        assert!(mark(&broken).starts_with("begins like blktrace, but from byte 48 on it fits ssdsim; "));
        // Nor does one whose further data would be just that text.
        let mut all = record;
        all[46..].copy_from_slice(&(mqsim.len() as u16).to_le_bytes());
        assert!(mark(&all).starts_with("begins like blktrace, but from byte 48 on it fits ssdsim; "));
        // Its own damage is for its reader to report.
        let mut long = record;
        long[46] = 200;
        assert_eq!(detect(&[&record[..], &long, &[1; 60]].concat()).unwrap().id(), FormatId::Blktrace);
        let damaged = [&record.repeat(3)[..], &[1; 60]].concat();
        assert_eq!(detect(&damaged).unwrap().id(), FormatId::Blktrace);
    }

    #[test]
    fn a_few_damaged_records_do_not_hide_the_format() {
        let record = |serial: u8| {
            let mut record = [0; 32];
            (record[0], record[12], record[15]) = (serial, 0x28, 1);
            record
        };
        let mut bytes: Vec<u8> = (0..20).flat_map(record).collect();
        bytes[3 * 32 + 15] = 9;
        assert_eq!(detect(&bytes).unwrap().id(), FormatId::Vscsi);
        let text = refusal(&bytes[..4 * 32]);
        assert!(
            text.contains(
                "The closest is vscsi, which reads 3 of the first 4 records; byte 96: the record's version is 9, \
                 expected 1"
            ),
            "{text}"
        );
    }

    #[test]
    fn records_without_a_magic_are_only_suggested() {
        let mut records = Vec::new();
        for n in 0..10_u8 {
            records.extend([n, 0, 0, 0, n, 1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0]);
            records.extend([0xff; 8]);
        }
        assert!(refusal(&records).contains("--format oracle-general:op=R"));
        records.push(0);
        assert!(refusal(&records).starts_with("fits no known format"));
    }
}
