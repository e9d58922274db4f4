//! The default text output of `blkparse` (blktrace's `blkparse_fmt.c`, `process_default`),
//! separated by blanks:
//!
//! | column | unit |
//! |---|---|
//! | device | `major,minor`: the volume |
//! | CPU, sequence | passed over |
//! | time | seconds and nanoseconds, `s.nnnnnnnnn` |
//! | process | passed over |
//! | action | one or two letters; lines of other actions than the chosen event are passed over |
//! | RWBS | what is asked, see below |
//! | range | `sector + sectors`, in 512 B; absent for requests without data |
//!
//! RWBS: an optional `F` (flush before), then `R` read, `W` write, `D` discard or `N` none, then
//! flags: `F` FUA, `A` read-ahead, `S` synchronous, `M` metadata, `U` atomic, `B` barrier (old
//! kernels: flush before, and FUA), `E` secure (after `D`), `P` (priority). A flush before yields a
//! flush request of its own; `FN`, `F`, `FF` and `FWS` without a range yield only that. `N` without a flush is a
//! command passed through to the device, whose range blkparse does not show: no request. Zone
//! commands (`Z`) are not read: an error.
//!
//! Before the events blkparse can print `TraceInput file ... added`, after them a summary (from
//! `CPU0 (...)` or `Total (...)` on); both are passed over.

use super::block_events::{BlockAction, SeenActions, device, range, rwbs};
use crate::fields::{BLANKS, FieldFault, LineFields, ParsedLine, TimeUnit};
use crate::format::{FormatFinding, FormatInfo, FormatSample, TextFormat, scattered};
use crate::lines::{LineFormat, LineKind};
use crate::options::{FormatError, FormatOptions};
use crate::sink::RequestSink;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Blkparse {
    event: BlockAction,
}

impl TextFormat for Blkparse {
    const INFO: FormatInfo = FormatInfo {
        name: "blkparse",
        aliases: &[],
        what: "the default text output of blkparse",
        columns: "major,minor cpu sequence time (s) process action RWBS sector + sectors [process]",
        options: &["event=D|Q|G|I|C: the action whose lines are requests (default D, issue to the device)"],
        finding: FormatFinding::Certain,
        examples: &["blkparse:event=Q", "blkparse:event=C"],
        samples: &[FormatSample::lines("", b' ', |n| {
            let action = ["Q", "D"][n as usize % 2];
            format!("8,{} 1 {n} 0.{n:09} 500 {action} WS {} + 8 [sync]", n % 2 * 16, scattered(n) * 8)
        })],
    };

    type BlkparseLines = Lines;

    fn take(options: &mut FormatOptions<'_>) -> Result<Self, FormatError> {
        Ok(Self { event: BlockAction::take(options)? })
    }

    fn options(&self) -> Vec<String> {
        self.event.option().into_iter().collect()
    }

    fn lines(&self) -> Lines {
        Lines { event: self.event.letter(), seen: SeenActions::new(), in_summary: false }
    }
}

pub(crate) struct Lines {
    event: u8,
    seen: SeenActions,
    in_summary: bool,
}

impl LineFormat for Lines {
    fn parse_line(&mut self, line: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<LineKind> {
        let mut fields = LineFields::<BLANKS>::new(line);
        let first = fields.text("the device")?;
        let Some((major, minor)) = device(first) else {
            if first == b"Total" || (first.starts_with(b"CPU") && first[3..].iter().all(u8::is_ascii_digit)) {
                self.in_summary = true;
            }
            if self.in_summary || (first == b"Input" && fields.next() == Some(b"file")) {
                return Ok(LineKind::Other);
            }
            return Err(FieldFault::field("the device", first, "major,minor"));
        };
        self.in_summary = false;
        fields.skip("the CPU")?;
        fields.skip("the sequence")?;
        let time = fields.time("the time", TimeUnit::Seconds)?;
        fields.skip("the process")?;
        let action = fields.text("the action")?;
        if !action.iter().all(u8::is_ascii_alphabetic) {
            return Err(FieldFault::field("the action", action, "one or two letters"));
        }
        self.seen.count(action[0]);
        if action != [self.event] {
            return Ok(LineKind::Data);
        }
        let asked = rwbs(fields.text("RWBS")?)?;
        let range = range(&mut fields)?;
        asked.push(time, (major, minor), range, sink)?;
        Ok(LineKind::Data)
    }

    fn why_none(&self) -> Option<String> {
        self.seen.why_none(<Blkparse as TextFormat>::INFO.name, self.event)
    }
}
