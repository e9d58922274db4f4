//! The array's stripe cache beside md's: what members are asked for is the same, request by request.

use destage_cache::ServedTier;
use destage_plan::{Dev, HostNotice, HostOp, Nanos};
use destage_raid::array::ArrayConfig;
use destage_raid::{Geometry, RaidLevel};
use destage_sim::array::{FixedTimes, StepTimes, VirtualDevice, VirtualExecutor};

use crate::arrays::{PAGE, Random, config, geometry, host, shape};
use crate::md_model::{MdModel, MemberTraffic};

const TIMES: FixedTimes = FixedTimes { read: Nanos(1_000), write: Nanos(2_000), other: Nanos(300), page: Nanos(10) };

/// Describes an array without a cache, but for so many rows in memory.
struct CachedRowsRun {
    array: VirtualExecutor<Box<dyn ServedTier>>,
    members: u8,
    requests: u64,
    answered: u64,
}

impl CachedRowsRun {
    fn new(geometry: &Geometry, rows: u32) -> Self {
        Self::with_cache("none", 0, geometry, rows)
    }

    /// Starts as [`new`](Self::new) does, behind a cache of so many pages.
    fn with_cache(cache: &str, pages: u64, geometry: &Geometry, rows: u32) -> Self {
        let config = ArrayConfig { cached_rows: rows, ..config(geometry) };
        let controller = destage_cache::serve(cache, &config, pages).expect("an array");
        let mut devices: Vec<_> =
            (0..geometry.members()).map(|_| VirtualDevice::fixed(TIMES, geometry.member_pages())).collect();
        if pages > 0 {
            devices.push(VirtualDevice::fixed(TIMES, pages));
        }
        let array = VirtualExecutor::new(controller, shape(geometry), 4096, devices, StepTimes::default());
        Self { array, members: geometry.members(), requests: 0, answered: 0 }
    }

    /// Submits requests together, and waits until all are answered.
    fn ask(&mut self, op: HostOp, requests: &[(u64, u64)]) {
        self.ask_all(requests.iter().map(|(page, pages)| (op, *page, *pages)));
    }

    /// Does so with requests of several kinds.
    fn ask_all(&mut self, requests: impl IntoIterator<Item = (HostOp, u64, u64)>) {
        for (op, page, pages) in requests {
            self.submit(op, page, pages);
        }
        self.wait_for(0);
    }

    /// Submits a request once fewer than so many are at work.
    fn keep_busy(&mut self, op: HostOp, page: u64, depth: u64) {
        self.wait_for(depth - 1);
        self.submit(op, page, 1);
    }

    fn submit(&mut self, op: HostOp, page: u64, pages: u64) {
        let request = host(self.requests, op, page, pages);
        self.array.submit(self.array.now(), request).expect("a range on the array");
        self.requests += 1;
    }

    /// Waits until no more than so many requests are at work.
    fn wait_for(&mut self, depth: u64) {
        loop {
            while let Some(notice) = self.array.next_notice() {
                if let HostNotice::Acked { tag, ok } = notice {
                    assert!(ok, "request {tag} is served");
                    self.answered += 1;
                }
            }
            if self.requests - self.answered <= depth {
                return;
            }
            assert!(self.array.step(), "requests are answered some time");
        }
    }

    fn commands(&self) -> u64 {
        let MemberTraffic { reads, writes, .. } = self.traffic();
        reads + writes
    }

    fn traffic(&self) -> MemberTraffic {
        let mut traffic = MemberTraffic::default();
        for dev in 0..self.members {
            let counted = self.array.device_counters(Dev(dev));
            traffic.pages_read += counted.pages_read;
            traffic.pages_written += counted.pages_written;
            traffic.reads += counted.reads;
            traffic.writes += counted.writes;
        }
        traffic
    }
}

/// Gives the worked example of md's behaviour: what is asked for, together, and the pages that members read and write for it.
const EXAMPLE: [(HostOp, &[u64], (u64, u64)); 12] = [
    (HostOp::Write, &[0], (2, 2)),
    (HostOp::Write, &[0], (0, 2)),
    (HostOp::Write, &[2], (0, 2)),
    (HostOp::Write, &[4], (0, 2)),
    (HostOp::Read, &[4], (1, 0)),
    (HostOp::Write, &[1], (2, 2)),
    (HostOp::Write, &[6], (2, 2)),
    (HostOp::Write, &[12], (2, 2)),
    (HostOp::Write, &[18], (2, 2)),
    (HostOp::Write, &[0], (2, 2)),
    (HostOp::Write, &[24, 25], (4, 4)),
    (HostOp::Write, &[36, 38, 40], (0, 4)),
];

#[test]
fn the_model_does_what_the_worked_example_says() {
    let mut md = MdModel::new(4, 2, 1, 4);
    for (line, (op, pages, (read, written))) in EXAMPLE.into_iter().enumerate() {
        let before = md.traffic;
        if op == HostOp::Read {
            md.read(pages[0], 1);
        } else {
            md.write(pages.iter().copied());
        }
        let found = (md.traffic.pages_read - before.pages_read, md.traffic.pages_written - before.pages_written);
        assert_eq!(found, (read, written), "line {line}: {op:?} {pages:?}");
    }
    let MemberTraffic { pages_read, pages_written, reads, writes } = md.traffic;
    assert_eq!((pages_read, reads, pages_written, writes), (17, 15, 26, 24));
}

/// Draws as `SplitMix64` does.
struct SplitMixDraws(u64);

impl SplitMixDraws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }
}

/// Draws pages by how often they are asked for, zipf with exponent 1 or all alike.
struct PagePopularity {
    order: Vec<u64>,
    sums: Vec<f64>,
}

impl PagePopularity {
    fn new(count: u64) -> Self {
        let (mut order, mut draws): (Vec<_>, _) = ((0..count).collect(), SplitMixDraws(42));
        for i in (1..order.len()).rev() {
            order.swap(i, (draws.next() % (i as u64 + 1)) as usize);
        }
        let mut sum = 0.0;
        let sums = (0..count).map(|i| {
            sum += 1.0 / (i as f64 + 1.0);
            sum
        });
        Self { order, sums: sums.collect() }
    }

    fn zipf(&self, draw: u64) -> u64 {
        let u = (draw >> 11) as f64 / (1_u64 << 53) as f64 * self.sums[self.sums.len() - 1];
        self.order[self.sums.partition_point(|sum| *sum <= u)]
    }

    fn uniform(&self, draw: u64) -> u64 {
        self.order[(draw % self.order.len() as u64) as usize]
    }
}

#[test]
fn members_read_what_they_were_counted_to_read_under_md() {
    // Counted with linux 6.1 on RAID-5 of 5 members of 96 MiB in chunks of 64 KiB, with 256 rows: pages read and written for
    // each write of a page, among 32,768 pages, one at a time, after a warm-up.
    let geometry = geometry(RaidLevel::Raid5, 5, 16, (96 << 20) / PAGE);
    let pages = PagePopularity::new(32_768);
    for (reads, is_zipf, counted) in [(0, true, 1.147), (50, true, 2.137), (0, false, 1.960)] {
        let (mut array, mut md) = (CachedRowsRun::new(&geometry, 256), MdModel::new(5, 16, 8, 32));
        let mut before = (MemberTraffic::default(), 0);
        let mut writes = 0;
        for (seed, count) in [(1, 4_000), (2, 12_000)] {
            before = (array.traffic(), writes);
            let mut draws = SplitMixDraws(seed);
            for _ in 0..count {
                let (a, b) = (draws.next(), draws.next());
                let page = if is_zipf { pages.zipf(a) } else { pages.uniform(a) };
                if (b >> 11) % 100 < reads {
                    array.ask(HostOp::Read, &[(page, 1)]);
                    md.read(page, 1);
                } else {
                    writes += 1;
                    array.ask(HostOp::Write, &[(page, 1)]);
                    md.write([page]);
                }
            }
            assert_eq!(array.traffic(), md.traffic, "{reads} % reads, zipf: {is_zipf}");
        }
        let (traffic, writes) = (array.traffic(), (writes - before.1) as f64);
        let of_window = |now: u64, before: u64| (now - before) as f64 / writes;
        let found = of_window(traffic.pages_read, before.0.pages_read);
        assert!((found - counted).abs() < 0.0015, "{found}, not {counted}: {reads} % reads, zipf: {is_zipf}");
        assert_eq!(traffic.pages_written - before.0.pages_written, 2 * writes as u64);
    }
}

#[test]
fn random_loads_of_all_sizes_ask_members_for_what_md_does() {
    for seed in 0..24 {
        let mut random = Random::new(seed);
        let members = 3 + random.below(4) as u32;
        let chunk = 1 << random.below(5);
        let rows = 8 * (2 + random.below(20) as u32);
        let geometry = geometry(RaidLevel::Raid5, members, chunk, 4_096);
        let mut array = CachedRowsRun::new(&geometry, rows);
        let mut md = MdModel::new(members.into(), chunk.into(), 8, (rows / 8) as usize);
        let pages = PagePopularity::new(geometry.data_pages());
        for request in 0..2_000 {
            let page = pages.zipf(random.below(u64::MAX));
            let left = u64::from(chunk) - page % u64::from(chunk);
            let count = if random.below(3) == 0 { 1 + random.below(left) } else { 1 };
            if random.below(4) == 0 {
                array.ask(HostOp::Read, &[(page, count)]);
                md.read(page, count);
            } else {
                array.ask(HostOp::Write, &[(page, count)]);
                md.write(page..page + count);
            }
            assert_eq!(
                array.traffic(),
                md.traffic,
                "seed {seed}, request {request}: {count} pages from {page} on, raid5:{members} in chunks of {chunk}, {rows} rows"
            );
        }
    }
}

#[test]
fn members_are_asked_for_what_the_worked_example_says() {
    // The example's cache is one set of four rows: here all its rows belong to one of the eight sets.
    let (chunk, unit) = (16, 8);
    let spread = |page: u64| page / 2 * chunk + page % 2 * unit;
    let geometry = geometry(RaidLevel::Raid5, 4, chunk as u32, 4_096);
    let mut array = CachedRowsRun::new(&geometry, 32);
    for (line, (op, pages, (read, written))) in EXAMPLE.into_iter().enumerate() {
        let before = array.traffic();
        let requests: Vec<_> = pages.iter().map(|page| (op, spread(*page), 1)).collect();
        // Several are handled together if they wait for their row together.
        let first = (pages.len() > 2).then_some((HostOp::Read, spread(pages[0]), 1));
        array.ask_all(first.iter().copied().chain(requests));
        let after = array.traffic();
        let found = (after.pages_read - before.pages_read, after.pages_written - before.pages_written);
        assert_eq!(found, (read + u64::from(first.is_some()), written), "line {line}: {op:?} {pages:?}");
    }
}

#[test]
fn neighbours_of_a_column_are_read_and_written_as_one() {
    let geometry = geometry(RaidLevel::Raid5, 4, 2, 64);
    let mut array = CachedRowsRun::new(&geometry, 256);
    array.ask(HostOp::Write, &[(24, 2)]);
    let MemberTraffic { pages_read, pages_written, reads, writes } = array.traffic();
    assert_eq!((pages_read, reads, pages_written, writes), (4, 2, 4, 2));
    // One row of the two is known: of the other two pages are read.
    let mut array = CachedRowsRun::new(&geometry, 256);
    array.ask(HostOp::Write, &[(24, 1)]);
    array.ask(HostOp::Write, &[(24, 2)]);
    let MemberTraffic { pages_read, pages_written, reads, writes } = array.traffic();
    assert_eq!((pages_read, reads, pages_written, writes), (2 + 2, 2 + 2, 2 + 4, 2 + 2));
}

#[test]
fn writes_that_wait_for_one_row_are_carried_out_as_one() {
    let geometry = geometry(RaidLevel::Raid5, 5, 16, 1_024);
    let mut array = CachedRowsRun::new(&geometry, 256);
    let row = |column: u64| (HostOp::Write, column * 16, 1);
    // The first begins at once; the others wait for it, one of them for a page that the next but one writes again.
    array.ask_all([row(0), row(1), row(2), row(3), row(1)]);
    let MemberTraffic { pages_read, pages_written, .. } = array.traffic();
    assert_eq!((pages_read, pages_written), (2, 2 + 3 + 1));
    // A read between two writes of its page is answered in between.
    let before = array.traffic();
    array.ask_all([row(0), row(1), (HostOp::Read, 16, 1), row(1), row(2)]);
    let after = array.traffic();
    assert_eq!(after.pages_written - before.pages_written, 2 + 2 + 1 + 2);
    assert_eq!(after.pages_read - before.pages_read, 1);
}

/// Returns the commands of members for each of 12,000 zipf writes after 4,000, 32 at a time.
fn commands_of_zipf_writes(cache: &str, pages: u64, rows: u32) -> f64 {
    let geometry = geometry(RaidLevel::Raid5, 5, 16, (96 << 20) / PAGE);
    let asked = PagePopularity::new(32_768);
    let mut array = CachedRowsRun::with_cache(cache, pages, &geometry, rows);
    let (mut draws, mut of_warm_up) = (SplitMixDraws(1), 0);
    let (warm_up, count) = (4_000, 12_000_u64);
    for request in 0..warm_up + count {
        if request == warm_up {
            of_warm_up = array.commands();
        }
        array.keep_busy(HostOp::Write, asked.zipf(draws.next()), 32);
    }
    (array.commands() - of_warm_up) as f64 / count as f64
}

#[test]
fn thirty_two_zipf_writes_at_a_time_take_three_commands_each() {
    let (without, with) = (commands_of_zipf_writes("none", 0, 0), commands_of_zipf_writes("none", 0, 256));
    println!("{without:.3} commands for each write without, {with:.3} with 256 rows");
    assert!((without - 4.0).abs() < 0.02, "{without}");
    assert!(with <= 3.0, "{with}");
}

#[test]
fn caches_gain_on_what_they_write_with_its_parity() {
    for cache in ["write-through", "leavo", "kdd", "kdd:misses=delay:dirty-high=90:dirty-low=80"] {
        let [without, with, more] = [0, 256, 4_096].map(|rows| commands_of_zipf_writes(cache, 12_288, rows));
        println!(
            "{cache}: {without:.3} commands for each write without, {with:.3} with 256 rows, {more:.3} with 4,096"
        );
        assert!(with <= without && more <= with, "{cache}: {without}, {with}, {more}");
    }
}
