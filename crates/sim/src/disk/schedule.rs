//! Chooses which of the drive's commands is served next (specs §3).

use super::mechanics::{DiskArm, DiskMechanics};
use super::{DiskCommand, DiskOp};
use destage_plan::Nanos;

/// The order of service. Ties go to the command that came first.
///
/// In every order but FCFS a discard is served at once, since it needs no arm, and a flush as soon
/// as it is the oldest. SSTF and SPTF have no guard against starvation: a command far away waits,
/// and with it every later flush, as long as nearer ones keep coming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskScheduler {
    /// First come, first served.
    Fcfs,
    /// Ascending LBNs from the end of the last transfer, and from the lowest again when none is
    /// left: each sweep is ascending, so no command waits for more than the commands of two sweeps.
    #[default]
    CLook,
    /// Shortest seek time first: the nearest cylinder.
    Sstf,
    /// Shortest positioning time first: the least seek, switch, settling and rotational wait, as it
    /// would be served.
    Sptf,
}

impl DiskScheduler {
    /// Every order.
    pub const ALL: [Self; 4] = [Self::Fcfs, Self::CLook, Self::Sstf, Self::Sptf];

    /// The name, as in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fcfs => "fcfs",
            Self::CLook => "clook",
            Self::Sstf => "sstf",
            Self::Sptf => "sptf",
        }
    }

    /// The order of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheduler| scheduler.name() == name)
    }

    /// The place in the queue of the command to serve next. The queue is in order of arrival and
    /// not empty.
    pub(super) fn choose(
        self,
        queue: &[WaitingCommand],
        mechanics: &DiskMechanics,
        arm: &DiskArm,
        now: Nanos,
    ) -> usize {
        if self == Self::Fcfs {
            return 0;
        }
        let needs_no_arm = |(place, queued): &(usize, &WaitingCommand)| match queued.command.op {
            // A flush must not overtake the commands before it.
            DiskOp::Flush => *place == 0,
            DiskOp::Discard => true,
            DiskOp::Read | DiskOp::Write => false,
        };
        if let Some((place, _)) = queue.iter().enumerate().find(needs_no_arm) {
            return place;
        }
        match self {
            Self::Fcfs => 0,
            // Wraps for those that the sweep has passed, which puts them behind all others and
            // keeps their order.
            Self::CLook => least(queue, |queued| queued.command.lbn.wrapping_sub(arm.sweep)),
            Self::Sstf => least(queue, |queued| queued.cylinder.abs_diff(arm.cylinder)),
            Self::Sptf => {
                // The platters turn during the overhead as well.
                let phase = mechanics.phase(now + mechanics.overhead());
                least(queue, |queued| mechanics.positioning(arm, phase, queued))
            }
        }
    }
}

/// The first of the reads and writes with the least cost. The queue holds one, since its oldest is
/// no flush.
#[inline]
fn least<K: Ord>(queue: &[WaitingCommand], cost: impl Fn(&WaitingCommand) -> K) -> usize {
    let moving = queue.iter().enumerate().filter(|(_, queued)| queued.command.op.moves_arm());
    moving.min_by_key(|(_, queued)| cost(queued)).map_or(0, |(place, _)| place)
}

/// A command that waits, with the place of its first sector.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingCommand {
    pub(super) command: DiskCommand,
    pub(super) arrival: Nanos,
    pub(super) cylinder: u32,
    pub(super) head: u32,
    /// Holds the angle at which the first sector begins to pass, in nanoseconds behind the mark.
    pub(super) angle: u32,
}
