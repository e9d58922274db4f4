//! Counts the requests of clients, and how long they take.

use std::time::Duration;

use destage_nbd::{NbdCommand, NbdRequest};
use hdrhistogram::Histogram;

use crate::status::{CommandCounts, RequestCounts, TimeCount};

/// The longest time that is told apart, in nanoseconds: a minute and more.
const LONGEST: u64 = 1 << LONGEST_BITS;
const LONGEST_BITS: u32 = 36;
/// The shortest of the buckets that readers of metrics get: 4 µs.
const SHORTEST_BITS: u32 = 12;

/// Requests and clients since the service began.
#[derive(Debug)]
pub(crate) struct ServiceLoad {
    kinds: [CommandLoads; 4],
    /// Clients that have come.
    pub(crate) clients: u64,
    /// Of these, gone without a goodbye.
    pub(crate) lost_clients: u64,
    /// Why the last of them went.
    pub(crate) last_loss: Option<String>,
    /// Clients for whom there was no room.
    pub(crate) turned_away: u64,
}

#[derive(Debug)]
struct CommandLoads {
    bytes: u64,
    failed: u64,
    /// Sums up the nanoseconds.
    sum: u64,
    times: Histogram<u64>,
}

impl CommandLoads {
    /// Returns the requests by how long they took. The borders are powers of two, so that a reader can add up what several services say.
    fn buckets(&self) -> Vec<TimeCount> {
        let mut counts: Vec<_> =
            (SHORTEST_BITS..=LONGEST_BITS).map(|bits| TimeCount { up_to_ns: 1 << bits, count: 0 }).collect();
        for value in self.times.iter_recorded() {
            let bits = value.value_iterated_to().next_power_of_two().ilog2().clamp(SHORTEST_BITS, LONGEST_BITS);
            counts[(bits - SHORTEST_BITS) as usize].count += value.count_at_value();
        }
        counts
    }
}

/// Reads, writes, flushes, and what else there is.
const fn place(command: NbdCommand) -> usize {
    match command {
        NbdCommand::Read { .. } => 0,
        NbdCommand::Write => 1,
        NbdCommand::Flush => 2,
        _ => 3,
    }
}

impl Default for ServiceLoad {
    fn default() -> Self {
        let kind = || CommandLoads {
            bytes: 0,
            failed: 0,
            sum: 0,
            // Two significant digits give percentiles to 1 % in a fixed size, however many requests come.
            times: Histogram::new_with_bounds(1, LONGEST, 2).expect("the bounds are in order"),
        };
        let kinds = [kind(), kind(), kind(), kind()];
        Self { kinds, clients: 0, lost_clients: 0, last_loss: None, turned_away: 0 }
    }
}

impl ServiceLoad {
    /// A request was answered after so long.
    pub(crate) fn answered(&mut self, request: &NbdRequest, ok: bool, after: Duration) {
        let kind = &mut self.kinds[place(request.command)];
        let after = after.as_nanos().min(LONGEST.into()) as u64;
        kind.times.saturating_record(after);
        kind.sum = kind.sum.saturating_add(after);
        if ok {
            kind.bytes += u64::from(request.length);
        } else {
            kind.failed += 1;
        }
    }

    /// Returns the counts and percentiles of all kinds of request.
    pub(crate) fn requests(&self) -> RequestCounts {
        let [reads, writes, flushes, others] = &self.kinds;
        let told = |kind: &CommandLoads| CommandCounts {
            count: kind.times.len(),
            failed: kind.failed,
            bytes: kind.bytes,
            sum_ns: kind.sum,
            times: kind.buckets(),
            mean_ns: kind.times.mean() as u64,
            p50_ns: kind.times.value_at_quantile(0.5),
            p99_ns: kind.times.value_at_quantile(0.99),
            p999_ns: kind.times.value_at_quantile(0.999),
            max_ns: kind.times.max(),
        };
        RequestCounts { reads: told(reads), writes: told(writes), flushes: told(flushes), others: told(others) }
    }
}
