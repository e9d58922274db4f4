//! Writing back what was answered before an order to do so, whatever the thresholds say.

use destage_plan::NvSlot;

use super::WriteCache;
use super::places::in_group;
use super::store::{MemberPlace, VersionLayer};

/// Marks versions that were answered before some moment and are to be written back.
#[derive(Clone, Debug)]
pub(super) struct DrainMark {
    /// The number of the last version made before.
    pub(super) upto: u64,
    /// No slot before this one holds such a version.
    // The search goes on from here: slots before it were found without such a
    // version.
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
            // A version that moves down keeps its number but takes another slot,
            // perhaps one that the search has passed.
            drain.from = drain.from.min(slot.index);
            if !self.geometry.data_set().contains(place.1) {
                // Parity made on the way has a newer number than what is drained,
                // so it is listed by itself.
                drain.parity.push(slot);
            }
        }
    }

    /// Returns true if everything that was answered when the drain was ordered is on the members, as far as
    /// that is possible.
    pub(super) fn is_drained(&mut self) -> bool {
        let Some(drain) = &mut self.drain else { return true };
        let (store, upper, geometry) = (&self.store, &self.upper, &self.geometry);
        // What cannot be written stays where it is.
        let is_parked = |place| upper.as_ref().is_some_and(|upper| upper.is_parked(in_group(geometry, place).0));
        let left = store.live_upto(drain.upto, drain.from, is_parked);
        // Without a version left the search starts after the last slot and ends at
        // once next time.
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
