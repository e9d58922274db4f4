//! An array that is served: the executor with all that there is to say about it.

mod moved_nvram;
mod news;
mod scrubbing;
mod succession;

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use destage_cache::{CacheMedium, HostCacheSpec, ServedTier};
use destage_exec::{
    AcceptedLosses, AlignedBuffer, FileExecutor, FileProbe, FilesError, IoBackend, NvramPlace, OsInterface, RealOs,
    RequestCompletion,
};
use destage_nbd::StatusExtent;
use destage_plan::{Column, Dev, DevSet, HostRequest, PageRange, Row, Status, path_text};
use destage_raid::{Geometry, PagePlace, RaidLevel};

use news::ArraySnapshot;
use scrubbing::ArrayScrub;
use succession::WaitingReplacement;

use crate::description::folder;
use crate::replacement::{check_cache, check_member};
use crate::status::{CACHE, SLOW};
use crate::{
    ArrayDescription, ArrayState, ArrayStatus, BlockBackend, ByteRange, CacheCount, CacheStatus, DescribedArray,
    DescriptionError, DeviceReplacement, DeviceStatus, ReplaceError, ReplaceOutcome, ResynchronisedStatus, ScrubError,
    ScrubRequest, ScrubStatus, ServiceEvent, StateStatus, holes, marks,
};

/// Limits how long an array may stay locked for a service that was killed. The kernel ends what the service had in its
/// ring before it lets go of the lock. Nobody may open the files before that.
const LINGERS: Duration = Duration::from_secs(2);

/// Limits how long a member is waited for that is to be taken out, or replaced while it answers: it may hang.
const SETTLES: Duration = Duration::from_secs(10);

/// Tells how far an array has come to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SettlePhase {
    /// Writes back what members have not.
    Draining,
    /// Makes it durable, and clears the intents of rows.
    Flushing,
}

/// An array on its files.
#[derive(Debug)]
pub struct ArrayBackend {
    os: Arc<dyn OsInterface>,
    files: FileExecutor<Box<dyn ServedTier>>,
    description: ArrayDescription,
    /// The description's file.
    path: PathBuf,
    geometry: Geometry,
    policy: HostCacheSpec,
    /// Holds the array as it was when its news were asked for last, and the state that was told.
    seen: Option<ArraySnapshot>,
    told: Option<ArrayState>,
    /// Tells that what an earlier life had begun to replace is looked after.
    is_resumed: bool,
    /// Tells how far the array has come to rest before a device is replaced.
    settling: Option<SettlePhase>,
    /// Lists what has happened since that no comparison with what was seen shows.
    untold: Vec<ServiceEvent>,
    /// Tells of each device whether its file makes holes.
    holes: Vec<bool>,
    scrub: Option<ArrayScrub>,
    /// Holds a file whose member was lost while it was copied to it.
    waiting: Option<WaitingReplacement>,
    /// Asks the file of an order whether it answers.
    probe: Option<FileProbe>,
}

impl ArrayBackend {
    /// Opens the array that a description in this file describes.
    ///
    /// If the files of NVRAM or intents are lost they are made anew, and the rows that members have marked are made
    /// consistent. If only they, or the cache's device, may have had writes that were answered, that is an error unless
    /// it is [accepted](AcceptedLosses::data). So are pages that are lost with a member of rows that were being written when the
    /// last life ended, or with a cache's device: the [news](BlockBackend::news) say which.
    ///
    /// # Errors
    /// If there can be no such array, or its files are not what it says; if something is lost that was not accepted.
    pub fn open(
        description: ArrayDescription,
        path: &Path,
        accepted: AcceptedLosses,
    ) -> Result<Self, DescriptionError> {
        Self::open_on(Arc::new(RealOs), description, path, accepted)
    }

    /// Opens it with all losses accepted, and believes these members if the level cannot do without them.
    pub(crate) fn open_with(
        description: ArrayDescription,
        path: &Path,
        believed: DevSet,
    ) -> Result<Self, DescriptionError> {
        Self::open_believing(Arc::new(RealOs), description, path, AcceptedLosses { data: true, notes: true }, believed)
    }

    /// Does what [`open`](Self::open) does, on another operating system.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(
        os: Arc<dyn OsInterface>,
        description: ArrayDescription,
        path: &Path,
        accepted: AcceptedLosses,
    ) -> Result<Self, DescriptionError> {
        Self::open_believing(os, description, path, accepted, DevSet::EMPTY)
    }

    fn open_believing(
        os: Arc<dyn OsInterface>,
        description: ArrayDescription,
        path: &Path,
        accepted: AcceptedLosses,
        believed: DevSet,
    ) -> Result<Self, DescriptionError> {
        let begin = Instant::now();
        description.check_md(folder(path))?;
        loop {
            let losses = if accepted.data { vec![PageRange::ALL] } else { Vec::new() };
            let described = description.described_without(folder(path), losses, believed)?;
            let DescribedArray { geometry, policy, controller, files } = described;
            // A cache that holds copies alone can lose nothing, so its losses need nobody's consent.
            let accepted = AcceptedLosses { data: accepted.data || !holds_data(&policy), ..accepted };
            match FileExecutor::resynchronise_on(Arc::clone(&os), controller, files, accepted) {
                // A killed service's locks outlive it until the kernel has ended its operations: waiting beats
                // failing a restart.
                Err(FilesError::InUse(_)) if begin.elapsed() < LINGERS => std::thread::sleep(LINGERS / 100),
                opened => {
                    let (files, path) = (opened?, path.to_owned());
                    let paths = files.config().devices.iter().map(|device| device.path.clone());
                    // Asked once per file: whether zeros are fast must be answered per request, without a system
                    // call.
                    let holes = holes::are_made_in_each(paths.collect());
                    let mut array = Self {
                        os,
                        files,
                        description,
                        path,
                        geometry,
                        policy,
                        seen: None,
                        told: None,
                        is_resumed: false,
                        settling: None,
                        untold: Vec::new(),
                        holes,
                        scrub: None,
                        waiting: None,
                        probe: None,
                    };
                    array.take_order();
                    array.note_nvram();
                    return Ok(array);
                }
            }
        }
    }

    /// Names members in the order in which they were found by their labels, from now on.
    fn take_order(&mut self) {
        let named = self.description.array.members.clone();
        let paths: Vec<PathBuf> = named.iter().map(|member| folder(&self.path).join(member)).collect();
        let found = self.files.config().devices.iter().zip(&paths);
        // Members in their order are the usual case, and need no event.
        if found.clone().all(|(device, path)| device.path == *path) {
            return;
        }
        let at = found.map(|(device, _)| paths.iter().position(|path| *path == device.path));
        let order: Vec<PathBuf> = at.map(|at| named[at.expect("the description names it")].clone()).collect();
        let members = self.files.config().devices.iter().take(named.len()).map(|device| path_text::of(&device.path));
        self.untold.push(ServiceEvent::MembersReordered { members: members.collect() });
        self.description.array.members = order;
    }

    /// Waits until what the last life left is put right.
    ///
    /// # Errors
    /// If the array is refused, or has stopped.
    pub fn wait_ready(&mut self) -> Result<(), FilesError> {
        self.files.wait_ready()
    }

    /// Has files filled that took a member's place before the last life ended, and of which filling had not begun: nobody
    /// could tell from the status that they have to be replaced once more.
    fn resume_filling(&mut self) {
        if self.is_resumed || self.files.status() != Status::Ready {
            return;
        }
        self.is_resumed = true;
        let array = self.files.engine().controller().array();
        // With more members lost than the level tolerates, nothing can fill another.
        if array.is_broken() {
            return;
        }
        let filling: DevSet = array.filling().map(|one| one.0).into_iter().collect();
        let waiting: Vec<Dev> = (array.degraded() - filling).iter().filter(|dev| self.files.answers(*dev)).collect();
        for dev in waiting {
            let path = self.files.config().devices[dev.index()].path.clone();
            // If filling cannot begin, the device is lost, which is news. If the array has stopped, the next call
            // returns why.
            drop(self.files.replace(dev, &path));
        }
    }

    /// Goes on coming to rest.
    fn go_on_settling(&mut self) -> Result<(), FilesError> {
        match self.settling {
            Some(SettlePhase::Draining) if !self.files.is_draining() => {
                self.settling = Some(SettlePhase::Flushing);
                self.files.begin_settle()
            }
            Some(SettlePhase::Flushing) => {
                let served = self.files.engine().controller();
                // A member that is being filled is not waited for, since that takes hours. Nor is one that is copied,
                // but for the flush, which finds others that have failed.
                let is_copying = served.array().copying().is_some() && served.array().is_at_rest();
                let has_ended = self.files.is_idle() || self.filling().is_some() || is_copying;
                let status = served.status();
                // Dirty rows that cannot be written back keep nothing waiting: the order is refused over them.
                let is_noted = !status.needs_device || status.dirty_rows > 0;
                let is_at_rest = served.array().are_rows_at_rest() && is_noted;
                if has_ended && is_at_rest && self.files.is_durable() {
                    self.settling = None;
                } else if has_ended && !is_at_rest {
                    // The cache may have released intents meanwhile, and a flush that began before does not clear
                    // them.
                    return self.files.begin_settle();
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The executor.
    pub const fn files(&self) -> &FileExecutor<Box<dyn ServedTier>> {
        &self.files
    }

    /// The file that the description names for a device.
    fn device_path(&self, number: usize) -> PathBuf {
        let (members, cache) = (&self.description.array.members, &self.description.cache.device);
        let path = members.get(number).or(cache.as_ref());
        folder(&self.path).join(path.map_or(Path::new(""), PathBuf::as_path))
    }

    fn state(&self) -> ArrayState {
        let served = self.files.engine().controller();
        match self.files.status() {
            // Hanging comes first: requests fail over it now, whatever else is wrong.
            Status::Starting | Status::Ready if !self.files.hanging().is_empty() => ArrayState::Hanging,
            Status::Starting => ArrayState::Recovering,
            // The text of the state is the text of the error, so status, log and exit name one cause.
            Status::Refused(why) => ArrayState::Stopped(FilesError::Refused(Box::new(why)).to_string()),
            Status::Ready if served.array().is_broken() => ArrayState::Failed,
            Status::Ready if served.array().is_rebuilding() => ArrayState::Rebuilding,
            Status::Ready if !served.array().degraded().is_empty() || !served.is_caching() => ArrayState::Degraded,
            Status::Ready if self.has_bad_pages() => ArrayState::Degraded,
            Status::Ready => ArrayState::Serving,
        }
    }

    /// Returns true if a member has pages that cannot be read though they were written.
    fn has_bad_pages(&self) -> bool {
        let array = self.files.engine().controller().array();
        self.geometry.member_set().iter().any(|dev| array.unwritable(dev) > 0)
    }

    /// Returns what is lost for good.
    fn lost(&self) -> Vec<ByteRange> {
        let page = self.files.config().shape.page_bytes();
        let array = self.files.engine().controller().array();
        let missing = array.missing().filter_map(|page| self.data_at(page.dev, Row(page.page)));
        let missing = missing.map(|first| PageRange { first, pages: 1 });
        let ranges = array.lost().iter().copied().chain(missing);
        ranges.map(|range| ByteRange { offset: range.first * page, bytes: range.pages * page }).collect()
    }

    /// Returns true if every member's file makes holes.
    fn has_holes(&self) -> bool {
        let members = usize::from(self.geometry.members());
        self.holes.len() >= members && self.holes[..members].iter().all(|makes| *makes)
    }

    /// Returns the name of a device in the status.
    fn device_name(&self, dev: Dev) -> String {
        if dev.0 < self.geometry.members() { format!("member {}", dev.0) } else { CACHE.to_owned() }
    }

    fn device_names(&self) -> impl Iterator<Item = String> {
        (0..self.files.config().devices.len() as u8).map(|dev| self.device_name(Dev(dev)))
    }

    /// Returns the number of a device that is named as the status does, or by a member's number.
    fn device_numbered(&self, device: &str) -> Option<usize> {
        self.device_names().position(|name| name == device || name.strip_prefix("member ") == Some(device))
    }

    fn device_file(&self, dev: Dev) -> String {
        path_text::of(&self.files.config().devices[dev.index()].path)
    }

    /// Returns the page of data that a member holds in a row, unless that is parity.
    fn data_at(&self, dev: Dev, row: Row) -> Option<u64> {
        let (stripe, row_in_chunk) = self.geometry.stripe_of(row);
        let column = self.geometry.column(stripe, dev);
        // A mirror's copies all hold the data of column 0.
        let column = if self.geometry.level() == RaidLevel::Raid1 { Column(0) } else { column };
        let is_data = self.geometry.data_set().contains(column);
        is_data.then(|| self.geometry.page_of(PagePlace { stripe, row_in_chunk, column }))
    }

    /// Returns the member that is being filled, and how many percent of its rows it holds.
    fn filling(&self) -> Option<(Dev, f64)> {
        let (dev, rows) = self.files.engine().controller().array().filling()?;
        Some((dev, 100.0 * rows.0 as f64 / self.geometry.member_pages() as f64))
    }

    fn devices(&self) -> Vec<DeviceStatus> {
        let configs = self.files.config().devices.iter().zip(self.files.traffic()).zip(0..);
        let told = configs.map(|((config, traffic), number)| {
            let dev = Dev(number);
            let error = self.files.errors().find(|(other, _)| *other == dev).map(|(_, error)| error.to_string());
            DeviceStatus {
                name: self.device_name(dev),
                path: path_text::of(&config.path),
                answers: self.files.answers(dev),
                waiting_seconds: self.files.waits_for(dev).and_then(slow),
                filled_percent: self.filling().filter(|(filling, _)| *filling == dev).map(|(_, percent)| percent),
                successor: self.successor_status(dev),
                error,
                direct: self.files.is_direct(dev),
                buffered: self.files.buffered().find(|(other, _)| *other == dev).map(|(_, why)| why.to_string()),
                reads: traffic.reads,
                read_merges: traffic.read_merges,
                writes: traffic.writes,
                write_merges: traffic.write_merges,
                fua: traffic.fua,
                trims: traffic.trims,
                flushes: traffic.flushes,
                read_bytes: traffic.read_bytes,
                written_bytes: traffic.written_bytes,
                marks: traffic.marks,
                mark_bytes: traffic.mark_bytes,
                corrected_pages: traffic.corrected,
                mismatched_reads: traffic.mismatches,
                bad_pages: self.files.engine().controller().array().unwritable(dev),
            }
        });
        told.collect()
    }

    /// The files of NVRAM and intents.
    fn state_files(&self) -> [StateStatus; 2] {
        let config = self.files.config();
        let [nvram, intents] = self.files.state_traffic();
        // An NVRAM on the cache's device wears that device out, so the status names the device.
        let on = matches!(config.nvram, NvramPlace::Behind(_)).then(|| CACHE.to_owned());
        let [nvram_waits, intents_wait] = self.files.waits_for_store();
        let [nvram_buffered, intents_buffered] = self.files.buffered_state().map(|why| why.map(ToString::to_string));
        let nvram = (config.nvram_path(), on, nvram, nvram_waits, nvram_buffered);
        let intents = (&*config.intents, None, intents, intents_wait, intents_buffered);
        let is_direct = self.files.config().is_direct();
        [nvram, intents].map(|(path, on, traffic, waits, buffered)| StateStatus {
            direct: is_direct && buffered.is_none(),
            buffered,
            waiting_seconds: waits.and_then(slow),
            path: path_text::of(path),
            on,
            steps: traffic.steps,
            written_bytes: traffic.written_bytes,
            syncs: traffic.syncs,
        })
    }

    fn cache(&self) -> Option<CacheStatus> {
        let served = self.files.engine().controller();
        let counts = served.counts().copied().unwrap_or_default();
        let figures = self.policy.info().figures.iter().zip(served.figures()).map(|(figure, value)| CacheCount {
            name: figure.name.to_owned(),
            value,
            unit: figure.unit.to_owned(),
        });
        self.policy.info().is_sized().then(|| CacheStatus {
            in_use: served.is_caching(),
            read_hits: counts.read_hits,
            read_misses: counts.read_misses,
            write_hits: counts.write_hits,
            write_misses: counts.write_misses,
            bypassed: counts.bypassed,
            figures: figures.collect(),
        })
    }
}

/// Returns true if the NVRAM or the cache's device may have writes that were answered and are on no member.
fn holds_data(policy: &HostCacheSpec) -> bool {
    policy.info().holds_dirty || policy.info().medium == CacheMedium::Nvram
}

/// Returns for how many seconds something has had no answer if it is slow.
fn slow(waits: Duration) -> Option<f64> {
    (waits > SLOW).then_some(waits.as_secs_f64())
}

impl BlockBackend for ArrayBackend {
    fn bytes(&self) -> u64 {
        self.files.config().shape.bytes()
    }

    fn submit(&mut self, request: HostRequest, data: AlignedBuffer) -> Result<(), FilesError> {
        self.note_request();
        self.files.submit(request, data)
    }

    fn poll(&mut self) -> Result<Option<RequestCompletion>, FilesError> {
        if let Status::Refused(why) = self.files.status() {
            return Err(FilesError::Refused(Box::new(why)));
        }
        // Before the executor's turn, so what these begin goes out in the same turn.
        self.resume_filling();
        self.go_on_scrubbing()?;
        let first = self.files.poll()?;
        // After the executor's turn, which may have moved the NVRAM or ended a copy.
        self.note_nvram();
        self.go_on_copying()?;
        self.go_on_settling()?;
        Ok(first)
    }

    fn next_completion(&mut self) -> Option<RequestCompletion> {
        self.files.next_completion()
    }

    fn wake_with(&mut self, waker: Box<dyn Fn() + Send + Sync>) {
        self.files.wake_with(waker);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.files.descriptor()
    }

    fn hear(&mut self) -> bool {
        self.files.hear()
    }

    fn until_timer(&self) -> Option<Duration> {
        [self.files.until_timer(), self.until_portion(), self.until_tried_again()].into_iter().flatten().min()
    }

    fn begin_drain(&mut self) -> Result<(), FilesError> {
        self.files.begin_drain()
    }

    fn is_draining(&self) -> bool {
        self.files.is_draining()
    }

    fn settles_before(&self, replacement: &DeviceReplacement) -> Option<Duration> {
        let number = self.device_numbered(&replacement.device)?;
        // A forced replacement gives up what the device holds, and one that is lost has nothing to write back.
        if replacement.force || self.files.status() != Status::Ready || !self.files.answers(Dev(number as u8)) {
            return None;
        }
        if self.is_copied_for(replacement) {
            return None;
        }
        let served = &**self.files.engine().controller();
        if number >= usize::from(self.geometry.members()) {
            // Writing back a whole cache takes as long as it takes: giving up early would lose what is dirty.
            return served.is_caching().then_some(Duration::MAX);
        }
        let names_other = replacement.takes_out || replacement.path.is_some();
        let checked = check_member(served, self.files.status(), Dev(number as u8), names_other);
        checked.is_ok().then_some(SETTLES)
    }

    fn begin_settle(&mut self) -> Result<(), FilesError> {
        self.settling = Some(SettlePhase::Draining);
        self.files.begin_drain()
    }

    fn is_settling(&self) -> bool {
        self.settling.is_some()
    }

    fn is_noted(&self) -> bool {
        let unnoted = self.files.engine().controller().unnoted();
        // The operator may pull the device once told: nothing may lie on it alone by then.
        (unnoted & self.geometry.member_set()).is_empty() && self.files.is_durable() && !self.files.is_moving()
    }

    fn ask_file(&mut self, replacement: &DeviceReplacement) -> Result<bool, ReplaceError> {
        let number = self.device_numbered(&replacement.device).filter(|_| !replacement.takes_out);
        let Some(number) = number else { return Ok(false) };
        let own = &self.files.config().devices[number].path;
        self.probe = self.files.ask_file(Dev(number as u8), replacement.path.as_ref().unwrap_or(own))?;
        Ok(self.probe.is_some())
    }

    fn file_answers(&mut self) -> Option<Result<(), ReplaceError>> {
        let Some(probe) = &mut self.probe else { return Some(Ok(())) };
        let answer = probe.poll()?;
        self.probe = None;
        Some(answer.map_err(ReplaceError::Files))
    }

    fn replace(&mut self, replacement: &DeviceReplacement) -> Result<ReplaceOutcome, ReplaceError> {
        // An order that waits no longer ends the settling as well, or requests would stay held back.
        self.settling = None;
        let DeviceReplacement { device, path, takes_out, force } = replacement;
        let Some(number) = self.device_numbered(device) else {
            let known = self.device_names().collect::<Vec<_>>().join(", ");
            return Err(ReplaceError::Device { device: device.clone(), known });
        };
        if self.is_copied_for(replacement) {
            return self.begin_copy(Dev(number as u8), replacement);
        }
        let own = &self.files.config().devices[number].path;
        let (served, status) = (&**self.files.engine().controller(), self.files.status());
        if *takes_out && !self.files.answers(Dev(number as u8)) {
            return Err(ReplaceError::Lost { device: self.device_name(Dev(number as u8)) });
        }
        if *force {
            // The caller gives up what is lost by it.
        } else if number < usize::from(self.geometry.members()) {
            let names_other = *takes_out || path.as_ref().is_some_and(|path| path != own);
            check_member(served, status, Dev(number as u8), names_other)?;
        } else {
            // Checked before anything is changed: what is refused leaves the array as it was.
            check_cache(served, status)?;
        }
        if *takes_out {
            self.files.take_out(Dev(number as u8))?;
            self.note_nvram();
            return Ok(ReplaceOutcome::Done);
        }
        let path = path.clone().unwrap_or_else(|| own.clone());
        if *force {
            self.files.replace_over(Dev(number as u8), &path)?;
        } else {
            self.files.replace(Dev(number as u8), &path)?;
        }
        self.note_nvram();
        // The file has the device's place by now: an error of the description is reported, and undoes nothing.
        self.note_replaced(Dev(number as u8))?;
        Ok(ReplaceOutcome::Done)
    }

    fn begin_scrub(&mut self, order: &ScrubRequest) -> Result<(), ScrubError> {
        self.order_scrub(order)
    }

    fn end_scrub(&mut self, why: &str) {
        self.cut_scrub(why);
    }

    fn scrub(&self) -> Option<ScrubStatus> {
        self.scrub_status()
    }

    fn news(&mut self, tell: &mut dyn FnMut(ServiceEvent)) {
        self.tell_news(tell);
    }

    fn zeroes_fast(&self, offset: u64, len: u64) -> bool {
        let shape = &self.files.config().shape;
        let (first, end) = (offset.div_ceil(shape.page_bytes()), (offset + len) / shape.page_bytes());
        // Partial pages at either end are written, whatever the devices can do.
        let is_trimmed = self.files.engine().controller().trims_zeros(first..end);
        is_trimmed && self.files.status() == Status::Ready && self.has_holes()
    }

    fn marks(&self, offset: u64, len: u64) -> Vec<StatusExtent> {
        marks::of(&**self.files.engine().controller(), self.files.config().shape.page_bytes(), offset, len)
    }

    fn status(&self) -> ArrayStatus {
        let served = self.files.engine().controller();
        let [nvram, intents] = self.state_files();
        ArrayStatus {
            uuid: self.description.uuid.to_string(),
            state: self.state(),
            level: format!("{}:{}", self.geometry.level(), self.geometry.members()),
            policy: format!("{:?}", self.policy),
            bytes: self.bytes(),
            io: if self.files.io() == IoBackend::Ring { "uring" } else { "threads" }.to_owned(),
            no_uring: self.files.no_ring().map(ToString::to_string),
            devices: self.devices(),
            nvram,
            intents,
            cache: self.cache(),
            stale_rows: served.stale_rows() as u64,
            resynchronised: self.files.resynchronised().map(|done| ResynchronisedStatus {
                lost: done.lost.iter().map(|path| path.display().to_string()).collect(),
                is_behind: done.is_behind,
                rows: done.rows,
                of: done.of,
                data_lost: done.data_lost && holds_data(&self.policy),
            }),
            lost: self.lost(),
            copied_bytes: self.files.copied(),
            scrub: self.scrub_status(),
        }
    }

    fn begin_stop(&mut self) {
        // A copy could take hours; its file is simply not the member at the next start.
        self.end_copy();
        self.files.begin_end();
    }

    fn stop(self) -> Result<(), FilesError> {
        self.files.stop_clean().map(drop)
    }
}
