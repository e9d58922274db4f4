//! Defines the layer's name and parameters, and which values can hold around which policy.

use destage_plan::{ParamSpec, same_value};

use super::super::{LayerBase, LayerInfo};

pub(super) const POOL: ParamSpec = ParamSpec {
    name: "gcar_pool",
    default: "unified",
    values: "unified (two pools, for reads and writes, would be two policies and not a layer around one)",
    unit: "-",
    help: "one pool for reads and writes",
};
pub(super) const ALL_GC: ParamSpec = ParamSpec {
    name: "gcar_all_gc",
    default: "base_victim",
    values: "base_victim, bypass, wait",
    unit: "-",
    help: "where all victims lie on avoided elements: the policy's own victim, none, or that one after a collection",
};
pub(super) const MAX_SHARE: ParamSpec = ParamSpec {
    name: "gcar_max_share",
    default: "1.0",
    values: "a share from 0 to 1",
    unit: "share of the capacity",
    help: "no element is avoided while pages of avoided elements take more of the buffer",
};
pub(super) const AFTER: ParamSpec = ParamSpec {
    name: "gcar_after",
    default: "free",
    values: "free, keep_clean",
    unit: "-",
    help: "whether pages written after a collection leave, or stay as clean where the policy keeps clean pages",
};
pub(super) const DESTAGE_SCOPE: ParamSpec = ParamSpec {
    name: "gcar_destage_scope",
    default: "deferred",
    values: "deferred, all_dirty_of_chip, none",
    unit: "-",
    help: "what is written after a collection: what was passed over, all dirty pages of the element, or nothing",
};
pub(super) const SOON_MARGIN: ParamSpec = ParamSpec {
    name: "gcar_soon_margin",
    default: "0",
    values: "a number of blocks; 0 is off",
    unit: "blocks",
    help: "an element is avoided ahead of its collection, from this many free blocks above those at which it begins",
};

/// Describes the layer.
pub(in crate::buffer) const GCAR: LayerInfo = LayerInfo {
    name: "gcar",
    title: "passes over what lies on elements that collect garbage",
    about: "What lies on an element that collects garbage would have to wait for that, so it stays in the buffer: it \
            is passed over, and the next victim of the policy inside leaves. What was passed over and is dirty is \
            written in the background after the collection.",
    paper: "GCaR, ICS 2016",
    over: LayerBase::Any,
    unit: None,
    chooses_channels: false,
    avoids_collection: true,
    depth: 0,
    settles: &[],
    params: &[POOL, ALL_GC, MAX_SHARE, AFTER, DESTAGE_SCOPE, SOON_MARGIN],
};

/// Describes the policy inside, as far as the layer's parameters depend on it.
#[derive(Clone, Copy, Debug)]
pub(in crate::buffer) struct InnerPolicy {
    /// The policy or a layer around it chooses channels.
    pub(in crate::buffer) chooses_channels: bool,
    /// The policy keeps clean pages.
    pub(in crate::buffer) keeps_clean: bool,
    /// Missing pages of victims are read and written with them.
    pub(in crate::buffer) pads: bool,
}

impl InnerPolicy {
    /// The only value that the parameter can hold here, and why, if `value` is not it.
    pub(in crate::buffer) fn instead_of(self, key: &str, value: &str) -> Option<(&'static str, &'static str)> {
        let placeless = "dirty pages that can go to any element are not deferred";
        let no_clean = "it keeps no clean pages";
        let only = match key {
            _ if key == AFTER.name && !self.keeps_clean => ("free", no_clean),
            _ if key == AFTER.name && self.chooses_channels => ("free", placeless),
            // A block may be passed over, and destaged later, for the sake of what is read for it.
            _ if key == DESTAGE_SCOPE.name && self.chooses_channels && !(self.pads && value == "none") => {
                ("deferred", placeless)
            }
            _ if key == MAX_SHARE.name && self.chooses_channels && !self.keeps_clean => ("1.0", no_clean),
            _ => return None,
        };
        (!same_value(only.0, value)).then_some(only)
    }
}
