//! Computes the times of the arm and of the platters (specs §3).

use destage_plan::Nanos;

use super::geometry::{DiskGeometry, DiskPlace};
use super::profile::{DiskError, DiskProfile};
use super::schedule::WaitingCommand;
use super::{DiskCommand, DiskOp};

/// Holds the position of the arm.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DiskArm {
    pub(super) cylinder: u32,
    pub(super) head: u32,
    /// The LBN behind the last transfer, from which C-LOOK goes on.
    pub(super) sweep: u64,
}

/// Holds the times to reach a track, in nanoseconds. At most one of `seek` and `switch` is not zero.
#[derive(Clone, Copy)]
struct TrackApproach {
    seek: u32,
    switch: u32,
    settle: u32,
}

impl TrackApproach {
    #[inline]
    fn total(self) -> u32 {
        self.seek + self.switch + self.settle
    }
}

/// The parts of a command's service time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServiceParts {
    pub(super) overhead: u64,
    pub(super) seek: u64,
    pub(super) switch: u64,
    pub(super) settle: u64,
    pub(super) rotation: u64,
    pub(super) transfer: u64,
}

impl ServiceParts {
    pub(super) fn total(&self) -> u64 {
        self.overhead + self.seek + self.switch + self.settle + self.rotation + self.transfer
    }
}

/// Everything about a disk that does not change.
#[derive(Clone, Debug)]
pub(super) struct DiskMechanics {
    pub(super) geometry: DiskGeometry,
    /// By distance in cylinders. All times are at most a second, so sums of three fit in 32 bits.
    seek: Vec<u32>,
    head_switch: u32,
    write_settle: u32,
    overhead: u32,
    rotation: u32,
    average_rotation: bool,
}

impl DiskMechanics {
    pub(super) fn new(profile: &DiskProfile) -> Result<Self, DiskError> {
        profile.check()?;
        let seek = profile.seek.table(profile.cylinders() as u32)?;
        Ok(Self {
            geometry: DiskGeometry::new(profile, seek[1]),
            seek,
            head_switch: profile.head_switch.0 as u32,
            write_settle: profile.write_settle.0 as u32,
            overhead: profile.overhead.0 as u32,
            rotation: profile.rotation.0 as u32,
            average_rotation: profile.average_rotation,
        })
    }

    pub(super) fn overhead(&self) -> Nanos {
        Nanos(self.overhead.into())
    }

    /// Returns how far the disk has turned behind the mark, in nanoseconds.
    #[inline]
    pub(super) fn phase(&self, at: Nanos) -> u32 {
        (at.0 % u64::from(self.rotation)) as u32
    }

    #[inline]
    fn approach(&self, arm: &DiskArm, cylinder: u32, head: u32, op: DiskOp) -> TrackApproach {
        let distance = cylinder.abs_diff(arm.cylinder);
        let other_head = head != arm.head;
        let switch = if other_head { self.head_switch } else { 0 };
        let settle = if op == DiskOp::Write && (distance > 0 || other_head) { self.write_settle } else { 0 };
        if distance > 0 {
            TrackApproach { seek: self.seek[distance as usize].max(switch), switch: 0, settle }
        } else {
            TrackApproach { seek: 0, switch, settle }
        }
    }

    /// The wait until the angle comes, for a head that is ready `later` nanoseconds after the disk
    /// was at `phase`.
    #[inline]
    fn wait(&self, phase: u32, later: u32, angle: u32) -> u32 {
        let ready = (phase + later) % self.rotation;
        if angle >= ready { angle - ready } else { angle + self.rotation - ready }
    }

    /// The same before a command's first sector.
    #[inline]
    fn first_wait(&self, phase: u32, later: u32, angle: u32) -> u32 {
        if self.average_rotation { self.rotation / 2 } else { self.wait(phase, later, angle) }
    }

    /// From the end of the overhead, at `phase`, to the command's first sector.
    #[inline]
    pub(super) fn positioning(&self, arm: &DiskArm, phase: u32, queued: &WaitingCommand) -> u32 {
        let later = self.approach(arm, queued.cylinder, queued.head, queued.command.op).total();
        later + self.first_wait(phase, later, queued.angle)
    }

    /// Serves a command from now on, and leaves the arm where it ends.
    pub(super) fn serve(&self, arm: &mut DiskArm, now: Nanos, command: &DiskCommand) -> ServiceParts {
        let mut parts = ServiceParts { overhead: self.overhead.into(), ..ServiceParts::default() };
        if !command.op.moves_arm() {
            return parts;
        }
        let mut lbn = command.lbn;
        let mut left = command.sectors;
        let mut phase = self.phase(now + self.overhead());
        while left > 0
            && let Some(place) = self.geometry.locate(lbn)
        {
            let approach = self.approach(arm, place.cylinder, place.head, command.op);
            if lbn == command.lbn {
                parts.seek = approach.seek.into();
                parts.switch = approach.switch.into();
                parts.rotation = self.first_wait(phase, approach.total(), place.angle).into();
            } else {
                // Inside a transfer the arm's step to the next cylinder is a switch.
                parts.switch += u64::from(approach.seek + approach.switch);
                parts.rotation += u64::from(self.wait(phase, approach.total(), place.angle));
            }
            parts.settle += u64::from(approach.settle);
            let sectors = left.min(self.geometry.left_on_track(&place));
            let passing = self.geometry.passing(&place, sectors);
            parts.transfer += passing;
            // The angle behind the last sector, which the next track's skew counts from.
            phase = ((u64::from(place.angle) + passing) % u64::from(self.rotation)) as u32;
            (arm.cylinder, arm.head) = (place.cylinder, place.head);
            lbn += u64::from(sectors);
            left -= sectors;
        }
        arm.sweep = lbn;
        parts
    }

    /// A command in the queue, which lies on the disk or needs no arm.
    pub(super) fn queued(&self, command: DiskCommand, arrival: Nanos) -> WaitingCommand {
        let place = if command.op.moves_arm() { self.geometry.locate(command.lbn) } else { None };
        let (cylinder, head, angle) =
            place.map_or((0, 0, 0), |DiskPlace { cylinder, head, angle, .. }| (cylinder, head, angle));
        WaitingCommand { command, arrival, cylinder, head, angle }
    }
}
