//! Which format a file has, by its content. What does not decide is never guessed: the user is asked.

use destage_plan::Request;

use crate::fields::shown;
use crate::format::{FORMATS, FormatId, FormatSpec, Kind};
use crate::formats::oracle_general::{OracleGeneral, RECORD_BYTES};
use crate::formats::srt;
use crate::formats::vscsi::Vscsi;
use crate::formats::{blktrace, fio};
use crate::lines::Probe;
use crate::native::NATIVE_MAGIC;
use crate::open::probe_text;

/// Decompressed bytes that are looked at.
pub(crate) const HEAD: usize = 64 * 1024;
/// Mean time between requests, in nanoseconds, that no trace in milliseconds has: 10 s.
const IMPOSSIBLE_GAP: u64 = 10_000_000_000;
/// A zero byte within so many bytes is the sign of binary records.
const BINARY_SIGN: usize = 1024;
/// How much of an unknown file's first line an error shows.
const FIRST_LINE: usize = 120;

/// Files that are not traces, but often hold one.
const CONTAINERS: [(usize, &[u8], &str); 6] = [
    (257, b"ustar", "a tar archive: extract it and give the file inside"),
    (0, b"PK\x03\x04", "a zip archive: extract it and give the file inside"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive: extract it and give the file inside"),
    (0, b"\x04\x22\x4d\x18", "lz4-compressed, which is not read: decompress it, or use gzip, zstd, xz or bzip2"),
    (0, b"\x1f\x9d", "compressed by compress (.Z), which is not read: decompress it"),
    (0, b"\xff\xfe", "UTF-16 text: convert it to UTF-8 or ASCII"),
];

/// The format that the content fits, or what to tell the user.
pub(crate) fn detect(head: &[u8]) -> Result<FormatSpec, String> {
    if head.starts_with(&NATIVE_MAGIC) {
        return Ok(FormatSpec(Kind::Native));
    }
    if head.starts_with(srt::MAGIC) {
        return Ok(FormatSpec(Kind::Srt { unit: None }));
    }
    if fio::version(head).is_some() {
        return Ok(FormatSpec(Kind::Fio { wait: None }));
    }
    if blktrace::begins(head) {
        return FormatSpec::plain(FormatId::Blktrace).ok_or_else(|| unknown(head, None));
    }
    if let Some((_, _, what)) =
        CONTAINERS.iter().find(|(at, magic, _)| head.get(*at..).is_some_and(|h| h.starts_with(magic)))
    {
        return Err(format!("is {what}"));
    }
    let whole = head.len() < HEAD;
    let binary = head[..head.len().min(BINARY_SIGN)].contains(&0);
    if binary { detect_binary(head, whole) } else { detect_text(head, whole) }
}

fn detect_binary(head: &[u8], whole: bool) -> Result<FormatSpec, String> {
    if Vscsi::of(head).is_some() {
        return Ok(FormatSpec(Kind::Vscsi));
    }
    if OracleGeneral::plausible(head) && (!whole || head.len().is_multiple_of(RECORD_BYTES)) {
        return Err("could be oracle-general records, but nothing in such a file proves it, and whether the accesses \
                    read or write it does not say; if it is that, give --format oracle-general:op=R or \
                    --format oracle-general:op=W"
            .to_owned());
    }
    Err(unknown(head, None))
}

/// A format that reads the beginning of the file.
struct Candidate {
    format: FormatSpec,
    probe: Probe,
}

fn detect_text(head: &[u8], whole: bool) -> Result<FormatSpec, String> {
    let text = match memchr::memrchr(b'\n', head) {
        _ if whole => head,
        Some(end) => &head[..=end],
        None => return Err(format!("has no end of line in its first 64 KiB ({}...): not a text trace", start(head))),
    };
    let mut candidates: Vec<Candidate> = FORMATS
        .iter()
        .filter_map(|info| FormatSpec::plain(info.id))
        .filter_map(|format| probe_text(&format, text).map(|probe| Candidate { format, probe }))
        .filter(|c| c.probe.good > 0)
        .collect();
    // A format that reads every line is preferred; else one malformed line in ten may be the file's fault, and is
    // reported when it is read.
    if candidates.iter().any(|c| c.probe.bad == 0) {
        candidates.retain(|c| c.probe.bad == 0);
    } else {
        let closest = candidates.iter().max_by_key(|c| c.probe.good).map(describe_failure);
        candidates.retain(|c| c.probe.good >= 9 * c.probe.bad);
        if candidates.is_empty() {
            return Err(unknown(head, closest));
        }
    }
    if read_as_nanoseconds_only(&candidates) {
        candidates.retain(|c| c.format.id() == FormatId::Ssdsim);
    }
    match candidates.len() {
        1 => Ok(candidates.remove(0).format),
        _ => Err(ambiguous(&candidates)),
    }
}

/// Whether the file can be `ssdsim` and the times of the other candidates, which count milliseconds, are impossible.
fn read_as_nanoseconds_only(candidates: &[Candidate]) -> bool {
    let all_alike =
        candidates.iter().all(|c| matches!(c.format.id(), FormatId::Ssdsim | FormatId::Disksim | FormatId::MsrCut));
    all_alike
        && candidates.iter().any(|c| c.format.id() == FormatId::Ssdsim)
        && candidates
            .iter()
            .filter(|c| c.format.id() != FormatId::Ssdsim)
            .all(|c| mean_gap(&c.probe).is_some_and(|gap| gap > IMPOSSIBLE_GAP))
}

/// Mean time between the requests that were looked at, in nanoseconds.
fn mean_gap(probe: &Probe) -> Option<u64> {
    probe.last_time.checked_div(probe.requests.checked_sub(1)?)
}

fn ambiguous(candidates: &[Candidate]) -> String {
    let mut lines =
        vec![format!("the content fits {} formats that mean different things; say which it is:", candidates.len())];
    for Candidate { format, probe } in candidates {
        let first = probe.first.as_ref().map(|first| describe_request(first, probe.volume.as_deref()));
        let first = first.map(|f| format!(": the first request is {f}")).unwrap_or_default();
        let gap = mean_gap(probe).map(|gap| format!(", then one every {} on average", describe_time(gap)));
        lines.push(format!("  --format {format}{first}{}", gap.unwrap_or_default()));
    }
    lines.join("\n")
}

fn describe_request(request: &Request, volume: Option<&str>) -> String {
    let on = volume.map(|v| format!(" of volume {v}")).unwrap_or_default();
    format!("a {} of {} at byte {}{on}", request.op, describe_bytes(request.len), request.offset)
}

fn describe_bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = None;
    for name in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = Some(name);
    }
    match unit {
        None => format!("{bytes} B"),
        Some(unit) if value.fract() == 0.0 => format!("{bytes} B ({value:.0} {unit})"),
        Some(unit) => format!("{bytes} B ({value:.1} {unit})"),
    }
}

fn describe_time(nanos: u64) -> String {
    let value = nanos as f64;
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.1} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", value / 1e6),
        _ => format!("{:.1} s", value / 1e9),
    }
}

fn describe_failure(candidate: &Candidate) -> String {
    let probe = &candidate.probe;
    let fault = probe.fault.as_ref().map(|(line, reason)| format!("; line {line}: {reason}")).unwrap_or_default();
    let lines = probe.good + probe.bad;
    format!("The closest is {}, which reads {} of the first {lines} lines{fault}", candidate.format, probe.good)
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

fn unknown(head: &[u8], closest: Option<String>) -> String {
    let names: Vec<&str> = FORMATS.iter().map(|info| info.name).collect();
    let closest = closest.map(|c| format!(". {c}")).unwrap_or_default();
    let begins = if head.contains(&0) { shown(head) } else { start(head) };
    format!(
        "fits no known format; it begins {begins}{closest}. Known formats: {}. Any other table of text can be \
         described, such as --format columns:ts=ms,dev,off=bytes,len=bytes,op(1=R)",
        names.join(", ")
    )
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
             then one every 24.5 ms on average"
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
        assert!(refusal(b"PK\x03\x04").contains("zip archive"));
        let mut tar = vec![0_u8; 512];
        tar[257..262].copy_from_slice(b"ustar");
        assert!(refusal(&tar).contains("tar archive"));
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
