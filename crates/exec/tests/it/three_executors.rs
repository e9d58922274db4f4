//! The same history through the executors: files in real time, memory in virtual time, and device
//! models without bytes. What a host sees and what the members hold is the same, and so is how many
//! steps of each kind it took.

use std::collections::BTreeMap;

use destage_cache::{CacheMedium, host_caches};
use destage_exec::{CrashRemains, FileExecutor, MemoryExecutor, NextStep, NoCheck};
use destage_plan::{Control, Controller, Dev, HostNotice, HostOp, HostRequest, Nanos, StepKind};
use destage_raid::RaidLevel;
use destage_sim::array::{FixedTimes, StepTimes, VirtualDevice, VirtualExecutor as Simulated};
use destage_testkit::{ExpectedContent, TestRng, data, draw, folder, soak};

use crate::arrays::{self, Array, member};

/// By tag: whether a request was served, and what it read.
type Answers = BTreeMap<u64, (bool, Vec<u8>)>;

/// Carries requests out.
trait Executor {
    /// Serves requests that are under way together until nothing is; whether each was served, and
    /// what it read.
    fn serve(&mut self, requests: &[(HostRequest, Vec<u8>)]) -> Answers;
    /// Steps issued, by kind.
    fn counts(&self) -> [u64; StepKind::ALL.len()];
}

impl<C: Controller> Executor for FileExecutor<C> {
    fn serve(&mut self, requests: &[(HostRequest, Vec<u8>)]) -> Answers {
        for (request, data) in requests {
            self.submit(*request, data.clone()).expect("a request in range");
        }
        let mut answers = BTreeMap::new();
        while let Some(completion) = self.wait().expect("the array is served") {
            answers.insert(completion.tag, (completion.ok, completion.bytes.to_vec()));
        }
        // What a cache does after it has answered is part of the request.
        self.settle().expect("the array is served");
        answers
    }

    fn counts(&self) -> [u64; StepKind::ALL.len()] {
        *self.engine().out().counts()
    }
}

/// In memory; steps end in the order of their latencies or, with dice, in any.
struct InMemory<C> {
    memory: MemoryExecutor<C>,
    dice: Option<TestRng>,
}

impl<C: Controller> Executor for InMemory<C> {
    fn serve(&mut self, requests: &[(HostRequest, Vec<u8>)]) -> Answers {
        for (request, data) in requests {
            self.memory.submit(*request, data).expect("a request in range");
        }
        let mut answers = BTreeMap::new();
        loop {
            while let Some(notice) = self.memory.next_notice() {
                if let HostNotice::Acked { tag, ok } = notice {
                    let read = requests.iter().any(|(request, _)| request.tag == tag && request.op == HostOp::Read);
                    let bytes = if read { self.memory.request_bytes(tag).to_vec() } else { Vec::new() };
                    answers.insert(tag, (ok, bytes));
                }
            }
            if self.memory.is_idle() {
                return answers;
            }
            let runnable = self.memory.runnable() as u64;
            let pick = match &mut self.dice {
                Some(dice) if runnable > 0 => NextStep::At(dice.below(runnable) as usize),
                _ => NextStep::Earliest,
            };
            self.memory.run(pick, &NoCheck).expect("the controller goes on");
        }
    }

    fn counts(&self) -> [u64; StepKind::ALL.len()] {
        *self.memory.engine().out().counts()
    }
}

impl<C: Controller> InMemory<C> {
    fn new(array: &Array, controller: C, dice: Option<TestRng>) -> Self {
        let bytes = array.device_pages().into_iter().map(|pages| (pages * array.page) as usize);
        Self { memory: MemoryExecutor::start(controller, CrashRemains::fresh(bytes), array.shape(), array.depth), dice }
    }
}

/// Device models without bytes.
struct InModels<C>(Simulated<C>);

impl<C: Controller> InModels<C> {
    fn new(array: &Array, controller: C) -> Self {
        let times = FixedTimes { read: Nanos(60_000), write: Nanos(20_000), other: Nanos(500_000), page: Nanos(2_000) };
        let devices = array.device_pages().into_iter().map(|pages| VirtualDevice::fixed(times, pages)).collect();
        Self(Simulated::new(controller, array.shape(), array.depth, devices, StepTimes::default()))
    }
}

impl<C: Controller> Executor for InModels<C> {
    fn serve(&mut self, requests: &[(HostRequest, Vec<u8>)]) -> Answers {
        for (request, _) in requests {
            self.0.submit(self.0.now(), *request).expect("a request in range");
        }
        let mut answers = Answers::new();
        loop {
            while let Some(notice) = self.0.next_notice() {
                if let HostNotice::Acked { tag, ok } = notice {
                    answers.insert(tag, (ok, Vec::new()));
                }
            }
            if !self.0.is_busy() {
                return answers;
            }
            self.0.step();
        }
    }

    fn counts(&self) -> [u64; StepKind::ALL.len()] {
        *self.0.engine().out().counts()
    }
}

fn levels() -> [Array; 4] {
    let large = |array| Array { page: 4096, sector: 512, ..array };
    [
        Array::new(RaidLevel::Raid0, 3),
        large(Array::new(RaidLevel::Raid1, 2)),
        Array::new(RaidLevel::Raid5, 4),
        large(Array::new(RaidLevel::Raid6, 5)),
    ]
}

/// Requests whose ranges do not overlap, so that their order does not matter.
fn batch(dice: &mut TestRng, array: &Array, size: u64, tag: &mut u64) -> Vec<(HostRequest, Vec<u8>)> {
    let sizes = array.sizes();
    let mut batch: Vec<(HostRequest, Vec<u8>)> = Vec::new();
    for _ in 0..size {
        let request = draw(dice, &sizes, *tag);
        let end = |request: &HostRequest| request.offset + request.len;
        // A discard changes whole pages or nothing; nothing else of these pages may be under way,
        // nor is.
        if batch.iter().all(|(other, _)| request.offset >= end(other) || other.offset >= end(&request)) {
            *tag += 1;
            batch.push((request, data(&request, sizes.sector)));
        }
    }
    batch
}

/// Checks what a batch read, and lets it change what the array must hold. Returns the reads that
/// tell what its discards did.
fn check(content: &mut ExpectedContent, batch: &[(HostRequest, Vec<u8>)], answers: &Answers) {
    assert_eq!(answers.len(), batch.len(), "each request is answered once");
    for (request, data) in batch {
        let (ok, read) = &answers[&request.tag];
        assert!(ok, "{request:?} was served");
        if request.op == HostOp::Read {
            assert!(read == content.of(request), "{request:?} read something else");
        }
        content.apply(request, data);
    }
}

/// Both executors answered alike.
fn assert_same(files: &Answers, memory: &Answers, batch: &[(HostRequest, Vec<u8>)]) {
    for (request, _) in batch {
        let (tag, of) =
            (request.tag, |answers: &Answers| answers.get(&request.tag).map(|answer| (answer.0, answer.1.len())));
        assert_eq!(of(files), of(memory), "{request:?} is answered alike");
        assert!(files[&tag].1 == memory[&tag].1, "{request:?} reads the same in both");
    }
}

/// Reads the ranges of a batch's discards.
fn look(batch: &[(HostRequest, Vec<u8>)]) -> Vec<(HostRequest, Vec<u8>)> {
    let discards = batch.iter().filter(|(request, _)| request.op == HostOp::Discard);
    discards.map(|(request, _)| (HostRequest { op: HostOp::Read, ..*request }, Vec::new())).collect()
}

/// A history of so many operations, `size` at a time.
fn history(array: &Array, size: u64, operations: u64, seed: u64) {
    let folder = folder();
    let mut files = array.create(folder.path());
    let order = (size > 1).then(|| TestRng::new(seed ^ 1));
    let mut memory = InMemory::new(array, array.controller(), order);
    let mut models = InModels::new(array, array.controller());
    let mut content = ExpectedContent::new(array.sizes());
    let mut dice = TestRng::new(seed);
    let mut tag = 0;
    // Write caches answer first and destage at their members' pace, and parity that was left behind is updated
    // when there is time: how many pages go together depends on that, and only what they hold in the end does not.
    let destages = array.cache.medium == CacheMedium::Nvram || array.cache.delays_parity || array.cache.holds_dirty;
    while tag < operations {
        let mut requests = batch(&mut dice, array, size, &mut tag);
        if destages {
            // What a discard does depends on how much of it has left the NVRAM.
            requests.retain(|(request, _)| request.op != HostOp::Discard);
            if requests.is_empty() {
                continue;
            }
        }
        let answers = files.serve(&requests);
        check(&mut content, &requests, &answers);
        assert_same(&answers, &memory.serve(&requests), &requests);
        let looks = look(&requests);
        let seen = files.serve(&looks);
        assert_same(&seen, &memory.serve(&looks), &looks);
        for (look, _) in &looks {
            content.discarded(look, &seen[&look.tag].1);
        }
        let answered = models.serve(&requests);
        assert!(requests.iter().all(|(request, _)| answered[&request.tag].0), "the models serve each request");
        assert_eq!(models.serve(&looks).len(), looks.len());
        if size == 1 && !destages {
            let request = requests[0].0;
            assert_eq!(files.counts(), memory.counts(), "steps by kind after {request:?}, in files and in memory");
            assert_eq!(files.counts(), models.counts(), "steps by kind after {request:?}, in files and in models");
        }
    }
    arrays::assert_holds(&mut files, &content, "at the end");
    drop(files.stop_clean().expect("the array stops"));
    memory.memory.control(Control::Clean);
    assert!(memory.serve(&[]).is_empty());
    let view = memory.memory.view();
    for dev in 0..array.members {
        let bytes = std::fs::read(member(folder.path(), dev)).expect("a member's file");
        // Behind the pages is the file's label.
        for (page, bytes) in (0..array.member_pages).zip(bytes.chunks_exact(array.page as usize)) {
            assert!(view.page(Dev(dev), page) == Some(bytes), "page {page} of member {dev} is the same in both");
        }
    }
}

fn operations() -> u64 {
    if soak() { 200_000 } else { 2_000 }
}

/// Every cache over every level, with a seed each.
fn arrays() -> impl Iterator<Item = (Array, u64)> {
    let of = |(cache, seeds)| {
        let with = move |(array, seed)| (Array { cache, cache_pages: 48, ..array }, seed);
        levels().into_iter().zip(seeds..).filter(move |(array, _)| (cache.serves)(array.level)).map(with)
    };
    host_caches().zip((1..).step_by(10)).flat_map(of)
}

#[test]
fn one_at_a_time() {
    for (array, seed) in arrays() {
        history(&array, 1, operations(), seed);
    }
}

#[test]
fn many_at_a_time() {
    for (array, seed) in arrays() {
        history(&Array { depth: 16, ..array }, 16, operations(), 1000 + seed);
    }
}

/// Counts the commands of a trim of the whole array, or of zeros: one for each member and fragment with every executor.
#[test]
fn what_is_trimmed_takes_few_commands() {
    for member_pages in [64, 16_384] {
        for (array, op) in
            levels().into_iter().flat_map(|array| [(array, HostOp::Discard), (array, HostOp::WriteZeroesUnmap)])
        {
            let member_pages = member_pages * 512 / array.page * if array.level == RaidLevel::Raid1 { 4 } else { 1 };
            let array = Array { depth: 8, member_pages, ..array };
            let folder = folder();
            let mut files = array.create(folder.path());
            let mut memory = InMemory::new(&array, array.controller(), None);
            let mut models = InModels::new(&array, array.controller());
            let len = array.shape().bytes();
            // Of whole stripes, in a MiB of so small an array.
            let fragment = array.shape().piece(op, 0, len).bytes;
            assert!(fragment == len || (1 << 19..=1 << 20).contains(&fragment), "{fragment} bytes");
            let fragments = len.div_ceil(fragment);
            let whole = |tag, op| HostRequest { tag, op, offset: 0, len, fua: false };
            let written = [(whole(1, HostOp::Write), vec![7; len as usize])];
            let trimmed = [(whole(2, op), Vec::new())];
            let read = [(whole(3, HostOp::Read), Vec::new())];
            let executors: [&mut dyn Executor; 3] = [&mut files, &mut memory, &mut models];
            for (at, executor) in executors.into_iter().enumerate() {
                executor.serve(&written);
                let before = executor.counts();
                assert!(executor.serve(&trimmed)[&2].0);
                let after = executor.counts();
                let count = |kind: StepKind| after[kind as usize] - before[kind as usize];
                assert_eq!(count(StepKind::Trim), fragments * u64::from(array.members), "{array:?}, executor {at}");
                assert_eq!((count(StepKind::Write), count(StepKind::NvCommit)), (0, 0), "{array:?}");
                // All rows of the large ones are open after the write, and are flushed before others can be.
                assert!(count(StepKind::Intent) <= 1 || fragments > 1, "{array:?}");
                if at < 2 {
                    assert!(executor.serve(&read)[&3].1.iter().all(|byte| *byte == 0), "{array:?}, executor {at}");
                }
            }
            for traffic in files.traffic() {
                assert_eq!(traffic.trims, fragments, "{array:?}");
            }
        }
    }
}
