//! Lists what is needed of a paper's runs: by its claims, its figures and the values that it prints.

use std::collections::BTreeSet;

use crate::figure::PaperFigure;
use crate::paper::{PaperFile, PaperVariant, WorkloadEntry};
use crate::several;

/// Returns the policies and buffer sizes that are needed of a workload under a variant with a seed; each with each is run. Seeds beyond the
/// paper's are those of claims that ask for more: what is needed with one is needed with all seeds before it.
pub(crate) fn needed(
    paper: &PaperFile,
    workload: &WorkloadEntry,
    variant: Option<&PaperVariant>,
    seed: u64,
) -> (Vec<String>, Vec<u64>) {
    let name = variant.map_or("", |variant| variant.name.as_str());
    let (mut policies, mut caches) = (BTreeSet::new(), BTreeSet::new());
    for claim in &paper.claim {
        let is_with_seed = seed <= claim.seeds.unwrap_or(paper.seeds);
        let is_for_new = claim.workload.all().iter().any(|of| workload.stands_for.contains(of));
        let is_for_than = claim.than_workload.as_ref().map_or(is_for_new, |of| workload.stands_for.contains(of));
        if !is_with_seed || !(is_for_new || is_for_than) {
            continue;
        }
        let relative = claim.relative_to.as_deref() == Some(name);
        // With a variant for `than` or as the reference there is no other to try the claim under.
        let tried = claim.variants().filter(|&at| at == name || claim.than_at(at) == name || relative);
        for at in tried {
            if is_for_new && (at == name || relative) {
                policies.extend(claim.new.all());
                caches.extend(claim.cache_bytes(at).map(|(new, _)| new));
            }
            if is_for_than && (claim.than_at(at) == name || relative) {
                policies.extend(claim.than.all());
                caches.extend(claim.cache_bytes(at).map(|(_, than)| than));
            }
        }
    }
    if seed > paper.seeds {
        let wanted = paper.policies.iter().filter(|policy| policies.contains(policy));
        return (wanted.cloned().collect(), caches.into_iter().collect());
    }
    for value in &paper.value {
        if value.at == name && workload.stands_for.contains(&value.workload) {
            policies.insert(&value.policy);
            caches.extend(several::bytes(std::slice::from_ref(&value.cache)));
        }
    }
    let of_workload = |figure: &&PaperFigure| figure.workload.all().iter().any(|of| workload.stands_for.contains(of));
    for (at, policy, cache) in paper.figure.iter().filter(of_workload).flat_map(PaperFigure::runs) {
        if at == name {
            policies.extend(paper.policies.iter().find(|known| *known == policy));
            caches.insert(cache);
        }
    }
    let figures = variant.map_or(&paper.policies, |variant| &variant.policies);
    if !paper.caches.is_empty() && !figures.is_empty() {
        policies.extend(figures);
        caches.extend(several::bytes(&paper.caches));
    }
    // The figures show every policy under the paper's own settings.
    let all = variant.is_none() && !caches.is_empty();
    let wanted = paper.policies.iter().filter(|policy| all || policies.contains(policy));
    (wanted.cloned().collect(), caches.into_iter().collect())
}
