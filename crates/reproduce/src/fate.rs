//! How claims fare, each on the workload that is nearest to the paper's, and why some do not hold.

use crate::reproduce::{Finding, Holds, Reproduction};

/// What became of a claim, beside what it states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It holds in sign and in size.
    Size,
    /// It holds, and states no size.
    AsClaimed,
    /// It holds in sign, not in the size that it states.
    Sign,
    /// It holds at some buffer sizes.
    Part,
    /// It does not hold.
    Not,
    /// There is nothing to compare: no such trace, nothing evicted, a saturated device.
    Untried,
}

impl Fate {
    /// All of them, the best first.
    pub const ALL: [Self; 6] = [Self::Size, Self::AsClaimed, Self::Sign, Self::Part, Self::Not, Self::Untried];

    /// Of a finding.
    pub fn of(finding: &Finding<'_>) -> Self {
        match finding.holds() {
            Holds::NotRun | Holds::NothingToCompare => Self::Untried,
            Holds::InSize | Holds::InSign if !finding.claim.states_size() => Self::AsClaimed,
            Holds::InSize => Self::Size,
            Holds::InSign => Self::Sign,
            Holds::InPart => Self::Part,
            Holds::Not => Self::Not,
        }
    }

    /// In words.
    pub fn label(self) -> &'static str {
        match self {
            Self::Size => "in sign and in size",
            Self::AsClaimed => "in sign; no size is claimed",
            Self::Sign => "in sign, not in size",
            Self::Part => "in sign at some buffer sizes",
            Self::Not => "not",
            Self::Untried => "nothing to compare",
        }
    }

    /// Whether it holds in sign at every size.
    pub fn is_in_sign(self) -> bool {
        matches!(self, Self::Size | Self::AsClaimed | Self::Sign)
    }

    /// Whether nothing is left to explain.
    pub fn is_good(self) -> bool {
        matches!(self, Self::Size | Self::AsClaimed)
    }
}

/// The reasons why claims do not hold as stated: the numbers of those that each explains, and its
/// text as Markdown; at the end those for which the paper's file has none.
pub fn reasons<'a>(reproduction: &Reproduction<'a>) -> Vec<(String, &'a str)> {
    let nearest = reproduction.nearest();
    let short: Vec<_> = nearest.into_iter().filter(|finding| !Fate::of(finding).is_good()).map(|f| f.claim).collect();
    let paper = reproduction.paper;
    let explained = paper.reason.iter().map(|reason| {
        let claims = short.iter().filter(|claim| claim.why.contains(&reason.id)).map(|claim| claim.id.as_str());
        (claims.collect::<Vec<_>>().join(", "), reason.text.trim())
    });
    let open = short.iter().filter(|claim| claim.why.is_empty()).map(|claim| claim.id.as_str());
    let open = (open.collect::<Vec<_>>().join(", "), "No reason is given.");
    explained.chain([open]).filter(|(claims, _)| !claims.is_empty()).collect()
}
