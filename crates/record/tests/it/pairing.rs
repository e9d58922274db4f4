//! Beginnings and completions paired: known stories, and a naive model.

use destage_plan::{Nanos, Op};
use destage_record::{
    BlockEvent, EventPairing, MAX_WAITING, RecordedMoments, RecordedRequest, RecordedView, RequestStep, RwbsFlags,
};
use proptest::prelude::*;

/// A story told event by event.
struct Story {
    pairing: EventPairing,
    out: Vec<RecordedRequest>,
    time: u64,
}

impl Story {
    fn new(view: RecordedView) -> Self {
        Self { pairing: EventPairing::new(view, None), out: vec![], time: 0 }
    }

    /// The next event, ten nanoseconds after the one before it.
    fn then(&mut self, step: RequestStep, letters: &str, sector: u64, sectors: u32) -> &mut Self {
        self.time += 10;
        let asked = RwbsFlags::parse(letters.as_bytes());
        let event = BlockEvent { time: self.time, step, dev: 0, sector, sectors, asked, failed: false };
        self.pairing.take(&event, &mut self.out);
        self
    }

    fn begin(&mut self, letters: &str, sector: u64, sectors: u32) -> &mut Self {
        self.then(RequestStep::Begin, letters, sector, sectors)
    }

    fn complete(&mut self, letters: &str, sector: u64, sectors: u32) -> &mut Self {
        self.then(RequestStep::Complete, letters, sector, sectors)
    }

    /// Returns the requests that have left so far: kind, sector, latency.
    fn told(&self) -> Vec<(Op, u64, Option<u64>)> {
        self.out.iter().map(|r| (r.request.op, r.request.offset / 512, r.latency.map(|l| l.0))).collect()
    }
}

const ISSUED: RecordedView =
    RecordedView { at: RecordedMoments::Issue, part: None, flushes: true, fua: false, zoned: false };
const QUEUED: RecordedView =
    RecordedView { at: RecordedMoments::Queue, part: None, flushes: true, fua: false, zoned: false };

#[test]
fn requests_leave_in_the_order_of_their_beginnings() {
    let mut story = Story::new(ISSUED);
    story.begin("W", 0, 8).begin("R", 8, 8).complete("R", 8, 8);
    assert_eq!(story.told(), [], "the first is not complete");
    story.complete("W", 0, 8);
    assert_eq!(story.told(), [(Op::Write, 0, Some(30)), (Op::Read, 8, Some(10))]);
}

#[test]
fn a_request_may_complete_in_pieces() {
    let mut story = Story::new(ISSUED);
    story.begin("W", 0, 24).complete("W", 0, 8).complete("W", 8, 8);
    assert_eq!((story.told(), story.pairing.outstanding()), (vec![], 1));
    story.complete("W", 16, 8);
    assert_eq!(story.told(), [(Op::Write, 0, Some(30))]);
}

#[test]
fn what_was_merged_completes_together_and_what_was_split_piece_by_piece() {
    let mut story = Story::new(QUEUED);
    story.begin("W", 0, 8).begin("W", 8, 8).begin("R", 0, 8).complete("W", 0, 16);
    assert_eq!(story.told(), [(Op::Write, 0, Some(30)), (Op::Write, 8, Some(20))]);
    story.begin("D", 100, 50).complete("D", 125, 25).complete("R", 0, 8).complete("D", 100, 25);
    assert_eq!(story.told()[2..], [(Op::Read, 0, Some(40)), (Op::Discard, 100, Some(30))]);
    assert_eq!(story.pairing.counts().without_beginning, 0);
}

#[test]
fn equal_requests_complete_in_their_order() {
    let mut story = Story::new(ISSUED);
    story.begin("W", 0, 8).begin("W", 0, 8).complete("W", 0, 8).complete("W", 0, 8);
    assert_eq!(story.told(), [(Op::Write, 0, Some(20)), (Op::Write, 0, Some(20))]);
}

#[test]
fn the_block_layers_flushes_are_issued_one_by_one() {
    let mut story = Story::new(ISSUED);
    story.begin("FF", 0, 0).complete("FF", u64::MAX, 0).complete("WS", 0, 0);
    // A write with FUA to a device without: the write, then a flush, then its end.
    story.begin("WS", 8, 8).complete("WS", 8, 8).begin("FF", 0, 0).complete("FF", u64::MAX, 0).complete("WS", 8, 0);
    assert_eq!(story.told(), [(Op::Flush, 0, Some(10)), (Op::Write, 8, Some(10)), (Op::Flush, 0, Some(10))]);
    assert_eq!(story.pairing.counts().without_beginning, 0);
}

#[test]
fn what_is_asked_of_a_flush_ends_by_an_event_without_sectors() {
    let mut story = Story::new(QUEUED);
    story.begin("FWS", 0, 0).complete("FF", u64::MAX, 0).complete("WS", 0, 0);
    assert_eq!(story.told(), [(Op::Flush, 0, Some(20))]);
    // A flush before the write, and FUA: its last sector is not its end.
    story.begin("FWFS", 8, 8).complete("FF", u64::MAX, 0).complete("WS", 8, 8).begin("FWS", 0, 0);
    story.complete("WS", 8, 0);
    assert_eq!(story.told()[1..], [(Op::Flush, 0, None), (Op::Write, 8, Some(40))]);
    story.complete("WS", 0, 0);
    assert_eq!(story.told()[3..], [(Op::Flush, 0, Some(20))]);
    let c = story.pairing.counts();
    assert_eq!((c.fua, c.requests[Op::Flush as usize], c.without_completion), (1, 3, 0));

    // A device that knows FUA itself, without a flush before: nothing follows.
    let mut story = Story::new(RecordedView { fua: true, ..QUEUED });
    story.begin("WFS", 8, 8).complete("WFS", 8, 8);
    assert_eq!(story.told(), [(Op::Write, 8, Some(10))]);
    assert!(story.out[0].request.fua);
}

#[test]
fn a_request_that_the_device_sends_back_is_one_request() {
    let mut story = Story::new(ISSUED);
    story.begin("W", 0, 16).then(RequestStep::Requeue, "W", 0, 16).begin("W", 0, 16).complete("W", 0, 16);
    assert_eq!(story.told(), [(Op::Write, 0, Some(30))]);
    // After a piece was complete, the rest alone comes back.
    story
        .begin("R", 0, 16)
        .complete("R", 0, 8)
        .then(RequestStep::Requeue, "R", 8, 8)
        .begin("R", 8, 8)
        .complete("R", 8, 8);
    assert_eq!(story.told()[1..], [(Op::Read, 0, Some(40))]);
    story.begin("FF", 0, 0).then(RequestStep::Requeue, "FF", 0, 0).begin("FF", 0, 0).complete("FF", u64::MAX, 0);
    assert_eq!(story.told()[2..], [(Op::Flush, 0, Some(30))]);
    assert_eq!((story.pairing.counts().requeued, story.pairing.counts().total()), (3, 3));
}

#[test]
fn what_cannot_be_recorded_is_counted() {
    let mut story = Story::new(ISSUED);
    story.begin("N", 0, 0).complete("N", 0, 0).begin("ZA", 8, 8).complete("ZA", 8, 8).begin("?", 0, 8);
    story.complete("R", 0, 8).begin("NS", 64, 8).complete("NS", 64, 8).begin("DE", 0, 8).complete("DE", 0, 8);
    let c = *story.pairing.counts();
    assert_eq!((c.passed_through, c.zone_commands, c.unknown, c.without_beginning), (1, 1, 1, 1));
    assert_eq!((c.write_zeroes, c.secure_erases), (1, 1));
    assert_eq!(story.told(), [(Op::Write, 64, Some(10)), (Op::Discard, 0, Some(10))]);
    let mut story = Story::new(RecordedView { zoned: true, ..ISSUED });
    story.begin("NS", 64, 8).complete("NS", 64, 8);
    assert_eq!((story.told(), story.pairing.counts().zone_commands), (vec![], 1));
}

#[test]
fn a_partition_has_its_own_offsets() {
    let mut story = Story::new(RecordedView { part: Some(100..200), ..ISSUED });
    story.begin("W", 0, 8).complete("W", 0, 8).begin("W", 96, 8).complete("W", 96, 8).begin("W", 196, 8);
    story.complete("W", 196, 8).begin("W", 200, 8).complete("W", 200, 8).begin("R", 150, 1).complete("R", 150, 1);
    let shapes: Vec<_> = story.out.iter().map(|r| (r.request.offset, r.request.len)).collect();
    assert_eq!(shapes, [(0, 4 * 512), (96 * 512, 4 * 512), (50 * 512, 512)]);
    assert!(story.out.iter().all(|r| r.latency == Some(Nanos(10))));
    assert_eq!(story.pairing.counts().without_beginning, 0);
}

#[test]
fn a_completion_that_never_comes_holds_up_a_bounded_number() {
    let mut story = Story::new(ISSUED);
    story.begin("W", 0, 8);
    for i in 1..=MAX_WAITING as u64 + 5 {
        assert!(i <= MAX_WAITING as u64 || !story.out.is_empty());
        story.begin("R", i * 8, 8).complete("R", i * 8, 8);
    }
    assert_eq!(story.out[0].latency, None);
    assert_eq!(story.out.len(), MAX_WAITING + 6);
    assert_eq!(story.pairing.counts().without_completion, 1);
    story.begin("FF", 0, 0).begin("W", 0, 8);
    story.pairing.give_up_all(&mut story.out);
    assert_eq!(story.pairing.outstanding(), 0);
    assert_eq!(story.pairing.counts().without_completion, 3);
    assert_eq!(story.out.len() as u64, story.pairing.counts().total());
}

#[test]
fn no_more_are_taken_than_wanted() {
    let mut pairing = EventPairing::new(QUEUED, Some(3));
    let mut out = vec![];
    for i in 0..4 {
        let asked = RwbsFlags::parse(b"FWS");
        let event =
            BlockEvent { time: i, step: RequestStep::Begin, dev: 0, sector: i * 8, sectors: 8, asked, failed: false };
        pairing.take(&event, &mut out);
    }
    pairing.give_up_all(&mut out);
    assert!(pairing.is_full());
    let ops: Vec<Op> = out.iter().map(|r| r.request.op).collect();
    assert_eq!(ops, [Op::Flush, Op::Write, Op::Flush]);
}

#[test]
fn what_is_asked_again_is_one_request() {
    let mut story = Story::new(QUEUED);
    story.begin("WS", 0, 8).then(RequestStep::Retract, "WS", 0, 8).begin("WS", 0, 8).complete("WS", 0, 8);
    assert_eq!(story.told(), [(Op::Write, 0, Some(10))]);
    // Of two the younger: the device has the older. One of which a part is complete, or of another
    // length, is another.
    story.begin("R", 8, 8).begin("R", 8, 8).then(RequestStep::Retract, "R", 8, 8).complete("R", 8, 8);
    assert_eq!(story.told()[1..], [(Op::Read, 8, Some(30))]);
    story.begin("R", 8, 8).complete("R", 8, 4).then(RequestStep::Retract, "R", 8, 8).then(
        RequestStep::Retract,
        "R",
        8,
        4,
    );
    story.then(RequestStep::Retract, "W", 8, 8).complete("R", 12, 4);
    assert_eq!(story.told()[2..], [(Op::Read, 8, Some(50))]);
    let c = story.pairing.counts();
    assert_eq!((c.retracted, c.total(), c.without_completion, story.pairing.outstanding()), (2, 3, 0, 0));

    // The flush that comes with a write goes with it.
    let mut story = Story::new(QUEUED);
    story.begin("FWFS", 8, 8).then(RequestStep::Retract, "FWFS", 8, 8).begin("FWS", 0, 0).then(
        RequestStep::Retract,
        "FWS",
        0,
        0,
    );
    assert_eq!((story.told(), story.pairing.outstanding()), (vec![], 0));
    assert_eq!((story.pairing.counts().total(), story.pairing.counts().fua), (0, 0));
}

#[test]
fn what_is_retracted_does_not_count_as_one_of_those_wanted() {
    let mut story = Story { pairing: EventPairing::new(QUEUED, Some(2)), out: vec![], time: 0 };
    story.begin("W", 0, 8).begin("W", 8, 8);
    assert!(story.pairing.is_full());
    // Begun before it is known that the second does not count.
    story.begin("W", 16, 8).then(RequestStep::Retract, "W", 8, 8).begin("W", 8, 8);
    assert!(story.pairing.is_full());
    assert_eq!((story.pairing.taken(), story.pairing.outstanding()), (2, 3));
    story.pairing.cut_surplus();
    assert_eq!((story.pairing.taken(), story.pairing.outstanding()), (2, 2));
    story.complete("W", 0, 8).complete("W", 16, 8).complete("W", 8, 8);
    assert_eq!(story.told(), [(Op::Write, 0, Some(50)), (Op::Write, 16, Some(40))]);
    // Without the cut, too, no more leave than are wanted.
    let mut story = Story { pairing: EventPairing::new(QUEUED, Some(1)), out: vec![], time: 0 };
    story.begin("W", 0, 8).begin("W", 8, 8).complete("W", 8, 8).complete("W", 0, 8).begin("W", 0, 8);
    story.pairing.give_up_all(&mut story.out);
    assert_eq!((story.out.len(), story.pairing.counts().total()), (1, 1));
}

#[test]
fn completions_without_a_beginning_are_those_from_before_the_recording() {
    let mut story = Story::new(ISSUED);
    story.complete("W", 0, 8).complete("FF", u64::MAX, 0).begin("W", 8, 8);
    // From now on beginnings are not seen.
    story.pairing.close(story.time);
    story.complete("W", 8, 8).complete("W", 16, 8).complete("FF", u64::MAX, 0);
    assert_eq!((story.pairing.counts().without_beginning, story.pairing.counts().failed), (2, 0));
    // What was given up had a beginning.
    let mut story = Story::new(ISSUED);
    story.begin("W", 8, 8);
    story.pairing.give_up_all(&mut story.out);
    story.complete("W", 8, 8);
    assert_eq!(story.pairing.counts().without_beginning, 0);
}

#[test]
fn a_request_fails_once() {
    let mut story = Story::new(ISSUED);
    story.begin("W", 0, 16);
    for (sector, sectors) in [(0, 8), (8, 8), (64, 8)] {
        let asked = RwbsFlags::parse(b"W");
        let event = BlockEvent { time: 50, step: RequestStep::Complete, dev: 0, sector, sectors, asked, failed: true };
        story.pairing.take(&event, &mut story.out);
    }
    assert_eq!((story.out.len(), story.pairing.counts().failed, story.pairing.counts().without_beginning), (1, 1, 1));
}

#[test]
fn nothing_is_guessed_while_events_are_lost() {
    let mut story = Story::new(ISSUED);
    story.begin("W", 0, 8).begin("R", 0, 8);
    // Up to 45.
    story.pairing.lost(45, &mut story.out);
    assert_eq!((story.out.len(), story.pairing.outstanding()), (2, 0));
    story.begin("W", 0, 8).complete("W", 0, 8);
    assert_eq!(story.told()[2..], [(Op::Write, 0, None)], "its completion may be another's");
    story.time = 30;
    story.begin("W", 8, 8);
    assert_eq!(story.pairing.outstanding(), 0, "nobody need wait for it");
    // Its completion was lost; this is another request.
    story.begin("W", 8, 8).complete("W", 8, 8);
    assert_eq!(story.told()[3..], [(Op::Write, 8, None), (Op::Write, 8, Some(10))]);
    let c = story.pairing.counts();
    assert_eq!((c.without_completion, c.without_beginning, c.total()), (4, 0, 5));
}

#[test]
fn what_reaches_beyond_any_device_is_counted() {
    let mut story = Story::new(ISSUED);
    story.begin("W", u64::MAX - 3, 8).begin("W", 1 << 55, 8).begin("W", (1 << 55) - 9, 8);
    story.complete("W", (1 << 55) - 9, 8);
    assert_eq!((story.out.len(), story.pairing.counts().unknown), (1, 2));
    let mut story = Story::new(RecordedView { part: Some(100..200), ..ISSUED });
    story.begin("W", 1 << 55, 8).begin("W", 0, 8).begin("ZA", 0, 8).begin("?", 0, 8).begin("?", 100, 8);
    assert_eq!((story.pairing.counts().unknown, story.pairing.counts().zone_commands), (1, 0), "not in the partition");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    /// Requests for sectors of their own, complete in any order and in pieces: each leaves once, in
    /// order, with the latency of its last piece.
    #[test]
    fn pieces_in_any_order_give_the_latency_of_the_last(
        story in prop::collection::vec((0..4_usize, prop::collection::vec(1_u32..9, 1..4)), 1..60),
        order in prop::collection::vec(any::<prop::sample::Index>(), 400),
    ) {
        let letters = ["R", "WS", "D", "NS"];
        // Requests begin while others complete: what may come next, and the rest.
        let mut waiting: Vec<(usize, Vec<u32>)> = story.iter().rev().cloned().collect();
        let mut pieces: Vec<(&str, u64, u32, usize)> = vec![];
        let mut told = Story::new(ISSUED);
        let mut expected: Vec<(u64, u64)> = vec![];
        let mut order = order.iter();
        while !waiting.is_empty() || !pieces.is_empty() {
            let index = order.next().map_or(0, |i| i.index(pieces.len() + 1));
            if index < pieces.len() {
                let (letters, sector, sectors, number) = pieces.swap_remove(index);
                told.complete(letters, sector, sectors);
                expected[number].1 = told.time;
            } else if let Some((kind, parts)) = waiting.pop() {
                let number = expected.len();
                let mut sector = number as u64 * 1000;
                told.begin(letters[kind], sector, parts.iter().sum());
                expected.push((told.time, 0));
                for sectors in parts {
                    pieces.push((letters[kind], sector, sectors, number));
                    sector += u64::from(sectors);
                }
            }
        }
        prop_assert_eq!(told.pairing.outstanding(), 0);
        prop_assert_eq!(told.out.len(), story.len());
        for (recorded, (begun, done)) in told.out.iter().zip(&expected) {
            prop_assert_eq!(recorded.request.time, Nanos(*begun));
            prop_assert_eq!(recorded.latency, Some(Nanos(done - begun)));
        }
    }

    /// Whatever comes, every request leaves once and nothing stays behind.
    #[test]
    fn any_events_are_taken(
        events in prop::collection::vec(
            (0..4_usize, 0..9_usize, prop_oneof![0..64_u64, Just(u64::MAX), Just(u64::MAX - 3)], prop_oneof![0..20_u32, Just(u32::MAX)]),
            0..300,
        ),
        queue in any::<bool>(),
        part in prop::option::of((0..40_u64, 0..40_u64)),
        most in prop::option::of(0..30_u64),
        lost in prop::collection::vec((0..300_usize, 0..500_u64), 0..3),
    ) {
        let view = RecordedView {
            at: if queue { RecordedMoments::Queue } else { RecordedMoments::Issue },
            part: part.map(|(start, len)| start..start + len),
            ..ISSUED
        };
        let mut story = Story { pairing: EventPairing::new(view, most), out: vec![], time: 0 };
        for (number, (step, letters, sector, sectors)) in events.into_iter().enumerate() {
            for &(_, after) in lost.iter().filter(|(before, _)| *before == number) {
                story.pairing.lost(story.time + after, &mut story.out);
            }
            let letters = ["R", "W", "D", "FF", "FWFS", "WFS", "NS", "ZA", "!"][letters];
            story.then([RequestStep::Begin, RequestStep::Complete, RequestStep::Requeue, RequestStep::Retract][step], letters, sector, sectors);
        }
        story.pairing.cut_surplus();
        story.pairing.give_up_all(&mut story.out);
        prop_assert_eq!(story.pairing.outstanding(), 0);
        prop_assert!(most.is_none_or(|most| story.pairing.counts().total() <= most));
        prop_assert_eq!(story.pairing.taken(), story.pairing.counts().total());
        prop_assert_eq!(story.out.len() as u64, story.pairing.counts().total());
        prop_assert!(story.out.iter().zip(story.out.iter().skip(1)).all(|(a, b)| a.request.time <= b.request.time));
    }
}
