//! Describes a disk's parts and their speeds, and checks them (specs §3).

use destage_plan::Nanos;

use super::seek::SeekCurve;

/// The longest time of any part of a disk: a second.
pub(super) const LONGEST: Nanos = Nanos(1_000_000_000);
const MOST_CYLINDERS: u64 = 1 << 22;
const MOST_HEADS: u64 = 1024;
const MOST_SECTORS_PER_TRACK: u64 = 1 << 20;
const DEEPEST_QUEUE: u64 = 1024;

/// Neighbouring cylinders whose tracks hold equally many sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskZone {
    /// Cylinders in the zone. The first zone begins at cylinder 0, every other one where the zone
    /// before it ends.
    pub cylinders: u32,
    /// Sectors of 512 bytes on each track.
    pub sectors_per_track: u32,
}

/// The parameters of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskProfile {
    /// Heads, hence tracks in a cylinder.
    pub heads: u32,
    /// From the outermost cylinder inwards; LBN 0 is on the first.
    pub zones: Vec<DiskZone>,
    /// One rotation.
    pub rotation: Nanos,
    /// The arm.
    pub seek: SeekCurve,
    /// From one head to another of the same cylinder. While the arm moves heads are switched too,
    /// so that the longer of the two counts (as in `DiskSim`).
    pub head_switch: Nanos,
    /// Added before a write that begins, or goes on, on another track than the one the head was on.
    pub write_settle: Nanos,
    /// The controller's work on each command, before the arm moves.
    pub overhead: Nanos,
    /// By how much of a rotation the first sector of a track lies behind that of the previous
    /// track. `None`: a head switch and a write settle, so that a long transfer loses no more than
    /// those. Rounded up to whole sectors.
    pub track_skew: Option<Nanos>,
    /// The same from the last track of a cylinder to the first of the next. `None`: a seek over one
    /// cylinder, or a head switch if that takes longer, and a write settle.
    pub cylinder_skew: Option<Nanos>,
    /// The rotational wait of a command is half a rotation, whatever the angle (`DiskSim`'s
    /// `averageRotation`). Waits behind a switch inside a transfer follow from the skew all the
    /// same.
    pub average_rotation: bool,
    /// Commands that the drive holds and chooses from, the one in service included; others wait
    /// outside, first come first served.
    pub queue_depth: u32,
}

/// Lists the disks that have a name, with a description.
pub const PRESETS: &[(&str, &str)] = &[
    ("1tb-7200", "1 TB, 7,200 rpm: 50,000 cylinders, 22 surfaces, seeks 1.0/8.5/17 ms, 150 to 75 MB/s in 10 zones"),
    ("2gb-barracuda", "2 GB, 7,200 rpm, after DiskSim's Barracuda: 5,172 cylinders, 5 surfaces, 1.943 to 16.679 ms"),
];

/// 7,200 rotations a minute.
const ROTATION_7200: Nanos = Nanos(8_333_333);

impl DiskProfile {
    /// The disk of this name.
    pub fn preset(name: &str) -> Option<Self> {
        match name {
            "1tb-7200" => Some(Self::tb1_7200()),
            "2gb-barracuda" => Some(Self::barracuda_2gb()),
            _ => None,
        }
    }

    /// The disk behind the cache unless told otherwise (specs §3): 1 TB at 7,200 rpm.
    ///
    /// The surfaces stand for several real cylinders each: 22 is the least number with which 50,000
    /// cylinders in zones of equal width hold 1 TB (1.03 TB, to be exact).
    pub fn tb1_7200() -> Self {
        let zones = (0..10).map(|zone| {
            // 150 MB/s to 75 MB/s in equal steps, as sectors in a rotation, to the nearest.
            let ninths_of_rate = 9 * 150_000_000 - zone * 75_000_000;
            let (bytes_x, unit) = (ninths_of_rate * ROTATION_7200.0, 9 * 1_000_000_000 * 512);
            DiskZone { cylinders: 5_000, sectors_per_track: ((bytes_x + unit / 2) / unit) as u32 }
        });
        Self {
            heads: 22,
            zones: zones.collect(),
            rotation: ROTATION_7200,
            seek: SeekCurve::ThreePoint {
                single: Nanos(1_000_000),
                average: Nanos(8_500_000),
                full: Nanos(17_000_000),
            },
            head_switch: Nanos(800_000),
            write_settle: Nanos(500_000),
            overhead: Nanos(100_000),
            track_skew: None,
            cylinder_skew: None,
            average_rotation: false,
            queue_depth: 32,
        }
    }

    /// A disk of 2 GB with the figures that specs §3 gives of `DiskSim`'s Barracuda: 5 surfaces,
    /// 5,172 cylinders, 186 to 119 sectors on a track, seeks from 1.943 to 16.679 ms and a head
    /// switch in 0.1 ms. It neither settles nor has an overhead.
    ///
    /// Where those figures end this is not that drive: the zones are eleven of equal width in equal
    /// steps, the skews follow from the switches, and the seek curve is Lee's through 9.5 ms at a
    /// third of the stroke. Give [`SeekCurve::Table`], the zones and the skews for a drive that was
    /// measured.
    pub fn barracuda_2gb() -> Self {
        let zones = (0..11).map(|zone| DiskZone {
            // 5,172 = 11 × 470 + 2.
            cylinders: 470 + u32::from(zone < 2),
            sectors_per_track: 186 - (zone * 67 + 5) / 10,
        });
        Self {
            heads: 5,
            zones: zones.collect(),
            rotation: ROTATION_7200,
            seek: SeekCurve::ThreePoint {
                single: Nanos(1_943_000),
                average: Nanos(9_500_000),
                full: Nanos(16_679_000),
            },
            head_switch: Nanos(100_000),
            write_settle: Nanos::ZERO,
            overhead: Nanos::ZERO,
            track_skew: None,
            cylinder_skew: None,
            average_rotation: false,
            queue_depth: 32,
        }
    }

    /// Cylinders in all zones.
    pub fn cylinders(&self) -> u64 {
        self.zones.iter().map(|zone| u64::from(zone.cylinders)).sum()
    }

    /// Checks that a disk of this profile can work, but for its seek curve, which shows when its
    /// table is made.
    pub(super) fn check(&self) -> Result<(), DiskError> {
        DiskError::check("rotation", self.rotation.0, 1, LONGEST.0)?;
        DiskError::check("heads", self.heads.into(), 1, MOST_HEADS)?;
        DiskError::check("queue-depth", self.queue_depth.into(), 1, DEEPEST_QUEUE)?;
        DiskError::check("head-switch", self.head_switch.0, 0, LONGEST.0)?;
        DiskError::check("write-settle", self.write_settle.0, 0, LONGEST.0)?;
        DiskError::check("overhead", self.overhead.0, 0, LONGEST.0)?;
        DiskError::check("track-skew", self.track_skew.unwrap_or_default().0, 0, LONGEST.0)?;
        DiskError::check("cylinder-skew", self.cylinder_skew.unwrap_or_default().0, 0, LONGEST.0)?;
        for (place, zone) in self.zones.iter().enumerate() {
            // A sector takes at least a nanosecond.
            let most = MOST_SECTORS_PER_TRACK.min(self.rotation.0);
            let value = u64::from(zone.sectors_per_track);
            if !(1..=most).contains(&value) {
                return Err(DiskError::ZoneRange { place, key: "sectors-per-track", value, max: most });
            }
            if zone.cylinders == 0 {
                return Err(DiskError::ZoneRange { place, key: "cylinders", value: 0, max: MOST_CYLINDERS });
            }
        }
        DiskError::check("zones: the sum of cylinders", self.cylinders(), 1, MOST_CYLINDERS)
    }
}

/// Why a disk of this profile cannot work. Each says which key to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// A count or a time (in nanoseconds) is too small or too large.
    #[error("disk.{key} = {value} is not between {min} and {max} (times are in ns)")]
    Range {
        /// The key.
        key: &'static str,
        /// Holds the parameter's value.
        value: u64,
        /// Smallest value allowed.
        min: u64,
        /// Largest value allowed.
        max: u64,
    },
    /// A count of a zone is too small or too large.
    #[error("disk.zones[{place}].{key} = {value} is not between 1 and {max}")]
    ZoneRange {
        /// Counts the zone from 0.
        place: usize,
        /// The key.
        key: &'static str,
        /// Holds the parameter's value.
        value: u64,
        /// Largest value allowed.
        max: u64,
    },
    /// The three points do not ascend.
    #[error("disk.seek: single ({single}), average ({average}) and full ({full}) must ascend")]
    SeekOrder {
        /// Over one cylinder.
        single: Nanos,
        /// Over a third of the stroke.
        average: Nanos,
        /// Full stroke.
        full: Nanos,
    },
    /// The curve is shorter for a longer distance than it may be.
    #[error(
        "disk.seek: the curve falls at a distance of {distance} cylinders; a three-point curve needs an average \
         between its ends, a table an end that does not lead below zero"
    )]
    SeekFalls {
        /// Where.
        distance: u32,
    },
    /// Points of a table are missing or not in order.
    #[error("disk.seek.table: point {place} is missing or out of order; distances ascend from 1 without repetition")]
    SeekPoints {
        /// Counts the point from 0.
        place: usize,
    },
}

impl DiskError {
    pub(super) fn check(key: &'static str, value: u64, min: u64, max: u64) -> Result<(), Self> {
        if (min..=max).contains(&value) { Ok(()) } else { Err(Self::Range { key, value, min, max }) }
    }
}
