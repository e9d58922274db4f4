//! Synthetic traces: the same everywhere, distributed as asked for, and refused where they cannot
//! be.
//!
//! Distributions are checked with fixed seeds against bounds of 4.5 standard deviations of the
//! exact distribution.

use std::collections::HashMap;

use destage_trace::{
    AccessFootprint, ArrivalProcess, BATCH_REQUESTS, Nanos, Op, PercentShare, Request, SizeMix, SynthLength, SynthSpec,
    SynthTrace, SynthVolumes, TraceSource,
};

use crate::generated::{all, assert_share, crc};

const GIB: u64 = 1 << 30;

/// A specification in which every part is plain; tests change one.
fn plain() -> SynthSpec {
    SynthSpec {
        length: SynthLength::Requests(100_000),
        sizes: SizeMix::fixed(4096),
        read_share: "30".parse().unwrap(),
        discard_share: PercentShare::NONE,
        arrivals: ArrivalProcess::Closed,
        sequential_share: PercentShare::NONE,
        footprint: AccessFootprint::Uniform,
        align: 4096,
        space: GIB,
        volumes: SynthVolumes::ONE,
        flush_every: None,
        seed: 7,
    }
}

fn generate(spec: &SynthSpec) -> Vec<Request> {
    all(&mut SynthTrace::new(spec.clone()).unwrap())
}

#[track_caller]
fn assert_mean(mean: f64, expected: f64, sigma: f64, n: usize) {
    let bound = 4.5 * sigma / (n as f64).sqrt();
    assert!((mean - expected).abs() <= bound, "mean {mean}, expected {expected} +- {bound}");
}

#[test]
fn golden_traces_are_the_same_on_every_machine() {
    let spec = |change: &dyn Fn(&mut SynthSpec)| {
        let mut spec = plain();
        change(&mut spec);
        crc(&generate(&spec))
    };
    let zipf = |text: &'static str| spec(&move |s: &mut SynthSpec| s.footprint = text.parse().unwrap());
    let arrivals = |text: &'static str| spec(&move |s: &mut SynthSpec| s.arrivals = text.parse().unwrap());
    let got = [
        ("uniform", spec(&|_| {})),
        ("seed 8", spec(&|s| s.seed = 8)),
        ("zipf 0", zipf("zipf:0")),
        ("zipf 0.8", zipf("zipf:0.8")),
        ("zipf 1", zipf("zipf:1")),
        ("zipf 1.3 scattered", zipf("zipf:1.3,scattered")),
        ("hot-cold", zipf("hot-cold:20,80")),
        ("constant", arrivals("constant:100us")),
        ("poisson", arrivals("poisson:100us")),
        ("on-off", arrivals("on-off:10us,5ms,20ms")),
        ("size mix", spec(&|s| s.sizes = "4KiB:70,8KiB:20,64KiB:10,1000:3".parse().unwrap())),
        ("sequential", spec(&|s| s.sequential_share = "60".parse().unwrap())),
        ("volumes", spec(&|s| s.volumes = "5:50".parse().unwrap())),
        (
            "flushes and discards",
            spec(&|s| {
                s.flush_every = std::num::NonZeroU64::new(32);
                s.discard_share = "5".parse().unwrap();
            }),
        ),
    ];
    let golden = GOLDEN.map(|(name, crc)| (name, format!("{crc:08x}")));
    assert_eq!(got.map(|(name, crc)| (name, format!("{crc:08x}"))), golden);
}

const GOLDEN: [(&str, u32); 14] = [
    ("uniform", 0xb9c2_5391),
    ("seed 8", 0x5da7_a42f),
    ("zipf 0", 0x837b_1cbf),
    ("zipf 0.8", 0xd6ea_f12c),
    ("zipf 1", 0x5ccd_8c08),
    ("zipf 1.3 scattered", 0xc67a_2fde),
    ("hot-cold", 0x0590_3f4e),
    ("constant", 0x93a5_d9aa),
    ("poisson", 0xe509_7b0a),
    ("on-off", 0xd7e1_0320),
    ("size mix", 0xc27c_16e5),
    ("sequential", 0x748d_0420),
    ("volumes", 0x9828_a7bd),
    ("flushes and discards", 0xd5e8_3350),
];

#[test]
fn one_property_does_not_change_the_others() {
    let base = SynthSpec {
        arrivals: "poisson:10us".parse().unwrap(),
        sizes: "4KiB:1,8KiB:1".parse().unwrap(),
        volumes: "3".parse().unwrap(),
        ..plain()
    };
    let a = generate(&base);
    let b = generate(&SynthSpec { read_share: "77.7".parse().unwrap(), ..base.clone() });
    for (a, b) in a.iter().zip(&b) {
        assert_eq!((a.time, a.offset, a.len, a.volume), (b.time, b.offset, b.len, b.volume));
        assert!(a.op != Op::Read || b.op == Op::Read, "a larger share holds the smaller");
    }
    let c =
        generate(&SynthSpec { arrivals: ArrivalProcess::Closed, discard_share: "10".parse().unwrap(), ..base.clone() });
    assert!(a.iter().zip(&c).all(|(a, c)| (a.offset, a.len, a.volume) == (c.offset, c.len, c.volume)));
    let d = generate(&SynthSpec { footprint: "zipf:1".parse().unwrap(), ..base });
    assert!(a.iter().zip(&d).all(|(a, d)| (a.time, a.op, a.len, a.volume) == (d.time, d.op, d.len, d.volume)));
}

#[test]
fn kinds_sizes_and_volumes_have_their_shares() {
    let spec = SynthSpec {
        read_share: "20.5".parse().unwrap(),
        discard_share: "3.25".parse().unwrap(),
        sizes: "4KiB:70,8KiB:20,64KiB:10".parse().unwrap(),
        volumes: "4:50".parse().unwrap(),
        ..plain()
    };
    let all = generate(&spec);
    let n = all.len();
    let count = |f: &dyn Fn(&Request) -> bool| all.iter().filter(|r| f(r)).count();
    assert_eq!(n, 100_000);
    assert_share(count(&|r| r.op == Op::Read), n, 0.205);
    assert_share(count(&|r| r.op == Op::Discard), n, 0.0325);
    for (size, share) in [(4096, 0.7), (8192, 0.2), (65_536, 0.1)] {
        assert_share(count(&|r| r.len == size), n, share);
    }
    assert_share(count(&|r| r.volume == 0), n, 0.5);
    for volume in 1..4 {
        assert_share(count(&|r| r.volume == volume), n, 0.5 / 3.0);
    }
    let even = generate(&SynthSpec { volumes: "4".parse().unwrap(), ..spec.clone() });
    for volume in 0..4 {
        assert_share(even.iter().filter(|r| r.volume == volume).count(), n, 0.25);
    }
    for (share, reads) in [(PercentShare::NONE, 0), (PercentShare::ALL, n)] {
        let all = generate(&SynthSpec { read_share: share, discard_share: PercentShare::NONE, ..spec.clone() });
        assert_eq!(all.iter().filter(|r| r.op == Op::Read).count(), reads);
    }
}

#[test]
fn arrivals_have_their_intervals() {
    let times = |text: &str| -> Vec<u64> {
        let all = generate(&SynthSpec { arrivals: text.parse().unwrap(), ..plain() });
        assert_eq!(all[0].time, Nanos::ZERO);
        all.windows(2).map(|w| w[1].time.0 - w[0].time.0).collect()
    };
    assert!(times("closed").iter().all(|&t| t == 0));
    assert!(times("constant:100us").iter().all(|&t| t == 100_000));

    let poisson = times("poisson:100us");
    let n = poisson.len();
    let mean = poisson.iter().sum::<u64>() as f64 / n as f64;
    assert_mean(mean, 100_000.0, 100_000.0, n);
    // Quantiles of the exponential distribution: shares e^-1, e^-2 and e^-3 exceed 1, 2 and 3
    // means.
    for (multiple, share) in [(1, 0.367_879), (2, 0.135_335), (3, 0.049_787)] {
        assert_share(poisson.iter().filter(|&&t| t > multiple * 100_000).count(), n, share);
    }

    // On half a millisecond in five: a tenth of the time at 10 us. Cycles are independent; of
    // `cycles` of them the number of requests has a relative deviation of about sqrt(2 / cycles).
    let bursts = times("on-off:10us,0.5ms,4.5ms");
    let total = bursts.iter().sum::<u64>() as f64;
    let cycles = total / 5e6;
    let expected = 100_000.0 * bursts.len() as f64;
    assert!((total / expected - 1.0).abs() < 4.5 * (2.0 / cycles).sqrt(), "{total} against {expected}");
    let silences = bursts.iter().filter(|&&t| t > 200_000).count() as f64;
    assert!(silences > 0.8 * cycles && silences < 1.2 * cycles, "{silences} silences in {cycles} cycles");
    let inside: Vec<_> = bursts.iter().filter(|&&t| t < 100_000).collect();
    let mean = inside.iter().copied().sum::<u64>() as f64 / inside.len() as f64;
    assert!((mean - 10_000.0).abs() < 500.0, "{mean} ns inside a burst");
}

#[test]
fn a_duration_ends_the_trace() {
    let spec = SynthSpec { length: "1.5s".parse().unwrap(), arrivals: "constant:1ms".parse().unwrap(), ..plain() };
    let all = generate(&spec);
    assert_eq!(all.len(), 1500);
    assert_eq!(all.last().unwrap().time, Nanos(1_499_000_000));
    let mut synth = SynthTrace::new(spec).unwrap();
    assert_eq!((synth.len_hint(), synth.progress()), (None, Some(0.0)));
    synth.next_batch(&mut vec![]).unwrap();
    assert_eq!(synth.progress(), Some(1.0));
}

#[test]
fn a_number_of_requests_ends_the_trace() {
    let mut synth = SynthTrace::new(SynthSpec { length: "20000".parse().unwrap(), ..plain() }).unwrap();
    assert_eq!((synth.len_hint(), synth.progress()), (Some(20_000), Some(0.0)));
    let mut batch = vec![];
    synth.next_batch(&mut batch).unwrap();
    assert_eq!(batch.len(), BATCH_REQUESTS);
    synth.next_batch(&mut batch).unwrap();
    assert_eq!(batch.len(), 20_000 - BATCH_REQUESTS);
    assert_eq!(synth.progress(), Some(1.0));
}

#[test]
fn time_that_does_not_fit_is_an_error() {
    let spec =
        SynthSpec { length: SynthLength::Requests(300_000), arrivals: "constant:24h".parse().unwrap(), ..plain() };
    let mut synth = SynthTrace::new(spec).unwrap();
    let mut batch = vec![];
    let error = loop {
        if let Err(error) = synth.next_batch(&mut batch) {
            break error;
        }
        assert!(!batch.is_empty());
    };
    assert!(error.to_string().contains("exceeds 2^64 ns"), "{error}");
}

/// Counts the hits of each slot of 4 KiB.
fn hits(spec: &SynthSpec) -> HashMap<u64, usize> {
    let mut hits = HashMap::new();
    for request in generate(spec) {
        assert_eq!(request.offset % spec.align, 0);
        assert!(request.offset + request.len <= spec.space);
        *hits.entry(request.offset / 4096).or_default() += 1;
    }
    hits
}

#[test]
fn zipf_footprints_have_exact_probabilities() {
    for alpha in [0.5, 1.0, 1.5] {
        let slots = GIB / 4096;
        let total: f64 = (1..=slots).map(|k| (k as f64).powf(-alpha)).sum();
        let near = SynthSpec { footprint: AccessFootprint::Zipf { alpha, scattered: false }, ..plain() };
        let hits_near = hits(&near);
        for rank in 0..20 {
            let probability = ((rank + 1) as f64).powf(-alpha) / total;
            assert_share(hits_near.get(&rank).copied().unwrap_or(0), 100_000, probability);
        }
        // Scattered, the same counts lie elsewhere.
        let far = hits(&SynthSpec { footprint: AccessFootprint::Zipf { alpha, scattered: true }, ..near.clone() });
        let sorted = |hits: &HashMap<u64, usize>| {
            let mut counts: Vec<_> = hits.values().copied().collect();
            counts.sort_unstable();
            counts
        };
        assert_eq!(sorted(&far), sorted(&hits_near));
        let low = far.iter().filter(|&(&slot, _)| slot < slots / 2).map(|(_, &n)| n).sum::<usize>();
        assert!(alpha > 1.0 || (20_000..80_000).contains(&low), "{low} of 100000 in the lower half");
    }
}

#[test]
fn hot_and_cold_space_get_their_shares() {
    let hits = hits(&SynthSpec { footprint: "hot-cold:20,80".parse().unwrap(), ..plain() });
    let border = (GIB / 4096) / 5;
    let hot: usize = hits.iter().filter(|&(&slot, _)| slot < border).map(|(_, &n)| n).sum();
    assert_share(hot, 100_000, 0.8);
    let quarter: usize = hits.iter().filter(|&(&slot, _)| slot < border / 4).map(|(_, &n)| n).sum();
    assert_share(quarter, 100_000, 0.2);
}

#[test]
fn uniform_footprints_are_uniform() {
    let hits = hits(&SynthSpec { space: 64 * 4096, ..plain() });
    assert_eq!(hits.len(), 64);
    let expected = 100_000.0 / 64.0;
    let statistic: f64 = hits.values().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
    assert!(statistic < 63.0 + 4.5 * (2.0_f64 * 63.0).sqrt(), "{statistic}");
}

#[test]
fn sequential_requests_continue_their_kind_and_volume() {
    let spec = SynthSpec {
        sequential_share: "60".parse().unwrap(),
        volumes: "2".parse().unwrap(),
        sizes: "4KiB:1,12KiB:1".parse().unwrap(),
        ..plain()
    };
    let mut ends = HashMap::new();
    let mut continued = 0;
    let all = generate(&spec);
    for r in &all {
        let end = ends.insert((r.volume, r.op), r.offset + r.len).unwrap_or(0);
        continued += usize::from(end == r.offset);
    }
    assert_share(continued, all.len(), 0.6 + 0.4 / (GIB / 4096) as f64);

    // All sequential: the volume is passed from its beginning, again and again.
    let all = generate(&SynthSpec {
        sequential_share: PercentShare::ALL,
        read_share: PercentShare::NONE,
        space: 10 * 4096,
        length: SynthLength::Requests(25),
        ..plain()
    });
    let slots: Vec<u64> = all.iter().map(|r| r.offset / 4096).collect();
    assert_eq!(slots, (0..25).map(|i| i % 10).collect::<Vec<_>>());
}

#[test]
fn flushes_follow_every_so_many_writes() {
    let spec = SynthSpec {
        flush_every: std::num::NonZeroU64::new(10),
        arrivals: "poisson:1us".parse().unwrap(),
        volumes: "3".parse().unwrap(),
        ..plain()
    };
    let all = generate(&spec);
    assert_eq!(all.len(), 100_000, "flushes count");
    let (mut writes, mut flushes) = (0, 0);
    for pair in all.windows(2) {
        writes += usize::from(pair[0].op == Op::Write);
        let due = pair[0].op == Op::Write && writes % 10 == 0;
        assert_eq!(pair[1].op == Op::Flush, due);
        if due {
            flushes += 1;
            let expected = Request { op: Op::Flush, offset: 0, len: 0, ..pair[0] };
            assert_eq!(pair[1], expected);
        }
    }
    assert!(flushes > 6000);
    // Without the flushes the trace is the one that has none.
    let without = generate(&SynthSpec { flush_every: None, ..spec });
    assert!(all.iter().filter(|r| r.op != Op::Flush).zip(&without).all(|(a, b)| a == b));
}

#[test]
fn a_large_request_stays_inside_the_space() {
    let spec = SynthSpec { sizes: SizeMix::fixed(1 << 20), space: (1 << 20) + 5000, ..plain() };
    assert!(generate(&spec).iter().all(|r| r.offset + r.len <= spec.space && r.offset % 4096 == 0));
    let odd = SynthSpec { align: 1000, sizes: SizeMix::fixed(1), space: 1_000_003, ..plain() };
    assert!(generate(&odd).iter().all(|r| r.offset < odd.space && r.offset % 1000 == 0));
}

#[test]
fn impossible_specifications_name_the_key() {
    type Change = dyn Fn(&mut SynthSpec);
    let cases: [(&Change, &str, &str); 16] = [
        (&|s| s.length = SynthLength::Requests(0), "length", "at least 1"),
        (&|s| s.length = SynthLength::Duration(Nanos(0)), "length", "at least 1 ns"),
        (&|s| s.length = SynthLength::Duration(Nanos(5)), "length", "closed never advances"),
        (&|s| s.sizes = SizeMix { weights: vec![] }, "sizes", "between 1 and 1024"),
        (&|s| s.sizes = SizeMix::fixed(0), "sizes", "between 1 B and 4 GiB"),
        (&|s| s.sizes = SizeMix { weights: vec![(4096, 0)] }, "sizes", "at least 1"),
        (&|s| s.arrivals = ArrivalProcess::Poisson(Nanos(0)), "arrivals", "between 1 ns and 24 h"),
        (&|s| s.volumes = SynthVolumes { count: 0, first: None }, "volumes", "between 1 and 65536"),
        (&|s| s.discard_share = "70.0001".parse().unwrap(), "discard_share", "at most 100"),
        (&|s| s.align = 0, "align", "between 1 B and 1 GiB"),
        (&|s| s.align = GIB + 1, "align", "between 1 B and 1 GiB"),
        (&|s| s.space = 4095, "space", "between 4096 B"),
        (&|s| s.space = u64::MAX, "space", "2^62"),
        (&|s| (s.space, s.align) = (1 << 62, 512), "space", "2^48 times align"),
        (
            &|s| s.footprint = AccessFootprint::Zipf { alpha: f64::NAN, scattered: true },
            "footprint",
            "between 0 and 10",
        ),
        (&|s| (s.footprint, s.space) = ("hot-cold:20,80".parse().unwrap(), 4096), "footprint", "2 times align"),
    ];
    for (change, key, says) in cases {
        let mut spec = plain();
        change(&mut spec);
        let error = SynthTrace::new(spec).err().expect(says);
        assert_eq!(error.key, key, "{error}");
        assert!(error.to_string().contains(says), "{error} should say {says}");
    }
}

#[test]
fn lengths_are_read() {
    assert_eq!("1000000".parse(), Ok(SynthLength::Requests(1_000_000)));
    assert_eq!("60s".parse(), Ok(SynthLength::Duration(Nanos(60_000_000_000))));
    for text in ["", "1e6", "-5", "60 days"] {
        assert!(text.parse::<SynthLength>().unwrap_err().to_string().starts_with("length = "), "{text}");
    }
}
