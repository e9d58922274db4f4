//! Lists and builds the cache.

use std::collections::VecDeque;

use destage_plan::{ParamSpec, Params};
use destage_raid::array::{ArrayConfig, DurabilityMode};
use hashbrown::HashSet;

use super::WriteBack;
use super::dirty::{self, DirtyPages};
use super::lost_page_writes::LostPageWrites;
use super::passed::PassedPages;
use super::room::SetRoom;
use crate::ssd::copies::{CopyCache, SEQUENTIAL_CUTOFF, WAYS};
use crate::ssd::frames::{BYTES_PER_PAGE, MAX_PAGES};
use crate::ssd::trims::TRIM;
use crate::ssd::{behind, journal};
use crate::{CacheFigure, CacheMedium, HostCacheError, HostCacheInfo, RegisteredCache};

const LOG: ParamSpec = ParamSpec {
    values: "0.01 to 50, with up to two decimals",
    help: "share of the cache that logs what is in the rest of it, or as much more as that takes",
    ..journal::LOG
};

const WRITTEN_BACK: CacheFigure =
    CacheFigure { name: "written_back", unit: "pages", meaning: "dirty pages that were written to the members" };
const WAITED: CacheFigure =
    CacheFigure { name: "waited", unit: "requests", meaning: "writes that waited until a set had room" };
const LOST: CacheFigure = CacheFigure {
    name: "lost",
    unit: "pages",
    meaning: "pages that were dirty when the cache device was lost, and that the last start knew of",
};

impl RegisteredCache for WriteBack {
    const INFO: HostCacheInfo = HostCacheInfo {
        about: "Writes go to the SSD alone and are answered from there; dirty pages are written to the array when \
                room is needed, when many are dirty, or when nothing was asked for a while. The loss of the SSD \
                costs what is dirty.",
        medium: CacheMedium::Device,
        min_pages: |array, params| journal::min_pages(array.page_bytes, params),
        max_pages: MAX_PAGES,
        bytes_per_page: |params| {
            // And that it is on its way back.
            BYTES_PER_PAGE + journal::bytes_per_page(params) + behind::bytes_per_page(dirty::HIGH, params) + 8
        },
        nv_slots: |pages, _, _| journal::slots(pages),
        holds_dirty: true,
        params: &[
            WAYS,
            dirty::HIGH,
            dirty::LOW,
            dirty::IDLE_AFTER,
            dirty::AT_ONCE,
            dirty::DESTAGE_UNIT,
            LOG,
            SEQUENTIAL_CUTOFF,
            TRIM,
        ],
        figures: &[WRITTEN_BACK, WAITED, LOST],
        synchronised: Err("it writes pages back by rows, with their parity"),
        modes: &[&[], &[(dirty::DESTAGE_UNIT.name, "stripe")]],
        // Two sets, so that both lookup and eviction matter, and pages that are written back soon.
        small: |pages| {
            let idle = (dirty::IDLE_AFTER.name, "2ms".to_owned());
            vec![(WAYS.name, (pages / 2).max(1).to_string()), (dirty::HIGH.name, "60".to_owned()), idle]
        },
        ..HostCacheInfo::new::<Self>(
            "write-back",
            "set-associative LRU cache: writes go to it alone, and to the array later; its loss costs them",
            "WB in KDD",
        )
    };

    fn new(pages: u64, array: &ArrayConfig, params: &Params) -> Result<Self, HostCacheError> {
        let log = journal::log_pages(pages, array.page_bytes, params)?;
        if log == 0 {
            // What is dirty has to be known after a cut.
            return Err(params.refuse(LOG.name).into());
        }
        let mut copies = CopyCache::with_log(pages, log, array, params)?;
        copies.journal.as_mut().expect("it has a log").keep_dirty();
        Ok(Self {
            dirty: DirtyPages::new(&copies.frames, params)?,
            room: SetRoom::new(&copies.frames),
            every_write: array.regime == DurabilityMode::EveryWrite,
            copies,
            waiting: VecDeque::new(),
            stores: Vec::new(),
            spare: Vec::new(),
            reading: Vec::new(),
            entering: VecDeque::new(),
            named: Vec::new(),
            lost: HashSet::default(),
            renewals: LostPageWrites::default(),
            lost_pages: 0,
            passed: PassedPages::default(),
            unusable: HashSet::default(),
            torn: HashSet::default(),
            healed: Vec::new(),
            volatile: false,
            life: 0,
            is_serving: false,
            is_blocked: false,
            drains: false,
            settles: false,
            broken: false,
            refused: false,
        })
    }
}
