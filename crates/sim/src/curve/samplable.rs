//! Decides which policies behave on a sample of the pages as on all of them.

use destage_plan::{PolicySpec, SpecError};
use destage_policy::buffer::{self, EvictionUnit, PolicyError};

use super::sample::SampledUnit;
use super::sampled::SampledError;

/// Policies and layers that cannot be sampled, and what they do.
const REFUSED: &[(&str, &str)] = &[
    ("none", "holds nothing at any size"),
    ("cave", "compares addresses, and the pages beside those of a sample are missing"),
    ("cawr", "compares addresses, and the pages beside those of a sample are missing"),
    ("gcar", "goes by the collections of a device, and there is none"),
    ("gate", "has room for a page of each channel, which does not shrink with the buffer"),
    ("ref", "has a number of victim blocks, which does not shrink with the buffer"),
];

/// Parameters that can be numbers of pages, blocks or accesses, and how values end that are not.
const ABSOLUTE: &[(&str, &str, &str)] =
    &[("clc", "si_max", "%"), ("pud-lru", "threshold", "mean"), ("cflru", "period", "capacity")];

/// Returns the unit of sampling for a policy: blocks if it evicts blocks, else pages.
///
/// # Errors
/// Refuses a policy whose decisions a sample would change.
pub(super) fn unit(spec: &PolicySpec) -> Result<SampledUnit, SampledError> {
    let refuse = |why: String| Err(SampledError::Refused { policy: spec.to_string(), why });
    let parts: Vec<&str> = spec.name.split('+').map(str::trim).collect();
    let base = parts.last().copied().unwrap_or_default();
    let info = buffer::info(base).map_err(|error: SpecError| PolicyError::from(error))?;
    if let Some((_, why)) = REFUSED.iter().find(|(name, _)| parts.contains(name)) {
        return refuse((*why).to_owned());
    }
    for (key, value) in &spec.given {
        let absolute = ABSOLUTE.iter().find(|(of, param, _)| *of == base && param == key);
        // A size in pages would be as large in the miniature as in the whole buffer.
        if absolute.is_some_and(|(.., relative)| !value.ends_with(relative)) {
            return refuse(format!("has {key} = {value}, which does not shrink with the buffer"));
        }
    }
    Ok(if info.unit == EvictionUnit::Block { SampledUnit::Block } else { SampledUnit::Page })
}
