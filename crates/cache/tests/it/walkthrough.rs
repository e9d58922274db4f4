//! Every operation of caches with state, planned and carried out: the table "KDD and LAWC in
//! steps" of docs/internals/caches.md, with real bytes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use destage_delta::{encode, encoded_len};
use destage_exec::{
    CrashRemains, CutChoice, DeviceConfig, DeviceOptions, ExistingFiles, FileExecutor, FilesConfig, MemoryExecutor,
    NextStep, NoCheck,
};
use destage_plan::{
    Buf, Dev, Ext, Frag, HostNotice, HostOp, HostRequest, Nanos, Out, Row, Shape, Step, StepKind, StepSet,
};
use destage_sim::array::{FixedTimes, StepTimes, VirtualDevice, VirtualExecutor};
use destage_testkit::ScriptedController;
use destage_testkit::{TestRng, folder};

use crate::walk::{CACHE, DELTAS, DEVICE_PAGES, Delta, Job, PAGE, PARITY, SECTOR, STRIP, Walk};

type Jobs = Arc<Mutex<VecDeque<Job>>>;

fn shape() -> Shape {
    Shape::new(PAGE, SECTOR, 2, 2, 10).expect("a shape that can be")
}

/// Returns the request that causes a job, of so many pages.
const fn request(job: Job, page: u64) -> HostRequest {
    let (op, pages) = match job {
        Job::Fill => (HostOp::Write, 2),
        Job::Hit | Job::Admit => (HostOp::Write, 1),
        Job::Read => (HostOp::Read, 1),
        Job::Commit | Job::Clean | Job::Settle => (HostOp::Flush, 0),
    };
    HostRequest { tag: 1, op, offset: page * PAGE, len: pages * PAGE, fua: false }
}

/// A page, and its versions: each differs from the one before in a few words.
fn content(page: u64, version: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..PAGE).map(|at| (at * 7 + page * 41) as u8).collect();
    for change in 0..version {
        let at = (change * 56 + page * 8) as usize % (PAGE as usize - 24);
        bytes[at..at + 20].fill(0xa0 + change as u8);
    }
    bytes
}

/// In memory.
struct Bench {
    jobs: Jobs,
    memory: MemoryExecutor<Walk>,
}

impl Bench {
    fn start(remains: CrashRemains) -> Self {
        let jobs = Jobs::default();
        let mut memory = MemoryExecutor::start(Walk::new(&jobs), remains, shape(), 4);
        while memory.run(NextStep::Earliest, &NoCheck).expect("it starts").is_some() {}
        Self { jobs, memory }
    }

    fn ask(&mut self, job: Job, page: u64, data: &[u8]) -> (bool, Vec<u8>) {
        let mut steps = u64::MAX;
        self.ask_for(job, page, data, &mut steps).expect("it is answered")
    }

    /// Carries out so many steps at most; the answer, if there was one by then.
    fn ask_for(&mut self, job: Job, page: u64, data: &[u8], steps: &mut u64) -> Option<(bool, Vec<u8>)> {
        self.jobs.lock().unwrap().push_back(job);
        self.memory.submit(request(job, page), data).expect("a request in range");
        let mut answer = None;
        loop {
            while let Some(notice) = self.memory.next_notice() {
                if let HostNotice::Acked { ok, .. } = notice {
                    answer = Some((ok, self.memory.request_bytes(1).to_vec()));
                }
            }
            if self.memory.is_idle() || *steps == 0 {
                return answer;
            }
            *steps -= 1;
            self.memory.run(NextStep::Earliest, &NoCheck).expect("the controller goes on");
        }
    }

    fn read(&mut self, page: u64) -> Vec<u8> {
        let (ok, bytes) = self.ask(Job::Read, page, &[]);
        assert!(ok);
        bytes
    }

    fn walk(&self) -> &Walk {
        self.memory.engine().controller()
    }

    fn on(&self, dev: Dev, page: u64) -> Vec<u8> {
        self.memory.view().page(dev, page).expect("the device answers").to_vec()
    }
}

fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

/// The power fails, and takes what was not durable.
struct Nothing;

impl CutChoice for Nothing {
    fn page(&mut self, _: usize, _: u64, _: u128) -> u128 {
        0
    }
    fn nvram(&mut self, _: usize) -> usize {
        0
    }
}

/// Keeps a random part of every unflushed page.
struct Any(TestRng);

impl CutChoice for Any {
    fn page(&mut self, _: usize, _: u64, all: u128) -> u128 {
        all & (u128::from(self.0.draw()) << 64 | u128::from(self.0.draw()))
    }
    fn nvram(&mut self, queued: usize) -> usize {
        self.0.below(queued as u64 + 1) as usize
    }
}

/// Row 0 in the cache, both pages written over with their deltas packed, the second once more.
fn with_deltas() -> Bench {
    let mut bench = Bench::start(CrashRemains::fresh([(DEVICE_PAGES * PAGE) as usize; 4]));
    bench.ask(Job::Fill, 0, &[content(0, 0), content(1, 0)].concat());
    for (page, version) in [(0, 1), (1, 1), (0, 2)] {
        assert!(bench.ask(Job::Hit, page, &content(page, version)).0);
        let Delta::Staged(slot, len) = bench.walk().deltas[&page] else { panic!("it is staged") };
        assert_eq!(len as usize, encoded_len(&content(page, 0), &content(page, version)));
        assert_eq!(bench.memory.nvram().bytes(slot).len(), len as usize, "a delta takes the bytes that it has");
        assert_eq!(bench.on(Dev(page as u8), 0), content(page, version));
    }
    assert_eq!(bench.memory.nvram().slots().count(), 2, "the delta before was freed");
    assert_eq!(bench.read(0), content(0, 2));
    assert!(bench.ask(Job::Commit, 0, &[]).0);
    assert_eq!(bench.memory.nvram().slots().count(), 0);
    assert_eq!([bench.read(0), bench.read(1)], [content(0, 2), content(1, 1)]);
    assert!(bench.ask(Job::Hit, 1, &content(1, 3)).0);
    bench
}

#[test]
fn deltas_are_staged_packed_logged_found_again_and_cleaned() {
    let bench = with_deltas();
    let stale = xor(&content(0, 0), &content(1, 0));
    assert_eq!(bench.on(PARITY, 0), stale, "the parity is of what the pages were");
    let mut bench = Bench::start(bench.memory.cut(&mut Nothing));
    // The log says where both deltas are; the NVRAM has a newer one of page 1.
    assert!(matches!(bench.walk().deltas[&0], Delta::Packed(0, _)));
    assert!(matches!(bench.walk().deltas[&1], Delta::Staged(..)));
    assert_eq!([bench.read(0), bench.read(1)], [content(0, 2), content(1, 3)]);
    assert!(bench.ask(Job::Clean, 0, &[]).0);
    assert_eq!(bench.on(PARITY, 0), xor(&content(0, 2), &content(1, 3)));
    assert!(bench.memory.nvram().intents.is_empty() && bench.memory.nvram().slots().next().is_none());
    let mut bench = Bench::start(bench.memory.cut(&mut Nothing));
    assert!(bench.walk().deltas.is_empty(), "the log says so");
    assert_eq!([bench.read(0), bench.read(1)], [content(0, 2), content(1, 3)]);
    assert_eq!(bench.on(PARITY, 0), xor(&content(0, 2), &content(1, 3)));
}

#[test]
fn a_damaged_delta_is_given_to_nobody() {
    let mut remains = with_deltas().memory.cut(&mut Nothing);
    remains.disks[CACHE.index()].image[(DELTAS * PAGE) as usize] = 0xff;
    let mut bench = Bench::start(remains);
    assert!(!bench.ask(Job::Read, 0, &[]).0);
    assert_eq!(bench.read(1), content(1, 3), "the other one is whole");
}

#[test]
fn behind_a_delta_there_are_zeros() {
    let script = ScriptedController(|frag: Frag, op, out: &mut Out| {
        let (dst, whole) = (out.tmp(op, 1), out.list(op, &[frag.host(0)]));
        let filled = out.step(op, Step::Xor { srcs: whole, pages: 1, dst }, StepSet::EMPTY);
        let encoded = out.step(op, Step::Encode { base: Buf::Zero, new: frag.host(0), dst, page: 0 }, filled);
        let written = out.step(op, Step::Write { ext: Ext::new(Dev(0), 0, 1), src: dst, fua: true }, encoded);
        out.step(op, Step::Ack { frag: frag.id, pages: 1, ok: true }, written);
        out.close(op);
    });
    let mut memory = MemoryExecutor::start(script, CrashRemains::fresh([PAGE as usize]), shape(), 1);
    let mut data = vec![0; PAGE as usize];
    data[PAGE as usize - 8..].fill(0x11);
    memory.submit(request(Job::Admit, 0), &data).expect("a request in range");
    while memory.run(NextStep::Earliest, &NoCheck).expect("it goes on").is_some() {}
    let mut expected = [0; PAGE as usize];
    let len = encode(&[0; PAGE as usize], &data, &mut expected);
    expected[len..].fill(0);
    assert_eq!(memory.view().page(Dev(0), 0), Some(&expected[..]));
}

#[test]
fn rows_are_admitted_whole_and_a_strip_is_destaged_at_once() {
    let mut bench = Bench::start(CrashRemains::fresh([(DEVICE_PAGES * PAGE) as usize; 4]));
    for row in STRIP.iter() {
        assert!(bench.ask(Job::Admit, 2 * row.0, &content(row.0, 3)).0);
        assert_eq!(bench.on(Dev(0), row.0), vec![0; PAGE as usize], "nothing is written yet");
        if row == Row(2) {
            // A row in the NVRAM is there with its parity.
            bench = Bench::start(bench.memory.cut(&mut Nothing));
            assert_eq!(bench.walk().admitted.len(), 4);
        }
        assert_eq!(bench.read(2 * row.0), content(row.0, 3));
    }
    assert!(bench.ask(Job::Settle, 0, &[]).0);
    let bench = Bench::start(bench.memory.cut(&mut Nothing));
    assert!(bench.walk().admitted.is_empty());
    for row in STRIP.iter() {
        // The other page of the row is zeros.
        assert_eq!([bench.on(Dev(0), row.0), bench.on(PARITY, row.0)], [content(row.0, 3), content(row.0, 3)]);
    }
}

/// Everything in turn, without reads: what is written, and what is asked.
fn script() -> Vec<(Job, u64, Vec<u8>)> {
    let mut script = vec![(Job::Fill, 0, [content(0, 0), content(1, 0)].concat())];
    script.extend([(0, 1), (1, 1), (0, 2)].map(|(page, version)| (Job::Hit, page, content(page, version))));
    script.push((Job::Commit, 0, Vec::new()));
    script.extend([0, 1].map(|page| (Job::Read, page, Vec::new())));
    script.push((Job::Clean, 0, Vec::new()));
    script.extend(STRIP.iter().map(|row| (Job::Admit, 2 * row.0, content(row.0, 3))));
    script.push((Job::Settle, 0, Vec::new()));
    script.extend([0, 1, 4].map(|page| (Job::Read, page, Vec::new())));
    script
}

#[test]
fn a_cut_after_any_step_loses_nothing() {
    let mut cuts = 0;
    for at in 0.. {
        let mut bench = Bench::start(CrashRemains::fresh([(DEVICE_PAGES * PAGE) as usize; 4]));
        let mut pages = vec![vec![0; PAGE as usize]; 10];
        let (mut steps, mut under_way) = (at, None);
        for (job, page, data) in script() {
            let answer = bench.ask_for(job, page, &data, &mut steps);
            if answer.is_some() {
                pages
                    .iter_mut()
                    .skip(page as usize)
                    .zip(data.chunks(PAGE as usize))
                    .for_each(|(to, of)| to.copy_from_slice(of));
            } else {
                under_way = Some((job, page, data));
            }
            if steps == 0 {
                break;
            }
        }
        for seed in 0..8 {
            let mut left = Bench::start(bench.memory.cut(&mut Any(TestRng::new(seed + 8 * at))));
            cuts += 1;
            for page in 0..10_u64 {
                let (found, old) = (left.read(page), &pages[page as usize]);
                let new = under_way
                    .as_ref()
                    .and_then(|(_, first, data)| data.chunks(PAGE as usize).nth(page.checked_sub(*first)? as usize));
                // A write of a row that the cache has not is torn by sectors.
                let torn = matches!(under_way, Some((Job::Fill, ..)));
                let size = if torn { SECTOR } else { PAGE } as usize;
                let sectors = found.chunks(size).zip(old.chunks(size)).enumerate();
                for (sector, (found, old)) in sectors {
                    let new = new.map(|new| &new[sector * size..][..size]);
                    assert!(found == old || new == Some(found), "page {page} after {at} steps: {under_way:?}");
                }
            }
        }
        if steps > 0 {
            break;
        }
    }
    assert!(cuts > 400, "{cuts} cuts");
}

#[test]
fn the_three_executors_take_the_same_steps() {
    let mut bench = Bench::start(CrashRemains::fresh([(DEVICE_PAGES * PAGE) as usize; 4]));
    let expected: Vec<_> = script().iter().map(|(job, page, data)| bench.ask(*job, *page, data)).collect();
    let counts = *bench.memory.engine().out().counts();
    assert!([StepKind::Pack, StepKind::MetaRead, StepKind::Encode].iter().all(|kind| counts[*kind as usize] > 0));

    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let device = |name: &str| DeviceConfig {
        path: path(name),
        offset: 0,
        pages: DEVICE_PAGES,
        options: DeviceOptions::default(),
    };
    let config = FilesConfig {
        about: String::new(),
        array: 1,
        shape: shape(),
        depth: 4,
        devices: ["0", "1", "2", "3"].map(device).to_vec(),
        every_write: false,
        nvram: path("nvram").into(),
        spare_nvram: None,
        nv_slots: 16,
        intents: path("intents"),
        rows: DEVICE_PAGES,
        members: 0,
        rows_per_mark: 1,
        idle_marks: 0,
        io: destage_exec::IoBackend::Threads,
        patience: FilesConfig::PATIENCE,
        device_timeout: None,
    };
    let jobs = Jobs::default();
    let mut files = FileExecutor::create(Walk::new(&jobs), config, ExistingFiles::Refuse).expect("a new array");
    for ((job, page, data), expected) in script().into_iter().zip(&expected) {
        jobs.lock().unwrap().push_back(job);
        files.submit(request(job, page), data).expect("a request in range");
        let completion = files.wait().expect("it is served").expect("it is under way");
        let read = if matches!(job, Job::Read) { expected.1.clone() } else { Vec::new() };
        assert_eq!((completion.ok, completion.bytes.to_vec()), (expected.0, read), "{job:?} of page {page}");
        files.settle().expect("the controller goes on");
    }
    assert_eq!(*files.engine().out().counts(), counts);

    let jobs = Jobs::default();
    let times = FixedTimes { read: Nanos(60_000), write: Nanos(20_000), other: Nanos(500_000), page: Nanos(2_000) };
    let devices = (0..4).map(|_| VirtualDevice::fixed(times, DEVICE_PAGES)).collect();
    // Ten nanoseconds a byte of the NVRAM, and a microsecond more for each put.
    let (nv_note, nv_write, nv_read) = (Nanos(1_000), Nanos(6_120), Nanos(5_120));
    let costs = StepTimes { nv_note, nv_write, nv_read, ..StepTimes::default() };
    let mut simulated = VirtualExecutor::new(Walk::new(&jobs), shape(), 4, devices, costs);
    simulated.set_delta_lengths(Box::new(|page, version| 100 + 10 * page as u32 + version));
    for (job, page, _) in script() {
        jobs.lock().unwrap().push_back(job);
        simulated.submit(simulated.now(), request(job, page)).expect("a request in range");
        while simulated.step() {}
        if let (Job::Hit, Some(delta)) = (job, simulated.controller().deltas.get(&page)) {
            assert!(matches!(delta, Delta::Staged(_, 100 | 101 | 110)), "{delta:?}");
        }
        assert!(
            std::iter::from_fn(|| simulated.next_notice())
                .any(|notice| notice == HostNotice::Acked { tag: 1, ok: true })
        );
    }
    assert_eq!(*simulated.engine().out().counts(), counts);
    // Three intents and puts and a free; two deltas read and freed; an intent set and cleared; four
    // rows of two pages put, read and freed.
    let hits = 3 * 1_000 + 3 * 1_000 + 10 * (100 + 110 + 101) + 1_000;
    let (packed, cleaned) = (10 * (101 + 110) + 2 * 1_000, 2 * 1_000);
    let rows = 8 * 6_120 + 8 * 5_120 + 8 * 1_000;
    assert_eq!(simulated.busy().0, Nanos(hits + packed + cleaned + rows));
    // A row, two hits, and the strip as one command.
    let member = simulated.device_counters(Dev(0));
    assert_eq!((member.writes, member.pages_written), (4, 7));
}
