//! The kernel's block events as text: what `trace` and `trace_pipe` of ftrace show, `trace-cmd report` and
//! `perf script` (`include/trace/events/block.h`, `trace_print_context` of `kernel/trace/trace_output.c`).
//!
//! | part of a line | meaning |
//! |---|---|
//! | `fio-2211` (ftrace, trace-cmd), `fio  2211` (perf) | process; passed over, and may hold blanks |
//! | `[001]` | processor; passed over |
//! | `d..2.` | latency columns (interrupts, preemption); there or not, passed over |
//! | `1000.000500:` | time in seconds; in ftrace's latency format `500us:` |
//! | `block_rq_issue:`, `block:block_rq_issue:` | event |
//! | `8,0` | device, `major,minor`: the volume |
//! | `W` | RWBS, what is asked, as for blkparse |
//! | `8192 ()` | bytes and the command passed through; passed over. A bio's events have neither, a completion has no bytes |
//! | `2000 + 16` | sector and sectors of 512 B |
//! | `none,0,0` | priority, of kernels from 6.11 on; passed over |
//! | `[fio]`, `[0]` | process or error; passed over |
//!
//! One event of each request is the request, by blktrace's letters: `block_rq_issue` is D, `block_rq_complete` C,
//! `block_rq_insert` I, `block_bio_queue` Q and `block_getrq` G. Lines of the tracer `blk` (`8,0 D W 2000 + 16 [fio]`) have
//! the letters themselves. All other events are passed over.
//!
//! RWBS has no letter for the writing of zeroes: `N` with sectors is that, a write, and `N` without any a command passed
//! through, which is no request.
//!
//! Comments (`#`), stack traces, the header of `trace-cmd report` and notes of lost events are passed over.

use destage_plan::Op;

use super::block_events::{BlockAction, EventRequest, SeenActions, device, range, rwbs};
use crate::fields::{BLANKS, FieldFault, LineFields, ParsedLine, TimeUnit, decimal_time, last_field};
use crate::format::{FormatFinding, FormatInfo, FormatSample, TextFormat, scattered};
use crate::lines::{LineFormat, LineKind};
use crate::options::{FormatError, FormatOptions};
use crate::sink::RequestSink;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ftrace {
    event: BlockAction,
}

impl TextFormat for Ftrace {
    const INFO: FormatInfo = FormatInfo {
        name: "ftrace",
        aliases: &["trace-cmd", "perf-script"],
        what: "the kernel's block events as text of ftrace, trace-cmd report or perf script",
        columns: "process-pid [cpu] flags time (s): event: major,minor RWBS bytes () sector + sectors [process]",
        options: &["event=D|Q|G|I|C: the event that is a request (default D, block_rq_issue)"],
        finding: FormatFinding::Certain,
        examples: &["ftrace:event=Q", "ftrace:event=C"],
        samples: &[FormatSample::lines("", b' ', |n| {
            let (event, sector) = (["block_rq_insert", "block_rq_issue"][n as usize % 2], scattered(n) * 8);
            format!(
                "fio-2211 [001] d..2. 1000.{n:06}: {event}: 8,{} WS 4096 () {sector} + 8 none,0,0 [fio]",
                n % 4 / 2 * 16
            )
        })],
    };

    type BlkparseLines = FtraceLines;

    fn take(options: &mut FormatOptions<'_>) -> Result<Self, FormatError> {
        Ok(Self { event: BlockAction::take(options)? })
    }

    fn options(&self) -> Vec<String> {
        self.event.option().into_iter().collect()
    }

    fn lines(&self) -> FtraceLines {
        FtraceLines { event: self.event.letter(), seen: SeenActions::new(), others: 0 }
    }
}

/// Lists the events of the block layer that a request has one of, with blktrace's letters.
const LETTERS: [(&[u8], u8); 14] = [
    (b"block_rq_issue", b'D'),
    (b"block_rq_complete", b'C'),
    (b"block_rq_insert", b'I'),
    (b"block_bio_queue", b'Q'),
    (b"block_getrq", b'G'),
    (b"block_bio_complete", b'C'),
    (b"block_rq_requeue", b'R'),
    (b"block_rq_merge", b'M'),
    (b"block_bio_backmerge", b'M'),
    (b"block_bio_frontmerge", b'F'),
    (b"block_bio_remap", b'A'),
    (b"block_rq_remap", b'A'),
    (b"block_split", b'X'),
    (b"block_bio_bounce", b'B'),
];

pub(crate) struct FtraceLines {
    event: u8,
    seen: SeenActions,
    /// Counts the events of other kinds.
    others: u64,
}

impl LineFormat for FtraceLines {
    fn parse_line(&mut self, line: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<LineKind> {
        let Some(stamp) = TimeStamp::find(line) else {
            return if is_note(line) { Ok(LineKind::Other) } else { Err(no_stamp(line)) };
        };
        let time = stamp.time()?;
        let (name, text) = match event(stamp.behind)? {
            LineEvent::Traced(name, text) => (name, text),
            LineEvent::Blk(numbers, text) => {
                let mut fields = LineFields::<BLANKS>::new(text);
                let action = fields.text("the action")?;
                if action.len() > 2 || !action.iter().all(u8::is_ascii_alphabetic) {
                    return Err(FieldFault::field("the action", action, "one or two letters"));
                }
                self.seen.count(action[0]);
                if action == [self.event] {
                    let letters = fields.text("RWBS")?;
                    let range = range(&mut fields)?;
                    if range.is_some() {
                        check_end(fields.rest())?;
                    }
                    push(time, numbers, letters, range, sink)?;
                }
                return Ok(LineKind::Data);
            }
            LineEvent::Other => {
                self.others += 1;
                return Ok(LineKind::Data);
            }
        };
        let Some(&(_, letter)) = LETTERS.iter().find(|(event, _)| *event == name) else {
            self.others += 1;
            return Ok(LineKind::Data);
        };
        self.seen.count(letter);
        if letter != self.event {
            return Ok(LineKind::Data);
        }
        let mut fields = LineFields::<BLANKS>::new(text);
        let text = fields.text("the device")?;
        let numbers = device(text).ok_or_else(|| FieldFault::field("the device", text, "major,minor"))?;
        let letters = fields.text("RWBS")?;
        let mut fields = LineFields::<BLANKS>::new(behind_command(fields.rest())?);
        let range = range(&mut fields)?;
        check_end(fields.rest())?;
        push(time, numbers, letters, range, sink)?;
        Ok(LineKind::Data)
    }

    fn why_none(&self) -> Option<String> {
        let others = || {
            (self.others > 0).then(|| {
                format!("holds {} events, none of which is of the block layer, such as block_rq_issue", self.others)
            })
        };
        self.seen.why_none(<Ftrace as TextFormat>::INFO.name, self.event).or_else(others)
    }
}

fn push(
    time: u64,
    numbers: (u64, u64),
    letters: &[u8],
    range: Option<(u64, u64)>,
    sink: &mut RequestSink<'_>,
) -> ParsedLine<()> {
    let mut asked = rwbs(letters)?;
    if let (EventRequest { flush_before: false, op: None, .. }, Some(_)) = (asked, range) {
        asked = EventRequest { op: Some(Op::Write), fua: letters[1..].contains(&b'F'), ..asked };
    }
    asked.push(time, numbers, range, sink)
}

/// Finds what stands behind the bytes and the command of a request's event. A bio's event has neither.
fn behind_command(text: &[u8]) -> ParsedLine<&[u8]> {
    let mut fields = LineFields::<BLANKS>::new(text);
    let first = fields.next().unwrap_or_default();
    let is_command = first.starts_with(b"(")
        || (first.iter().all(u8::is_ascii_digit) && fields.next().is_some_and(|second| second.starts_with(b"(")));
    if !is_command {
        return Ok(text);
    }
    let end = memchr::memchr(b')', text).ok_or_else(|| FieldFault::new("the command has no closing parenthesis"))?;
    Ok(&text[end + 1..])
}

/// Checks that only a priority and something in brackets stand behind the range: a line that was cut has none.
fn check_end(text: &[u8]) -> ParsedLine<()> {
    let mut fields = LineFields::<BLANKS>::new(text);
    let mut first = fields.next().unwrap_or_default();
    if first.contains(&b',') && !first.starts_with(b"[") {
        first = fields.next().unwrap_or_default();
    }
    if first.starts_with(b"[") && text.trim_ascii_end().ends_with(b"]") {
        return Ok(());
    }
    Err(FieldFault::field("the end of the event", text.trim_ascii(), "[process] or [error] behind the range"))
}

/// Gives the time of a line, and what stands behind it.
struct TimeStamp<'a> {
    text: &'a [u8],
    behind: &'a [u8],
}

impl<'a> TimeStamp<'a> {
    /// Finds the first time that stands between a processor and a colon: a process may be called anything.
    fn find(line: &'a [u8]) -> Option<Self> {
        memchr::memchr_iter(b':', line).find_map(|colon| {
            let behind = &line[colon + 1..];
            if !behind.first().is_none_or(u8::is_ascii_whitespace) {
                return None;
            }
            // The latency format puts a mark or a blank behind the unit.
            let (text, before) = last_field(&line[..colon]);
            (is_time(text) && ends_in_processor(before)).then_some(Self { text, behind })
        })
    }

    /// Returns the time in nanoseconds.
    fn time(&self) -> ParsedLine<u64> {
        let text = self.text.strip_suffix(b"+").unwrap_or(self.text);
        if let Some(at) = memchr::memmem::find(text, b"us") {
            return decimal_time("the time", &text[..at], TimeUnit::Micros);
        }
        if !text.contains(&b'.') {
            return Err(FieldFault::field(
                "the time",
                text,
                "seconds with decimals such as 1000.000500: a count of the trace clock has no unit, record with \
                 trace_clock mono",
            ));
        }
        decimal_time("the time", text, TimeUnit::Seconds)
    }
}

/// Returns true for digits with at most one point, and for those of the latency format: `500us` and perhaps a mark.
fn is_time(text: &[u8]) -> bool {
    let number = match memchr::memmem::find(text, b"us") {
        Some(at) if matches!(&text[at + 2..], [] | [b'+' | b'!' | b'#' | b'*' | b'@' | b'$']) => &text[..at],
        _ => text,
    };
    let points = memchr::memchr_iter(b'.', number).count();
    number.first().is_some_and(u8::is_ascii_digit)
        && points <= 1
        && number.iter().all(|b| b.is_ascii_digit() || *b == b'.')
}

/// Returns true if a text ends in a processor: `[001]`, the same and latency columns, both in one (`1d..2.`), or perf's
/// process where the processor was not recorded.
fn ends_in_processor(text: &[u8]) -> bool {
    let (last, before) = last_field(text);
    let is_processor = |text: &[u8]| {
        text.strip_prefix(b"[")
            .and_then(|text| text.strip_suffix(b"]"))
            .is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
    };
    let is_flag = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'#');
    let digits = last.iter().take_while(|b| b.is_ascii_digit()).count();
    let flags = &last[digits..];
    is_processor(last)
        || (last.iter().all(is_flag) && is_processor(last_field(before).0))
        || (digits > 0 && flags.len() >= 4 && flags.iter().all(is_flag))
        || (digits > 0 && last.iter().all(|b| b.is_ascii_digit() || *b == b'/') && !before.trim_ascii().is_empty())
}

/// Says what happened.
enum LineEvent<'a> {
    /// Names an event, with its text.
    Traced(&'a [u8], &'a [u8]),
    /// Gives the numbers of the device of which the tracer `blk` tells, and what it says.
    Blk((u64, u64), &'a [u8]),
    /// Is nothing of the block layer: a function or a stack.
    Other,
}

fn event(text: &[u8]) -> ParsedLine<LineEvent<'_>> {
    let mut fields = LineFields::<BLANKS>::new(text);
    let mut name = fields.text("the event")?;
    // perf may put the period of its samples in front.
    if name.iter().all(u8::is_ascii_digit) {
        name = fields.text("the event")?;
    }
    let is_name = |name: &&[u8]| {
        let is_letter = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'-');
        name.iter().all(is_letter) && name.first().is_some_and(|b| *b != b':')
    };
    if let Some(name) = name.strip_suffix(b":").filter(is_name) {
        let name = name.rsplit(|b| *b == b':').next().unwrap_or(name);
        return Ok(LineEvent::Traced(name, fields.rest()));
    }
    if let Some(numbers) = device(name) {
        return Ok(LineEvent::Blk(numbers, fields.rest()));
    }
    if name.starts_with(b"<") || fields.next().is_some_and(|field| field.starts_with(b"<-")) {
        return Ok(LineEvent::Other);
    }
    Err(FieldFault::field("the event", name, "a name and a colon, such as block_rq_issue:"))
}

/// Returns true for a line that no event is in.
fn is_note(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    let is_address = |text: &[u8]| text.len() >= 8 && text.iter().all(u8::is_ascii_hexdigit);
    let has_blanks = line.first().is_some_and(u8::is_ascii_whitespace);
    let contains = |part: &[u8]| memchr::memmem::find(text, part).is_some();
    text.starts_with(b"#")
        || text.starts_with(b"=> ")
        || (has_blanks && text.split(u8::is_ascii_whitespace).next().is_some_and(is_address))
        || (text.starts_with(b"CPU") && (contains(b"[LOST ") || text.ends_with(b" is empty")))
        || [&b"cpus="[..], b"version = "].iter().any(|key| {
            text.strip_prefix(*key).is_some_and(|value| !value.is_empty() && value.iter().all(u8::is_ascii_digit))
        })
}

#[cold]
fn no_stamp(line: &[u8]) -> FieldFault {
    let line = line.trim_ascii();
    FieldFault::field("the line", line, "a processor, a time and an event, such as [001] 1000.000500: block_rq_issue:")
}
