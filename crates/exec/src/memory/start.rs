//! Begins a life, and takes the settings before that.

use std::collections::VecDeque;

use destage_plan::{Controller, Dev, DevSet, Engine, Nanos, Shape, Start};

use super::conduct::StepTamper;
use super::executor::MemoryExecutor;
use super::pending::PendingCommits;
use super::settings::{CrashRemains, StepLatency, StepLog};
use crate::bytes::BufferTable;
use crate::device::MemoryDevice;

impl<C: Controller> MemoryExecutor<C> {
    /// Begins a life with the remains of an earlier one, and `depth` fragments at a time.
    pub fn start(controller: C, remains: CrashRemains, shape: Shape, depth: usize) -> Self {
        let mut memory = Self::prepare(controller, remains, shape, depth);
        memory.begin();
        memory
    }

    /// Prepares a life as [`start`](Self::start) does, but tells the controller nothing before
    /// [`begin`](Self::begin), so that settings can be made.
    pub fn prepare(controller: C, remains: CrashRemains, shape: Shape, depth: usize) -> Self {
        let page_bytes = shape.page_bytes();
        let sectors = (page_bytes / shape.sector_bytes()) as u32;
        Self {
            bytes: BufferTable::new(page_bytes, shape.sector_bytes(), remains.nvram),
            engine: Engine::new(controller, shape, depth),
            devices: remains
                .disks
                .into_iter()
                .map(|disk| MemoryDevice::new(disk, page_bytes as usize, sectors))
                .collect(),
            in_flight: Vec::new(),
            nv_queue: VecDeque::new(),
            pending: PendingCommits::default(),
            now: Nanos::ZERO,
            issued: 0,
            steps: 0,
            latency: StepLatency::default(),
            compute_at_once: true,
            collectors: DevSet::EMPTY,
            unannounced: DevSet::EMPTY,
            tamper: None,
            log: None,
            released: None,
        }
    }

    /// Lets the controller begin.
    pub fn begin(&mut self) {
        let missing: DevSet =
            self.devices.iter().zip(0..).filter(|(device, _)| !device.answers()).map(|(_, dev)| Dev(dev)).collect();
        let nv: Vec<_> = self.bytes.nvram().slots().collect();
        let intents = self.bytes.nvram().intents.ranges();
        self.note(|| format!("start: missing {missing:?}, {} slots, intents {intents:?}", nv.len()));
        let collectors = self.collectors;
        self.engine.start(self.now, Start { nv: &nv, intents: &intents, missing, collectors, unwritable: &[] });
        self.take_issues();
    }

    /// Sets the time that steps take when the [`Earliest`](crate::NextStep::Earliest) is picked.
    pub fn set_latency(&mut self, latency: StepLatency) {
        self.latency = latency;
    }

    /// Sets whether computing steps are done as soon as they are issued, which is the default, or end in any
    /// order like others.
    pub fn set_compute_at_once(&mut self, at_once: bool) {
        self.compute_at_once = at_once;
    }

    /// Names the devices that collect garbage and can be asked to. A collection takes a step's time and changes
    /// no bytes; [`device_gc`](Self::device_gc) reports collections of their own.
    ///
    /// Without this call before [`begin`](Self::begin) there are none: bytes in memory need no collecting.
    pub const fn set_collectors(&mut self, collectors: DevSet) {
        self.collectors = collectors;
    }

    /// Sets whether every acknowledged write is durable, which is the default: then a commit of the NVRAM is
    /// durable when it is done.
    /// Else it becomes durable when something relies on it.
    pub const fn set_every_write(&mut self, every_write: bool) {
        self.pending.is_on = !every_write;
    }

    /// Makes the executor lie: the tamper chooses its conduct before each step is issued.
    pub fn set_tamper(&mut self, tamper: StepTamper) {
        self.tamper = Some(tamper);
    }

    /// Logs everything from now on, where it is found even after a panic.
    pub fn keep_log(&mut self, log: StepLog) {
        self.log = Some(log);
    }
}
