//! Results of runs over an array as a readable table.

use std::io::{self, Write};

use comfy_table::Table;
use destage_scenario::quantity::{show_bytes, show_count, show_time};
use destage_sim::array::ArrayResult;
use destage_sim::measure::LatencySummary;

use crate::output::{decimals, percent, print, table};

/// The results with what they have in common above them, and what failed below.
pub fn text(out: &mut dyn Write, results: &[ArrayResult]) -> io::Result<()> {
    let Some(first) = results.first() else {
        return writeln!(out, "no runs");
    };
    let (input, c, array) = (&first.input, &first.counters, &first.array);
    writeln!(out, "trace     {} ({}), {} requests", input.trace, input.format, show_count(input.trace_requests))?;
    let warmup = match first.warmup_requests {
        0 => String::new(),
        n => format!(", after {} of warm-up", show_count(n)),
    };
    writeln!(
        out,
        "measured  {} requests{warmup}: {} reads, {} writes, {} flushes, {} discards; pages of {}",
        show_count(c.requests),
        show_count(c.read_requests),
        show_count(c.write_requests),
        show_count(c.flush_requests),
        show_count(c.discard_requests),
        show_bytes(first.page_bytes)
    )?;
    let layout = array.layout.as_deref().map_or_else(String::new, |layout| format!(" {layout}"));
    writeln!(
        out,
        "array     {}{layout}, {} x {} of {}, chunk {}, parity {}, regime {}, host {}",
        array.level,
        array.members,
        show_bytes(array.member_bytes),
        first.device,
        show_bytes(array.chunk_bytes),
        array.parity,
        array.regime,
        first.host
    )?;
    writeln!(out)?;
    print(out, &runs(results))?;
    writeln!(out)?;
    print(out, &pages(results))?;
    if results.iter().any(|r| r.degraded.is_some()) {
        writeln!(out)?;
        print(out, &failures(results))?;
    }
    if results.iter().any(|r| r.saturated.is_some()) {
        writeln!(
            out,
            "\nsaturated: requests came faster than the array served them, so response times are no result."
        )?;
    }
    let failed = results.iter().map(|r| r.counters.failed_requests).max().unwrap_or(0);
    if failed > 0 {
        writeln!(out, "\nup to {} requests failed: more was lost than the level can do without.", show_count(failed))?;
    }
    let unmapped = |r: &ArrayResult| r.devices.iter().filter_map(|device| device.unmapped_reads).sum::<u64>();
    let unmapped = results.iter().map(unmapped).max().unwrap_or(0);
    if unmapped > 0 {
        writeln!(
            out,
            "\nup to {} pages were read from SSDs that do not hold them (never written, or trimmed), which takes no time.",
            show_count(unmapped)
        )?;
    }
    Ok(())
}

/// Policy, cache and order of service, the columns of every table.
fn name(result: &ArrayResult) -> Vec<String> {
    let changed = result.params.iter().filter(|param| {
        let info = destage_sim::array::CONTROLLERS.iter().find(|info| info.name == result.policy);
        let default = info.and_then(|info| info.params.iter().find(|spec| spec.name == param.name));
        default.is_none_or(|spec| spec.default != param.value)
    });
    let policy = changed.fold(result.policy.to_owned(), |name, p| format!("{name}:{}={}", p.name, p.value));
    vec![policy, result.cache_bytes.map_or_else(|| "-".into(), show_bytes), result.scheduler.unwrap_or("-").to_owned()]
}

fn time(summary: Option<&LatencySummary>, figure: fn(&LatencySummary) -> f64) -> String {
    summary.map_or_else(|| "-".into(), |summary| show_time(figure(summary)))
}

fn runs(results: &[ArrayResult]) -> Table {
    let header = [
        "policy",
        "cache",
        "scheduler",
        "hit %",
        "requests/s",
        "mean",
        "p50",
        "p99",
        "read",
        "write",
        "busiest %",
        "queue",
    ];
    let mut table = table(&header, 1);
    for r in results {
        let mut row = name(r);
        row.push(percent(r.hit_ratio));
        row.push(decimals(r.requests_per_second, 1));
        let response = r.response.as_ref();
        let all = response.and_then(|response| response.all.as_ref());
        if r.saturated.is_some() {
            row.push("saturated".into());
        } else {
            row.push(time(all, |s| s.mean));
        }
        row.push(time(all, |s| s.p50 as f64));
        row.push(time(all, |s| s.p99 as f64));
        row.push(time(response.and_then(|response| response.read.as_ref()), |s| s.mean));
        row.push(time(response.and_then(|response| response.write.as_ref()), |s| s.mean));
        let busiest = r.devices.iter().filter_map(|device| device.busy_share).max_by(f64::total_cmp);
        row.push(percent(busiest));
        let longest = r.devices.iter().filter_map(|device| device.mean_queue).max_by(f64::total_cmp);
        row.push(decimals(longest, 2));
        table.add_row(row);
    }
    table
}

fn pages(results: &[ArrayResult]) -> Table {
    let header = [
        "policy",
        "cache",
        "scheduler",
        "data read",
        "written",
        "parity read",
        "written",
        "full",
        "rmw",
        "rcw",
        "fills",
        "flushes",
        "intents",
        "waited",
    ];
    let mut table = table(&header, 1);
    for r in results {
        let mut row = name(r);
        let t = &r.traffic;
        let fills = r.cache.as_ref().map_or(0, |cache| cache.read_fills + cache.write_fills);
        let counts = [
            t.data_reads,
            t.data_writes,
            t.parity_reads,
            t.parity_writes,
            t.full_writes,
            t.rmw_writes,
            t.rcw_writes,
            fills,
            t.flushes,
            r.steps.intent,
        ];
        row.extend(counts.map(show_count));
        row.push(show_time(r.claims.iter().map(|claim| claim.wait_time).sum::<u64>() as f64));
        table.add_row(row);
    }
    table
}

fn failures(results: &[ArrayResult]) -> Table {
    let header =
        ["policy", "cache", "scheduler", "failed", "at", "replaced", "rebuilt in", "healthy", "degraded", "rebuilding"];
    let mut table = table(&header, 1);
    let at = |time: Option<u64>| time.map_or_else(|| "-".into(), |time| show_time(time as f64));
    for r in results {
        if let Some(degraded) = &r.degraded {
            for failure in &degraded.failures {
                let mut row = name(r);
                row.push(failure.device.clone());
                row.push(at(Some(failure.failed_at)));
                row.push(at(failure.replaced_at));
                row.push(at(failure.rebuild_time));
                let phases = [&degraded.healthy, &degraded.degraded, &degraded.rebuilding];
                row.extend(phases.map(|phase| time(phase.as_ref(), |s| s.mean)));
                table.add_row(row);
            }
        }
    }
    table
}
