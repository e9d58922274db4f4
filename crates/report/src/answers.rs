//! Answers questions about a group's figures in words. Unknown figures get no answer.

use std::fmt::Write as _;

use destage_scenario::quantity::{show_count, show_time};

use crate::ReportRun;
use crate::durability::durability;
use crate::escape::escaped;
use crate::figures::{
    BUSIEST, BetterValue, CACHE_LIFETIME, CACHE_WRITES, CACHE_WRITES_PER_PAGE, COLLECTIONS, DELAYED_SHARE, ERASES,
    LIFETIME, MEAN, P99_9, P99_9_UNDELAYED, THROUGHPUT, ValueFormat, WORST_BLOCK,
};
use crate::group::{GroupPoint, RunGroup};
use crate::judge::TIE;
use crate::kind::GroupKind;
use crate::objective::RankingObjective;
use crate::ranking::{CLOSE, RunRanking, ahead_of, least};
use crate::summary::shown;

/// A question with its answer, which is HTML.
#[derive(Clone, Debug)]
pub(crate) struct PageAnswer {
    pub(crate) question: &'static str,
    pub(crate) answer: String,
}

/// Returns the questions and answers about a group.
pub(crate) fn answers(group: &RunGroup, runs: &[ReportRun]) -> Vec<PageAnswer> {
    let ranking = RunRanking::of(group, runs);
    let mut all = vec![PageAnswer { question: question(group.kind), answer: which(group, runs, &ranking) }];
    if let Some(best) = ranking.best() {
        match group.kind {
            GroupKind::Hits | GroupKind::Analytic => {}
            GroupKind::Ssd => {
                all.push(PageAnswer { question: "What does it cost in wear?", answer: wear(group, runs, best) });
                let answer = collection(group, runs, best);
                all.push(PageAnswer { question: "What does collection do to p99.9?", answer });
            }
            GroupKind::Array => array(&mut all, group, runs, best),
        }
    }
    let saturated: Vec<_> = group.points.iter().filter(|point| runs[point.run].is_saturated()).collect();
    if !saturated.is_empty() {
        let names: Vec<_> = saturated.iter().map(|point| escaped(&group.name(**point))).collect();
        all.push(PageAnswer {
            question: "What could not keep up?",
            answer: format!(
                "{} of {} runs are saturated: requests came faster than the device served them, so that they have no \
                 response times and are ranked with no other: {}.",
                saturated.len(),
                group.points.len(),
                names.join(", ")
            ),
        });
    }
    all
}

const fn question(kind: GroupKind) -> &'static str {
    match kind {
        GroupKind::Array => "Which cache, size and order of service should this workload get?",
        _ => "Which buffer and size should this workload get?",
    }
}

fn strong(group: &RunGroup, point: GroupPoint) -> String {
    format!("<strong>{}</strong>", escaped(&group.name(point)))
}

/// Names as a list in a sentence.
pub(crate) fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

/// Describes a run's speed: the figure of the ranking, and the other ones known.
fn speed(ranking: &RunRanking, run: &ReportRun, value: f64) -> String {
    let mut told = vec![format!("{} {}", ranking.objective.words(), ranking.told(value))];
    let mut tell = |own: RankingObjective, name: &str, value: Option<String>| {
        told.extend(value.filter(|_| own != ranking.objective).map(|value| format!("{name} {value}")));
    };
    tell(RankingObjective::Mean, "mean response time", MEAN.of(run).map(show_time));
    tell(RankingObjective::P999, "p99.9", P99_9.of(run).map(show_time));
    told.extend(
        THROUGHPUT.of(run).filter(|_| MEAN.of(run).is_some()).map(|r| format!("{} MB/s", shown(r, ValueFormat::Rate))),
    );
    told.join(", ")
}

/// The sentences on the best run, on who comes next, and on the smallest cache that comes close.
fn which(group: &RunGroup, runs: &[ReportRun], ranking: &RunRanking) -> String {
    let words = ranking.objective.words();
    let extreme = if ranking.objective.figure(group.kind).better == BetterValue::More { "highest" } else { "lowest" };
    let mut answer = match &ranking.winners[..] {
        [] if group.points.iter().all(|point| runs[point.run].is_saturated()) => return "No run kept up.".to_owned(),
        [] => return format!("No run has a {words}."),
        [(best, value)] => {
            format!("{} has the {extreme} {words}: {}.", strong(group, *best), speed(ranking, &runs[best.run], *value))
        }
        [(_, first), .., (_, last)] => {
            let names: Vec<_> = ranking.winners.iter().map(|(point, _)| strong(group, *point)).collect();
            let range = match (ranking.told(*first), ranking.told(*last)) {
                (a, b) if a == b => a,
                (a, b) => format!("{a} to {b}"),
            };
            format!(
                "{} are a tie: {words} {range}, no further from the {extreme} than chance, or {} %, may put them.",
                list(&names),
                TIE * 100.0
            )
        }
    };
    let Some(&(best, value)) = ranking.winners.first() else { return answer };
    if let Some((next, other)) = ranking.runner_up {
        let _ = write!(
            answer,
            " That is {} the next{}, {}: {}.",
            ahead_of(value, other),
            if next.size == best.size { " of that size" } else { "" },
            strong(group, next),
            ranking.told(other)
        );
    }
    match ranking.knee {
        Some((knee, value)) => {
            let _ = write!(
                answer,
                " The smallest that comes within {} % of it is {}: {}.",
                CLOSE * 100.0,
                strong(group, knee),
                speed(ranking, &runs[knee.run], value)
            );
        }
        None if best.size > 0 => {
            let _ = write!(answer, " Nothing smaller comes within {} % of it.", CLOSE * 100.0);
        }
        None => {}
    }
    answer
}

fn wear(group: &RunGroup, runs: &[ReportRun], best: GroupPoint) -> String {
    let run = &runs[best.run];
    let erases = |point: GroupPoint| ERASES.of(&runs[point.run]).filter(|_| !runs[point.run].is_saturated());
    let count = |value: f64| show_count(value as u64);
    let decimals = |path: &str| run.number(path).map(|value| shown(value, ValueFormat::Decimals));
    let mut answer = match erases(best) {
        Some(own) if own > 0.0 => {
            let of_blocks = match (decimals("ssd.erases_per_block_mean"), WORST_BLOCK.of(run)) {
                (Some(mean), Some(worst)) => {
                    format!(" ({mean} a block on average, {} at most since the start)", count(worst))
                }
                _ => String::new(),
            };
            format!("{} erases {} blocks{of_blocks}.", strong(group, best), count(own))
        }
        _ => format!("{} erases nothing.", strong(group, best)),
    };
    if let Some(amplification) = decimals("ssd.write_amplification") {
        let _ = write!(
            answer,
            " Its write amplification is {amplification}: flash pages programmed for each page that the host wrote."
        );
    }
    if let Some(lifetime) = LIFETIME.of(run) {
        let _ =
            write!(answer, " At that rate the flash lasts for {} of host writes.", shown(lifetime, ValueFormat::Bytes));
    }
    match least(group.points.iter().copied(), erases) {
        Some((fewest, value)) if erases(best).is_some_and(|own| own > value) => {
            let own = erases(best).unwrap_or_default();
            let mean = MEAN.of(&runs[fewest.run]);
            let _ = write!(
                answer,
                " {} erases fewest: {} ({:.0} % fewer){}.",
                strong(group, fewest),
                count(value),
                (1.0 - value / own) * 100.0,
                mean.map_or(String::new(), |mean| format!(", with a mean response time of {}", show_time(mean))),
            );
        }
        Some(_) if group.points.len() > 1 => answer += " No other run erases fewer.",
        _ => {}
    }
    answer
}

/// Returns the factor by which collections raise p99.9.
pub(crate) fn raised(run: &ReportRun) -> Option<f64> {
    let others = P99_9_UNDELAYED.of(run).filter(|others| *others > 0.0)?;
    Some(P99_9.of(run)? / others)
}

fn collection(group: &RunGroup, runs: &[ReportRun], best: GroupPoint) -> String {
    let describe = |point: GroupPoint| {
        let run = &runs[point.run];
        if COLLECTIONS.of(run).unwrap_or(0.0) == 0.0 {
            return format!("{} never collected garbage.", strong(group, point));
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
                "{}: {} % of reads and writes waited for a collection. p99.9 is {}; of the others alone it is {}{}.{delayed}",
                strong(group, point),
                shown(share, ValueFormat::Percent),
                show_time(all),
                show_time(others),
                raised(run).map_or(String::new(), |factor| {
                    format!(", so that requests which wait for collection raise it {factor:.1}-fold")
                }),
            ),
        }
    };
    let mut answer = describe(best);
    let most = |point: GroupPoint| raised(&runs[point.run]).map(|factor| -factor);
    if let Some((worst, factor)) = least(group.points.iter().copied(), most)
        && worst.run != best.run
        && factor < -1.0
    {
        let _ = write!(answer, " It matters most to {}", describe(worst));
    }
    answer
}

fn array(all: &mut Vec<PageAnswer>, group: &RunGroup, runs: &[ReportRun], best: GroupPoint) {
    let run = &runs[best.run];
    if let (Some(share), Some(first)) = (BUSIEST.of(run), all.first_mut()) {
        let name = strong(group, best);
        let _ = write!(first.answer, " The busiest device of {name} is in service {:.0} % of the time.", share * 100.0);
    }
    if run.at("degraded").is_some() {
        let of = |phase: &str| run.number(&format!("degraded.{phase}.p99_9")).map(show_time);
        let phases = [("no member is lost", "healthy"), ("one is lost", "degraded"), ("it is rebuilt", "rebuilding")];
        let told: Vec<_> = phases.iter().filter_map(|(when, key)| Some(format!("{} while {when}", of(key)?))).collect();
        let rebuilds = run.list("degraded.failures").iter().filter_map(|failure| failure.get("rebuild_time")?.as_f64());
        let rebuilt: Vec<_> = rebuilds.map(|time| format!(" A rebuild takes {}.", show_time(time))).collect();
        if !told.is_empty() {
            let answer = format!("{}: p99.9 is {}.{}", strong(group, best), told.join(", "), rebuilt.concat());
            all.push(PageAnswer { question: "What does a failure do to p99.9?", answer });
        }
    }
    if let Some(answer) = array_wear(group, runs, best) {
        all.push(PageAnswer { question: "What does it cost in wear?", answer });
    }
}

/// Describes the wear of an array: erases of SSDs, and writes to cache devices.
fn array_wear(group: &RunGroup, runs: &[ReportRun], best: GroupPoint) -> Option<String> {
    let (erased, flash) = runs[best.run].list("devices").iter().fold((0.0, false), |(sum, flash), device| {
        let erases = device.get("erases").and_then(serde_json::Value::as_f64);
        (sum + erases.unwrap_or(0.0), flash || erases.is_some())
    });
    let erases = || format!("{} erases {} blocks of its SSDs.", strong(group, best), show_count(erased as u64));
    let mut answers: Vec<_> = flash.then(erases).into_iter().collect();
    let written = |point: GroupPoint| {
        let pages = CACHE_WRITES.of(&runs[point.run]).filter(|pages| *pages > 0.0);
        pages.and(CACHE_WRITES_PER_PAGE.of(&runs[point.run]))
    };
    let tell = |(point, bytes): (GroupPoint, f64)| {
        let lasts = CACHE_LIFETIME.of(&runs[point.run]).map_or(String::new(), |lifetime| {
            format!(", and at that rate lasts for {}", shown(lifetime, ValueFormat::Years))
        });
        let bytes = shown(bytes, ValueFormat::Decimals);
        format!("{bytes} bytes for each byte that the host writes{lasts}")
    };
    let own = written(best).map(|bytes| (best, bytes));
    answers.extend(own.map(|own| format!("The cache device of {} is written {}.", strong(group, best), tell(own))));
    if let Some(least) = least(group.points.iter().copied(), written) {
        if least.0.run != best.run {
            answers.push(format!("Least is written to that of {}: {}.", strong(group, least.0), tell(least)));
        }
        let runs: Vec<_> = group.points.iter().map(|point| &runs[point.run]).collect();
        answers.push(format!("That is under {}.", escaped(&durability(&runs))));
    }
    (!answers.is_empty()).then(|| answers.join(" "))
}
