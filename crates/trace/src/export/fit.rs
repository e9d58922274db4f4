//! Requests fitted to what a format can hold: refused, left out or changed, and counted.

use std::fmt;

use destage_plan::{Nanos, Op, Request};

use super::ExportSpec;

/// Declares the limits of a format.
#[derive(Clone, Copy, Debug)]
pub(super) struct FormatLimits {
    pub(super) flushes: bool,
    pub(super) discards: bool,
    pub(super) fua: bool,
    /// Reads, writes and discards of no bytes.
    pub(super) empty: bool,
    /// Bytes of which offsets are multiples.
    pub(super) offset_unit: u64,
    /// Bytes of which lengths are multiples.
    pub(super) len_unit: u64,
    /// Nanoseconds of which times are multiples; 0 if there are no times.
    pub(super) tick: u64,
    /// Times must not run backwards.
    pub(super) ordered: bool,
    /// More than one volume.
    pub(super) volumes: bool,
    /// Bytes of a request at most.
    pub(super) max_len: u64,
    /// Bytes of a page, a power of two, and the pages that a request may touch at most, if the
    /// format splits into pages.
    pub(super) max_pages: Option<(u64, u64)>,
    /// Longer requests are written in pieces that end at multiples of this.
    pub(super) piece: u64,
}

/// Lists the parts of a trace that the user gives up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UserLosses {
    /// Kinds that are left out, by number.
    pub(super) kinds: [bool; 4],
    pub(super) fua: bool,
    pub(super) empty: bool,
    pub(super) times: bool,
    /// Ranges are widened to the format's units.
    pub(super) widen: bool,
    /// A request that is dated before one in front of it is dated like that one.
    pub(super) raise: bool,
}

/// Counts the requests that an export wrote, left out and changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// Requests of the trace.
    pub read: u64,
    /// Requests that were written.
    pub written: u64,
    /// Records or lines that they became.
    pub records: u64,
    /// Reads, writes, flushes and discards that were left out, in the order of [`Op::ALL`].
    pub left_out: [u64; 4],
    /// Of these, the ones of no bytes, which only `drop=empty` left out.
    pub empty: u64,
    /// Writes that lost their FUA.
    pub fua: u64,
    /// Requests that were widened to the format's units.
    pub widened: u64,
    /// Requests whose time was cut to the format's resolution.
    pub cut_times: u64,
    /// Requests that were dated like an earlier one, because they were dated before it.
    pub raised_times: u64,
}

/// Plural words of the kinds, in the order of their numbers.
const KINDS: [&str; 4] = ["reads", "writes", "flushes", "discards"];

impl fmt::Display for ExportReport {
    /// Every count that is not 0, in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} requests as {} records", self.written, self.read, self.records)?;
        for (kind, count) in KINDS.iter().zip(self.left_out) {
            if count > 0 {
                write!(f, "; {kind} left out: {count}")?;
            }
        }
        for (what, count) in [
            ("of these without any bytes", self.empty),
            ("FUA left out", self.fua),
            ("widened to whole units", self.widened),
            ("times cut to the format's resolution", self.cut_times),
            ("dated like an earlier request instead of before it", self.raised_times),
        ] {
            if count > 0 {
                write!(f, "; {what}: {count}")?;
            }
        }
        Ok(())
    }
}

/// Names a part of a trace that a format may be unable to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FormatLoss {
    /// Requests of this operation.
    Op(Op),
    /// Requests of no bytes.
    Empty,
    /// FUA.
    Fua,
    /// Parts of the format's units.
    Part,
    /// A second volume.
    Volume,
    /// Times that run backwards.
    Backwards,
    /// Times.
    Time,
    /// Marks a part for which no option helps.
    Never,
}

impl FormatLoss {
    /// The option that gives it up, and for what.
    pub(super) fn option(self) -> Option<(String, String)> {
        let (option, purpose) = match self {
            Self::Op(op) => (format!("drop={op}"), format!("leave {} out", KINDS[op as usize])),
            Self::Empty => ("drop=empty".into(), "leave such out".into()),
            Self::Fua => ("drop=fua".into(), "write such without it".into()),
            Self::Part => ("widen=yes".into(), "widen such to the units that they touch".into()),
            Self::Volume => ("volumes=merge".into(), "lay all volumes over each other".into()),
            Self::Backwards => ("times=raise".into(), "date such like the latest before them".into()),
            Self::Time => ("drop=times".into(), "write requests without times".into()),
            Self::Never => return None,
        };
        Some((option, purpose))
    }

    /// Gives it up; whether it can be.
    pub(super) fn give_up(self, losses: &mut UserLosses, merge: &mut bool) -> bool {
        match self {
            Self::Op(op) => losses.kinds[op as usize] = true,
            Self::Empty => losses.empty = true,
            Self::Fua => losses.fua = true,
            Self::Part => losses.widen = true,
            Self::Volume => *merge = true,
            Self::Backwards => losses.raise = true,
            Self::Time => losses.times = true,
            Self::Never => return false,
        }
        true
    }
}

/// Why a request does not fit.
#[derive(Debug)]
pub(super) struct FitRefusal {
    pub(super) kind: FormatLoss,
    /// Describes the request, as in "request 7 *is a flush*".
    pub(super) what: String,
}

impl FitRefusal {
    /// One that no option helps with.
    pub(super) fn never(what: String) -> Self {
        Self { kind: FormatLoss::Never, what }
    }
}

/// Fits requests one after the other.
pub(super) struct RequestFitter {
    name: &'static str,
    holds: FormatLimits,
    losses: UserLosses,
    merge: bool,
    latest: u64,
    volume: Option<u32>,
    /// Requests on other volumes than the first one's, once that was refused.
    other_volumes: u64,
}

impl RequestFitter {
    pub(super) fn new(spec: &ExportSpec, holds: FormatLimits) -> Self {
        let (losses, merge) = (spec.all_losses(), spec.merges_volumes());
        Self { name: spec.id().name(), holds, losses, merge, latest: 0, volume: None, other_volumes: 0 }
    }

    /// The latest time so far, nanoseconds.
    pub(super) fn latest(&self) -> u64 {
        self.latest
    }

    /// Goes on as if the user had given up what was refused; whether that can be given up.
    pub(super) fn give_up(&mut self, kind: FormatLoss) -> bool {
        kind.give_up(&mut self.losses, &mut self.merge)
    }

    /// Returns the number of requests left out or changed in this respect.
    pub(super) fn given_up(&self, kind: FormatLoss, report: &ExportReport) -> u64 {
        match kind {
            FormatLoss::Op(op) => report.left_out[op as usize],
            FormatLoss::Empty => report.empty,
            FormatLoss::Fua => report.fua,
            FormatLoss::Part => report.widened,
            FormatLoss::Volume => self.other_volumes,
            FormatLoss::Backwards => report.raised_times,
            FormatLoss::Time => report.read,
            FormatLoss::Never => 0,
        }
    }

    /// The request as the format can hold it, `None` if it is left out, or why it stops the export.
    pub(super) fn fit(&mut self, request: &Request, report: &mut ExportReport) -> Result<Option<Request>, FitRefusal> {
        let refuse = |kind, what: String| Err(FitRefusal { kind, what });
        let mut fitted = *request;
        // What is changed is counted at the end: a request that does not fit is tried again.
        let (mut fua, mut widened, mut other) = (false, false, false);
        let Request { offset, len, op, .. } = *request;
        let kind = op as usize;
        // What the user leaves out is not looked at further: it need not fit.
        if self.losses.kinds[kind] {
            report.left_out[kind] += 1;
            return Ok(None);
        }
        // No option helps here, and what follows may add the two.
        if op != Op::Flush && offset.checked_add(len).is_none() {
            return refuse(
                FormatLoss::Never,
                format!("is a {op} of {len} bytes at byte {offset}, which reach beyond 2^64"),
            );
        }
        if (op == Op::Flush && !self.holds.flushes) || (op == Op::Discard && !self.holds.discards) {
            return refuse(FormatLoss::Op(op), format!("is a {op}"));
        }
        if op != Op::Flush && len == 0 && (self.losses.empty || !self.holds.empty) {
            // Requests without bytes are left out on demand even where the format could hold them.
            if !self.losses.empty {
                return refuse(FormatLoss::Empty, format!("is a {op} of no bytes"));
            }
            report.left_out[kind] += 1;
            report.empty += 1;
            return Ok(None);
        }
        if request.fua && (self.losses.fua || !self.holds.fua || op != Op::Write) {
            if !self.losses.fua {
                return refuse(FormatLoss::Fua, format!("is a {op} with FUA"));
            }
            fitted.fua = false;
            fua = true;
        }
        if op != Op::Flush
            && (!offset.is_multiple_of(self.holds.offset_unit) || !len.is_multiple_of(self.holds.len_unit))
        {
            if !self.losses.widen {
                let what = format!(
                    "is a {op} of {len} B at byte {offset}, not in whole units of {} B",
                    self.holds.offset_unit.max(self.holds.len_unit)
                );
                return refuse(FormatLoss::Part, what);
            }
            let first = offset - offset % self.holds.offset_unit;
            // Both ends move outwards, so that no byte of the request is lost.
            let end = (offset + len).checked_next_multiple_of(self.holds.len_unit);
            let Some(end) = end else {
                let what = format!("is a {op} of {len} bytes at byte {offset}, which, widened, reach beyond 2^64");
                return refuse(FormatLoss::Never, what);
            };
            // No bytes touch no unit: only the place is rounded.
            let end = if len == 0 { first } else { end };
            (fitted.offset, fitted.len) = (first, end - first);
            widened = true;
        }
        // The length is compared after widening, since that is what would be written.
        if op != Op::Flush && fitted.len > self.holds.max_len {
            let (name, most) = (self.name, self.holds.max_len);
            let what = format!("is a {op} of {} B, and {name} holds no more than {most} B", fitted.len);
            return refuse(FormatLoss::Never, what);
        }
        if let Some((page, most)) = self.holds.max_pages
            && op != Op::Flush
            && (offset % page + len).div_ceil(page) > most
        {
            let name = self.name;
            let what = format!(
                "is a {op} of {len} B at byte {offset}, and {name} holds none of more than {most} pages of {page} B"
            );
            return refuse(FormatLoss::Never, what);
        }
        match self.volume {
            _ if self.holds.volumes => {}
            _ if self.merge => {
                other = self.volume.is_some_and(|volume| volume != request.volume);
                fitted.volume = 0;
            }
            Some(volume) if volume != request.volume => {
                return refuse(FormatLoss::Volume, "is on a second volume".to_owned());
            }
            // The first volume is the one that the file will hold.
            _ => self.volume = Some(request.volume),
        }
        // The time comes last: it is remembered, and a request that is refused before must not count.
        fitted.time = Nanos(self.time(request.time.0, report)?);
        report.fua += u64::from(fua);
        report.widened += u64::from(widened);
        self.other_volumes += u64::from(other);
        Ok(Some(fitted))
    }

    /// The part of a request that is written at once, and the rest.
    pub(super) fn cut(&self, request: Request) -> (Request, Option<Request>) {
        let Request { offset, len, .. } = request;
        let here = self.holds.piece - offset % self.holds.piece;
        if len <= here {
            return (request, None);
        }
        (Request { len: here, ..request }, Some(Request { offset: offset + here, len: len - here, ..request }))
    }

    fn time(&mut self, time: u64, report: &mut ExportReport) -> Result<u64, FitRefusal> {
        if self.holds.tick == 0 {
            if self.losses.times {
                return Ok(0);
            }
            // Version 2 of fio's log alone has no times, and only that takes the option.
            return Err(FitRefusal { kind: FormatLoss::Time, what: "has a time".to_owned() });
        }
        let mut kept = time;
        if time < self.latest && (self.holds.ordered || self.losses.raise) {
            if !self.losses.raise {
                let what = "is dated before one in front of it".to_owned();
                return Err(FitRefusal { kind: FormatLoss::Backwards, what });
            }
            kept = self.latest;
            report.raised_times += 1;
        }
        // The uncut time is kept, so that requests within one tick do not count as out of order.
        self.latest = self.latest.max(time);
        let whole = kept - kept % self.holds.tick;
        report.cut_times += u64::from(whole != kept);
        Ok(whole)
    }
}
