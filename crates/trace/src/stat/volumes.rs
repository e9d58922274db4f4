//! Counts the traffic of each volume of a trace.

use std::cmp::Reverse;

use destage_plan::{Op, Request};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Counts the traffic of a volume. A sum that does not fit is `u64::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeTraffic {
    /// Numbers the volume, in order of first appearance.
    pub volume: u32,
    /// Requests of every kind.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
}

impl VolumeTraffic {
    /// Bytes read and written.
    pub const fn bytes(&self) -> u64 {
        self.read_bytes.saturating_add(self.write_bytes)
    }
}

/// Collects what the volumes of a trace are asked for; memory is proportional to the volumes.
#[derive(Clone, Debug, Default)]
pub struct VolumeStat {
    /// Maps each volume to its index in the list.
    places: HashMap<u32, usize, FixedState>,
    volumes: Vec<VolumeTraffic>,
    /// Holds the index of the latest request's volume.
    present: usize,
}

impl VolumeStat {
    /// Counts the trace's next requests.
    pub fn feed(&mut self, requests: &[Request]) {
        for request in requests {
            let known = self.volumes.get(self.present).is_some_and(|of| of.volume == request.volume);
            if !known {
                self.present = *self.places.entry(request.volume).or_insert_with(|| {
                    self.volumes.push(VolumeTraffic { volume: request.volume, ..VolumeTraffic::default() });
                    self.volumes.len() - 1
                });
            }
            let of = &mut self.volumes[self.present];
            of.requests += 1;
            match request.op {
                Op::Read => {
                    of.reads += 1;
                    of.read_bytes = of.read_bytes.saturating_add(request.len);
                }
                Op::Write => {
                    of.writes += 1;
                    of.write_bytes = of.write_bytes.saturating_add(request.len);
                }
                Op::Flush | Op::Discard => {}
            }
        }
    }

    /// The volumes, those of which most bytes are read and written first.
    pub fn finish(mut self) -> Vec<VolumeTraffic> {
        self.volumes.sort_by_key(|of| (Reverse(of.bytes()), of.volume));
        self.volumes
    }
}
