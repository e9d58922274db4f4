//! Tests the promises of `write-back` and their limits (docs/assumptions.md). A power failure costs nothing
//! that was answered. The loss of the cache device costs the dirty pages, and requests for them fail.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use destage_cache::{ServedTier, host_cache, serve};
use destage_exec::{CrashRemains, CutChoice, MemoryExecutor, NextStep, NoCheck, ReplacementContent};
use destage_plan::{Control, Dev, HostNotice, HostOp, HostRequest, Nanos, PageRange, Refusal, Row, Shape, Status};
use destage_raid::array::{ArrayConfig, DurabilityMode, VersionSource};
use destage_raid::{Geometry, RaidLevel};

const PAGE: u64 = 128;
const SECTOR: u64 = 16;
const PAGES: u64 = 60;
const CACHE: &str = "write-back:ways=16:dirty-high=100:dirty-low=90:clean-after=1h:sequential-cutoff=4KiB";
/// Pages that are written: fewer than the cache has frames.
const WRITTEN: Range<u64> = 0..20;
const SSD: Dev = Dev(5);

/// Requests so far.
static TAGS: AtomicU64 = AtomicU64::new(0);

/// Nothing that was not flushed is left, or all of it.
struct Keep(bool);

impl CutChoice for Keep {
    fn page(&mut self, _: usize, _: u64, all: u128) -> u128 {
        if self.0 { all } else { 0 }
    }

    fn nvram(&mut self, queued: usize) -> usize {
        if self.0 { queued } else { 0 }
    }
}

fn geometry() -> Geometry {
    Geometry::new(RaidLevel::Raid5, None, 5, 2, 32).expect("a shape that can be")
}

struct Run {
    memory: MemoryExecutor<Box<dyn ServedTier>>,
}

impl Run {
    /// Begins a life.
    fn begin(regime: DurabilityMode, accepted: &[PageRange], remains: CrashRemains) -> Self {
        let mut config = ArrayConfig::new(geometry());
        (config.idle_flush, config.page_bytes, config.regime) = (Nanos(1 << 60), PAGE as u32, regime);
        config.accepted_losses = accepted.to_vec();
        let controller = serve(CACHE, &config, PAGES).expect("a cache that can be");
        let shape = Shape::new(PAGE, SECTOR, 8, 8, geometry().data_pages()).expect("a tiny array");
        let mut run = Self { memory: MemoryExecutor::start(controller, remains, shape, 8) };
        while run.memory.status() == Status::Starting {
            run.step();
        }
        run.settle();
        run
    }

    fn fresh(regime: DurabilityMode) -> Self {
        let members = (0..5).map(|_| geometry().member_pages() * PAGE);
        Self::begin(regime, &[], CrashRemains::fresh(members.chain([PAGES * PAGE]).map(|bytes| bytes as usize)))
    }

    fn step(&mut self) {
        self.memory.run(NextStep::Oldest, &NoCheck).expect("the controller goes on");
    }

    fn settle(&mut self) {
        while self.memory.status() == Status::Ready && !self.memory.is_idle() {
            self.step();
        }
    }

    /// Lets everything end but the step that was issued first.
    fn settle_others(&mut self) {
        while self.memory.runnable() > 1 {
            self.memory.run(NextStep::At(1), &NoCheck).expect("the controller goes on");
        }
    }

    /// Submits a request, of which the answer comes later; its tag.
    fn submit(&mut self, op: HostOp, offset: u64, len: u64, bytes: &[u8]) -> u64 {
        let tag = TAGS.fetch_add(1, Ordering::Relaxed);
        let request = HostRequest { tag, op, offset, len, fua: false };
        self.memory.submit(request, bytes).expect("a request in range");
        tag
    }

    /// Lets everything end; how these requests were answered.
    fn answers<const N: usize>(&mut self, tags: [u64; N]) -> [bool; N] {
        let mut answers = [None; N];
        loop {
            while let Some(notice) = self.memory.next_notice() {
                if let HostNotice::Acked { tag, ok } = notice {
                    answers[tags.iter().position(|other| *other == tag).expect("one of them")] = Some(ok);
                }
            }
            if self.memory.is_idle() {
                return answers.map(|answer| answer.expect("it was answered"));
            }
            self.step();
        }
    }

    /// The SSD is lost and replaced while everything else ends but the step that was issued first.
    fn replace_beside(&mut self) {
        self.memory.replace(SSD, ReplacementContent::Garbage(5));
        self.settle_others();
        assert!(self.memory.engine().controller().is_caching());
    }

    /// Asks; the bytes of a request that is served.
    fn ask(&mut self, op: HostOp, offset: u64, len: u64, bytes: &[u8]) -> Option<Vec<u8>> {
        let tag = self.submit(op, offset, len, bytes);
        let mut answer = None;
        while answer.is_none() || !self.memory.is_idle() {
            while let Some(notice) = self.memory.next_notice() {
                if let HostNotice::Acked { ok, .. } = notice {
                    answer = Some(ok.then(|| self.memory.request_bytes(tag).to_vec()));
                }
            }
            if answer.is_none() || !self.memory.is_idle() {
                self.step();
            }
        }
        answer.expect("it was answered")
    }

    fn write(&mut self, page: u64, byte: u8) -> bool {
        self.ask(HostOp::Write, page * PAGE, PAGE, &[byte; PAGE as usize]).is_some()
    }

    /// The first byte of a page.
    fn read(&mut self, page: u64) -> Option<u8> {
        self.ask(HostOp::Read, page * PAGE, PAGE, &[]).map(|bytes| bytes[0])
    }

    fn read_all(&mut self) -> Vec<Option<u8>> {
        WRITTEN.map(|page| self.read(page)).collect()
    }

    fn flush(&mut self) {
        assert!(self.ask(HostOp::Flush, 0, 0, &[]).is_some());
    }

    /// Pages of which the members have not the newest version.
    fn dirty(&self) -> u32 {
        let controller = self.memory.engine().controller();
        let dirty = |row| {
            let sources = controller.sources(Row(row));
            let is = |column| matches!(sources.newest(column), VersionSource::Page(_));
            geometry().data_set().iter().filter(|column| is(*column)).count() as u32
        };
        (0..geometry().member_pages()).map(dirty).sum()
    }

    fn clean(&mut self) {
        self.memory.control(Control::Clean);
        loop {
            while let Some(notice) = self.memory.next_notice() {
                if matches!(notice, HostNotice::Clean) {
                    return;
                }
            }
            self.step();
        }
    }

    /// The power fails, and the SSD does not answer from then on if it is `gone`.
    fn cut(&mut self, keep: bool, gone: bool) -> CrashRemains {
        let mut remains = self.memory.cut(&mut Keep(keep));
        remains.disks[SSD.index()].answers = !gone;
        remains
    }

    fn refusal(&self) -> Option<Refusal> {
        match self.memory.status() {
            Status::Refused(why) => Some(why),
            _ => None,
        }
    }

    /// Writes all pages twice: what they were at first is on the members.
    fn filled(regime: DurabilityMode) -> Self {
        let mut run = Self::fresh(regime);
        for page in WRITTEN {
            assert!(run.write(page, 1));
        }
        run.clean();
        assert_eq!(run.dirty(), 0);
        for page in WRITTEN {
            assert!(run.write(page, 2));
        }
        assert_eq!(run.dirty(), 20, "nothing is written back so far");
        run.flush();
        run
    }
}

const ALL: PageRange = PageRange { first: 0, pages: 128 };

fn is_lost(refusal: Option<Refusal>) -> bool {
    matches!(refusal, Some(Refusal::CacheLost { lost }) if lost.named() == [ALL])
}

#[test]
fn it_says_what_its_loss_costs() {
    assert!(host_cache("write-back").expect("it is registered").holds_dirty);
    assert!(!host_cache("write-through").expect("it is registered").holds_dirty);
    let config = ArrayConfig::new(geometry());
    assert!(serve("write-back:log=0", &config, PAGES).is_err(), "dirty pages could not be found after a cut");
}

#[test]
fn what_is_dirty_is_there_after_a_cut() {
    for regime in [DurabilityMode::Flush, DurabilityMode::EveryWrite] {
        let mut run = Run::filled(regime);
        // In place of dirty pages: durable only when that is asked for.
        for page in 0..7 {
            run.write(page, 3);
        }
        if regime == DurabilityMode::Flush {
            run.flush();
        }
        let expected: Vec<_> = WRITTEN.map(|page| Some(if page < 7 { 3 } else { 2 })).collect();
        for keep in [false, true] {
            let mut again = Run::begin(regime, &[], run.cut(keep, false));
            assert_eq!(again.dirty(), 20, "{regime:?}");
            assert_eq!(again.read_all(), expected, "{regime:?}");
            again.clean();
            assert_eq!(again.dirty(), 0);
            let mut last = Run::begin(regime, &[], again.cut(false, true));
            assert_eq!(last.read_all(), expected, "{regime:?}: all of it is on the members");
        }
    }
}

#[test]
fn what_was_written_in_place_and_not_flushed_may_be_gone() {
    let mut run = Run::filled(DurabilityMode::Flush);
    run.write(3, 3);
    assert_eq!(Run::begin(DurabilityMode::Flush, &[], run.cut(false, false)).read(3), Some(2));
    assert_eq!(Run::begin(DurabilityMode::Flush, &[], run.cut(true, false)).read(3), Some(3));
}

#[test]
fn the_loss_of_the_device_costs_what_is_dirty_and_no_more() {
    let mut run = Run::filled(DurabilityMode::EveryWrite);
    assert!(run.write(40, 9), "a page that is to be written back");
    run.memory.control(Control::Drain);
    while run.dirty() > 0 {
        run.step();
    }
    run.settle();
    for page in 0..6 {
        run.write(page, 3);
    }
    run.memory.fail(SSD, &mut Keep(true));
    run.memory.announce_all();
    run.settle();
    let lost = |page| page < 6;
    let expected: Vec<_> = WRITTEN.map(|page| (!lost(page)).then_some(2)).collect();
    assert_eq!(run.read_all(), expected, "what was lost is not what was there before");
    assert_eq!(run.read(40), Some(9));
    assert_eq!(run.memory.engine().controller().figures()[2], 6, "and is counted");
    // A part of such a page cannot be written; all of it can, and then it is whole.
    assert!(run.ask(HostOp::Write, 2 * PAGE, SECTOR, &[4; SECTOR as usize]).is_none());
    assert!(run.write(2, 4));
    assert!(run.ask(HostOp::Write, 2 * PAGE, SECTOR, &[5; SECTOR as usize]).is_some());
    assert_eq!(run.read(2), Some(5));
    assert!(run.write(7, 6), "others are served as ever");
    assert_eq!((run.read(7), run.read(1)), (Some(6), None));
    // Another device is used, and does not bring back what is lost.
    run.memory.replace(SSD, ReplacementContent::Garbage(3));
    run.settle();
    assert!(run.memory.engine().controller().is_caching());
    assert!(run.write(1, 7) && run.write(8, 8));
    assert_eq!(run.dirty(), 2);
    let expected = [None, Some(7), Some(5), None];
    assert_eq!((0..4).map(|page| run.read(page)).collect::<Vec<_>>(), expected);
    // The next start knows which pages they were, and so does the one after it.
    let expected: Vec<_> = WRITTEN
        .map(|page| match page {
            0 | 3..=5 => None,
            1 => Some(7),
            2 => Some(5),
            7 => Some(6),
            8 => Some(8),
            _ => Some(2),
        })
        .collect();
    let expected = |page: u64| if page == 40 { Some(9) } else { expected[page as usize] };
    for ends in [false, true, true] {
        let mut again = Run::begin(DurabilityMode::EveryWrite, &[], run.cut(true, false));
        assert_eq!(again.refusal(), None);
        let found: Vec<_> = WRITTEN.map(|page| again.read(page)).collect();
        assert_eq!(found, WRITTEN.map(expected).collect::<Vec<_>>());
        assert_eq!(again.memory.engine().controller().figures()[2], 4, "they are counted");
        if ends {
            again.clean();
        }
        run = again;
    }
    // Who accepts that they are lost has what was there before.
    let mut again = Run::begin(DurabilityMode::EveryWrite, &[PageRange { first: 0, pages: 4 }], run.cut(true, false));
    let given_up = [PageRange { first: 0, pages: 1 }, PageRange { first: 3, pages: 1 }];
    assert_eq!(again.memory.engine().controller().array().lost(), given_up);
    assert_eq!((again.read(0), again.read(3), again.read(4)), (Some(2), Some(2), None));
    again.clean();
    let mut last = Run::begin(DurabilityMode::EveryWrite, &[], again.cut(false, false));
    assert_eq!((last.read(0), last.read(3), last.read(5)), (Some(2), Some(2), None), "it is accepted");
    assert!((4..6).all(|page| last.write(page, 1)));
    assert!(!last.memory.engine().controller().condition().losses, "nothing is left of it");
}

/// Makes two pages dirty of eight that a run then comes to, which is long enough to pass the cache by.
fn before_a_long_run(regime: DurabilityMode) -> Run {
    let mut run = Run::filled(regime);
    for page in [41, 44] {
        assert!(run.write(page, 2));
    }
    run.flush();
    for page in [8, 16, 24, 32] {
        assert!(run.ask(HostOp::Read, page * PAGE, 8 * PAGE, &[]).is_some());
    }
    assert_eq!(run.dirty(), 22);
    run
}

/// Goes on with the run.
fn overwrite(run: &mut Run, byte: u8) -> u64 {
    run.submit(HostOp::Write, 40 * PAGE, 8 * PAGE, &[byte; 8 * PAGE as usize])
}

#[test]
fn a_dirty_page_that_a_run_overwrites_never_becomes_older_than_what_was_flushed() {
    let mut found_before = 0;
    for steps in 0.. {
        let mut run = before_a_long_run(DurabilityMode::Flush);
        let write = overwrite(&mut run, 7);
        let (mut flush, mut is_flushed, mut done) = (None, false, 0);
        while done < steps && !run.memory.is_idle() {
            run.step();
            done += 1;
            while let Some(notice) = run.memory.next_notice() {
                let HostNotice::Acked { tag, ok } = notice else { continue };
                assert!(ok, "nothing is lost");
                is_flushed |= Some(tag) == flush;
                if tag == write {
                    assert_eq!(run.dirty(), 20, "the members have the newest versions");
                    flush = Some(run.submit(HostOp::Flush, 0, 0, &[]));
                }
            }
        }
        for keep in [false, true] {
            let mut again = Run::begin(DurabilityMode::Flush, &[], run.cut(keep, false));
            for page in [41, 44] {
                let found = again.read(page);
                assert!(
                    found == Some(7) || !is_flushed && found == Some(2),
                    "page {page} is {found:?} after {steps} steps"
                );
                found_before += u64::from(found == Some(2));
            }
        }
        if done < steps {
            assert!(is_flushed && found_before > 0);
            assert_eq!(run.memory.engine().controller().counts().expect("it counts").overwritten, 2);
            return;
        }
    }
}

/// Has a run overwrite dirty pages, durably or not.
fn after_a_long_run(is_flushed: bool) -> Run {
    let mut run = before_a_long_run(DurabilityMode::Flush);
    let write = overwrite(&mut run, 7);
    assert_eq!(run.answers([write]), [true]);
    if is_flushed {
        run.flush();
    }
    run
}

#[test]
fn a_page_that_a_run_has_overwritten_comes_into_the_cache_again() {
    for is_flushed in [false, true] {
        let mut run = after_a_long_run(is_flushed);
        assert!(run.write(41, 9));
        assert_eq!((run.dirty(), run.read(41), run.read(44)), (21, Some(9), Some(7)));
        run.flush();
        for keep in [false, true] {
            let mut again = Run::begin(DurabilityMode::Flush, &[], run.cut(keep, false));
            assert_eq!((again.read(41), again.read(44)), (Some(9), Some(7)));
            again.clean();
            let mut last = Run::begin(DurabilityMode::Flush, &[], again.cut(false, true));
            assert_eq!((last.read(41), last.read(44)), (Some(9), Some(7)));
        }
    }
}

#[test]
fn a_write_that_has_to_be_durable_overwrites_no_dirty_page_past_the_cache() {
    let mut run = before_a_long_run(DurabilityMode::EveryWrite);
    let write = overwrite(&mut run, 7);
    assert_eq!(run.answers([write]), [true]);
    assert_eq!(run.memory.engine().controller().counts().expect("it counts").overwritten, 0);
    assert_eq!(Run::begin(DurabilityMode::EveryWrite, &[], run.cut(false, false)).read(41), Some(7));
}

#[test]
fn what_a_run_has_overwritten_is_lost_with_the_device_until_it_is_flushed() {
    for is_flushed in [false, true] {
        let mut run = after_a_long_run(is_flushed);
        run.memory.fail(SSD, &mut Keep(true));
        run.memory.announce_all();
        run.settle();
        let mut again = Run::begin(DurabilityMode::Flush, &[], run.cut(false, true));
        let expected = is_flushed.then_some(7);
        assert_eq!([41, 44].map(|page| again.read(page)), [expected; 2], "neither is what it was at first");
    }
}

#[test]
fn a_lost_page_that_is_written_again_is_whole_whenever_the_power_fails() {
    let (flush, every) = (DurabilityMode::Flush, DurabilityMode::EveryWrite);
    for (regime, is_replaced) in [(flush, false), (flush, true), (every, false), (every, true)] {
        let mut after = 0;
        for steps in 0.. {
            let mut run = Run::filled(regime);
            run.memory.fail(SSD, &mut Keep(true));
            run.memory.announce_all();
            run.settle();
            if is_replaced {
                run.memory.replace(SSD, ReplacementContent::Garbage(5));
                run.settle();
            }
            let write = run.submit(HostOp::Write, 3 * PAGE, PAGE, &[7; PAGE as usize]);
            let mut tags = vec![write];
            let mut done = 0;
            while done < steps && !run.memory.is_idle() {
                run.step();
                done += 1;
                while let Some(notice) = run.memory.next_notice() {
                    if matches!(notice, HostNotice::Acked { tag, ok: true } if tag == write)
                        && regime == DurabilityMode::Flush
                    {
                        tags.push(run.submit(HostOp::Flush, 0, 0, &[]));
                    } else if matches!(notice, HostNotice::Acked { tag, ok: true } if Some(&tag) == tags.last()) {
                        tags.clear();
                    }
                }
            }
            let mut again = Run::begin(regime, &[], run.cut(false, false));
            assert_eq!(again.refusal(), None, "after {steps} steps");
            let found = [2, 3, 4].map(|page| again.read(page));
            assert!(
                found == [None, Some(7), None] || !tags.is_empty() && found == [None; 3],
                "{found:?} after {steps} steps"
            );
            after += u64::from(found[1].is_none());
            if done < steps {
                break;
            }
        }
        assert!(after > 0, "it is not there before it is written");
    }
}

#[test]
fn what_was_let_in_before_the_device_was_lost_does_not_enter_the_next_one() {
    for regime in [DurabilityMode::Flush, DurabilityMode::EveryWrite] {
        for page in [3, 5] {
            let mut run = Run::fresh(regime);
            let read = run.submit(HostOp::Read, page * PAGE, PAGE, &[]);
            let stored = run.submit(HostOp::Write, page * PAGE, PAGE, &[2; PAGE as usize]);
            run.settle_others();
            run.memory.fail(SSD, &mut Keep(true));
            run.memory.announce_all();
            // Past the cache, behind the other.
            let past = run.submit(HostOp::Write, page * PAGE, PAGE, &[4; PAGE as usize]);
            run.settle_others();
            run.replace_beside();
            let answers = run.answers([read, stored, past]);
            assert_eq!((run.read(page), run.dirty()), (Some(4), 0), "{regime:?}: an older version is no newer one");
            assert_eq!(answers, [true, false, true], "{regime:?}");
            run.clean();
            assert_eq!(run.read(page), Some(4), "{regime:?}");
        }
    }
}

#[test]
fn a_part_of_a_page_that_was_lost_meanwhile_does_not_make_it_whole() {
    let mut run = Run::filled(DurabilityMode::EveryWrite);
    // One that the SSD has, and one that a member has.
    let read = run.submit(HostOp::Read, 19 * PAGE, 2 * PAGE, &[]);
    let part = run.submit(HostOp::Write, 19 * PAGE, SECTOR, &[3; SECTOR as usize]);
    let from_member = |run: &Run| run.memory.runnable() == 1;
    while !from_member(&run) {
        run.memory.run(NextStep::At(0), &NoCheck).expect("the controller goes on");
    }
    run.memory.fail(SSD, &mut Keep(true));
    run.memory.announce_all();
    run.replace_beside();
    let answers = run.answers([read, part]);
    run.clean();
    assert_eq!(run.read(19), None, "what the rest of it was is lost");
    assert_eq!(answers, [true, false]);
    assert!(run.write(19, 5));
    assert_eq!(run.read(19), Some(5));
}

#[test]
fn a_flush_is_answered_once_the_loss_is_noted() {
    let (mut lost, mut served) = (0, 0);
    for steps in 0..20 {
        let mut run = Run::fresh(DurabilityMode::Flush);
        assert!(run.write(3, 2));
        run.flush();
        // Not durable on the SSD, but on the members as soon as it is written back.
        assert!(run.write(3, 3));
        run.memory.control(Control::Drain);
        (0..steps).for_each(|_| run.step());
        run.memory.fail(SSD, &mut Keep(false));
        run.memory.announce_all();
        let flush = run.submit(HostOp::Flush, 0, 0, &[]);
        let answered = |run: &mut Run| {
            std::iter::from_fn(|| run.memory.next_notice())
                .any(|notice| matches!(notice, HostNotice::Acked { tag, ok: true } if tag == flush))
        };
        while !answered(&mut run) {
            // The NVRAM last.
            run.memory.run(NextStep::At(0), &NoCheck).expect("the controller goes on");
        }
        // The device answers again, with what it had durably.
        let mut again = Run::begin(DurabilityMode::Flush, &[], run.cut(false, false));
        assert_eq!(again.refusal(), None, "which page is lost is known");
        match again.read(3) {
            None => lost += 1,
            found => {
                assert_eq!(found, Some(3), "lost after {steps} steps");
                served += 1;
            }
        }
    }
    assert!(lost > 0 && served > 0, "once it is on the members");
}

#[test]
fn a_start_that_is_refused_for_another_reason_accepts_no_loss() {
    let mut run = Run::filled(DurabilityMode::EveryWrite);
    let mut remains = run.cut(true, true);
    for member in [0, 1] {
        remains.disks[member].answers = false;
    }
    let mut refused = Run::begin(DurabilityMode::EveryWrite, &[ALL], remains);
    assert!(matches!(refused.refusal(), Some(Refusal::MembersLost { .. })), "{:?}", refused.refusal());
    while refused.memory.runnable() > 0 {
        refused.step();
    }
    let mut remains = refused.cut(true, false);
    remains.disks.iter_mut().for_each(|disk| disk.answers = true);
    let mut back = Run::begin(DurabilityMode::EveryWrite, &[], remains);
    assert_eq!((back.refusal(), back.read_all()), (None, vec![Some(2); 20]), "all of them came back");
}

#[test]
fn a_start_without_the_device_is_refused_while_there_may_be_dirty_pages() {
    let mut run = Run::filled(DurabilityMode::Flush);
    let refused = Run::begin(DurabilityMode::Flush, &[], run.cut(false, true));
    assert!(is_lost(refused.refusal()));
    let part = [PageRange { first: 0, pages: 127 }];
    assert!(is_lost(Run::begin(DurabilityMode::Flush, &part, run.cut(false, true)).refusal()), "not all is accepted");
    let mut back = Run::begin(DurabilityMode::Flush, &[], run.cut(false, false));
    assert_eq!(back.read_all(), vec![Some(2); 20], "it notes nothing: the device may come back");
    let mut accepted = Run::begin(DurabilityMode::Flush, &[ALL], run.cut(false, true));
    assert_eq!(accepted.refusal(), None);
    assert_eq!(accepted.memory.engine().controller().array().lost(), [ALL]);
    assert_eq!(accepted.read_all(), vec![Some(1); 20], "what was written before");
    accepted.write(3, 5);
    // What the lost device had is not believed when it comes back.
    let mut remains = accepted.cut(true, false);
    remains.disks[SSD.index()] = run.cut(false, false).disks.pop().expect("the SSD");
    let mut last = Run::begin(DurabilityMode::Flush, &[], remains);
    assert_eq!((last.refusal(), last.read(3), last.read(4)), (None, Some(5), Some(1)));
}

#[test]
fn a_log_of_dirty_pages_that_cannot_be_read_is_a_loss() {
    let mut run = Run::filled(DurabilityMode::Flush);
    let mut damaged = run.cut(true, false);
    let pages = (0..4 * PAGE as usize).step_by(PAGE as usize);
    pages.for_each(|at| damaged.disks[SSD.index()].image[at + 20] ^= 1);
    let refused = Run::begin(DurabilityMode::Flush, &[], damaged);
    assert!(is_lost(refused.refusal()), "{:?}", refused.refusal());
}

#[test]
fn a_start_without_the_device_goes_on_after_a_clean_stop() {
    let mut run = Run::filled(DurabilityMode::Flush);
    run.clean();
    let mut without = Run::begin(DurabilityMode::Flush, &[], run.cut(false, true));
    assert_eq!(without.read_all(), vec![Some(2); 20]);
    assert!(without.write(3, 5));
    assert_eq!(without.read(3), Some(5));
}

/// Until the stop is reached a start without the device is refused, unless nothing was dirty any more; after it none
/// is.
#[test]
fn a_start_without_the_device_at_every_moment_of_a_clean_stop() {
    for (drained, newest) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut run = Run::filled(DurabilityMode::Flush);
        if drained {
            run.memory.control(Control::Drain);
            while run.dirty() > 0 {
                run.step();
            }
            run.settle();
            run.flush();
        }
        run.memory.control(Control::Clean);
        let mut refused = 0;
        loop {
            let stopped = std::iter::from_fn(|| run.memory.next_notice()).any(|notice| notice == HostNotice::Clean);
            let mut without = Run::begin(DurabilityMode::Flush, &[], run.cut(false, true));
            if !stopped && is_lost(without.refusal()) {
                refused += 1;
            } else {
                assert_eq!((without.refusal(), without.read_all()), (None, vec![Some(2); 20]), "{drained}, {newest}");
            }
            if stopped {
                break;
            }
            let last = run.memory.runnable().checked_sub(1).filter(|_| newest);
            run.memory.run(last.map_or(NextStep::Oldest, NextStep::At), &NoCheck).expect("the controller goes on");
        }
        assert!(refused > 0, "{drained}, {newest}: some were refused");
    }
}

/// Whenever the device is lost while a page is written: the page is lost, or was not written, or was written past the
/// cache. If it was dirty, it is never what its member has.
#[test]
fn a_write_that_is_on_its_way_when_the_device_is_lost() {
    const TAG: u64 = 1 << 32;
    for (page, dirty) in [(3, true), (40, false)] {
        for steps in 0..12 {
            let mut run = Run::filled(DurabilityMode::Flush);
            let request = HostRequest { tag: TAG, op: HostOp::Write, offset: page * PAGE, len: PAGE, fua: false };
            run.memory.submit(request, &[3; PAGE as usize]).expect("a request in range");
            for _ in 0..steps {
                if !run.memory.is_idle() {
                    run.step();
                }
            }
            run.memory.fail(SSD, &mut Keep(true));
            run.memory.announce_all();
            run.settle();
            let mut notices = std::iter::from_fn(|| run.memory.next_notice());
            let served = notices.any(|notice| notice == HostNotice::Acked { tag: TAG, ok: true });
            match run.read(page) {
                // It went past the cache, since the device was lost before.
                Some(3) => assert!(served, "{page}, {steps}"),
                Some(0) => assert!(!served && !dirty, "{page}, {steps}"),
                other => assert_eq!(other, None, "{page}, {steps}"),
            }
            assert!(run.write(page, 4) && run.read(page) == Some(4), "{page}, {steps}: it can be written again");
        }
    }
}

#[test]
fn members_are_lost_and_filled_beside_dirty_pages() {
    for lost in 0..5 {
        let mut run = Run::filled(DurabilityMode::Flush);
        run.memory.fail(Dev(lost), &mut Keep(true));
        run.memory.announce_all();
        run.settle();
        assert_eq!(run.read_all(), vec![Some(2); 20], "{lost}");
        run.write(0, 3);
        run.memory.replace(Dev(lost), ReplacementContent::Garbage(1));
        while run.memory.engine().controller().array().is_rebuilding() {
            run.step();
        }
        run.settle();
        let mut expected = vec![Some(2); 20];
        expected[0] = Some(3);
        assert_eq!(run.read_all(), expected, "{lost}");
        // Filled in as the parity has it: another can be lost then.
        let mut run = Run::begin(DurabilityMode::Flush, &[], run.cut(true, false));
        run.memory.fail(Dev((lost + 1) % 5), &mut Keep(true));
        run.memory.announce_all();
        run.clean();
        assert_eq!((run.read_all(), run.dirty()), (expected, 0), "{lost}");
    }
}
