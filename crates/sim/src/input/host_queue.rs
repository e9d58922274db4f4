//! Where requests wait before they are issued: with a host in a closed loop, and before a device
//! that takes so many commands at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use destage_plan::Nanos;

use super::host::HostModel;
use crate::measure::Backlog;

/// So many commands at a time, in the order in which they come.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    most: usize,
    /// When the places that are taken become free.
    taken: BinaryHeap<Reverse<Nanos>>,
}

impl Places {
    /// All free; `most` is at least 1.
    pub(crate) fn new(most: u32) -> Self {
        Self { most: most as usize, taken: BinaryHeap::new() }
    }

    /// When the next command has its place: now, or when the first of those that are taken becomes
    /// free. Time does not go back between calls.
    pub(crate) fn next(&mut self, now: Nanos) -> Nanos {
        if self.taken.len() < self.most { now } else { self.taken.pop().map_or(now, |Reverse(free)| free.max(now)) }
    }

    /// That command keeps its place until it is done.
    pub(crate) fn keep_until(&mut self, done: Nanos) {
        self.taken.push(Reverse(done));
    }
}

/// A host whose requests are not issued as they come.
#[derive(Clone, Debug)]
pub(crate) struct HostQueue {
    closed: Option<Places>,
    device: Option<Places>,
    /// When the latest request came to the queue of the device; its response time begins there.
    arrived: Nanos,
}

impl HostQueue {
    /// The queue of a host over a device that takes `depth` commands at a time; `None` where
    /// nothing ever waits.
    pub(crate) fn new(host: HostModel, depth: Option<u32>) -> Option<Self> {
        let closed = match host {
            HostModel::Open => None,
            HostModel::Closed { depth } => Some(Places::new(depth)),
        };
        let device = depth.map(Places::new);
        (closed.is_some() || device.is_some()).then_some(Self { closed, device, arrived: Nanos::ZERO })
    }

    /// When the latest request arrived.
    pub(crate) const fn arrived(&self) -> Nanos {
        self.arrived
    }

    /// When the next request is issued, which the trace has at `time`.
    pub(crate) fn issue(&mut self, time: Nanos) -> Nanos {
        self.arrived = self.closed.as_mut().map_or(time, |places| places.next(self.arrived));
        self.device.as_mut().map_or(self.arrived, |places| places.next(self.arrived))
    }

    /// Takes note of when that request is done; returns how many were outstanding when it arrived.
    pub(crate) fn complete(&mut self, done: Nanos, backlog: &mut Backlog) -> u64 {
        if let Some(places) = &mut self.device {
            places.keep_until(done);
        }
        match &mut self.closed {
            None => backlog.arrive(self.arrived, done),
            Some(places) => {
                places.keep_until(done);
                places.taken.len() as u64 - 1
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
        let mut backlog = Backlog::new(100);
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
}
