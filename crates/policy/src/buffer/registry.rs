//! The one place where the policies and the layers around them are listed.

use destage_plan::{ParamSpec, Params, PolicySpec, SpecError, names, same_value};

use super::gcar::InnerPolicy;
use super::layers::{ComposedPolicy, LAYERS, LayerBase, LayerInfo};
use super::options::READS;
use super::padding::BlockPadding;
use super::policies::{NO_BUFFER, policies, with_type};
use super::{BufferConfig, BufferPolicy, PolicyError};

/// Selects the unit that a policy evicts at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionUnit {
    /// One page.
    Page,
    /// All buffered pages of a logical block.
    Block,
}

impl EvictionUnit {
    /// The word for tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Block => "block",
        }
    }
}

/// Describes a policy for `destage policies`.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInfo {
    /// The name on the command line.
    pub name: &'static str,
    /// The policy in one line.
    pub title: &'static str,
    /// Describes the policy in two or three sentences.
    pub about: &'static str,
    /// Names the source.
    pub paper: &'static str,
    /// Gives the year in which it was first published; 0 for no policy at all.
    pub year: u16,
    /// Selects the unit of eviction.
    pub unit: EvictionUnit,
    /// Is true if the policy chooses the channel through which each page is programmed.
    pub chooses_channels: bool,
    /// Lists the parameters.
    pub params: &'static [ParamSpec],
}

impl PolicyInfo {
    /// Is true if the policy has a size; only the one that holds no page has none.
    pub fn is_sized(&self) -> bool {
        self.name != NO_BUFFER
    }
}

/// A policy that can be built by name.
pub trait RegisteredPolicy: BufferPolicy + Sized + Send + 'static {
    /// Describes the policy.
    const INFO: PolicyInfo;

    /// Builds it; `params` holds every parameter that `INFO` declares.
    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError>;
}

/// Describes the result of [`build`] beside the buffer.
#[derive(Clone, Debug)]
pub struct BuiltPolicy {
    /// Is true if the policy has a size: it holds pages.
    pub is_sized: bool,
    /// Selects the unit of eviction.
    pub unit: EvictionUnit,
    /// Is true if the policy chooses the channel through which each page is programmed. The device must have
    /// write points per channel.
    pub chooses_channels: bool,
    /// Is true if the policy avoids elements that collect garbage. The device must have some.
    pub avoids_collection: bool,
    /// The parameters in force, of the outermost layer first.
    pub params: Vec<(&'static str, String)>,
}

/// Takes the policy that [`build`] made, with its type.
pub trait PolicyVisitor {
    /// Names the type of the visitor's result.
    type Out;
    /// Takes the policy.
    fn visit<B: BufferPolicy + Send + 'static>(self, buffer: B, built: BuiltPolicy) -> Self::Out;
}

/// Builds the policy that `spec` names, with its layers, and hands it to `visitor`.
pub fn build<V: PolicyVisitor>(spec: &PolicySpec, config: BufferConfig, visitor: V) -> Result<V::Out, PolicyError> {
    if config.capacity_pages == 0 {
        return Err(PolicyError::NoCapacity);
    }
    if config.pages_per_block == 0 {
        return Err(PolicyError::EmptyBlock);
    }
    if config.elements == 0 {
        return Err(PolicyError::NoElement);
    }
    let (layers, base) = parts(spec)?;
    let mut declared: Vec<_> = layers.iter().map(|layer| (layer.name, layer.params)).collect();
    // Layers come before the base, so that `PolicyConstruction` can split the base's parameters off the
    // end.
    declared.push((base.name, base.params));
    let params = Params::resolve(&declared, &settled(spec, &layers, base)?)?;
    let built = BuiltPolicy {
        is_sized: base.is_sized(),
        unit: layers.iter().fold(base.unit, |unit, layer| layer.unit.unwrap_or(unit)),
        chooses_channels: base.chooses_channels || layers.iter().any(|layer| layer.chooses_channels),
        avoids_collection: layers.iter().any(|layer| layer.avoids_collection),
        params: params.iter().flat_map(Params::iter).map(|(name, value)| (name, value.to_owned())).collect(),
    };
    with_type(base.name, PolicyConstruction { config, layers: &layers, params: &params, built, visitor })
        .unwrap_or_else(|| unreachable!("{} is listed and not built", base.name))
}

/// Takes the type of a policy.
pub(super) trait TypeVisitor {
    /// Is what becomes of the type.
    type Out;
    /// Takes the type.
    fn visit<P: RegisteredPolicy>(self) -> Self::Out;
}

/// Builds a policy and what is around it.
struct PolicyConstruction<'a, V> {
    config: BufferConfig,
    layers: &'a [&'static LayerInfo],
    /// Those of the layers, and behind them those of the policy.
    params: &'a [Params],
    built: BuiltPolicy,
    visitor: V,
}

impl<V: PolicyVisitor> TypeVisitor for PolicyConstruction<'_, V> {
    type Out = Result<V::Out, PolicyError>;

    fn visit<P: RegisteredPolicy>(self) -> Self::Out {
        let Self { config, layers, params, built, visitor } = self;
        let (own, around) = params.split_last().expect("a base");
        let policy = P::with_params(config, own)?;
        if layers.is_empty() {
            return Ok(visitor.visit(policy, built));
        }
        Ok(visitor.visit(ComposedPolicy::new(layers, around, config, P::INFO.unit, policy)?, built))
    }
}

/// Every layer that can be put around a policy.
pub fn layers() -> &'static [LayerInfo] {
    LAYERS
}

/// The policy of this name, without layers.
pub fn info(name: &str) -> Result<&'static PolicyInfo, SpecError> {
    policies().iter().find(|p| p.name == name).ok_or_else(|| {
        let known = policies().iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
        SpecError::Unknown { name: name.into(), known }
    })
}

/// `spec` with the names of policy and layers as they are listed, where what is given is
/// [like](names::called) one of them; other names are left as they are.
#[must_use]
pub fn canonical(spec: PolicySpec) -> PolicySpec {
    let mut parts: Vec<&str> = spec.name.split('+').map(str::trim).collect();
    let base = parts.pop().unwrap_or_default();
    let layers = parts.into_iter().map(|name| names::called(name, LAYERS.iter().map(|l| l.name)).unwrap_or(name));
    let base = names::called(base, policies().iter().map(|p| p.name)).unwrap_or(base);
    let name = layers.chain([base]).collect::<Vec<_>>().join("+");
    PolicySpec { name, ..spec }
}

/// The layers that `spec` names, the outermost first, and the policy inside, if they make sense
/// together.
fn parts(spec: &PolicySpec) -> Result<(Vec<&'static LayerInfo>, &'static PolicyInfo), SpecError> {
    let mut names: Vec<_> = spec.name.split('+').map(str::trim).collect();
    // The base is the last name: layers are written outside in.
    let base = info(names.pop().unwrap_or_default())?;
    let mut layers: Vec<&'static LayerInfo> = Vec::new();
    for name in names {
        let layer = LAYERS.iter().find(|layer| layer.name == name).ok_or_else(|| {
            let known = LAYERS.iter().map(|layer| layer.name).collect::<Vec<_>>().join(", ");
            SpecError::UnknownLayer { spec: spec.name.clone(), name: name.into(), known }
        })?;
        layers.push(layer);
    }
    let refuse = |reason: String| Err(SpecError::Composition { spec: spec.name.clone(), reason });
    for (i, layer) in layers.iter().enumerate() {
        if layers[..i].iter().any(|other| other.name == layer.name) {
            return refuse(format!("{} can be given only once", layer.name));
        }
        // Layers of equal depth decide the same thing; others work in one order only.
        if let Some(outer) = layers[..i].iter().find(|outer| outer.depth >= layer.depth) {
            return refuse(if outer.depth == layer.depth {
                format!("{} and {} both decide how many pages leave at once; choose one", outer.name, layer.name)
            } else {
                format!("{0} goes outside: {0}+{1}", layer.name, outer.name)
            });
        }
        if !base.is_sized() {
            return refuse(format!("{}: a policy that holds nothing evicts nothing", layer.name));
        }
        match (layer.over, base.unit) {
            (LayerBase::Pages, EvictionUnit::Block) => {
                return refuse(format!("{} is for page-level policies and {} evicts blocks", layer.name, base.name));
            }
            (LayerBase::Blocks, EvictionUnit::Page) => {
                return refuse(format!("{} is for block-level policies and {} evicts pages", layer.name, base.name));
            }
            _ => {}
        }
        if layer.chooses_channels && base.chooses_channels {
            return refuse(format!("{} and {} both choose channels; give one of them", layer.name, base.name));
        }
    }
    Ok((layers, base))
}

/// `spec` with the parameters of `base` that the layers settle, if what was given can hold.
fn settled(spec: &PolicySpec, layers: &[&LayerInfo], base: &PolicyInfo) -> Result<PolicySpec, SpecError> {
    let mut settled = spec.clone();
    for layer in layers {
        for &(key, value) in layer.settles.iter().filter(|(key, _)| base.params.iter().any(|p| p.name == *key)) {
            match spec.given.iter().find(|(given, _)| given == key) {
                None => settled.given.push((key.into(), value.into())),
                Some((_, given)) if same_value(given, value) => {}
                Some((_, given)) => {
                    let reason = format!("below {} there is only {key}={value}, not {given}", layer.name);
                    return Err(SpecError::Composition { spec: spec.name.clone(), reason });
                }
            }
        }
    }
    if layers.iter().any(|layer| layer.avoids_collection) {
        let inside = inside(&settled, layers, base);
        for (key, value) in &spec.given {
            if let Some((only, why)) = inside.instead_of(key, value) {
                let (_, around) = spec.name.split_once('+').unwrap_or_default();
                let reason = format!("around {} there is only {key}={only}, not {value}: {why}", around.trim());
                return Err(SpecError::Composition { spec: spec.name.clone(), reason });
            }
        }
    }
    Ok(settled)
}

/// Describes the policy inside the layers that avoid collections.
fn inside(settled: &PolicySpec, layers: &[&LayerInfo], base: &PolicyInfo) -> InnerPolicy {
    let padding = base.params.iter().find(|param| param.name == BlockPadding::PARAM.name);
    let given = settled.given.iter().find(|(key, _)| *key == BlockPadding::PARAM.name);
    InnerPolicy {
        chooses_channels: base.chooses_channels || layers.iter().any(|layer| layer.chooses_channels),
        // A block-level policy that buffers no reads is a write buffer.
        keeps_clean: base.unit == EvictionUnit::Page || base.params.iter().any(|param| param.name == READS.name),
        pads: padding.is_some_and(|param| given.map_or(param.default, |(_, value)| value) != "never"),
    }
}

impl LayerInfo {
    /// Is true if the layer can be put around the policy directly.
    pub fn goes_over(&self, policy: &PolicyInfo) -> bool {
        // The rules are asked with a composition, not repeated.
        let name = format!("{}+{}", self.name, policy.name);
        parts(&PolicySpec { name, given: Vec::new() }).is_ok()
    }
}
