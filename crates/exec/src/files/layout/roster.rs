//! Reads and writes the roster, which is a part of the intents' header: the label that each device's file must have. With it
//! is the array's event count.
//!
//! `label.rs` says how it is used, `intents.rs` where in the sector it is.

use super::event_count::EventCount;
use super::label::ArrayOrigin;
use super::sectors::{SectorBuffer, put, seal};
use crate::files::config::MAX_DEVICES;

/// The roster, with the sector that it is a part of.
pub(crate) struct MemberRoster {
    header: SectorBuffer,
    origin: ArrayOrigin,
    event_count: EventCount,
    generations: [u32; MAX_DEVICES],
}

/// Locates the roster in its sector.
const AT: usize = 32;
/// Sets where the epoch is.
pub(crate) const EPOCH: usize = AT + 16 + 4 * MAX_DEVICES;
/// Sets where the event count is.
pub(crate) const FROM: usize = EPOCH + 4;
/// Sets where its second half is.
pub(crate) const TO: usize = FROM + 8;
/// Sets where the roster ends, with all of that.
pub(crate) const ROSTER_END: usize = TO + 8;

impl MemberRoster {
    /// The roster of a new array, or of one whose roster is made anew.
    pub(crate) fn new(
        header: &SectorBuffer,
        origin: ArrayOrigin,
        count: EventCount,
        generations: &[u32; MAX_DEVICES],
    ) -> Self {
        let mut roster = Self { header: *header, origin, event_count: count, generations: *generations };
        roster.fill();
        roster
    }

    /// The roster that a sector has.
    pub(crate) fn read(header: &SectorBuffer, array: u64) -> Self {
        let drawn = header[AT..AT + 16].try_into().expect("sixteen bytes");
        let numbers = header[AT + 16..EPOCH].as_chunks().0;
        let generations = std::array::from_fn(|dev| u32::from_le_bytes(numbers[dev]));
        let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let count = EventCount { from: number(FROM), to: number(TO) };
        Self { header: *header, origin: ArrayOrigin { array, drawn }, event_count: count, generations }
    }

    /// Returns what the files have in common.
    pub(crate) const fn origin(&self) -> ArrayOrigin {
        self.origin
    }

    /// The generations of all devices' files.
    pub(crate) const fn generations(&self) -> &[u32; MAX_DEVICES] {
        &self.generations
    }

    /// Returns how often NVRAM and intents were made anew.
    pub(crate) fn epoch(&self) -> u32 {
        u32::from_le_bytes(self.header[EPOCH..EPOCH + 4].try_into().expect("four bytes"))
    }

    /// Returns the event count.
    pub(crate) const fn event_count(&self) -> EventCount {
        self.event_count
    }

    /// Changes the event count; durable when the [sector](Self::sector) is.
    pub(crate) fn set_event_count(&mut self, count: EventCount) {
        self.event_count = count;
        self.fill();
    }

    /// Changes the generations of all devices' files; durable when the [sector](Self::sector) is.
    pub(crate) fn set_generations(&mut self, generations: &[u32; MAX_DEVICES]) {
        self.generations = *generations;
        self.fill();
    }

    /// The generation that a device's file must have.
    pub(crate) const fn generation(&self, dev: usize) -> u32 {
        self.generations[dev]
    }

    /// Returns true if the array goes on without what a device held.
    pub(crate) const fn has_left(&self, dev: usize) -> bool {
        self.generations[dev].is_multiple_of(2)
    }

    /// The sector with the roster in it.
    pub(crate) const fn sector(&self) -> &SectorBuffer {
        &self.header
    }

    /// No file is the device's from now on, not one with the generation that the next would have had
    /// either; durable when the [sector](Self::sector) is.
    pub(crate) fn leave(&mut self, dev: usize) {
        // The next even number: a file with the odd one in between, which may be
        // half replaced, is a stranger too.
        self.generations[dev] = (self.generations[dev] | 1).wrapping_add(1);
        self.fill();
    }

    /// Notes that the NVRAM lies elsewhere from now on, and has this epoch; durable when the [sector](Self::sector) is. What lies on the
    /// device that it leaves is older.
    pub(crate) fn move_nvram(&mut self, epoch: u32) {
        put(&mut self.header, EPOCH, &epoch.to_le_bytes());
        self.fill();
    }

    /// The generation of the file that is named next.
    pub(crate) const fn next(&self, dev: usize) -> u32 {
        // Odd stays odd: naming a device twice does not change its generation.
        self.generations[dev] | 1
    }

    /// The file with the [next](Self::next) generation is the device's; durable when the
    /// [sector](Self::sector) is.
    pub(crate) fn name(&mut self, dev: usize) {
        self.generations[dev] = self.next(dev);
        self.fill();
    }

    /// The file that is the [heir](super::label::encode_heir) of the device's is the device's; durable when the
    /// [sector](Self::sector) is.
    pub(crate) fn succeed(&mut self, dev: usize) {
        // Two more, from odd to odd: there is no moment at which no file is the
        // device's.
        self.generations[dev] = self.generations[dev].wrapping_add(2);
        self.fill();
    }

    fn fill(&mut self) {
        put(&mut self.header, AT, &self.origin.drawn);
        put(&mut self.header, FROM, &self.event_count.from.to_le_bytes());
        put(&mut self.header, TO, &self.event_count.to.to_le_bytes());
        for (dev, generation) in self.generations.iter().enumerate() {
            put(&mut self.header, AT + 16 + 4 * dev, &generation.to_le_bytes());
        }
        // The whole sector is sealed anew, so a torn write cannot mix two rosters.
        seal(&mut self.header);
    }
}
