//! Maps a sector to its cylinder, its head and the angle at which it passes (specs §3).
//!
//! LBNs fill a track, then the next head of the cylinder, then the next cylinder, from the outermost inwards.
//! An angle is the time, in nanoseconds, in which the disk turns there from the mark. The slots of a track
//! divide the rotation as evenly as whole nanoseconds allow: any number of sectors in a row takes its exact
//! share, to the nanosecond.

use super::profile::DiskProfile;

/// A place on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskPlace {
    /// The zone.
    pub zone: u32,
    /// The cylinder, counted over all zones.
    pub cylinder: u32,
    /// The head.
    pub head: u32,
    /// The sector in logical order: 0 is the track's first LBN.
    pub sector: u32,
    /// The slot in physical order: slot 0 begins at the mark.
    pub slot: u32,
    /// Holds the angle at which the sector begins to pass, in nanoseconds behind the mark.
    pub angle: u32,
}

#[derive(Clone, Copy, Debug)]
struct ZoneMap {
    first_lbn: u64,
    first_cylinder: u32,
    sectors_per_track: u32,
    /// Slot of the first sector of the zone's first track.
    first_slot: u32,
    /// Slots from a track's first sector to that of the next track of the cylinder.
    track_skew: u32,
    /// Slots from the first sector of a cylinder's last track to that of the next cylinder.
    cylinder_skew: u32,
}

/// The map from LBNs to places.
#[derive(Clone, Debug)]
pub struct DiskGeometry {
    zones: Vec<ZoneMap>,
    heads: u32,
    rotation: u64,
    cylinders: u32,
    sectors: u64,
}

impl DiskGeometry {
    /// The geometry of a disk of this checked profile, whose seek over one cylinder takes `single`
    /// nanoseconds.
    pub(super) fn new(profile: &DiskProfile, single: u32) -> Self {
        let settle = profile.write_settle.0;
        let track_skew = profile.track_skew.map_or(profile.head_switch.0 + settle, |skew| skew.0);
        let crossing = profile.head_switch.0.max(single.into()) + settle;
        let cylinder_skew = profile.cylinder_skew.map_or(crossing, |skew| skew.0);
        let rotation = profile.rotation.0;

        let mut geometry = Self {
            zones: Vec::with_capacity(profile.zones.len()),
            heads: profile.heads,
            rotation,
            cylinders: 0,
            sectors: 0,
        };
        for zone in &profile.zones {
            let per_track = u64::from(zone.sectors_per_track);
            // Whole slots, at least as long as asked for, so that the head is there when the first
            // sector comes.
            let slots = |time: u64| ((time * per_track).div_ceil(rotation) % per_track) as u32;
            // The skew goes on from zone to zone: counted from where the last track began, and
            // hence ended.
            let first_slot = geometry.last_track().map_or(0, |track| {
                let start = geometry.angle(geometry.zones[track.zone as usize].sectors_per_track, track.slot);
                slots(u64::from(start) + cylinder_skew)
            });
            geometry.zones.push(ZoneMap {
                first_lbn: geometry.sectors,
                first_cylinder: geometry.cylinders,
                sectors_per_track: zone.sectors_per_track,
                first_slot,
                track_skew: slots(track_skew),
                cylinder_skew: slots(cylinder_skew),
            });
            geometry.cylinders += zone.cylinders;
            geometry.sectors += u64::from(zone.cylinders) * u64::from(profile.heads) * per_track;
        }
        geometry
    }

    /// Sectors of the disk.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Cylinders of the disk.
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// The LBN of a zone's first sector, if there is such a zone.
    pub fn zone_start(&self, zone: usize) -> Option<u64> {
        self.zones.get(zone).map(|zone| zone.first_lbn)
    }

    /// Sectors on each track of a zone, if there is such a zone.
    pub fn sectors_per_track(&self, zone: usize) -> Option<u32> {
        self.zones.get(zone).map(|zone| zone.sectors_per_track)
    }

    /// Returns the place of the sector, or none behind the end of the disk.
    pub fn locate(&self, lbn: u64) -> Option<DiskPlace> {
        if lbn >= self.sectors {
            return None;
        }
        let zone = self.zones.partition_point(|zone| zone.first_lbn <= lbn) - 1;
        let map = &self.zones[zone];
        let in_zone = lbn - map.first_lbn;
        let per_track = u64::from(map.sectors_per_track);
        let (track, sector) = (in_zone / per_track, (in_zone % per_track) as u32);
        // Below 2^32: at most 2^22 cylinders of 2^10 heads.
        let track = track as u32;
        let (cylinder, head) = (track / self.heads, track % self.heads);
        let per_cylinder = u64::from(map.track_skew) * u64::from(self.heads - 1) + u64::from(map.cylinder_skew);
        let skew = u64::from(cylinder) * per_cylinder + u64::from(head) * u64::from(map.track_skew);
        let slot = ((u64::from(map.first_slot) + skew + u64::from(sector)) % per_track) as u32;
        let angle = self.angle(map.sectors_per_track, slot);
        Some(DiskPlace { zone: zone as u32, cylinder: map.first_cylinder + cylinder, head, sector, slot, angle })
    }

    /// The first sector of the last track so far, if there is one.
    fn last_track(&self) -> Option<DiskPlace> {
        let per_track = self.zones.last()?.sectors_per_track;
        self.locate(self.sectors - u64::from(per_track))
    }

    /// Returns the angle at which a slot begins to pass, in nanoseconds behind the mark.
    #[inline]
    fn angle(&self, sectors_per_track: u32, slot: u32) -> u32 {
        (u64::from(slot) * self.rotation / u64::from(sectors_per_track)) as u32
    }

    /// Returns the time in which `sectors` in a row pass, in nanoseconds. They begin at the place and do not
    /// leave its track.
    #[inline]
    pub(super) fn passing(&self, place: &DiskPlace, sectors: u32) -> u64 {
        let per_track = u64::from(self.zones[place.zone as usize].sectors_per_track);
        (u64::from(place.slot) + u64::from(sectors)) * self.rotation / per_track - u64::from(place.angle)
    }

    /// Sectors from the place to the end of its track.
    #[inline]
    pub(super) fn left_on_track(&self, place: &DiskPlace) -> u32 {
        self.zones[place.zone as usize].sectors_per_track - place.sector
    }
}
