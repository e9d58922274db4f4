//! Makes an array in a recording, all of which was written, and asks it for things.

use std::path::Path;
use std::sync::Arc;

use destage_cache::ServedTier;
use destage_exec::{BadBytes, ExistingFiles, FileExecutor, RecordingOs, RequestCompletion};
use destage_plan::{DevSet, HostOp, HostRequest, PageReport};
use destage_testkit::{ExpectedContent, data};

use crate::arrays::{Array, member, recording};

/// Names the folder that it is in.
pub const FOLDER: &str = "/array";

/// Holds an array in a recording, whose every byte was written.
pub struct FilledArray {
    pub array: Array,
    pub os: RecordingOs,
    pub files: FileExecutor<Box<dyn ServedTier>>,
    pub content: ExpectedContent,
}

impl FilledArray {
    /// Creates one, and writes all of it.
    pub fn new(array: Array) -> Self {
        let (array, os) = (Array { depth: 8, ..array }, recording());
        let config = array.files(Path::new(FOLDER));
        let files = FileExecutor::create_on(Arc::new(os.clone()), array.controller(), config, ExistingFiles::Refuse);
        let content = ExpectedContent::new(array.sizes());
        let mut filled = Self { files: files.expect("a new array"), array, os, content };
        let len = filled.content.bytes().len() as u64;
        assert!(filled.write(0, len).ok);
        filled.rest();
        filled
    }

    /// Ends it, and opens it again.
    pub fn again(self) -> Self {
        self.open_after(drop)
    }

    /// Stops it in order, and opens it again.
    pub fn restart(self) -> Self {
        self.open_after(|files| drop(files.stop_clean().expect("it stops")))
    }

    fn open_after(self, end: impl FnOnce(FileExecutor<Box<dyn ServedTier>>)) -> Self {
        let Self { array, os, files, content } = self;
        let config = files.config().clone();
        end(files);
        let opened = FileExecutor::open_on(Arc::new(os.clone()), array.controller(), config);
        let mut again = Self { files: opened.expect("the array is there"), array, os, content };
        again.rest();
        again
    }

    /// Spoils a sector of a page of a device.
    pub fn spoil(&self, dev: u8, page: u64, kind: BadBytes) {
        let (offset, sector) = (page * self.array.page, self.array.sector);
        self.os.spoil(&member(Path::new(FOLDER), dev), offset + sector..offset + 2 * sector, kind);
    }

    pub fn serve(&mut self, request: HostRequest, bytes: Vec<u8>) -> RequestCompletion {
        self.files.submit(request, bytes).expect("a request in range");
        loop {
            if let Some(completion) = self.files.poll().expect("the array is served") {
                return completion;
            }
        }
    }

    pub fn write(&mut self, offset: u64, len: u64) -> RequestCompletion {
        let request = HostRequest { tag: offset, op: HostOp::Write, offset, len, fua: false };
        let bytes = data(&request, self.array.sector);
        self.content.apply(&request, &bytes);
        self.serve(request, bytes)
    }

    pub fn read(&mut self, offset: u64, len: u64) -> RequestCompletion {
        self.serve(HostRequest { tag: 1 << 40, op: HostOp::Read, offset, len, fua: false }, Vec::new())
    }

    pub fn holds(&mut self) -> bool {
        let read = self.read(0, self.content.bytes().len() as u64);
        read.ok && *read.bytes == *self.content.bytes()
    }

    pub fn rest(&mut self) {
        while !self.files.is_idle() {
            self.files.poll().expect("it comes to rest");
        }
    }

    pub fn reports(&mut self) -> Vec<PageReport> {
        std::iter::from_fn(|| self.files.next_page_report()).collect()
    }

    pub fn lost(&self) -> DevSet {
        self.files.engine().controller().array().degraded()
    }

    pub fn corrected(&self) -> u64 {
        self.files.traffic().map(|traffic| traffic.corrected).sum()
    }
}
