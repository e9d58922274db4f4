//! Holds what was measured of a file against what is published of a trace.
//!
//! A file is the whole trace if it has as many requests as published, and as long as the trace if it lasts as long where only that is
//! published; all other figures have to hold. A piece has at most as much of everything that adds up. What has less is a prefix if it begins as
//! the trace does, or if its first requests have the published figures; else a piece, if its content names the trace.

use super::catalogue::{KnownTrace, PublishedTable};
use super::measure::{MeasuredTrace, TraceMeasure};
use super::verdict::{StatisticCheck, TraceVerdict};

/// Gives how many times as far off as usual a figure that only describes a trace may be.
const FAR: f64 = 10.0;

/// Says what a file has to do with a trace, besides its figures.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceLikeness {
    /// Tells whether the file's name tells the trace.
    pub(super) is_named: bool,
    /// Tells whether its volumes are the trace's; none if its format or the trace has no names.
    pub(super) has_volumes: Option<bool>,
    /// Tells whether somebody converted it, who may have changed its times.
    pub(super) is_converted: bool,
}

/// Returns what the file is of this trace; none if it has nothing to do with it.
pub(super) fn judge(trace: &KnownTrace, measured: &MeasuredTrace, like: TraceLikeness) -> Option<TraceVerdict> {
    let id = || trace.id.clone();
    let not_it = |reason: Option<String>, off: Vec<StatisticCheck>| {
        (like.is_named || like.has_volumes == Some(true)).then(|| TraceVerdict::NotIt { trace: id(), reason, off })
    };
    if like.has_volumes == Some(false) && measured.volumes.is_empty() {
        let expected = trace.volumes.join(", ");
        return not_it(
            Some(format!(
                "its volume: the file has no volume names, expected {expected}; write it anew from the original with `destage trace convert`, \
                 which keeps them"
            )),
            Vec::new(),
        );
    }
    if like.has_volumes == Some(false) {
        let (found, expected) = (measured.volumes.join(", "), trace.volumes.join(", "));
        return not_it(Some(format!("its volume: found {found}, expected {expected}")), Vec::new());
    }
    let begins = begins(trace, measured);
    if let Some(error) = &measured.error {
        let known = like.is_named || like.has_volumes == Some(true) || begins == Some(Ok(()));
        return known.then(|| TraceVerdict::Damaged { trace: Some(id()), error: error.clone() });
    }
    if measured.requests() == 0 {
        return not_it(Some("it holds no request".to_owned()), Vec::new());
    }
    let checks = |of: &dyn Fn(&PublishedTable) -> bool| -> Vec<StatisticCheck> {
        let tables = trace.published.iter().filter(|table| of(table));
        tables.flat_map(|table| check(table, measured, like.is_converted)).collect()
    };
    let whole = checks(&|table| table.first.is_none() && !table.describes);
    let of_first = checks(&|table| table.first.is_some() && !table.describes);
    let off = |checks: &[StatisticCheck]| -> Vec<StatisticCheck> {
        checks.iter().filter(|check| !check.holds).cloned().collect()
    };
    let more: Vec<_> =
        off(&whole).into_iter().filter(|check| check.measure.is_sum() && check.found > check.expected).collect();
    // A part of a trace has less of everything that is summed, never more.
    if !more.is_empty() {
        return not_it(None, more);
    }
    let size = |measure: TraceMeasure| whole.iter().find(|check| check.measure == measure);
    // How long it lasts tells less than how many requests there are.
    let is_counted = size(TraceMeasure::Requests).is_some();
    let size = size(TraceMeasure::Requests).or_else(|| size(TraceMeasure::Seconds));
    let share = size.map(|size| size.found / size.expected);
    if size.is_some_and(|size| size.holds) {
        let describing = checks(&|table| table.first.is_none() && table.describes);
        let far = describing.iter().filter(|check| check.is_far).cloned();
        let wrong: Vec<_> = off(&whole).into_iter().chain(off(&of_first)).chain(far).collect();
        return match (begins, wrong.is_empty()) {
            (Some(Err(reason)), _) => not_it(Some(reason), wrong),
            (_, false) => not_it(None, wrong),
            _ if trace.is_piece() => Some(TraceVerdict::KnownPiece { trace: id(), share: None }),
            _ if is_counted => Some(TraceVerdict::Whole { trace: id(), deviations: off(&describing) }),
            _ => Some(TraceVerdict::AsLong { trace: id(), deviations: off(&describing) }),
        };
    }
    if trace.is_piece() {
        // What it is a piece of may be found to be something else.
        return not_it(None, off(&whole));
    }
    let prefix = |because: String| Some(TraceVerdict::Prefix { trace: id(), share, because });
    let is_proven = like.has_volumes == Some(true);
    match begins {
        Some(Ok(())) => return prefix("it begins with the original's first requests".to_owned()),
        // With the right volumes it may be a piece from the middle.
        Some(Err(reason)) if !is_proven => return not_it(Some(reason), Vec::new()),
        _ => {}
    }
    if is_proven && !of_first.is_empty() && of_first.iter().all(|check| check.holds) {
        let source = &of_first[0].source;
        return prefix(format!("its first requests have the published figures ({source})"));
    }
    if is_proven {
        return Some(TraceVerdict::Piece { trace: id(), share, is_proven });
    }
    let can_be_told = trace.published.iter().any(|table| !table.describes);
    let verdict = if can_be_told {
        TraceVerdict::Piece { trace: id(), share, is_proven }
    } else {
        TraceVerdict::Unchecked { trace: id() }
    };
    like.is_named.then_some(verdict)
}

/// Compares all that was measured of a table's figures; times of converted files are left out.
fn check(table: &PublishedTable, measured: &MeasuredTrace, is_converted: bool) -> Vec<StatisticCheck> {
    // Converting may cut times to a coarser unit.
    let figures = table.figures.iter().filter(|(measure, _)| !(is_converted && measure.is_time()));
    let checks = figures.filter_map(|(&measure, &expected)| {
        let found = measured.get(measure, table.first)?;
        let is_within = |within: f64| (found - expected).abs() <= measure.allowed(expected, within) + 1e-9;
        let (holds, is_far) = (is_within(table.within), !is_within(table.within * FAR));
        let (first, source) = (table.first, table.source.clone());
        Some(StatisticCheck { measure, first, found, expected, source, holds, is_far })
    });
    checks.collect()
}

/// Tells whether a file begins as a trace does, and if not, how; none if it is not known how the trace begins.
fn begins(trace: &KnownTrace, measured: &MeasuredTrace) -> Option<Result<(), String>> {
    if trace.begins.is_empty() || measured.begins.is_empty() {
        return None;
    }
    let mut pairs = trace.begins.iter().zip(&measured.begins).enumerate();
    Some(match pairs.find(|(_, (expected, found))| expected != found) {
        None => Ok(()),
        Some((n, (expected, found))) => {
            Err(format!("its request {}: found {found}, expected {expected} (op, sector+sectors)", n + 1))
        }
    })
}
