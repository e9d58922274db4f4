//! Tells of an array what happens to it, as it happens.

use destage_plan::{BadPage, Dev, DevSet, PageFate, PageReport, Row, Status};

use super::ArrayBackend;
use crate::{ByteRange, ServiceEvent};

/// Limits the ranges that one event lists.
const MAX_RANGES: usize = 1_000;

/// Captures what is compared to see whether there is [news](ArrayBackend::tell_news); cheap to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArraySnapshot {
    pub(super) answering: DevSet,
    pub(super) hanging: DevSet,
    pub(super) degraded: DevSet,
    pub(super) is_broken: bool,
    pub(super) is_caching: bool,
    pub(super) is_ready: bool,
    /// Names the member that is being filled, and how many tenths of its rows are.
    pub(super) filling: Option<(Dev, u8)>,
    /// Names the member that is being copied, likewise.
    pub(super) copying: Option<(Dev, u8)>,
    /// Counts the ranges of pages that are lost for good.
    pub(super) lost: usize,
    /// Counts the pages that were lost with the cache's device.
    pub(super) lost_with_cache: usize,
    pub(super) has_bad_pages: bool,
}

impl ArrayBackend {
    /// Tells what has changed since this was asked last.
    pub(super) fn tell_news(&mut self, tell: &mut dyn FnMut(ServiceEvent)) {
        self.page_news(tell);
        let now = self.glance();
        // Comparing two small values is cheap enough for every turn of an idle service.
        if self.seen == Some(now) && self.untold.is_empty() {
            return;
        }
        let all = DevSet::first(self.files.config().devices.len() as u32);
        // The first look compares with a whole array, so what an opening found lost is told as news.
        let unseen = ArraySnapshot {
            answering: all,
            hanging: DevSet::EMPTY,
            degraded: DevSet::EMPTY,
            filling: None,
            copying: None,
            lost: 0,
            lost_with_cache: 0,
            ..now
        };
        // Damage is found by the opening alone, so it is told once, with the first look.
        if let (None, Some(damaged)) = (self.seen, self.files.damaged_intents()) {
            tell(ServiceEvent::IntentsDamaged { why: damaged.errors.clone(), rows: damaged.rows, of: damaged.of });
        }
        if let (None, Some(damaged)) = (self.seen, self.files.damaged_nvram()) {
            tell(ServiceEvent::NvramDamaged { why: damaged.errors.clone(), slots: damaged.slots });
        }
        if self.seen.is_none() {
            for dev in self.files.damaged_lists().iter() {
                tell(ServiceEvent::PageListDamaged { device: self.device_name(dev), path: self.device_file(dev) });
            }
        }
        let seen = self.seen.replace(now).unwrap_or(unseen);
        // Losses come before the state that follows from them, so the log reads in the order of cause and
        // effect.
        for dev in (seen.answering - now.answering).iter() {
            let why = self.files.errors().find(|(other, _)| *other == dev).map(|(_, error)| error.to_string());
            let (device, path) = (self.device_name(dev), self.device_file(dev));
            tell(ServiceEvent::DeviceLost { device, path, why: why.unwrap_or_else(|| "it was given up".to_owned()) });
        }
        for dev in (now.hanging - seen.hanging).iter() {
            let (device, path) = (self.device_name(dev), self.device_file(dev));
            let waits = self.files.waits_for(dev).unwrap_or_default();
            tell(ServiceEvent::DeviceHangs { device, path, why: format!("no answer for {} s", waits.as_secs()) });
        }
        for dev in (seen.hanging - now.hanging).iter().filter(|dev| now.answering.contains(*dev)) {
            let (device, path) = (self.device_name(dev), self.device_file(dev));
            tell(ServiceEvent::DeviceAnswers { device, path });
        }
        self.untold.drain(..).for_each(&mut *tell);
        self.filling_news(seen, now, tell);
        self.copying_news(seen, now, tell);
        if now.is_ready && (now.lost > seen.lost || !seen.is_ready) {
            let ranges = self.lost();
            // A missing page that has parity costs no data.
            if !ranges.is_empty() {
                tell(ServiceEvent::DataLost { bytes: ranges.iter().map(|range| range.bytes).sum(), ranges });
            }
        }
        // Ranges are complete only once recovery has ended; told before, a part would pass for the whole.
        if now.is_ready && (now.lost_with_cache > seen.lost_with_cache || !seen.is_ready && now.lost_with_cache > 0) {
            let page = self.files.config().shape.page_bytes();
            let bytes = now.lost_with_cache as u64 * page;
            let lost = self.files.engine().controller().lost_pages();
            let ranges = lost.into_iter().take(MAX_RANGES);
            let ranges = ranges.map(|range| ByteRange { offset: range.first * page, bytes: range.pages * page });
            tell(ServiceEvent::CacheDataLost { bytes, ranges: ranges.collect() });
        }
        let state = self.state();
        // The state comes last: it sums up what the events before it have caused.
        if self.told.as_ref() != Some(&state) {
            let from = self.told.replace(state.clone());
            tell(ServiceEvent::StateChanged { from, to: state });
        }
    }

    fn glance(&self) -> ArraySnapshot {
        let (served, devices) = (self.files.engine().controller(), self.files.config().devices.len());
        ArraySnapshot {
            answering: DevSet::first(devices as u32).iter().filter(|dev| self.files.answers(*dev)).collect(),
            hanging: self.files.hanging(),
            degraded: served.array().degraded(),
            is_broken: served.array().is_broken(),
            is_caching: served.is_caching(),
            is_ready: self.files.status() == Status::Ready,
            has_bad_pages: self.has_bad_pages(),
            filling: self.filling().map(|(dev, percent)| (dev, (percent / 10.0) as u8)),
            copying: self.copying().map(|(dev, percent)| (dev, (percent / 10.0) as u8)),
            lost: served.array().lost().len() + served.array().missing().count(),
            lost_with_cache: served.lost_page_count(),
        }
    }

    /// Tells how the filling of members has gone on.
    fn filling_news(&self, seen: ArraySnapshot, now: ArraySnapshot, tell: &mut dyn FnMut(ServiceEvent)) {
        let named = |dev| (self.device_name(dev), self.device_file(dev));
        match (seen.filling, now.filling) {
            (Some((before, tenths)), Some((dev, more))) if before == dev => {
                if more > tenths {
                    tell(ServiceEvent::RebuildProgress { device: self.device_name(dev), percent: more * 10 });
                }
                return;
            }
            _ => {}
        }
        if let Some((dev, _)) = seen.filling
            && !now.degraded.contains(dev)
        {
            let (device, path) = named(dev);
            tell(ServiceEvent::RebuildFinished { device, path });
        }
        if let Some((dev, _)) = now.filling {
            let (device, path) = named(dev);
            tell(ServiceEvent::RebuildStarted { device, path });
        }
    }

    /// Tells what became of pages that members could not read.
    pub(super) fn page_news(&mut self, tell: &mut dyn FnMut(ServiceEvent)) {
        while let Some(report) = self.files.next_page_report() {
            let PageReport { page: BadPage { dev, page }, fate } = report;
            let bytes = self.files.config().shape.page_bytes();
            let (device, path) = (self.device_name(dev), self.device_file(dev));
            let offset = self.files.config().devices[dev.index()].offset + page * bytes;
            match fate {
                PageFate::Corrected => tell(ServiceEvent::PageCorrected { device, path, offset, bytes }),
                PageFate::Lost | PageFate::Missing => {
                    let lost = self.data_at(dev, Row(page)).map(|first| ByteRange { offset: first * bytes, bytes });
                    tell(if fate == PageFate::Lost {
                        ServiceEvent::PageUnreadable { device, path, offset, bytes, lost }
                    } else {
                        ServiceEvent::PageMissing { device, path, offset, bytes, lost }
                    });
                }
                PageFate::Unwritable => tell(ServiceEvent::PageUnwritable { device, path, offset, bytes }),
                PageFate::Dropped => tell(ServiceEvent::CachePageDropped { path, offset, bytes }),
                PageFate::DirtyLost(first) => {
                    let lost = ByteRange { offset: first * bytes, bytes };
                    tell(ServiceEvent::DirtyPageLost { path, offset, bytes, lost });
                }
                // The cache's device still answers for the NVRAM that lies on it, so it is not lost as a whole.
                PageFate::TooMany if self.files.answers(dev) => {
                    let why = "more of its pages could not be used than max-corrected allows; the NVRAM on it goes on; destage replace, or the next start, makes a cache of it again";
                    tell(ServiceEvent::DeviceLost { device, path, why: why.to_owned() });
                }
                // The device is lost, and its news says why.
                PageFate::TooMany => {}
                // A scrub reports page by page, and an event per page would flood the log: ranges are named when
                // its portion ends.
                PageFate::Mismatched | PageFate::Rewritten => self.note_mismatch(report),
            }
        }
    }
}
