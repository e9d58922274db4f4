//! Settings of the deltas that some host-side caches keep in place of pages.

use destage_delta::lengths::DeltaLengthRule;
use destage_delta::patterns::ChangePattern;

use crate::quantity as q;
use crate::setting::declare_settings;
use crate::{AppliesTo, TypedSetting};

declare_settings! {
    /// Lists the settings of the table `[delta]`.
    pub(super) table KEYS;

    pub(crate) const LENGTH: TypedSetting<DeltaLengthRule> = TypedSetting::one(
        "delta.length",
        "LENGTH",
        "gaussian:25%",
        AppliesTo::Deltas,
        "How long deltas are: gaussian:MEAN or gaussian:MEAN,DEVIATION or fixed:LENGTH, of a page; or what changes, as runs:SHARE, one-run:SHARE, words:SHARE or bytes:SHARE",
        lengths,
    );
    pub(crate) const SEED: TypedSetting<u64> = TypedSetting::one(
        "delta.seed",
        "NUMBER",
        "1",
        AppliesTo::Deltas,
        "What the length of each delta depends on beside its page and version",
        q::count,
    );
}

/// Reads the lengths of deltas.
fn lengths(text: &str) -> std::result::Result<DeltaLengthRule, String> {
    const PATTERNS: [(&str, ChangePattern); 4] = [
        ("runs", ChangePattern::Runs),
        ("one-run", ChangePattern::OneRun),
        ("words", ChangePattern::Words),
        ("bytes", ChangePattern::Bytes),
    ];
    let right = |_| {
        "gaussian:25% or gaussian:25%,6.25% (mean and deviation of deltas, by the page), fixed:25%, or the share of a \
         page that changes, as runs:10%, one-run:10%, words:10% or bytes:10%; shares are at most 100%"
            .to_owned()
    };
    let (kind, shares) = text.split_once(':').ok_or_else(|| right(String::new()))?;
    if let Some(&(_, pattern)) = PATTERNS.iter().find(|(name, _)| *name == kind) {
        return Ok(DeltaLengthRule::Changes { pattern, changed: q::basis_points(shares).map_err(right)? });
    }
    match (kind, shares.split_once(',')) {
        ("fixed", None) => Ok(DeltaLengthRule::Fixed { share: q::basis_points(shares).map_err(right)? }),
        ("gaussian", None) => {
            let mean = q::basis_points(shares).map_err(right)?;
            Ok(DeltaLengthRule::Gaussian { mean, deviation: mean / 4 })
        }
        ("gaussian", Some((mean, deviation))) => Ok(DeltaLengthRule::Gaussian {
            mean: q::basis_points(mean).map_err(right)?,
            deviation: q::basis_points(deviation).map_err(right)?,
        }),
        _ => Err(right(String::new())),
    }
}
