//! Checks what users write on the command line.

use destage_plan::{Nanos, PolicySpec};
use destage_policy::buffer::{BufferConfig, BufferPolicy, BuiltPolicy, PolicyVisitor, build, info, layers};
use destage_scenario::quantity;
use destage_trace::FormatSpec;

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// A format that is understood comes back from what is shown of it.
pub(crate) fn format(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    match text.parse::<FormatSpec>() {
        // Results name their policies and formats by this text, and must be repeatable from it.
        Ok(spec) => assert_eq!(spec.to_string().parse(), Ok(spec.clone()), "{spec}"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A policy that is understood comes back from what is shown of it; with its parameters it is built
/// or refused.
pub(crate) fn policy(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    match text.parse::<PolicySpec>() {
        Ok(spec) => {
            assert_eq!(spec.to_string().parse(), Ok(spec.clone()), "{spec}");
            let config = BufferConfig { capacity_pages: 16, pages_per_block: 4, elements: 1 };
            let declared = spec.name.split('+').map(|part| declared(part.trim())).sum();
            if let Err(error) = build(&spec, config, Nothing { declared }) {
                assert!(!error.to_string().is_empty());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Parameters of a policy or a layer; none of what is neither.
fn declared(part: &str) -> usize {
    let layer = layers().iter().find(|layer| layer.name == part).map(|layer| layer.params.len());
    layer.or_else(|| info(part).ok().map(|policy| policy.params.len())).unwrap_or(0)
}

/// Looks at the policy and forgets it.
struct Nothing {
    /// Parameters that the parts of the composition declare.
    declared: usize,
}

impl PolicyVisitor for Nothing {
    type Out = ();

    fn visit<B: BufferPolicy + Send + 'static>(self, buffer: B, built: BuiltPolicy) {
        assert!(buffer.is_empty());
        assert_eq!(built.params.len(), self.declared);
    }
}

/// A quantity is read or refused; one that is shown can be read again.
pub(crate) fn quantities(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    if let Ok(n) = quantity::bytes(text) {
        assert_eq!(quantity::bytes(&quantity::show_bytes(n)), Ok(n));
    }
    if let Ok(n) = quantity::count(text) {
        assert_eq!(quantity::show_count(n).replace(',', ""), n.to_string());
        assert_eq!(quantity::count32(text).is_ok(), u32::try_from(n).is_ok());
    }
    if let Ok(time) = quantity::time(text) {
        assert!(time < Nanos(u64::MAX / 4));
        assert!(!quantity::show_time(time.0 as f64).is_empty());
    }
    if let Ok(share) = quantity::basis_points(text) {
        assert!(share <= 10_000);
    }
    if let Ok((times, per)) = quantity::factor(text) {
        assert!(times > 0 && per > 0);
    }
    // Every answer is valid here; only a panic would be wrong.
    let _ = (quantity::decimal(text, 1000), quantity::switch(text), destage_trace::parse_bytes("size", text));
}
