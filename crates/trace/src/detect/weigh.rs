//! Weighs the findings of all formats of text about the beginning of a file.
//!
//! `disksim` reads whatever `ssdsim` and `msr-cut` read, and gives it another meaning; a line that is
//! malformed in its own format can be a good one of `disksim`. So a format is not chosen because it reads
//! every line. Each format that reads most lines counts, unless the requests make no sense, and the trace is
//! taken for one only if no other is left.

use destage_plan::Request;

use super::{nearly_all, units};
use crate::format::FormatSign;
use crate::formats::{FORMATS, FormatId, FormatSpec};
use crate::lines::FormatProbe;

/// Usual time between requests, in nanoseconds, that makes no sense where another format reads
/// times that are [`OTHER_UNIT`] times shorter: 10 s.
const IMPOSSIBLE_GAP: u64 = 10_000_000_000;
/// The units in which traces count time are at least so far apart.
const OTHER_UNIT: u64 = 1000;
/// Absurd requests from which on they are not the damage of a line or two.
const MANY_ABSURD: u64 = 3;
/// Gaps between requests from which on the longest are left out of their mean.
const MANY_GAPS: usize = 3;

/// A format that reads some of the lines.
pub(super) struct FormatCandidate {
    format: FormatSpec,
    probe: FormatProbe,
    /// Is true if the requests make no sense: too long between requests, or most of them too large or too far
    /// away.
    nonsense: bool,
}

/// The formats that read at least one line of a text.
pub(super) fn candidates(text: &[u8]) -> Vec<FormatCandidate> {
    let read = |id: FormatId, patient| read_as(id.plain()?, text, patient);
    let mut candidates: Vec<FormatCandidate> = FORMATS.iter().filter_map(|&id| read(id, false)).collect();
    // What only `disksim` reads may still be one of its cousins, whatever stands in the first
    // lines.
    for &other in FORMATS {
        let cousins: Vec<FormatId> = FORMATS.iter().copied().filter(|&id| is_cousin(id, other)).collect();
        let cousin = |c: &FormatCandidate| cousins.contains(&c.id());
        if candidates.iter().any(|c| c.id() == other) && !candidates.iter().any(|c| cousin(c) && c.has_a_say()) {
            candidates.retain(|c| !cousin(c));
            candidates.extend(cousins.iter().filter_map(|&id| read(id, true)));
        }
    }
    if candidates.len() > 1 {
        compare(&mut candidates);
    }
    candidates
}

/// Is true if a format declares that `other` reads whatever it reads.
fn is_cousin(id: FormatId, other: FormatId) -> bool {
    matches!(id.sign(), FormatSign::Lines { cousin_of: Some(name), .. } if name == other.name())
}

/// Finds what makes no sense beside what the others read.
fn compare(candidates: &mut [FormatCandidate]) {
    let gaps: Vec<Option<u64>> = candidates.iter().map(|c| usual_gap(&c.probe.times)).collect();
    // A long gap alone proves nothing; a long one where another format reads a short one does.
    let shortest = gaps.iter().flatten().copied().min().unwrap_or(0);
    for (FormatCandidate { probe: FormatProbe { absurd, accesses, .. }, nonsense, .. }, gap) in
        candidates.iter_mut().zip(gaps)
    {
        let long = gap.is_some_and(|gap| gap > IMPOSSIBLE_GAP && gap / OTHER_UNIT >= shortest);
        // A damaged line or two have absurd addresses as well; most lines do not.
        *nonsense = long || (*absurd >= MANY_ABSURD && *absurd > *accesses / 2);
    }
}

fn read_as(format: FormatSpec, text: &[u8], patient: bool) -> Option<FormatCandidate> {
    let probe = format.probe(text, patient)?;
    (probe.good > 0).then_some(FormatCandidate { format, probe, nonsense: false })
}

/// Counts the good lines after the title of a format, and returns the first bad one: its number, and the
/// reason.
pub(super) fn behind_title(format: &FormatSpec, text: &[u8]) -> (u64, Option<(u64, String)>) {
    let probe = format.probe(text, false).unwrap_or_default();
    (probe.good, probe.faults.into_iter().next())
}

impl FormatCandidate {
    fn id(&self) -> FormatId {
        self.format.id()
    }

    /// Lines that it reads.
    pub(super) fn lines_read(&self) -> u64 {
        self.probe.good
    }

    fn lines(&self) -> u64 {
        self.probe.good + self.probe.bad
    }

    /// Is true if the trace could be of this format with a few lines damaged: the format reads most lines, or
    /// all but one.
    fn has_a_say(&self) -> bool {
        self.probe.bad <= 1 || self.probe.good > self.probe.bad
    }

    /// Is true if most reads and writes are not of whole sectors: a sign that sectors are read as bytes. The
    /// sign weighs less than nonsense, since there are traces of bytes.
    fn breaks_sectors(&self) -> bool {
        self.probe.broken_sectors > self.probe.accesses / 2
    }

    fn fault_at(&self, line: u64) -> Option<&str> {
        self.probe.faults.iter().find(|(number, _)| *number == line).map(|(_, reason)| reason.as_str())
    }
}

/// The one format that a text is of, or why several are possible; an error if it is of none, with
/// the closest.
pub(super) fn weigh(
    text: &[u8],
    candidates: Vec<FormatCandidate>,
) -> Result<Result<FormatSpec, String>, Option<String>> {
    if !candidates.iter().any(|c| nearly_all(c.probe.good, c.probe.bad)) {
        return Err(closest(&candidates));
    }
    // Candidates that read few lines are put aside, not dropped: they may be needed for a doubt.
    let (mut left, few): (Vec<FormatCandidate>, Vec<FormatCandidate>) =
        candidates.into_iter().partition(FormatCandidate::has_a_say);
    // What makes no sense is out if something else reads as many lines; if it reads fewer, that is
    // a doubt.
    if let Some(least) = left.iter().filter(|c| !c.nonsense).map(|c| c.probe.bad).min() {
        left.retain(|c| c.probe.bad < least || !c.nonsense);
        // Lengths of less than a sector are possible, and count only against one that reads fewer lines.
        left.retain(|c| c.probe.bad <= least || !c.breaks_sectors());
    }
    if let [one] = &left[..]
        && one.nonsense
    {
        // It reads more lines than any other, but perhaps only because it reads anything.
        let enough = one.probe.good / 10;
        left.extend(few.into_iter().filter(|c| c.probe.good > enough.max(1) && !c.nonsense));
    }
    Ok(match &left[..] {
        [one] => match units::question(&one.format, &one.probe) {
            None => Ok(one.format.clone()),
            Some(question) => Err(question),
        },
        _ => Err(undecided(text, &left)),
    })
}

/// Mean time between requests, in nanoseconds, without the longest of many gaps, which a damaged
/// line can make: one and one in a hundred.
fn usual_gap(times: &[u64]) -> Option<u64> {
    let mut times = times.to_vec();
    times.sort_unstable();
    let mut gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if gaps.len() >= MANY_GAPS {
        // The longest gaps are left out: one pause would pass for a wrong unit.
        let kept = gaps.len() - 1 - gaps.len() / 100;
        gaps.select_nth_unstable(kept);
        gaps.truncate(kept);
    }
    gaps.iter().sum::<u64>().checked_div(gaps.len() as u64)
}

/// Mean time between requests, in nanoseconds, from the first to the last.
fn mean_gap(times: &[u64]) -> Option<u64> {
    let [first, .., last] = times else { return None };
    last.saturating_sub(*first).checked_div(times.len() as u64 - 1)
}

/// The first line that some of the formats read and others do not.
fn line_in_doubt(left: &[FormatCandidate]) -> Option<u64> {
    let faults = left.iter().flat_map(|c| c.probe.faults.iter().map(|(line, _)| *line));
    faults.filter(|&line| left.iter().any(|c| c.fault_at(line).is_none())).min()
}

fn undecided(text: &[u8], left: &[FormatCandidate]) -> String {
    let line = line_in_doubt(left);
    let mut lines = vec![match line {
        None => format!("the content fits {} formats that mean different things; say which it is:", left.len()),
        Some(line) => format!(
            "line {line} fits only some of the formats that other lines fit, and these mean different things; fix the \
             line, or say which format it is:"
        ),
    }];
    for candidate in left {
        let FormatCandidate { format, probe, .. } = candidate;
        let doubt = line.map(|line| format!(" reads {}", describe_doubt(text, candidate, line)));
        let first = probe.first.as_ref().map(|first| describe_request(first, probe.volume.as_deref()));
        // The first request shows a user at once which reading is the right one.
        let begins = if doubt.is_some() { "; " } else { ": " };
        let first = first.map(|f| format!("{begins}the first request is {f}"));
        let gap = mean_gap(&probe.times).map(|gap| format!(", then one every {} on average", describe_time(gap)));
        let parts = [doubt, first, gap].map(Option::unwrap_or_default);
        lines.push(format!("  --format {format}{}", parts.concat()));
    }
    lines.push("  none of these: describe the columns, such as --format 'columns:ts=s,op(0=R,1=W,3=D),off=pages4k,len=bytes,_'".to_owned());
    lines.join("\n")
}

/// Describes how a format reads the text and the line in doubt.
fn describe_doubt(text: &[u8], candidate: &FormatCandidate, line: u64) -> String {
    let share = format!("{} of the first {} lines", candidate.probe.good, candidate.lines());
    if let Some(reason) = candidate.fault_at(line) {
        return format!("{share}, not line {line}: {reason}");
    }
    let end = memchr::memchr_iter(b'\n', text).nth(line as usize - 1).unwrap_or(text.len());
    let request = candidate.format.probe(&text[..end], true).and_then(|probe| probe.last);
    let request = request.map(|request| format!(", line {line} as {}", describe_request(&request, None)));
    share + &request.unwrap_or_default()
}

/// The formats that read the most lines, where none reads enough of them.
fn closest(candidates: &[FormatCandidate]) -> Option<String> {
    let rank = |c: &FormatCandidate| (c.probe.good, !c.nonsense);
    let best = candidates.iter().map(rank).max()?;
    let equal = candidates.iter().filter(|c| rank(c) == best);
    let described: Vec<String> = equal.map(describe_failure).collect();
    Some(format!(
        "The closest is {}. If it is that, say so with --format; --lenient then leaves out what cannot be read",
        described.join("; or ")
    ))
}

fn describe_failure(candidate: &FormatCandidate) -> String {
    let probe = &candidate.probe;
    let fault = probe.faults.first().map(|(line, reason)| format!("; line {line}: {reason}")).unwrap_or_default();
    format!("{}, which reads {} of the first {} lines{fault}", candidate.format, probe.good, candidate.lines())
}

pub(super) fn describe_request(request: &Request, volume: Option<&str>) -> String {
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

pub(super) fn describe_time(nanos: u64) -> String {
    let value = nanos as f64;
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.1} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", value / 1e6),
        1_000_000_000..100_000_000_000_000 => format!("{:.1} s", value / 1e9),
        _ => format!("{:.1} days", value / 86_400e9),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::detect::detect;

    /// Lines out of what `line` makes of their numbers from 0.
    fn text(lines: u64, line: impl Fn(u64) -> String) -> String {
        (0..lines).fold(String::new(), |mut text, n| {
            writeln!(text, "{}", line(n)).unwrap();
            text
        })
    }

    /// A piece of `MQSim`'s: nanoseconds, sectors. `odd` lines have an operation of their own.
    fn mqsim(odd: impl Fn(u64) -> bool) -> String {
        text(40, |n| format!("{} 0 {} 16 {}", n * 26_000_000, 2001 + n * 8, if odd(n) { 5 } else { n % 2 }))
    }

    fn found(text: &str) -> Result<FormatId, String> {
        detect(text.as_bytes()).map(|format| format.id())
    }

    fn refusal(text: &str) -> String {
        found(text).unwrap_err()
    }

    #[test]
    fn an_odd_operation_does_not_make_mqsim_disksim() {
        assert_eq!(found(&mqsim(|_| false)), Ok(FormatId::Ssdsim));
        assert_eq!(
            refusal(&mqsim(|n| n == 2)),
            "line 3 fits only some of the formats that other lines fit, and these mean different things; fix the line, \
             or say which format it is:\n  \
             --format disksim reads 40 of the first 40 lines, line 3 as a read of 8192 B (8 KiB) at byte 1032704; the \
             first request is a write of 8192 B (8 KiB) at byte 1024512 of volume 0, then one every 26000.0 s on \
             average\n  \
             --format ssdsim reads 39 of the first 40 lines, not line 3: the operation is \"5\", expected 1 (read) or 0 \
             (write); the first request is a write of 8192 B (8 KiB) at byte 1024512 of volume 0, then one every \
             26.7 ms on average\n  \
             none of these: describe the columns, such as --format 'columns:ts=s,op(0=R,1=W,3=D),off=pages4k,len=bytes,_'"
        );
        // However many they are, and if the first lines are all of this kind.
        for odd in [|n| n % 4 == 0, |n| n < 10, |n| n % 3 > 0, |n| n < 20, |n| n < 35] {
            let text = refusal(&mqsim(odd));
            assert!(text.contains("--format disksim reads 40 ") && text.contains("--format ssdsim reads "), "{text}");
        }
        // Malformed for all, it is an error of the one reader.
        assert_eq!(found(&mqsim(|_| false).replace("26000000 ", "x ")), Ok(FormatId::Ssdsim));
    }

    #[test]
    fn an_odd_operation_does_not_make_bytes_sectors() {
        let cut = |odd: &[u64]| {
            text(40, |n| {
                let op = if odd.contains(&n) { "a".to_owned() } else { (n % 2).to_string() };
                format!("{}.5 0 {} 4096 {op}", n * 24, 12_345_344 + n * 8192)
            })
        };
        assert!(refusal(&cut(&[])).starts_with("the content fits 2 formats"));
        let text = refusal(&cut(&[0]));
        assert!(text.starts_with("line 1 fits only some of the formats"), "{text}");
        assert!(text.contains("line 1 as a write of 2097152 B (2 MiB) at byte 6320816128"), "{text}");
        assert!(text.contains("--format msr-cut reads 39 of the first 40 lines, not line 1: the operation is \"a\""));
        assert!(refusal(&cut(&[3, 5, 8, 30])).starts_with("line 4 fits only"));
    }

    #[test]
    fn a_cousin_that_makes_less_sense_does_not_hide_disksim() {
        // As bytes, these are no sectors.
        let disksim = |flags: fn(u64) -> u64| text(40, |n| format!("{}.5 0 {} 24 {}", n * 24, n * 8, flags(n)));
        assert_eq!(found(&disksim(|n| if n == 7 { 2 } else { n % 2 })), Ok(FormatId::Disksim));
        assert_eq!(found(&disksim(|n| n % 4)), Ok(FormatId::Disksim));
        assert!(refusal(&disksim(|n| n % 2)).starts_with("the content fits 2 formats"));
        // Times far apart do not matter where nothing reads them as shorter.
        let slow = text(40, |n| format!("{}.5 0 {} 24 {}", n * 2_000_000, n * 8, n % 4));
        assert_eq!(found(&slow), Ok(FormatId::Disksim));
        let slow = text(40, |n| format!("{},{},8,1,7", 1_540_000_000 + n * 2000, n * 8));
        assert_eq!(found(&slow), Ok(FormatId::Tencent));
    }

    #[test]
    fn times_decide_by_what_is_usual() {
        let at = |odd: u64, time: u64| text(12, |n| format!("{} 0 4096 8 1", if n == odd { time } else { n * 24 }));
        for odd in [0, 5, 11] {
            // Too long for milliseconds, and too long for milliseconds in 64 bits.
            for time in [50_000_000, 99_999_999_999_999, u64::MAX] {
                let text = refusal(&at(odd, time));
                assert!(text.contains("--format ssdsim") && text.contains("--format disksim"), "{text}");
            }
        }
        // 13 s between two of them are no more than others read.
        assert_eq!(found("0 0 2001 7 0\n26000000000 0 2008 7 1\n26000000001 2 8 16 0\n"), Ok(FormatId::Ssdsim));
    }

    #[test]
    fn sizes_and_addresses_that_no_device_has_make_no_sense() {
        let cut = |offset: u64, len: u64, from: u64| {
            let line = move |n| if n < from { (4096, 4096) } else { (offset, len) };
            text(10, |n| format!("{}.5 0 {} {} {}", n * 24, line(n).0, line(n).1, n % 2))
        };
        // 4 MiB would be 2 GiB in sectors, and 4 PiB 2 EiB.
        for (offset, len) in [(8192, 4 << 20), (4 << 50, 4096)] {
            assert_eq!(found(&cut(offset, len, 1)), Ok(FormatId::MsrCut));
            // One may be the damage of its line.
            assert!(refusal(&cut(offset, len, 9)).starts_with("the content fits 2 formats"));
        }
        // An address beyond 2^64 bytes makes `msr-cut` the only one to read all lines, but not the
        // one.
        let doubt = refusal(&cut(1 << 60, 4096, 9));
        assert!(doubt.starts_with("line 10 fits only some of the formats"), "{doubt}");
        assert!(
            doubt.contains("--format disksim reads 9 of the first 10 lines, not line 10: the address is"),
            "{doubt}"
        );
        // What nobody else makes sense of is asked about.
        let alone = text(10, |n| format!("{},W,{},8388608", n * 24, 1_u64 << 52));
        assert!(
            refusal(&alone).starts_with("fits rq-csv by its columns, but perhaps not by its units (most requests are")
        );
    }

    #[test]
    fn the_closest_are_all_that_are_as_close() {
        let text = refusal("0.5 0 8 8 0\n1.5 0 8 8 X\n");
        assert!(
            text.contains("The closest is disksim, which reads 1 of the first 2 lines; line 2: the flags is"),
            "{text}"
        );
        assert!(
            text.contains("; or msr-cut, which reads 1 of the first 2 lines; line 2: the operation is \"X\""),
            "{text}"
        );
    }

    #[test]
    fn a_foreign_header_in_front_does_not_make_a_log_of_fio() {
        let header = "fio version 3 iolog\n";
        assert_eq!(found(&format!("{header}0 /dev/sda write 0 4096\n")), Ok(FormatId::Fio));
        assert_eq!(found(&format!("{header}{}", mqsim(|_| false))), Ok(FormatId::Ssdsim));
        let text = refusal(&format!("{header}1;2;3\n4;5;6\n7;8;9\n"));
        assert!(text.contains("As a log of fio, line 2: "), "{text}");
    }
}
