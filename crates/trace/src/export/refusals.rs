//! Lists the parts of a trace that a format cannot hold: each kind, its count, and the options with which the
//! trace can be written all the same.

use std::fmt;

use super::ExportSpec;
use super::fit::{FitRefusal, FormatLoss, UserLosses};

/// A kind of what the format cannot hold.
#[derive(Clone, Debug)]
struct RefusedKind {
    kind: FormatLoss,
    /// The number of the first such request in the trace, from 1.
    first: u64,
    /// Describes the part.
    what: String,
    count: u64,
}

/// Everything that a format cannot hold of a trace.
#[derive(Clone, Debug)]
pub struct ExportRefusals {
    spec: ExportSpec,
    /// Each kind once, in the order in which the trace has them.
    all: Vec<RefusedKind>,
    /// Holds the losses that the user accepts, with the refused ones added.
    losses: UserLosses,
    merge: bool,
}

impl ExportRefusals {
    pub(super) fn new(spec: &ExportSpec) -> Self {
        Self { spec: spec.clone(), all: Vec::new(), losses: spec.given_losses(), merge: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Takes note of a request.
    pub(super) fn add(&mut self, number: u64, refusal: FitRefusal) {
        let FitRefusal { kind, what } = refusal;
        if let Some(refused) = self.all.iter_mut().find(|refused| refused.kind == kind) {
            refused.count += 1;
        } else {
            kind.give_up(&mut self.losses, &mut self.merge);
            self.all.push(RefusedKind { kind, first: number, what, count: 1 });
        }
    }

    /// Sets the number of requests of each kind that was given up, once all are known.
    pub(super) fn count(&mut self, of: impl Fn(FormatLoss) -> u64) {
        for refused in self.all.iter_mut().filter(|refused| refused.kind != FormatLoss::Never) {
            refused.count = of(refused.kind);
        }
    }

    /// Returns the number of kinds.
    pub fn kinds(&self) -> usize {
        self.all.len()
    }

    /// The format with the options that write the trace, if there are such.
    pub fn remedy(&self) -> Option<String> {
        if self.all.iter().any(|refused| refused.kind == FormatLoss::Never) {
            return None;
        }
        let mut format = self.spec.with_losses(self.losses).to_string();
        if self.merge {
            format.push(if format.contains(':') { ',' } else { ':' });
            format.push_str("volumes=merge");
        }
        Some(format)
    }
}

impl fmt::Display for ExportRefusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.spec.id().name();
        let remedy = self.remedy();
        if let [RefusedKind { kind, first, what, count }] = &self.all[..] {
            write!(f, "request {first}: {what}")?;
            if let (Some(remedy), Some((_, purpose))) = (remedy, kind.option()) {
                write!(f, ", which {name} cannot hold; give {remedy} to {purpose}")?;
            }
            return if *count > 1 { write!(f, " ({count} requests are such)") } else { Ok(()) };
        }
        match remedy {
            Some(remedy) => write!(f, "{name} cannot hold all of this; give {remedy}, or some of these options")?,
            None => write!(f, "{name} cannot hold this, with whatever options")?,
        }
        for RefusedKind { kind, first, what, count } in &self.all {
            let others = match count - 1 {
                0 => String::new(),
                1 => ", as is another one".to_owned(),
                more => format!(", as are {more} more"),
            };
            let end = match kind.option() {
                Some((option, purpose)) => format!("{option} to {purpose}"),
                None => "no option helps".to_owned(),
            };
            write!(f, "\n  request {first} {what}{others}: {end}")?;
        }
        Ok(())
    }
}
