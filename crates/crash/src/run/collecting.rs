//! Devices that collect garbage when they like, and orders to drain the cache: chance has both happen
//! between steps, in half of the histories. Drawn on their own, so that the others stay what they are.

use destage_plan::{Control, Dev, DevSet, Row};

use destage_raid::array::VersionSource;

use super::HistoryRun;
use crate::RandomDraws;
use crate::cell::PAGE_SECTORS;

/// Parts of a device that collect on their own.
const UNITS: u64 = 3;

/// Keeps what chance has decided so far.
pub(super) struct CollectionDraws {
    /// Seeds the chance of each action.
    seed: u64,
    dice: RandomDraws,
    /// Counts the devices.
    count: u8,
    /// Devices that collect.
    pub(super) devices: DevSet,
    /// Is true if there are orders to drain.
    drains: bool,
    /// Lists the units that collect now.
    under_way: Vec<(Dev, u16)>,
    /// An order to drain that is not answered, with the rows that were being written then, or since.
    draining: Option<Vec<Row>>,
}

impl CollectionDraws {
    /// Draws the collecting devices of a seed, out of `count`. If `all` is true, each of them has to collect.
    pub(super) fn draw(seed: u64, count: u8, all: bool) -> Self {
        let mut dice = RandomDraws::part(seed, u64::MAX - 7);
        let (collects, drains) = (dice.one_in(2), dice.one_in(2));
        let drawn = DevSet::from_bits(dice.draw() | dice.draw());
        let devices = match () {
            () if all => DevSet::first(count.into()),
            () if collects => (0..count).map(Dev).filter(|dev| drawn.contains(*dev)).collect(),
            () => DevSet::EMPTY,
        };
        let seed = dice.draw();
        Self { seed, dice, count, devices, drains: drains && (collects || all), under_way: Vec::new(), draining: None }
    }

    /// The numbers of an action, which do not depend on those of others.
    pub(super) fn begin_action(&mut self, number: u64) {
        self.dice = RandomDraws::part(self.seed, number);
    }

    /// The power fails: nothing collects any more, and no order is in force.
    pub(super) fn cut(&mut self) {
        // A device forgets its collection with the power, and an order to drain ends with the life.
        self.under_way.clear();
        self.draining = None;
    }

    /// Returns true if an order to drain is not answered.
    pub(super) const fn is_draining(&self) -> bool {
        self.draining.is_some()
    }
}

impl HistoryRun<'_> {
    /// After a step: perhaps a device begins or ends a collection, or comes near to one; perhaps the
    /// cache is to be drained.
    pub(super) fn collect(&mut self) -> Result<(), String> {
        let collecting = &mut self.collecting;
        if collecting.devices.is_empty() {
            return Ok(());
        }
        let dice = &mut collecting.dice;
        if dice.one_in(8) {
            let (dev, unit) = (Dev(dice.below(collecting.count.into()) as u8), dice.below(UNITS) as u16);
            let blocks = dice.below(3) as u32;
            let near = dice.one_in(4);
            if collecting.devices.contains(dev) && self.memory.answers(dev) {
                self.report.collections += 1;
                let at = collecting.under_way.iter().position(|other| *other == (dev, unit));
                match at {
                    _ if near => self.memory.device_near_gc(dev),
                    Some(at) => {
                        collecting.under_way.swap_remove(at);
                        self.memory.device_gc(dev, unit, false, blocks);
                    }
                    None => {
                        collecting.under_way.push((dev, unit));
                        self.memory.device_gc(dev, unit, true, blocks);
                    }
                }
            }
        }
        if collecting.drains && collecting.dice.one_in(48) {
            self.report.drains += 1;
            // The order is for what was acknowledged before it. Writes in flight may be earlier or later than it.
            let changes = self.asked.iter().filter(|asked| asked.change().is_some());
            let spans: Vec<_> = changes.map(|asked| (asked.sector, asked.sectors)).collect();
            // Rows that are being written when the order comes may stay in the cache.
            self.collecting.draining = Some(Vec::new());
            for (sector, sectors) in spans {
                self.writes(sector, sectors);
            }
            self.memory.control(Control::Drain);
            self.notices()?;
        }
        Ok(())
    }

    /// Sectors are being written: their rows need not be drained.
    pub(super) fn writes(&mut self, sector: u64, sectors: u64) {
        let Some(rows) = &mut self.collecting.draining else { return };
        let geometry = &self.cell.geometry;
        for page in sector / PAGE_SECTORS..(sector + sectors).div_ceil(PAGE_SECTORS) {
            let place = geometry.locate(page);
            rows.push(geometry.row(place.stripe, place.row_in_chunk));
        }
    }

    /// The cache says that it is drained: what was answered before the order is on the members.
    pub(super) fn drained(&mut self) -> Result<(), String> {
        let rows = self.collecting.draining.take().ok_or("the cache is drained, but was not told to")?;
        // Rows that cannot be written back stay in the cache when too much is lost.
        if self.broken {
            return Ok(());
        }
        let controller = self.memory.engine().controller();
        let held = |row: &Row| {
            let sources = controller.sources(*row);
            let all = self.cell.geometry.column_set();
            !sources.stale().is_empty() || all.iter().any(|column| sources.newest(column) != VersionSource::Member)
        };
        let all = (0..self.cell.geometry.member_pages()).map(Row);
        match all.filter(|row| !rows.contains(row)).find(held) {
            Some(row) => Err(format!("drained, but {row:?} is not on the members: {:?}", controller.sources(row))),
            None => Ok(()),
        }
    }
}
