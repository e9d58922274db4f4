//! Makes the cards that open a group: a few large words, each with a sentence. Unknown figures get no card.

use std::fmt::Write as _;

use destage_scenario::quantity::{show_count, show_time};

use crate::ReportRun;
use crate::answers::{list, raised};
use crate::device::is_modern;
use crate::figures::{
    CACHE_LIFETIME, CACHE_WRITES, CACHE_WRITES_PER_PAGE, COLLECTIONS, DELAYED_SHARE, ERASES, P99_9, P99_9_UNDELAYED,
    ValueFormat, WRITE_AMPLIFICATION,
};
use crate::group::{GroupPoint, RunGroup};
use crate::judge::TIE;
use crate::kind::GroupKind;
use crate::ranking::{CLOSE, RunRanking, ahead, ahead_of};
use crate::size::show_size;
use crate::summary::shown;

/// A card; all of it is text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageCard {
    /// Names the subject.
    pub(crate) title: &'static str,
    pub(crate) number: String,
    pub(crate) sentence: String,
}

/// More names than these are counted.
const NAMES: usize = 3;
/// A tail that is longer by less than this share is as long.
const SAME_TAIL: f64 = 0.05;

/// The cards of a group.
pub(crate) fn cards(group: &RunGroup, runs: &[ReportRun]) -> Vec<PageCard> {
    let ranking = RunRanking::of(group, runs);
    let mut all = vec![best(group, runs, &ranking)];
    all.extend(smallest(group, &ranking));
    if let Some(best) = ranking.best() {
        let name = group.name(best);
        let run = &runs[best.run];
        all.extend(match group.kind {
            GroupKind::Hits => None,
            GroupKind::Analytic => wear(&name, run),
            GroupKind::Ssd => tail(&name, run).or_else(|| wear(&name, run)),
            GroupKind::Array => failure(&name, run).or_else(|| cache_wear(&name, run)),
        });
    }
    all
}

/// The size of a point in words, where it is a buffer's.
fn sized(group: &RunGroup, point: GroupPoint) -> String {
    group.sizes[point.size].map_or(String::new(), |bytes| format!(" at {}", show_size(bytes)))
}

fn best(group: &RunGroup, runs: &[ReportRun], ranking: &RunRanking) -> PageCard {
    let words = ranking.objective.words();
    let is_array = group.kind == GroupKind::Array;
    let title = match group.points.len() {
        1 => "The only run",
        _ => match (is_array, ranking.winners.len() > 1, group.sizes.len() > 1) {
            (false, true, _) => "Best buffer: a tie",
            (true, true, _) => "Best cache: a tie",
            (false, false, true) => "Best buffer and size",
            (true, false, true) => "Best cache and size",
            (false, false, false) => "Best buffer",
            (true, false, false) => "Best cache",
        },
    };
    let Some(&(first, value)) = ranking.winners.first() else {
        let late = group.points.iter().filter(|point| runs[point.run].is_saturated()).count();
        let (number, sentence) = if late == 1 && group.points.len() == 1 {
            ("it did not keep up", "Requests came faster than they were answered, so that it has no response times.")
        } else if late == group.points.len() {
            (
                "no run kept up",
                "Requests came faster than they were answered, so that no run has response times to compare.",
            )
        } else {
            ("not known", "No run has what they are ranked by.")
        };
        return PageCard { title, number: number.to_owned(), sentence: sentence.to_owned() };
    };
    if ranking.winners.len() > 1 {
        let names: Vec<_> = ranking.winners.iter().map(|(point, _)| group.labels[point.label].clone()).collect();
        let what = if is_array { "caches" } else { "buffers" };
        let number = if names.len() > NAMES { format!("{} {what}", names.len()) } else { list(&names) };
        let last = ranking.winners.last().map_or(value, |(_, value)| *value);
        let range = match (ranking.told(value), ranking.told(last)) {
            (a, b) if a == b => a,
            (a, b) => format!("{a} to {b}"),
        };
        let all = if names.len() > NAMES { format!(": {}", list(&names)) } else { String::new() };
        let sentence =
            format!("{words} {range}: no further apart than chance, or {} %, may put them{all}.", TIE * 100.0);
        return PageCard { title, number: number + &sized(group, first), sentence: capital(&sentence) };
    }
    let mut sentence = format!("{words} {}", ranking.told(value));
    match ranking.runner_up {
        Some((next, other)) => {
            let (size, name) = match (group.sizes.len() > 1, next.size == first.size) {
                (true, true) => ("the next of that size", group.labels[next.label].clone()),
                _ => ("the next", group.name(next)),
            };
            let ahead = ahead_of(value, other);
            let _ = write!(sentence, ", {ahead} {size}, {name} ({})", ranking.told(other));
        }
        None if group.labels.len() > 1 => sentence += "; no other run is to be compared",
        None => {}
    }
    PageCard { title, number: group.name(first), sentence: capital(&sentence) + "." }
}

/// A sentence that begins with a capital, unless that is a figure's name.
pub(crate) fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    match letters.next() {
        Some(first) if !sentence.starts_with("p9") => first.to_uppercase().chain(letters).collect(),
        _ => sentence.to_owned(),
    }
}

/// The smallest size that will do, if there are several.
fn smallest(group: &RunGroup, ranking: &RunRanking) -> Option<PageCard> {
    let &(best, value) = ranking.winners.first()?;
    let sizes = group.sizes.iter().flatten().count();
    if sizes < 2 {
        return None;
    }
    let title = "Smallest size that will do";
    let words = ranking.objective.words();
    let name = |point: GroupPoint| group.sizes[point.size].map_or("no cache".to_owned(), show_size);
    if let Some((knee, own)) = ranking.knee {
        let sentence = format!(
            "{} has a {words} of {} there, within {} % of the best.",
            group.labels[knee.label],
            ranking.told(own),
            CLOSE * 100.0
        );
        return Some(PageCard { title, number: name(knee), sentence });
    }
    let mut sentence = match ranking.smaller {
        Some((smaller, own)) => format!(
            "Nothing smaller comes within {} %: at {} the best has {}, {}.",
            CLOSE * 100.0,
            name(smaller),
            ranking.told(own),
            ahead(own, value)
        ),
        None => "That is the smallest of those simulated, and no larger one is better.".to_owned(),
    };
    if ranking.is_largest {
        sentence += " A larger one may be better still: none was simulated.";
    }
    Some(PageCard { title, number: name(best), sentence })
}

fn wear_sentence(run: &ReportRun) -> Option<String> {
    let amplification = WRITE_AMPLIFICATION.of(run).map(|value| shown(value, ValueFormat::Decimals))?;
    Some(format!(" Write amplification is {amplification}."))
}

/// Describes the effect of collection on the tail of the best run.
fn tail(name: &str, run: &ReportRun) -> Option<PageCard> {
    let title = "What collection does to the tail";
    let all = P99_9.of(run)?;
    let wear = wear_sentence(run).unwrap_or_default();
    if COLLECTIONS.of(run).unwrap_or(0.0) == 0.0 {
        let sentence = format!(
            "{name} never collected garbage, so that nothing here tells of its tail when it does. p99.9 is {}.{wear}",
            show_time(all)
        );
        return Some(PageCard { title, number: "not to be said".to_owned(), sentence });
    }
    let share = shown(DELAYED_SHARE.of(run).unwrap_or(0.0), ValueFormat::Percent);
    if is_modern(run) {
        // Without those that waited for a slice the others still have what collection leaves of the drive's rate.
        let sentence = format!(
            "p99.9 of {name}. {share} % of reads and writes waited for a slice of collection; writes wait for room in the drive's cache, \
             which does not count.{wear}"
        );
        return Some(PageCard { title, number: show_time(all), sentence });
    }
    let Some((factor, others)) = raised(run).zip(P99_9_UNDELAYED.of(run)) else {
        let sentence = format!(
            "{share} % of reads and writes waited for a collection; p99.9 of {name} is {}.{wear}",
            show_time(all)
        );
        return Some(PageCard { title, number: show_time(all), sentence });
    };
    if factor < 1.0 + SAME_TAIL {
        let sentence = format!(
            "p99.9 of {name} is {}, and {} without the {share} % of requests that waited for a collection.{wear}",
            show_time(all),
            show_time(others)
        );
        return Some(PageCard { title, number: "next to nothing".to_owned(), sentence });
    }
    let sentence = format!(
        "p99.9 of {name} is {}, and {} without the {share} % of requests that waited for a collection.{wear}",
        show_time(all),
        show_time(others)
    );
    let number = if factor < 9.95 { format!("p99.9 × {factor:.1}") } else { format!("p99.9 × {factor:.0}") };
    Some(PageCard { title, number, sentence })
}

fn wear(name: &str, run: &ReportRun) -> Option<PageCard> {
    let erases = ERASES.of(run).filter(|erases| *erases > 0.0)?;
    let sentence = format!("{name} erases so many blocks.{}", wear_sentence(run).unwrap_or_default());
    Some(PageCard { title: "What it costs in wear", number: format!("{} erases", show_count(erases as u64)), sentence })
}

/// Describes the effect of a member's loss on the tail of the best run.
fn failure(name: &str, run: &ReportRun) -> Option<PageCard> {
    let of = |phase: &str| run.number(&format!("degraded.{phase}.p99_9"));
    let healthy = of("healthy").filter(|healthy| *healthy > 0.0)?;
    let phases = [("while a member is lost", of("degraded")), ("while it is rebuilt", of("rebuilding"))];
    let known = || phases.iter().filter_map(|(when, time)| Some((*when, (*time)?)));
    let worst = known().map(|(_, time)| time).max_by(f64::total_cmp)?;
    let told: Vec<_> = known().map(|(when, time)| format!("{} {when}", show_time(time))).collect();
    Some(PageCard {
        title: "What a failure does to the tail",
        number: format!("p99.9 × {:.1}", worst / healthy),
        sentence: format!("p99.9 of {name} is {} before, {}.", show_time(healthy), list(&told)),
    })
}

fn cache_wear(name: &str, run: &ReportRun) -> Option<PageCard> {
    CACHE_WRITES.of(run).filter(|pages| *pages > 0.0)?;
    let bytes = shown(CACHE_WRITES_PER_PAGE.of(run)?, ValueFormat::Decimals);
    let lasts = CACHE_LIFETIME.of(run).map(|years| shown(years, ValueFormat::Years));
    Some(PageCard {
        title: "What it costs in wear",
        number: lasts.clone().unwrap_or(format!("{bytes} B/B")),
        sentence: format!(
            "The cache device of {name} is written {bytes} bytes for each byte that the host writes{}.",
            lasts.map_or("", |_| ", and lasts that long")
        ),
    })
}
