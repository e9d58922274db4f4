//! Holds requests until they are issued: a host may have a limited number outstanding, and a device takes a
//! limited number of commands at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use destage_plan::Nanos;

use super::host::HostModel;
use crate::measure::RequestBacklog;

/// So many commands at a time, in the order in which they come.
#[derive(Clone, Debug)]
pub(crate) struct QueuePlaces {
    most: usize,
    /// Holds the times at which taken places become free.
    taken: BinaryHeap<Reverse<Nanos>>,
}

impl QueuePlaces {
    /// All free; `most` is at least 1.
    pub(crate) fn new(most: u32) -> Self {
        Self { most: most as usize, taken: BinaryHeap::new() }
    }

    /// Returns the time at which the next command gets a place: now, or when the first taken place becomes
    /// free. Time does not go back between calls.
    pub(crate) fn next(&mut self, now: Nanos) -> Nanos {
        // Completions are known when commands are issued, so a heap of end times is the whole queue.
        if self.taken.len() < self.most { now } else { self.taken.pop().map_or(now, |Reverse(free)| free.max(now)) }
    }

    /// Keeps the latest command's place until the command is done.
    pub(crate) fn keep_until(&mut self, done: Nanos) {
        self.taken.push(Reverse(done));
    }

    /// Gives back the places of what is done by `now`.
    fn free_until(&mut self, now: Nanos) {
        while self.taken.peek().is_some_and(|&Reverse(free)| free <= now) {
            self.taken.pop();
        }
    }
}

/// Bounds how many requests the host has outstanding, and knows which.
#[derive(Clone, Debug)]
enum HostBound {
    /// Bounds nothing.
    None,
    /// Keeps so many outstanding, whatever the trace's times.
    Closed(QueuePlaces),
    /// Has so many outstanding at most, at the trace's times, which are all `held` later by now.
    Bounded { places: QueuePlaces, held: Nanos },
}

/// A host whose requests are not issued as they come.
#[derive(Clone, Debug)]
pub(crate) struct HostQueue {
    host: HostBound,
    device: Option<QueuePlaces>,
    /// Holds the time at which the latest request came to the queue of the device; its response time begins
    /// there.
    arrived: Nanos,
}

impl HostQueue {
    /// The queue of a host over a device that takes `depth` commands at a time; `None` where
    /// nothing ever waits.
    pub(crate) fn new(host: HostModel, depth: Option<u32>) -> Option<Self> {
        let device = depth.map(QueuePlaces::new);
        let host = match host {
            // The common case has no queue at all and pays one test per request.
            HostModel::Open if device.is_none() => return None,
            HostModel::Open => HostBound::None,
            HostModel::Closed { depth } => HostBound::Closed(QueuePlaces::new(depth)),
            HostModel::Bounded { depth } => HostBound::Bounded { places: QueuePlaces::new(depth), held: Nanos::ZERO },
        };
        Some(Self { host, device, arrived: Nanos::ZERO })
    }

    /// Returns the arrival of the latest request.
    pub(crate) const fn arrived(&self) -> Nanos {
        self.arrived
    }

    /// Returns how long the trace's clock has stood still so far.
    pub(crate) const fn held(&self) -> Nanos {
        match self.host {
            HostBound::Bounded { held, .. } => held,
            HostBound::None | HostBound::Closed(_) => Nanos::ZERO,
        }
    }

    /// Returns the time at which the next request is issued, which the trace has at `time`.
    pub(crate) fn issue(&mut self, time: Nanos) -> Nanos {
        self.arrived = match &mut self.host {
            HostBound::None => time,
            // A closed loop ignores the trace's times: the next request comes when a place is free.
            HostBound::Closed(places) => places.next(self.arrived),
            HostBound::Bounded { places, held } => {
                let due = time + *held;
                places.free_until(due);
                let arrived = places.next(due);
                *held += arrived.since(due);
                arrived
            }
        };
        // The response time begins at the arrival, so that the wait for the device counts.
        self.device.as_mut().map_or(self.arrived, |places| places.next(self.arrived))
    }

    /// Takes note of when that request is done; returns how many were outstanding when it arrived.
    pub(crate) fn complete(&mut self, done: Nanos, backlog: &mut RequestBacklog) -> u64 {
        if let Some(places) = &mut self.device {
            places.keep_until(done);
        }
        match &mut self.host {
            HostBound::None => backlog.arrive(self.arrived, done),
            HostBound::Closed(places) => {
                places.keep_until(done);
                places.taken.len() as u64 - 1
            }
            HostBound::Bounded { places, .. } => {
                // Several may be done at the moment at which this one took the place of the first.
                places.free_until(self.arrived);
                let outstanding = places.taken.len() as u64;
                places.keep_until(done);
                outstanding
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue times of requests that arrive at the given times and take the given times from there
    /// on.
    fn issued(queue: &mut HostQueue, requests: &[(u64, u64)]) -> Vec<u64> {
        let mut backlog = RequestBacklog::new(100);
        let one = |&(time, service)| {
            let at = queue.issue(Nanos(time));
            queue.complete(at + Nanos(service), &mut backlog);
            at.0
        };
        requests.iter().map(one).collect()
    }

    #[test]
    fn nothing_waits_without_a_limit() {
        assert!(HostQueue::new(HostModel::Open, None).is_none());
    }

    #[test]
    fn a_full_device_takes_the_next_when_any_command_is_done() {
        let mut queue = HostQueue::new(HostModel::Open, Some(2)).unwrap();
        // The second is done first; the fourth, which would find the device idle alone, waits
        // behind the third.
        let requests = [(0, 100), (0, 30), (10, 500), (20, 1), (700, 1)];
        assert_eq!(issued(&mut queue, &requests), [0, 0, 30, 100, 700]);
        assert_eq!(queue.arrived(), Nanos(700));
    }

    #[test]
    fn a_closed_loop_is_bounded_by_the_device_too() {
        let closed = HostModel::Closed { depth: 3 };
        let requests = [(0, 10); 5];
        assert_eq!(issued(&mut HostQueue::new(closed, None).unwrap(), &requests), [0, 0, 0, 10, 10]);
        assert_eq!(issued(&mut HostQueue::new(closed, Some(8)).unwrap(), &requests), [0, 0, 0, 10, 10]);
        let mut queue = HostQueue::new(closed, Some(1)).unwrap();
        assert_eq!(issued(&mut queue, &requests), [0, 10, 20, 30, 40]);
        // The fifth came when the second was done, of three that were outstanding then.
        assert_eq!(queue.arrived(), Nanos(20));
    }

    #[test]
    fn a_bounded_queue_holds_up_the_trace_and_keeps_its_gaps() {
        // Each takes 10. The third of the burst waits for the first, the fourth for the second; the request that the trace has
        // 98 later comes 98 later.
        let requests = [(0, 10), (1, 10), (1, 10), (2, 10), (100, 10)];
        let mut queue = HostQueue::new(HostModel::Bounded { depth: 2 }, None).unwrap();
        assert_eq!(issued(&mut queue, &requests), [0, 1, 10, 11, 109]);
        assert_eq!(queue.held(), Nanos(9));
        // With one at a time: 9, 10 and 9 longer.
        let mut queue = HostQueue::new(HostModel::Bounded { depth: 1 }, None).unwrap();
        assert_eq!(issued(&mut queue, &requests), [0, 10, 20, 30, 128]);
        assert_eq!(queue.held(), Nanos(28));
        // It never fills.
        let mut queue = HostQueue::new(HostModel::Bounded { depth: 4 }, None).unwrap();
        assert_eq!(issued(&mut queue, &requests), [0, 1, 1, 2, 100]);
        assert_eq!(queue.held(), Nanos::ZERO);
    }

    #[test]
    fn a_bounded_queue_counts_what_waits_for_the_device() {
        // The device takes one at a time, and the host knows of two: the third arrives when the first is done.
        let mut queue = HostQueue::new(HostModel::Bounded { depth: 2 }, Some(1)).unwrap();
        assert_eq!(issued(&mut queue, &[(0, 10), (0, 10), (0, 10)]), [0, 10, 20]);
        assert_eq!((queue.arrived(), queue.held()), (Nanos(10), Nanos(10)));
    }
}
