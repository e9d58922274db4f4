//! Advice for people: what to use first, then why, what it costs and how far to trust it.

use std::io::{self, Write};

use destage_advise::search::AS_GOOD;
use destage_advise::{AdviceDoubt, AdvisedChoice, HalfTrace, INSTEAD, OtherPlace, TraceAdvice};
use destage_report::{PageAdvice, RunJudge, ahead, show_size};
use destage_scenario::quantity::show_count;

use crate::screen::TerminalScreen;
use crate::table::{TextCell, TextColumn, TextTable};

/// Highlights what is advised.
const ADVISED: anstyle::Style = anstyle::Style::new().bold();

/// Policies that are named as being as good, or perhaps so, at most.
const NAMED: usize = 5;

/// Returns a policy with its size.
fn name(choice: &AdvisedChoice) -> String {
    match choice.cache_bytes {
        Some(bytes) => format!("{} with {}", choice.policy, show_size(bytes)),
        None => choice.policy.clone(),
    }
}

/// Returns what to do, in a sentence.
fn advised(advice: &TraceAdvice) -> String {
    let best = &advice.best;
    let Some(bytes) = best.cache_bytes else {
        let why = if keeps_up_alone(advice) { "kept up with the requests" } else { "is more than 1 % better" };
        return format!("no buffer: nothing up to {} {why}", budget(advice));
    };
    let share = percent(bytes as f64 / advice.footprint_bytes.max(1) as f64);
    format!("{}{}, {share} of what is touched", name(best), advice.place.as_deref().map_or("", of_place))
}

/// Returns true if there are no results but that of what is advised: nothing says whether it is better.
fn keeps_up_alone(advice: &TraceAdvice) -> bool {
    advice.best.cache_bytes.is_none() && advice.sizes.is_empty() && !advice.policies.is_empty()
}

/// Returns what a size is a size of, after it.
fn of_place(place: &str) -> &'static str {
    match place {
        "nvram" => " of NVRAM",
        _ => " on a device",
    }
}

/// Returns where that is.
fn in_place(place: &str) -> &'static str {
    match place {
        "nvram" => "in NVRAM",
        _ => "on a device",
    }
}

/// Returns how large it may be.
fn budget(advice: &TraceAdvice) -> String {
    let own = show_size(advice.budget_bytes);
    match (&advice.place, &advice.elsewhere) {
        (place, Some(OtherPlace { place: other, considered_bytes, .. })) => {
            let own_place = place.as_deref().unwrap_or(if other == "nvram" { "device" } else { "nvram" });
            let more = show_size(considered_bytes.last().copied().unwrap_or_default());
            format!("{own}{}, or {more}{}", of_place(own_place), of_place(other))
        }
        (place, None) => format!("{own}{}", place.as_deref().map_or("", of_place)),
    }
}

/// Returns how much more something costs, in words.
fn more(share: f64) -> String {
    match share {
        share if share >= 1.0 => format!("{:.1} times", 1.0 + share),
        share if share < 0.0 => percent(share),
        share => format!("+{}", percent(share)),
    }
}

/// A share in percent, with few digits.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent.abs() < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// Returns the first of some choices, each as it is told, and says how many more there are.
fn named(choices: &[&AdvisedChoice], name: impl Fn(&AdvisedChoice) -> String) -> String {
    let first: Vec<_> = choices.iter().take(NAMED).map(|choice| name(choice)).collect();
    let more = match choices.len() - first.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", first.join(", "))
}

/// Returns what another shows, and how that compares with what is advised.
fn beside(judge: RunJudge, best: &AdvisedChoice, other: &AdvisedChoice) -> String {
    match (best.value, other.value) {
        (_, None) => "does not keep up with the requests".to_owned(),
        (None, Some(value)) => judge.told(value),
        _ if other.ahead == Some(0.0) => "the same".to_owned(),
        (Some(best), Some(value)) => format!("{} ({})", judge.told(value), ahead(value, best)),
    }
}

/// Compares the choice with the runner-up over each half of the trace.
fn halves(judge: RunJudge, halves: &[HalfTrace]) -> String {
    let told = |value: Option<f64>| value.map_or_else(|| "no result".to_owned(), |value| judge.told(value));
    let each = halves
        .iter()
        .zip(["first", "second"])
        .map(|(half, which)| format!("{} against {} over the {which}", told(half.best), told(half.runner_up)));
    each.collect::<Vec<_>>().join(", ")
}

/// Explains the confidence.
fn confidence(judge: RunJudge, advice: &TraceAdvice) -> String {
    let lost = advice.halves.iter().try_fold(0.0, |most: f64, half| Some(most.max(half.lost?)));
    let level = &*advice.confidence;
    let of_halves = match (advice.halves.is_empty(), lost) {
        (true, _) if keeps_up_alone(advice) => "nothing else has a result".to_owned(),
        (true, _) => "nothing else could be compared".to_owned(),
        (_, None) => "a half of the trace has no result".to_owned(),
        (_, Some(0.0)) => "better than the runner-up over either half of the trace".to_owned(),
        (_, Some(lost)) => format!("over one half of the trace the runner-up is better, by {}", percent(lost)),
    };
    let halves = if advice.halves.is_empty() { String::new() } else { format!(" ({})", halves(judge, &advice.halves)) };
    format!("{level}: {of_halves}{halves}")
}

/// Returns what the advice is for, then what it rests on: each with a name.
fn facts(judge: RunJudge, advice: &TraceAdvice) -> [Vec<(&'static str, String)>; 2] {
    let best = &advice.best;
    let order = if judge.is_more_better() { "highest" } else { "lowest" };
    let all = if advice.budget_bytes >= advice.footprint_bytes { ", which is all that is touched" } else { "" };
    let asked = vec![
        ("device", advice.device.clone()),
        (
            "trace",
            format!(
                "{}: {} requests, which touch {}",
                advice.trace,
                show_count(advice.requests),
                show_size(advice.footprint_bytes)
            ),
        ),
        ("asked", format!("the {order} {} with up to {}{all}", advice.objective, budget(advice))),
    ];
    let mut rests = vec![("advice", advised(advice))];
    if best.cache_bytes == Some(advice.budget_bytes) && advice.considered_bytes.len() > 1 && all.is_empty() {
        let option = if advice.place.as_deref() == Some("nvram") { "--nvram-budget" } else { "--budget" };
        rests.push(("", format!("the largest that was considered: see what more would do with {option}")));
    }
    if keeps_up_alone(advice) {
        rests.push(("", format!("to compare them all the same, have the trace wait for them: --host {INSTEAD}")));
    }
    if let Some(value) = best.value {
        rests.push(("gives", format!("{} of {}", advice.objective, judge.told(value))));
    }
    if let Some(other) = &advice.runner_up {
        let other_name = if best.cache_bytes.is_some() { other.policy.clone() } else { name(other) };
        rests.push(("runner-up", format!("{other_name}: {}", beside(judge, best, other))));
    }
    let is_as_good = |other: &&AdvisedChoice| other.ahead.is_some_and(|ahead| ahead <= AS_GOOD);
    let (as_good, perhaps): (Vec<&AdvisedChoice>, Vec<_>) = advice.ties.iter().partition(is_as_good);
    if !as_good.is_empty() {
        let names = named(&as_good, |other| other.policy.clone());
        rests.push(("as good", format!("{names}: the difference is below 1 %")));
    }
    if !perhaps.is_empty() {
        let name = |other: &AdvisedChoice| format!("{} ({})", other.policy, other.ahead.map_or_else(String::new, more));
        rests.push(("perhaps", format!("{}: the difference may be chance", named(&perhaps, name))));
    }
    if let Some(OtherPlace { place, best: other, .. }) = &advice.elsewhere {
        let found = match other.cache_bytes {
            Some(_) => format!("{}: {}", name(other), beside(judge, best, other)),
            None => "nothing is more than 1 % better than none".to_owned(),
        };
        rests.push((in_place(place), found));
    }
    if let Some(bare) = advice.bare.as_ref().filter(|_| best.cache_bytes.is_some()) {
        rests.push(("without any", beside(judge, best, bare)));
    }
    rests.push(("confidence", confidence(judge, advice)));
    rests.extend(advice.changed.iter().map(|changed| ("changed", changed.clone())));
    for AdviceDoubt { severity, kind, message, mend } in &advice.findings {
        let mend = mend.as_ref().map_or_else(String::new, |mend| format!("; try {mend}"));
        let name = match severity.as_str() {
            "void" => "void",
            "weak" => "weak",
            _ => "note",
        };
        rests.push((name, format!("{kind}: {message}{mend}")));
    }
    [asked, rests]
}

/// Writes the advice.
pub fn text(screen: &mut TerminalScreen, judge: RunJudge, advice: &TraceAdvice) -> io::Result<()> {
    let [asked, rests] = facts(judge, advice);
    let write =
        |screen: &mut TerminalScreen, (name, text): &(&str, String)| screen.paragraph(&format!("{name:12}"), text);
    asked.iter().try_for_each(|fact| write(screen, fact))?;
    writeln!(screen)?;
    rests.iter().try_for_each(|fact| write(screen, fact))?;
    writeln!(screen)?;
    sizes(screen, judge, advice)?;
    writeln!(screen)?;
    screen.paragraph("searched    ", &effort(advice))?;
    for (policies, why) in left_out(advice) {
        screen.paragraph("left out    ", &format!("{}: {why}", policies.join(", ")))?;
    }
    screen.paragraph("again       ", &advice.call)
}

/// Returns the same for the head of a page.
pub fn page(judge: RunJudge, advice: &TraceAdvice) -> PageAdvice {
    let [asked, rests] = facts(judge, advice);
    let (answer, rests) = rests.split_first().expect("the answer comes first");
    let facts = asked
        .into_iter()
        .chain(rests.iter().cloned())
        .chain([("searched", effort(advice)), ("again", advice.call.clone())]);
    let elsewhere = advice.elsewhere.as_ref().map(|other| &other.best);
    let contenders =
        [Some(&advice.best), advice.runner_up.as_ref(), elsewhere, advice.bare.as_ref(), advice.simplest.as_ref()];
    PageAdvice {
        headline: answer.1.clone(),
        facts: facts.map(|(name, text)| (name.to_owned(), text)).collect(),
        columns: size_columns(advice).map(str::to_owned).to_vec(),
        sizes: size_rows(judge, advice).map(|(cells, is_best)| (cells.to_vec(), is_best)).collect(),
        contenders: contenders.into_iter().flatten().map(|choice| choice.policy.clone()).collect(),
    }
}

/// Returns what the search cost, beside all pairs.
fn effort(advice: &TraceAdvice) -> String {
    let all = |policies: &[String], sizes: &[u64]| {
        let pairs = show_count((policies.len() * sizes.len()) as u64);
        let counted = |count: usize, one: &str, more: &str| format!("{count} {}", if count == 1 { one } else { more });
        let (policies, sizes) = (counted(policies.len(), "policy", "policies"), counted(sizes.len(), "size", "sizes"));
        format!("{policies} at {sizes}, which are {pairs}")
    };
    let own = all(&advice.policies, &advice.considered_bytes);
    let other = advice.elsewhere.as_ref();
    let other = other
        .map(|other| format!(", and {} {}", in_place(&other.place), all(&other.policies, &other.considered_bytes)));
    format!(
        "{} runs, as much work as {:.0} over the whole trace, in place of {own}{}",
        advice.runs,
        advice.work,
        other.unwrap_or_default()
    )
}

/// The policies that were not considered, those with the same reason together.
fn left_out(advice: &TraceAdvice) -> Vec<(Vec<&str>, String)> {
    let mut all: Vec<(Vec<&str>, String)> = Vec::new();
    for left in &advice.left_out {
        let why = left.why.replace(&format!("policy '{}' ", left.policy), "it ");
        match all.iter_mut().find(|(_, known)| *known == why) {
            Some((policies, _)) => policies.push(&left.policy),
            None => all.push((vec![&left.policy], why)),
        }
    }
    all
}

/// Returns what stands above the columns of the sizes.
fn size_columns(advice: &TraceAdvice) -> [&str; 5] {
    ["size", "% touched", "policy", &advice.objective, "beside it"]
}

/// Returns the best at each size, after what holds nothing, and whether it is what is advised.
fn size_rows(judge: RunJudge, advice: &TraceAdvice) -> impl Iterator<Item = ([String; 5], bool)> {
    advice.bare.iter().chain(&advice.sizes).map(move |choice| {
        let is_best = choice.cache_bytes == advice.best.cache_bytes;
        let of_touched = |bytes: u64| format!("{:.2}", 100.0 * bytes as f64 / advice.footprint_bytes.max(1) as f64);
        let none = || "-".to_owned();
        let cells = [
            choice.cache_bytes.map_or_else(none, show_size),
            choice.cache_bytes.map_or_else(none, of_touched),
            choice.policy.clone(),
            choice.value.map_or_else(none, |value| judge.told(value)),
            if is_best { "advised".to_owned() } else { choice.ahead.map_or_else(none, more) },
        ];
        (cells, is_best)
    })
}

/// Writes the best at each size.
fn sizes(screen: &mut TerminalScreen, judge: RunJudge, advice: &TraceAdvice) -> io::Result<()> {
    screen.paragraph("", "The best at each size that was simulated over the whole trace:")?;
    let [size, touched, policy, value, beside] = size_columns(advice);
    let mut table = TextTable::new([
        TextColumn::key(size),
        TextColumn::number(touched),
        TextColumn::word(policy),
        TextColumn::number(value),
        TextColumn::number(beside),
    ]);
    for (cells, is_best) in size_rows(judge, advice) {
        table.add(cells.map(|text| if is_best { TextCell::styled(text, ADVISED) } else { TextCell::from(text) }));
    }
    table.print(screen)
}
