//! Naive models of the buffer policies, written from the specification alone: lists and rings are
//! `Vec`s, every search is linear, nothing is remembered that can be counted again.

mod arc;
mod block;
mod bplru;
mod cave;
mod cawr;
mod ccf_lru;
mod cflru;
mod clc;
mod clock;
mod fab;
mod fifo;
mod layers;
mod lb_clock;
mod lru;
mod lru_wsr;
mod none;
mod pud_lru;
mod queue;
mod recently_evicted;
mod s3_fifo;
mod two_q;

use std::cell::RefCell;
use std::collections::BTreeSet;

use destage_policy::buffer::{AccessOutcome, BufferConfig, BufferNotice, EvictionKind, PageAccess, WhenExhausted};

pub(crate) use block::Block;

/// A group of pages that leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) kind: EvictionKind,
    pub(crate) pages: Vec<u32>,
    /// Victim units that are complete with it.
    pub(crate) units: u32,
    /// The channel of each page, where the policy chooses.
    pub(crate) channels: Option<Vec<u16>>,
    pub(crate) background: bool,
}

impl Left {
    /// A unit that leaves in one group.
    pub(crate) fn unit(kind: EvictionKind, pages: &[u32]) -> Self {
        Self { kind, pages: pages.to_vec(), units: 1, channels: None, background: false }
    }

    /// Pages written at the same time, each a unit, through these channels.
    pub(crate) fn spread(kind: EvictionKind, pages: &[(u32, u16)]) -> Self {
        let (pages, channels): (Vec<_>, Vec<_>) = pages.iter().copied().unzip();
        Self { kind, units: pages.len() as u32, pages, channels: Some(channels), background: false }
    }

    /// A group that other groups of the same unit follow.
    pub(crate) fn part(kind: EvictionKind, pages: &[u32]) -> Self {
        Self { kind, pages: pages.to_vec(), units: 0, channels: None, background: false }
    }
}

/// Objections to victims, fixed for one access.
#[derive(Clone, Debug)]
pub(crate) struct Objections {
    /// First pages of the units that may not be evicted (for a page policy: the pages).
    pub(crate) units: BTreeSet<u32>,
    /// Selects the answer when no other victim is left.
    pub(crate) exhausted: WhenExhausted,
    /// The units refused, in the order in which the model met them.
    pub(crate) refused: RefCell<Vec<u32>>,
    /// Channels through which nothing may be programmed.
    pub(crate) channels: BTreeSet<u32>,
}

impl Objections {
    pub(crate) fn none() -> Self {
        Self {
            units: BTreeSet::new(),
            exhausted: WhenExhausted::TakeBase,
            refused: RefCell::default(),
            channels: BTreeSet::new(),
        }
    }

    pub(crate) fn to(&self, first: u32) -> bool {
        let refused = self.units.contains(&first);
        if refused {
            self.refused.borrow_mut().push(first);
        }
        refused
    }
}

/// A policy, naively.
pub(crate) trait Model {
    /// Accesses a page; what leaves is appended to `out`.
    fn access(&mut self, access: PageAccess, objections: &Objections, out: &mut Vec<Left>) -> AccessOutcome;
    /// Gives up one victim, as for a page that comes in; returns whether anything left.
    fn evict(&mut self, objections: &Objections, out: &mut Vec<Left>) -> bool {
        let _ = (objections, out);
        panic!("not modelled")
    }
    /// Takes a notice.
    fn notify(&mut self, notice: BufferNotice, out: &mut Vec<Left>);
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

/// A percentage with up to two decimals, hundredfold.
fn hundredths(percentage: &str) -> usize {
    (percentage.parse::<f64>().expect("a percentage") * 100.0).round() as usize
}

/// Lists each parameter of a policy with the values that tests try. Every value makes a difference somewhere, and the default is
/// among them. Parameters whose values tests choose more finely stand in the tests.
pub(crate) fn values(policy: &str) -> &'static [(&'static str, &'static [&'static str])] {
    match policy {
        "none" => &[],
        "lru" | "clock" | "fifo" | "arc" | "lru-wsr" => &[("reads", &["cache", "bypass"])],
        other => panic!("no values are listed for {other}"),
    }
}

/// Returns the values that [`values`] lists for one parameter.
pub(crate) fn values_of(policy: &str, key: &str) -> &'static [&'static str] {
    let row = values(policy).iter().find(|row| row.0 == key);
    row.unwrap_or_else(|| panic!("{policy}: no values of {key} are listed")).1
}

/// The model of `spec`.
pub(crate) fn model(spec: &str, config: BufferConfig) -> Box<dyn Model> {
    if spec.contains('+') {
        return layers::model(spec, config);
    }
    match spec.split(':').next() {
        Some("none") => Box::new(none::NoneModel),
        Some("lru") => Box::new(lru::LruModel::new(spec, config)),
        Some("clock") => Box::new(clock::ClockModel::new(spec, config)),
        Some("fifo") => Box::new(fifo::FifoModel::new(spec, config)),
        Some("2q") => Box::new(two_q::TwoQModel::new(spec, config)),
        Some("arc") => Box::new(arc::ArcModel::new(spec, config)),
        Some("s3-fifo") => Box::new(s3_fifo::S3FifoModel::new(spec, config)),
        Some("cflru") => Box::new(cflru::CflruModel::new(spec, config)),
        Some("lru-wsr") => Box::new(lru_wsr::LruWsrModel::new(spec, config)),
        Some("ccf-lru") => Box::new(ccf_lru::CcfLruModel::new(spec, config)),
        Some("ref") => Box::new(recently_evicted::RecentlyEvictedModel::new(spec, config)),
        Some("fab") => Box::new(fab::FabModel::new(spec, config)),
        Some("bplru") => Box::new(bplru::BplruModel::new(spec, config)),
        Some("clc") => Box::new(clc::ClcModel::new(spec, config)),
        Some("pud-lru") => Box::new(pud_lru::PudLruModel::new(spec, config)),
        Some("lb-clock") => Box::new(lb_clock::LbClockModel::new(spec, config)),
        Some("cave") => Box::new(cave::CaveModel::new(spec, config)),
        Some("cawr") => Box::new(cawr::CawrModel::new(spec, config)),
        other => panic!("there is no model of {other:?}"),
    }
}
