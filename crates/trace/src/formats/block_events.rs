//! Reads the events that the two formats of blktrace share, its binary records and blkparse's text: the
//! actions that make up a request, and a request's operation.

use destage_plan::Op;

use crate::fields::{BLANKS, FieldFault, LineFields, ParsedLine, whole_number};
use crate::options::{FormatError, FormatOptions};
use crate::sink::RequestSink;

/// The actions of which each request has one event with its range.
const EVENTS: &[u8] = b"QGIDC";

/// The action that is a request, by its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockAction(u8);

impl Default for BlockAction {
    /// Issue to the device.
    fn default() -> Self {
        Self(b'D')
    }
}

impl BlockAction {
    /// The one that the option `event` gives.
    pub(crate) fn take(options: &mut FormatOptions<'_>) -> Result<Self, FormatError> {
        let Some(text) = options.take("event") else { return Ok(Self::default()) };
        match text.as_bytes() {
            &[event] if EVENTS.contains(&event) => Ok(Self(event)),
            _ => Err(options.wrong("event", text, "D, Q, G, I or C")),
        }
    }

    /// The option, unless it can be left out.
    pub(crate) fn option(self) -> Option<String> {
        (self != Self::default()).then(|| format!("event={}", char::from(self.0)))
    }

    pub(crate) const fn letter(self) -> u8 {
        self.0
    }
}

/// Describes the request of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventRequest {
    /// A flush comes first: a request of its own.
    pub(crate) flush_before: bool,
    /// Holds the operation on the range, if there is one.
    pub(crate) op: Option<Op>,
    pub(crate) fua: bool,
}

impl EventRequest {
    /// The requests of which an event consists, with their ranges in bytes: none, a flush, one with
    /// the event's range or both. An event without a range asks nothing but a flush.
    pub(crate) fn requests(self, range: Option<(u64, u64)>) -> impl Iterator<Item = (Op, bool, u64, u64)> {
        let flush = self.flush_before.then_some((Op::Flush, false, 0, 0));
        let data = self.op.zip(range).map(|(op, (offset, len))| (op, self.fua, offset, len));
        flush.into_iter().chain(data)
    }

    /// Pushes those requests, at one time. A device of which nothing is requested is no volume.
    pub(crate) fn push(
        self,
        time: u64,
        (major, minor): (u64, u64),
        range: Option<(u64, u64)>,
        sink: &mut RequestSink<'_>,
    ) -> ParsedLine<()> {
        self.requests(range).try_for_each(|(op, fua, offset, len)| {
            let volume = volume(sink, major, minor)?;
            sink.push(time, volume, op, fua, offset, len)
        })
    }
}

/// The volume of a device by its numbers, called `major,minor`.
#[inline]
pub(crate) fn volume(sink: &mut RequestSink<'_>, major: u64, minor: u64) -> ParsedLine<u32> {
    sink.volumes.number_named(major << 32 | minor, |_| format!("{major},{minor}"))
}

/// Returns the numbers of a device that is given as `major,minor`.
pub(crate) fn device(text: &[u8]) -> Option<(u64, u64)> {
    let comma = text.iter().position(|&b| b == b',')?;
    let part = |t: &[u8]| whole_number("", t).ok().filter(|&n| u32::try_from(n).is_ok());
    Some((part(&text[..comma])?, part(&text[comma + 1..])?))
}

/// Returns what the letters ask in which the kernel tells kinds of requests (RWBS).
pub(crate) fn rwbs(text: &[u8]) -> ParsedLine<EventRequest> {
    let wrong = || {
        FieldFault::field("RWBS", text, "an optional F, one of R, W, D or N, then flags out of F, A, S, M, U, B, E, P")
    };
    let (mut flush_before, rest) = match text {
        [b'F', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let (op, flags) = match rest {
        [] | b"F" if flush_before => (None, &[][..]),
        [b'N', flags @ ..] => (None, flags),
        [b'R', flags @ ..] => (Some(Op::Read), flags),
        [b'W', flags @ ..] => (Some(Op::Write), flags),
        [b'D', flags @ ..] => (Some(Op::Discard), flags),
        [b'Z', ..] => return Err(FieldFault::field("RWBS", text, "no zone command: these are not read")),
        _ => return Err(wrong()),
    };
    let mut fua = false;
    for flag in flags {
        match flag {
            b'F' => fua = true,
            b'B' => {
                flush_before = true;
                fua = true;
            }
            b'A' | b'S' | b'M' | b'U' | b'E' | b'P' => {}
            _ => return Err(wrong()),
        }
    }
    Ok(EventRequest { flush_before, op, fua: fua && op == Some(Op::Write) })
}

/// Reads `sector + sectors`, in bytes. Anything else (a process in brackets, a length and a command in parentheses) is no
/// range, and neither is one of no sectors.
pub(crate) fn range(fields: &mut LineFields<'_, BLANKS>) -> ParsedLine<Option<(u64, u64)>> {
    let sector = match fields.next() {
        Some(text) if text.first().is_some_and(u8::is_ascii_digit) => text,
        None | Some([b'[' | b'(', ..]) => return Ok(None),
        Some(text) => return Err(FieldFault::field("the sector", text, "sector + sectors, or [process]")),
    };
    match fields.next() {
        Some(b"+") => {}
        None | Some([b'[' | b'(', ..]) => return Ok(None),
        Some(text) => return Err(FieldFault::field("the text after the sector", text, "+")),
    }
    let len = fields.sectors("the number of sectors")?;
    // Kernels give a flush the sector -1.
    if len == 0 {
        return whole_number("the sector", sector).map(|_| None);
    }
    Ok(Some((LineFields::<BLANKS>::new(sector).sectors("the sector")?, len)))
}

/// Events of each action by its first letter, to say what a file without the chosen event holds.
pub(crate) struct SeenActions([u64; 128]);

impl SeenActions {
    pub(crate) const fn new() -> Self {
        Self([0; 128])
    }

    /// Counts an event; `letter` is ASCII.
    #[inline]
    pub(crate) fn count(&mut self, letter: u8) {
        self.0[usize::from(letter & 0x7f)] += 1;
    }

    /// Why a file has no request when `event` was chosen of the format called `format`; `None`
    /// without any event.
    pub(crate) fn why_none(&self, format: &str, event: u8) -> Option<String> {
        let kinds: Vec<String> = (0_u8..)
            .zip(self.0)
            .filter(|&(_, n)| n > 0)
            .map(|(letter, n)| format!("{n} of {}", char::from(letter)))
            .collect();
        if kinds.is_empty() {
            return None;
        }
        let have = kinds.join(", ");
        let chosen = char::from(event);
        Some(if self.0[usize::from(event)] > 0 {
            format!("the events of kind {chosen} hold no request (the file holds {have})")
        } else {
            let other: Vec<String> = EVENTS
                .iter()
                .filter(|&&e| self.0[usize::from(e)] > 0)
                .map(|&e| format!("--format {format}:event={}", char::from(e)))
                .collect();
            let hint = if other.is_empty() { String::new() } else { format!("; use {}", other.join(" or ")) };
            format!("holds no event of kind {chosen}, but {have}{hint}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> (bool, Option<Op>, bool) {
        let a = rwbs(text.as_bytes()).unwrap();
        (a.flush_before, a.op, a.fua)
    }

    #[test]
    fn rwbs_letters_mean_what_the_kernel_means() {
        assert_eq!(asked("R"), (false, Some(Op::Read), false));
        assert_eq!(asked("RAM"), (false, Some(Op::Read), false));
        assert_eq!(asked("RF"), (false, Some(Op::Read), false));
        assert_eq!(asked("WS"), (false, Some(Op::Write), false));
        assert_eq!(asked("WFSM"), (false, Some(Op::Write), true));
        assert_eq!(asked("WSU"), (false, Some(Op::Write), false));
        assert_eq!(asked("FWS"), (true, Some(Op::Write), false));
        assert_eq!(asked("FWFSM"), (true, Some(Op::Write), true));
        assert_eq!(asked("WB"), (true, Some(Op::Write), true));
        assert_eq!(asked("D"), (false, Some(Op::Discard), false));
        assert_eq!(asked("DE"), (false, Some(Op::Discard), false));
        assert_eq!(asked("N"), (false, None, false));
        for flush in ["FN", "F", "FF", "FNS"] {
            assert_eq!(asked(flush), (true, None, false), "{flush}");
        }
        for bad in ["", "X", "WX", "ZR", "S", "FZ"] {
            assert!(rwbs(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
