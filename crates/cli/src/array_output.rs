//! Results of runs over an array as readable tables.

use std::io::{self, Write};

use destage_cache::host_cache;
use destage_report::figures::{
    BUSIEST, CACHE_HIT_RATIO, CACHE_LIFETIME, CACHE_WRITES, CACHE_WRITES_PER_PAGE, CLAIM_WAITS, CLEAN_WRITES,
    COLLECTING, COLLECTING_TOGETHER, DATA_READS, DATA_WRITES, DELAYED_WRITES, DELTA_WRITES, DEVIATION, DEVICES_ERASES,
    DEVICES_MOVED, FULL_WRITES, HELD_UP_SHARE, INTENTS, JOURNAL_WRITES, LATE_DATA_READS, LATE_PARITY_READS,
    LATE_PARITY_WRITES, LONGEST, MEAN, MEAN_QUEUE, MEAN_READ, MEAN_WRITE, MEMBER_FLUSHES, MEMBER_IOS_PER_PAGE,
    META_WRITES, MOST_STALE_ROWS, OWED_ROWS, P50, P99, PARITY_READS, PARITY_WRITES, RCW_WRITES, READ_FILLS,
    REQUEST_RATE, RMW_WRITES, ResultFigure, STALE_AGE, STALE_ROWS, WRITE_FILLS,
};
use destage_report::{RankingObjective, ReportRun, durability, ssd_words};
use destage_scenario::quantity::{show_bytes, show_capacity, show_count, show_time};
use destage_sim::array::ArrayResult;
use destage_sim::measure::LatencySummary;

use crate::best_output;
use crate::findings_output;
use crate::run_table::{self, ShownFigure, shown};
use crate::screen::TerminalScreen;
use crate::spark;
use crate::table::{BEST, TextCell, TextColumn, TextTable};
use crate::volume_table::{self, VolumeRows};

/// Lists the figures of how requests were served.
const SERVICE: &[ShownFigure] = &[
    shown(CACHE_HIT_RATIO).ranked(),
    shown(REQUEST_RATE).places(1).ranked(),
    shown(MEAN).ranked(),
    shown(P50).ranked(),
    shown(P99).ranked(),
    shown(MEAN_READ).named("read").group().ranked(),
    shown(MEAN_WRITE).named("write").ranked(),
    shown(BUSIEST),
    shown(MEAN_QUEUE).named("queue"),
];
/// Lists the figures of reads and writes, and how writes were carried out.
const PAGES: &[ShownFigure] = &[
    shown(DATA_READS),
    shown(DATA_WRITES),
    shown(PARITY_READS),
    shown(PARITY_WRITES),
    shown(FULL_WRITES).group(),
    shown(RMW_WRITES),
    shown(RCW_WRITES),
    shown(MEMBER_FLUSHES),
    shown(INTENTS),
    shown(CLAIM_WAITS),
];

/// Lists the figures of why cache devices are written, and how long they last.
const CACHES: &[ShownFigure] = &[
    shown(CACHE_WRITES).ranked(),
    shown(CACHE_WRITES_PER_PAGE).named("per page").ranked(),
    shown(CACHE_LIFETIME).optional().ranked(),
    shown(READ_FILLS).group(),
    shown(WRITE_FILLS),
    shown(DELTA_WRITES),
    shown(META_WRITES),
    shown(CLEAN_WRITES),
    shown(JOURNAL_WRITES).optional(),
];

/// Parity that is left for later, and what it spares and costs.
const DEBT: &[ShownFigure] = &[
    shown(MEMBER_IOS_PER_PAGE).ranked(),
    shown(DELAYED_WRITES),
    shown(LATE_DATA_READS),
    shown(LATE_PARITY_READS),
    shown(LATE_PARITY_WRITES),
    shown(STALE_ROWS).group(),
    shown(MOST_STALE_ROWS).named("most"),
    shown(STALE_AGE),
    shown(OWED_ROWS),
];

/// Lists the figures of collections of garbage in the members.
const COLLECTIONS: &[ShownFigure] = &[
    shown(DEVIATION).ranked(),
    shown(LONGEST).ranked(),
    shown(HELD_UP_SHARE).ranked(),
    shown(COLLECTING).group(),
    shown(COLLECTING_TOGETHER).named("together"),
    shown(DEVICES_ERASES).ranked(),
    shown(DEVICES_MOVED).ranked(),
];

/// The results with what they have in common above them, and what failed below.
pub fn text(
    screen: &mut TerminalScreen,
    results: &[ArrayResult],
    objective: Option<RankingObjective>,
) -> io::Result<()> {
    let Some(first) = results.first() else {
        return writeln!(screen, "no runs");
    };
    let (input, c, array) = (&first.context.input, &first.counters, &first.array);
    let runs: Vec<_> = results.iter().map(ReportRun::of_array).collect();
    let layout = array.layout.as_deref().map_or_else(String::new, |layout| format!(" {layout}"));
    let kind = |device: &str| if device == "ssd" { ssd_words(&runs[0]) } else { device.to_owned() };
    let cache = match results.iter().find_map(|result| result.cache_device.as_deref()) {
        Some("ssd") if first.device != "ssd" => format!("; the cache is on {}", kind("ssd")),
        _ => String::new(),
    };
    let array = format!(
        "{}{layout}, {} x {} of {}, chunk {}, parity {}, regime {}, host {}{cache}",
        array.level,
        array.members,
        show_capacity(array.member_bytes),
        kind(&first.device),
        show_bytes(array.chunk_bytes),
        array.parity,
        array.regime,
        first.context.host
    );
    screen.paragraph("array     ", &array)?;
    let trace = run_table::trace(input);
    screen.paragraph("trace     ", &trace)?;
    let warmup = match first.context.warmup_requests {
        0 => String::new(),
        n => format!(", after {} of warm-up", show_count(n)),
    };
    let measured = format!(
        "{} requests{warmup}: {} reads, {} writes, {} flushes, {} discards; pages of {}",
        show_count(c.requests),
        show_count(c.read_requests),
        show_count(c.write_requests),
        show_count(c.flush_requests),
        show_count(c.discard_requests),
        show_bytes(first.page_bytes)
    );
    screen.paragraph("measured  ", &measured)?;
    if let Some(sizes) = run_table::sizes(input) {
        screen.paragraph("sizes     ", &sizes)?;
    }
    writeln!(screen)?;
    let keys = RowKeys::of(results);
    let table = |figures: &[ShownFigure]| {
        let rows = results.iter().map(|result| keys.row(result));
        run_table::table(keys.columns(), rows, &runs, figures, &[], |_, _| Some(0))
    };
    let (service, mut marked) = table(SERVICE);
    service.print(screen)?;
    let collect = |result: &ArrayResult| result.collections.as_ref().is_some_and(|collections| collections.spans > 0);
    if results.iter().any(collect) {
        let (collections, more) = table(COLLECTIONS);
        marked |= more;
        writeln!(screen)?;
        collections.print(screen)?;
    }
    let writes_cache = |run: &ReportRun| CACHE_WRITES.of(run).is_some_and(|pages| pages > 0.0);
    if runs.iter().any(writes_cache) {
        let rows = results.iter().map(|result| keys.row(result));
        let competes = |_: &ResultFigure, run: &ReportRun| writes_cache(run).then_some(0);
        let (caches, more) = run_table::table(keys.columns(), rows, &runs, CACHES, &[], competes);
        marked |= more;
        writeln!(screen)?;
        caches.print(screen)?;
        screen.paragraph("under ", &durability(&runs.iter().collect::<Vec<_>>()))?;
    }
    if results.iter().any(|result| result.parity_debt.is_some()) {
        let (debt, more) = table(DEBT);
        marked |= more;
        writeln!(screen)?;
        debt.print(screen)?;
    }
    if marked {
        writeln!(screen, "\n{BEST} best of all runs")?;
    }
    writeln!(screen)?;
    table(&run_table::with_declared(PAGES, true)).0.print(screen)?;
    if results.iter().any(|r| r.degraded.is_some()) {
        writeln!(screen)?;
        failures(results, keys).print(screen)?;
    }
    let over_time: Vec<_> = results.iter().map(|result| over_time(result, keys)).collect();
    spark::print(screen, keys.columns(), &over_time)?;
    let names: Vec<_> = results.iter().map(|result| keys.named(result)).collect();
    best_output::text(screen, &runs, &names, objective)?;
    let volumes =
        results.iter().filter_map(|r| Some(VolumeRows { keys: keys.texts(r), volumes: r.volumes.as_deref()? }));
    volume_table::print(screen, &volumes.collect::<Vec<_>>())?;
    findings_output::text(screen, &runs, objective)
}

fn over_time(result: &ArrayResult, keys: RowKeys) -> spark::SparkLine {
    let bins = result.series.bins.iter();
    let bins = bins.map(|bin| (bin.requests, bin.read_response_sum.saturating_add(bin.write_response_sum)));
    spark::SparkLine {
        keys: keys.texts(result),
        width: result.series.width,
        bins: bins.collect(),
        without: result.saturated.is_some().then_some("saturated"),
    }
}

/// Selects the columns that tell runs apart, beside the policy.
#[derive(Clone, Copy)]
struct RowKeys {
    /// Some run has a cache.
    cache: bool,
    /// Some run has disks, which are served in some order.
    scheduler: bool,
}

impl RowKeys {
    fn of(results: &[ArrayResult]) -> Self {
        Self {
            cache: results.iter().any(|result| result.cache_bytes.is_some()),
            scheduler: results.iter().any(|result| result.scheduler.is_some()),
        }
    }

    fn columns(self) -> Vec<TextColumn> {
        let beside = [("cache", self.cache), ("order", self.scheduler)];
        let beside = beside.into_iter().filter(|(_, shown)| *shown).map(|(heading, _)| TextColumn::key(heading));
        std::iter::once(TextColumn::name("policy")).chain(beside).collect()
    }

    fn texts(self, result: &ArrayResult) -> Vec<String> {
        let mut texts = vec![name(result)];
        if self.cache {
            texts.push(result.cache_bytes.map_or_else(|| "-".into(), show_bytes));
        }
        if self.scheduler {
            texts.push(result.scheduler.as_deref().unwrap_or("-").to_owned());
        }
        texts
    }

    /// Names a run among those of one size.
    fn named(self, result: &ArrayResult) -> String {
        match result.scheduler.as_deref().filter(|_| self.scheduler) {
            Some(scheduler) => format!("{} with {scheduler}", name(result)),
            None => name(result),
        }
    }

    fn table(self, figures: impl IntoIterator<Item = TextColumn>) -> TextTable {
        TextTable::new(self.columns().into_iter().chain(figures))
    }

    fn row(self, result: &ArrayResult) -> Vec<TextCell> {
        self.texts(result).into_iter().map(TextCell::from).collect()
    }
}

/// The policy with the parameters that are not at their defaults.
fn name(result: &ArrayResult) -> String {
    let info = host_cache(&result.policy);
    let changed = result.params.iter().filter(|param| {
        let default = info.and_then(|info| info.params.iter().find(|spec| spec.name == param.name));
        default.is_none_or(|spec| spec.default != param.value)
    });
    changed.fold(result.policy.clone().into_owned(), |name, p| format!("{name}:{}={}", p.name, p.value))
}

fn time(summary: Option<&LatencySummary>, figure: fn(&LatencySummary) -> f64) -> String {
    summary.map_or_else(|| "-".into(), |summary| show_time(figure(summary)))
}

/// Lists when devices failed and came back, and how requests were served meanwhile.
fn failures(results: &[ArrayResult], keys: RowKeys) -> TextTable {
    let times = ["failed", "at", "replaced", "rebuilt in"].map(TextColumn::number);
    let phases =
        [TextColumn::number("healthy").group(), TextColumn::number("degraded"), TextColumn::number("rebuilding")];
    let mut table = keys.table(times.into_iter().chain(phases));
    let at = |time: Option<u64>| time.map_or_else(|| "-".into(), |time| show_time(time as f64));
    for r in results {
        if let Some(degraded) = &r.degraded {
            for failure in &degraded.failures {
                let mut row = keys.row(r);
                row.push(failure.device.clone().into());
                row.extend(
                    [Some(failure.failed_at), failure.replaced_at, failure.rebuild_time].map(|t| TextCell::from(at(t))),
                );
                let phases = [&degraded.healthy, &degraded.degraded, &degraded.rebuilding];
                row.extend(phases.map(|phase| TextCell::from(time(phase.as_ref(), |s| s.mean))));
                table.add(row);
            }
        }
    }
    table
}
