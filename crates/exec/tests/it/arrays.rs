//! Arrays of files to be tried, small enough that everything happens soon.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use destage_cache::{HostCacheInfo, HostCacheSpec, ServedTier, host_caches};
use destage_exec::{
    CrashChance, DeviceConfig, DeviceOptions, ExistingFiles, FileExecutor, FilesConfig, FilesError, IoBackend,
    OsInterface, RealOs, RecordingOs, RequestCompletion,
};
use destage_plan::{Controller, HostOp, HostRequest, Nanos, Shape};
use destage_raid::array::{ArrayConfig, DurabilityMode};
use destage_raid::{Geometry, RaidLevel};

use destage_testkit::{ArraySizes, ExpectedContent, TestRng};

/// Limits the time in which threads must end.
const LINGERS: Duration = Duration::from_mins(1);

/// An array's shape.
#[derive(Clone, Copy, Debug)]
pub struct Array {
    pub level: RaidLevel,
    pub members: u8,
    pub page: u64,
    pub sector: u64,
    pub chunk: u32,
    pub member_pages: u64,
    pub depth: usize,
    /// Says which acknowledged writes are durable.
    pub regime: DurabilityMode,
    /// The cache in front.
    pub cache: &'static HostCacheInfo,
    /// Counts the pages of the cache, if it has a size.
    pub cache_pages: u64,
    /// Gives the cache parameters with which everything happens soon, and not its defaults.
    pub hurries: bool,
    /// Chooses who serves the devices.
    pub io: IoBackend,
    /// Limits how long commands may take.
    pub device_timeout: Option<Duration>,
}

impl Array {
    /// Over threads.
    pub fn new(level: RaidLevel, members: u8) -> Self {
        Self::over(IoBackend::Threads, level, members)
    }

    pub fn over(io: IoBackend, level: RaidLevel, members: u8) -> Self {
        Self {
            io,
            device_timeout: None,
            level,
            members,
            page: 512,
            sector: 64,
            chunk: 4,
            member_pages: 64,
            depth: 1,
            regime: DurabilityMode::Flush,
            cache: cache("none"),
            cache_pages: 32,
            hurries: true,
        }
    }

    pub fn geometry(&self) -> Geometry {
        let layout = self.level.default_layout();
        Geometry::new(self.level, layout, u32::from(self.members), self.chunk, self.member_pages)
            .expect("a shape that can be")
    }

    /// Idle arrays are not flushed: when would depend on the clock.
    pub fn config(&self) -> ArrayConfig {
        let mut config = ArrayConfig::new(self.geometry());
        config.idle_flush = Nanos(1 << 50);
        config.nv_slots = 64;
        config.regime = self.regime;
        config.page_bytes = self.page as u32;
        config
    }

    pub fn sizes(&self) -> ArraySizes {
        let geometry = self.geometry();
        let stripe = u64::from(geometry.chunk_pages()) * u64::from(geometry.data_columns());
        ArraySizes { sector: self.sector, page: self.page, stripe, pages: geometry.data_pages() }
    }

    pub fn shape(&self) -> Shape {
        let ArraySizes { sector, page, stripe, pages } = self.sizes();
        Shape::new(page, sector, stripe, stripe, pages).expect("a shape that can be")
    }

    pub fn spec(&self) -> HostCacheSpec {
        if self.hurries {
            HostCacheSpec::small(self.cache, self.cache_pages, 0, false, 0)
        } else {
            HostCacheSpec::of(self.cache)
        }
    }

    pub fn controller(&self) -> Box<dyn ServedTier> {
        self.spec().build(&self.config(), self.cache_pages).expect("an array that can be")
    }

    /// Pages of each device.
    pub fn device_pages(&self) -> Vec<u64> {
        let members = (0..self.members).map(|_| self.member_pages);
        members.chain(self.cache.devices(self.cache_pages)).collect()
    }

    pub fn files(&self, folder: &Path) -> FilesConfig {
        let device = |(dev, pages)| DeviceConfig {
            path: member(folder, dev),
            offset: 0,
            pages,
            options: DeviceOptions::default(),
        };
        FilesConfig {
            about: String::new(),
            array: 7,
            shape: self.shape(),
            depth: self.depth,
            devices: (0..).zip(self.device_pages()).map(device).collect(),
            every_write: self.config().regime == DurabilityMode::EveryWrite,
            nvram: folder.join("nvram").into(),
            spare_nvram: None,
            nv_slots: self.config().nv_slots + self.spec().nv_slots(self.cache_pages, &self.config()),
            intents: folder.join("intents"),
            rows: self.member_pages,
            members: usize::from(self.members),
            rows_per_mark: 4,
            idle_marks: 1,
            io: self.io,
            patience: Duration::from_secs(1),
            device_timeout: self.device_timeout,
        }
    }

    pub fn create(&self, folder: &Path) -> FileExecutor<Box<dyn ServedTier>> {
        FileExecutor::create(self.controller(), self.files(folder), ExistingFiles::Refuse).expect("a new array")
    }

    pub fn open(&self, folder: &Path) -> FileExecutor<Box<dyn ServedTier>> {
        reopen(|| FileExecutor::open(self.controller(), self.files(folder))).expect("the array is there")
    }
}

/// Draws what a recording leaves to chance.
struct DrawnChance(TestRng);

impl CrashChance for DrawnChance {
    fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }
}

/// Makes a recording whose chance is drawn from seeds.
pub fn recording() -> RecordingOs {
    RecordingOs::new(|number| Box::new(DrawnChance(TestRng::new(number))))
}

/// Opens an array that may be in use a little longer: on a busy machine the threads of one that was dropped may not end
/// within its patience.
pub fn reopen<T>(open: impl Fn() -> Result<T, FilesError>) -> Result<T, FilesError> {
    let begin = Instant::now();
    loop {
        match open() {
            Err(FilesError::InUse(_)) if begin.elapsed() < LINGERS => std::thread::sleep(Duration::from_millis(5)),
            opened => return opened,
        }
    }
}

/// The host cache of this name.
pub fn cache(name: &str) -> &'static HostCacheInfo {
    host_caches().find(|info| info.name == name).expect("a cache of this name")
}

/// The file of a device.
pub fn member(folder: &Path, dev: u8) -> PathBuf {
    folder.join(format!("dev{dev}"))
}

/// Serves one request.
pub fn serve<C: Controller>(files: &mut FileExecutor<C>, request: HostRequest, data: Vec<u8>) -> RequestCompletion {
    files.submit(request, data).expect("a request in range");
    let completion = files.wait().expect("the array is served").expect("the request is under way");
    assert_eq!(completion.tag, request.tag);
    completion
}

/// All that an array holds.
pub fn read_all<C: Controller>(files: &mut FileExecutor<C>) -> Vec<u8> {
    let len = files.engine().shape().bytes();
    let request = HostRequest { tag: u64::MAX, op: HostOp::Read, offset: 0, len, fua: false };
    let completion = serve(files, request, Vec::new());
    assert!(completion.ok, "the array can be read");
    completion.bytes.to_vec()
}

/// Checks that an array holds what it must.
pub fn assert_holds<C: Controller>(files: &mut FileExecutor<C>, content: &ExpectedContent, when: &str) {
    let found = read_all(files);
    let wrong = found.iter().zip(content.bytes()).position(|(found, expected)| found != expected);
    assert_eq!(wrong, None, "{when}: the first byte that is not what it must be");
}

/// Returns the ring where this machine has one; else the test is skipped, which is said.
pub fn ring() -> Option<IoBackend> {
    match RealOs.ring(64) {
        Ok(_) => Some(IoBackend::Ring),
        Err(why) => {
            // Past the harness's capture, so that the count of what was skipped sees it.
            let _ = writeln!(std::io::stderr(), "SKIPPED: tests of files over io_uring: {why}");
            None
        }
    }
}

/// Makes a test over each I/O backend of every function named.
macro_rules! backend_tests {
    ($($name:ident,)+) => {
        mod thread_pool {
            $(#[test] fn $name() { super::$name(destage_exec::IoBackend::Threads) })+
        }
        mod io_uring {
            $(#[test] fn $name() { crate::arrays::ring().into_iter().for_each(super::$name) })+
        }
    };
}
