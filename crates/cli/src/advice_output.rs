//! Advice for people: what to use first, then why, what it costs and how far to trust it.

use std::io::{self, Write};

use destage_advise::{Advice, Choice, Half};
use destage_report::{Judge, ahead_of};
use destage_scenario::quantity::{show_bytes, show_count};

use crate::screen::Screen;
use crate::table::{Cell, Column, Table};

/// What is advised stands out.
const ADVISED: anstyle::Style = anstyle::Style::new().bold();

/// Policies that are named as being as good, at most.
const NAMED: usize = 5;

/// A policy with its size.
fn name(choice: &Choice) -> String {
    match choice.cache_bytes {
        Some(bytes) => format!("{} with {}", choice.policy, show_bytes(bytes)),
        None => choice.policy.clone(),
    }
}

/// How much more something costs.
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

/// How what is advised compares with another.
fn beside(judge: Judge, best: &Choice, other: &Choice) -> String {
    match (best.value, other.value) {
        (_, None) => "does not keep up with the requests".to_owned(),
        (None, Some(value)) => judge.told(value),
        _ if other.ahead == Some(0.0) => "the same".to_owned(),
        (Some(best), Some(value)) => format!("{}, so that this is {} that", judge.told(value), ahead_of(best, value)),
    }
}

/// What the halves say of the choice.
fn halves(judge: Judge, halves: &[Half]) -> String {
    let told = |value: Option<f64>| value.map_or_else(|| "no result".to_owned(), |value| judge.told(value));
    let each = halves
        .iter()
        .zip(["first", "second"])
        .map(|(half, which)| format!("{} against {} over the {which}", told(half.best), told(half.runner_up)));
    each.collect::<Vec<_>>().join(", ")
}

/// What the confidence rests on.
fn confidence(judge: Judge, advice: &Advice) -> String {
    let lost = advice.halves.iter().try_fold(0.0, |most: f64, half| Some(most.max(half.lost?)));
    let level = &*advice.confidence;
    let of_halves = match (advice.halves.is_empty(), lost) {
        (true, _) => "nothing else could be compared".to_owned(),
        (_, None) => "a half of the trace has no result".to_owned(),
        (_, Some(0.0)) => "either half of the trace alone would choose it over the runner-up".to_owned(),
        (_, Some(lost)) => format!("over one half of the trace the runner-up is better, by {}", percent(lost)),
    };
    let halves = if advice.halves.is_empty() { String::new() } else { format!(" ({})", halves(judge, &advice.halves)) };
    format!("{level}: {of_halves}{halves}")
}

/// The advice.
pub fn text(screen: &mut Screen, judge: Judge, advice: &Advice) -> io::Result<()> {
    let best = &advice.best;
    let share = |bytes: u64| percent(bytes as f64 / advice.footprint_bytes.max(1) as f64);
    let trace = format!(
        "{}: {} requests, which touch {}",
        advice.trace,
        show_count(advice.requests),
        show_bytes(advice.footprint_bytes)
    );
    screen.paragraph("trace       ", &trace)?;
    let order = if judge.is_more_better() { "highest" } else { "lowest" };
    let asked = format!("the {order} {} with up to {}", advice.objective, show_bytes(advice.budget_bytes));
    screen.paragraph("asked       ", &asked)?;
    writeln!(screen)?;
    let size = best.cache_bytes.map_or_else(String::new, |bytes| format!(", {} of what is touched", share(bytes)));
    screen.paragraph("advice      ", &format!("{}{size}", name(best)))?;
    if best.cache_bytes == Some(advice.budget_bytes) && advice.considered_bytes.len() > 1 {
        screen.paragraph("            ", "the largest that was considered: see what more would do with --budget")?;
    }
    if let Some(value) = best.value {
        screen.paragraph("gives       ", &format!("{} of {}", advice.objective, judge.told(value)))?;
    }
    if let Some(other) = &advice.runner_up {
        screen.paragraph("runner-up   ", &format!("{}: {}", other.policy, beside(judge, best, other)))?;
    }
    if !advice.ties.is_empty() {
        let named: Vec<_> = advice.ties.iter().take(NAMED).map(String::as_str).collect();
        let more = match advice.ties.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let ties = format!("{}{more}: the difference is below 1 %, or may be chance", named.join(", "));
        screen.paragraph("as good     ", &ties)?;
    }
    if let Some(bare) = &advice.bare {
        screen.paragraph("without any ", &beside(judge, best, bare))?;
    }
    screen.paragraph("confidence  ", &confidence(judge, advice))?;
    if let Some(changed) = &advice.changed {
        screen.paragraph("changed     ", changed)?;
    }
    for finding in &advice.findings {
        let mend = finding.mend.as_ref().map_or_else(String::new, |mend| format!("; try {mend}"));
        screen
            .paragraph(&format!("{:12}", finding.severity), &format!("{}: {}{mend}", finding.kind, finding.message))?;
    }
    writeln!(screen)?;
    sizes(screen, judge, advice)?;
    writeln!(screen)?;
    let pairs = advice.policies.len() * advice.considered_bytes.len();
    let effort = format!(
        "{} runs, as much work as {:.0} over the whole trace, in place of {} policies at {} sizes, which are {}",
        advice.runs,
        advice.work,
        advice.policies.len(),
        advice.considered_bytes.len(),
        show_count(pairs as u64)
    );
    screen.paragraph("searched    ", &effort)?;
    for (policies, why) in left_out(advice) {
        screen.paragraph("left out    ", &format!("{}: {why}", policies.join(", ")))?;
    }
    screen.paragraph("again       ", &advice.call)
}

/// The policies that were not considered, those with the same reason together.
fn left_out(advice: &Advice) -> Vec<(Vec<&str>, String)> {
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

/// The best at each size.
fn sizes(screen: &mut Screen, judge: Judge, advice: &Advice) -> io::Result<()> {
    screen.paragraph("", "The best at each size that was simulated over the whole trace:")?;
    let mut table = Table::new([
        Column::key("size"),
        Column::number("% touched"),
        Column::word("policy"),
        Column::number(&advice.objective),
        Column::number("beside it"),
    ]);
    for choice in &advice.sizes {
        let Some(bytes) = choice.cache_bytes else { continue };
        let is_best = choice.cache_bytes == advice.best.cache_bytes;
        let cell = |text: String| if is_best { Cell::styled(text, ADVISED) } else { Cell::from(text) };
        let of_touched = 100.0 * bytes as f64 / advice.footprint_bytes.max(1) as f64;
        table.add([
            cell(show_bytes(bytes)),
            cell(format!("{of_touched:.2}")),
            cell(choice.policy.clone()),
            cell(choice.value.map_or_else(|| "-".to_owned(), |value| judge.told(value))),
            cell(if is_best { "advised".to_owned() } else { choice.ahead.map_or_else(|| "-".to_owned(), more) }),
        ]);
    }
    table.print(screen)
}
