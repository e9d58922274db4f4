//! Arrays of files to be tried, small enough that everything happens soon.

#![allow(dead_code, reason = "each test uses a part")]

use std::path::{Path, PathBuf};

use destage_cache::{CacheConfig, NoCache, WriteThrough};
use destage_exec::{Completion, DeviceConfig, DeviceOptions, Existing, Files, FilesConfig};
use destage_plan::{Controller, Dev, HostOp, HostRequest, Nanos, Shape};
use destage_raid::array::ArrayConfig;
use destage_raid::{Geometry, Level};

use super::common::{Content, Sizes};

/// An array's shape.
#[derive(Clone, Copy, Debug)]
pub struct Array {
    pub level: Level,
    pub members: u8,
    pub page: u64,
    pub sector: u64,
    pub chunk: u32,
    pub member_pages: u64,
    pub depth: usize,
    /// Pages of the cache device; 0 for none.
    pub cache: u64,
}

impl Array {
    pub const fn new(level: Level, members: u8) -> Self {
        Self { level, members, page: 512, sector: 64, chunk: 4, member_pages: 64, depth: 1, cache: 0 }
    }

    pub fn geometry(&self) -> Geometry {
        let layout = self.level.default_layout();
        Geometry::new(self.level, layout, u32::from(self.members), self.chunk, self.member_pages)
            .expect("a shape that can be")
    }

    /// Idle arrays are not flushed: when would depend on the clock.
    pub fn config(&self) -> ArrayConfig {
        let mut config = ArrayConfig::new(self.geometry());
        config.idle_flush = Nanos(1 << 60);
        config.nv_slots = 64;
        config
    }

    pub fn sizes(&self) -> Sizes {
        let geometry = self.geometry();
        let stripe = u64::from(geometry.chunk_pages()) * u64::from(geometry.data_columns());
        Sizes { sector: self.sector, page: self.page, stripe, pages: geometry.data_pages() }
    }

    pub fn shape(&self) -> Shape {
        let Sizes { sector, page, stripe, pages } = self.sizes();
        Shape::new(page, sector, stripe, stripe, pages).expect("a shape that can be")
    }

    pub fn no_cache(&self) -> NoCache {
        NoCache::new(self.config()).expect("an array that can be")
    }

    pub fn write_through(&self) -> WriteThrough {
        let cache = CacheConfig { dev: Dev(self.members), pages: self.cache, ways: 8 };
        WriteThrough::new(self.config(), cache).expect("an array that can be")
    }

    /// Pages of each device.
    pub fn device_pages(&self) -> Vec<u64> {
        let members = (0..self.members).map(|_| self.member_pages);
        members.chain((self.cache > 0).then_some(self.cache)).collect()
    }

    pub fn files(&self, folder: &Path) -> FilesConfig {
        let device =
            |(dev, pages)| DeviceConfig { path: member(folder, dev), pages, options: DeviceOptions::default() };
        FilesConfig {
            array: 7,
            shape: self.shape(),
            depth: self.depth,
            devices: (0..).zip(self.device_pages()).map(device).collect(),
            nvram: folder.join("nvram"),
            nv_slots: self.config().nv_slots,
            intents: folder.join("intents"),
            rows: self.member_pages,
        }
    }

    pub fn create<C: Controller>(&self, controller: C, folder: &Path) -> Files<C> {
        Files::create(controller, self.files(folder), Existing::Refuse).expect("a new array")
    }

    pub fn open<C: Controller>(&self, controller: C, folder: &Path) -> Files<C> {
        Files::open(controller, self.files(folder)).expect("the array is there")
    }
}

/// The file of a device.
pub fn member(folder: &Path, dev: u8) -> PathBuf {
    folder.join(format!("dev{dev}"))
}

/// Serves one request.
pub fn serve<C: Controller>(files: &mut Files<C>, request: HostRequest, data: Vec<u8>) -> Completion {
    files.submit(request, data).expect("a request in range");
    let completion = files.wait().expect("the array is served").expect("the request is under way");
    assert_eq!(completion.tag, request.tag);
    completion
}

/// All that an array holds.
pub fn read_all<C: Controller>(files: &mut Files<C>) -> Vec<u8> {
    let len = files.engine().shape().bytes();
    let request = HostRequest { tag: u64::MAX, op: HostOp::Read, offset: 0, len, fua: false };
    let completion = serve(files, request, Vec::new());
    assert!(completion.ok, "the array can be read");
    completion.bytes
}

/// Checks that an array holds what it must.
pub fn assert_holds<C: Controller>(files: &mut Files<C>, content: &Content, when: &str) {
    let found = read_all(files);
    let wrong = found.iter().zip(content.bytes()).position(|(found, expected)| found != expected);
    assert_eq!(wrong, None, "{when}: the first byte that is not what it must be");
}
