//! Experiments over requests that are held in memory.

#![allow(dead_code, reason = "tests of memory, which are processes of their own, use some of it")]

use std::sync::Arc;

use destage_plan::{Nanos, Op, PageGeometry, Request};
use destage_sim::buffer::{BufferExperiment, DeviceConfig, ExperimentReport, RunConfig, RunResult, SimError};
use destage_sim::experiment::{OpenedInput, RunResources, TraceReplay};
use destage_trace::{TraceError, TraceSource};

/// Requests in a batch: few, so that a run takes many.
const BATCH: usize = 1 << 10;

/// A trace that is read from memory.
pub(crate) struct InMemory {
    requests: Arc<Vec<Request>>,
    next: usize,
}

impl InMemory {
    pub(crate) fn new(requests: &Arc<Vec<Request>>) -> Self {
        Self { requests: Arc::clone(requests), next: 0 }
    }
}

impl TraceSource for InMemory {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        let end = self.requests.len().min(self.next + BATCH);
        out.clear();
        out.extend_from_slice(&self.requests[self.next..end]);
        self.next = end;
        Ok(())
    }
}

pub(crate) const ONE_THREAD: RunResources<'static> = RunResources { threads: 1, memory_bytes: 1 << 30, stop: None };

/// An experiment in which everything else is as a user gets it by default.
pub(crate) fn experiment(
    policies: &[&str],
    caches: &[u64],
    geometry: PageGeometry,
    device: DeviceConfig,
) -> BufferExperiment {
    BufferExperiment {
        policies: policies.iter().map(|spec| spec.parse().expect(spec)).collect(),
        foreign: Vec::new(),
        caches: caches.to_vec(),
        device,
        replay: TraceReplay::whole("requests", geometry),
        run: RunConfig { max_backlog: 10_000, buffer_latency: Nanos(1_000), drain: true, ..RunConfig::default() },
    }
}

pub(crate) fn try_run(
    experiment: &BufferExperiment,
    resources: RunResources<'_>,
    requests: &Arc<Vec<Request>>,
) -> Result<ExperimentReport, SimError> {
    let mut open = || Ok(OpenedInput { source: Box::new(InMemory::new(requests)), format: "memory".into() });
    experiment.run(resources, &mut open, &|_| {})
}

/// The results of an experiment that works.
pub(crate) fn run(experiment: &BufferExperiment, requests: &[Request]) -> ExperimentReport {
    try_run(experiment, ONE_THREAD, &Arc::new(requests.to_vec())).expect("the experiment is sound")
}

/// The result of an experiment with one policy and one size.
pub(crate) fn run_one(experiment: &BufferExperiment, requests: &[Request]) -> RunResult {
    let mut results = run(experiment, requests).results;
    assert_eq!(results.len(), 1);
    results.remove(0)
}

/// A write of whole pages of 4 KiB.
pub(crate) fn write(micros: u64, page: u64, pages: u64) -> Request {
    Request { time: Nanos(micros * 1000), offset: page * 4096, len: pages * 4096, volume: 0, op: Op::Write, fua: false }
}

/// A read of whole pages of 4 KiB.
pub(crate) fn read(micros: u64, page: u64, pages: u64) -> Request {
    Request { op: Op::Read, ..write(micros, page, pages) }
}

/// A flush.
pub(crate) fn flush(micros: u64) -> Request {
    Request { op: Op::Flush, ..write(micros, 0, 0) }
}

/// A discard of whole pages of 4 KiB.
pub(crate) fn discard(micros: u64, page: u64, pages: u64) -> Request {
    Request { op: Op::Discard, ..write(micros, page, pages) }
}
