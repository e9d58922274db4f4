//! Compares the steps of the cache with those of the model.

use std::sync::{Arc, Mutex};

use destage_cache::{CacheFigure, ServedTier, host_cache, serve};
use destage_exec::{CrashRemains, ExecutorConduct, MemoryExecutor, NextStep, NoCheck, StepLatency};
use destage_plan::{Column, Dev, HostNotice, HostOp, HostRequest, Issue, Nanos, Row, Shape as Host, Step};
use destage_testkit::{ArraySizes, ExpectedContent, TestRng, data};

use super::{Case, LONG, PAGE, SECTOR};
use crate::model::{Extent, FIGURES, Frag, Model};

/// Cache and model side by side.
pub struct Pair {
    pub memory: MemoryExecutor<Box<dyn ServedTier>>,
    pub model: Model,
    pub sizes: ArraySizes,
    counted: &'static [CacheFigure],
    /// The requests that were submitted last, the newest at the end.
    pub earlier: Vec<HostRequest>,
    /// Commands of members in flight, in the order of issue, and all that were issued since the
    /// last comparison.
    pub flight: Vec<(Issue, Step)>,
    issued: Arc<Mutex<Vec<(Issue, Step)>>>,
    quick_reads: bool,
    recent: Vec<(Issue, Step)>,
    /// The order of writes of one moment is not the cache's.
    sorts: bool,
    content: ExpectedContent,
    /// Requests under way: their pages, and what a read has to find.
    pub under_way: Vec<(HostRequest, u64, Vec<u8>)>,
    /// Pages that the model has not answered.
    left: Vec<(u64, u64)>,
    /// The cache has said that nothing is in the NVRAM only.
    pub is_clean: bool,
}

/// Limits how many requests later ones may overlap on purpose.
const EARLIER: usize = 8;

/// Returns whether a step reads, and its extent; none if it neither reads nor writes.
fn extent(step: &Step) -> Option<(bool, Extent)> {
    let (reads, ext) = match step {
        Step::Read { ext, .. } => (true, ext),
        Step::Write { ext, .. } | Step::WriteList { ext, .. } => (false, ext),
        _ => return None,
    };
    Some((reads, (ext.dev().index(), ext.first(), u64::from(ext.pages()))))
}

impl Pair {
    pub fn new(case: &Case) -> Self {
        let config = case.config();
        let geometry = config.geometry.clone();
        let stripe = case.shape.chunk * case.shape.data() as u64;
        let sizes = ArraySizes { sector: SECTOR, page: PAGE, stripe, pages: geometry.data_pages() };
        let shape = Host::new(PAGE, SECTOR, stripe, stripe, geometry.data_pages()).expect("a tiny array");
        let controller = serve(&case.cache, &config, case.pages).expect("a cache that can be");
        let remains = CrashRemains::fresh((0..case.shape.members).map(|_| (geometry.member_pages() * PAGE) as usize));
        let mut memory = MemoryExecutor::prepare(controller, remains, shape, 256);
        let none = Nanos(0);
        let read = if case.quick_reads { none } else { LONG };
        memory.set_latency(StepLatency { read, write: LONG, flush: none, quick: none, page: none });
        let issued = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&issued);
        memory.set_tamper(Box::new(move |issue, step| {
            if step.dev().is_some() {
                list.lock().expect("nobody panics over it").push((issue, *step));
            }
            ExecutorConduct::Honest
        }));
        memory.set_collectors(geometry.member_set());
        memory.begin();
        let model = Model::new(case.shape, case.options, case.quick_reads);
        let mut pair = Self {
            memory,
            model,
            sizes,
            counted: host_cache(case.name).expect("it is registered").figures,
            earlier: Vec::new(),
            flight: Vec::new(),
            issued,
            quick_reads: case.quick_reads,
            content: ExpectedContent::new(sizes),
            recent: Vec::new(),
            sorts: case.options.each.is_none() && case.shape.parity() > 0,
            under_way: Vec::new(),
            left: Vec::new(),
            is_clean: false,
        };
        pair.settle();
        pair
    }

    /// Returns true if NVRAM slots are free for dead versions, of which the model knows nothing. They add up
    /// while a page of both layers is rewritten.
    pub fn has_slots(&self, case: &Case) -> bool {
        let both = case.options.upper.is_some() && case.options.each.is_some();
        let used = self.memory.nvram().slots().count();
        !both || used < case.pages as usize + 2 * case.shape.members
    }

    pub fn submit(&mut self, request: HostRequest) {
        let bytes = data(&request, SECTOR);
        self.content.apply(&request, &bytes);
        if self.earlier.len() == EARLIER {
            self.earlier.remove(0);
        }
        self.earlier.push(request);
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
    pub fn settle(&mut self) {
        loop {
            self.note_issues();
            let slow = self.flight.iter().filter(|(_, step)| self.is_slow(step)).count();
            if self.memory.runnable() == slow {
                break;
            }
            self.run(NextStep::Earliest);
        }
        self.model.run_quick();
    }

    /// Returns true if a step does not end before it is picked.
    fn is_slow(&self, step: &Step) -> bool {
        extent(step).is_some_and(|(reads, _)| !reads || !self.quick_reads)
    }

    fn run(&mut self, pick: NextStep) {
        let ran = self.memory.run(pick, &NoCheck).expect("the controller goes on");
        if let Some(ran) = ran
            && ran.step.dev().is_some()
        {
            let at = self.flight.iter().position(|(issue, step)| issue.op == ran.op && *step == ran.step);
            self.flight.remove(at.expect("it was issued"));
        }
    }

    /// A member has done something that is drawn.
    pub fn end_one(&mut self, dice: &mut TestRng) {
        self.end_at(dice.below(self.flight.len() as u64) as usize);
    }

    /// Ends the command of a member at this place in the order of issue.
    pub fn end_at(&mut self, at: usize) {
        let step = extent(&self.flight[at].1);
        let before = self.flight[..at].iter().filter(|(_, other)| extent(other) == step).count();
        let (reads, extent) = step.expect("all else has ended");
        self.run(NextStep::At(at));
        self.model.now = self.memory.now().0;
        self.model.end_of(reads, extent, before);
    }

    /// A part of a member begins or ends a collection.
    pub fn collect(&mut self, dice: &mut TestRng) {
        let (member, part, on) = (dice.below(self.model.shape.members as u64), dice.below(2), dice.below(2) == 0);
        self.memory.device_gc(Dev(member as u8), part as u16, on, 1);
        self.model.collects(member as usize, part as u16, on);
    }

    /// Nothing happens until a timer goes off; whether one does.
    pub fn wait(&mut self) -> bool {
        let timer = self.memory.engine().next_timer().is_some_and(|at| at < LONG);
        if timer {
            self.run(NextStep::Earliest);
            self.model.now = self.memory.now().0;
            self.model.timer();
        }
        timer
    }

    /// Both have done the same since the last comparison.
    pub fn compare(&mut self) -> Result<(), String> {
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
        let by_model = |name| FIGURES.iter().position(|figure| *figure == name).map(|at| self.model.figures[at]);
        let figures = self.counted.iter().map(|figure| by_model(figure.name).expect("a figure that it knows"));
        same("figures", &cache.figures()[..], &figures.collect::<Vec<_>>()[..])?;
        let counts = cache.counts().expect("they are counted");
        let hits = [counts.read_hits, counts.read_misses, counts.write_hits, counts.write_misses];
        same("read hits and misses, write hits and misses", &hits[..], &self.model.hits)
    }

    /// Members hold what was written, and the parity of that.
    pub fn check_members(&self, case: &Case) -> Result<(), String> {
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
                let place = destage_raid::PagePlace { stripe, row_in_chunk: first, column: Column(column as u8) };
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

fn same<T: PartialEq + std::fmt::Debug + ?Sized, U: std::borrow::Borrow<T> + ?Sized>(
    what: &str,
    cache: &T,
    model: &U,
) -> Result<(), String> {
    if cache == model.borrow() { Ok(()) } else { Err(format!("{what}: {cache:?}, by the model {:?}", model.borrow())) }
}
