//! A naive model of the write caches, written from specs §8, of which §8.10 wins, and from LAWC's
//! Algorithm 1: plain lists, searched from end to end, and no bytes. It says what members are asked for
//! and in which order, which requests are answered, and what is counted.
//!
//! Where §8 leaves something open the model follows the code:
//! * What §8.7 calls a request is a fragment: what a request has in one stripe, or a part of one page.
//! * An event of §8.10.7 is a step that ends; a commit of the NVRAM is one, and commits end in the order
//!   of issue. What was let in and is not in the NVRAM so far keeps its entry from being destaged.
//! * What of a row is in the small cache, or in WOW, when its part of a destage begins goes along, be it
//!   younger than the decision, as §8.10.18 has it of strips.
//! * An operation of the array writes after all its reads (docs/internals/plans.md), not run by run as in
//!   §8.10.12, and WOW's rows are operations of their own.
//! * Without parity only writes of the same pages wait for each other, not those of the same row.
//! * WOW admits pages one by one in ascending order, as space is freed (§8.0; A2b). Those that enter at a time are stored by
//!   operations of rows of the same columns. With `admits_rows` it makes room for all pages of a row before the first of
//!   them enters.
//! * §8.10.28 is about the end of a simulation; after the order to be clean all goes without delay.
//!
//! [`SpecReading::Paper`] departs from that where a request has several pieces:
//! * A request's own earlier pages are no hit on its group, be they parts of pages (§8.10, 8), and the request is
//!   sequential or not as a whole (§8.2).
//! * LAWC stores a request in the small cache, passes it on or has it wait as a whole (§8.7; Algorithm 1, lines 3 to 11).

mod ops;
mod policy;
mod pool;
mod requests;
mod runs;
mod shape;
mod stow;
mod sync;

use std::collections::VecDeque;

use crate::spec_reading::SpecReading;

use pool::{Entry, Pool};
pub use shape::{Cell, Frag, Method, Options, Shape};
use stow::Apart;
pub use stow::Stow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Read,
    Write,
    Nvram,
}

/// Identifies what a member is asked for: device, first page, pages.
pub type Extent = (usize, u64, u64);

#[derive(Clone, Copy, Debug)]
struct Step {
    op: usize,
    what: What,
    extent: Extent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Reads,
    Computes,
    Changes,
}

#[derive(Clone, Debug)]
enum Kind {
    Read(Frag),
    /// Data into the upper layer.
    Store(Frag),
    /// Data into the lower layer, with its parity.
    Absorb(Frag),
    /// A row of a group into the lower layer.
    Move(u64),
    /// A row of a group, with its parity.
    WriteBack(u64),
    /// Pages of a group of an array without parity.
    Column(u64),
    /// A strip of a member.
    Strip(usize, u64),
}

/// Stripe, rows from and up to, columns that are read, columns that are written.
type Claim = (u64, u64, u64, Vec<usize>, Vec<usize>);

#[derive(Clone, Debug)]
struct Op {
    kind: Kind,
    claim: Option<Claim>,
    granted: bool,
    done: bool,
    /// Steps that have not ended.
    left: usize,
    cells: Vec<Cell>,
    /// The versions that are moved, or written.
    versions: Vec<u64>,
    /// Names what it waits for: reads, computation, or writes and commits.
    phase: Phase,
    /// Steps one after the other that make its parity.
    parity_steps: usize,
    /// Is its request, which decides about recency bits.
    request: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    frag: Frag,
    id: u64,
    sequential: bool,
    entered: usize,
    seen: bool,
}

enum Event {
    Submit(Vec<Frag>),
    Granted(usize),
    Ended(usize),
    Clean,
}

/// Names the counters, of which a cache may omit some.
pub const FIGURES: [&str; 11] = [
    "destages",
    "destaged_pages",
    "together",
    "timeouts",
    "released_full",
    "bypassed",
    "waited",
    "sequential",
    "sequential_destages",
    "sync_waits",
    "sync_timeout",
];

/// The model.
pub struct Model {
    pub shape: Shape,
    options: Options,
    upper: Pool,
    apart: Option<Apart>,
    /// First page and end of each run of writes, that which grew last first.
    runs: Vec<(u64, u64)>,
    /// The group before was of a run, and so was what could have been next since.
    run_goes_on: bool,
    /// Groups that are destaged, rows or columns of them that are left, and the members that they
    /// are written to.
    groups: Vec<(u64, usize, Vec<usize>)>,
    /// Groups that wait for others.
    chosen: Vec<u64>,
    members: Vec<Pool>,
    candidates: Vec<Option<u64>>,
    writing: Vec<bool>,
    deadline: Option<u64>,
    /// Is the moving average of the time that collections took.
    timeout: Option<u64>,
    ops: Vec<Op>,
    events: VecDeque<Event>,
    quick: VecDeque<Step>,
    /// Holds the operations that compute, each with its number of steps. They finish before anything else ends.
    computing: VecDeque<(usize, usize)>,
    flight: Vec<Step>,
    /// Is true if reads are quick.
    quick_reads: bool,
    waiting: Vec<Waiting>,
    /// Requests, or pieces of them, that wait for others on the same pages.
    held: Vec<Vec<Frag>>,
    look_again: bool,
    entering: Vec<usize>,
    /// An operation that has ended: others wait for its claim until this is over.
    closed: Option<usize>,
    /// The versions in the two layers.
    above: Vec<(Cell, u64)>,
    below: Vec<(Cell, u64)>,
    version: u64,
    ids: u64,
    /// By the paper's reading: the request of which a piece began last, its number, and whether it is sequential.
    begun: Option<(u64, u64, bool)>,
    clean: bool,
    pub now: u64,
    pub reads: Vec<Extent>,
    pub writes: Vec<Extent>,
    /// Pages of requests that were answered.
    pub answered: Vec<(u64, u64)>,
    /// Collections that have begun: device, part, when.
    collecting: Vec<(usize, u16, u64)>,
    /// In the order of [`FIGURES`].
    pub figures: [u64; FIGURES.len()],
    /// Read hits and misses, write hits and misses.
    pub hits: [u64; 4],
}

fn find(versions: &[(Cell, u64)], cell: Cell) -> Option<u64> {
    versions.iter().find(|(other, _)| *other == cell).map(|(_, version)| *version)
}

fn set(versions: &mut Vec<(Cell, u64)>, cell: Cell, version: u64) {
    versions.retain(|(other, _)| *other != cell);
    versions.push((cell, version));
}

/// Pages of consecutive rows of the same column.
fn runs(cells: &[Cell]) -> Vec<Vec<Cell>> {
    let follows = |a: &Cell, b: &Cell| a.1 == b.1 && a.0 + 1 == b.0;
    cells.chunk_by(follows).map(<[Cell]>::to_vec).collect()
}

impl Model {
    pub fn new(shape: Shape, options: Options, quick_reads: bool) -> Self {
        let members = vec![Pool::new(options.each.unwrap_or(0), options.recency_on_insert); shape.members];
        Self {
            shape,
            options,
            upper: Pool::new(options.upper.unwrap_or(0), false),
            apart: options.stow.map(|of| Apart::new(of, options.upper.unwrap_or(0))),
            runs: Vec::new(),
            run_goes_on: false,
            groups: Vec::new(),
            chosen: Vec::new(),
            members,
            candidates: vec![None; shape.members],
            writing: vec![false; shape.members],
            deadline: None,
            timeout: None,
            ops: Vec::new(),
            events: VecDeque::new(),
            quick: VecDeque::new(),
            computing: VecDeque::new(),
            flight: Vec::new(),
            quick_reads,
            waiting: Vec::new(),
            held: Vec::new(),
            look_again: false,
            entering: Vec::new(),
            closed: None,
            above: Vec::new(),
            below: Vec::new(),
            version: 0,
            ids: 0,
            begun: None,
            clean: false,
            now: 0,
            reads: Vec::new(),
            writes: Vec::new(),
            answered: Vec::new(),
            collecting: Vec::new(),
            figures: [0; FIGURES.len()],
            hits: [0; 4],
        }
    }

    /// A request comes, in pieces.
    pub fn submit(&mut self, frags: &[Frag]) {
        if self.reads_paper() && !frags[0].reads {
            self.events.push_back(Event::Submit(frags.to_vec()));
        } else {
            self.events.extend(frags.iter().map(|frag| Event::Submit(vec![*frag])));
        }
        self.go_on();
    }

    pub(super) fn reads_paper(&self) -> bool {
        self.options.reading == SpecReading::Paper
    }

    /// The order to hold nothing any more.
    pub fn be_clean(&mut self) {
        self.events.push_back(Event::Clean);
        self.go_on();
    }

    /// A part of a member begins or ends a collection.
    pub fn collects(&mut self, member: usize, part: u16, on: bool) {
        let at = self.collecting.iter().position(|(other, of, _)| (*other, *of) == (member, part));
        if on && at.is_none() {
            self.collecting.push((member, part, self.now));
        } else if let (false, Some(at)) = (on, at) {
            let took = (self.now - self.collecting.remove(at).2).clamp(10_000, 1_000_000_000);
            self.timeout = Some(self.timeout.map_or(took, |mean| (7 * mean + took) / 8));
        }
        self.timer();
    }

    /// All steps that take no time end.
    pub fn run_quick(&mut self) {
        while let Some(step) = self.quick.pop_front() {
            self.end(step);
        }
    }

    /// A step of a member ends: of those that are the same, the one that has so many before it.
    pub fn end_of(&mut self, reads: bool, extent: Extent, before: usize) {
        let is = |step: &Step| step.extent == extent && (step.what == What::Read) == reads;
        let mut same = self.flight.iter().enumerate().filter(|(_, step)| is(step));
        let (at, _) = same.nth(before).expect("the model asked for it, too");
        let step = self.flight.remove(at);
        self.end(step);
        self.timer();
    }

    /// Time has come to this, and nothing else happens.
    pub fn timer(&mut self) {
        self.turn();
        self.go_on();
    }

    fn end(&mut self, step: Step) {
        let op = &mut self.ops[step.op];
        op.left -= 1;
        if op.left == 0 {
            self.events.push_back(Event::Ended(step.op));
        }
        self.go_on();
    }

    fn issue(&mut self, op: usize, what: What, extent: Extent) {
        let step = Step { op, what, extent };
        self.ops[op].left += 1;
        match what {
            What::Read => self.reads.push(extent),
            What::Write => self.writes.push(extent),
            What::Nvram => {}
        }
        if what == What::Nvram || what == What::Read && self.quick_reads {
            self.quick.push_back(step);
        } else {
            self.flight.push(step);
        }
    }

    fn issue_pages(&mut self, op: usize, what: What, cells: &[Cell]) {
        let (row, column) = cells[0];
        let member = self.shape.member(row / self.shape.chunk, column);
        self.issue(op, what, (member, row, cells.len() as u64));
    }

    fn go_on(&mut self) {
        loop {
            let Some(event) = self.events.pop_front() else {
                let Some((op, steps)) = self.computing.pop_front() else { return };
                if steps == 1 {
                    self.events.push_back(Event::Ended(op));
                } else {
                    self.computing.push_back((op, steps - 1));
                }
                continue;
            };
            match event {
                Event::Submit(frags) if frags.iter().any(|frag| self.waits(frag, self.held.len())) => {
                    self.held.push(frags);
                }
                Event::Submit(frags) => self.begin_all(&frags),
                Event::Granted(op) => self.plan(op),
                Event::Ended(op) => {
                    if !self.phase_ended(op) {
                        continue;
                    }
                }
                Event::Clean => self.clean = true,
            }
            self.turn();
            while self.let_go() {
                self.turn();
            }
            if let Some(op) = self.closed.take() {
                self.ops[op].done = true;
                self.grant();
            }
        }
    }

    /// State, those who wait, decisions (§8.10.7).
    fn turn(&mut self) {
        self.enter();
        if std::mem::take(&mut self.look_again) {
            if self.options.each.is_none() {
                self.let_in_wow();
            } else {
                self.let_in_small();
            }
        }
        self.destage_groups();
        self.destage_strips();
    }
}
