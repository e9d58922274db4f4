//! Warns about an array's result, from the figures of the result itself.

use destage_plan::PlacementStream;
use destage_plan::quantity::show_count;

use super::result::ArrayResult;
use super::streams::StreamResult;
use crate::experiment::{few_requests, replay_delayed, saturated};
use crate::measure::{RunFinding, percent};

/// Collections of all SSDs together below which what they cost is a matter of chance.
const FEW_COLLECTIONS: u64 = 10;
/// Reads of pages that SSDs do not hold may be so many of all.
const UNMAPPED: f64 = 0.01;
/// Rows whose parity is owed may be so many of those that were left behind.
const OWED: f64 = 0.01;

/// Returns the warnings of a run, beside those about the trace. `limit` is the largest number of requests
/// that the run reads.
pub(super) fn findings(run: &ArrayResult, limit: Option<u64>) -> Vec<RunFinding> {
    if run.counters.read_requests + run.counters.write_requests == 0 {
        return Vec::new();
    }
    let mut all: Vec<RunFinding> = run.saturated.iter().map(saturated).collect();
    all.extend(replay_delayed(&run.context, run.served_time));
    all.extend(failed(run));
    let response = run.response.as_ref().and_then(|response| response.all.as_ref());
    all.extend(response.and_then(|summary| few_requests(summary, &run.context, limit)));
    all.extend(few_collections(run));
    all.extend(nothing_ordered(run));
    all.extend(unmapped(run));
    all.extend(unfinished(run));
    all.extend(owed(run));
    all.extend(shared_handles(run));
    all
}

/// Warns that requests failed.
fn failed(run: &ArrayResult) -> Option<RunFinding> {
    let failed = run.counters.failed_requests;
    (failed > 0).then(|| {
        let share = percent(failed as f64 / run.counters.requests as f64);
        let what = format!(
            "{} requests ({share}) were answered with an error, since more was lost than {} can do without; response times \
             are those of the others",
            show_count(failed),
            run.array.level
        );
        RunFinding::weak("failed-requests", what)
    })
}

/// Warns that the SSDs collected hardly or not at all.
fn few_collections(run: &ArrayResult) -> Option<RunFinding> {
    let ssds = run.devices.iter().filter(|device| device.flash.gc_invocations.is_some());
    let (mut collections, mut written, mut count) = (0, 0, 0);
    for ssd in ssds {
        collections += ssd.flash.gc_invocations.unwrap_or(0);
        written += ssd.flash.flash_writes.unwrap_or(0);
        count += 1;
    }
    if count == 0 || collections >= FEW_COLLECTIONS {
        return None;
    }
    let what = format!(
        "the SSDs collected garbage {} times, having programmed {} pages from start state {}: what collection costs is {}",
        collections,
        show_count(written),
        run.start_state,
        if collections == 0 { "left out" } else { "a matter of chance" }
    );
    let kind = if collections == 0 { "no-collection" } else { "few-collections" };
    let finding = RunFinding::weak(kind, what);
    let steady = run.start_state.starts_with("steady");
    Some(if written == 0 { finding } else { finding.mended_by(if steady { "--repeat 10" } else { "--start steady" }) })
}

/// Tells that a policy which has members collect together had nothing to order, so that its result is that of none.
fn nothing_ordered(run: &ArrayResult) -> Option<RunFinding> {
    let found = run.collections.as_ref()?;
    let rounds = [found.reactive_rounds?, found.soft_rounds?, found.proactive_rounds.unwrap_or(0)];
    if found.spans == 0 || rounds.iter().any(|&rounds| rounds > 0) {
        return None;
    }
    let what = format!(
        "{} ordered no collection: members collected by themselves {} times, and none came near the threshold",
        run.policy,
        show_count(found.spans)
    );
    Some(RunFinding::note("nothing-ordered", what))
}

/// Warns that many reads were of pages that SSDs do not hold.
fn unmapped(run: &ArrayResult) -> Option<RunFinding> {
    let ssds = || run.devices.iter().filter(|device| device.flash.unmapped_reads.is_some());
    let unmapped: u64 = ssds().filter_map(|device| device.flash.unmapped_reads).sum();
    let share = unmapped as f64 / ssds().map(|device| device.counters.pages_read).sum::<u64>().max(1) as f64;
    if share <= UNMAPPED {
        return None;
    }
    let what = format!(
        "{} of the page reads from SSDs are of pages that they do not hold (never written, or trimmed), which take no time",
        percent(share)
    );
    let finding = RunFinding::weak("unmapped-reads", what);
    Some(if run.start_state == "empty" { finding.mended_by("--start steady") } else { finding })
}

/// Warns that a rebuild had not ended.
fn unfinished(run: &ArrayResult) -> Option<RunFinding> {
    let failures = &run.degraded.as_ref()?.failures;
    let open: Vec<_> = failures
        .iter()
        .filter(|failure| failure.replaced_at.is_some() && failure.rebuilt_at.is_none() && failure.device != "cache")
        .map(|failure| failure.device.as_str())
        .collect();
    (!open.is_empty()).then(|| {
        let what = format!("the rebuild of {} had not ended when the run did", open.join(", "));
        RunFinding::weak("unfinished-rebuild", what)
    })
}

/// Tells that streams share a placement handle, so that nothing keeps them apart.
fn shared_handles(run: &ArrayResult) -> Option<RunFinding> {
    for device in &run.devices {
        let Some(streams) = &device.streams else { continue };
        let written: Vec<_> = streams.iter().filter(|own| own.pages_written > 0 && own.handle.is_some()).collect();
        let shares = |own: &&&StreamResult| written.iter().filter(|other| other.handle == own.handle).count() > 1;
        let sharing: Vec<_> = written.iter().filter(shares).map(|own| own.stream.as_ref()).collect();
        if !sharing.is_empty() {
            // The first handle is of writes without a label.
            let labelled = written.iter().filter(|own| own.stream != PlacementStream::Unlabelled.word()).count();
            let (names, device) = (sharing.join(", "), &device.device);
            let what = format!(
                "{} streams were written to device {device}, and {names} share placement handles, so that nothing keeps them apart",
                written.len()
            );
            return Some(
                RunFinding::note("shared-handles", what).mended_by(format!("--ssd.placement-handles {}", labelled + 1)),
            );
        }
    }
    None
}

/// Reports that work was left for after the run.
fn owed(run: &ArrayResult) -> Option<RunFinding> {
    let debt = run.parity_debt.as_ref()?;
    if debt.rows_owed == 0 || (debt.rows_owed as f64) < OWED * debt.rows_left as f64 {
        return None;
    }
    let what = format!(
        "the parity of {} rows is still owed at the end, of {} times that one was left behind: that work is not in the figures",
        show_count(debt.rows_owed),
        show_count(debt.rows_left)
    );
    Some(RunFinding::weak("parity-owed", what).mended_by("--drain"))
}
