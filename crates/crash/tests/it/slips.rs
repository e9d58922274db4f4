//! Faults of the file executor itself, each of which is found: every sync that is left out, what is done in another order
//! than it must, every error that is not heard. The bounds are some ten times what was measured.
//!
//! Not among them, since they cost nothing: a start that makes contents durable and no lengths of members or intents (these
//! are when a file is made, or named as a member's); a trim of which nothing is done (pages that a
//! discard covers may keep what they held); a controller that is not told of a failed device (its operations are). Nor what
//! the marks' sync of each start makes good a few operations later: that of a device that is opened, or that of the intents
//! if it is only late; nor that of the NVRAM without lengths, which its making has made durable. That an array which is made
//! over another is emptied first shows only if its NVRAM or intents are lost in the middle of that, about once in 70,000 cuts:
//! here only an error of it is looked for.

use destage_cache::host_caches;
use destage_crash::{ControllerFault, FilesOptions, run_files, run_store};
use destage_exec::ExecutorFault::{
    self, BegunBefore, Believes, ContentAlone, HeadFirst, Held, Late, MergedErrorOfFirst, MergedExchanged, MergedShort,
    Missing, NotAnew, OwnAlone, Paired, ShortHole, ShortRead, ShortWrite, TooSoon, Unheard, UnheardNoRoom, UnheardRead,
    UnheardWrite,
};
use destage_exec::SyncPoint::{
    self, Ahead, Answer, BadPages, Commit, Copied, CreateDevice, CreateEmptied, CreateIntents, CreateNvram,
    Description, DescriptionFolder, EventCount, Flush, Fua, Intents, Marks, MovedFolder, MovedNvram, MovedRoster,
    OpenDevice, OpenIntents, OpenMarks, OpenNvram, ReplaceDevice, ReplaceFolder, Roster, Successor, Tail,
};
use destage_exec::UntrustedFile::{Stale, Torn};
use destage_raid::RaidLevel;
use rayon::prelude::*;

use crate::shown_by::seeds;

/// Syncs of files, not of folders, that are told as done before they are; [`in_steps_of_the_nvram`] has the one of its start.
const LATE: [ExecutorFault; 8] = [
    Late(Flush),
    Late(Fua),
    Late(Commit),
    Late(Intents),
    Late(Roster),
    Late(CreateDevice),
    Late(CreateIntents),
    Late(ReplaceDevice),
];

/// Lists the faults that change the order of operations.
const ORDERS: [ExecutorFault; 16] = [
    Held(Commit),
    Held(Intents),
    Held(Roster),
    TooSoon(Fua),
    TooSoon(Commit),
    TooSoon(Intents),
    TooSoon(Roster),
    TooSoon(CreateDevice),
    TooSoon(CreateIntents),
    TooSoon(CreateNvram),
    TooSoon(ReplaceDevice),
    Paired(Commit),
    Paired(Intents),
    NotAnew(OpenNvram),
    BegunBefore(Fua),
    OwnAlone,
];

/// Syncs that do less than they are for.
const CONTENT_ALONE: [ExecutorFault; 4] =
    [ContentAlone(CreateDevice), ContentAlone(CreateIntents), ContentAlone(CreateNvram), ContentAlone(ReplaceDevice)];

/// Results that are taken for more than they are.
const SHORT: [ExecutorFault; 4] = [UnheardRead, ShortWrite, ShortRead, ShortHole];

/// Histories of each cell where a fault is looked for.
const SEEDS: u64 = 400;

/// Lists the seeds that show the faults which take many.
const SHOWN_BY: [(ExecutorFault, u64); 16] = [
    (MergedErrorOfFirst, 123),
    (NotAnew(OpenIntents), 39),
    (Unheard(EventCount), 39),
    (Unheard(ReplaceFolder), 26),
    (UnheardRead, 24),
    (Late(ReplaceDevice), 21),
    (Unheard(Roster), 20),
    (NotAnew(OpenNvram), 17),
    (Unheard(OpenMarks), 13),
    (Unheard(CreateEmptied), 13),
    (Unheard(Intents), 12),
    (Unheard(ReplaceDevice), 11),
    (Unheard(Fua), 11),
    (Unheard(Flush), 10),
    (Unheard(OpenDevice), 9),
    (Unheard(CreateDevice), 9),
];

/// Histories of steps of the NVRAM alone.
const STORE_SEEDS: u64 = 10_000;

/// Lists the same for steps of the NVRAM.
const STORE_SHOWN_BY: [(ExecutorFault, u64); 9] = [
    (Late(Tail), 7_819),
    (TooSoon(Tail), 3_436),
    (Paired(Tail), 3_436),
    (Missing(Tail), 3_436),
    (Unheard(Tail), 1_178),
    (Unheard(Copied), 917),
    (Missing(Copied), 95),
    (TooSoon(Copied), 95),
    (Late(OpenNvram), 40),
];

/// Returns the arrays in which a fault is looked for.
///
/// Arrays without a cache and with one on a device come first; one whose cache is in the NVRAM is added if the fault is
/// about that.
fn cells(slip: Option<ExecutorFault>) -> &'static [(&'static str, RaidLevel)] {
    const CELLS: [(&str, RaidLevel); 3] =
        [("none", RaidLevel::Raid5), ("write-through", RaidLevel::Raid1), ("wow", RaidLevel::Raid5)];
    match slip.and_then(ExecutorFault::of) {
        Some(Commit | Ahead | Answer | Copied | Tail | OpenNvram | EventCount | OpenMarks) => &CELLS,
        _ => &CELLS[..2],
    }
}

/// After how many cuts something is found, and what.
fn first(options: FilesOptions) -> Option<String> {
    let mut cuts = 0;
    let known: &[_] = if options.slip.is_some() { &SHOWN_BY } else { &[] };
    let known: Vec<_> = known.iter().map(|&(slip, seed)| (Some(slip), seed)).collect();
    seeds(&known, &options.slip, 0..SEEDS).find_map(|seed| {
        cells(options.slip).iter().find_map(|(name, level)| {
            let cache = host_caches().find(|cache| cache.name == *name).expect("a cache of this name");
            match run_files(cache, seed, FilesOptions { level: Some(*level), ..options }) {
                Ok(report) => {
                    cuts += report.cuts + report.kills;
                    None
                }
                Err(failure) => {
                    let cuts = cuts + failure.cuts;
                    Some(format!("after {cuts} cuts, {name} {level} seed {seed}: {}", failure.what))
                }
            }
        })
    })
}

fn are_found(slips: impl IntoIterator<Item = ExecutorFault>, options: FilesOptions) {
    let slips: Vec<_> = slips.into_iter().collect();
    let found: Vec<_> =
        slips.into_par_iter().map(|slip| (slip, first(FilesOptions { slip: Some(slip), ..options }))).collect();
    for (slip, found) in &found {
        println!("{slip:?}: {}", found.as_deref().unwrap_or("not found"));
    }
    let missed: Vec<_> = found.iter().filter(|(_, found)| found.is_none()).map(|(slip, _)| slip).collect();
    assert!(missed.is_empty(), "nothing finds {missed:?}");
}

const BEREFT: FilesOptions = FilesOptions { bereft: true, ..FilesOptions::BY_THREADS };

/// Whatever can fails much more often than it usually does.
const ERRORS: FilesOptions = FilesOptions { errors: true, ..FilesOptions::BY_THREADS };

#[test]
fn every_sync_that_is_left_out_or_does_less() {
    // The next sync at a start covers that of the NVRAM: steps of the NVRAM alone are cut more often in between.
    let syncs = besides_marks().filter(|of| !matches!(of, OpenDevice | CreateEmptied | OpenNvram));
    are_found(syncs.map(Missing).chain(CONTENT_ALONE), FilesOptions::BY_THREADS);
}

/// Finds every fault of the marks of members, which count only when the NVRAM or the intents are lost.
#[test]
fn every_fault_of_marks() {
    are_found([Missing, Late, Held, TooSoon, Paired].map(|of| of(Marks)), BEREFT);
    are_found([Unheard(Marks), Unheard(OpenMarks)], FilesOptions { errors: true, ..BEREFT });
    are_found([Missing(OpenMarks)], BEREFT);
}

/// Lists the syncs that histories of this file miss. [`in_steps_of_the_nvram`] has those of a journal that comes round;
/// `commands` cuts descriptions, and what takes the place of a member that was copied. Lists of bad pages promise nothing:
/// `files_bad_page_lists` of `crates/exec` cuts them, and `files_moves` an NVRAM that leaves its device.
fn besides_marks() -> impl Iterator<Item = SyncPoint> {
    let elsewhere = |point: &_| {
        matches!(point, Marks | OpenMarks | BadPages | Copied | Tail | Successor | Description | DescriptionFolder)
            || matches!(point, MovedNvram | MovedFolder | MovedRoster)
    };
    SyncPoint::ALL.into_iter().filter(move |point| !elsewhere(point))
}

#[test]
fn every_sync_that_is_told_as_done_early() {
    are_found(LATE, FilesOptions::BY_THREADS);
}

#[test]
fn every_swapped_order() {
    are_found(ORDERS, FilesOptions::BY_THREADS);
    are_found([NotAnew(OpenIntents)], ERRORS);
}

#[test]
fn a_replacement_that_is_named_before_the_loss_is_noted() {
    let found = first(FilesOptions { crooked: Some(ControllerFault::NamedEarly), ..FilesOptions::BY_THREADS });
    println!("NamedEarly: {}", found.expect("it is found"));
}

#[test]
fn every_error_that_is_not_heard() {
    let syncs = besides_marks().filter(|of| !matches!(of, Ahead | Answer));
    are_found(syncs.map(Unheard).chain([UnheardWrite, UnheardNoRoom]), ERRORS);
    are_found(SHORT, FilesOptions::BY_THREADS);
}

/// Finds faults over a ring, which is asked by code of its own.
#[test]
fn over_a_ring() {
    let orders = [Missing(Flush), Missing(Fua), Late(Flush), Late(Fua), TooSoon(Fua), BegunBefore(Fua), OwnAlone];
    are_found(orders.into_iter().chain(SHORT), FilesOptions { ring: true, ..FilesOptions::BY_THREADS });
    let errors = [Unheard(Flush), Unheard(Fua), UnheardWrite, UnheardNoRoom];
    are_found(errors, FilesOptions { ring: true, ..ERRORS });
}

/// An error that counts as one of every part costs pages and no data: `files_merging` of `crates/exec` counts these.
#[test]
fn wrong_results_of_merged_operations() {
    are_found([MergedShort, MergedExchanged], FilesOptions { ring: true, ..FilesOptions::BY_THREADS });
    are_found([MergedErrorOfFirst], FilesOptions { ring: true, ..ERRORS });
}

/// Finds faults of NVRAM and intents alone, and of their order, whoever uses them.
#[test]
fn in_steps_of_the_nvram() {
    let slips = [
        [Missing, Late, Held, TooSoon, Unheard].map(|of| of(Commit)),
        [Missing, Late, Held, TooSoon, Unheard].map(|of| of(Intents)),
        [Missing, Late, Held, TooSoon, Unheard].map(|of| of(Copied)),
        [Missing, Late, Held, TooSoon, Unheard].map(|of| of(Ahead)),
        [Missing, Late, Held, TooSoon, Unheard].map(|of| of(Answer)),
        [Missing, Late, Held, TooSoon, Unheard].map(|of| of(Tail)),
        [Missing(EventCount), Late(EventCount), Held(EventCount), TooSoon(EventCount), Paired(Tail)],
        [Missing(OpenNvram), Missing(OpenIntents), Paired(Commit), HeadFirst(Commit), NotAnew(OpenNvram)],
        [Late(OpenNvram), Held(OpenNvram), Paired(Ahead), Believes(Torn), Believes(Stale)],
    ];
    for slip in slips.into_iter().flatten() {
        let found = seeds(&STORE_SHOWN_BY, &slip, 0..STORE_SEEDS).find_map(|seed| run_store(seed, Some(slip)).err());
        let found = found.unwrap_or_else(|| panic!("nothing finds {slip:?}"));
        println!("{slip:?}: seed {}: {}", found.seed, found.what);
    }
}
