//! Mixes of synthetic streams, and the footprints that stand-ins for applications need.

use std::collections::{BTreeMap, BTreeSet};

use destage_trace::{
    MAX_PARTS, MixPart, MixSpec, MixTrace, Nanos, Op, PercentShare, Request, SizeMix, SynthLength, SynthSpec,
    SynthTrace, SynthVolumes, TraceSource,
};

use crate::generated::{all, assert_share, crc};

const GIB: u64 = 1 << 30;
const ENDLESS: SynthLength = SynthLength::Requests(u64::MAX);

/// A part in which everything is plain; tests change one thing.
fn plain() -> MixPart {
    MixPart {
        spec: SynthSpec {
            length: ENDLESS,
            sizes: SizeMix::fixed(4096),
            read_share: PercentShare::NONE,
            discard_share: PercentShare::NONE,
            arrivals: "poisson:1ms".parse().unwrap(),
            sequential_share: PercentShare::NONE,
            footprint: "uniform".parse().unwrap(),
            align: 4096,
            space: GIB,
            volumes: SynthVolumes::ONE,
            flush_every: None,
            seed: 0,
        },
        start: Nanos::ZERO,
        base: 0,
        volume: 0,
        stripe: None,
    }
}

fn part(change: impl Fn(&mut MixPart)) -> MixPart {
    let mut part = plain();
    change(&mut part);
    part
}

fn generate(length: &str, parts: Vec<MixPart>) -> Vec<Request> {
    all(&mut MixTrace::new(MixSpec { length: length.parse().unwrap(), seed: 7, parts }).unwrap())
}

fn footprint(text: &str, space: u64, requests: &str) -> Vec<Request> {
    let spec = |part: &mut MixPart| (part.spec.footprint, part.spec.space) = (text.parse().unwrap(), space);
    generate(requests, vec![part(spec)])
}

#[test]
fn a_mix_of_one_part_is_that_stream() {
    let spec = SynthSpec {
        length: SynthLength::Requests(50_000),
        footprint: "zipf:1,scattered".parse().unwrap(),
        read_share: "30".parse().unwrap(),
        flush_every: std::num::NonZeroU64::new(10),
        seed: 7,
        ..plain().spec
    };
    let alone = all(&mut SynthTrace::new(spec.clone()).unwrap());
    assert_eq!(generate("50000", vec![part(|p| p.spec = SynthSpec { length: ENDLESS, ..spec.clone() })]), alone);
    let closed = part(|p| p.spec = SynthSpec { arrivals: "closed".parse().unwrap(), ..spec.clone() });
    assert_eq!(generate("50000", vec![closed]).len(), 50_000);
}

#[test]
fn parts_are_merged_by_time_and_do_not_change_each_other() {
    let a = part(|p| p.spec.sizes = SizeMix::fixed(512));
    let b = part(|p| (p.base, p.volume, p.spec.arrivals) = (GIB, 3, "poisson:3ms".parse().unwrap()));
    let both = generate("40000", vec![a.clone(), b.clone()]);
    assert_eq!(both.len(), 40_000);
    assert!(both.is_sorted_by_key(|r| r.time));
    let of_a: Vec<Request> = both.iter().copied().filter(|r| r.len == 512).collect();
    // Superposed Poisson processes: shares are those of the rates.
    assert_share(of_a.len(), 40_000, 0.75);
    assert_eq!(of_a, generate("40000", vec![a.clone()])[..of_a.len()]);
    for r in both.iter().filter(|r| r.len == 4096) {
        assert!(r.volume == 3 && (GIB..2 * GIB).contains(&r.offset));
    }
    let other_b = part(|p| p.spec.sizes = SizeMix::fixed(8192));
    let other = generate("40000", vec![a, other_b]);
    assert!(other.iter().filter(|r| r.len == 512).zip(&of_a).all(|(x, y)| x == y));
    // Equal parts draw differently, apart from the first arrival.
    let twins = generate("40000", vec![b.clone(), b]);
    assert_eq!(twins.iter().map(|r| (r.time, r.offset)).collect::<BTreeSet<_>>().len(), 40_000);
}

#[test]
fn ties_go_to_the_lower_number() {
    let numbered = |volume| part(move |p| (p.volume, p.spec.arrivals) = (volume, "constant:1ms".parse().unwrap()));
    let volumes: Vec<u32> = generate("3ms", [5, 2, 9].map(numbered).to_vec()).iter().map(|r| r.volume).collect();
    assert_eq!(volumes, [5, 2, 9, 5, 2, 9, 5, 2, 9]);
}

#[test]
fn parts_begin_and_end_by_themselves() {
    let constant = |p: &mut MixPart| p.spec.arrivals = "constant:1ms".parse().unwrap();
    let first = part(|p| (constant(p), p.spec.length = SynthLength::Requests(3)).0);
    let second = part(|p| (constant(p), (p.start, p.volume) = (Nanos(1_500_000), 1)).0);
    let got: Vec<_> =
        generate("5ms", vec![first.clone(), second]).iter().map(|r| (r.time.0 / 1000, r.volume)).collect();
    assert_eq!(got, [(0, 0), (1000, 0), (1500, 1), (2000, 0), (2500, 1), (3500, 1), (4500, 1)]);
    // All parts at their end: so is the mix.
    assert_eq!(generate("1000", vec![first]).len(), 3);
}

#[test]
fn parts_with_the_same_slots_share_their_frequent_addresses() {
    let top = |requests: &[Request], op| {
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for r in requests.iter().filter(|r| r.op == op) {
            *counts.entry(r.offset / 131_072).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().map(|(place, n)| (n, place)).collect();
        counts.sort_unstable();
        counts.iter().rev().take(3).map(|&(_, place)| place).collect::<Vec<_>>()
    };
    for text in ["zipf:1.2,scattered", "clusters:1.2,128KiB,0.5"] {
        let writes = part(|p| p.spec.footprint = text.parse().unwrap());
        let reads = part(|p| (p.spec.footprint, p.spec.read_share) = (text.parse().unwrap(), PercentShare::ALL));
        let requests = generate("100000", vec![writes, reads]);
        assert_eq!(top(&requests, Op::Write), top(&requests, Op::Read), "{text}");
    }
}

#[test]
fn a_stripe_uses_the_windows_only() {
    let striped = part(|p| p.stripe = Some("128KiB/1MiB".parse().unwrap()));
    let requests = generate("50000", vec![striped]);
    let mut windows = BTreeSet::new();
    for r in &requests {
        assert!(r.offset % (1 << 20) + r.len <= 128 << 10 && r.offset + r.len <= GIB);
        windows.insert(r.offset >> 20);
    }
    assert_eq!(windows.len(), 1024, "every period is used");
    // Sizes that do not divide the window stay inside it too.
    let odd =
        part(|p| (p.spec.sizes, p.spec.align, p.stripe) = (SizeMix::fixed(5000), 512, "12KiB/64KiB".parse().ok()));
    assert!(generate("50000", vec![odd]).iter().all(|r| r.offset % (64 << 10) + r.len <= 12 << 10));
}

#[test]
fn clusters_have_exact_probabilities() {
    let (n, clusters) = (200_000, 1024);
    let requests = footprint("clusters:1,1MiB,1", GIB, "200000");
    let harmonic = |n: u64| (1..=n).map(|k| 1.0 / k as f64).sum::<f64>();
    let mut by_cluster = vec![0; clusters];
    let mut by_slot = [0; 256];
    for r in &requests {
        by_cluster[(r.offset >> 20) as usize] += 1;
        by_slot[(r.offset % (1 << 20) / 4096) as usize] += 1;
    }
    by_cluster.sort_unstable_by(|a, b| b.cmp(a));
    for (rank, &count) in by_cluster.iter().take(5).enumerate() {
        assert_share(count, n, 1.0 / (rank + 1) as f64 / harmonic(1024));
    }
    for (slot, &count) in by_slot.iter().enumerate() {
        assert_share(count, n, 1.0 / (slot + 1) as f64 / harmonic(256));
    }
    // Alike inside; what is left at the end stays unused.
    let requests = footprint("clusters:1,1MiB", GIB + 4096, "200000");
    let mut by_slot = [0; 256];
    for r in &requests {
        by_slot[(r.offset % (1 << 20) / 4096) as usize] += 1;
    }
    for count in by_slot {
        assert_share(count, n, 1.0 / 256.0);
    }
    assert!(requests.iter().all(|r| r.offset < GIB));
}

#[test]
fn a_window_drifts() {
    let requests = footprint("drift:64KiB,10", 1 << 20, "10000");
    for (i, r) in requests.iter().enumerate() {
        let first = i as u64 / 10 % 256;
        assert!((r.offset / 4096 + 256 - first) % 256 < 16, "request {i} at {}", r.offset);
    }
}

#[test]
fn streams_append_to_their_extents() {
    let spec = |p: &mut MixPart| {
        p.spec.footprint = "append:3,96KiB".parse().unwrap();
        p.spec.sizes = "4KiB:1,20KiB:1".parse().unwrap();
        p.spec.space = 100 * (96 << 10);
    };
    let requests = generate("2000", vec![part(spec)]);
    // Requests of an extent follow each other without a gap, and at most three extents grow at a
    // time.
    let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
    let mut opened = 0;
    for r in requests.iter().take_while(|r| r.offset + r.len < 99 * (96 << 10)) {
        let extent = r.offset / (96 << 10);
        assert!(r.offset + r.len <= (extent + 1) * (96 << 10));
        if extent == opened {
            opened += 1;
        }
        let end = ends.insert(extent, r.offset + r.len).unwrap_or(extent * (96 << 10));
        assert_eq!(end, r.offset);
    }
    assert!(opened > 90, "{opened}");
    assert!(requests.iter().all(|r| r.offset + r.len <= 100 * (96 << 10)));
    // One stream whose extents are full is a sequential pass over the space, again and again.
    let one = footprint("append:1,64KiB", 1 << 20, "1000");
    assert!(one.iter().enumerate().all(|(i, r)| r.offset == i as u64 % 256 * 4096));
}

#[test]
fn tables_fill_piece_by_piece() {
    let text = "filling:8,128KiB,8KiB,100ms";
    let requests = footprint(text, GIB, "200000");
    // Eight pieces at a time, one of them new every 100 ms, each used for 800 ms.
    let mut lives: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut at_a_time: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for r in &requests {
        let (piece, turn) = (r.offset / 8192, r.time.0 / 100_000_000);
        at_a_time.entry(turn).or_default().insert(piece);
        let life = lives.entry(piece).or_insert((turn, turn));
        life.1 = turn;
    }
    assert!(at_a_time.values().all(|pieces| pieces.len() <= 8));
    let spans: Vec<u64> = lives.values().map(|(first, last)| last - first).collect();
    // A piece whose extent comes again lives twice.
    let once = spans.iter().filter(|&&span| span < 8).count();
    assert!(once * 10 > spans.len() * 9, "{once} of {}", spans.len());
    // About 200 s, so 2000 pieces and 125 extents of 16 pieces.
    let extents: BTreeSet<u64> = requests.iter().map(|r| r.offset / 131_072).collect();
    assert!((1800..2030).contains(&lives.len()) && (110..=140).contains(&extents.len()), "{}", extents.len());
    // Reads are where the writes are.
    let reads = part(|p| (p.spec.footprint, p.spec.read_share) = (text.parse().unwrap(), PercentShare::ALL));
    let writes = part(|p| p.spec.footprint = text.parse().unwrap());
    for r in generate("100000", vec![writes, reads]) {
        let turn = r.time.0 / 100_000_000;
        let mut near = at_a_time.range(turn.saturating_sub(7)..turn + 8);
        assert!(near.any(|(_, pieces)| pieces.contains(&(r.offset / 8192))), "{r:?}");
    }
}

#[test]
fn tables_fill_at_paces_of_their_own() {
    // The k-th of four streams goes on every k seconds and gets 1/k of the writes: 12 parts of 25,
    // then 6, 4 and 3.
    let requests = footprint("filling:4,128KiB,8KiB,1s,1", GIB, "400000");
    let seconds = requests.last().unwrap().time.0 / 1_000_000_000;
    let mut lives: BTreeMap<u64, (u64, u64, u64)> = BTreeMap::new();
    for r in &requests {
        let life = lives.entry(r.offset / 8192).or_insert((r.time.0, r.time.0, 0));
        (life.1, life.2) = (r.time.0, life.2 + 1);
    }
    // As many moves as there are pieces, but for the few extents that come again.
    let moves = seconds + seconds / 2 + seconds / 3 + seconds / 4;
    assert!((moves * 97 / 100..=moves + 8).contains(&(lives.len() as u64)), "{} pieces, {moves} moves", lives.len());
    // All pieces get as many requests, about 1000 in a second for 12/25 of them; slow ones take
    // longer over it.
    let whole: Vec<_> = lives.values().filter(|life| (400..560).contains(&life.2)).collect();
    assert!(whole.len() * 100 > lives.len() * 95, "{} of {}", whole.len(), lives.len());
    for k in 1..=4_u64 {
        let slow = whole.iter().filter(|life| (life.1 - life.0).div_ceil(1_000_000_000) == k).count() as u64;
        let part = moves * 12 / k / 25;
        assert!(slow.abs_diff(part) * 20 < part + 40, "{slow} pieces of {k} s, {part} expected");
    }
}

#[test]
fn golden_mixes_are_the_same_on_every_machine() {
    let other = part(|p| (p.base, p.spec.arrivals) = (GIB, "poisson:2ms".parse().unwrap()));
    let mix = |text: &str| {
        let change = |p: &mut MixPart| {
            (p.spec.footprint, p.spec.sizes) = (text.parse().unwrap(), "4KiB:3,16KiB:1".parse().unwrap());
        };
        crc(&generate("50000", vec![part(change), other.clone()]))
    };
    let texts = [
        "uniform",
        "clusters:0.9,128KiB,0.5",
        "drift:64KiB,8",
        "append:4,1MiB",
        "filling:8,128KiB,8KiB,20ms",
        "filling:8,128KiB,8KiB,20ms,1.2",
    ];
    let got = texts.map(|text| format!("{text} {:08x}", mix(text)));
    assert_eq!(got, GOLDEN);
}

const GOLDEN: [&str; 6] = [
    "uniform ff941c13",
    "clusters:0.9,128KiB,0.5 723f38d6",
    "drift:64KiB,8 1db9a87b",
    "append:4,1MiB e1fba881",
    "filling:8,128KiB,8KiB,20ms 13e3a84d",
    "filling:8,128KiB,8KiB,20ms,1.2 87baafd5",
];

#[test]
fn impossible_mixes_name_part_and_key() {
    type Change = dyn Fn(&mut MixPart);
    let cases: [(&Change, &str); 17] = [
        (&|p| p.start = Nanos(u64::MAX), "part 1: start = "),
        (&|p| p.base = u64::MAX, "part 1: base = "),
        (&|p| p.volume = 65_536, "part 1: volume = "),
        (&|p| p.volume = u32::MAX, "part 1: volume = "),
        (&|p| p.spec.arrivals = "closed".parse().unwrap(), "part 1: arrivals = closed"),
        (&|p| p.spec.align = 0, "part 1: align = "),
        (&|p| p.stripe = "2KiB/1MiB".parse().ok(), "part 1: stripe = "),
        (&|p| p.stripe = "0/0".parse().ok(), "part 1: stripe = "),
        (&|p| p.stripe = "2MiB/1MiB".parse().ok(), "part 1: stripe = "),
        (&|p| p.stripe = "4KiB/2GiB".parse().ok(), "part 1: stripe = "),
        (&|p| p.spec.footprint = "clusters:1,4095".parse().unwrap(), "multiple of align (4096 B)"),
        (&|p| p.spec.footprint = "drift:0,1".parse().unwrap(), "multiple of align (4096 B)"),
        (&|p| p.spec.footprint = "drift:2GiB,1".parse().unwrap(), "at most space (1073741824 B)"),
        (&|p| p.spec.footprint = "filling:1,12KiB,8KiB,1ms".parse().unwrap(), "the extent one of the piece"),
        (&|p| p.spec.footprint = "filling:1,2GiB,8KiB,1ms".parse().unwrap(), "at most space (1073741824 B)"),
        (&|p| p.spec.footprint = "append:1,512".parse().unwrap(), "between 4096 B (the largest size)"),
        (
            &|p| (p.spec.footprint, p.spec.sequential_share) = ("append:1,1MiB".parse().unwrap(), "5".parse().unwrap()),
            "part 1: sequential_share = 5: 0 with footprint = append",
        ),
    ];
    for (change, says) in cases {
        let spec = MixSpec { length: SynthLength::Requests(10), seed: 1, parts: vec![plain(), part(change)] };
        let error = MixTrace::new(spec).err().expect(says).to_string();
        assert!(error.contains(says), "{error} should say {says}");
    }
    for (length, count, says) in [
        (SynthLength::Requests(0), 1, "length = 0"),
        (SynthLength::Duration(Nanos(0)), 1, "length = 0 ns"),
        (ENDLESS, 0, "part = 0: between 1 and 64 parts"),
        (ENDLESS, MAX_PARTS + 1, "part = 65: between 1 and 64 parts"),
    ] {
        let error =
            MixTrace::new(MixSpec { length, seed: 1, parts: vec![plain(); count] }).err().expect(says).to_string();
        assert!(error.contains(says), "{error} should say {says}");
    }
}

#[test]
fn the_volumes_of_all_parts_are_limited() {
    let many = part(|p| p.spec.volumes = "40000".parse().unwrap());
    let spec = MixSpec { length: SynthLength::Requests(10), seed: 1, parts: vec![many; 2] };
    let error = MixTrace::new(spec).err().unwrap().to_string();
    assert_eq!(error, "volumes = 80000: at most 65536 in all parts together");
}

#[test]
fn time_that_does_not_fit_is_an_error() {
    let late = part(|p| (p.start, p.spec.arrivals) = (Nanos(1 << 62), "constant:24h".parse().unwrap()));
    let mut mix = MixTrace::new(MixSpec { length: ENDLESS, seed: 1, parts: vec![late] }).unwrap();
    let mut batch = vec![];
    let error = loop {
        if let Err(error) = mix.next_batch(&mut batch) {
            break error;
        }
        assert!(!batch.is_empty());
    };
    assert!(error.to_string().contains("exceeds 2^64 ns"), "{error}");
    mix.next_batch(&mut batch).unwrap();
    assert!(batch.is_empty(), "nothing follows an error");
}
