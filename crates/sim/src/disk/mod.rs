//! A mechanical disk in virtual time (specs §3, after `DiskSim`): one arm that serves one command
//! at a time.
//!
//! The caller owns the time and the events. It submits commands, asks when the one in service ends,
//! and takes its completion at that time, which starts the next one. The angle of the platters is a
//! function of the time alone.
//!
//! There is no cache in the drive: no read-ahead and no volatile write cache (the KDD paper
//! disabled both). So a flush costs its overhead only, and sequential commands one at a time lose a
//! rotation each, as they do on such a drive.

mod geometry;
mod mechanics;
mod profile;
mod schedule;
mod seek;

use std::collections::VecDeque;
use std::sync::Arc;

use destage_plan::Nanos;

pub use geometry::{DiskGeometry, DiskPlace};
use mechanics::{DiskArm, DiskMechanics, ServiceParts};
pub use profile::{DiskError, DiskProfile, DiskZone, PRESETS};
pub use schedule::DiskScheduler;
use schedule::WaitingCommand;
pub use seek::SeekCurve;

/// Lists the operations of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOp {
    /// Reads sectors.
    Read,
    /// Writes sectors; complete when they are on the platter.
    Write,
    /// Completes after every command submitted before it. Later ones may pass it. Needs no sectors.
    Flush,
    /// Forgets sectors; costs the overhead only.
    Discard,
}

impl DiskOp {
    fn moves_arm(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
        }
    }
}

/// A command to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskCommand {
    /// Selects the operation.
    pub op: DiskOp,
    /// The first sector of 512 bytes. Of no meaning to a flush.
    pub lbn: u64,
    /// Counts the sectors, at least one; without meaning for a flush.
    pub sectors: u32,
    /// Comes back with the completion.
    pub tag: u64,
}

/// A command whose sectors are not on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} of {sectors} sectors from LBN {lbn}: needs at least one sector, and must end by LBN {capacity}, the disk's end",
    op.name()
)]
pub struct OutOfRange {
    /// Names the operation that was done.
    pub op: DiskOp,
    /// From where.
    pub lbn: u64,
    /// With how many sectors.
    pub sectors: u32,
    /// Sectors of the disk.
    pub capacity: u64,
}

/// Counts the work of a disk. Commands count when they complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Sectors read.
    pub sectors_read: u64,
    /// Sectors written.
    pub sectors_written: u64,
    /// Reads and writes that began with a move to another cylinder.
    pub seeks: u64,
    /// Time in service: the sum of the six parts below.
    pub busy: Nanos,
    /// The controller's work.
    pub overhead: Nanos,
    /// Moves of the arm to a command's first cylinder.
    pub seek: Nanos,
    /// Head switches, and inside a transfer steps to the next cylinder.
    pub switch: Nanos,
    /// Settling before writes.
    pub settle: Nanos,
    /// Waits for a sector to come round.
    pub rotation: Nanos,
    /// Sectors passing under the head.
    pub transfer: Nanos,
    /// Time from submission to the start of service, summed over commands.
    pub queueing: Nanos,
}

impl DiskStats {
    /// Commands of every kind.
    pub fn commands(&self) -> u64 {
        self.reads + self.writes + self.flushes + self.discards
    }

    fn count(&mut self, served: &InService) {
        let command = &served.command;
        match command.op {
            DiskOp::Read => {
                self.reads += 1;
                self.sectors_read += u64::from(command.sectors);
            }
            DiskOp::Write => {
                self.writes += 1;
                self.sectors_written += u64::from(command.sectors);
            }
            DiskOp::Flush => self.flushes += 1,
            DiskOp::Discard => self.discards += 1,
        }
        let parts = &served.parts;
        self.seeks += u64::from(parts.seek > 0);
        self.busy += Nanos(parts.total());
        self.overhead += Nanos(parts.overhead);
        self.seek += Nanos(parts.seek);
        self.switch += Nanos(parts.switch);
        self.settle += Nanos(parts.settle);
        self.rotation += Nanos(parts.rotation);
        self.transfer += Nanos(parts.transfer);
        self.queueing += served.queued;
    }
}

#[derive(Clone, Copy, Debug)]
struct InService {
    command: DiskCommand,
    parts: ServiceParts,
    queued: Nanos,
    done: Nanos,
}

/// A simulated disk.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    mechanics: Arc<DiskMechanics>,
    scheduler: DiskScheduler,
    /// Limits the commands in the drive, the one in service included.
    depth: usize,
    arm: DiskArm,
    serving: Option<InService>,
    /// Holds the commands in the drive that have not begun, in order of arrival.
    window: Vec<WaitingCommand>,
    /// Holds the commands that wait outside the drive because the window is full, in order of arrival.
    outside: VecDeque<WaitingCommand>,
    stats: DiskStats,
    /// The latest time heard of.
    now: Nanos,
}

impl SimulatedDisk {
    /// An idle disk at time zero, its arm on the outermost track. A clone shares the tables, which
    /// take 4 bytes a cylinder.
    ///
    /// # Errors
    /// A profile that describes no disk.
    pub fn new(profile: &DiskProfile, scheduler: DiskScheduler) -> Result<Self, DiskError> {
        let mechanics = Arc::new(DiskMechanics::new(profile)?);
        let depth = profile.queue_depth as usize;
        Ok(Self {
            mechanics,
            scheduler,
            depth,
            arm: DiskArm::default(),
            serving: None,
            window: Vec::with_capacity(depth),
            outside: VecDeque::new(),
            stats: DiskStats::default(),
            now: Nanos::ZERO,
        })
    }

    /// Sectors of the disk.
    pub fn sectors(&self) -> u64 {
        self.mechanics.geometry.sectors()
    }

    /// Returns the geometry, which maps sectors to places.
    pub fn geometry(&self) -> &DiskGeometry {
        &self.mechanics.geometry
    }

    /// Commands submitted and not completed.
    pub fn outstanding(&self) -> usize {
        self.window.len() + self.outside.len() + usize::from(self.serving.is_some())
    }

    /// Returns the counts so far.
    pub fn stats(&self) -> &DiskStats {
        &self.stats
    }

    /// Forgets what was counted, as between warm-up and measurement. A command in service still
    /// counts, as a whole.
    pub fn reset_stats(&mut self) {
        self.stats = DiskStats::default();
    }

    /// Accepts a command, and starts it if the arm is free.
    ///
    /// # Errors
    /// A command whose sectors are not on the disk; nothing has changed then.
    ///
    /// # Panics
    /// If the caller goes back in time, or did not take a completion that was due before `now`:
    /// what follows would be wrong. At the time of a completion either may come first.
    pub fn submit(&mut self, now: Nanos, command: DiskCommand) -> Result<(), OutOfRange> {
        assert!(now >= self.now, "{now} is before {}, the time of an earlier call", self.now);
        if let Some(serving) = &self.serving {
            assert!(now <= serving.done, "a completion at {} was not taken by {now}", serving.done);
        }
        let DiskCommand { op, lbn, sectors, .. } = command;
        let capacity = self.sectors();
        let fits = sectors > 0 && lbn.checked_add(sectors.into()).is_some_and(|end| end <= capacity);
        if op != DiskOp::Flush && !fits {
            return Err(OutOfRange { op, lbn, sectors, capacity });
        }
        self.now = now;
        let queued = self.mechanics.queued(command, now);
        if self.serving.is_none() {
            self.start(now, queued);
        // The scheduler chooses among the commands in the drive alone, as a real drive does.
        } else if self.window.len() + 1 < self.depth {
            self.window.push(queued);
        } else {
            self.outside.push_back(queued);
        }
        Ok(())
    }

    /// Returns the time at which the command in service ends, if there is one.
    #[inline]
    pub fn next_completion(&self) -> Option<Nanos> {
        self.serving.as_ref().map(|serving| serving.done)
    }

    /// Takes the completion of the command in service, if there is one: its time and its tag. The
    /// next command starts at that time.
    pub fn complete(&mut self) -> Option<(Nanos, u64)> {
        let served = self.serving.take()?;
        let now = served.done;
        self.now = now;
        self.stats.count(&served);
        // The drive sees one command more now that it has one less.
        if let Some(next) = self.outside.pop_front() {
            self.window.push(next);
        }
        if !self.window.is_empty() {
            let index = self.scheduler.choose(&self.window, &self.mechanics, &self.arm, now);
            // Keeps the order of arrival, which is worth moving a few dozen entries.
            let next = self.window.remove(index);
            self.start(now, next);
        }
        Some((now, served.command.tag))
    }

    fn start(&mut self, now: Nanos, queued: WaitingCommand) {
        let parts = self.mechanics.serve(&mut self.arm, now, &queued.command);
        let done = now + Nanos(parts.total());
        self.serving = Some(InService { command: queued.command, parts, queued: now - queued.arrival, done });
    }
}
