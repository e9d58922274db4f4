//! Why claims do not hold as stated, each on the workload that is nearest to the paper's.

use crate::prose;
use crate::reproduce::PaperReproduction;

/// Returns the reasons: the numbers of the claims that each explains, and its text as Markdown; at the end those for which
/// the paper's file has none.
pub fn reasons(reproduction: &PaperReproduction<'_>) -> Vec<(String, String)> {
    let nearest = reproduction.nearest();
    let short: Vec<_> = nearest.into_iter().filter(|finding| !finding.grade().is_whole()).map(|f| f.claim).collect();
    let paper = reproduction.paper;
    let explained = paper.reason.iter().map(|reason| {
        let claims = short.iter().filter(|claim| claim.why.contains(&reason.id)).map(|claim| claim.id.as_str());
        (claims.collect::<Vec<_>>().join(", "), prose::fill(reason.text.trim(), reproduction))
    });
    let open = short.iter().filter(|claim| claim.why.is_empty()).map(|claim| claim.id.as_str());
    let open = (open.collect::<Vec<_>>().join(", "), "No reason is given.".to_owned());
    explained.chain([open]).filter(|(claims, _)| !claims.is_empty()).collect()
}
