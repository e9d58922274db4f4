//! Warns about a run's input and response times, of buffers and arrays alike.

use destage_plan::quantity::{show_bytes, show_count, show_time};

use super::pass::PassEnd;
use crate::input::{FeedCounts, LbaOverflow};
use crate::measure::{LatencySummary, RunContext, RunFinding, SaturationCause, percent};

/// Requests that are to lie beyond a percentile for it to be one.
const BEYOND: u64 = 10;
/// Requests of which one lies beyond p99.9.
const PER_TAIL: u64 = 1_000;
/// Bounds times that mean nothing: so many requests, and this part of all, were moved by more than a second.
const MANY_FAR: u64 = 10;
const FAR_SHARE: f64 = 0.001;
/// Counts the requests that follow one step back, at least, of a log that was joined to another.
const RUN: u64 = 20;
/// Bounds times that mean nothing as well: so many requests, and this part of all, moved by this part of the trace's
/// duration in the mean of all requests.
const MANY_REVERSED: u64 = 100;
const REVERSED_SHARE: f64 = 0.1;
const MOVED_SHARE: f64 = 0.02;
/// Bounds the part of the simulated time for which the trace's clock may stand still.
const DELAYED_SHARE: f64 = 0.1;

impl PassEnd {
    /// Notes what was left out of the trace or changed in it. `fits` are the settings with which all of it lies on the device;
    /// `times_matter` where there are response times, of an open loop.
    pub(crate) fn findings(&self, overflow: LbaOverflow, fits: &str, times_matter: bool) -> Vec<RunFinding> {
        let mut all = Vec::new();
        let counts = self.counts;
        let missing = self.chosen.as_ref().and_then(|(_, missing)| missing.clone());
        if counts.read == counts.left_out {
            let why = missing.unwrap_or_else(|| "see ops and volumes".into());
            all.push(RunFinding::void("nothing", format!("no request of the trace took part; {why}")));
            return all;
        }
        all.extend(missing.map(|missing| RunFinding::weak("no-such-volume", missing)));
        if counts.overflowed > 0 {
            let share = percent(counts.overflowed as f64 / counts.read as f64);
            let beyond = format!(
                "{} of {} requests ({share}) lie beyond the device",
                show_count(counts.overflowed),
                show_count(counts.read)
            );
            all.push(match overflow {
                LbaOverflow::Filter => RunFinding::weak("left-out", format!("{beyond} and were left out")),
                LbaOverflow::Wrap => {
                    let what = format!("{beyond} and were wrapped to its size, where they meet others");
                    RunFinding::weak("wrapped", what).mended_by(fits)
                }
                LbaOverflow::Compact => {
                    let what = format!("{beyond}, which exports fewer blocks than the trace touches, and were wrapped");
                    RunFinding::weak("wrapped", what).mended_by(fits)
                }
            });
        }
        if counts.cut_discards > 0 {
            all.push(RunFinding::note(
                "cut-discards",
                format!(
                    "{} of {} requests are discards that reach beyond the device, and were cut at its end: {} that it does \
                     not hold were left out",
                    show_count(counts.cut_discards),
                    show_count(counts.read),
                    show_bytes(counts.cut_bytes)
                ),
            ));
        }
        if self.clock_wraps.count > 0 {
            let what = format!("{}: so much was added to the times of what follows", self.clock_wraps);
            all.push(RunFinding::note("clock-wrapped", what));
        }
        all.extend(out_of_order(counts, times_matter));
        if self.skipped.count > 0 {
            let first = self.skipped.first.as_deref().unwrap_or("unknown");
            all.push(RunFinding::weak(
                "skipped",
                format!("{} lines or records were skipped; the first: {first}", show_count(self.skipped.count)),
            ));
        }
        all
    }
}

/// Tells that requests are earlier than one before them: by what recorders reorder, or by so much that times mean nothing.
/// A closed loop does not look at them, nor what has no time.
fn out_of_order(counts: FeedCounts, times_matter: bool) -> Option<RunFinding> {
    if counts.reversed == 0 {
        return None;
    }
    let all = format!("{} of {} requests", show_count(counts.reversed), show_count(counts.read));
    let share = counts.reversed as f64 / counts.read as f64;
    let mean = counts.total_move / u128::from(counts.read);
    let far = counts.reversed_far >= MANY_FAR && counts.reversed_far as f64 >= FAR_SHARE * counts.read as f64;
    let spread = counts.reversed >= MANY_REVERSED
        && share >= REVERSED_SHARE
        && counts.steps_back.saturating_mul(RUN) <= counts.reversed
        && mean as f64 >= MOVED_SHARE * counts.latest.0 as f64;
    if !times_matter || !(far || spread || counts.reversed_far > 0) {
        let what = format!("{all} are earlier than one before them and were moved to its time");
        return Some(RunFinding::note("reversed", what));
    }
    let first = if counts.first_far > 0 { counts.first_far } else { counts.first_reversed };
    let what = format!(
        "{all} ({}) are up to {} earlier than one before them, from request {} on, and were moved to its time: a clock \
         was set back, or logs were joined",
        percent(share),
        show_time(counts.longest_move.0 as f64),
        show_count(first)
    );
    Some(if far || spread {
        let finding = RunFinding::void("clock-jumps", format!("{what}; response times are no result"));
        finding.mended_by(if first > 1 { format!("--limit {}", first - 1) } else { "--host closed:32".to_owned() })
    } else {
        RunFinding::weak("clock-jumps", what)
    })
}

/// Warns that requests came faster than they were served.
pub(crate) fn saturated(cause: &SaturationCause) -> RunFinding {
    let why = match *cause {
        SaturationCause::Backlog { max_backlog, .. } => {
            format!("more than {} requests were outstanding at a time", show_count(max_backlog))
        }
        SaturationCause::Growing { backlog: [first, .., last] } => format!(
            "the shortest queue kept growing, from {} requests to {} over the last half",
            show_count(first),
            show_count(last)
        ),
    };
    let what = format!("requests came faster than they were served ({why}): response times are no result");
    RunFinding::void("saturated", what).mended_by("--host bounded:32")
}

/// Tells that a bounded host held up the trace for much of the simulated `time`, in ns.
pub(crate) fn replay_delayed(context: &RunContext, time: u64) -> Option<RunFinding> {
    let delay = context.replay_delay?;
    let share = delay as f64 / time.max(1) as f64;
    if share <= DELAYED_SHARE {
        return None;
    }
    let what = format!(
        "the host held up the trace for {} ({} of the time), since requests came faster than they were served: response times \
         leave out how long these would have waited",
        show_time(delay as f64),
        percent(share)
    );
    Some(RunFinding::weak("replay-delayed", what))
}

/// Warns that the tail rests on few requests. `limit` is the largest number of requests that the run reads,
/// over all repetitions.
pub(crate) fn few_requests(all: &LatencySummary, context: &RunContext, limit: Option<u64>) -> Option<RunFinding> {
    let RunContext { input, settings, .. } = context;
    let beyond = all.count / PER_TAIL;
    if beyond >= BEYOND {
        return None;
    }
    let which = match beyond {
        0 => "p99.9 is the slowest request".to_owned(),
        1 => "p99.9 rests on the slowest request".to_owned(),
        n => format!("p99.9 rests on the {n} slowest requests"),
    };
    let what = format!("{which} of {}: another stretch of the trace would give another one", show_count(all.count));
    let times = (BEYOND * PER_TAIL).div_ceil(all.count);
    let repeat =
        settings.iter().find(|setting| setting.name == "repeat").and_then(|setting| setting.value.parse().ok());
    let repeat = repeat.unwrap_or(1_u64).max(1);
    let mend = match limit {
        Some(limit) if input.trace_requests >= limit => format!("--limit {}", (limit / repeat).saturating_mul(times)),
        _ => format!("--repeat {}", repeat.saturating_mul(times)),
    };
    Some(RunFinding::weak("few-requests", what).mended_by(mend))
}
