//! Traces that are made while they are read, and the memory that it takes to simulate them.

use destage_plan::{Nanos, Op, Request};
use destage_sim::buffer::{BufferExperiment, ExperimentReport};
use destage_sim::experiment::OpenedInput;
use destage_trace::{BATCH_REQUESTS, TraceError, TraceSource};

use crate::in_memory::ONE_THREAD;

/// Writes of single pages at random, evenly spaced in time.
#[derive(Clone, Copy)]
pub(crate) struct Endless {
    pub(crate) requests: u64,
    pub(crate) pages: u64,
    pub(crate) gap: Nanos,
    pub(crate) state: u64,
}

struct Reading {
    workload: Endless,
    done: u64,
}

impl TraceSource for Reading {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        out.clear();
        let Endless { requests, pages, gap, .. } = self.workload;
        for _ in 0..(requests - self.done).min(BATCH_REQUESTS as u64) {
            let state = &mut self.workload.state;
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let page = (u128::from(*state) * u128::from(pages)) >> 64;
            let time = Nanos(self.done * gap.0);
            out.push(Request { time, offset: page as u64 * 4096, len: 4096, volume: 0, op: Op::Write, fua: false });
            self.done += 1;
        }
        Ok(())
    }
}

impl Endless {
    pub(crate) fn run(self, experiment: &BufferExperiment) -> ExperimentReport {
        let mut open = || {
            let source = Box::new(Reading { workload: self, done: 0 });
            Ok(OpenedInput { source, format: "made".into() })
        };
        experiment.run(ONE_THREAD, &mut open, &|_| {}).expect("the experiment is sound")
    }
}

/// The most memory in bytes that this process ever had, where the system tells.
pub(crate) fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
