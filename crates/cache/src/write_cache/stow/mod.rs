//! STOW: sequential and random writes in rings of their own, with a border between them that moves
//! (Gill, Ko, Debnath, Belluomini, FAST'09; specs §8.3).
//!
//! Only the abstract of the paper was to be had. What is here is made of that and of WOW, and no
//! fidelity is claimed: every constant is a parameter, and where the abstract is silent it says so
//! in the specification.

mod rings;

use destage_plan::{ParamSpec, Params, SpecError, quantity};
use destage_raid::Geometry;
use destage_raid::array::ArrayConfig;

use self::rings::StowConstants;
use super::options::{self, ADMIT, GROUPS, HIGH, LOW};
use super::registered::{info, serve};
use super::streams::WriteStreams;
use super::upper::UpperLayer;
use super::{WriteCache, figures};
use crate::{HostCacheError, HostCacheInfo, ServedTier, SynchronisedInfo};

pub(super) use rings::StowRings;

const RUN: ParamSpec = ParamSpec {
    name: "run",
    default: "1",
    values: "1 to 65535",
    unit: "strips",
    help: "strips of a run that lie before a write that is sequential",
};

const STREAMS: ParamSpec = ParamSpec {
    name: "streams",
    default: "32",
    values: "1 to 1024",
    unit: "1",
    help: "runs of writes that are kept in mind",
};

const SHARE: ParamSpec = ParamSpec {
    name: "share",
    default: "50",
    values: "0 to 100, between least and most",
    unit: "%",
    help: "share that sequential groups are to have at first",
};

const LEAST: ParamSpec = ParamSpec {
    name: "least",
    default: "5",
    values: "0 to 100, no more than share",
    unit: "%",
    help: "the least that it becomes",
};

const MOST: ParamSpec = ParamSpec {
    name: "most",
    default: "95",
    values: "0 to 100, no less than share",
    unit: "%",
    help: "the most that it becomes",
};

const STEP: ParamSpec = ParamSpec {
    name: "step",
    default: "1",
    values: "0 to 65535",
    unit: "pages",
    help: "by how much it changes with each page that is written again in a group that is destaged next; 0: never",
};

const MARGIN: ParamSpec = ParamSpec {
    name: "margin",
    default: "4",
    values: "1 to 1024",
    unit: "groups",
    help: "groups of each ring that count as destaged next, of which those that were hit do not",
};

const STRETCH: ParamSpec = ParamSpec {
    name: "stretch",
    default: "1",
    values: "1 to 65535",
    unit: "groups",
    help: "groups of one ring that are destaged before it is asked which is to be next",
};

const HYSTERESIS: ParamSpec = ParamSpec {
    name: "hysteresis",
    default: "128",
    values: "0 to 4294967295",
    unit: "pages",
    help: "how far below low a ring is destaged once it was there",
};

/// [The upper layer](super) alone, with two rings.
pub static STOW: HostCacheInfo = HostCacheInfo {
    about: "WOW with two rings: writes that go on where an earlier write ended stand in one, all others in the \
            other, and the border between them moves. Only the abstract of the paper was to be had, so every \
            constant is a parameter.",
    min_pages: options::least_pages,
    params: &[LOW, HIGH, GROUPS, RUN, STREAMS, SHARE, LEAST, MOST, STEP, MARGIN, STRETCH, HYSTERESIS, ADMIT],
    figures: &figures::names(&figures::OF_RINGS),
    small: |pages| {
        let constants = [(STREAMS.name, "2"), (MARGIN.name, "1"), (HYSTERESIS.name, "1")];
        let mut small = options::small_groups(pages);
        small.extend(constants.map(|(key, value)| (key, value.to_owned())));
        small
    },
    synchronised: Ok(SynchronisedInfo {
        title: "STOW whose groups wait until all members have something to write",
        about: "STOW of which the stripes chosen next wait until all members have something to write, and then go to all \
                of them together, so that SSDs collect garbage at the same time. After a timeout, or when room is \
                needed, they go without the others.",
        paper: "STOW in LAWC",
    }),
    ..info("stow", "WOW with sequential writes in a ring of their own; from the abstract alone", "STOW in LAWC", new)
};

fn new(pages: u64, array: &ArrayConfig, params: &Params) -> Result<Box<dyn ServedTier>, HostCacheError> {
    let cache = WriteCache::new(&figures::OF_RINGS, array, Some(upper(pages, array, params)?), None);
    serve(pages, array, cache.admitting(options::admits_rows(params)?))
}

fn upper(pages: u64, array: &ArrayConfig, params: &Params) -> Result<UpperLayer, SpecError> {
    Ok(options::upper(pages, params)?.with_rings(rings(pages, &array.geometry, params)?))
}

fn rings(pages: u64, geometry: &Geometry, params: &Params) -> Result<StowRings, SpecError> {
    let percent = |spec: &ParamSpec| {
        let share = quantity::decimal(params.text(spec.name), 100).ok().filter(|share| *share <= 10_000);
        share.ok_or_else(|| params.refuse(spec.name))
    };
    let (least, share, most) = (percent(&LEAST)?, percent(&SHARE)?, percent(&MOST)?);
    if least > share {
        return Err(params.refuse(LEAST.name));
    }
    if share > most {
        return Err(params.refuse(MOST.name));
    }
    let of_all = |share: u64| (u128::from(pages) * u128::from(share) / 10_000) as u64;
    let chunk = u64::from(geometry.chunk_pages());
    let constants = StowConstants {
        capacity: pages,
        group: chunk * u64::from(geometry.data_columns()),
        run: chunk * u64::from(params.number::<u16>(RUN.name, 1..)?),
        margin: params.number(MARGIN.name, 1..=1_024)?,
        step: params.number::<u16>(STEP.name, ..)?.into(),
        least: of_all(least),
        most: of_all(most),
        stretch: params.number::<u16>(STRETCH.name, 1..)?.into(),
        hysteresis: params.number::<u32>(HYSTERESIS.name, ..)?.into(),
    };
    let streams = WriteStreams::new(params.number(STREAMS.name, 1..=1_024)?);
    Ok(StowRings::new(constants, streams, of_all(share)))
}
