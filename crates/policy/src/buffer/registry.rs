//! The one place where the policies are listed.

use super::{
    Bplru, Buffer, BufferConfig, Bypass, Clc, Clock, Fab, LbClock, Lru, ParamSpec, Params, PolicyError, PolicySpec,
    PudLru,
};

/// What a policy evicts at once.
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

/// What `destage policies` says of a policy.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInfo {
    /// The name on the command line.
    pub name: &'static str,
    /// The policy in one line.
    pub title: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// What it evicts at once.
    pub unit: EvictionUnit,
    /// Its parameters.
    pub params: &'static [ParamSpec],
}

/// A policy that can be built by name.
pub trait Registered: Buffer + Sized + Send + 'static {
    /// What it is.
    const INFO: PolicyInfo;

    /// Builds it; `params` holds every parameter that `INFO` declares.
    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError>;
}

/// Takes the policy that [`build`] made, with its type.
pub trait Visitor {
    /// What becomes of it.
    type Out;
    /// Takes the policy.
    fn visit<B: Registered>(self, buffer: B, params: Params) -> Self::Out;
}

macro_rules! register {
    ($($policy:ty),+ $(,)?) => {
        /// Every policy, in the order of the documentation.
        pub fn policies() -> &'static [PolicyInfo] {
            const ALL: &[PolicyInfo] = &[$(<$policy>::INFO),+];
            ALL
        }

        /// Builds the policy that `spec` names and hands it to `visitor`.
        pub fn build<V: Visitor>(spec: &PolicySpec, config: BufferConfig, visitor: V) -> Result<V::Out, PolicyError> {
            if config.capacity_pages == 0 {
                return Err(PolicyError::NoCapacity);
            }
            if config.pages_per_block == 0 {
                return Err(PolicyError::EmptyBlock);
            }
            let info = info(&spec.name)?;
            let params = Params::resolve(info, spec)?;
            $(if info.name == <$policy>::INFO.name {
                return Ok(visitor.visit(<$policy>::with_params(config, &params)?, params));
            })+
            unreachable!("{} is listed and not built", info.name)
        }
    };
}

register!(Bypass, Lru, Clock, Fab, Bplru, Clc, PudLru, LbClock);

/// The policy of this name.
pub fn info(name: &str) -> Result<&'static PolicyInfo, PolicyError> {
    policies().iter().find(|p| p.name == name).ok_or_else(|| {
        let known = policies().iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
        PolicyError::Unknown { name: name.into(), known }
    })
}
