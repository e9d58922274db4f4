//! The charts of each kind of group: what they show. How they are drawn is charts.js.

use serde::Serialize;

use crate::ReportRun;
use crate::figures::{self, ResultFigure};
use crate::group::RunGroup;
use crate::kind::GroupKind;
use crate::ranking::pictured;

/// Selects how a chart is made of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ChartForm {
    /// Draws the figure of the ranking against the cache size, the best marked; bars if there is one size.
    Picture,
    /// A figure against the cache size, a line per label.
    Sweep,
    /// Several figures of each label on one line.
    Parts,
    /// Several figures of each label on top of each other.
    Stack,
    /// The share of requests answered within a time.
    Cdf,
    /// The share of requests answered later than a time.
    Tail,
    /// A figure over time, a panel per label.
    Time,
    /// Blocks by erases.
    Wear,
}

/// A chart.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ReportChart {
    pub(crate) id: &'static str,
    pub(crate) form: ChartForm,
    pub(crate) title: &'static str,
    /// Labels the y axis, with the unit.
    pub(crate) axis: &'static str,
    /// Selects the format of values: time, count, percent, decimal, years, or rate (bytes per second as
    /// MB/s).
    pub(crate) show: &'static str,
    pub(crate) log: bool,
    /// Holds the paths of a sweep's or a part's figures in a result. For a series: its path, and the name of
    /// the figure that charts.js computes.
    pub(crate) paths: &'static [(&'static str, &'static str)],
    /// The figures of a stack, by what they stand for.
    #[serde(skip)]
    pub(crate) stack: &'static [(&'static str, ResultFigure)],
    /// Names the role of each part: `read`, `write`, `collection` or `other`, which have colours of their
    /// own.
    pub(crate) roles: &'static [&'static str],
    /// Explains the chart to the reader.
    pub(crate) note: &'static str,
}

impl ReportChart {
    /// Is true if the chart shows the wear of cache devices.
    pub(crate) fn is_of_wear(&self) -> bool {
        OF_WEAR.contains(&self.id)
    }

    /// Is true if the chart shows one cache size at a time.
    pub(crate) fn is_of_one_size(&self) -> bool {
        !matches!(self.form, ChartForm::Sweep | ChartForm::Picture)
    }
}

/// Charts of what wears a cache device.
const OF_WEAR: [&str; 2] = ["cache-writes", "cache-lifetime"];

/// A figure of the catalogue against the cache size.
macro_rules! sweep {
    ($id:literal, $figure:expr, $log:literal) => {
        ReportChart {
            id: $id,
            form: ChartForm::Sweep,
            title: $figure.chart[0],
            axis: $figure.chart[1],
            show: $figure.show.word(),
            log: $log,
            paths: &[("", $figure.path())],
            stack: &[],
            roles: &[],
            note: "",
        }
    };
}

const fn over_time(
    id: &'static str,
    title: &'static str,
    axis: &'static str,
    show: &'static str,
    log: bool,
    paths: &'static [(&'static str, &'static str)],
    note: &'static str,
) -> ReportChart {
    ReportChart { id, form: ChartForm::Time, title, axis, show, log, paths, stack: &[], roles: &[], note }
}

const MEAN: ReportChart = sweep!("mean", figures::MEAN, true);
const P99_9: ReportChart = sweep!("p99-9", figures::P99_9, true);
const HIT: ReportChart = sweep!("hit", figures::HIT_RATIO, false);
const EVICTIONS: ReportChart = sweep!("evictions", figures::EVICTIONS, false);
const RATE: ReportChart = sweep!("rate", figures::THROUGHPUT, false);
const ERASES: ReportChart = sweep!("erases", figures::ERASES, false);
const CDF: ReportChart = ReportChart {
    id: "cdf",
    form: ChartForm::Cdf,
    title: "Response times: share answered within",
    axis: "reads and writes answered, %",
    show: "percent",
    log: false,
    paths: &[],
    stack: &[],
    roles: &[],
    note: "",
};
const TAIL: ReportChart = ReportChart {
    id: "tail",
    form: ChartForm::Tail,
    title: "Response times: the tail",
    axis: "answered later, % of reads and writes",
    show: "percent",
    log: true,
    paths: &[],
    stack: &[],
    roles: &[],
    note: "Where a line crosses 0.1 % is its p99.9.",
};
const MEAN_TIME: ReportChart = over_time(
    "mean-time",
    "Mean response time over time",
    "mean response time",
    "time",
    true,
    &[("series", "mean")],
    "Requests count when they arrive.",
);
const MAX_TIME: ReportChart = over_time(
    "max-time",
    "Longest response time over time",
    "longest response time",
    "time",
    true,
    &[("series", "max")],
    "Requests count when they arrive.",
);
const QUEUE_TIME: ReportChart = over_time(
    "queue-time",
    "Queue depth over time",
    "outstanding requests",
    "decimal",
    false,
    &[("series", "queue")],
    "Requests outstanding when another arrives, on average.",
);
const HIT_TIME: ReportChart = over_time(
    "hit-time",
    "Hit ratio over time",
    "hits, % of page accesses",
    "percent",
    false,
    &[("series", "hits")],
    "",
);
const EVICTIONS_TIME: ReportChart = over_time(
    "evictions-time",
    "Evictions over time",
    "victim units per second",
    "decimal",
    false,
    &[("series", "evictions")],
    "",
);
const RATE_TIME: ReportChart = over_time(
    "rate-time",
    "Throughput over time",
    "host MB/s that arrive, read and written",
    "rate",
    false,
    &[("series", "rate")],
    "",
);
const WEAR: ReportChart = ReportChart {
    id: "wear",
    form: ChartForm::Wear,
    title: "Wear: blocks by erases",
    axis: "blocks",
    show: "count",
    log: false,
    paths: &[],
    stack: &[],
    roles: &[],
    note: "Erases since the start of the run, warm-up included, ageing not.",
};

const SSD: &[ReportChart] = &[
    MEAN,
    P99_9,
    ReportChart {
        id: "gc-tail",
        form: ChartForm::Parts,
        title: "What collection does to p99.9",
        axis: "p99.9",
        show: "time",
        log: true,
        paths: &[
            ("all reads and writes", figures::P99_9.path()),
            ("those that waited for no collection", figures::P99_9_UNDELAYED.path()),
        ],
        stack: &[],
        roles: &["collection", "other"],
        note: "A request waited for a collection if one ended on its element while its last page, or the eviction that made \
               room for it, stood in the queue. Over a modern drive only reads wait for collection; writes wait for room in its \
               cache, which does not count.",
    },
    RATE,
    HIT,
    EVICTIONS,
    sweep!("wa", figures::WRITE_AMPLIFICATION, false),
    ERASES,
    CDF,
    TAIL,
    MEAN_TIME,
    MAX_TIME,
    over_time(
        "gc-time",
        "Collection over time",
        "elements collecting, %",
        "percent",
        false,
        &[("series", "gc")],
        "Time of collections, as a share of the time of all elements; credited when it is issued, so that it may exceed 100 %.",
    ),
    over_time(
        "delayed-time",
        "Requests delayed by collection over time",
        "reads and writes delayed, %",
        "percent",
        false,
        &[("series", "delayed")],
        "",
    ),
    over_time(
        "wa-time",
        "Write amplification over time",
        "pages programmed per page that the host wrote",
        "decimal",
        false,
        &[("series", "wa")],
        "",
    ),
    QUEUE_TIME,
    WEAR,
];

const ARRAY: &[ReportChart] = &[
    MEAN,
    P99_9,
    sweep!("requests", figures::REQUEST_RATE, false),
    RATE,
    HIT,
    stack(
        "cache-writes",
        "What the cache device is written for",
        "bytes per byte that the host wrote",
        &[
            ("fills after reads", figures::READ_FILLS_PER_PAGE),
            ("data of writes", figures::WRITE_FILLS_PER_PAGE),
            ("deltas", figures::DELTA_WRITES_PER_PAGE),
            ("metadata", figures::META_WRITES_PER_PAGE),
            ("rewritten when cleaning", figures::CLEAN_WRITES_PER_PAGE),
            ("journal for want of an NVRAM", figures::JOURNAL_WRITES_PER_PAGE),
        ],
        &["read", "write", "write", "other", "collection", "other"],
        "What the device's own collections write comes on top; lifetimes have it.",
    ),
    stack(
        "member-ios",
        "What members are read and written for",
        "pages per page that the host wrote",
        &[
            ("data reads", figures::DATA_READS_PER_PAGE),
            ("parity reads at once", figures::PARITY_READS_PER_PAGE),
            ("data writes", figures::DATA_WRITES_PER_PAGE),
            ("parity writes at once", figures::PARITY_WRITES_PER_PAGE),
            ("data reads when cleaning", figures::LATE_DATA_READS_PER_PAGE),
            ("parity reads when cleaning", figures::LATE_PARITY_READS_PER_PAGE),
            ("parity writes when cleaning", figures::LATE_PARITY_WRITES_PER_PAGE),
        ],
        &["read", "read", "write", "write", "collection", "collection", "collection"],
        "Data reads are those that answer the host, too. Cleaning is what has parity catch up that was left for later; what is \
         still owed at the end is not in it.",
    ),
    sweep!("cache-lifetime", figures::CACHE_LIFETIME, true),
    ReportChart {
        id: "phases",
        form: ChartForm::Parts,
        title: "What a failure does to p99.9",
        axis: "p99.9",
        show: "time",
        log: true,
        paths: &[
            ("no member lost", "degraded.healthy.p99_9"),
            ("a member lost", "degraded.degraded.p99_9"),
            ("being rebuilt", "degraded.rebuilding.p99_9"),
        ],
        stack: &[],
        roles: &["other", "collection", "write"],
        note: "Reads and writes by the state of the array when they arrived.",
    },
    CDF,
    TAIL,
    MEAN_TIME,
    MAX_TIME,
    QUEUE_TIME,
    RATE_TIME,
    over_time(
        "debt-time",
        "Parity debt over time",
        "rows whose parity is behind their data",
        "decimal",
        false,
        &[("parity_debt", "debt")],
        "Averaged over each span, up to the end of the simulation.",
    ),
    WEAR,
];

/// Figures of each label on top of each other, in pages per page of the host.
const fn stack(
    id: &'static str,
    title: &'static str,
    axis: &'static str,
    stack: &'static [(&'static str, ResultFigure)],
    roles: &'static [&'static str],
    note: &'static str,
) -> ReportChart {
    ReportChart { id, form: ChartForm::Stack, title, axis, show: "decimal", log: false, paths: &[], stack, roles, note }
}

/// The chart of what a group's runs are ranked by.
fn picture(group: &RunGroup, figure: &ResultFigure, is_asked: bool) -> ReportChart {
    let [title, axis] = figure.chart;
    ReportChart {
        id: "picture",
        form: ChartForm::Picture,
        title,
        axis,
        show: figure.show.word(),
        log: figure.show == figures::ValueFormat::Time,
        paths: &[],
        stack: &[],
        roles: &[],
        note: match group.kind {
            GroupKind::Ssd | GroupKind::Array if !is_asked => {
                "This is true of runs that did not keep up, too; response times they have none."
            }
            _ => "",
        },
    }
}

/// The charts of a group, in order: first what its runs are ranked by, which has no other chart then, and
/// what is beside it at first sight.
pub(crate) fn charts(group: &RunGroup, runs: &[ReportRun]) -> Vec<ReportChart> {
    const PAGES: ReportChart = sweep!("pages", figures::PAGES_PER_EVICTION, false);
    const COST: ReportChart = sweep!("rate", figures::MODEL_THROUGHPUT, false);
    let all: &[ReportChart] = match group.kind {
        GroupKind::Hits => &[HIT, EVICTIONS, PAGES, HIT_TIME, EVICTIONS_TIME],
        GroupKind::Analytic => &[COST, HIT, EVICTIONS, PAGES, ERASES, HIT_TIME, EVICTIONS_TIME],
        GroupKind::Ssd => SSD,
        GroupKind::Array => ARRAY,
    };
    let objective = pictured(group, runs);
    let figure = objective.figure(group.kind);
    let others = || all.iter().filter(|chart| chart.title != figure.chart[0]).copied();
    let (beside, others): (Vec<ReportChart>, _) = others().partition(|chart| chart.form == ChartForm::Parts);
    let picture = picture(group, figure, objective == group.objective);
    std::iter::once(picture).chain(beside).chain(others).collect()
}
