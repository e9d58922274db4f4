//! Begins a life: creates or opens the files, and starts the threads or the ring.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use destage_plan::{Controller, Dev, DevSet, Engine, Nanos, Start, Status};

use super::clock::LoopClock;
use super::device::{DeviceTraffic, FileDevice};
use super::executor::FileExecutor;
use super::serve::TIDY;
use super::watch::TimeoutWatch;
use crate::bytes::BufferTable;
use crate::files::bad_page_lists::BadPageLists;
use crate::files::config::{AcceptedLosses, ExistingFiles, FilesConfig};
use crate::files::error::FilesError;
use crate::files::io::device::{start_device, start_ring};
use crate::files::io::metadata::{OPEN, identity};
use crate::files::io::os::OsInterface;
use crate::files::io::patience::patiently;
use crate::files::io::port::LoopWakeup;
use crate::files::io::real::RealOs;
use crate::files::io::threads::pool::WorkerPool;
use crate::files::nvram::group_commit::GroupCommit;
use crate::files::open::create::ZeroingWatch;
use crate::files::open::force::MemberFreshness;
use crate::files::open::opened::OpenedArray;
use crate::files::open::spare_nvram::{in_spare_place, spare_file};
use crate::files::open::{assemble, create, force, order, overwrite, recover, replacement};

/// Opens an array whose NVRAM may lie in its spare place by now, and whose members may be in each other's places; returns the
/// configuration if it is another one.
fn open_in_place(
    os: &dyn OsInterface,
    config: &FilesConfig,
    open: impl Fn(&dyn OsInterface, &FilesConfig) -> Result<OpenedArray, FilesError>,
) -> Result<(OpenedArray, Option<FilesConfig>), FilesError> {
    // The spare place is looked at first: it may hold a newer NVRAM than the place
    // that the configuration names.
    let Some(placed) = in_spare_place(os, config)? else { return order::open_in_order(os, config, open) };
    let (opened, ordered) = order::open_in_order(os, &placed, open)?;
    Ok((opened, ordered.or(Some(placed))))
}

impl<C: Controller> FileExecutor<C> {
    /// Makes the files of a new array, of zeros unless they keep what they hold, and serves it. Their folders must exist.
    ///
    /// # Errors
    /// If a file exists and must not be overwritten, is in use, or cannot be made; if one that keeps what it holds is not
    /// there, or has no room for a label behind it. If none was to be overwritten, none is left that was made.
    pub fn create(controller: C, config: FilesConfig, existing: ExistingFiles) -> Result<Self, FilesError> {
        Self::create_on(Arc::new(RealOs), controller, config, existing)
    }

    /// As [`create`](Self::create), on another operating system.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_on(
        os: Arc<dyn OsInterface>,
        controller: C,
        config: FilesConfig,
        existing: ExistingFiles,
    ) -> Result<Self, FilesError> {
        Self::create_watched_on(os, controller, config, existing, Box::new(|_| ControlFlow::Continue(())))
    }

    /// Creates as [`create_on`](Self::create_on) does, and tells how far block devices read as zeros, which may take long.
    ///
    /// # Errors
    /// As [`create`](Self::create); if `watch` breaks off.
    pub fn create_watched_on(
        os: Arc<dyn OsInterface>,
        controller: C,
        config: FilesConfig,
        existing: ExistingFiles,
        mut watch: ZeroingWatch,
    ) -> Result<Self, FilesError> {
        // Files that were made are removed on failure, but only if all of them
        // were: earlier errors remove their own.
        let is_made = Arc::new(AtomicBool::new(false));
        let (made, asked, whole) = (Arc::clone(&os), config.clone(), Arc::clone(&is_made));
        let started = Self::start_with(os, controller, config, move |os, config| {
            let opened = create::create(os, config, existing, &mut watch)?;
            whole.store(true, Ordering::Relaxed);
            Ok((opened, None))
        });
        if started.is_err() && is_made.load(Ordering::Relaxed) {
            Self::unmake(&*made, &asked, existing);
        }
        started
    }

    /// Takes away what [`create`](Self::create) has made, which nobody serves: its files, and its labels on block devices. What cannot
    /// be removed stays, and so does what was overwritten.
    pub fn unmake(os: &dyn OsInterface, config: &FilesConfig, existing: ExistingFiles) {
        if existing != ExistingFiles::Overwrite {
            create::unmake(os, config, existing);
        }
    }

    /// Returns what [`create`](Self::create) is to be told of existing files, so that a new array can replace
    /// an old one. Files of the old one are removed first. Changes nothing.
    ///
    /// # Errors
    ///
    /// If there can be no such new array. If a file that the old array names has another's number, is in use,
    /// or cannot be read. If the new one has a file or block device that holds something and is no part of the
    /// old one.
    pub fn check_given_up(
        os: &dyn OsInterface,
        old: &FilesConfig,
        new: &FilesConfig,
    ) -> Result<ExistingFiles, FilesError> {
        new.check()?;
        overwrite::check(os, old, new)
    }

    /// Returns the spare place of an array's NVRAM if there is one of the array's, be it that the NVRAM lies elsewhere.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn find_spare_nvram<'a>(os: &dyn OsInterface, config: &'a FilesConfig) -> Result<Option<&'a Path>, FilesError> {
        Ok(spare_file(os, config)?.and(config.spare()))
    }

    /// Returns the file of each member of an array that nobody serves, as their labels say, and how fresh it is. Nothing is
    /// changed.
    ///
    /// # Errors
    /// If a file is another array's or cannot be opened though it is there; if the array is in use; if no member has marks.
    pub fn inspect_members(config: &FilesConfig) -> Result<Vec<(PathBuf, MemberFreshness)>, FilesError> {
        config.check()?;
        force::inspect(&RealOs, config)
    }

    /// Has the next start of an array that nobody serves believe these members, which are [stale](MemberFreshness::Stale),
    /// beside those that are current, and no other. What they hold is as old as it is. A controller has to be told as well.
    ///
    /// # Errors
    /// As [`inspect_members`](Self::inspect_members); if a member cannot be written.
    pub fn force_members(config: &FilesConfig, forced: DevSet) -> Result<(), FilesError> {
        config.check()?;
        force::force(&RealOs, config, forced)
    }

    /// Serves an array that was made before, with what its last life left. A device whose file is
    /// not there is told to the controller as missing. Members that are in each other's places are found by their labels:
    /// [`config`](Self::config) has their order.
    ///
    /// # Errors
    /// If the NVRAM or the intents are not there, not this array's, or damaged, or the device on which the NVRAM lies is not; if a file has
    /// another size, is in use, or cannot be opened though it is there.
    pub fn open(controller: C, config: FilesConfig) -> Result<Self, FilesError> {
        Self::open_on(Arc::new(RealOs), controller, config)
    }

    /// As [`open`](Self::open), on another operating system.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(os: Arc<dyn OsInterface>, controller: C, config: FilesConfig) -> Result<Self, FilesError> {
        Self::start_with(os, controller, config, |os, config| open_in_place(os, config, assemble::open))
    }

    /// Serves an array whose NVRAM or intents are lost: they are made anew, and the rows that the members have marked are
    /// made consistent. What else is lost with them has to be [accepted](AcceptedLosses). What a cache's device holds is none of
    /// the array's any more. One on which the NVRAM lies is made anew, be it another one that is empty or not there; if it is not there, or cannot be read, the NVRAM goes to its [spare place](FilesConfig::spare_nvram), if there is one. If nothing is lost this is [`open`](Self::open).
    ///
    /// # Errors
    /// As [`open`](Self::open); if something is lost that was not accepted, or no member has marks.
    pub fn resynchronise(controller: C, config: FilesConfig, accepted: AcceptedLosses) -> Result<Self, FilesError> {
        Self::resynchronise_on(Arc::new(RealOs), controller, config, accepted)
    }

    /// As [`resynchronise`](Self::resynchronise), on another operating system.
    ///
    /// # Errors
    /// As [`resynchronise`](Self::resynchronise).
    pub fn resynchronise_on(
        os: Arc<dyn OsInterface>,
        controller: C,
        config: FilesConfig,
        accepted: AcceptedLosses,
    ) -> Result<Self, FilesError> {
        let open = move |os: &dyn OsInterface, config: &FilesConfig| recover::resynchronise(os, config, accepted);
        Self::start_with(os, controller, config, move |os, config| open_in_place(os, config, open))
    }

    /// Opens the files, on a thread that may be left behind, and begins to serve them.
    fn start_with(
        os: Arc<dyn OsInterface>,
        controller: C,
        config: FilesConfig,
        open: impl FnOnce(&dyn OsInterface, &FilesConfig) -> Result<(OpenedArray, Option<FilesConfig>), FilesError>
        + Send
        + 'static,
    ) -> Result<Self, FilesError> {
        config.check()?;
        // Opening may hang on any file, so it runs on a thread that is abandoned
        // after the patience.
        let asked = config.clone();
        let (mut opened, ordered) = patiently(&os, config.nvram_path(), config.patience, move |os| open(os, &asked))?;
        let config = ordered.unwrap_or(config);
        let spare = opened.spare.take().map(|spare| config.with_nvram_in(&spare));
        Self::start(os, controller, spare.unwrap_or(config), opened)
    }

    fn start(
        os: Arc<dyn OsInterface>,
        controller: C,
        config: FilesConfig,
        opened: OpenedArray,
    ) -> Result<Self, FilesError> {
        let wakeup = Arc::new(LoopWakeup::default());
        let (mut ring, no_ring) = start_ring(&*os, &config, &wakeup)?;
        let mut devices = Vec::with_capacity(opened.devices.len());
        for (dev, file) in opened.devices.into_iter().enumerate() {
            let path = &config.devices[dev].path;
            let (file, error) = match file {
                Ok(file) => (Some(file), None),
                Err(error) => (None, Some(FilesError::io(path, OPEN)(error))),
            };
            let handle = file.clone();
            // Identities are taken now, while the files are known to answer:
            // replacements are compared with them later.
            let identity = file.as_ref().map(|file| identity(&**file, path)).transpose()?;
            let direct =
                file.as_ref().map(|file| replacement::go_direct(&os, &config, dev, path, file)).transpose()?.flatten();
            let backend = file.map(|file| start_device(&os, &config, dev, file, &wakeup, ring.as_mut())).transpose()?;
            let (under_way, backlog, blocked) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
            devices.push(FileDevice {
                searches: Vec::new(),
                successor: None,
                is_held: false,
                hangs: false,
                abandoned: None,
                failed: backend.is_none(),
                backend,
                under_way,
                backlog,
                blocked,
                error,
                file: identity,
                handle,
                left: None,
                direct,
                traffic: DeviceTraffic::default(),
            });
        }
        // A damaged list counts as empty. Its pages are found again when they are
        // read.
        let damaged_lists =
            opened.bad_pages.iter().zip(0..).filter(|(list, _)| list.is_none()).map(|(_, dev)| Dev(dev));
        let damaged_lists = damaged_lists.collect();
        let mut buffered_state = [None, None];
        // Direct I/O begins when the labels are read: the same open file, so that
        // its lock goes on.
        if config.is_direct() {
            let paths = [config.nvram_path(), &*config.intents];
            for ((file, path), buffered) in opened.store.state_files().into_iter().zip(paths).zip(&mut buffered_state) {
                *buffered = replacement::state_goes_direct(&os, path, config.patience, file)?;
            }
        }
        let (accounts, store_gate) = (opened.store.accounts(), opened.store.gate());
        let store = if os.is_in_line() {
            Ok(WorkerPool::in_line(config.depth, vec![opened.store]))
        } else {
            WorkerPool::start("destage-nvram", config.depth, &wakeup, vec![opened.store])
        };
        let store = store.map_err(FilesError::io(config.nvram_path(), "start its thread"))?;
        // Missing devices are told to the controller at the start, not as failures:
        // nothing of them was in flight.
        let missing = devices.iter().zip(0..).filter(|(device, _)| device.failed).map(|(_, dev)| Dev(dev)).collect();
        let shape = config.shape;
        let mut files = Self {
            bad_pages: BadPageLists::new(&config, opened.bad_pages),
            damaged_lists,
            engine: Engine::new(controller, shape, config.depth),
            bytes: BufferTable::new(shape.page_bytes(), shape.sector_bytes(), opened.nvram),
            config,
            devices,
            store,
            accounts,
            roster: opened.roster,
            roster_file: opened.roster_file,
            buffered_state,
            counted: 0,
            is_counting: false,
            standing_in: DevSet::EMPTY,
            store_backlog: VecDeque::new(),
            store_gate,
            store_under_way: VecDeque::new(),
            store_moved: Nanos::ZERO,
            timeout: TimeoutWatch::default(),
            group_commit: GroupCommit::default(),
            marks: opened.marks,
            resynchronised: opened.resynchronised,
            damaged: opened.damaged,
            damaged_nvram: opened.damaged_nvram,
            ring,
            no_ring,
            state: opened.state,
            home: opened.home,
            moving: None,
            left_home: None,
            wakeup,
            requests: Vec::new(),
            free: Vec::new(),
            answered: Vec::new(),
            unanswered: 0,
            until_tidy: TIDY,
            blocked: VecDeque::new(),
            completions: VecDeque::new(),
            page_reports: VecDeque::new(),
            clean: false,
            dropped: None,
            draining: false,
            scrubbing: false,
            scrubbed: None,
            stopped: false,
            // Without threads time is virtual, so that a seed decides everything.
            clock: if os.is_in_line() { LoopClock::Virtual(Nanos::ZERO) } else { LoopClock::Real(Instant::now()) },
            os,
            device_results: VecDeque::new(),
            ended: VecDeque::new(),
            store_results: VecDeque::new(),
            spare_lists: Vec::new(),
            lock: opened.lock,
        };
        let nv: Vec<_> = files.bytes.nvram().slots().collect();
        let intents = files.bytes.nvram().intents.ranges();
        let start = Start {
            nv: &nv,
            intents: &intents,
            missing,
            // Files collect no garbage that they could be asked for.
            collectors: DevSet::EMPTY,
            unwritable: &files.bad_pages.pages(),
        };
        files.engine.start(files.now(), start);
        // A start that is refused changes nothing: what is missing may be brought back.
        if !matches!(files.engine.status(), Status::Refused(_)) {
            // The roster stops naming missing files before anything is acknowledged
            // that they miss.
            if !missing.is_empty() {
                files.distrust(missing)?;
            }
            files.settle_event_count()?;
        }
        files.go_on()?;
        Ok(files)
    }
}
