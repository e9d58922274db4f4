//! Computes how long ready writes wait: a fixed time, or as long as recent collections took.

use destage_plan::{Dev, DeviceChange, Event, Nanos};

/// Before a collection was seen.
const AT_FIRST: Nanos = Nanos(10_000_000);
/// Whatever is seen.
// Bounds keep one strange collection from stopping the array, or from making the
// wait pointless.
const LEAST: Nanos = Nanos(10_000);
const MOST: Nanos = Nanos(1_000_000_000);
/// The weight of the mean so far; what is new has one.
const WEIGHT: u64 = 7;

/// Decides how long ready writes wait.
#[derive(Clone, Debug)]
pub(super) enum SyncTimeout {
    Fixed(Nanos),
    Observed(ObservedCollections),
}

/// Holds what devices have announced of their collections.
#[derive(Clone, Debug, Default)]
pub(super) struct ObservedCollections {
    /// The moving average of what they took.
    mean: Option<Nanos>,
    /// Those that have begun: the part of which device, and when.
    open: Vec<(Dev, u16, Nanos)>,
}

impl SyncTimeout {
    /// Returns the present timeout.
    pub(super) fn now(&self) -> Nanos {
        match self {
            Self::Fixed(timeout) => *timeout,
            Self::Observed(observed) => observed.mean.unwrap_or(AT_FIRST),
        }
    }

    /// Takes note of collections.
    pub(super) fn event(&mut self, now: Nanos, event: &Event<'_>) {
        let Self::Observed(observed) = self else { return };
        match *event {
            Event::DeviceGc { dev, unit, on, .. } => observed.collects(now, dev, unit, on),
            // Nobody says when what it began has ended.
            // A device that was lost, or replaced, never announces the end of what
            // it began.
            Event::Device { dev, change: DeviceChange::Failed | DeviceChange::Replaced } => {
                observed.open.retain(|open| open.0 != dev);
            }
            _ => {}
        }
    }
}

impl ObservedCollections {
    fn collects(&mut self, now: Nanos, dev: Dev, unit: u16, on: bool) {
        let begun = self.open.iter().position(|open| (open.0, open.1) == (dev, unit));
        match (begun, on) {
            (None, true) => self.open.push((dev, unit, now)),
            (Some(at), false) => {
                let (.., begin) = self.open.swap_remove(at);
                let took = Nanos(now.0.saturating_sub(begin.0)).clamp(LEAST, MOST);
                // A moving average with weights 7 to 1 forgets old collections
                // after some dozens.
                let mean = |mean: Nanos| Nanos((WEIGHT * mean.0 + took.0) / (WEIGHT + 1));
                self.mean = Some(self.mean.map_or(took, mean));
            }
            // It goes on, or began before it was listened to.
            (Some(_), true) | (None, false) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn observed() -> SyncTimeout {
        SyncTimeout::Observed(ObservedCollections::default())
    }

    fn collects(timeout: &mut SyncTimeout, now: u64, dev: u8, unit: u16, on: bool) -> u64 {
        timeout.event(Nanos(now), &Event::DeviceGc { dev: Dev(dev), unit, on, blocks: 2 });
        timeout.now().0
    }

    #[test]
    fn it_follows_what_collections_took() {
        let mut timeout = observed();
        assert_eq!(timeout.now(), Nanos(10 * MS), "none was seen");
        assert_eq!(collects(&mut timeout, 5 * MS, 0, 0, true), 10 * MS, "nor has one ended");
        assert_eq!(collects(&mut timeout, 6 * MS, 0, 1, true), 10 * MS);
        assert_eq!(collects(&mut timeout, 13 * MS, 0, 0, false), 8 * MS, "the first");
        assert_eq!(collects(&mut timeout, 22 * MS, 0, 1, false), 9 * MS, "an eighth of what is new");
        assert_eq!(collects(&mut timeout, 30 * MS, 0, 1, false), 9 * MS, "an end of none");
        assert_eq!(timeout.now(), Nanos(9 * MS));
    }

    #[test]
    fn what_a_device_began_that_was_lost_is_forgotten() {
        for change in [DeviceChange::Failed, DeviceChange::Replaced] {
            let mut timeout = observed();
            collects(&mut timeout, 0, 2, 0, true);
            collects(&mut timeout, 0, 3, 0, true);
            timeout.event(Nanos(MS), &Event::Device { dev: Dev(2), change });
            assert_eq!(collects(&mut timeout, 90 * MS, 2, 0, false), 10 * MS);
            assert_eq!(collects(&mut timeout, 20 * MS, 3, 0, false), 20 * MS);
        }
    }

    #[test]
    fn it_has_bounds() {
        let mut timeout = observed();
        collects(&mut timeout, 0, 0, 0, true);
        assert_eq!(collects(&mut timeout, 0, 0, 0, false), 10_000);
        collects(&mut timeout, 0, 0, 0, true);
        collects(&mut timeout, u64::MAX / 2, 0, 0, true);
        assert_eq!(collects(&mut timeout, u64::MAX, 0, 0, false), (7 * 10_000 + 1_000 * MS) / 8);
    }

    #[test]
    fn one_that_is_given_stays() {
        let mut timeout = SyncTimeout::Fixed(Nanos(3));
        collects(&mut timeout, 0, 0, 0, true);
        assert_eq!(collects(&mut timeout, 90, 0, 0, false), 3);
    }
}
