//! What a group's figures say, in words.

use std::fmt::Write as _;

use destage_scenario::quantity::{show_count, show_time};

use crate::ReportRun;
use crate::durability::durability;
use crate::escape::escaped;
use crate::figures::{
    BUSIEST, CACHE_LIFETIME, CACHE_WRITES, CACHE_WRITES_PER_PAGE, COLLECTIONS, DELAYED_SHARE, ERASES, LIFETIME, MEAN,
    P99_9, P99_9_UNDELAYED, Show, THROUGHPUT, WORST_BLOCK,
};
use crate::group::{Group, GroupKind, Point};
use crate::summary::shown;

/// A question with its answer, which is HTML.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) question: &'static str,
    pub(crate) answer: String,
}

/// A mean response time this much above the best is as good for most purposes; a hit ratio or
/// throughput this much below.
const CLOSE: f64 = 0.1;

/// What the group's figures say.
pub(crate) fn answers(group: &Group, runs: &[ReportRun]) -> Vec<Answer> {
    let mut all = match group.kind {
        GroupKind::Hits => vec![highest(
            group,
            runs,
            "Which buffer and size should this workload get?",
            "finds the most pages in the buffer",
            "hit ratio",
            |run| run.number("hit_ratio"),
            |value| format!("{} %", shown(value, Show::Percent)),
        )],
        GroupKind::Analytic => vec![highest(
            group,
            runs,
            "Which buffer and size should this workload get?",
            "is the fastest in the cost model",
            "throughput",
            // Page policies are not charged for erases, so that theirs is another scale.
            |run| run.number("analytic.throughput").filter(|_| run.text("analytic.model") == "analytic"),
            |value| format!("{} MB/s", shown(value, Show::Rate)),
        )],
        GroupKind::Ssd => ssd(group, runs),
        GroupKind::Array => array(group, runs),
    };
    let saturated: Vec<_> = group.points.iter().filter(|point| runs[point.run].is_saturated()).collect();
    if !saturated.is_empty() {
        let names: Vec<_> = saturated.iter().map(|point| escaped(&group.name(**point))).collect();
        all.push(Answer {
            question: "What could not keep up?",
            answer: format!(
                "{} of {} runs are saturated: requests came faster than the device served them, so that they have no \
                 response times: {}.",
                saturated.len(),
                group.points.len(),
                names.join(", ")
            ),
        });
    }
    all
}

fn strong(group: &Group, point: Point) -> String {
    format!("<strong>{}</strong>", escaped(&group.name(point)))
}

/// The point with the least value; of several the smallest cache, and then the first.
fn least(
    group: &Group,
    points: impl Iterator<Item = Point>,
    value: impl Fn(Point) -> Option<f64>,
) -> Option<(Point, f64)> {
    let valued = points.filter_map(|point| Some((point, value(point)?)));
    valued.min_by(|(p, a), (q, b)| a.total_cmp(b).then(group.sizes[p.size].cmp(&group.sizes[q.size])))
}

/// The answer where more is better.
fn highest(
    group: &Group,
    runs: &[ReportRun],
    question: &'static str,
    does: &str,
    what: &str,
    value: fn(&ReportRun) -> Option<f64>,
    show: fn(f64) -> String,
) -> Answer {
    let of = |point: Point| value(&runs[point.run]).map(|value| -value);
    let answer = match least(group, group.points.iter().copied(), of) {
        None => format!("No run has a {what}."),
        Some((best, value)) => {
            let mut answer = format!("{} {does}: {what} {}.", strong(group, best), show(-value));
            let near = |point: &Point| {
                group.sizes[point.size] < group.sizes[best.size]
                    && of(*point).is_some_and(|v| v <= value * (1.0 - CLOSE))
            };
            let candidates = group.points.iter().copied().filter(near);
            let frugal = least(group, candidates, |point| Some(group.sizes[point.size].unwrap_or(0) as f64));
            if let Some((frugal, _)) = frugal {
                let smallest = group.points.iter().copied().filter(|point| point.size == frugal.size);
                if let Some((frugal, value)) = least(group, smallest, of) {
                    let _ = write!(
                        answer,
                        " The smallest within {} % of that is {}: {}.",
                        CLOSE * 100.0,
                        strong(group, frugal),
                        show(-value)
                    );
                }
            }
            answer
        }
    };
    Answer { question, answer }
}

/// The run with the lowest mean response time.
pub(crate) fn fastest(group: &Group, runs: &[ReportRun]) -> Option<Point> {
    least(group, group.points.iter().copied(), |point| MEAN.of(&runs[point.run])).map(|(best, _)| best)
}

/// The sentence on the fastest run, and on the smallest cache that comes close.
fn speed(group: &Group, runs: &[ReportRun], best: Point) -> String {
    let mean = |point: Point| MEAN.of(&runs[point.run]);
    let told = |point: Point| {
        let run = &runs[point.run];
        format!(
            "mean response {}, p99.9 {}, {} MB/s",
            MEAN.of(run).map_or("–".to_owned(), show_time),
            P99_9.of(run).map_or("–".to_owned(), show_time),
            THROUGHPUT.of(run).map_or("–".to_owned(), |rate| shown(rate, Show::Rate)),
        )
    };
    let mut answer = format!("{} answers fastest: {}.", strong(group, best), told(best));
    let bound = mean(best).unwrap_or_default() * (1.0 + CLOSE);
    let near = |point: &Point| {
        group.sizes[point.size] < group.sizes[best.size] && mean(*point).is_some_and(|mean| mean <= bound)
    };
    let sizes = group.points.iter().copied().filter(near).map(|point| point.size).min();
    match sizes {
        Some(size) => {
            let of_size = group.points.iter().copied().filter(|point| point.size == size);
            if let Some((frugal, _)) = least(group, of_size, mean) {
                let _ = write!(
                    answer,
                    " The smallest that comes within {} % of its mean is {}: {}.",
                    CLOSE * 100.0,
                    strong(group, frugal),
                    told(frugal)
                );
            }
        }
        None if best.size > 0 => {
            let _ = write!(answer, " Nothing smaller comes within {} % of its mean.", CLOSE * 100.0);
        }
        None => {}
    }
    answer
}

fn nothing_was_timed(question: &'static str) -> Vec<Answer> {
    vec![Answer { question, answer: "No run has response times.".to_owned() }]
}

fn ssd(group: &Group, runs: &[ReportRun]) -> Vec<Answer> {
    const WHICH: &str = "Which buffer and size should this workload get?";
    let Some(best) = fastest(group, runs) else { return nothing_was_timed(WHICH) };
    vec![
        Answer { question: WHICH, answer: speed(group, runs, best) },
        Answer { question: "What does it cost in wear?", answer: wear(group, runs, best) },
        Answer { question: "What does collection do to p99.9?", answer: collection(group, runs, best) },
    ]
}

fn wear(group: &Group, runs: &[ReportRun], best: Point) -> String {
    let run = &runs[best.run];
    let erases = |point: Point| ERASES.of(&runs[point.run]);
    let count = |value: Option<f64>| value.map_or("–".to_owned(), |value| show_count(value as u64));
    let decimals = |path: &str| run.number(path).map_or("–".to_owned(), |value| shown(value, Show::Decimals));
    let mut answer = format!(
        "{} erases {} blocks ({} a block on average, {} at most since the start). Its write amplification is {}, and the \
         flash programs {} pages for each page that the host writes.",
        strong(group, best),
        count(erases(best)),
        decimals("ssd.erases_per_block_mean"),
        count(WORST_BLOCK.of(run)),
        decimals("ssd.write_amplification"),
        decimals("ssd.flash_writes_per_host_page"),
    );
    if let Some(lifetime) = LIFETIME.of(run) {
        let _ = write!(answer, " At that rate the flash lasts for {} of host writes.", shown(lifetime, Show::Bytes));
    }
    match least(group, group.points.iter().copied(), erases) {
        Some((fewest, value)) if erases(best).is_some_and(|own| own > value) => {
            let own = erases(best).unwrap_or_default();
            let _ = write!(
                answer,
                " {} erases fewest: {} ({:.0} % fewer), with a mean response of {}.",
                strong(group, fewest),
                count(Some(value)),
                (1.0 - value / own) * 100.0,
                MEAN.of(&runs[fewest.run]).map_or("no figure, being saturated".to_owned(), show_time),
            );
        }
        _ => answer += " No other run erases fewer.",
    }
    answer
}

fn collection(group: &Group, runs: &[ReportRun], best: Point) -> String {
    let describe = |point: Point| {
        let run = &runs[point.run];
        if COLLECTIONS.of(run).unwrap_or(0.0) == 0.0 {
            return format!("{} never collected: this trace did not use up the free blocks.", strong(group, point));
        }
        let share = DELAYED_SHARE.of(run).unwrap_or_default();
        let (Some(all), others) = (P99_9.of(run), P99_9_UNDELAYED.of(run)) else {
            return format!("{} has no response times.", strong(group, point));
        };
        let delayed = run
            .number("response.gc_delayed.mean")
            .map_or(String::new(), |mean| format!(" Those delayed took {} on average.", show_time(mean)));
        match others {
            None => {
                format!("{}: every request waited for a collection; p99.9 is {}.", strong(group, point), show_time(all))
            }
            Some(others) => format!(
                "{}: {} % of reads and writes waited for a collection. p99.9 is {}; of the others alone it is {}, so that \
                 requests which wait for collection raise it {}.{delayed}",
                strong(group, point),
                shown(share, Show::Percent),
                show_time(all),
                show_time(others),
                if others > 0.0 { format!("{:.1}-fold", all / others) } else { "from nothing".to_owned() },
            ),
        }
    };
    let mut answer = describe(best);
    let raised = |point: Point| {
        let run = &runs[point.run];
        let others = P99_9_UNDELAYED.of(run).filter(|others| *others > 0.0)?;
        Some(-(P99_9.of(run)? / others))
    };
    if let Some((worst, factor)) = least(group, group.points.iter().copied(), raised)
        && worst.run != best.run
        && factor < -1.0
    {
        let _ = write!(answer, " It matters most to {}", describe(worst));
    }
    answer
}

fn array(group: &Group, runs: &[ReportRun]) -> Vec<Answer> {
    const WHICH: &str = "Which cache, size and order of service should this workload get?";
    let Some(best) = fastest(group, runs) else { return nothing_was_timed(WHICH) };
    let run = &runs[best.run];
    let mut answer = speed(group, runs, best);
    if let Some(share) = BUSIEST.of(run) {
        let _ = write!(answer, " Its busiest device is in service {:.0} % of the time.", share * 100.0);
    }
    let mut all = vec![Answer { question: WHICH, answer }];
    if run.at("degraded").is_some() {
        let of = |phase: &str| run.number(&format!("degraded.{phase}.p99_9")).map(show_time);
        let phases = [("no member is lost", "healthy"), ("one is lost", "degraded"), ("it is rebuilt", "rebuilding")];
        let told: Vec<_> = phases.iter().filter_map(|(when, key)| Some(format!("{} while {when}", of(key)?))).collect();
        let rebuilds = run.list("degraded.failures").iter().filter_map(|failure| failure.get("rebuild_time")?.as_f64());
        let rebuilt: Vec<_> = rebuilds.map(|time| format!(" A rebuild takes {}.", show_time(time))).collect();
        let phases = if told.is_empty() { "no figures".to_owned() } else { told.join(", ") };
        let answer = format!("{}: p99.9 is {phases}.{}", strong(group, best), rebuilt.concat());
        all.push(Answer { question: "What does a failure do to p99.9?", answer });
    }
    if let Some(answer) = array_wear(group, runs, best) {
        all.push(Answer { question: "What does it cost in wear?", answer });
    }
    all
}

/// What SSDs erase, and what cache devices are written.
fn array_wear(group: &Group, runs: &[ReportRun], best: Point) -> Option<String> {
    let (erased, flash) = runs[best.run].list("devices").iter().fold((0.0, false), |(sum, flash), device| {
        let erases = device.get("erases").and_then(serde_json::Value::as_f64);
        (sum + erases.unwrap_or(0.0), flash || erases.is_some())
    });
    let erases = || format!("{} erases {} blocks of its SSDs.", strong(group, best), show_count(erased as u64));
    let mut answers: Vec<_> = flash.then(erases).into_iter().collect();
    let written = |point: Point| {
        let pages = CACHE_WRITES.of(&runs[point.run]).filter(|pages| *pages > 0.0);
        pages.and(CACHE_WRITES_PER_PAGE.of(&runs[point.run]))
    };
    let tell = |(point, bytes): (Point, f64)| {
        let lasts = CACHE_LIFETIME
            .of(&runs[point.run])
            .map_or(String::new(), |lifetime| format!(", and at that rate lasts for {}", shown(lifetime, Show::Years)));
        let bytes = shown(bytes, Show::Decimals);
        format!("{bytes} bytes for each byte that the host writes{lasts}")
    };
    let own = written(best).map(|bytes| (best, bytes));
    answers.extend(own.map(|own| format!("The cache device of {} is written {}.", strong(group, best), tell(own))));
    if let Some(least) = least(group, group.points.iter().copied(), written) {
        if least.0.run != best.run {
            answers.push(format!("Least is written to that of {}: {}.", strong(group, least.0), tell(least)));
        }
        let runs: Vec<_> = group.points.iter().map(|point| &runs[point.run]).collect();
        answers.push(format!("That is under {}.", escaped(&durability(&runs))));
    }
    (!answers.is_empty()).then(|| answers.join(" "))
}
