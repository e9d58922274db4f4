//! Placeholders in the prose of papers' files: figures that are results. A figure stands in braces and is filled from the runs,
//! so that it cannot go stale; what is no result stands there after an equals sign.
//!
//! | in the text | becomes |
//! |---|---|
//! | `{L1a}` | the claim's improvement on the workload nearest to the paper's: *68 %* |
//! | `{L1a at four groups}` | the same under a variant |
//! | `{L1a on Exchange}` | the same on a workload by name, which the claim is tried on; `on` before `at` |
//! | `{claimed L1a}` | what is claimed |
//! | `{run response of lawc with 256KiB on Exchange at four groups}` | a figure of a run; `at` may be missing |
//! | `{=10 %}` | 10 %: a setting, or a figure of the paper |

use destage_scenario::{ScenarioError, quantity};

use crate::metric::ClaimMetric;
use crate::needed::needed;
use crate::paper::{PaperClaim, PaperFile, PaperVariant, WorkloadEntry};

/// Units that make a number a figure.
const UNITS: [&str; 6] = ["%", "points", "ms", "\u{b5}s", "us", "times"];

/// A part of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProsePart<'a> {
    Text(&'a str),
    /// Is no result, as the text itself says.
    Literal(&'a str),
    Claimed(&'a PaperClaim),
    Measured {
        claim: &'a PaperClaim,
        at: Option<&'a str>,
        on: Option<&'a str>,
    },
    Run {
        metric: &'static ClaimMetric,
        policy: &'a str,
        cache: u64,
        on: usize,
        at: &'a str,
    },
}

/// Checks that what stands in the braces of a paper's verdict and reasons is there and is run.
///
/// # Errors
/// If it is not so, with the text and the braces.
pub fn check(paper: &PaperFile) -> Result<(), ScenarioError> {
    let reasons = paper.reason.iter().map(|reason| (format!("reason \"{}\"", reason.id), &reason.text));
    for (place, text) in std::iter::once(("verdict".to_owned(), &paper.verdict)).chain(reasons) {
        parts(text, paper).map_err(|wrong| ScenarioError::new(wrong).at(place).at(&paper.name))?;
    }
    Ok(())
}

/// Lists figures outside of braces and of quotations, such as "68 %": nothing would notice if they were no results any more. What
/// stands in quotation marks is the paper's.
pub fn bare_figures<'a>(text: &'a str, paper: &'a PaperFile) -> Vec<&'a str> {
    let (mut found, mut is_quoted) = (Vec::new(), false);
    for part in parts(text, paper).into_iter().flatten() {
        let ProsePart::Text(text) = part else { continue };
        for (number, piece) in text.split('"').enumerate() {
            is_quoted ^= number > 0;
            if !is_quoted {
                found.extend(bare_figures_in(piece));
            }
        }
    }
    found
}

/// Cuts a text at its braces.
pub(crate) fn parts<'a>(text: &'a str, paper: &'a PaperFile) -> Result<Vec<ProsePart<'a>>, String> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(open) = rest.find('{') {
        let (before, from) = (&rest[..open], &rest[open + 1..]);
        let Some(close) = from.find('}') else {
            return Err(format!("\"{{{}\": a brace that is not closed", from.chars().take(30).collect::<String>()));
        };
        if !before.is_empty() {
            parts.push(ProsePart::Text(before));
        }
        let inside = &from[..close];
        match inside.strip_prefix('=') {
            Some(literal) => parts.push(ProsePart::Literal(literal)),
            None => parts.push(placeholder(inside, paper).map_err(|wrong| format!("{{{inside}}}: {wrong}"))?),
        }
        rest = &from[close + 1..];
    }
    if !rest.is_empty() {
        parts.push(ProsePart::Text(rest));
    }
    Ok(parts)
}

/// Reads what stands in braces.
fn placeholder<'a>(inside: &'a str, paper: &'a PaperFile) -> Result<ProsePart<'a>, String> {
    let claim_of =
        |id: &str| paper.claim.iter().find(|claim| claim.id == id).ok_or(format!("there is no claim \"{id}\""));
    if let Some(id) = inside.strip_prefix("claimed ") {
        return Ok(ProsePart::Claimed(claim_of(id)?));
    }
    let variants: Vec<_> = paper.variant.iter().map(|variant| variant.name.as_str()).collect();
    let workloads: Vec<_> = paper.workload.iter().map(|workload| workload.name.as_str()).collect();
    // Names may have these words in them: of claims the longest that begins the text is meant, of workloads and variants the longest
    // that ends it.
    let own = paper.claim.iter().filter(|claim| {
        let rest = inside.strip_prefix(claim.id.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" on ") || rest.starts_with(" at "))
    });
    let own = own.max_by_key(|claim| claim.id.len());
    let (begin, places) = own.map_or(("", inside), |claim| inside.split_at(claim.id.len()));
    let (what, at) = match cut_known(places, " on ", &workloads) {
        Some(_) => (places, None),
        None => cut(places, " at ", &variants),
    };
    let (what, on) = cut(what, " on ", &workloads);
    let what = if begin.is_empty() { what } else { begin };
    let entry = |name: &str| {
        let found = paper.workload.iter().position(|workload| workload.name == name);
        found.ok_or(format!("there is no workload \"{name}\""))
    };
    let Some(run) = what.strip_prefix("run ") else {
        let claim = claim_of(what)?;
        if at.is_some_and(|at| at != claim.at && !claim.also_at.iter().any(|other| other == at)) {
            return Err(format!("claim {what} is not tried under \"{}\"", at.unwrap_or_default()));
        }
        if let Some(name) = on {
            let workload = &paper.workload[entry(name)?];
            let is_about = |of: &String| workload.stands_for.contains(of);
            if claim.workloads().count() != 1 || !claim.workload.all().iter().all(is_about) {
                return Err(format!("claim {what} is not tried on \"{name}\" alone"));
            }
        }
        return Ok(ProsePart::Measured { claim, at, on });
    };
    let form = "a run is METRIC of POLICY with SIZE on WORKLOAD, and at VARIANT if that is not the paper's own";
    let (metric, policy) = run.split_once(" of ").ok_or(form)?;
    let (policy, cache) = policy.rsplit_once(" with ").ok_or(form)?;
    let metric = ClaimMetric::named(metric).ok_or(format!("there is no metric \"{metric}\""))?;
    let cache = quantity::bytes(cache).map_err(|right| format!("'{cache}': {right}"))?;
    let on = entry(on.ok_or(form)?)?;
    is_run(paper, &paper.workload[on], at, policy, cache)?;
    Ok(ProsePart::Run { metric, policy, cache, on, at: at.unwrap_or_default() })
}

/// Cuts a text where this word stands before one of these names at its end, the longest: names may have the word in them.
fn cut_known<'a>(text: &'a str, word: &str, names: &[&str]) -> Option<(&'a str, Option<&'a str>)> {
    let ends = names.iter().filter_map(|name| {
        let before = text.strip_suffix(name)?.strip_suffix(word)?;
        Some((before, Some(&text[text.len() - name.len()..])))
    });
    ends.min_by_key(|(before, _)| before.len())
}

/// Does the same; where no such name stands it cuts at the last word, so that an error names what follows.
fn cut<'a>(text: &'a str, word: &str, names: &[&str]) -> (&'a str, Option<&'a str>) {
    let last = || text.rsplit_once(word).map_or((text, None), |(before, after)| (before, Some(after)));
    cut_known(text, word, names).unwrap_or_else(last)
}

/// Checks that a run is one of those that claims, figures and values need.
fn is_run(
    paper: &PaperFile,
    workload: &WorkloadEntry,
    at: Option<&str>,
    policy: &str,
    cache: u64,
) -> Result<(), String> {
    let variant_of = |name: &str| paper.variant.iter().find(|variant| variant.name == name);
    let variant: Option<&PaperVariant> = match at {
        Some(name) => Some(variant_of(name).ok_or(format!("there is no variant \"{name}\""))?),
        None => None,
    };
    let (policies, caches) = needed(paper, workload, variant, 1);
    let is_needed = policies.iter().any(|needed| needed == policy) && caches.contains(&cache);
    if is_needed { Ok(()) } else { Err("neither a claim nor a figure has it run".to_owned()) }
}

/// Lists numbers that a unit of results follows.
fn bare_figures_in(text: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',');
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(at) = text[from..].find(|c: char| c.is_ascii_digit()) {
        let begin = from + at;
        let end = text[begin..].find(|c: char| !is_part(c)).map_or(text.len(), |len| begin + len);
        let after = text[end..].strip_prefix([' ', '\n', '\u{a0}']).unwrap_or(&text[end..]);
        let is_whole = |unit: &str| {
            let rest = after.strip_prefix(unit)?;
            (!rest.starts_with(char::is_alphanumeric)).then_some(text.len() - rest.len())
        };
        found.extend(UNITS.iter().find_map(|unit| is_whole(unit)).map(|until| &text[begin..until]));
        from = end;
    }
    found
}
