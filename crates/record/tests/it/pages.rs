//! Raw pages of the kernel's trace buffer, from the page to requests. `data/` holds what Linux 6.18
//! gave for known requests to a loop device: the pages of both CPUs, the descriptions, and its own
//! text of the same events.

use std::collections::VecDeque;

use destage_plan::Op;
use destage_record::{
    BlockEvent, CpuRings, EventLayout, EventLayouts, EventMerge, EventPairing, PageLayout, PageParser, RecordError,
    RecordedMoments, RecordedRequest, RecordedView, RequestKind, RequestStep,
};
use proptest::prelude::*;

const CPU0: &[u8] = include_bytes!("data/cpu0-0.page");
const CPU1: &[u8] = include_bytes!("data/cpu1-0.page");
const TEXT: &str = include_str!("data/trace.txt");
const ISSUE: &str = include_str!("data/block_rq_issue.format");
const COMPLETE: &str = include_str!("data/block_rq_complete.format");
const REQUEUE: &str = include_str!("data/block_rq_requeue.format");
const QUEUE: &str = include_str!("data/block_bio_queue.format");

fn parser() -> PageParser {
    PageParser::new(PageLayout::parse(include_str!("data/header_page")).unwrap())
}

fn layouts(events: &[(&str, RequestStep)]) -> EventLayouts {
    let events: Vec<_> = events.iter().map(|(text, step)| (EventLayout::parse(text).unwrap(), *step)).collect();
    EventLayouts::new(&events).unwrap()
}

fn all_layouts() -> EventLayouts {
    layouts(&[
        (ISSUE, RequestStep::Begin),
        (COMPLETE, RequestStep::Complete),
        (REQUEUE, RequestStep::Requeue),
        (QUEUE, RequestStep::Begin),
    ])
}

/// Buffers that hold these pages; the clock runs on by itself, a microsecond with every look.
struct Made {
    pages: Vec<VecDeque<Vec<u8>>>,
    clock: std::cell::Cell<u64>,
}

impl Made {
    fn new(pages: Vec<Vec<Vec<u8>>>, clock: u64) -> Self {
        Self { pages: pages.into_iter().map(VecDeque::from).collect(), clock: clock.into() }
    }
}

impl CpuRings for Made {
    fn cpus(&self) -> usize {
        self.pages.len()
    }

    fn read(&mut self, cpu: usize, page: &mut Vec<u8>) -> Result<bool, RecordError> {
        let next = self.pages[cpu].pop_front();
        let there = next.is_some();
        *page = next.unwrap_or_default();
        Ok(there)
    }

    fn now(&self) -> u64 {
        self.clock.set(self.clock.get() + 1000);
        self.clock.get()
    }
}

fn drain(merge: &mut EventMerge, rings: &mut Made, all: bool) -> Vec<BlockEvent> {
    let mut events = vec![];
    merge
        .drain(rings, all, &mut |event| {
            events.push(event);
            Ok(())
        })
        .unwrap();
    events
}

/// Microseconds, event, letters, sector and sectors of a line of the kernel's own text.
fn line(text: &str) -> (u64, &str, &str, u64, u32) {
    let mut words = text.split_whitespace();
    let time = words.by_ref().find(|word| word.ends_with(':')).unwrap().trim_end_matches(':');
    let (seconds, micros) = time.split_once('.').unwrap();
    let time = seconds.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap();
    let event = words.next().unwrap().trim_end_matches(':');
    assert_eq!(words.next(), Some("7,1"));
    let letters = words.next().unwrap();
    let rest: Vec<&str> = words.collect();
    let plus = rest.iter().position(|&word| word == "+").unwrap();
    (time, event, letters, rest[plus - 1].parse().unwrap(), rest[plus + 1].parse().unwrap())
}

#[test]
fn pages_hold_what_the_kernels_text_says() {
    let mut rings = Made::new(vec![vec![CPU0.to_vec()], vec![CPU1.to_vec()]], 1 << 60);
    let mut merge = EventMerge::new(parser(), all_layouts(), 2);
    let events = drain(&mut merge, &mut rings, false);
    assert_eq!(events.len(), TEXT.lines().count());
    for (event, text) in events.iter().zip(TEXT.lines()) {
        let (micros, name, letters, sector, sectors) = line(text);
        // The kernel's text is rounded to the nearest microsecond.
        assert!(event.time.abs_diff(micros * 1000) <= 500, "{text}: {}", event.time);
        let step = if name == "block_rq_complete" { RequestStep::Complete } else { RequestStep::Begin };
        assert_eq!(
            (event.step, event.sector, event.sectors, event.dev),
            (step, sector, sectors, 7 << 20 | 1),
            "{text}"
        );
        let asked = event.asked.unwrap();
        let kind = match letters {
            "WS" | "FWS" => RequestKind::Write,
            "RS" => RequestKind::Read,
            "FF" => RequestKind::Flush,
            "DS" => RequestKind::Discard,
            _ => RequestKind::Other,
        };
        assert_eq!((asked.kind, asked.preflush, event.failed), (kind, letters == "FWS", false), "{text}");
    }
    assert_eq!((merge.late, merge.strange, merge.gaps), (0, 0, 0));
}

fn pair(view: RecordedView, layouts: EventLayouts) -> (Vec<RecordedRequest>, EventPairing) {
    let mut rings = Made::new(vec![vec![CPU0.to_vec()], vec![CPU1.to_vec()]], 1 << 60);
    let mut merge = EventMerge::new(parser(), layouts, 2);
    let mut pairing = EventPairing::new(view, None);
    let mut out = vec![];
    for event in drain(&mut merge, &mut rings, true) {
        pairing.take(&event, &mut out);
    }
    (out, pairing)
}

#[test]
fn pages_become_requests() {
    let expected = [
        (Op::Write, 0, 4096),
        (Op::Write, 40_960, 8192),
        (Op::Write, 81_920, 12_288),
        (Op::Flush, 0, 0),
        (Op::Write, 122_880, 4096),
        (Op::Write, 163_840, 8192),
        (Op::Write, 204_800, 12_288),
        (Op::Flush, 0, 0),
        (Op::Read, 4096, 8192),
        (Op::Write, 77 * 512, 512),
        (Op::Discard, 1 << 20, 64 << 10),
        (Op::Write, 2 << 20, 64 << 10),
    ];
    let issued =
        layouts(&[(ISSUE, RequestStep::Begin), (COMPLETE, RequestStep::Complete), (REQUEUE, RequestStep::Requeue)]);
    let queued = layouts(&[(QUEUE, RequestStep::Begin), (COMPLETE, RequestStep::Complete)]);
    for (at, layouts) in [(RecordedMoments::Issue, issued), (RecordedMoments::Queue, queued)] {
        let (all, pairing) = pair(RecordedView { at, flushes: true, ..RecordedView::default() }, layouts);
        let shapes: Vec<_> = all.iter().map(|r| (r.request.op, r.request.offset, r.request.len)).collect();
        assert_eq!(shapes, expected, "{at:?}");
        let c = pairing.counts();
        assert_eq!((c.write_zeroes, c.without_completion, c.without_beginning, pairing.outstanding()), (1, 0, 0, 0));
        // The first write's two moments and its completion, in the text.
        let micros = |n: usize| line(TEXT.lines().nth(n).unwrap()).0;
        let took = micros(2) - micros(usize::from(at == RecordedMoments::Issue));
        assert!(all[0].latency.unwrap().0.abs_diff(took * 1000) <= 1000);
    }
}

/// Everything a page can be made to give, without a panic and in bounded time.
fn read_all(bytes: &[u8]) -> usize {
    let layouts = all_layouts();
    let Ok(page) = parser().page(bytes) else { return 0 };
    let events: Vec<_> = page.events().collect();
    assert!(events.len() <= bytes.len() / 4);
    assert!(events.iter().rev().skip(1).all(Result::is_ok), "only the last can be a fault");
    let (mut pairing, mut out) = (EventPairing::new(RecordedView::default(), None), vec![]);
    for event in events.iter().flatten() {
        if let Some(event) = layouts.decode(event) {
            pairing.take(&event, &mut out);
        }
    }
    pairing.give_up_all(&mut out);
    assert_eq!(out.len() as u64, pairing.counts().total());
    out.len()
}

#[test]
fn every_truncation_is_read_or_refused() {
    for page in [CPU0, CPU1] {
        let whole = read_all(page);
        for bytes in 0..page.len() {
            assert!(read_all(&page[..bytes]) <= whole);
        }
    }
    assert!(parser().page(&CPU0[..15]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
        read_all(&bytes);
        // With a head that fits, so that the events are looked at.
        let mut page = bytes;
        if page.len() >= 16 {
            let count = (page.len() - 16) as u64;
            page[8..16].copy_from_slice(&count.to_le_bytes());
            read_all(&page);
        }
    }

    #[test]
    fn damaged_pages_are_read_or_refused(changes in prop::collection::vec((0..4096_usize, any::<u8>()), 1..40)) {
        let mut page = CPU0.to_vec();
        for (at, value) in changes {
            page[at] = value;
        }
        read_all(&page);
    }

    #[test]
    fn any_description_is_read_or_refused(text in "[ -~\t\n]{0,400}", cut in 0..1200_usize, at in 0..1200_usize) {
        let _ = EventLayout::parse(&text);
        let _ = PageLayout::parse(&text);
        let mut format = ISSUE[..cut.min(ISSUE.len())].to_owned();
        format.insert_str(at.min(format.len()), &text);
        if let Ok(layout) = EventLayout::parse(&format)
            && let Ok(layouts) = EventLayouts::new(&[(layout, RequestStep::Begin)])
        {
            let page = parser().page(CPU0).unwrap();
            for event in page.events().flatten() {
                let _ = layouts.decode(&event);
            }
        }
    }

    /// Events of several CPUs, seen in pieces while they come, leave in order of time and all of
    /// them.
    #[test]
    fn merging_is_sorting(times in prop::collection::vec(prop::collection::vec(1_u64..40_000_000, 0..60), 1..5)) {
        let page = |times: &[u64]| {
            let mut events = vec![];
            let mut last = times[0];
            for &time in times {
                // Time extension and an issue of 48 bytes.
                let delta = time - last;
                last = time;
                events.extend((0x1e_u32 | ((delta & 0x7ff_ffff) as u32) << 5).to_le_bytes());
                events.extend(((delta >> 27) as u32).to_le_bytes());
                events.extend(16_u32.to_le_bytes());
                let mut data = [0_u8; 64];
                data[..2].copy_from_slice(&CPU_ISSUE.to_le_bytes());
                data[34] = b'W';
                events.extend(data);
            }
            [&times[0].to_le_bytes()[..], &(events.len() as u64).to_le_bytes(), &events].concat()
        };
        let mut expected = times.concat();
        expected.sort_unstable();
        let mut rings = Made::new(vec![vec![]; times.len()], 1_000_000_000);
        let mut merge = EventMerge::new(parser(), layouts(&[(ISSUE, RequestStep::Begin)]), times.len());
        let mut seen = vec![];
        // The buffers as they are after every 10 ms: each event is visible within 2 ms of its time.
        for round in 1_u64..=5 {
            let now = round * 10_000_000;
            for (cpu, times) in times.iter().enumerate() {
                let mut times: Vec<u64> =
                    times.iter().copied().filter(|&t| t < now && t >= now - 10_000_000).collect();
                times.sort_unstable();
                for piece in times.chunks(7) {
                    rings.pages[cpu].push_back(page(piece));
                }
            }
            rings.clock.set(now);
            let events = drain(&mut merge, &mut rings, round == 5);
            prop_assert!(round == 5 || events.iter().all(|event| event.time < now));
            seen.extend(events.iter().map(|event| event.time));
        }
        prop_assert_eq!(merge.late, 0);
        prop_assert_eq!(seen, expected);
    }
}

/// The number of `block_rq_issue` in `data/`.
const CPU_ISSUE: u16 = 2104;
