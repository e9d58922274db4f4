//! The trace `rw80` that was given to the peers: a million writes and 250,000 reads of 4 KiB at random over 435,200 pages,
//! with Poisson arrivals 2 ms apart on average. Its generator is repeated here.

use destage_plan::{Nanos, Op, Request};

pub(crate) const PAGE: u64 = 4096;
/// The requests go to the pages below this.
pub(crate) const PAGES: u64 = 435_200;
const READS: u64 = 250_000;
const WRITES: u64 = 1_000_000;

/// xorshift64*, so that any language can repeat the traces.
pub(crate) struct Xorshift(pub(crate) u64);

impl Xorshift {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number from 0 to below 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A request for a page.
pub(crate) fn request(micros: u64, op: Op, page: u64) -> Request {
    Request { time: Nanos(micros * 1000), offset: page * PAGE, len: PAGE, volume: 0, op, fua: false }
}

/// The trace, compared with the file that `DESTAGE_RW80` names where it does.
pub(crate) fn rw80() -> Vec<Request> {
    let mut random = Xorshift(0x9E37_79B9_7F4A_7C15);
    let (mut time, mut reads, mut writes) = (0.0_f64, READS, WRITES);
    let mut requests = Vec::with_capacity((reads + writes) as usize);
    while reads + writes > 0 {
        time += -2000.0 * (1.0 - random.share()).ln();
        let read = random.share() < reads as f64 / (reads + writes) as f64;
        *(if read { &mut reads } else { &mut writes }) -= 1;
        let op = if read { Op::Read } else { Op::Write };
        requests.push(request(time as u64, op, random.next() % PAGES));
    }
    let first: Vec<_> = requests[..10].iter().map(|r| (r.time.0 / 1000, r.op, r.offset / PAGE)).collect();
    let expected = [
        (108, Op::Write, 174_712),
        (1_455, Op::Write, 316_526),
        (5_041, Op::Write, 317_612),
        (8_516, Op::Read, 36_561),
        (8_845, Op::Write, 236_449),
        (9_649, Op::Read, 94_047),
        (13_506, Op::Write, 43_628),
        (15_746, Op::Write, 116_844),
        (17_970, Op::Write, 36_569),
        (22_311, Op::Read, 146_941),
    ];
    assert_eq!(first, expected, "the generator does not repeat rw80");
    if let Some(path) = std::env::var_os("DESTAGE_RW80") {
        let text = std::fs::read_to_string(path).expect("DESTAGE_RW80 can be read");
        let lines = text.lines().skip(1).map(|line| {
            let mut fields = line.split(',');
            let mut next = || fields.next().expect("time_us,op,page,pages");
            let micros = next().parse().expect("a time");
            let op = if next() == "R" { Op::Read } else { Op::Write };
            request(micros, op, next().parse().expect("a page"))
        });
        assert!(lines.eq(requests.iter().copied()), "DESTAGE_RW80 is another trace than the one made here");
    }
    requests
}
