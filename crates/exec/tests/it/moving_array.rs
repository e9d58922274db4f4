//! An array whose NVRAM lies on the cache's device, in memory, and what its client knows.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use destage_cache::ServedTier;
use destage_exec::{
    AcceptedLosses, CrashPoint, ExecutorFault, ExistingFiles, FileExecutor, FilesConfig, FilesError, NvramPlace,
    RecordingOs, RequestCompletion,
};
use destage_plan::{Dev, HostOp, HostRequest, Status};
use destage_raid::RaidLevel;
use destage_raid::array::DurabilityMode;
use destage_testkit::TestRng;

use crate::arrays::{Array, cache, recording};

pub const CACHE: Dev = Dev(4);
pub const PAGE: usize = 512;
/// Counts the pages that are written.
pub const PAGES: u64 = 40;
/// Lists the caches with a device, of which the last alone has data there that is nowhere else.
pub const CACHES: [&str; 5] = ["write-through", "write-around", "leavo", "kdd", "write-back"];

pub fn array(name: &str, regime: DurabilityMode) -> Array {
    Array { cache: cache(name), cache_pages: 64, regime, depth: 4, ..Array::new(RaidLevel::Raid5, 4) }
}

pub fn home() -> PathBuf {
    "/array/dev4".into()
}

pub fn spare() -> PathBuf {
    "/array/spare".into()
}

pub fn config(array: &Array) -> FilesConfig {
    let files = array.files(Path::new("/array"));
    FilesConfig { nvram: NvramPlace::Behind(CACHE), spare_nvram: Some(spare()), ..files }
}

/// Returns what a cache may lose without anybody's leave.
pub const fn accepted(name: &str) -> AcceptedLosses {
    AcceptedLosses { data: !matches!(name.as_bytes(), b"write-back"), notes: false }
}

pub fn open(
    os: &RecordingOs,
    array: &Array,
    accepted: AcceptedLosses,
) -> Result<FileExecutor<Box<dyn ServedTier>>, FilesError> {
    FileExecutor::resynchronise_on(Arc::new(os.clone()), array.controller(), config(array), accepted)
}

/// Holds what a client knows of each page.
#[derive(Clone, Debug, Default)]
pub struct PageHistory {
    /// Numbers the version that was answered last, and is durable; and the one that was answered last.
    durable: u64,
    answered: u64,
    /// Numbers the last that was written.
    asked: u64,
}

/// Holds what a client knows.
#[derive(Clone, Debug, Default)]
pub struct ClientModel {
    pages: BTreeMap<u64, PageHistory>,
    version: u64,
    /// Gives for each request that is under way what it writes, or flushes.
    requests: BTreeMap<u64, ClientRequest>,
}

#[derive(Clone, Debug)]
enum ClientRequest {
    Write {
        page: u64,
        fua: bool,
    },
    /// Has a page that must not be older than this.
    Read {
        page: u64,
        answered: u64,
    },
    /// Holds what had been answered when it was asked for.
    Flush(Vec<(u64, u64)>),
}

pub fn content(page: u64, version: u64) -> Vec<u8> {
    (0..PAGE as u64 / 8).flat_map(|at| (page << 48 | version << 8 | at).to_le_bytes()).collect()
}

impl ClientModel {
    /// Draws the next request.
    pub fn next(&mut self, dice: &mut TestRng) -> (HostRequest, Vec<u8>) {
        self.version += 1;
        let tag = self.version;
        if dice.below(6) == 0 {
            let answered = self.pages.iter().map(|(page, history)| (*page, history.answered)).collect();
            self.requests.insert(tag, ClientRequest::Flush(answered));
            return (HostRequest { tag, op: HostOp::Flush, offset: 0, len: 0, fua: false }, Vec::new());
        }
        if dice.below(4) == 0 {
            let page = dice.below(PAGES);
            let answered = self.pages.get(&page).map_or(0, |history| history.answered);
            self.requests.insert(tag, ClientRequest::Read { page, answered });
            let (offset, len) = (page * PAGE as u64, PAGE as u64);
            return (HostRequest { tag, op: HostOp::Read, offset, len, fua: false }, Vec::new());
        }
        let page = loop {
            let page = dice.below(PAGES);
            let is_asked =
                |other: &ClientRequest| matches!(other, ClientRequest::Write { page: of, .. } if *of == page);
            if !self.requests.values().any(is_asked) {
                break page;
            }
        };
        let fua = dice.below(4) == 0;
        self.pages.entry(page).or_default().asked = tag;
        self.requests.insert(tag, ClientRequest::Write { page, fua });
        let (offset, len) = (page * PAGE as u64, PAGE as u64);
        (HostRequest { tag, op: HostOp::Write, offset, len, fua }, content(page, tag))
    }

    pub fn answered(&mut self, completion: &RequestCompletion, every_write: bool) {
        let tag = completion.tag;
        match self.requests.remove(&tag).expect("it was asked") {
            ClientRequest::Write { page, fua } => {
                let history = self.pages.get_mut(&page).expect("it was written");
                history.answered = tag;
                if fua || every_write {
                    history.durable = tag;
                }
            }
            ClientRequest::Read { page, answered } => {
                let asked = self.pages.get(&page).map_or(0, |history| history.asked);
                version_of(page, &completion.bytes, answered..=asked.max(answered));
            }
            ClientRequest::Flush(pages) => {
                for (page, version) in pages {
                    let history = self.pages.get_mut(&page).expect("it was written");
                    history.durable = history.durable.max(version);
                }
            }
        }
    }

    /// Checks what is read, and takes it for what is there; after the `power` failed it may be older than what was answered
    /// and not flushed.
    pub fn find(&mut self, page: u64, found: &[u8], power: bool) {
        let history = self.pages.entry(page).or_default();
        let first = if power { history.durable } else { history.answered };
        let version = version_of(page, found, first..=history.asked.max(first));
        *history = PageHistory { durable: history.durable, answered: version, asked: version };
    }
}

/// Returns which of these versions of a page was found.
pub fn version_of(page: u64, found: &[u8], mut versions: RangeInclusive<u64>) -> u64 {
    let (first, last) = (*versions.start(), *versions.end());
    let fits = |version: &u64| {
        if *version == 0 { found.iter().all(|byte| *byte == 0) } else { found == content(page, *version) }
    };
    let is = || u64::from_le_bytes(found[..8].try_into().expect("eight bytes")) >> 8 & 0xFF_FFFF_FFFF;
    versions.find(fits).unwrap_or_else(|| panic!("page {page} is version {}, not {first} to {last}", is()))
}

/// Serves an array in memory, with what its client knows.
pub struct MovingArray {
    pub os: RecordingOs,
    pub array: Array,
    pub files: FileExecutor<Box<dyn ServedTier>>,
    pub model: ClientModel,
    dice: TestRng,
    /// Keeps what is left at moments, with what was known then.
    pub trail: Vec<EndedMoment>,
    /// Is true if a request may fail: what a lost cache alone had.
    pub may_fail: bool,
    pub failed: u64,
}

impl MovingArray {
    pub fn new(name: &str, regime: DurabilityMode, seed: u64) -> Self {
        Self::of(array(name, regime), seed, None)
    }

    pub fn of(array: Array, seed: u64, slip: Option<ExecutorFault>) -> Self {
        let os = recording();
        os.plant(slip);
        let made =
            FileExecutor::create_on(Arc::new(os.clone()), array.controller(), config(&array), ExistingFiles::Refuse);
        let files = made.expect("a new array");
        let (model, dice) = (ClientModel::default(), TestRng::new(seed));
        Self { os, array, files, model, dice, trail: Vec::new(), may_fail: false, failed: 0 }
    }

    /// Goes on with an array that was opened.
    pub fn with(
        os: RecordingOs,
        array: Array,
        files: FileExecutor<Box<dyn ServedTier>>,
        mut model: ClientModel,
    ) -> Self {
        // What was under way is answered no more.
        model.requests.clear();
        Self { os, array, files, model, dice: TestRng::new(99), trail: Vec::new(), may_fail: false, failed: 0 }
    }

    pub fn poll(&mut self) -> Result<(), FilesError> {
        let (before, has_moved) = (self.model.clone(), self.is_moved());
        let polled = self.files.poll();
        self.keep_moments_of(&before, has_moved);
        let first = polled?;
        for completion in
            first.into_iter().chain(std::iter::from_fn(|| self.files.next_completion())).collect::<Vec<_>>()
        {
            assert!(completion.ok || self.may_fail, "no client hears of it");
            if completion.ok {
                self.model.answered(&completion, self.array.regime == DurabilityMode::EveryWrite);
            } else {
                self.failed += 1;
                self.model.requests.remove(&completion.tag);
            }
        }
        Ok(())
    }

    /// Keeps the moments since, at which the NVRAM had moved or may have.
    pub fn keep_moments(&mut self, has_moved: bool) {
        let model = self.model.clone();
        self.keep_moments_of(&model, has_moved);
    }

    fn keep_moments_of(&mut self, model: &ClientModel, has_moved: bool) {
        let moments = self.os.take_moments().into_iter();
        self.trail.extend(moments.map(|moment| EndedMoment { moment, model: model.clone(), has_moved }));
    }

    /// Has a client write, and flush now and then, with some requests under way.
    pub fn work(&mut self, requests: u64) -> Result<(), FilesError> {
        for _ in 0..requests {
            let (request, bytes) = self.model.next(&mut self.dice);
            self.files.submit(request, bytes)?;
            while self.model.requests.len() > 3 {
                self.poll()?;
            }
        }
        Ok(())
    }

    /// Lets all requests be answered.
    pub fn settle(&mut self) -> Result<(), FilesError> {
        while !self.model.requests.is_empty() || !self.files.is_idle() {
            self.poll()?;
        }
        Ok(())
    }

    pub fn is_moved(&self) -> bool {
        self.files.config().nvram == NvramPlace::Own(spare())
    }

    /// Checks all pages; returns how many of them fail.
    pub fn check(&mut self) -> u64 {
        check(&mut self.files, &mut self.model, false).expect("it is served")
    }
}

/// Keeps what is left at a moment, with what was known then.
pub struct EndedMoment {
    pub moment: CrashPoint,
    pub model: ClientModel,
    /// Is true if the NVRAM lay in its spare place by then.
    pub has_moved: bool,
}

/// Checks what an array has; the pages that fail are counted.
pub fn check(
    files: &mut FileExecutor<Box<dyn ServedTier>>,
    model: &mut ClientModel,
    power: bool,
) -> Result<u64, FilesError> {
    let mut failed = 0;
    while files.status() == Status::Starting {
        files.poll()?;
    }
    if let Status::Refused(why) = files.status() {
        return Err(FilesError::Refused(Box::new(why)));
    }
    for page in 0..PAGES {
        let (offset, len) = (page * PAGE as u64, PAGE as u64);
        files.submit(HostRequest { tag: page, op: HostOp::Read, offset, len, fua: false }, Vec::new())?;
        let completion = loop {
            if let Some(completion) = files.poll()? {
                break completion;
            }
        };
        if completion.ok { model.find(page, &completion.bytes, power) } else { failed += 1 }
    }
    Ok(failed)
}
