//! Naive models of the buffer policies, written from the specification alone: lists and rings are `Vec`s, every search
//! is linear, nothing is remembered that can be counted again.

#![allow(dead_code, reason = "each test binary compiles the models and uses its own part of them")]

mod block;
mod bplru;
mod clc;
mod clock;
mod fab;
mod lb_clock;
mod lru;
mod none;
mod pud_lru;

use std::collections::BTreeSet;

use destage_policy::buffer::{Access, BufferConfig, Exhausted, Kind, Notice, Outcome};

pub(crate) use block::Block;
pub(crate) use bplru::BplruModel;
pub(crate) use clc::ClcModel;
pub(crate) use clock::ClockModel;
pub(crate) use fab::FabModel;
pub(crate) use lb_clock::LbClockModel;
pub(crate) use lru::LruModel;
pub(crate) use none::NoneModel;
pub(crate) use pud_lru::PudLruModel;

/// A group of pages that leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) kind: Kind,
    pub(crate) pages: Vec<u32>,
    pub(crate) ends_unit: bool,
}

impl Left {
    /// A unit that leaves in one group.
    pub(crate) fn unit(kind: Kind, pages: &[u32]) -> Self {
        Self { kind, pages: pages.to_vec(), ends_unit: true }
    }

    /// A group that other groups of the same unit follow.
    pub(crate) fn part(kind: Kind, pages: &[u32]) -> Self {
        Self { kind, pages: pages.to_vec(), ends_unit: false }
    }
}

/// Objections to victims, fixed for one access.
#[derive(Clone, Debug)]
pub(crate) struct Objections {
    /// First pages of the units that may not be evicted (for a page policy: the pages).
    pub(crate) units: BTreeSet<u32>,
    /// What to do when nothing else is left.
    pub(crate) exhausted: Exhausted,
}

impl Objections {
    pub(crate) fn none() -> Self {
        Self { units: BTreeSet::new(), exhausted: Exhausted::TakeBase }
    }

    pub(crate) fn to(&self, first: u32) -> bool {
        self.units.contains(&first)
    }
}

/// A policy, naively.
pub(crate) trait Model {
    /// Accesses a page; what leaves is appended to `out`.
    fn access(&mut self, access: Access, objections: &Objections, out: &mut Vec<Left>) -> Outcome;
    /// Takes a notice.
    fn notify(&mut self, notice: Notice, out: &mut Vec<Left>);
    /// Pages held.
    fn len(&self) -> u32;
    /// Pages held that are dirty, ascending.
    fn dirty(&self) -> Vec<u32>;
    /// Memory accesses by specs §5.6.
    fn memory_accesses(&self) -> u64;
    /// The whole state, as the tables of the specification write it.
    fn state(&self) -> String;
}

/// `key`'s value in `name:key=value:…`, or `default`.
pub(crate) fn param<'a>(spec: &'a str, key: &str, default: &'a str) -> &'a str {
    spec.split(':').skip(1).filter_map(|part| part.split_once('=')).find(|(k, _)| *k == key).map_or(default, |(_, v)| v)
}

/// The switch `key` of `spec`.
pub(crate) fn switch(spec: &str, key: &str, default: bool) -> bool {
    match param(spec, key, if default { "true" } else { "false" }) {
        "true" | "on" => true,
        "false" | "off" => false,
        other => panic!("the model knows no {key}={other}"),
    }
}

/// The model of `spec`.
pub(crate) fn model(spec: &str, config: BufferConfig) -> Box<dyn Model> {
    match spec.split(':').next() {
        Some("none") => Box::new(NoneModel),
        Some("lru") => Box::new(LruModel::new(spec, config)),
        Some("clock") => Box::new(ClockModel::new(spec, config)),
        Some("fab") => Box::new(FabModel::new(spec, config)),
        Some("bplru") => Box::new(BplruModel::new(spec, config)),
        Some("clc") => Box::new(ClcModel::new(spec, config)),
        Some("pud-lru") => Box::new(PudLruModel::new(spec, config)),
        Some("lb-clock") => Box::new(LbClockModel::new(spec, config)),
        other => panic!("there is no model of {other:?}"),
    }
}
