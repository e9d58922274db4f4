//! Writing back what was answered before an order to do so, whatever the thresholds say.

use destage_plan::NvSlot;

use super::WriteCache;
use super::places::in_group;
use super::store::{MemberPlace, VersionLayer};

/// What was answered before some moment, and is to be written back.
#[derive(Clone, Debug)]
pub(super) struct DrainMark {
    /// The number of the last version made before.
    pub(super) upto: u64,
    /// No slot before this one holds such a version.
    from: u32,
    /// Parity that was made since, of rows with such versions.
    parity: Vec<NvSlot>,
}

impl DrainMark {
    /// Of the versions up to this one.
    pub(super) const fn of(upto: u64) -> Self {
        Self { upto, from: 0, parity: Vec::new() }
    }
}

impl WriteCache {
    /// Versions that are to be written back came into the lower layer, with the parity of their row.
    pub(super) fn drains(&mut self, came: &[(MemberPlace, VersionLayer)]) {
        let Some(drain) = &mut self.drain else { return };
        for (place, layer) in came {
            let Some(slot) = self.store.in_layer(*place, *layer) else { continue };
            drain.from = drain.from.min(slot.index);
            if !self.geometry.data_set().contains(place.1) {
                drain.parity.push(slot);
            }
        }
    }

    /// Whether what was answered when that was ordered is on the members, or what can be of it.
    pub(super) fn is_drained(&mut self) -> bool {
        let Some(drain) = &mut self.drain else { return true };
        let (store, upper, geometry) = (&self.store, &self.upper, &self.geometry);
        // What cannot be written stays where it is.
        let is_parked = |place| upper.as_ref().is_some_and(|upper| upper.is_parked(in_group(geometry, place).0));
        let left = store.live_upto(drain.upto, drain.from, is_parked);
        drain.from = left.unwrap_or(store.slots());
        drain.parity.retain(|slot| store.is_live(*slot));
        // With more lost than the level can do without what is held stays where it is.
        let drained = left.is_none() && drain.parity.is_empty() || self.broken && self.jobs.iter().all(Option::is_none);
        if drained {
            self.drain = None;
        }
        drained
    }
}
