//! Checks the data that the kernel gives a recorder: pages of ring buffers, and descriptions of events.
//!
//! The kernel is trusted, but its layouts change, and a page may be cut or overwritten.

use destage_plan::{Nanos, Op};
use destage_record::{
    CpuRings, EventLayout, EventLayouts, EventMerge, EventPairing, PageEvent, PageLayout, PageParser, RecordError,
    RecordedMoments, RecordedRequest, RecordedView, RequestStep, RingPage,
};

use crate::bytes::Bytes;

/// Events of an input at most.
const MOST: usize = 300;
const CPUS: usize = 2;
const BEGIN: u16 = 2104;
const COMPLETE: u16 = 2107;
const REQUEUE: u16 = 2108;
/// Letters of an event.
const RWBS: [&[u8; 4]; 12] = [
    b"W\0\0\0", b"R\0\0\0", b"WS\0\0", b"FF\0\0", b"FWFS", b"D\0\0\0", b"WFS\0", b"FWS\0", b"N\0\0\0", b"DE\0\0",
    b"ZR\0\0", b"x\0\0\0",
];
const PAGE: PageLayout = PageLayout { time: 0, commit: (8, 8), data: 16, page_bytes: 4096 };

/// Reads the bytes as a page.
pub(crate) fn page(bytes: &[u8]) {
    if let Ok(page) = PageParser::new(PAGE).page(bytes) {
        events(page, bytes.len());
    }
}

/// Events take at least four bytes each, and after a fault there are none.
fn events(page: RingPage<'_>, bytes: usize) {
    let (mut count, mut fault) = (0, false);
    for event in page.events() {
        assert!(!fault, "an event after a fault");
        match event {
            Ok(event) => assert!(event.data.len() < bytes),
            Err(wrong) => {
                assert!(wrong.at < bytes, "{wrong}");
                fault = true;
            }
        }
        count += 1;
    }
    // An event takes the 4 bytes of its head at least, so more events would mean that the reader stands still.
    assert!(count <= bytes / 4 + 1, "{count} events in {bytes} B");
}

/// Reads the bytes as descriptions, and then as what they describe.
pub(crate) fn layouts(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(layout) = PageLayout::parse(text)
        && let Ok(page) = PageParser::new(layout).page(bytes)
    {
        events(page, bytes.len());
    }
    let Ok(layout) = EventLayout::parse(text) else { return };
    if let Ok(field) = layout.field("error", &[]) {
        assert!(field.bytes(bytes).is_none_or(|bytes| bytes.len() == field.size));
        assert_eq!(field.number(bytes).is_some(), field.signed_number(bytes).is_some());
    }
    if let Ok(layouts) = EventLayouts::new(&[(layout.clone(), RequestStep::Complete), (layout, RequestStep::Begin)]) {
        let event = layouts.decode(&PageEvent { time: 1, data: bytes });
        assert!(event.is_none_or(|event| event.time == 1));
    }
}

/// Events of two CPUs, put in order and paired.
pub(crate) fn pairing(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let flags = bytes.u8();
    let view = RecordedView {
        at: if flags & 1 == 0 { RecordedMoments::Issue } else { RecordedMoments::Queue },
        part: (flags & 2 != 0).then_some(8..1000),
        flushes: flags & 4 != 0,
        fua: flags & 8 != 0,
        zoned: flags & 16 != 0,
    };
    let most = (flags & 32 != 0).then_some(5);
    let mut rings = Memory { pages: pages(&mut bytes), now: u64::MAX };
    let mut merge = EventMerge::new(PageParser::new(PAGE), EventLayouts::new(&known()).expect("the kernel's"), CPUS);
    let mut pairing = EventPairing::new(view, most);
    let (mut out, mut end) = (Vec::new(), 0);
    let drained = merge.drain(&mut rings, true, &mut |event| {
        end = end.max(event.time);
        pairing.take(&event, &mut out);
        Ok(())
    });
    pairing.give_up_all(&mut out);
    assert_eq!(pairing.outstanding(), 0);
    // Whatever comes in, requests that are counted are handed over, and no others.
    assert_eq!(out.len() as u64, pairing.counts().total());
    assert!(most.is_none_or(|most| pairing.counts().total() <= most), "{:?}", pairing.counts());
    if let Err(error) = drained {
        assert!(!error.to_string().is_empty());
    }
    // Order is promised only if no event came late.
    let ordered = merge.late == 0;
    let mut latest = Nanos::ZERO;
    for RecordedRequest { request, latency } in out {
        assert!(request.offset.checked_add(request.len).is_some(), "{request:?}");
        assert!(request.op != Op::Flush || (request.offset, request.len) == (0, 0), "{request:?}");
        assert!(!request.fua || request.op == Op::Write, "{request:?}");
        assert!(request.time >= latest || !ordered, "{request:?} after {latest}");
        assert!(
            latency.is_none_or(|latency| latency.0 <= end.saturating_sub(request.time.0)) || !ordered,
            "{latency:?}"
        );
        latest = request.time;
    }
}

/// The recorded kinds of event as a kernel describes them; only what is needed.
fn known() -> [(EventLayout, RequestStep); 3] {
    [
        ("issue", BEGIN, RequestStep::Begin),
        ("complete", COMPLETE, RequestStep::Complete),
        ("requeue", REQUEUE, RequestStep::Requeue),
    ]
    .map(|(name, id, step)| {
        let text = format!(
            "name: block_rq_{name}\nID: {id}\nformat:\n\
                 \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                 \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
                 \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
                 \tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\
                 \tfield:int error;\toffset:28;\tsize:4;\tsigned:1;\n\
                 \tfield:char rwbs[4];\toffset:32;\tsize:4;\tsigned:0;\n"
        );
        (EventLayout::parse(&text).expect("the kernel's"), step)
    })
}

/// Pages of each CPU, made of events most of which are well-formed.
fn pages(bytes: &mut Bytes<'_>) -> [Vec<Vec<u8>>; CPUS] {
    let mut pages = [Vec::new(), Vec::new()];
    let mut time = 0_u64;
    let mut left = MOST;
    while !bytes.is_empty() && left > 0 {
        let head = bytes.u8();
        let mut page = Vec::new();
        page.extend(time.to_le_bytes());
        page.extend([0; 8]);
        for _ in 0..=head >> 3 {
            left = left.saturating_sub(1);
            let form = bytes.u8();
            let delta = u32::from(form >> 6) * 1000;
            time += u64::from(delta);
            // Some events are raw bytes, so heads of any kind are tried.
            if form & 63 == 63 {
                page.extend((0..4).map(|_| bytes.u8()));
                continue;
            }
            let kind = [BEGIN, COMPLETE, BEGIN, COMPLETE, REQUEUE, 7][usize::from(form) % 6];
            // Most places are few and near each other, so completions find what they complete.
            let place = bytes.u8();
            let (sector, sectors) = if place < 224 {
                (u64::from(place & 31) * 8, u32::from(place >> 5) * 8)
            } else {
                (bytes.any(), bytes.any() as u32)
            };
            let rwbs = RWBS[usize::from(form & 63) / 6 % RWBS.len()];
            page.extend((9 | delta << 5).to_le_bytes());
            page.extend(kind.to_le_bytes());
            page.extend([0; 14]);
            page.extend(sector.to_le_bytes());
            page.extend(sectors.to_le_bytes());
            page.extend([place & 1, 0, 0, 0]);
            page.extend(rwbs);
        }
        let commit = (page.len() as u64 - 16) | if head & 2 != 0 { 1 << 31 } else { 0 };
        page[8..16].copy_from_slice(&commit.to_le_bytes());
        pages[usize::from(head & 1)].push(page);
    }
    for pages in &mut pages {
        // A ring is read from the end of its list.
        pages.reverse();
    }
    pages
}

/// Ring buffers in memory: the pages of each CPU, the first one last.
struct Memory {
    pages: [Vec<Vec<u8>>; CPUS],
    now: u64,
}

impl CpuRings for Memory {
    fn cpus(&self) -> usize {
        CPUS
    }

    fn read(&mut self, cpu: usize, page: &mut Vec<u8>) -> Result<bool, RecordError> {
        let next = self.pages[cpu].pop();
        let found = next.is_some();
        *page = next.unwrap_or_default();
        Ok(found)
    }

    fn now(&self) -> u64 {
        self.now
    }
}
