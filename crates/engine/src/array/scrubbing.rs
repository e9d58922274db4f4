//! Compares the rows of a served array portion after portion, as fast as was ordered, and more slowly beside requests.

use std::time::{Duration, Instant};

use destage_exec::FilesError;
use destage_plan::{PageFate, PageReport, Row, Rows, ScrubOrder, ScrubTally, Status};

use super::ArrayBackend;
use crate::scrub::{ScrubError, ScrubRequest, ScrubState, ScrubStatus};
use crate::{ByteRange, ByteSize, ServiceEvent};

/// Counts the bytes of each member that are compared at a time: what differs in them is named, and the executor keeps
/// enough reports for all their pages.
const PORTION: u64 = 1 << 20;
/// Divides the rate beside requests.
const SLOWER: u32 = 10;
/// Limits the ranges that are named of a scrub; all are counted.
const NAMED: u32 = 100;

/// Holds what is known of the scrub that runs, or ran last.
#[derive(Debug)]
pub(super) struct ArrayScrub {
    order: ScrubRequest,
    state: ScrubState,
    begin: Instant,
    end: Option<Instant>,
    /// Names the first row that was not compared.
    next: Row,
    /// Counts what the portions that are done have found.
    tally: ScrubTally,
    /// Notes when the last portion began, and its rows.
    portion: Option<(Instant, Rows)>,
    /// Tells that requests have come since then.
    was_asked: bool,
    /// Says why it is to end with this portion.
    ending: Option<String>,
    /// Lists the pages that differ in the last portion, as far as the executor keeps them.
    differing: Vec<PageReport>,
    /// Counts the ranges that were named.
    named: u32,
    /// Counts the tenths of the members that were told.
    tenths: u8,
}

impl ArrayScrub {
    fn is_running(&self) -> bool {
        self.state == ScrubState::Running
    }

    /// Returns when the next portion may begin.
    fn due(&self, page: u64) -> Option<Instant> {
        let (begun, rows) = self.portion?;
        let rate = self.order.rate_bytes?;
        let takes =
            Duration::from_nanos((u128::from(rows.count) * u128::from(page) * 1_000_000_000 / u128::from(rate)) as u64);
        // Requests of clients come first: beside them a scrub takes a tenth of its rate, much as md falls back to
        // `sync_speed_min`.
        Some(begun + if self.was_asked { takes * SLOWER } else { takes })
    }
}

impl ArrayBackend {
    /// Begins to compare rows.
    pub(super) fn order_scrub(&mut self, order: &ScrubRequest) -> Result<(), ScrubError> {
        let (page, bytes) = (self.page_bytes(), self.member_bytes());
        if let Some(rate) = order.rate_bytes.filter(|rate| *rate < ScrubRequest::LEAST_RATE) {
            return Err(ScrubError::Slow { rate: ByteSize(rate), least: ByteSize(ScrubRequest::LEAST_RATE) });
        }
        if order.from_bytes >= bytes {
            return Err(ScrubError::Beyond { from: order.from_bytes, bytes });
        }
        if self.files.status() != Status::Ready {
            return Err(ScrubError::Recovering);
        }
        // The executor compares one portion at a time, and a portion of an earlier order may be in flight.
        if self.files.is_scrubbing() || self.is_scrubbing() {
            return Err(ScrubError::UnderWay);
        }
        let next = Row(order.from_bytes / page);
        self.scrub = Some(ArrayScrub {
            order: order.clone(),
            state: ScrubState::Running,
            begin: Instant::now(),
            end: None,
            next,
            tally: ScrubTally::default(),
            portion: None,
            was_asked: false,
            ending: None,
            differing: Vec::new(),
            named: 0,
            tenths: (next.0 * 10 / self.geometry.member_pages()) as u8,
        });
        self.untold.push(ServiceEvent::ScrubStarted { order: order.to_string(), position: next.0 * page });
        Ok(())
    }

    /// Ends the scrub that runs, for this reason, once what it compares now is compared.
    pub(super) fn cut_scrub(&mut self, why: &str) {
        if let Some(scrub) = self.scrub.as_mut().filter(|scrub| scrub.is_running()) {
            // The first reason counts: later ones follow from it.
            scrub.ending.get_or_insert_with(|| why.to_owned());
        }
    }

    pub(super) fn is_scrubbing(&self) -> bool {
        self.scrub.as_ref().is_some_and(ArrayScrub::is_running)
    }

    /// Notes that a client has asked for something.
    #[inline]
    pub(super) fn note_request(&mut self) {
        if let Some(scrub) = &mut self.scrub {
            scrub.was_asked = true;
        }
    }

    /// Returns how long it is until the next portion may begin, if one is to be waited for.
    pub(super) fn until_portion(&self) -> Option<Duration> {
        // An array that comes to rest for a replacement starts no portion: that would keep it from resting.
        let is_held = self.files.is_scrubbing() || self.settling.is_some();
        let scrub = self.scrub.as_ref().filter(|scrub| scrub.is_running() && !is_held)?;
        let due = scrub.due(self.page_bytes()).filter(|_| scrub.ending.is_none());
        Some(due.map_or(Duration::ZERO, |due| due.saturating_duration_since(Instant::now())))
    }

    /// Goes on with the scrub that runs, as far as it may.
    pub(super) fn go_on_scrubbing(&mut self) -> Result<(), FilesError> {
        if !self.is_scrubbing() || self.files.is_scrubbing() || self.settling.is_some() {
            return Ok(());
        }
        self.take_portion();
        let (page, end) = (self.page_bytes(), self.geometry.member_pages());
        let Some(scrub) = &mut self.scrub else { return Ok(()) };
        let state = match scrub.ending.take() {
            // A scrub that has compared all rows has finished, even if its end was asked for meanwhile.
            _ if scrub.next.0 >= end => Some(ScrubState::Finished),
            why => why.map(ScrubState::Stopped),
        };
        if let Some(state) = state {
            (scrub.state, scrub.end) = (state, Some(Instant::now()));
            let status = self.scrub_status().map(Box::new);
            self.untold.extend(status.map(|scrub| ServiceEvent::ScrubEnded { scrub }));
            return Ok(());
        }
        let now = Instant::now();
        if scrub.due(page).is_some_and(|due| now < due) {
            return Ok(());
        }
        let count = (PORTION / page).max(1).min(end - scrub.next.0) as u32;
        let rows = Rows::new(scrub.next, count);
        (scrub.portion, scrub.was_asked) = (Some((now, rows)), false);
        let repairs = scrub.order.repair;
        // The rate is kept here, since the controller that compares has no clock.
        self.files.begin_scrub(ScrubOrder { rows, repairs })
    }

    /// Notes a page that differs.
    pub(super) fn note_mismatch(&mut self, report: PageReport) {
        if let Some(scrub) = &mut self.scrub {
            scrub.differing.push(report);
        }
    }

    /// Counts what a portion that is done has found, and names what differs.
    fn take_portion(&mut self) {
        let Some(found) = self.files.take_scrubbed() else { return };
        // Reports of the portion may be fetched by now or not, so the rest are fetched before the portion is summed
        // up.
        let mut events = std::mem::take(&mut self.untold);
        self.page_news(&mut |event| events.push(event));
        self.untold = events;
        let (page, pages) = (self.page_bytes(), self.geometry.member_pages());
        let Some(scrub) = &mut self.scrub else { return };
        let Some((_, rows)) = scrub.portion else { return };
        scrub.next = rows.end();
        scrub.tally.add(found);
        let (before, tenths) = (scrub.tenths, (scrub.next.0 * 10 / pages) as u8);
        let position = scrub.next.0 * page;
        scrub.tenths = tenths;
        self.name_mismatches();
        // Ten events of progress a scrub: more would bury the others in the log.
        if before < tenths && tenths < 10 {
            self.untold.push(ServiceEvent::ScrubProgress { percent: tenths * 10, position });
        }
    }

    /// Names the pages that differ in the last portion, unless many were named.
    fn name_mismatches(&mut self) {
        let Some(scrub) = &mut self.scrub else { return };
        let mut differing = std::mem::take(&mut scrub.differing);
        let left = NAMED - scrub.named;
        differing.sort_unstable_by_key(|report| report.page);
        let ranges = differing.chunk_by(|one, next| self.is_beside(*one, *next)).take(left as usize);
        let named: Vec<_> = ranges.map(|range| self.mismatch(range)).collect();
        if let Some(scrub) = &mut self.scrub {
            scrub.named += named.len() as u32;
        }
        self.untold.extend(named);
    }

    /// Returns true if two pages that differ are of neighbouring rows of one stripe, and the same was done about them.
    fn is_beside(&self, one: PageReport, next: PageReport) -> bool {
        let stripe = |report: PageReport| self.geometry.stripe_of(Row(report.page.page)).0;
        let are_neighbours = one.page.dev == next.page.dev && one.page.page + 1 == next.page.page;
        are_neighbours && one.fate == next.fate && stripe(one) == stripe(next)
    }

    /// Tells of pages of neighbouring rows of a stripe that differ from what their rows make them.
    fn mismatch(&self, range: &[PageReport]) -> ServiceEvent {
        let (first, page) = (range[0].page, self.page_bytes());
        let bytes = range.len() as u64 * page;
        let data = self.geometry.member_set().iter().filter_map(|dev| self.data_at(dev, Row(first.page)));
        let mut data: Vec<_> = data.map(|first| ByteRange { offset: first * page, bytes }).collect();
        // Copies of a mirror name the same data once.
        data.sort_unstable_by_key(|range| range.offset);
        data.dedup();
        ServiceEvent::RowsMismatched {
            device: self.device_name(first.dev),
            path: self.device_file(first.dev),
            offset: self.files.config().devices[first.dev.index()].offset + first.page * page,
            bytes,
            repaired: range[0].fate == PageFate::Rewritten,
            data,
        }
    }

    /// Returns how far the scrub has come that runs, or ran last.
    pub(super) fn scrub_status(&self) -> Option<ScrubStatus> {
        let scrub = self.scrub.as_ref()?;
        Some(ScrubStatus {
            state: scrub.state.clone(),
            order: scrub.order.clone(),
            position_bytes: scrub.next.0 * self.page_bytes(),
            member_bytes: self.member_bytes(),
            seconds: (scrub.end.unwrap_or_else(Instant::now) - scrub.begin).as_secs_f64(),
            rows: scrub.tally.rows,
            unchecked_rows: scrub.tally.unchecked,
            mismatched_rows: scrub.tally.mismatched,
            repaired_rows: scrub.tally.repaired,
        })
    }

    fn page_bytes(&self) -> u64 {
        self.files.config().shape.page_bytes()
    }

    fn member_bytes(&self) -> u64 {
        self.geometry.member_pages() * self.page_bytes()
    }
}
