//! Devices of an array in virtual time: what is submitted completes later, or at once, and says
//! when.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use destage_plan::{Element, Nanos, PageNo, PlacementStream, Quota, SECTOR_BYTES};
use destage_policy::buffer::DeviceView;

use super::collections::{CollectionNotice, DeviceAnnouncements};
use super::counters::counters;
use super::drive_cache::{DriveCache, DriveCacheSetup, ToMedium};
use super::streams::StreamWork;
use crate::disk::{DiskCommand, DiskOp, SimulatedDisk};
use crate::input::QueuePlaces;
use crate::ssd::{Ssd, SsdShape, StartState};

/// Lists the operations of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceOp {
    /// Reads pages.
    Read,
    /// Writes pages. They may be in a volatile cache when it is done, if the device has one.
    Write,
    /// Writes pages, durably.
    WriteFua,
    /// Completes when everything that was done before is durable.
    Flush,
    /// Forgets pages.
    Trim,
    /// Collects garbage.
    Collect(Quota),
}

/// A device that takes the same time for every command, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FixedTimes {
    /// A read.
    pub read: Nanos,
    /// A write.
    pub write: Nanos,
    /// A flush or a trim.
    pub other: Nanos,
    /// Each page of a read or write, on top.
    pub page: Nanos,
}

/// An SSD that stripes the pages of a command over its elements: done when the last of them is.
#[derive(Clone, Debug)]
struct ElementSsd {
    ssd: Ssd,
    due: BinaryHeap<Reverse<DueCompletion>>,
    submitted: u64,
    /// Limits the commands that the SSD has at a time; none means no limit.
    places: Option<QueuePlaces>,
    /// Time in service of commands that were submitted, and of those that completed.
    charged: Nanos,
    busy: Nanos,
    /// Collections that there were.
    collections: u64,
    /// The latest completion of all.
    latest: Nanos,
    /// Holds the time for which the latest completed command waited for collections.
    waited: Nanos,
    /// Holds the notices that the device will give about its collections.
    announcements: DeviceAnnouncements,
}

/// A completion to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DueCompletion {
    at: Nanos,
    /// The order of submission.
    order: u64,
    tag: u32,
    /// The time that the command took in service.
    service: Nanos,
    /// Holds the time for which the command waited for collections.
    waited: Nanos,
}

#[derive(Clone, Debug)]
struct FixedDevice {
    times: FixedTimes,
    pages: u64,
    busy_until: Nanos,
    /// Time in service of commands that completed.
    busy: Nanos,
    /// Completions with the tag and the time in service.
    due: VecDeque<(Nanos, u32, Nanos)>,
}

/// A device in virtual time.
#[derive(Clone, Debug)]
pub struct VirtualDevice {
    model: DeviceModel,
    cache: Option<Box<DriveCache>>,
    /// Holds the commands that the cache sends to the model.
    to_medium: Vec<ToMedium>,
    /// Holds the time for which the latest completed command waited for collections.
    waited: Nanos,
}

#[derive(Clone, Debug)]
enum DeviceModel {
    Disk {
        disk: Box<SimulatedDisk>,
        /// By how much its platters are ahead.
        phase: Nanos,
        sectors_per_page: u32,
    },
    Flash(Box<ElementSsd>),
    Fixed(FixedDevice),
}

counters! {
    /// Counts the work of a disk.
    pub struct DiskWork or null as DiskResult {
        seeks ["1"] "moves of the arm to another cylinder; null if it is not a disk",
        seek_time ["ns"] "time of these moves; null if it is not a disk",
        rotation_time ["ns"] "waits for sectors to come round; null if it is not a disk",
        transfer_time ["ns"] "sectors passing under the head; null if it is not a disk",
    }
}

counters! {
    /// Counts the work of an SSD.
    pub struct FlashWork or null as FlashResult {
        flash_writes ["1"] "pages programmed, for whatever reason; null if it is not an SSD",
        erases ["1"] "blocks erased; null if it is not an SSD",
        ordered_erases ["1"] "those of them because the SSD was told to collect; null if it is not an SSD",
        gc_invocations ["1"] "collections of elements, of a log-block FTL reclaimed log blocks; null if it is not an SSD",
        gc_pages_moved ["1"] "valid pages copied by collections and merges; null if it is not an SSD",
        switch_merges ["1"] "merges without copies, of a log-block FTL; null if it is not an SSD",
        partial_merges ["1"] "merges that completed a log block, of a log-block FTL; null if it is not an SSD",
        full_merges ["1"] "merges into a clean block, of a log-block FTL; null if it is not an SSD",
        gc_time ["ns"] "time of collections, summed over the elements; null if it is not an SSD",
        unmapped_reads ["1"] "pages read that the SSD does not hold (never written, or trimmed): no flash operation, no time; null if it is not an SSD",
    }
}

/// Counts the work of a device, as far as its model tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelCounts {
    /// Time in service of commands that completed, summed over the parts that work in parallel.
    pub busy: Nanos,
    /// Counts the work of a disk; zero for other devices.
    pub disk: DiskWork,
    /// Counts the work of an SSD; zero for other devices.
    pub flash: FlashWork,
    /// Holds the work by stream, if the device keeps streams apart.
    pub streams: StreamWork,
}

impl ModelCounts {
    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            busy: self.busy + other.busy,
            disk: self.disk.plus(&other.disk),
            flash: self.flash.plus(&other.flash),
            streams: self.streams.plus(&other.streams),
        }
    }

    /// Returns the counts since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            busy: self.busy.since(earlier.busy),
            disk: self.disk.since(&earlier.disk),
            flash: self.flash.since(&earlier.flash),
            streams: self.streams.since(&earlier.streams),
        }
    }
}

impl VirtualDevice {
    const fn of(model: DeviceModel) -> Self {
        Self { model, cache: None, to_medium: Vec::new(), waited: Nanos::ZERO }
    }

    /// The same with a volatile write cache in front of its medium.
    #[must_use]
    pub fn with_cache(self, setup: DriveCacheSetup) -> Self {
        Self { cache: Some(Box::new(DriveCache::new(setup))), ..self }
    }

    /// Is true if the device has a volatile write cache.
    pub(super) const fn has_cache(&self) -> bool {
        self.cache.is_some()
    }

    /// Pages of writes that were answered from its volatile cache.
    pub fn pages_cached(&self) -> u64 {
        self.cache.as_ref().map_or(0, |cache| cache.pages_cached)
    }

    /// A disk with pages of so many bytes, whose platters are `phase` ahead of those of a disk
    /// alone.
    pub fn disk(disk: SimulatedDisk, page_bytes: u64, phase: Nanos) -> Self {
        let sectors_per_page = (page_bytes / SECTOR_BYTES) as u32;
        Self::of(DeviceModel::Disk { disk: Box::new(disk), phase, sectors_per_page })
    }

    /// An SSD.
    pub fn ssd(ssd: Ssd) -> Self {
        let total = ssd.total();
        let places = ssd.shape().config.queue_depth.map(QueuePlaces::new);
        let mut ssd = ssd;
        ssd.note_collections();
        let flash = ElementSsd {
            announcements: DeviceAnnouncements::new(ssd.elements()),
            ssd,
            due: BinaryHeap::new(),
            submitted: 0,
            places,
            charged: total.busy_time,
            busy: Nanos::ZERO,
            collections: total.gc_invocations,
            latest: Nanos::ZERO,
            waited: Nanos::ZERO,
        };
        Self::of(DeviceModel::Flash(Box::new(flash)))
    }

    /// A new SSD of this shape.
    pub fn new_ssd(shape: SsdShape, start: StartState) -> Self {
        Self::ssd(Ssd::new(shape, start))
    }

    /// A device of so many pages with constant times.
    pub fn fixed(times: FixedTimes, pages: u64) -> Self {
        Self::of(DeviceModel::Fixed(FixedDevice {
            times,
            pages,
            busy_until: Nanos::ZERO,
            busy: Nanos::ZERO,
            due: VecDeque::new(),
        }))
    }

    /// Is true if the device gives notice of its collections and can be told to collect.
    pub fn is_collector(&self) -> bool {
        self.as_ssd().is_some_and(Ssd::can_collect)
    }

    /// Has it say when an element comes down to so many hundredths of a percent of free blocks; of no meaning
    /// to what does not collect.
    #[must_use]
    pub fn with_warning(mut self, free_bp: u32) -> Self {
        if let DeviceModel::Flash(flash) = &mut self.model {
            let shape = flash.ssd.shape();
            let blocks = u64::from(shape.pools) * u64::from(shape.pool_blocks);
            flash.announcements.warn_at((blocks * u64::from(free_bp) / 10_000) as u32);
        }
        self
    }

    /// Returns the time of the next notice about collections.
    #[inline]
    pub(super) fn next_announcement(&self) -> Option<Nanos> {
        match &self.model {
            DeviceModel::Flash(flash) => {
                let slice = flash.ssd.next_slice_notice();
                flash.announcements.next().map_or(slice, |next| Some(slice.map_or(next, |slice| slice.min(next))))
            }
            DeviceModel::Disk { .. } | DeviceModel::Fixed(_) => None,
        }
    }

    /// Takes what it says at `now`, which is that time; none if reads have delayed what it was about.
    pub(super) fn announce(&mut self, now: Nanos) -> Option<CollectionNotice> {
        let DeviceModel::Flash(flash) = &mut self.model else { return None };
        if flash.announcements.next().is_some_and(|next| next <= now) {
            return flash.announcements.take();
        }
        let (_, is_begin) = flash.ssd.take_slice_notice(now)?;
        Some(if is_begin { CollectionNotice::SliceBegins } else { CollectionNotice::SliceEnds })
    }

    /// Returns the time for which the latest completed command waited for elements that collected.
    pub(super) const fn waited(&self) -> Nanos {
        self.waited
    }

    /// Pages that it holds.
    pub fn pages(&self) -> u64 {
        match &self.model {
            DeviceModel::Disk { disk, sectors_per_page, .. } => disk.sectors() / u64::from(*sectors_per_page),
            DeviceModel::Flash(flash) => u64::from(flash.ssd.shape().host_pages),
            DeviceModel::Fixed(fixed) => fixed.pages,
        }
    }

    /// The disk, if it is one.
    pub fn as_disk(&self) -> Option<&SimulatedDisk> {
        match &self.model {
            DeviceModel::Disk { disk, .. } => Some(disk),
            DeviceModel::Flash(_) | DeviceModel::Fixed(_) => None,
        }
    }

    /// The SSD, if it is one.
    pub fn as_ssd(&self) -> Option<&Ssd> {
        match &self.model {
            DeviceModel::Flash(flash) => Some(&flash.ssd),
            DeviceModel::Disk { .. } | DeviceModel::Fixed(_) => None,
        }
    }

    /// Returns true if it keeps streams of writes apart.
    pub(super) fn heeds_streams(&self) -> bool {
        self.as_ssd().is_some_and(Ssd::has_placement)
    }

    /// Parts that work in parallel: [`ModelCounts::busy`] is summed over them.
    pub fn parallelism(&self) -> u32 {
        match &self.model {
            DeviceModel::Disk { .. } | DeviceModel::Fixed(_) => 1,
            DeviceModel::Flash(flash) => {
                let config = &flash.ssd.shape().config;
                config.elements * if config.copy_back { config.lanes } else { 1 }
            }
        }
    }

    /// Returns the counts of the model since it was new.
    pub fn counts(&self) -> ModelCounts {
        match &self.model {
            DeviceModel::Disk { disk, .. } => {
                let stats = disk.stats();
                let disk = DiskWork {
                    seeks: stats.seeks,
                    seek_time: stats.seek.0,
                    rotation_time: stats.rotation.0,
                    transfer_time: stats.transfer.0,
                };
                ModelCounts { busy: stats.busy, disk, ..ModelCounts::default() }
            }
            DeviceModel::Flash(flash) => {
                let total = flash.ssd.total();
                let work = FlashWork {
                    flash_writes: total.flash_writes(),
                    erases: total.erases,
                    ordered_erases: total.ordered_erases,
                    gc_invocations: total.gc_invocations,
                    gc_pages_moved: total.gc_pages_moved,
                    switch_merges: total.switch_merges,
                    partial_merges: total.partial_merges,
                    full_merges: total.full_merges,
                    gc_time: total.gc_time.0,
                    unmapped_reads: total.unmapped_reads,
                };
                let streams = StreamWork::of(&flash.ssd);
                ModelCounts { busy: flash.busy, flash: work, streams, ..ModelCounts::default() }
            }
            DeviceModel::Fixed(fixed) => ModelCounts { busy: fixed.busy, ..ModelCounts::default() },
        }
    }

    /// Accepts a command for `pages` pages from `first` on (of no meaning to a flush); `tag`, less
    /// than 2³¹, comes back with the completion.
    ///
    /// # Panics
    /// If the pages are not on the device, or time goes back.
    #[inline]
    pub fn submit(&mut self, now: Nanos, op: DeviceOp, first: u64, pages: u32, tag: u32) {
        self.submit_placed(now, op, first, pages, PlacementStream::Unlabelled, tag);
    }

    /// Does as [`submit`](Self::submit), of a write that belongs to a stream.
    #[inline]
    pub(super) fn submit_placed(
        &mut self,
        now: Nanos,
        op: DeviceOp,
        first: u64,
        pages: u32,
        stream: PlacementStream,
        tag: u32,
    ) {
        let command = ToMedium { op, first, pages, tag, stream };
        match &mut self.cache {
            None => self.model.submit(now, command),
            Some(cache) => {
                cache.submit(now, command, &mut self.to_medium);
                self.carry_out(now);
            }
        }
    }

    /// Hands over what the cache asks the medium for.
    fn carry_out(&mut self, now: Nanos) {
        for command in self.to_medium.drain(..) {
            self.model.submit(now, command);
        }
    }

    /// Returns the time of the next completion: of a command on the medium, or of an answer from the cache.
    #[inline]
    pub fn next_completion(&self) -> Option<Nanos> {
        let medium = self.model.next_completion();
        match self.cache.as_ref().and_then(|cache| cache.next_answer()) {
            Some(answer) => Some(medium.map_or(answer, |medium| medium.min(answer))),
            None => medium,
        }
    }

    /// Takes the next completion: its time and its tag; no tag if it is of the cache's own.
    #[inline]
    pub fn complete(&mut self) -> Option<(Nanos, Option<u32>)> {
        let Some(cache) = &mut self.cache else {
            let (at, tag) = self.model.complete()?;
            self.waited = self.model.waited();
            return Some((at, Some(tag)));
        };
        // An answer from the cache goes first at equal times, since it was ready without the medium.
        let medium = self.model.next_completion();
        if let Some(answer) = cache.next_answer().filter(|answer| medium.is_none_or(|medium| *answer <= medium)) {
            let (_, tag) = cache.take_answer().expect("there is one");
            self.waited = Nanos::ZERO;
            return Some((answer, Some(tag)));
        }
        let (at, tag) = self.model.complete()?;
        self.waited = self.model.waited();
        let host = cache.done(at, tag, &mut self.to_medium);
        self.carry_out(at);
        Some((at, host))
    }
}

impl DeviceModel {
    #[inline]
    fn submit(&mut self, now: Nanos, command: ToMedium) {
        let ToMedium { op, first, pages, tag, stream } = command;
        match self {
            Self::Disk { disk, phase, sectors_per_page } => {
                let op = match op {
                    DeviceOp::Read => DiskOp::Read,
                    DeviceOp::Write | DeviceOp::WriteFua => DiskOp::Write,
                    DeviceOp::Flush => DiskOp::Flush,
                    DeviceOp::Trim => DiskOp::Discard,
                    DeviceOp::Collect(_) => panic!("a disk cannot be told to collect"),
                };
                let lbn = first * u64::from(*sectors_per_page);
                let command = DiskCommand { op, lbn, sectors: pages * *sectors_per_page, tag: u64::from(tag) };
                // The model's platters stand at zero at time zero; shifting time shifts the platters
                // instead.
                disk.submit(now + *phase, command).expect("members are as large as the array says");
            }
            Self::Flash(flash) => {
                flash.ssd.label_writes(stream);
                flash.submit(now, op, first, pages, tag);
            }
            Self::Fixed(fixed) => {
                let pages = u64::from(pages);
                let time = match op {
                    DeviceOp::Read => fixed.times.read + Nanos(fixed.times.page.0 * pages),
                    DeviceOp::Write | DeviceOp::WriteFua => fixed.times.write + Nanos(fixed.times.page.0 * pages),
                    DeviceOp::Flush | DeviceOp::Trim => fixed.times.other,
                    DeviceOp::Collect(_) => panic!("it cannot be told to collect"),
                };
                fixed.busy_until = fixed.busy_until.max(now) + time;
                fixed.due.push_back((fixed.busy_until, tag, time));
            }
        }
    }

    #[inline]
    fn next_completion(&self) -> Option<Nanos> {
        match self {
            Self::Disk { disk, phase, .. } => disk.next_completion().map(|at| at - *phase),
            Self::Flash(flash) => flash.due.peek().map(|due| due.0.at),
            Self::Fixed(fixed) => fixed.due.front().map(|due| due.0),
        }
    }

    /// Returns the time for which the latest completed command waited for collections.
    #[inline]
    fn waited(&self) -> Nanos {
        match self {
            Self::Flash(flash) => flash.waited,
            Self::Disk { .. } | Self::Fixed(_) => Nanos::ZERO,
        }
    }

    #[inline]
    fn complete(&mut self) -> Option<(Nanos, u32)> {
        match self {
            Self::Disk { disk, phase, .. } => disk.complete().map(|(at, tag)| (at - *phase, tag as u32)),
            Self::Flash(flash) => flash.due.pop().map(|Reverse(due)| {
                flash.busy += due.service;
                flash.waited = due.waited;
                (due.at, due.tag)
            }),
            Self::Fixed(fixed) => fixed.due.pop_front().map(|(at, tag, time)| {
                fixed.busy += time;
                (at, tag)
            }),
        }
    }
}

impl ElementSsd {
    fn submit(&mut self, now: Nanos, op: DeviceOp, first: u64, pages: u32, tag: u32) {
        // An order to collect is none of the commands that wait for each other.
        let places = self.places.as_mut().filter(|_| !matches!(op, DeviceOp::Collect(_)));
        let begins = places.map_or(now, |places| places.next(now));
        let pages = (first..first + u64::from(pages)).map(|page| PageNo(page as u32));
        // The SSD knows the end of each operation when it is issued, so completions are computed here and
        // only queued.
        let (ssd, mut done, mut waited) = (&mut self.ssd, begins, Nanos::ZERO);
        ssd.begin_command();
        match op {
            DeviceOp::Read => pages.for_each(|page| {
                let read = ssd.read(begins, page);
                waited = waited.max(ssd.waited_for_collection(page, begins, read));
                // The pages of a command lie on several elements and are served in parallel, so the last
                // one decides.
                done = done.max(read);
            }),
            DeviceOp::Write | DeviceOp::WriteFua => pages.for_each(|page| {
                let programmed = ssd.program(begins, page);
                waited = waited.max(ssd.waited_for_collection(page, begins, programmed));
                done = done.max(programmed);
            }),
            // A write cache that survives a power failure makes a flush a no-op.
            DeviceOp::Flush if ssd.is_write_protected() => {}
            DeviceOp::Flush => done = self.latest.max(begins),
            DeviceOp::Trim => pages.for_each(|page| ssd.trim(page)),
            DeviceOp::Collect(quota) => done = ssd.collect(begins, quota),
        }
        if let Some(places) = self.places.as_mut().filter(|_| !matches!(op, DeviceOp::Collect(_))) {
            places.keep_until(done);
        }
        self.latest = self.latest.max(done);
        self.submitted += 1;
        let counts = self.ssd.counters().map(|element| (element.busy_time.0, element.gc_invocations));
        let (busy, collections) = counts.fold((0, 0), |sum, element| (sum.0 + element.0, sum.1 + element.1));
        let (charged, service) = (Nanos(busy), Nanos(busy).since(self.charged));
        // The order of submission breaks ties, so that equal times give the same run on every machine.
        self.due.push(Reverse(DueCompletion { at: done, order: self.submitted, tag, service, waited }));
        self.charged = charged;
        let announcements = &mut self.announcements;
        if std::mem::replace(&mut self.collections, collections) != collections {
            self.ssd.take_collections(|element, collection| announcements.collects(element, collection));
        }
        if announcements.warns() {
            for element in (0..self.ssd.elements()).map(Element) {
                announcements.has_free(now, element, self.ssd.free_blocks(element));
            }
        }
    }
}
