//! A cache that leaves parity behind the data, as small as it can be: what the array owes the caches
//! that do so (specs §9.2, §9.4, §9.6) is tried with every level, misfortune and cut.
//!
//! Its frames are known in memory only. So nothing of it outlives a cut, after which the rows that it
//! held are made consistent from what the members have.

use std::collections::{BTreeMap, BTreeSet};

use destage_cache::{
    CacheMedium, CacheOperations, HostCache, HostCacheError, HostCacheInfo, HostCacheStatus, RegisteredCache,
    StaleParity, WriteStage,
};
use destage_crash::{DrawLimits, RunOptions, RunReport, explore, shrink};
use destage_plan::{
    Class, Column, ColumnSet, Control, Dev, DevSet, DeviceChange, Event, Ext, HostOp, Nanos, OpId, Out, Params, Row,
    Rows, Step, StepSet, TimerId, TimerOwner,
};
use destage_raid::array::{
    ArrayConfig, PageVersions, ParityUpdate, RaidArray, RowSources, StripeSegment, VersionSource, WriteApproach,
};
use destage_raid::{Geometry, RaidLevel};

use crate::share::seeds_of;

/// Describes the frames that the cache holds of a page.
#[derive(Clone, Copy)]
struct Kept {
    /// The version that the parity covers; none if it is lost.
    base: Option<u32>,
    /// The newest version, if it is another and the row stale.
    newest: Option<u32>,
    stale: bool,
    used: u64,
}

/// Describes the frames that an operation uses.
#[derive(Clone, Default)]
struct Work {
    /// Frames that are written, by page.
    filling: Vec<(u64, u32)>,
    /// They are newest versions of stale pages.
    delayed: bool,
}

struct Delays {
    geometry: Geometry,
    pages: BTreeMap<u64, Kept>,
    free: Vec<u32>,
    works: Vec<Work>,
    /// Rows whose parity cannot be brought up to their data: too much is lost.
    hopeless: BTreeSet<Row>,
    /// Parity updates under way.
    updates: BTreeMap<OpId, Row>,
    enabled: bool,
    /// Devices were lost, and nothing was done about it.
    has_lost: bool,
    /// Rows whose parity is to be brought up to their data.
    draining: Option<BTreeSet<Row>>,
    /// After a loss other operations find stale rows for a while.
    takes_its_time: bool,
    clock: u64,
}

const IDLE: TimerId = TimerId { owner: TimerOwner::Above, number: 0 };

impl Delays {
    fn dev(&self) -> Dev {
        Dev(self.geometry.members())
    }

    fn row(&self, page: u64) -> (Row, Column) {
        let place = self.geometry.locate(page);
        (self.geometry.row(place.stripe, place.row_in_chunk), place.column)
    }

    fn source(&self, frame: u32) -> VersionSource {
        VersionSource::Page(Ext::new(self.dev(), u64::from(frame), 1))
    }

    fn stale(&self) -> impl Iterator<Item = (u64, &Kept)> {
        self.pages.iter().filter(|(_, kept)| kept.stale).map(|(page, kept)| (*page, kept))
    }

    fn work(&mut self, op: OpId) -> &mut Work {
        if self.works.len() <= op.index() {
            self.works.resize_with(op.index() + 1, Work::default);
        }
        &mut self.works[op.index()]
    }

    fn forget(&mut self, page: u64) {
        if let Some(kept) = self.pages.remove(&page) {
            self.free.extend(kept.base);
            self.free.extend(kept.newest);
        }
    }

    /// A frame that is free, or that of the clean page which was not used for longest.
    fn frame(&mut self) -> Option<u32> {
        if !self.enabled {
            return None;
        }
        if self.free.is_empty() {
            let clean = self.pages.iter().filter(|(_, kept)| !kept.stale);
            let (&victim, _) = clean.min_by_key(|(_, kept)| kept.used)?;
            self.forget(victim);
        }
        self.free.pop()
    }

    fn drop_work(&mut self, op: OpId) {
        let work = std::mem::take(self.work(op));
        let frames = work.filling.into_iter().map(|(_, frame)| frame);
        self.free.extend(frames);
    }

    /// Begins to bring the parity of all stale rows up to their data.
    fn update_all(&mut self, array: &mut RaidArray, out: &mut Out) {
        let rows: BTreeSet<Row> = self.stale().map(|(page, _)| self.row(page).0).collect();
        for row in rows {
            if !self.updates.values().any(|under_way| *under_way == row) {
                let op = array.open_parity_update(row, out);
                self.updates.insert(op, row);
            }
        }
    }
}

impl PageVersions for Delays {
    fn approach(&mut self, op: OpId, host: HostOp, seg: StripeSegment, rows: Rows, may_delay: bool) -> WriteApproach {
        self.drop_work(op);
        let (k, chunk) = (u64::from(self.geometry.data_columns()), u64::from(self.geometry.chunk_pages()));
        let pages: Vec<u64> = seg
            .columns
            .iter()
            .flat_map(|column| {
                let first = (seg.stripe.0 * k + u64::from(column.0)) * chunk + u64::from(seg.first);
                first..first + u64::from(seg.rows)
            })
            .collect();
        let cached = |page: &u64| self.pages.get(page).is_some_and(|kept| kept.base.is_some());
        let whole = rows.count == seg.rows && pages.len() <= 4;
        if may_delay && self.enabled && whole && host == HostOp::Write && pages.iter().all(cached) {
            // Before frames are looked for: what is stale is no victim.
            let before: Vec<Kept> = pages.iter().map(|page| self.pages[page]).collect();
            for page in &pages {
                self.pages.get_mut(page).expect("it is cached").stale = true;
            }
            let frames: Vec<u32> = pages.iter().map_while(|_| self.frame()).collect();
            if frames.len() == pages.len() {
                *self.work(op) = Work { filling: pages.into_iter().zip(frames).collect(), delayed: true };
                return WriteApproach::Delayed;
            }
            self.free.extend(frames);
            for (page, kept) in pages.iter().zip(before) {
                self.pages.insert(*page, kept);
            }
        }
        // What is kept of stale pages goes when they are written.
        for page in pages {
            if !self.departs_page(page) {
                self.forget(page);
            }
        }
        if self.departs(rows) { WriteApproach::Departed } else { WriteApproach::Plain }
    }

    fn departs(&self, rows: Rows) -> bool {
        self.stale().any(|(page, _)| rows.contains(self.row(page).0))
    }

    fn sources(&self, row: Row) -> RowSources {
        let mut sources = RowSources::default();
        for (page, kept) in self.stale().filter(|(page, _)| self.row(*page).0 == row) {
            let column = self.row(page).1;
            // Until the first newer version is in the cache, the member may hold any part of it.
            if let Some(frame) = kept.newest.or(kept.base) {
                sources.set_newest(column, self.source(frame));
            }
            sources.set_stale(column, kept.base.map_or(VersionSource::Lost, |frame| self.source(frame)));
        }
        sources
    }

    fn written(&mut self, _: OpId, rows: Rows, columns: ColumnSet, updated: ParityUpdate) {
        let touched: Vec<u64> = self.pages.keys().copied().filter(|page| rows.contains(self.row(*page).0)).collect();
        for page in touched {
            let column = self.row(page).1;
            match updated {
                ParityUpdate::Modified | ParityUpdate::Computed if columns.contains(column) => self.forget(page),
                ParityUpdate::Lost => {
                    self.hopeless.insert(self.row(page).0);
                }
                ParityUpdate::Modified
                | ParityUpdate::Delayed
                | ParityUpdate::Absorbed
                | ParityUpdate::Stored
                | ParityUpdate::Overwritten => {}
                ParityUpdate::Torn => {
                    let kept = self.pages.get_mut(&page).expect("it is kept");
                    if kept.stale {
                        // The frame is not used again: a row that is torn stays so.
                        kept.base = None;
                    }
                }
                ParityUpdate::Computed => {
                    let kept = self.pages[&page];
                    if !kept.stale {
                        continue;
                    }
                    let Some(newest) = kept.newest else {
                        self.forget(page);
                        continue;
                    };
                    self.free.extend(kept.base);
                    let clean = Kept { base: Some(newest), newest: None, stale: false, ..kept };
                    self.pages.insert(page, clean);
                }
            }
        }
    }

    fn holds(&self, row: Row) -> bool {
        self.departs(Rows::new(row, 1))
    }

    fn is_clean(&self) -> bool {
        self.updates.is_empty() && self.stale().all(|(page, _)| self.hopeless.contains(&self.row(page).0))
    }
}

impl HostCache for Delays {
    type Part = ();

    fn device_changed(&mut self, devs: DevSet, change: DeviceChange) {
        if change == DeviceChange::Replaced {
            return;
        }
        self.has_lost |= !devs.is_empty();
        if !devs.contains(self.dev()) || !self.enabled {
            return;
        }
        self.enabled = false;
        self.pages.retain(|_, kept| kept.stale);
        self.pages.values_mut().for_each(|kept| (kept.base, kept.newest) = (None, None));
        self.free.clear();
    }

    fn turn(&mut self, array: &mut RaidArray, _: &mut CacheOperations<()>, out: &mut Out) {
        if self.draining.take_if(|rows| rows.is_empty()).is_some() {
            out.drained();
        }
        if !std::mem::take(&mut self.has_lost) {
            return;
        }
        if self.takes_its_time {
            out.timer(IDLE, out.now() + Nanos(1_000_000));
        } else {
            self.update_all(array, out);
        }
    }

    fn event(&mut self, event: Event<'_>, array: &mut RaidArray, out: &mut Out) {
        if let Event::Control(Control::Drain) = event {
            self.draining = Some(self.stale().map(|(page, _)| self.row(page).0).collect());
        }
        if matches!(event, Event::Timer(_) | Event::Control(_)) {
            self.update_all(array, out);
        }
    }

    fn write(
        &mut self,
        op: OpId,
        stage: WriteStage<'_>,
        array: &mut RaidArray,
        _: &mut CacheOperations<()>,
        out: &mut Out,
    ) -> Option<StepSet> {
        let write = stage.planned();
        self.clock += 1;
        if !self.work(op).delayed {
            self.drop_work(op);
            let page = array.pages_of(write.seg).next().expect("a write has a page");
            // Of what was planned row by row, nobody knows whether the first is among what was left.
            if write.frag.op != HostOp::Write || write.again || self.departs_page(page) {
                return Some(write.after);
            }
            self.forget(page);
            let Some(frame) = self.frame() else { return Some(write.after) };
            self.work(op).filling.push((page, frame));
        }
        let mut after = write.after;
        for &(page, frame) in &self.works[op.index()].filling {
            let ext = Ext::new(Dev(self.geometry.members()), u64::from(frame), 1);
            let src = if write.frag.sectors.is_some() {
                write.merged
            } else {
                write.frag.host((page - write.frag.page) as u16)
            };
            after |= out.step(op, Step::Write { ext, src, fua: false }, write.after);
        }
        out.timer(IDLE, out.now() + Nanos(2_000_000));
        Some(after)
    }

    fn write_failed(&mut self, seg: StripeSegment, array: &RaidArray) {
        let clean = |cache: &Self, page: &u64| cache.pages.get(page).is_some_and(|kept| !kept.stale);
        for page in array.pages_of(seg).filter(|page| clean(self, page)).collect::<Vec<_>>() {
            self.forget(page);
        }
    }

    fn undone(&mut self, op: OpId) {
        self.drop_work(op);
    }

    fn done(&mut self, op: OpId) {
        if let Some(row) = self.updates.remove(&op) {
            self.draining.iter_mut().for_each(|rows| {
                rows.remove(&row);
            });
        }
        let work = std::mem::take(self.work(op));
        if !self.enabled {
            return;
        }
        for (page, frame) in work.filling {
            if work.delayed {
                let kept = self.pages.get_mut(&page).expect("a stale page is kept");
                self.free.extend(kept.newest.replace(frame));
            } else {
                self.forget(page);
                let used = self.clock;
                self.pages.insert(page, Kept { base: Some(frame), newest: None, stale: false, used });
            }
        }
    }

    fn status(&self) -> HostCacheStatus<'_> {
        HostCacheStatus { is_caching: self.enabled, ..HostCacheStatus::default() }
    }

    fn stale_parity(&self) -> StaleParity {
        StaleParity { stale_rows: self.stale().count(), left_rows: 0 }
    }
}

impl Delays {
    fn departs_page(&self, page: u64) -> bool {
        self.pages.get(&page).is_some_and(|kept| kept.stale)
    }
}

impl RegisteredCache for Delays {
    const INFO: HostCacheInfo = HostCacheInfo {
        medium: CacheMedium::Device,
        max_pages: 1 << 20,
        delays_parity: true,
        ..HostCacheInfo::new::<Self>("delays", "leaves parity behind the data for a while", "-")
    };

    fn new(pages: u64, array: &ArrayConfig, _: &Params) -> Result<Self, HostCacheError> {
        let frames = pages as u32;
        Ok(Self {
            geometry: array.geometry.clone(),
            pages: BTreeMap::new(),
            free: (0..frames).rev().collect(),
            works: Vec::new(),
            updates: BTreeMap::new(),
            draining: None,
            hopeless: BTreeSet::new(),
            enabled: true,
            has_lost: false,
            takes_its_time: matches!(pages, 4 | 16),
            clock: 0,
        })
    }
}

static DELAYS: HostCacheInfo = Delays::INFO;

#[test]
fn rows_whose_parity_is_left_behind_lose_nothing() {
    let seeds = seeds_of(4_000, 16_000);
    for level in RaidLevel::ALL {
        let limits = DrawLimits { level: Some(level), ..DrawLimits::default() };
        match explore(&DELAYS, seeds.clone(), &limits, RunOptions::default()) {
            Ok(report) => print(level, &report),
            Err(failure) => {
                let small = shrink(&DELAYS, &failure, RunOptions::default(), 4_000);
                panic!("{level}\nas found: {}\nsmallest found: {small}", failure.what);
            }
        }
    }
}

fn print(level: RaidLevel, report: &RunReport) {
    let updates = report.waits[Class::Parity as usize].claims;
    println!(
        "{level}: {} histories, {} cuts, {} losses, {} refusals, {updates} parity updates",
        report.runs, report.cuts, report.losses, report.refusals
    );
    let computes = matches!(level, RaidLevel::Raid4 | RaidLevel::Raid5 | RaidLevel::Raid6);
    assert!(!computes || report.runs < 1_000 || updates > report.runs / 4, "parity is left behind");
}
