//! The write caches against a naive model, over many random requests, and what the members hold at the
//! end against what was written (specs §8, §12.2).
//!
//! What happens is that a request comes, that a member has done a command, or that time passes; after each
//! all else that is under way ends, in one of two modes reads of members, too. Then both are compared: what
//! members were asked for, in order, what was answered, and what is counted.

mod common;
mod model;

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use common::{Content, Dice, Sizes, data};
use destage_cache::{Served, serve};
use destage_exec::{Conduct, Latency, Log, Memory, NoCheck, Pick, Remains};
use destage_plan::{Column, Control, HostNotice, HostOp, HostRequest, Issue, Nanos, Row, Shape as Host, Step};
use destage_raid::array::{ArrayConfig, ParityMethod};
use destage_raid::{Geometry, Level};
use model::{Extent, Frag, Method, Model, Options, Shape};

const PAGE: u64 = 64;
const SECTOR: u64 = 16;
/// What is not to end before it is picked lasts so long.
const LONG: Nanos = Nanos(1 << 60);

/// A case: an array, a cache, and how it is driven.
struct Case {
    shape: Shape,
    stripes: u64,
    cache: String,
    pages: u64,
    options: Options,
    quick_reads: bool,
    depth: usize,
}

fn level(of: u8) -> Level {
    match of {
        0 => Level::Raid0,
        4 => Level::Raid4,
        5 => Level::Raid5,
        _ => Level::Raid6,
    }
}

impl Case {
    fn config(&self) -> ArrayConfig {
        let Shape { level: of, members, chunk } = self.shape;
        let geometry = Geometry::new(level(of), None, members as u32, chunk as u32, self.stripes * chunk);
        let mut config = ArrayConfig::new(geometry.expect("a shape that can be"));
        config.idle_flush = LONG;
        config.parity = match self.options.method {
            Method::Min => ParityMethod::Min,
            Method::Rmw => ParityMethod::Rmw,
            Method::Rcw => ParityMethod::Rcw,
        };
        config
    }

    /// A case of a cache at a level.
    fn draw(cache: &str, of: u8, dice: &mut Dice) -> Self {
        let least = [2, 0, 0, 0, 3, 3, 4][usize::from(of)];
        let shape = Shape { level: of, members: dice.within(least, 6) as usize, chunk: dice.within(1, 4) };
        let (n, k) = (shape.members as u64, shape.data() as u64);
        let (mut options, mut text) = (Options::default(), cache.to_owned());
        let mut pages = dice.within(1, 4 * n);
        if cache == "wow" {
            pages = pages.max(k);
            options.upper = Some(pages as usize);
            let (low, high, groups) =
                [(0, 0, 1), (0, 0, 3), (50, 50, 2), (30, 80, 4), (80, 90, 20), (0, 100, 2)][dice.below(6) as usize];
            (options.low, options.high, options.groups) = (low, high, groups);
            write!(text, ":low={low}:high={high}:groups={groups}").expect("a string");
        } else {
            let small = if cache == "lawc" { [0, 10, 25, 50, 75][dice.below(5) as usize] } else { 0 };
            pages = pages.max(n);
            while pages - pages * small / 100 < n {
                pages += 1;
            }
            let upper = pages * small / 100;
            options.each = Some(((pages - upper) / n) as usize);
            options.groups = 1;
            options.recency_on_insert = dice.below(3) > 0;
            text += if options.recency_on_insert { ":recency=store" } else { ":recency=hit" };
            if cache == "lawc" {
                options.upper = Some(upper as usize);
                write!(text, ":small={small}").expect("a string");
            }
            if cache != "iwc" {
                options.sync = true;
                let microseconds = [0, 2, 10, 100, 1_000_000][dice.below(5) as usize];
                options.timeout = microseconds * 1_000;
                options.since_first_ready = microseconds == 0 || dice.below(2) == 0;
                options.on_full = dice.below(2) == 0;
                options.empty_blocks = dice.below(2) == 0;
                let timer = if options.since_first_ready { "ready" } else { "release" };
                let full = if options.on_full { "release" } else { "wait" };
                let empty = if options.empty_blocks { "wait" } else { "skip" };
                write!(text, ":timeout={microseconds}us:timer={timer}:full={full}:empty={empty}").expect("a string");
            }
        }
        options.method = [Method::Min, Method::Min, Method::Rmw, Method::Rcw][dice.below(4) as usize];
        let stripes = dice.within(2, 8);
        let depth = dice.within(1, 12) as usize;
        Self { shape, stripes, cache: text, pages, options, quick_reads: dice.below(2) == 0, depth }
    }
}

/// Cache and model side by side.
struct Pair {
    memory: Memory<Box<dyn Served>>,
    model: Model,
    sizes: Sizes,
    /// Commands of members in flight, in the order of issue, and all that were issued since the last comparison.
    flight: Vec<(Issue, Step)>,
    issued: Arc<Mutex<Vec<(Issue, Step)>>>,
    quick_reads: bool,
    recent: Vec<(Issue, Step)>,
    /// The order of writes of one moment is not the cache's.
    sorts: bool,
    content: Content,
    /// Requests under way: their pages, and what a read has to find.
    under_way: Vec<(HostRequest, u64, Vec<u8>)>,
    /// Pages that the model has not answered.
    left: Vec<(u64, u64)>,
    /// The cache has said that nothing is in the NVRAM only.
    is_clean: bool,
}

/// Whether a step reads, and what; none if it does neither that nor write.
fn extent(step: &Step) -> Option<(bool, Extent)> {
    let (reads, ext) = match step {
        Step::Read { ext, .. } => (true, ext),
        Step::Write { ext, .. } | Step::WriteList { ext, .. } => (false, ext),
        _ => return None,
    };
    Some((reads, (ext.dev().index(), ext.first(), u64::from(ext.pages()))))
}

impl Pair {
    fn new(case: &Case) -> Self {
        let config = case.config();
        let geometry = config.geometry.clone();
        let stripe = case.shape.chunk * case.shape.data() as u64;
        let sizes = Sizes { sector: SECTOR, page: PAGE, stripe, pages: geometry.data_pages() };
        let shape = Host::new(PAGE, SECTOR, stripe, stripe, geometry.data_pages()).expect("a tiny array");
        let controller = serve(&case.cache, &config, case.pages).expect("a cache that can be");
        let remains = Remains::fresh((0..case.shape.members).map(|_| (geometry.member_pages() * PAGE) as usize));
        let mut memory = Memory::prepare(controller, remains, shape, 256);
        let none = Nanos(0);
        let read = if case.quick_reads { none } else { LONG };
        memory.set_latency(Latency { read, write: LONG, flush: none, quick: none, page: none });
        let issued = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&issued);
        memory.set_tamper(Box::new(move |issue, step| {
            if step.dev().is_some() {
                list.lock().expect("nobody panics over it").push((issue, *step));
            }
            Conduct::Honest
        }));
        memory.begin();
        let model = Model::new(case.shape, case.options, case.quick_reads);
        let mut pair = Self {
            memory,
            model,
            sizes,
            flight: Vec::new(),
            issued,
            quick_reads: case.quick_reads,
            content: Content::new(sizes),
            recent: Vec::new(),
            sorts: case.options.each.is_none() && case.shape.parity() > 0,
            under_way: Vec::new(),
            left: Vec::new(),
            is_clean: false,
        };
        pair.settle();
        pair
    }

    /// Whether slots of the NVRAM are free for versions that are of no use any more: the model knows nothing of
    /// these. They add up while a page of both layers is written again and again.
    fn has_slots(&self, case: &Case) -> bool {
        let both = case.options.upper.is_some() && case.options.each.is_some();
        let used = self.memory.nvram().slots().count();
        !both || used < case.pages as usize + 2 * case.shape.members
    }

    fn submit(&mut self, request: HostRequest) {
        let bytes = data(&request, SECTOR);
        self.content.apply(&request, &bytes);
        let reads = request.op == HostOp::Read;
        let found = if reads { self.content.of(&request).to_vec() } else { Vec::new() };
        let (mut pages, mut frags) = (0, Vec::new());
        let (mut at, end) = (request.offset, request.offset + request.len);
        while at < end {
            let page = at / PAGE;
            let next = if at % PAGE > 0 || end - at < PAGE {
                end.min((page + 1) * PAGE)
            } else {
                (end / PAGE * PAGE).min((page / self.sizes.stripe + 1) * self.sizes.stripe * PAGE)
            };
            let part = next - at < PAGE;
            let frag = Frag { request: request.tag, reads, page, pages: (next - at).div_ceil(PAGE), part };
            pages += frag.pages;
            frags.push(frag);
            at = next;
        }
        self.model.submit(&frags);
        self.under_way.push((request, pages, found));
        self.left.push((request.tag, pages));
        self.memory.submit(request, &bytes).expect("a request in range");
    }

    fn note_issues(&mut self) {
        let issued = std::mem::take(&mut *self.issued.lock().expect("nobody panics over it"));
        self.flight.extend(&issued);
        self.recent.extend(&issued);
    }

    /// Lets all end that takes no time.
    fn settle(&mut self) {
        loop {
            self.note_issues();
            let slow = self.flight.iter().filter(|(_, step)| self.is_slow(step)).count();
            if self.memory.runnable() == slow {
                break;
            }
            self.run(Pick::Earliest);
        }
        self.model.run_quick();
    }

    /// Whether a step does not end before it is picked.
    fn is_slow(&self, step: &Step) -> bool {
        extent(step).is_some_and(|(reads, _)| !reads || !self.quick_reads)
    }

    fn run(&mut self, pick: Pick) {
        let ran = self.memory.run(pick, &NoCheck).expect("the controller goes on");
        if let Some(ran) = ran
            && ran.step.dev().is_some()
        {
            let at = self.flight.iter().position(|(issue, step)| issue.op == ran.op && *step == ran.step);
            self.flight.remove(at.expect("it was issued"));
        }
    }

    /// A member has done something that is drawn.
    fn end_one(&mut self, dice: &mut Dice) {
        let at = dice.below(self.flight.len() as u64) as usize;
        let step = extent(&self.flight[at].1);
        let before = self.flight[..at].iter().filter(|(_, other)| extent(other) == step).count();
        let (reads, extent) = step.expect("all else has ended");
        self.run(Pick::At(at));
        self.model.now = self.memory.now().0;
        self.model.end_of(reads, extent, before);
    }

    /// Nothing happens until a timer goes off; whether one does.
    fn wait(&mut self) -> bool {
        let timer = self.memory.engine().next_timer().is_some_and(|at| at < LONG);
        if timer {
            self.run(Pick::Earliest);
            self.model.now = self.memory.now().0;
            self.model.timer();
        }
        timer
    }

    /// Both have done the same since the last comparison.
    fn compare(&mut self) -> Result<(), String> {
        let fresh: Vec<_> = self.recent.drain(..).filter_map(|(_, step)| extent(&step)).collect();
        let of = |reads: bool| fresh.iter().filter(|step| step.0 == reads).map(|step| step.1).collect::<Vec<_>>();
        let mut reads = of(true);
        reads.sort_unstable();
        self.model.reads.sort_unstable();
        same("reads", &reads, &std::mem::take(&mut self.model.reads))?;
        let mut writes = of(false);
        if self.sorts {
            // Rows that are written with their parity wait for their intents, if these are not set.
            writes.sort_unstable();
            self.model.writes.sort_unstable();
        }
        same("writes", &writes, &std::mem::take(&mut self.model.writes))?;
        let mut answered = Vec::new();
        while let Some(notice) = self.memory.next_notice() {
            // It says nothing of requests that are under way.
            self.is_clean |= notice == HostNotice::Clean && self.under_way.is_empty();
            let HostNotice::Acked { tag, ok, .. } = notice else { continue };
            answered.push(tag);
            let at = self.under_way.iter().position(|(request, ..)| request.tag == tag).expect("it was asked for");
            let (request, _, found) = self.under_way.remove(at);
            if !ok || request.op == HostOp::Read && self.memory.request_bytes(tag) != found {
                return Err(format!("wrong bytes, or none, for {request:?}"));
            }
        }
        for (tag, pages) in std::mem::take(&mut self.model.answered) {
            let (_, left) = self.left.iter_mut().find(|(other, _)| *other == tag).expect("it was asked for");
            *left -= pages;
        }
        let mut by_model: Vec<u64> = self.left.iter().filter(|(_, left)| *left == 0).map(|(tag, _)| *tag).collect();
        self.left.retain(|(_, left)| *left > 0);
        answered.sort_unstable();
        by_model.sort_unstable();
        same("answered", &answered, &by_model)?;
        let cache = self.memory.engine().controller();
        same("figures", &cache.figures()[..], &self.model.figures)?;
        let counts = cache.counts().expect("they are counted");
        let hits = [counts.read_hits, counts.read_misses, counts.write_hits, counts.write_misses];
        same("read hits and misses, write hits and misses", &hits[..], &self.model.hits)
    }

    /// Members hold what was written, and the parity of that.
    fn check_members(&self, case: &Case) -> Result<(), String> {
        let (view, config) = (self.memory.view(), case.config());
        let geometry = &config.geometry;
        for row in 0..geometry.member_pages() {
            let (stripe, first) = geometry.stripe_of(Row(row));
            let page = |column: usize| {
                let dev = geometry.device(stripe, Column(column as u8));
                view.page(dev, row).expect("no member is lost")
            };
            let (mut p, mut q) = ([0; PAGE as usize], [0; PAGE as usize]);
            for column in 0..case.shape.data() {
                let place = destage_raid::Place { stripe, row_in_chunk: first, column: Column(column as u8) };
                let at = (geometry.page_of(place) * PAGE) as usize;
                let data = page(column);
                if data != &self.content.bytes()[at..at + PAGE as usize] {
                    return Err(format!("row {row}, column {column} is not what was written"));
                }
                for (at, byte) in data.iter().enumerate() {
                    p[at] ^= byte;
                    q[at] ^= (0..column).fold(*byte, |byte, _| byte << 1 ^ if byte >> 7 == 1 { 0x1D } else { 0 });
                }
            }
            for (parity, column) in [p, q].iter().zip(case.shape.data()..case.shape.members) {
                if page(column) != parity {
                    return Err(format!("row {row}: parity {column} is not that of the data"));
                }
            }
        }
        Ok(())
    }
}

fn same<T: PartialEq + std::fmt::Debug + ?Sized, U: std::borrow::Borrow<T>>(
    what: &str,
    cache: &T,
    model: &U,
) -> Result<(), String> {
    if cache == model.borrow() { Ok(()) } else { Err(format!("{what}: {cache:?}, by the model {:?}", model.borrow())) }
}

/// A request near others: from a sector to more than the cache.
fn draw(dice: &mut Dice, case: &Case, sizes: &Sizes, tag: u64) -> HostRequest {
    let op = match dice.below(20) {
        0..=13 => HostOp::Write,
        14 => HostOp::WriteZeroes,
        _ => HostOp::Read,
    };
    let all = sizes.pages;
    let room = if dice.below(2) == 0 { all } else { all.div_ceil(4) };
    let first = dice.below(room);
    let pages = match dice.below(8) {
        0..=4 => dice.within(1, 3),
        5 | 6 => dice.within(1, sizes.stripe + 1),
        _ => dice.within(1, 2 * case.pages + 1),
    };
    let (mut offset, mut len) = (first * PAGE, pages.min(all - first) * PAGE);
    if dice.below(6) == 0 {
        let cut = dice.below(PAGE / SECTOR) * SECTOR;
        offset += cut;
        len -= cut;
        len -= dice.below((len.min(PAGE) - 1) / SECTOR + 1) * SECTOR;
    }
    HostRequest { tag, op, offset, len, fua: false }
}

/// Runs a case for so many events, and then to its end; what went wrong after how many.
fn run(cache: &str, of: u8, seed: u64, events: u64, log: &Log) -> Result<u64, (u64, String)> {
    let mut dice = Dice::new(seed << 8 | u64::from(of));
    let case = Case::draw(cache, of, &mut dice);
    let mut pair = Pair::new(&case);
    pair.memory.keep_log(Arc::clone(log));
    let mut requests = 0;
    for event in 0..events {
        let may = pair.under_way.len() < case.depth && pair.has_slots(&case);
        if may && (pair.flight.is_empty() || dice.below(3) == 0) {
            requests += 1;
            pair.submit(draw(&mut dice, &case, &pair.sizes, requests));
        } else if !pair.flight.is_empty() {
            pair.end_one(&mut dice);
        } else if pair.wait() {
        } else if pair.under_way.is_empty() {
            requests += 1;
            pair.submit(draw(&mut dice, &case, &pair.sizes, requests));
        } else {
            return Err((event + 1, "requests wait for ever".to_owned()));
        }
        pair.settle();
        pair.compare().map_err(|why| (event + 1, why))?;
    }
    pair.memory.control(Control::Clean);
    pair.model.be_clean();
    let mut clean = |pair: &mut Pair| {
        pair.settle();
        pair.compare()?;
        while !pair.flight.is_empty() {
            if pair.is_clean {
                return Err("it is said to be clean, and members are at work".to_owned());
            }
            pair.end_one(&mut dice);
            pair.settle();
            pair.compare()?;
        }
        if !pair.is_clean {
            pair.memory.control(Control::Clean);
            pair.settle();
            pair.compare()?;
        }
        if !pair.is_clean || pair.memory.nvram().slots().next().is_some() {
            return Err("it is not clean".to_owned());
        }
        if !pair.under_way.is_empty() {
            return Err(format!("{} requests are never answered", pair.under_way.len()));
        }
        pair.check_members(&case)
    };
    clean(&mut pair).map_err(|why| (events, why))?;
    Ok(requests)
}

fn try_all(cache: &str) {
    let (first, seeds) = (number("MODEL_FROM", 0), number("MODEL_SEEDS", if common::soak() { 2_600 } else { 16 }));
    for of in [0, 4, 5, 6] {
        let mut requests = 0;
        for seed in first..first + seeds {
            let log = Log::default();
            let all = |events| {
                log.lock().unwrap_or_else(PoisonError::into_inner).clear();
                let all = catch_unwind(AssertUnwindSafe(|| run(cache, of, seed, events, &log)));
                all.unwrap_or_else(|_| Err((events, "a panic".to_owned())))
            };
            match all(EVENTS) {
                Ok(more) => requests += more,
                Err((found, _)) => {
                    // What is found at the end may be there before.
                    let least = (0..=found).find_map(|events| all(events).err());
                    let (events, why) = least.expect("it was found before");
                    log.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|line| println!("{line}"));
                    let mut dice = Dice::new(seed << 8 | u64::from(of));
                    let Case { cache, shape, stripes, pages, quick_reads, depth, .. } =
                        Case::draw(cache, of, &mut dice);
                    panic!(
                        "MODEL_FROM={seed}: {cache} of {pages} pages, {shape:?}, {stripes} stripes, {depth} requests, \
                         quick reads {quick_reads}: after {events} events: {why}"
                    );
                }
            }
        }
        println!("{cache} over RAID-{of}: {requests} requests, {} events", seeds * EVENTS);
    }
}

fn number(name: &str, unless: u64) -> u64 {
    std::env::var(name).map_or(unless, |text| text.parse().expect("a number"))
}

/// Events of a case before it is brought to its end.
const EVENTS: u64 = 400;

#[test]
fn wow() {
    try_all("wow");
}

#[test]
fn iwc() {
    try_all("iwc");
}

#[test]
fn synchronised_iwc() {
    try_all("sync+iwc");
}

#[test]
fn lawc() {
    try_all("lawc");
}
