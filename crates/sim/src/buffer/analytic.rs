//! LB-CLOCK's analytic cost model (paper §V.A; specs §5.7): no flash is simulated, each evicted
//! block costs an erase, the reads of its missing pages and the programs of all its pages.

use destage_plan::Nanos;
use destage_policy::buffer::EvictionUnit;

use super::result::{AnalyticResult, FlashCounters};
use super::run::BufferOutcomes;

/// The model's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnalyticConfig {
    /// Reading a page.
    pub read: Nanos,
    /// Programming a page.
    pub program: Nanos,
    /// Erasing a block.
    pub erase: Nanos,
    /// Moving a page to or from the chip.
    pub transfer: Nanos,
    /// Is true if reads and programs include the transfer.
    pub include_transfer: bool,
    /// A memory access of the algorithm, in picoseconds.
    pub memory_access_ps: u64,
}

impl Default for AnalyticConfig {
    /// The paper's Table II.
    fn default() -> Self {
        Self {
            read: Nanos(25_000),
            program: Nanos(200_000),
            erase: Nanos(1_500_000),
            transfer: Nanos(13_650),
            include_transfer: true,
            memory_access_ps: 2_500,
        }
    }
}

impl AnalyticConfig {
    /// Returns the flash operations of run, host flushes and final drain together, and their cost.
    pub(super) fn cost(
        &self,
        granularity: EvictionUnit,
        pages_per_block: u32,
        outcomes: &BufferOutcomes,
    ) -> (FlashCounters, AnalyticResult) {
        let c = &outcomes.counters;
        let transfer = if self.include_transfer { self.transfer } else { Nanos::ZERO };
        let past_buffer = c.bypassed_writes;
        let (model, erases, pad_reads, programs) = match granularity {
            EvictionUnit::Block => {
                let victims = [outcomes.victims, outcomes.flush_victims, outcomes.drain_victims];
                let blocks: u64 = victims.iter().map(|v| v.dirty).sum();
                let missing = victims.iter().map(|v| v.missing_pages).sum();
                ("analytic", blocks, missing, blocks * u64::from(pages_per_block) + past_buffer)
            }
            EvictionUnit::Page => {
                let pages = c.dirty_pages_flushed + c.flush_pages_flushed + c.drain_pages_flushed;
                ("analytic-page", 0, 0, pages + past_buffer)
            }
        };
        let nanos = |count: u64, each: Nanos| u128::from(count) * u128::from(each.0);
        let time_ps = 1000
            * (nanos(erases, self.erase)
                + nanos(pad_reads, self.read + transfer)
                + nanos(programs, self.program + transfer))
            + u128::from(c.memory_accesses) * u128::from(self.memory_access_ps);
        let throughput = c.host_bytes_written as f64 / (time_ps as f64 / 1e12);
        let flash = FlashCounters {
            flash_reads: Some(pad_reads),
            flash_writes: Some(programs),
            erases: Some(erases),
            ..FlashCounters::default()
        };
        let result = AnalyticResult {
            model: model.into(),
            time: time_ps as f64 / 1e3,
            throughput: (time_ps > 0).then_some(throughput),
        };
        (flash, result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::accounting::WrittenVictims;
    use crate::buffer::{BufferCounters, SeriesResult};

    fn outcomes(blocks: u64, missing: u64, bytes: u64) -> BufferOutcomes {
        BufferOutcomes {
            counters: BufferCounters { host_bytes_written: bytes, ..BufferCounters::default() },
            victims: WrittenVictims { dirty: blocks, missing_pages: missing },
            flush_victims: WrittenVictims::default(),
            drain_victims: WrittenVictims::default(),
            warmup_requests: 0,
            measured: true,
            simulated_time: Nanos::ZERO,
            series: SeriesResult::default(),
            avoidance: None,
            timed: None,
            volumes: None,
        }
    }

    #[test]
    fn the_worked_example_of_the_specification() {
        // Times are whole nanoseconds here, so comparing them as integers loses nothing.
        let time = |config: AnalyticConfig, blocks, missing| {
            config.cost(EvictionUnit::Block, 64, &outcomes(blocks, missing, 0)).1.time.round().to_string()
        };
        let with_transfer = AnalyticConfig::default();
        let chip_only = AnalyticConfig { include_transfer: false, ..with_transfer };
        let blocks = |config| [0, 32, 63].map(|missing| time(config, 1, missing));
        assert_eq!(blocks(with_transfer), ["15173600", "16410400", "17608550"]);
        assert_eq!(blocks(chip_only), ["14300000", "15100000", "15875000"]);
        let run = outcomes(1000, 48_000, 81_920_000);
        let (flash, cost) = with_transfer.cost(EvictionUnit::Block, 64, &run);
        assert_eq!((flash.erases, flash.flash_reads, flash.flash_writes), (Some(1000), Some(48_000), Some(64_000)));
        assert_eq!(time(with_transfer, 1000, 48_000), "17028800000");
        assert!((cost.throughput.unwrap() / 1e6 - 4.81).abs() < 0.005, "{cost:?}");
    }
}
