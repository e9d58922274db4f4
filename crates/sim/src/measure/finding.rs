//! Defines warnings about a result, and the settings that would mend it.

use std::borrow::Cow;

use super::record;

/// Grades a warning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    /// Worth knowing; the figures stand.
    #[default]
    Note,
    /// Figures rest on less than they seem to.
    Weak,
    /// Figures that a reader looks for are no result.
    Void,
}

record! {
    /// Something that a reader of a result should know before believing it.
    pub struct RunFinding {
        kind: Cow<'static, str> ["-"] "what it is about, a word that stays the same: saturated, replay-delayed, few-requests, cold, never-full, no-collection, few-collections, nothing-ordered, unsteady, unmapped-reads, wrapped, left-out, cut-discards, compacted, reversed, clock-jumps, clock-wrapped, skipped, nothing, no-such-volume, failed-requests, unfinished-rebuild, parity-owed, shared-handles",
        severity: FindingSeverity ["-"] "note: the figures stand; weak: they rest on less than they seem to; void: response times, or all figures, are no result",
        message: String ["-"] "one sentence with the figures that it rests on",
        mend: Option<String> ["-"] "settings of `destage sim` that mend it; null where no setting does",
    }
}

impl RunFinding {
    /// Returns a note: the figures stand, but something is worth knowing.
    pub(crate) fn note(kind: &'static str, message: String) -> Self {
        Self { kind: kind.into(), severity: FindingSeverity::Note, message, mend: None }
    }

    /// Returns a warning that figures rest on less than they seem to.
    pub(crate) fn weak(kind: &'static str, message: String) -> Self {
        Self { severity: FindingSeverity::Weak, ..Self::note(kind, message) }
    }

    /// Returns a warning that the figures are no result.
    pub(crate) fn void(kind: &'static str, message: String) -> Self {
        Self { severity: FindingSeverity::Void, ..Self::note(kind, message) }
    }

    /// With what mends it.
    pub(crate) fn mended_by(self, mend: impl Into<String>) -> Self {
        Self { mend: Some(mend.into()), ..self }
    }
}

/// Shares as people read them: 12 %, 3.4 %, under 0.1 %.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.1 {
        "under 0.1 %".into()
    } else if percent < 9.95 && percent > 0.0 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}
