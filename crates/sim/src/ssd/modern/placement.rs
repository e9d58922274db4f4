//! Places what hosts write by stream, as `NVMe`'s Flexible Data Placement does (TP4146): a write names a placement handle, which
//! stands for a reclaim unit handle, which has a reclaim unit of its own open. A reclaim unit is a superblock, and a reclaim
//! unit handle is a write point. There is one reclaim group.

use destage_plan::PlacementStream;

use super::super::geometry::{CollectionPoint, SsdConfig};

/// Says how long a reclaim unit handle keeps its sectors apart from those of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandleIsolation {
    /// Keeps them apart until collection moves them: it puts the sectors of all handles into one reclaim unit.
    #[default]
    Initially,
    /// Keeps them apart for good: collection has a write point for each handle.
    Persistently,
}

impl HandleIsolation {
    /// Lists both.
    pub const ALL: [Self; 2] = [Self::Initially, Self::Persistently];

    /// Returns the word on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Initially => "initially",
            Self::Persistently => "persistently",
        }
    }
}

/// Holds the settings of flexible data placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementConfig {
    /// Counts the placement handles, each with a reclaim unit handle of its own.
    pub handles: u8,
    /// Selects how long these keep their sectors apart.
    pub isolation: HandleIsolation,
}

impl PlacementConfig {
    /// Limits the placement handles of a namespace.
    pub const MOST_HANDLES: u8 = 128;

    /// Returns the handles that are ever used: one for each stream at most.
    pub(super) fn used(self) -> u32 {
        u32::from(self.handles).min(PlacementStream::ALL.len() as u32)
    }
}

impl Default for PlacementConfig {
    /// Returns eight handles that are initially isolated, as the first drives with FDP have them.
    fn default() -> Self {
        Self { handles: 8, isolation: HandleIsolation::Initially }
    }
}

/// Returns how many write points a drive has: of hosts, and of all.
pub(super) fn write_points(ssd: &SsdConfig, placement: Option<PlacementConfig>) -> [u32; 2] {
    let hosts = placement.map_or(1, PlacementConfig::used);
    let collection =
        match (ssd.collection_write_point, placement.map_or(HandleIsolation::Initially, |own| own.isolation)) {
            (CollectionPoint::Shared, _) => 0,
            (CollectionPoint::Own, HandleIsolation::Initially) => 1,
            (CollectionPoint::Own, HandleIsolation::Persistently) => hosts,
        };
    [hosts, hosts + collection]
}

/// Tells what became of a stream that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedStream {
    /// Names the stream.
    pub stream: PlacementStream,
    /// Numbers the placement handle that it was written with.
    pub handle: u32,
    /// Counts the sectors that hosts wrote.
    pub written: u64,
    /// Counts the sectors that collection copied.
    pub copied: u64,
}

/// Marks a stream that was never written.
const NO_HANDLE: u32 = u32::MAX;

/// Gives streams placement handles, and remembers which sector is of which stream.
#[derive(Clone, Debug)]
pub(super) struct StreamPlacement {
    handles: u32,
    isolation: HandleIsolation,
    has_own_point: bool,
    /// Holds the handle of each stream.
    handle_of: [u32; PlacementStream::ALL.len()],
    /// Counts the labelled streams that have one.
    labelled: u32,
    /// Names the stream of the writes that come next.
    pub(super) stream: PlacementStream,
    /// Holds the stream of each sector when it was last written.
    streams: Vec<PlacementStream>,
    written: [u64; PlacementStream::ALL.len()],
    copied: [u64; PlacementStream::ALL.len()],
}

impl StreamPlacement {
    /// Returns the placement of a drive of so many sectors, of which nothing is labelled.
    pub(super) fn new(config: PlacementConfig, ssd: &SsdConfig, host_pages: u32) -> Self {
        let mut handle_of = [NO_HANDLE; PlacementStream::ALL.len()];
        // A write that names no placement handle goes to the first (TP4146).
        handle_of[PlacementStream::Unlabelled.index()] = 0;
        Self {
            handles: config.used(),
            isolation: config.isolation,
            has_own_point: ssd.collection_write_point == CollectionPoint::Own,
            handle_of,
            labelled: 0,
            stream: PlacementStream::Unlabelled,
            streams: vec![PlacementStream::Unlabelled; host_pages as usize],
            written: Default::default(),
            copied: Default::default(),
        }
    }

    /// Notes that a host writes a sector of the present stream. Streams get handles in the order in which they are first
    /// written, from the second on; those that come when all are given away share them, in turn.
    #[inline]
    pub(super) fn write(&mut self, sector: u32) {
        let stream = self.stream;
        if self.handle_of[stream.index()] == NO_HANDLE {
            self.labelled += 1;
            self.handle_of[stream.index()] = self.labelled % self.handles;
        }
        self.streams[sector as usize] = stream;
        self.written[stream.index()] += 1;
    }

    /// Returns the write point of a sector that a host wrote, or that collection copies.
    #[inline]
    pub(super) fn point(&self, sector: u32, of_host: bool) -> usize {
        let handle = self.handle_of[self.streams[sector as usize].index()];
        let point = match self.isolation {
            _ if of_host || !self.has_own_point => handle,
            HandleIsolation::Initially => self.handles,
            HandleIsolation::Persistently => self.handles + handle,
        };
        point as usize
    }

    /// Returns the write point of the first of some sectors that collection copies, and how many of them go there.
    pub(super) fn copies(&self, sectors: &[u32]) -> (usize, usize) {
        let point = self.point(sectors[0], false);
        (point, sectors.iter().take_while(|&&sector| self.point(sector, false) == point).count())
    }

    /// Counts sectors that collection has copied.
    pub(super) fn count_copies(&mut self, sectors: &[u32]) {
        for &sector in sectors {
            self.copied[self.streams[sector as usize].index()] += 1;
        }
    }

    /// Forgets what was counted.
    pub(super) fn reset_counters(&mut self) {
        (self.written, self.copied) = Default::default();
    }

    /// Returns the streams of which something was written or copied, in the order of their numbers.
    pub(super) fn streams(&self) -> impl Iterator<Item = PlacedStream> {
        let all = PlacementStream::ALL.into_iter().map(|stream| PlacedStream {
            stream,
            handle: self.handle_of[stream.index()],
            written: self.written[stream.index()],
            copied: self.copied[stream.index()],
        });
        all.filter(|own| own.written + own.copied > 0)
    }
}
