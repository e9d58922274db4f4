//! Commands of whoever runs an array, each killed at every operation that changes something, by the end of the process and
//! by that of the power: what is left is served, or refused with a way on, which is gone then.
//!
//! The commands are the service's own code, down to the description, over files in memory ([`destage_exec::Recording`]).

mod case;
mod killed;
mod knowledge;
mod served;
mod walk;

use std::collections::{BTreeMap, BTreeSet};

use destage_exec::{ExecutorFault, SyncPoint};
use rayon::prelude::*;

use case::{CommandCase, KilledCommand};
use killed::CutTally;

use crate::share::{in_turn, seeds_of};

/// Lists the caches that commands about all arrays are tried with: of each kind that loses something else with its device or
/// the NVRAM.
const CACHES: [&str; 6] = ["write-back", "kdd@cache-device", "wow", "none", "kdd", "write-through"];

/// Lists those with a device that can be replaced.
const DEVICES: [&str; 5] = ["write-back", "kdd@cache-device", "kdd", "leavo", "write-through"];

/// Lists those with which a member is copied that nothing can be done without.
const WITHOUT_PARITY: [&str; 2] = ["none@raid0", "write-back@raid0"];

/// Lists which commands are tried with which caches: usually each with a third of them in turn, in the soak with all; with
/// `CRASH_CASE=CASE:CACHE` that one.
fn cases() -> Vec<(CommandCase, &'static str)> {
    let only = std::env::var("CRASH_CASE").ok();
    let of = |(at, case): (usize, CommandCase)| {
        let caches = if case.is_of_cache() { &DEVICES[..] } else { &CACHES[..] };
        // What write-back alone has is lost with its device.
        let caches = caches.iter().filter(move |cache| case != CommandCase::LoseCache || **cache != "write-back");
        let all = caches.map(move |cache| (case, *cache));
        if only.is_some() { all.collect::<Vec<_>>() } else { in_turn(all, at % 3, 3).collect() }
    };
    let all = CommandCase::ALL.into_iter().enumerate().flat_map(of);
    let all = all.chain(WITHOUT_PARITY.map(|cache| (CommandCase::ReplaceWhole, cache)));
    all.filter(|(case, cache)| only.as_ref().is_none_or(|only| *only == format!("{case:?}:{cache}"))).collect()
}

#[test]
fn what_is_killed_is_served_or_refused_with_a_way_on() {
    let seeds = seeds_of(1, 2);
    let all: Vec<_> = cases().into_iter().flat_map(|case| seeds.clone().map(move |seed| (case, seed))).collect();
    let tallies = all.into_par_iter().map(|((case, cache), seed)| {
        let command = KilledCommand { case, cache, seed, slip: None };
        (case, command.cut_everywhere().unwrap_or_else(|why| panic!("{why}")))
    });
    let mut total: BTreeMap<CommandCase, CutTally> = BTreeMap::new();
    for (case, tally) in tallies.collect::<Vec<_>>() {
        total.entry(case).or_default().add(&tally);
    }
    for (case, tally) in total {
        println!("{case:?}: {tally:?}");
        assert!(tally.served > 20 && tally.cuts > 10, "{case:?} is cut short: {tally:?}");
    }
}

/// Lists walks that the soak has found something with.
const FOUND: [(&str, u64); 3] = [("kdd", 62_141), ("kdd@cache-device", 75_774), ("write-through", 106_403)];

/// Takes 10⁴ walks, in the soak 10⁶.
#[test]
fn whatever_happens_to_an_array_in_any_order() {
    let caches = ["none", "write-through", "write-back", "leavo", "kdd", "kdd@cache-device", "wow", "lawc"];
    let seeds = seeds_of(1_250, 125_000);
    let all = caches.into_iter().flat_map(|cache| seeds.clone().map(move |seed| (cache, seed)));
    let all: Vec<_> = all.chain(FOUND).collect();
    let walks = all.into_par_iter().map(|(cache, seed)| walk::walk(cache, seed).unwrap_or_else(|why| panic!("{why}")));
    let mut followed: BTreeSet<(walk::WalkEvent, walk::WalkEvent)> = BTreeSet::new();
    for walk in walks.collect::<Vec<_>>() {
        followed.extend(walk.windows(2).map(|pair| (pair[0], pair[1])));
    }
    println!("{} pairs of events", followed.len());
    assert!(seeds.end - seeds.start < 100 || followed.len() > 200, "events follow one another");
}

/// Lists syncs that commands rely on, each with one that leaves something else without it. The others are shown by `slips`.
const MISSED: [(SyncPoint, CommandCase, &str); 13] = [
    (SyncPoint::Description, CommandCase::Create, "none"),
    (SyncPoint::Description, CommandCase::ReplaceCache, "kdd"),
    (SyncPoint::DescriptionFolder, CommandCase::Create, "none"),
    (SyncPoint::DescriptionFolder, CommandCase::ReplaceWhole, "none@raid0"),
    (SyncPoint::Successor, CommandCase::ReplaceWhole, "none@raid0"),
    (SyncPoint::ReplaceDevice, CommandCase::ReplaceWhole, "none"),
    (SyncPoint::DescriptionFolder, CommandCase::CreateOver, "write-back"),
    (SyncPoint::EventCount, CommandCase::Start, "write-back"),
    (SyncPoint::EventCountTold, CommandCase::Start, "write-back"),
    (SyncPoint::EventCountTold, CommandCase::Stop, "write-back"),
    (SyncPoint::OpenMarks, CommandCase::StartBereft, "write-back"),
    (SyncPoint::Flush, CommandCase::Flush, "write-back"),
    (SyncPoint::Answer, CommandCase::Flush, "write-back"),
];

#[test]
fn every_sync_of_a_command_is_missed_when_it_is_left_out() {
    let found = MISSED.into_par_iter().map(|(point, case, cache)| {
        let command = KilledCommand { case, cache, seed: 0, slip: Some(ExecutorFault::Missing(point)) };
        (point, case, command.cut_everywhere().err())
    });
    let found: Vec<_> = found.collect();
    for (point, case, why) in &found {
        println!("{point:?} of {case:?}: {}", why.as_deref().unwrap_or("not found"));
    }
    assert!(found.iter().all(|one| one.2.is_some()), "something is not found");
}
