//! Replays a trace, for experiments over buffers and over arrays alike.

use destage_plan::PageGeometry;

use super::{DeviceCapacity, PassEnd, TraceReading};
use crate::input::{FeedBuilder, HostModel, LbaOverflow, PageSpace, PlaySpeed, TraceOps, VolumeSelection};
use crate::measure::{RecordedSetting, RunContext};

/// Selects the requests of a trace that take part, their arrival times and their addresses.
#[derive(Clone, Debug)]
pub struct TraceReplay {
    /// The trace as the user named it, for the results.
    pub trace: String,
    /// Page and block size.
    pub geometry: PageGeometry,
    /// Selects the size of the device, or of the array. A disk's size is fixed. Of an array's other members
    /// `member_bytes` sets the part in use, if it is given.
    pub capacity: DeviceCapacity,
    /// Treatment of addresses beyond the capacity.
    pub lba_overflow: LbaOverflow,
    /// Operations that take part.
    pub ops: TraceOps,
    /// Volumes that take part.
    pub volumes: VolumeSelection,
    /// Factor by which the trace is played faster.
    pub speed: PlaySpeed,
    /// At most so many requests are read.
    pub limit: Option<u64>,
    /// The settings as the user gave them, for the results.
    pub settings: Vec<(String, String)>,
}

impl TraceReplay {
    /// Replays all of the trace as it is, in pages of this geometry.
    pub fn whole(trace: impl Into<String>, geometry: PageGeometry) -> Self {
        Self {
            trace: trace.into(),
            geometry,
            capacity: DeviceCapacity::Given,
            lba_overflow: LbaOverflow::Wrap,
            ops: TraceOps::All,
            volumes: VolumeSelection::Each,
            speed: PlaySpeed::default(),
            limit: None,
            settings: Vec::new(),
        }
    }

    /// Returns how the trace is read.
    pub(crate) fn reading(&self) -> TraceReading<'_> {
        TraceReading { trace: &self.trace, limit: self.limit }
    }

    /// Returns what places the requests that take part in `space`.
    pub(crate) fn feeder(&self, space: PageSpace) -> FeedBuilder {
        FeedBuilder::new(space, self.ops, self.volumes.clone(), self.speed)
    }

    /// Has the trace lie so on a device that fits it.
    pub(crate) fn place(&mut self, lba_overflow: LbaOverflow) {
        self.lba_overflow = lba_overflow;
        for (_, value) in self.settings.iter_mut().filter(|(name, _)| name == "lba-overflow") {
            lba_overflow.word().clone_into(value);
        }
    }

    /// Returns what the result of a run tells of it beside its figures. `fits` are the settings with which all of the
    /// trace lies on the device; a host is timed if there are response times.
    pub(crate) fn context(
        &self,
        (host, is_timed): (HostModel, bool),
        warmup_requests: u64,
        end: &PassEnd,
        fits: &str,
    ) -> RunContext {
        RunContext {
            host: host.to_string(),
            settings: RecordedSetting::all(&self.settings),
            input: end.input(&self.trace),
            findings: end.findings(self.lba_overflow, fits, is_timed && host.keeps_arrivals()),
            warmup_requests,
            replay_delay: None,
        }
    }
}
