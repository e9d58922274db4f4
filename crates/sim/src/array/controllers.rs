//! The one place where the controllers of the host side are listed.

use std::str::FromStr;

use destage_cache::{CacheConfig, CacheStats, NoCache, WriteThrough};
use destage_plan::{Controller, ParamSpec, PolicySpec, SpecError};
use destage_raid::array::Array;

/// What `destage policies` says of a controller.
#[derive(Clone, Copy, Debug)]
pub struct ControllerInfo {
    /// Which.
    pub kind: ControllerKind,
    /// The name on the command line.
    pub name: &'static str,
    /// The controller in one line.
    pub title: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// Whether it needs a cache device.
    pub caches: bool,
    /// Its parameters.
    pub params: &'static [ParamSpec],
}

/// The controllers that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerKind {
    /// The array alone.
    None,
    /// A write-through cache.
    WriteThrough,
}

const WAYS: ParamSpec = ParamSpec {
    name: "ways",
    default: "512",
    values: "1 to 2^32 - 1",
    unit: "pages",
    help: "pages of a set; the data pages of a parity row fall into the same set",
};

/// All controllers.
pub const CONTROLLERS: &[ControllerInfo] = &[
    ControllerInfo {
        kind: ControllerKind::None,
        name: "none",
        title: "no cache: every request goes to the array",
        paper: "Nossd in KDD",
        caches: false,
        params: &[],
    },
    ControllerInfo {
        kind: ControllerKind::WriteThrough,
        name: "write-through",
        title: "set-associative LRU cache of copies: reads fill it, writes go to it and to the array",
        paper: "WT in KDD",
        caches: true,
        params: &[WAYS],
    },
];

impl ControllerKind {
    /// What it is.
    pub fn info(self) -> &'static ControllerInfo {
        CONTROLLERS.iter().find(|info| info.kind == self).expect("all are listed")
    }
}

/// A controller with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerSpec {
    /// Which.
    pub kind: ControllerKind,
    /// Pages of a cache set.
    pub ways: u32,
}

impl ControllerSpec {
    /// The parameters in force, by name.
    pub fn params(&self) -> Vec<(&'static str, String)> {
        match self.kind {
            ControllerKind::None => Vec::new(),
            ControllerKind::WriteThrough => vec![(WAYS.name, self.ways.to_string())],
        }
    }
}

impl FromStr for ControllerSpec {
    type Err = SpecError;

    /// `name` or `name:key=value`, as buffers are written.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        let spec: PolicySpec = text.parse()?;
        let known = || CONTROLLERS.iter().map(|info| info.name).collect::<Vec<_>>().join(", ");
        let info = CONTROLLERS
            .iter()
            .find(|info| info.name == spec.name)
            .ok_or_else(|| SpecError::Unknown { name: spec.name.clone(), known: known() })?;
        let mut ways = None;
        for (key, value) in &spec.given {
            if !info.params.iter().any(|param| param.name == key) {
                let names: Vec<_> = info.params.iter().map(|param| param.name).collect();
                let known =
                    if names.is_empty() { "it has none".into() } else { format!("it has {}", names.join(", ")) };
                return Err(SpecError::UnknownParam { policy: info.name.into(), key: key.clone(), known });
            }
            let parsed = value.parse().ok().filter(|&ways: &u32| ways > 0).ok_or_else(|| SpecError::Value {
                policy: info.name,
                key: WAYS.name,
                value: value.clone(),
                allowed: format!("a number of {}: {}", WAYS.unit, WAYS.values),
            })?;
            if ways.replace(parsed).is_some() {
                return Err(SpecError::Twice { policy: info.name, key: key.clone() });
            }
        }
        Ok(Self { kind: info.kind, ways: ways.unwrap_or(CacheConfig::WAYS) })
    }
}

/// A controller whose figures can be read.
pub trait Served: Controller + Send {
    /// The array below it.
    fn array(&self) -> &Array;
    /// What its cache had, if it has one.
    fn cache(&self) -> Option<&CacheStats>;
}

impl Served for NoCache {
    fn array(&self) -> &Array {
        self.array()
    }
    fn cache(&self) -> Option<&CacheStats> {
        None
    }
}

impl Served for WriteThrough {
    fn array(&self) -> &Array {
        self.array()
    }
    fn cache(&self) -> Option<&CacheStats> {
        Some(self.stats())
    }
}
