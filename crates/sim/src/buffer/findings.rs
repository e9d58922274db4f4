//! Warns about a buffer's result, from the figures of the result itself.

use destage_plan::quantity::{show_bytes, show_count};

use super::result::{RunResult, SsdResult};
use crate::experiment::{few_requests, replay_delayed, saturated};
use crate::measure::{RunFinding, SeriesBin, percent};

/// A buffer may fill for so much of the measured requests.
const COLD: f64 = 0.1;
/// Collections below which what they cost is a matter of chance.
const FEW_COLLECTIONS: u64 = 10;
/// Bounds how much what collection adds may differ between the two halves of a run.
const DRIFT: f64 = 0.2;
/// Reads of pages that were never written may be so many of all.
const UNMAPPED: f64 = 0.01;

/// Returns the warnings of a run, beside those about the trace. `limit` is the largest number of requests
/// that the run reads.
pub(super) fn findings(run: &RunResult, limit: Option<u64>) -> Vec<RunFinding> {
    let counters = &run.counters;
    if counters.accesses == 0 {
        return Vec::new();
    }
    let mut all: Vec<RunFinding> = run.saturated.iter().map(saturated).collect();
    all.extend(replay_delayed(&run.context, run.simulated_time));
    let response = run.response.as_ref().and_then(|response| response.all.as_ref());
    all.extend(response.and_then(|summary| few_requests(summary, &run.context, limit)));
    all.extend(cold(run));
    if let Some(ssd) = &run.ssd {
        let collections = run.flash.gc_invocations.unwrap_or(0);
        all.extend(few_collections(run, ssd, collections));
        all.extend(unsteady(run, ssd, collections));
        all.extend(unmapped(run, ssd));
    }
    all
}

/// The share of the measured requests that came before the first eviction.
fn cold(run: &RunResult) -> Option<RunFinding> {
    let (counters, size) = (&run.counters, run.cache_bytes?);
    let is_full = |bin: &SeriesBin| bin.evictions > 0;
    let bins = &run.series.bins;
    let Some(full) = bins.iter().position(is_full) else {
        let entered = counters.misses.saturating_sub(counters.bypassed_reads + counters.bypassed_writes);
        let held = entered.saturating_mul(run.page_bytes).min(size);
        let what = format!(
            "the buffer of {} was never full, so nothing had to leave it: any policy would do the same",
            show_bytes(size)
        );
        let finding = RunFinding::weak("never-full", what);
        // The largest power of two within a quarter of what it held.
        let smaller = (held / 4).checked_ilog2().map_or(0, |log2| 1 << log2);
        return Some(if smaller >= run.page_bytes && smaller.is_multiple_of(run.page_bytes) {
            finding.mended_by(format!("--cache {}", show_bytes(smaller).replace(' ', "")))
        } else {
            finding
        });
    };
    // In the span of the first eviction what missed filled the buffer, but for as many pages as left it.
    let bin = &bins[full];
    let missed = (bin.accesses - bin.hits).max(1) as f64;
    let filling = bin.requests as f64 * (1.0 - bin.evicted_pages as f64 / missed).max(0.0);
    let before = bins[..full].iter().map(|bin| bin.requests).sum::<u64>() as f64 + filling;
    let share = before / counters.requests as f64;
    if share <= COLD {
        return None;
    }
    let all = (counters.requests + run.context.warmup_requests) as f64;
    let warmup = (100.0 * (before + run.context.warmup_requests as f64) / all).ceil() as u64;
    let what =
        format!("the buffer was filling for the first {} of the requests, when nothing leaves it", percent(share));
    let finding = RunFinding::weak("cold", what);
    Some(if warmup < 95 {
        finding.mended_by(format!("--warmup {warmup}%"))
    } else {
        finding.mended_by("--repeat 10 --warmup 50%")
    })
}

/// Warns that the SSD collected hardly or not at all, and says why.
fn few_collections(run: &RunResult, ssd: &SsdResult, collections: u64) -> Option<RunFinding> {
    if collections >= FEW_COLLECTIONS {
        return None;
    }
    let steady = run.start_state.starts_with("steady");
    let longer = if steady { "--repeat 10" } else { "--start steady" };
    if collections > 0 {
        let what = format!("the SSD collected {} only: what that costs is a matter of chance", times(collections));
        return Some(RunFinding::weak("few-collections", what).mended_by(longer));
    }
    let none = "the SSD collected no garbage, so response times and wear leave it out";
    if ssd.host_programs == 0 {
        let what = format!("{none}: nothing was written to flash while it was measured");
        return Some(RunFinding::weak("no-collection", what));
    }
    let what = format!(
        "{none}: {} pages were programmed, {} of its size, and it started {}",
        show_count(ssd.host_programs),
        percent(ssd.host_programs as f64 / ssd.raw_pages as f64),
        run.start_state
    );
    Some(RunFinding::weak("no-collection", what).mended_by(longer))
}

fn times(n: u64) -> String {
    match n {
        1 => "once".into(),
        2 => "twice".into(),
        n => format!("{n} times"),
    }
}

/// Tells that collection does not yet cost what it will. Of pages that leave the buffer, since what the buffer absorbs varies with
/// the requests.
fn unsteady(run: &RunResult, ssd: &SsdResult, collections: u64) -> Option<RunFinding> {
    if collections < 2 * FEW_COLLECTIONS || run.flash.gc_pages_moved.is_none() {
        return None;
    }
    let amplification = |bins: &[SeriesBin]| {
        let programs: u64 = bins.iter().map(|bin| bin.host_programs).sum();
        let moved: u64 = bins.iter().map(|bin| bin.gc_pages_moved).sum();
        (programs > 0).then(|| (programs + moved) as f64 / programs as f64)
    };
    let bins = &run.series.bins;
    let mut programs = 0;
    let half = bins.iter().position(|bin| {
        programs += bin.host_programs;
        programs >= ssd.host_programs / 2
    })?;
    let (first, second) = (amplification(&bins[..=half])?, amplification(&bins[half + 1..])?);
    if (second - first).abs() <= DRIFT * first {
        return None;
    }
    let what = format!(
        "with collection each page from the buffer took {first:.2} programs in the first half of what was written, and \
         {second:.2} in the second: write amplification is not yet what it will be"
    );
    let mend = if run.start_state.starts_with("steady") { "--repeat 4 --warmup 75%" } else { "--start steady" };
    Some(RunFinding::weak("unsteady", what).mended_by(mend))
}

/// Warns that many reads were of pages never written, which cost no time.
fn unmapped(run: &RunResult, ssd: &SsdResult) -> Option<RunFinding> {
    let reads = run.flash.flash_reads? + ssd.unmapped_reads;
    let share = ssd.unmapped_reads as f64 / reads.max(1) as f64;
    if share <= UNMAPPED {
        return None;
    }
    let what = format!("{} of the pages read from flash had never been written, and cost no time", percent(share));
    let finding = RunFinding::weak("unmapped-reads", what);
    Some(if run.start_state == "empty" { finding.mended_by("--start steady") } else { finding })
}
