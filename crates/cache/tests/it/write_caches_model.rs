//! The write caches against a naive model, over many random requests, and what the members hold at the
//! end against what was written (specs §8, §12.2).
//!
//! What happens is that a request comes, that a member has done a command, or that time passes; after each
//! all else that is under way ends, in one of two modes reads of members, too. Then both are compared: what
//! members were asked for, in order, what was answered, and what is counted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use destage_exec::StepLog;
use destage_plan::{Control, HostRequest};
use destage_testkit::TestRng;

use crate::beside::{Case, PAGE, Pair, draw};
use crate::spec_reading::SpecReading;

/// Draws a request. By the paper's reading it is a single page: only those are served alike.
fn draw_for(reading: SpecReading, dice: &mut TestRng, case: &Case, pair: &Pair, tag: u64) -> HostRequest {
    let request = draw(dice, case, &pair.sizes, &pair.earlier, tag);
    match reading {
        SpecReading::AsBuilt => request,
        SpecReading::Paper => HostRequest { offset: request.offset / PAGE * PAGE, len: PAGE, ..request },
    }
}

/// Runs a case for so many events, and then to its end; what went wrong after how many.
fn run(
    cache: &'static str,
    of: u8,
    seed: u64,
    events: u64,
    log: &StepLog,
    reading: SpecReading,
) -> Result<u64, (u64, String)> {
    let mut dice = TestRng::new(seed << 8 | u64::from(of));
    let mut case = Case::draw(cache, of, &mut dice);
    case.options.reading = reading;
    let mut pair = Pair::new(&case);
    pair.memory.keep_log(Arc::clone(log));
    let mut requests = 0;
    for event in 0..events {
        if case.options.auto && dice.below(4) == 0 {
            pair.collect(&mut dice);
        }
        let may = pair.under_way.len() < case.depth && pair.has_slots(&case);
        if may && (pair.flight.is_empty() || dice.below(3) == 0) {
            requests += 1;
            let request = draw_for(reading, &mut dice, &case, &pair, requests);
            pair.submit(request);
        } else if !pair.flight.is_empty() {
            pair.end_one(&mut dice);
        } else if pair.wait() {
        } else if pair.under_way.is_empty() {
            requests += 1;
            let request = draw_for(reading, &mut dice, &case, &pair, requests);
            pair.submit(request);
        } else {
            return Err((event + 1, "requests wait for ever".to_owned()));
        }
        pair.settle();
        pair.compare().map_err(|why| (event + 1, why))?;
    }
    pair.memory.control(Control::Clean);
    pair.model.be_clean();
    let mut clean = |pair: &mut Pair| {
        pair.settle();
        pair.compare()?;
        while !pair.flight.is_empty() {
            if pair.is_clean {
                return Err("it is said to be clean, and members are at work".to_owned());
            }
            pair.end_one(&mut dice);
            pair.settle();
            pair.compare()?;
        }
        if !pair.is_clean {
            pair.memory.control(Control::Clean);
            pair.settle();
            pair.compare()?;
        }
        if !pair.is_clean || pair.memory.nvram().slots().next().is_some() {
            return Err("it is not clean".to_owned());
        }
        if !pair.under_way.is_empty() {
            return Err(format!("{} requests are never answered", pair.under_way.len()));
        }
        pair.check_members(&case)
    };
    clean(&mut pair).map_err(|why| (events, why))?;
    Ok(requests)
}

fn try_all(cache: &'static str) {
    let (first, seeds) =
        (number("MODEL_FROM", 0), number("MODEL_SEEDS", if destage_testkit::soak() { 2_600 } else { 16 }));
    for of in [0, 4, 5, 6] {
        let mut requests = 0;
        for seed in first..first + seeds {
            let log = StepLog::default();
            let all = |events| {
                log.lock().unwrap_or_else(PoisonError::into_inner).clear();
                let all = catch_unwind(AssertUnwindSafe(|| run(cache, of, seed, events, &log, SpecReading::AsBuilt)));
                all.unwrap_or_else(|_| Err((events, "a panic".to_owned())))
            };
            match all(EVENTS) {
                Ok(more) => requests += more,
                Err((found, _)) => {
                    // What is found at the end may be there before.
                    let least = (0..=found).find_map(|events| all(events).err());
                    let (events, why) = least.expect("it was found before");
                    log.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|line| println!("{line}"));
                    let mut dice = TestRng::new(seed << 8 | u64::from(of));
                    let Case { cache, shape, stripes, pages, quick_reads, depth, .. } =
                        Case::draw(cache, of, &mut dice);
                    panic!(
                        "MODEL_FROM={seed}: {cache} of {pages} pages, {shape:?}, {stripes} stripes, {depth} requests, \
                         quick reads {quick_reads}: after {events} events: {why}"
                    );
                }
            }
        }
        println!("{cache} over RAID-{of}: {requests} requests, {} events", seeds * EVENTS);
    }
}

fn number(name: &str, unless: u64) -> u64 {
    std::env::var(name).map_or(unless, |text| text.parse().expect("a number"))
}

/// Events of a case before it is brought to its end.
const EVENTS: u64 = 400;

#[test]
fn wow() {
    try_all("wow");
}

#[test]
fn stow() {
    try_all("stow");
}

#[test]
fn iwc() {
    try_all("iwc");
}

#[test]
fn synchronised_iwc() {
    try_all("sync+iwc");
}

#[test]
fn synchronised_wow() {
    try_all("sync+wow");
}

#[test]
fn synchronised_stow() {
    try_all("sync+stow");
}

#[test]
fn lawc() {
    try_all("lawc");
}

/// Checks that the caches follow the specs while requests are single pages.
#[test]
fn single_pages_are_served_as_the_paper_says() {
    for cache in ["wow", "stow", "iwc", "sync+iwc", "sync+wow", "sync+stow", "lawc"] {
        for of in [0, 4, 5, 6] {
            for seed in 0..2 {
                let all = run(cache, of, seed, EVENTS, &StepLog::default(), SpecReading::Paper);
                assert!(all.is_ok(), "{cache} over RAID-{of}, seed {seed}: {all:?}");
            }
        }
    }
}
