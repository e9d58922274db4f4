//! A drive of a data centre: a protected write cache that answers writes, programs of whole word lines over all planes of a
//! die, reads that suspend programs and erases, and collection in slices paced by free space.
//!
//! Requests are dealt with in the order of their arrival. Nothing is an event: what a die has done is worked out when
//! somebody looks at it (`die.rs`). The parts: `front_end.rs` lets commands in, `superblocks.rs` knows where sectors lie,
//! `collection.rs` paces collection, `victim.rs` chooses what is collected, `placement.rs` keeps streams apart, and `notices.rs` tells of slices. A sector is a page of
//! the map.

mod collection;
mod config;
mod die;
mod front_end;
mod notices;
mod placement;
mod presets;
mod superblocks;
mod victim;
mod view;

use std::collections::VecDeque;

use destage_plan::{Nanos, PageNo};

use super::clock::ElementClock;
use super::element::UNMAPPED;
use super::geometry::SsdShape;
use collection::CollectionPace;
pub use config::{ModernConfig, ModernGeometry, VictimPolicy};
use die::{DieOperation, DieQueue, ReadTimes};
use front_end::{CommandKind, FrontEnd};
use notices::SliceNotices;
pub use placement::{HandleIsolation, PlacedStream, PlacementConfig};
use placement::{StreamPlacement, write_points};
pub use presets::{MODERN_DRIVES, ModernDesign};
use superblocks::{HELD, SuperblockMap};
use victim::VictimChooser;

/// Holds the flash page that the present read command sensed last.
#[derive(Clone, Copy, Debug)]
struct SensedPage {
    flash_page: u32,
    /// When the sectors of it that were asked for so far have left the die.
    end: u64,
}

/// Stands for no flash page.
const NOTHING_SENSED: SensedPage = SensedPage { flash_page: u32::MAX, end: 0 };

/// Models a drive with a protected cache, suspension, and collection in slices.
#[derive(Clone, Debug)]
pub(super) struct ModernDrive {
    pub(super) shape: SsdShape,
    geometry: ModernGeometry,
    planes: u32,
    read_times: ReadTimes,
    /// [`ModernConfig::pace_gain_milli`] as a number.
    gain: f64,
    front: FrontEnd,
    map: SuperblockMap,
    /// True if collection has a write point of its own.
    has_own_point: bool,
    /// Holds what the host's labels say, if the drive heeds them.
    placement: Option<Box<StreamPlacement>>,
    dies: Vec<DieQueue>,
    /// Counts what each die has done; its times are those of [`Self::dies`].
    clocks: Vec<ElementClock>,
    /// Sectors in the cache: held back, in open units, or being programmed for hosts.
    occupied: u32,
    /// When the cache last took a sector that had to wait.
    admitted: u64,
    /// Sectors that are held back, the oldest first.
    held: VecDeque<u32>,
    sensed: SensedPage,
    pace: CollectionPace,
    chooser: VictimChooser,
    /// Tells that somebody hears of the ends of slices.
    is_watched: bool,
    /// Bounds from below the next end of a slice that is to be told, however much reads delay it.
    slice_end: u64,
    /// Tells of slices as they begin and end, if somebody hears of that.
    notices: Option<SliceNotices>,
    /// Time for which the last read or write of a host waited for slices, in ns.
    waited: u64,
    /// Is false while the drive comes to the state in which it begins: no time passes.
    is_timed: bool,
}

impl ModernDrive {
    /// Returns an erased drive of this shape, for which no time passes until [`Self::begin_run`].
    ///
    /// # Panics
    /// If the shape is not one of a modern drive.
    pub(super) fn empty(shape: SsdShape) -> Self {
        let geometry = *shape.modern.clone().expect("a modern drive");
        let (dies, planes) = (shape.config.elements, shape.config.planes);
        let c = &geometry.config;
        let [hosts, points] = write_points(&shape.config, c.placement);
        let (suspend, bypass) = (c.suspend.0, c.bypass);
        Self {
            planes,
            read_times: ReadTimes { first: geometry.sense + geometry.transfer, suspend, bypass },
            gain: c.pace_gain_milli as f64 / 1000.0,
            front: FrontEnd::new(&geometry),
            map: SuperblockMap::new(&geometry, dies, planes, shape.host_pages, points),
            has_own_point: points > hosts,
            placement: c.placement.map(|own| Box::new(StreamPlacement::new(own, &shape.config, shape.host_pages))),
            dies: (0..dies).map(|_| DieQueue::new()).collect(),
            clocks: (0..dies).map(|_| ElementClock::new(1)).collect(),
            occupied: 0,
            admitted: 0,
            held: VecDeque::with_capacity(geometry.held_sectors as usize + 1),
            sensed: NOTHING_SENSED,
            pace: CollectionPace::default(),
            chooser: VictimChooser::new(c.victim, geometry.superblock),
            is_watched: false,
            slice_end: u64::MAX,
            notices: None,
            waited: 0,
            is_timed: false,
            shape,
            geometry,
        }
    }

    /// Begins a host command: pages that are read from now on are one, and those that are programmed another.
    #[inline]
    pub(super) fn begin_command(&mut self) {
        self.front.begin();
        self.sensed = NOTHING_SENSED;
    }

    /// Reads a sector for a host; returns when it is answered.
    #[inline]
    pub(super) fn read(&mut self, now: Nanos, page: PageNo) -> Nanos {
        let (now, is_later) = self.front.admit(CommandKind::Read, now.0, page.0);
        self.waited = 0;
        let physical = self.map.physical(page.0);
        if physical >= HELD {
            self.clocks[0].counters.unmapped_reads += u64::from(physical == UNMAPPED);
            return Nanos(now + self.geometry.config.command_hit.0);
        }
        let place = self.map.place(physical);
        let die = &mut self.dies[place.die as usize];
        self.occupied -= die.advance(now);
        if self.map.is_open_unit(physical) || die.holds_program(place.unit) {
            return Nanos(now + self.geometry.config.command_hit.0);
        }
        let counters = &mut self.clocks[place.die as usize].counters;
        counters.flash_reads += 1;
        let transfer = self.geometry.transfer;
        // Sectors of one flash page that a command asks for one after the other are sensed once.
        let again = is_later && self.sensed.flash_page == place.flash_page;
        let read_on = if again { die.read_on(now, place.plane as usize, self.sensed.end, transfer) } else { None };
        let end = if let Some(end) = read_on {
            counters.busy_time += Nanos(transfer);
            end
        } else {
            counters.busy_time += Nanos(self.read_times.first);
            let (end, freed) = die.read(now, place.plane as usize, &self.read_times);
            self.occupied -= freed;
            self.waited = die.awaited_between(now, end);
            end
        };
        self.sensed = SensedPage { flash_page: place.flash_page, end };
        Nanos(end + self.geometry.config.command_read.0)
    }

    /// Writes a sector for a host; returns when it is answered.
    #[inline]
    pub(super) fn program(&mut self, now: Nanos, page: PageNo) -> Nanos {
        // It waits for room in the cache at most.
        self.waited = 0;
        if !self.is_timed {
            self.write(0, page.0);
            return Nanos::ZERO;
        }
        let (now, is_later) = self.front.admit(CommandKind::Write, now.0, page.0);
        let answered = self.write(now, page.0) + self.geometry.config.command_write.0;
        self.front.answered(answered, is_later);
        Nanos(answered)
    }

    /// Takes a sector that was let in at `now` into the cache; returns when it is there.
    #[inline]
    fn write(&mut self, now: u64, sector: u32) -> u64 {
        if let Some(placement) = &mut self.placement {
            placement.write(sector);
        }
        if self.map.physical(sector) == HELD {
            return now;
        }
        let now = self.wait_for_cache(now);
        self.occupied += u32::from(self.is_timed);
        if self.geometry.held_sectors == 0 {
            self.map.unmap(sector, UNMAPPED);
            self.put(sector, now);
            self.pace(now);
            return now;
        }
        self.map.unmap(sector, HELD);
        self.held.push_back(sector);
        if self.held.len() == self.geometry.held_sectors as usize
            && let Some(oldest) = self.held.pop_front()
        {
            self.put(oldest, now);
            self.pace(now);
        }
        now
    }

    /// Returns when the cache has room for a sector that was let in at `now`.
    #[inline]
    fn wait_for_cache(&mut self, now: u64) -> u64 {
        if self.is_timed && self.occupied >= self.geometry.cache_sectors {
            self.make_room(now);
        }
        now.max(self.admitted)
    }

    #[cold]
    fn make_room(&mut self, now: u64) {
        while self.occupied >= self.geometry.cache_sectors {
            // Who waits is promised the sectors of the operation that would end first: reads that come later delay the die
            // and not the answer. Of those that end at the same time that of the lowest die goes first.
            let ends = (0..).zip(&mut self.dies).filter_map(|(die, own)| own.first_freeing(now).map(|end| (end, die)));
            let (end, die) = ends.min().expect("a full cache has a unit that is programmed");
            let own: &mut DieQueue = &mut self.dies[die];
            if end <= now {
                self.occupied -= own.advance(now);
            } else {
                self.occupied -= own.take_freed();
                self.admitted = self.admitted.max(end);
            }
        }
    }

    /// Has a die do something once it has done what it has to do.
    #[inline]
    fn push(&mut self, die: u32, operation: DieOperation) {
        if self.is_timed {
            self.clocks[die as usize].counters.busy_time += Nanos(operation.remaining);
            self.dies[die as usize].push(operation);
        }
    }

    /// Forgets a sector's data; takes no time.
    pub(super) fn trim(&mut self, page: PageNo) {
        if self.map.physical(page.0) == HELD
            && let Some(at) = self.held.iter().position(|&sector| sector == page.0)
        {
            self.held.remove(at);
            // Before a run begins nothing occupies the cache.
            self.occupied -= u32::from(self.is_timed);
        }
        self.map.unmap(page.0, UNMAPPED);
    }
}
