//! Has the model do what was measured.

use destage_plan::PageGeometry;
use destage_sim::drive_load::{OfferedLoad, WriteDraw, most_writes};
use destage_sim::ssd::{ModernDesign, Ssd, SsdConfig, SsdShape, StartState};

use super::measured::{MeasuredDrive, MeasuredRate, WriteSkew};
use crate::run::PAGE;

/// Sets how much is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveEffort {
    /// Drives are smaller by 2 to this power.
    pub shrunk: u32,
    /// Milliseconds for which response times are measured.
    pub milliseconds: u64,
    /// How many times a drive is overwritten while throughput is measured; the second half counts.
    pub overwrites: u64,
}

/// Builds a drive of a kind, changed.
fn built(own: &MeasuredDrive, effort: DriveEffort, start: StartState, change: impl Fn(&mut SsdConfig)) -> Ssd {
    let page = PageGeometry::new(PAGE, 64).expect("pages of 4 KiB");
    let mut config = ModernDesign::named(own.preset).expect("a preset").config(page);
    let modern = config.modern.as_mut().expect("a modern drive");
    modern.exported_pages = own.pages >> effort.shrunk;
    modern.word_lines = Some((own.word_lines >> effort.shrunk).max(1));
    change(&mut config);
    Ssd::new(SsdShape::new(config, page).expect("a preset has a shape"), start)
}

/// Returns a drive in its steady state, over which [`response_times`] can be measured.
pub(super) fn steady(own: &MeasuredDrive, effort: DriveEffort) -> Ssd {
    built(own, effort, StartState::Steady { seed: 1 }, |_| ())
}

/// Holds what the model does at a rate.
pub(super) struct ModelRate {
    /// Writes a second that it took.
    pub(super) writes: f64,
    /// Holds the [`FIGURES`](super::measured::FIGURES) in µs.
    pub(super) times: [f64; 6],
}

/// Returns the response times of a drive at a rate.
pub(super) fn response_times(steady: &Ssd, rate: &MeasuredRate, effort: DriveEffort) -> ModelRate {
    let writes_per_second = (!rate.is_saturated).then_some(rate.writes);
    let load = OfferedLoad { writes_per_second, seconds: effort.milliseconds as f64 / 1e3, seed: 1 };
    let mut found = load.run(&mut steady.clone());
    let [reads, writes] = &mut found.times[usize::from(rate.is_saturated)];
    let mut times = [0.0; 6];
    times[..3].copy_from_slice(&reads.percentiles());
    times[3..].copy_from_slice(&writes.percentiles());
    ModelRate { writes: found.writes_per_second, times }
}

/// Returns the MiB/s of writes alone under a skew.
pub(super) fn throughput(own: &MeasuredDrive, skew: WriteSkew, effort: DriveEffort) -> f64 {
    let mut ssd = built(own, effort, StartState::Full, |config| {
        let modern = config.modern.as_mut().expect("a modern drive");
        modern.write_hold_bytes = own.held_pages * PAGE;
    });
    let draw = match skew {
        WriteSkew::Uniform => WriteDraw::UNIFORM,
        WriteSkew::Zipf(s) => WriteDraw::zipf(s, ssd.shape().host_pages),
        WriteSkew::Share(percent) => WriteDraw::share(percent * 10),
    };
    most_writes(&mut ssd, &draw, effort.overwrites).0 * PAGE as f64 / f64::from(1 << 20)
}

/// Returns the write amplification of uniform writes to a drive of which so many GiB of 1,024 are used.
pub(super) fn amplification(own: &MeasuredDrive, gib: u32, effort: DriveEffort) -> f64 {
    let change = |config: &mut SsdConfig| config.reserve_bp = 10_000 - gib * 10_000 / 1024;
    most_writes(&mut built(own, effort, StartState::Full, change), &WriteDraw::UNIFORM, effort.overwrites).1
}
