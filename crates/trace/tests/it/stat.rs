//! Statistics against a naive model, and the definitions one by one.

use std::collections::{BTreeMap, BTreeSet};

use destage_plan::PageGeometry;
use destage_trace::{Nanos, Op, Request, TraceStat, TraceSummary, VolumeStat, VolumeTraffic};
use proptest::prelude::*;

fn stat(page_bytes: u64, requests: &[Request]) -> TraceSummary {
    let mut stat = TraceStat::new(PageGeometry::new(page_bytes, 64).unwrap());
    let (a, b) = requests.split_at(requests.len() / 3);
    stat.feed(a);
    stat.feed(b);
    stat.finish()
}

fn request(time: u64, op: Op, offset: u64, len: u64) -> Request {
    Request { time: Nanos(time), offset, len, volume: 0, op, fua: false }
}

/// The same numbers, the slow way.
fn model(page: u64, requests: &[Request]) -> TraceSummary {
    let of = |op: Op| requests.iter().filter(move |r| r.op == op);
    let placed = || requests.iter().filter(|r| r.op != Op::Flush);
    let touched = |r: &Request| {
        let pages = if r.len == 0 { 0..0 } else { r.offset / page..(r.offset + r.len - 1) / page + 1 };
        pages.map(|p| (r.volume, p)).collect::<Vec<_>>()
    };
    let touches = |op| of(op).flat_map(touched).count() as u64;
    let set = |op| of(op).flat_map(touched).collect::<BTreeSet<_>>();
    let (read, written) = (set(Op::Read), set(Op::Write));
    let mut ends = BTreeMap::new();
    let sequential = placed().filter(|r| ends.insert(r.volume, r.offset + r.len) == Some(r.offset)).count();
    let kib = 1024;
    let sizes = [0..=4 * kib, 4 * kib + 1..=16 * kib, 16 * kib + 1..=64 * kib, 64 * kib + 1..=u64::MAX];
    let times = || requests.iter().map(|r| r.time);
    let latest_before = |n: usize| requests[..n].iter().map(|r| r.time).max().unwrap_or_default();
    let late: Vec<Nanos> =
        (0..requests.len()).map(|n| latest_before(n).since(requests[n].time.min(latest_before(n)))).collect();
    TraceSummary {
        page_bytes: page,
        requests: requests.len() as u64,
        reads: of(Op::Read).count() as u64,
        writes: of(Op::Write).count() as u64,
        flushes: of(Op::Flush).count() as u64,
        discards: of(Op::Discard).count() as u64,
        fua: requests.iter().filter(|r| r.fua).count() as u64,
        zero_length: placed().filter(|r| r.len == 0).count() as u64,
        sector_misaligned: placed().filter(|r| r.offset % 512 != 0 || r.len % 512 != 0).count() as u64,
        page_misaligned: placed().filter(|r| r.offset % page != 0 || r.len % page != 0).count() as u64,
        read_bytes: of(Op::Read).map(|r| r.len).sum(),
        write_bytes: of(Op::Write).map(|r| r.len).sum(),
        discard_bytes: of(Op::Discard).map(|r| r.len).sum(),
        read_page_touches: touches(Op::Read),
        write_page_touches: touches(Op::Write),
        unique_pages: read.union(&written).count() as u64,
        unique_pages_read: read.len() as u64,
        unique_pages_written: written.len() as u64,
        write_sizes: sizes.map(|size| of(Op::Write).filter(|r| size.contains(&r.len)).count() as u64),
        duration: times().max().unwrap_or_default() - times().min().unwrap_or_default(),
        time_reversals: late.iter().filter(|by| **by > Nanos::ZERO).count() as u64,
        longest_reversal: late.iter().copied().max().unwrap_or_default(),
        volumes: requests.iter().map(|r| r.volume).collect::<BTreeSet<_>>().len() as u64,
        max_address: placed().map(|r| r.offset + r.len).max().unwrap_or(0),
        sequential: sequential as u64,
    }
}

fn volumes(requests: &[Request]) -> Vec<VolumeTraffic> {
    let mut stat = VolumeStat::default();
    let (a, b) = requests.split_at(requests.len() / 2);
    stat.feed(a);
    stat.feed(b);
    stat.finish()
}

fn volumes_of_model(requests: &[Request]) -> Vec<VolumeTraffic> {
    let numbers: BTreeSet<_> = requests.iter().map(|r| r.volume).collect();
    let one = |&volume: &u32| {
        let of = |op: Op| requests.iter().filter(move |r| r.volume == volume && r.op == op);
        let bytes = |op| of(op).map(|r| r.len).sum();
        VolumeTraffic {
            volume,
            requests: requests.iter().filter(|r| r.volume == volume).count() as u64,
            reads: of(Op::Read).count() as u64,
            writes: of(Op::Write).count() as u64,
            read_bytes: bytes(Op::Read),
            write_bytes: bytes(Op::Write),
        }
    };
    let mut all: Vec<_> = numbers.iter().map(one).collect();
    // Stable: equals stay in order of their numbers.
    all.sort_by_key(|of| u64::MAX - of.read_bytes - of.write_bytes);
    all
}

fn any_request() -> impl Strategy<Value = Request> {
    let offset = prop_oneof![0..40_000_u64, (0..64_u64).prop_map(|n| n * 4096), Just(1 << 40)];
    let len = prop_oneof![0..300_u64, (0..40_u64).prop_map(|n| n * 4096), 0..300_000_u64, Just(300 << 20)];
    (0..1000_u64, offset, len, 0..3_u32, 0..4_usize, any::<bool>()).prop_map(|(time, offset, len, volume, op, fua)| {
        Request { time: Nanos(time), offset, len, volume: volume * 1_000_000_000, op: Op::ALL[op], fua }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn statistics_are_those_of_the_model(
        requests in prop::collection::vec(any_request(), 0..40),
        page in prop_oneof![Just(512_u64), Just(4096), Just(1 << 20)],
    ) {
        // Long requests in small pages are too many for the model.
        let few = requests.iter().map(|r| r.len / page).sum::<u64>() < 1_000_000;
        let requests = if few { &requests[..] } else { &requests[..1] };
        prop_assert_eq!(stat(page, requests), model(page, requests));
        prop_assert_eq!(volumes(requests), volumes_of_model(requests));
    }
}

#[test]
fn an_empty_trace_has_zeros() {
    let empty = stat(4096, &[]);
    assert_eq!(empty, TraceSummary { page_bytes: 4096, ..TraceSummary::default() });
    for share in
        [empty.read_percent(), empty.mean_read_kib(), empty.mean_inter_arrival_ns(), empty.sequential_percent()]
    {
        assert!(share.abs() < 1e-12);
    }
    assert!(!empty.to_string().contains("NaN"));
}

#[test]
fn derived_numbers_follow_from_the_counts() {
    let s = stat(
        4096,
        &[
            request(5_000, Op::Write, 0, 4096),
            request(1_000, Op::Write, 4096, 8192),
            request(9_000, Op::Read, 12_288, 2048),
            request(9_000, Op::Flush, 0, 0),
            request(9_000, Op::Read, 14_336, 1024),
        ],
    );
    assert_eq!((s.duration, s.time_reversals, s.sequential), (Nanos(8_000), 1, 3), "a flush does not end a run");
    assert_eq!(s.data_requests(), 4);
    assert!((s.read_percent() - 50.0).abs() < 1e-12);
    assert!((s.mean_read_kib() - 1.5).abs() < 1e-12);
    assert!((s.mean_write_kib() - 6.0).abs() < 1e-12);
    assert!((s.mean_inter_arrival_ns() - 2_000.0).abs() < 1e-12);
    assert!((s.sequential_percent() - 75.0).abs() < 1e-12);
    let expected = [50.0, 50.0, 0.0, 0.0];
    assert!(s.write_size_percent().iter().zip(expected).all(|(share, expected)| (share - expected).abs() < 1e-12));
    assert_eq!((s.unique_pages, s.footprint_bytes(), s.max_address), (4, 16_384, 15_360));
    assert_eq!((s.read_page_touches, s.unique_pages_read), (2, 1));
    let text = s.to_string();
    assert!(text.contains("reads                 2 (50.00 % of reads and writes)"), "{text}");
    assert!(text.contains("unique pages          4: 1 read, 3 written"), "{text}");
}

#[test]
fn the_first_request_of_a_volume_continues_nothing() {
    let other = Request { volume: 9, ..request(0, Op::Write, 4096, 4096) };
    let s = stat(4096, &[request(0, Op::Write, 0, 4096), other, request(0, Op::Read, 4096, 512)]);
    assert_eq!((s.sequential, s.volumes), (1, 2));
    let s = stat(4096, &[request(0, Op::Flush, 0, 0), request(0, Op::Write, u64::MAX, 0)]);
    assert_eq!(s.sequential, 0);
}

#[test]
fn requests_that_no_device_can_hold_are_counted_in_little_memory() {
    let all = [
        request(u64::MAX, Op::Write, 0, u64::MAX),
        request(0, Op::Read, u64::MAX, u64::MAX),
        request(3, Op::Write, 1 << 63, u64::MAX),
        request(4, Op::Discard, 7, u64::MAX),
        Request { volume: u32::MAX, ..request(4, Op::Read, 7, 1 << 50) },
    ];
    let s = stat(512, &all);
    let whole = 1 << 55;
    assert_eq!(s.write_bytes, u64::MAX);
    assert_eq!(s.write_page_touches, whole + whole / 2);
    assert_eq!((s.unique_pages_written, s.unique_pages_read), (whole, 1 + (1 << 41) + 1));
    assert_eq!(s.unique_pages, whole + (1 << 41) + 1);
    assert_eq!((s.max_address, s.footprint_bytes()), (u64::MAX, u64::MAX));
    assert_eq!(s.duration, Nanos(u64::MAX));
}
