//! The caches on an SSD against the naive model of them (specs §9), one access of a page after the other: what
//! members and SSD are asked for and in which of their pages, hits, what is written why, stale rows and what is
//! where in them, and the bytes of everything.
//!
//! Left out are the metadata log, which has a model of its own (`metadata_log` of `crates/cache`), and options beyond
//! the paper.

use destage_plan::HostOp;
use destage_testkit::{TestRng, soak};

use crate::tier_beside::{Case, DrawnRequest, Pair};

/// Accesses of a case before all is cleaned.
const ACCESSES: u64 = 500;

/// Draws a request near a page. A third have several pages, or parts of pages; a few write zeros, trim or flush.
fn draw(op: HostOp, near: u64, case: &Case, pair: &Pair, dice: &mut TestRng) -> DrawnRequest {
    if dice.below(3) > 0 {
        return DrawnRequest::page(op, near);
    }
    let other = match dice.below(20) {
        0 => return DrawnRequest::flush(),
        1 => HostOp::WriteZeroes,
        2 => HostOp::Discard,
        _ => op,
    };
    let request = DrawnRequest::draw(other, near, case.params.shape, pair.pages(), dice);
    if pair.has_room(request) { request } else { DrawnRequest::page(op, near) }
}

/// Runs a case; what went wrong after how many accesses.
fn run(cache: &'static str, m: u64, seed: u64) -> Result<[u64; 5], (u64, String)> {
    let mut dice = TestRng::new(seed << 8 | m);
    let case = Case::draw(cache, m, &mut dice);
    let mut pair = Pair::new(&case);
    for access in 1..=ACCESSES {
        let at = |why| (access, format!("{case:?}: {why}"));
        if dice.below(80) == 0 {
            pair.idle().map_err(at)?;
        }
        let op = if dice.below(100) < case.reads { HostOp::Read } else { HostOp::Write };
        // Half of all near each other.
        let room = if dice.below(2) == 0 { pair.pages() } else { pair.pages().div_ceil(5) };
        let request = draw(op, dice.below(room), &case, &pair, &mut dice);
        pair.serve(request, &mut dice).map_err(at)?;
        if access % 100 == 0 {
            pair.check_all().map_err(at)?;
        }
    }
    let at = |why| (ACCESSES, format!("{case:?}, at the end: {why}"));
    pair.clean().map_err(at)?;
    pair.check_all().map_err(at)?;
    // What is cached is found.
    for page in 0..pair.pages() {
        pair.serve(DrawnRequest::page(HostOp::Read, page), &mut dice).map_err(at)?;
    }
    pair.check_all().map_err(at)?;
    Ok(pair.seen())
}

/// Runs all cases of a cache over arrays with one and with two parities.
fn try_all(cache: &'static str) {
    let number = |name, unless| std::env::var(name).map_or(unless, |text: String| text.parse().expect("a number"));
    let (first, seeds) = (number("MODEL_FROM", 0), number("MODEL_SEEDS", if soak() { 2_000 } else { 20 }));
    for m in [1, 2] {
        let mut seen = [0; 5];
        for seed in first..first + seeds {
            match run(cache, m, seed) {
                Ok(more) => seen.iter_mut().zip(more).for_each(|(all, more)| *all += more),
                Err((access, why)) => panic!("MODEL_FROM={seed}: after {access} accesses: {why}"),
            }
        }
        let [evictions, shortages, cleaned, deltas, raw] = seen;
        println!(
            "{cache} over {m} parities: {} accesses, {evictions} evictions, {shortages} without room, {cleaned} rows \
             cleaned, {deltas} pages of deltas, {raw} of one alone",
            seeds * ACCESSES
        );
        assert!(evictions > 0, "the cases are too roomy");
        let delays = matches!(cache, "leavo" | "kdd");
        let owes = delays || cache == "write-back";
        assert_eq!(shortages > 0, owes, "the cases are too roomy");
        assert_eq!(cleaned > 0, owes, "nothing was cleaned");
        assert_eq!(deltas > raw && raw > 0, cache == "kdd", "deltas are too much alike");
    }
}

#[test]
fn write_around() {
    try_all("write-around");
}

#[test]
fn write_through() {
    try_all("write-through");
}

#[test]
fn write_back() {
    try_all("write-back");
}

#[test]
fn leavo() {
    try_all("leavo");
}

#[test]
fn kdd() {
    try_all("kdd");
}
