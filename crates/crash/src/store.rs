//! The file executor's NVRAM and intents, cut: what docs/assumptions.md takes for granted of an
//! NVRAM, of the files that stand for one. Steps take effect whole, in the order of issue, and are
//! durable when done; what a start has found, it stays.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use destage_exec::{
    CrashPoint, DeviceConfig, DeviceOptions, ExecutorFault, ExistingFiles, FileExecutor, FilesConfig, FilesError,
    IoFault, RecordingOs, RowSet,
};
use destage_plan::{
    Buf, Class, Control, Controller, Event, Frag, HostOp, HostRequest, NvPut, NvSlot, OpId, Out, Row, Rows, Shape,
    Span, Step, StepSet, Tag,
};

use crate::RandomDraws;
use crate::caught::caught;
use crate::files::FilesFailure;

const PAGE: u64 = 1024;
const SECTOR: u64 = 128;
/// Three sectors of the file, the last one in part.
const ROWS: u64 = 10_000;
/// Slots that a commit puts at most.
const MOST_PUTS: u64 = 4;
/// Counts the moments of which one is stopped in order, too.
const STOPPED: u64 = 8;

/// Describes a plan that the host has the controller carry out.
#[derive(Clone, Debug)]
enum StorePlan {
    /// Each put has a page of the request, of which so many bytes are put.
    Commit {
        puts: Vec<(NvSlot, u32)>,
        frees: Vec<NvSlot>,
    },
    Intent {
        rows: Rows,
        set: bool,
    },
    /// So many bytes of a slot.
    Read(NvSlot, u32),
}

type StorePlans = Arc<Mutex<VecDeque<StorePlan>>>;

/// Holds the slots with their tags, and the rows with an intent, that a start found.
#[derive(Clone, Debug, Default)]
struct FoundStore {
    slots: BTreeMap<u32, (u32, Tag)>,
    intents: Vec<Rows>,
}

/// Plans what it is told, in order.
struct StoreKeeper {
    plans: StorePlans,
    found: Arc<Mutex<FoundStore>>,
    frags: Vec<Option<Frag>>,
}

impl StoreKeeper {
    fn plan(&self, frag: Frag, op: OpId, out: &mut Out) {
        let plan = self.plans.lock().unwrap_or_else(PoisonError::into_inner).pop_front().expect("a plan per request");
        let step = match plan {
            StorePlan::Commit { puts, frees } => {
                let put = |(&(slot, len), page): (&(NvSlot, u32), u16)| {
                    let src = if len == 0 { Buf::None } else { frag.host(page) };
                    NvPut { slot, tag: tag(slot), src, len }
                };
                let puts: Vec<_> = puts.iter().zip(0..).map(put).collect();
                Step::NvCommit { puts: out.puts(op, &puts), frees: out.slots(op, &frees) }
            }
            StorePlan::Intent { rows, set } => Step::Intent { rows: out.rows(op, &[rows]), set },
            StorePlan::Read(slot, len) => {
                let parts = out.spans(op, &[Span { buf: Buf::Nv(slot), offset: 0, len }]);
                Step::Pack { parts, dst: frag.host(0) }
            }
        };
        let done = out.step(op, step, StepSet::EMPTY);
        out.step(op, Step::Ack { frag: frag.id, pages: frag.pages, ok: true }, done);
        out.close(op);
    }
}

impl Controller for StoreKeeper {
    fn handle(&mut self, event: Event<'_>, out: &mut Out) {
        match event {
            Event::Start(start) => {
                let slots = start.nv.iter().map(|held| (held.slot.index, (held.slot.generation, held.tag))).collect();
                *self.found.lock().unwrap_or_else(PoisonError::into_inner) =
                    FoundStore { slots, intents: start.intents.to_vec() };
                out.ready();
            }
            Event::Submit(frag) => {
                let op = out.open(Class::Internal, None, Some(frag.id));
                if self.frags.len() <= op.index() {
                    self.frags.resize(op.index() + 1, None);
                }
                self.frags[op.index()] = Some(frag);
            }
            Event::Granted(op) => {
                if let Some(frag) = self.frags[op.index()].take() {
                    self.plan(frag, op, out);
                }
            }
            Event::Control(Control::Clean) => out.clean(),
            _ => {}
        }
    }
}

fn tag(slot: NvSlot) -> Tag {
    let mut tag = [slot.index as u8; 24];
    // Each use of a slot has a tag of its own, so a start which finds an older one is noticed.
    tag[4..8].copy_from_slice(&slot.generation.to_le_bytes());
    tag
}

fn page(slot: NvSlot) -> Vec<u8> {
    // The bytes depend on slot, use and place, so no page passes for another.
    (0..PAGE).map(|at| (at / 7) as u8 ^ slot.index as u8 ^ (slot.generation as u8).wrapping_mul(37)).collect()
}

/// Holds the state after some steps.
#[derive(Clone, Debug, Default)]
struct StoreState {
    /// The generation of each slot in use, and how many bytes it has.
    slots: BTreeMap<u32, (u32, u32)>,
    rows: RowSet,
}

struct StoreLife {
    os: RecordingOs,
    files: FileExecutor<StoreKeeper>,
    plans: StorePlans,
    found: FoundStore,
    /// After each step that was issued since all were done.
    states: Vec<StoreState>,
    /// Of these, durable.
    covered: usize,
    /// Of these, done: the end of the process alone costs none.
    done: usize,
    generation: u32,
    kind: StoreHistoryKind,
}

/// Describes the history of a seed.
#[derive(Clone, Copy)]
struct StoreHistoryKind {
    slots: u32,
    every_write: bool,
}

impl StoreHistoryKind {
    const fn of(seed: u64) -> Self {
        // A journal of few slots comes round every few steps, which many slots never do.
        let slots = match seed / 3 % 3 {
            0 => 12,
            1 => 5,
            _ => 2,
        };
        Self { slots, every_write: seed.is_multiple_of(3) }
    }
}

fn config(kind: StoreHistoryKind) -> FilesConfig {
    let device = DeviceConfig { path: "/array/dev0".into(), offset: 0, pages: 1, options: DeviceOptions::default() };
    FilesConfig {
        about: String::new(),
        array: 3,
        shape: Shape::new(PAGE, SECTOR, MOST_PUTS, MOST_PUTS, MOST_PUTS).expect("a shape that can be"),
        depth: 6,
        devices: vec![device],
        every_write: kind.every_write,
        nvram: "/array/nvram".into(),
        spare_nvram: None,
        nv_slots: kind.slots,
        intents: "/array/intents".into(),
        rows: ROWS,
        members: 0,
        rows_per_mark: 1,
        idle_marks: 0,
        io: destage_exec::IoBackend::Threads,
        patience: FilesConfig::PATIENCE,
        device_timeout: None,
    }
}

impl StoreLife {
    fn begin(
        os: RecordingOs,
        create: bool,
        state: StoreState,
        generation: u32,
        kind: StoreHistoryKind,
    ) -> Result<Self, String> {
        let (plans, found) = (StorePlans::default(), Arc::default());
        let keeper = StoreKeeper { plans: Arc::clone(&plans), found: Arc::clone(&found), frags: Vec::new() };
        let system = Arc::new(os.clone());
        let files = if create {
            FileExecutor::create_on(system, keeper, config(kind), ExistingFiles::Refuse)
        } else {
            FileExecutor::open_on(system, keeper, config(kind))
        };
        let files = files.map_err(|error| format!("it cannot be opened: {error}"))?;
        // A torn newest record is normal after a crash, and must not pass for damage.
        if let Some(damaged) = files.damaged_nvram() {
            return Err(format!("what no cut leaves is taken for damage: {}", damaged.errors.join("; ")));
        }
        let found = found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Self { os, files, plans, found, states: vec![state], covered: 0, done: 0, generation, kind })
    }

    /// Opens what the end of the power or of the process left, and says after which step that is.
    fn after(&self, left: RecordingOs, power: bool) -> Result<Self, String> {
        // A power failure may take what is not durable. The end of the process takes nothing that was done.
        let least = if power { self.covered } else { self.done };
        Self::begin_after(left, &self.states[least..], self.generation, self.kind)
    }

    /// Opens what is left, which is as after one of these steps.
    fn begin_after(
        left: RecordingOs,
        states: &[StoreState],
        generation: u32,
        kind: StoreHistoryKind,
    ) -> Result<Self, String> {
        let life = Self::begin(left, false, StoreState::default(), generation, kind)?;
        let same = |state: &StoreState| {
            let of = |(slot, (generation, _)): (&u32, &(u32, u32))| {
                (*slot, (*generation, tag(NvSlot { index: *slot, generation: *generation })))
            };
            life.found.slots.iter().map(|(slot, of)| (*slot, *of)).eq(state.slots.iter().map(of))
        };
        let fits = |at: &usize| same(&states[*at]);
        let mut rows = RowSet::default();
        life.found.intents.iter().for_each(|found| rows.set(*found, true));
        // Steps that change intents alone lie between two states of the slots: each row is as after one of them.
        let mut wrong = None;
        for first in (0..states.len()).filter(|at| fits(at) && (*at == 0 || !fits(&(at - 1)))) {
            let last = (first..states.len()).take_while(fits).last().expect("the first one fits");
            let between = &states[first..=last];
            let is_as_after_none = |row: &Row| {
                let set = rows.contains(*row);
                !between.iter().any(|state| state.rows.contains(*row) == set)
            };
            let Some(row) = (0..ROWS).map(Row).find(is_as_after_none) else {
                let state = StoreState { slots: states[first].slots.clone(), rows };
                return Ok(Self { states: vec![state], ..life });
            };
            wrong = Some(format!("the intent of {row:?} is {} after steps {first} to {last}", rows.contains(row)));
        }
        let states = || format!("they were after none of {states:?}");
        Err(wrong.unwrap_or_else(|| format!("the slots are {:?}, which {}", life.found.slots, states())))
    }

    /// Changes one slot, and stops it in order, which is cut everywhere: what it has found stays.
    fn stop(mut self) -> Result<u64, String> {
        let mut state = self.states[0].clone();
        let (plan, op, data) = if let Some((index, (generation, _))) = state.slots.pop_first() {
            (
                StorePlan::Commit { puts: Vec::new(), frees: vec![NvSlot { index, generation }] },
                HostOp::Discard,
                Vec::new(),
            )
        } else {
            let slot = NvSlot { index: 0, generation: self.generation + 1 };
            state.slots.insert(0, (slot.generation, 0));
            (StorePlan::Commit { puts: vec![(slot, 0)], frees: Vec::new() }, HostOp::Write, page(slot))
        };
        self.states.push(state);
        self.ask(plan, op, 1, data, false)?;
        self.files.wait().map_err(|error| error.to_string())?;
        let Self { os, files, states, generation, kind, .. } = self;
        os.keep_moments(1);
        files.stop_clean().map_err(|error| error.to_string())?;
        let moments = os.take_moments();
        let cuts = moments.len() as u64;
        for CrashPoint { left, power, .. } in moments {
            // The request was answered, so its effect must be there unless the mode allows its loss.
            // Without every-write, a power failure may take what no flush covered; the end of the process takes
            // nothing.
            let least = usize::from(kind.every_write || !power);
            Self::begin_after(left, &states[least..], generation, kind)
                .map_err(|what| format!("cut while it stopped: {what}"))?;
        }
        Ok(cuts)
    }

    /// Looks at the moments that were kept: the state is right, its pages are there, and it stays.
    fn look(&self, moments: Vec<CrashPoint>, report: &mut u64) -> Result<(), String> {
        for moment in moments {
            *report += 1;
            let when = |what| format!("after operation {} (power {}): {what}", moment.operations, moment.power);
            let mut life = self.after(moment.left.clone(), moment.power).map_err(when)?;
            // A start writes as well, so the power fails once more just after it.
            let left = life.os.end(true);
            *report += 1;
            let again = |what| when(format!("and the power failed again: {what}"));
            let next = life.after(left, true).map_err(again)?;
            if report.is_multiple_of(STOPPED) {
                *report += next.stop().map_err(again)?;
            }
            let slots = life.states[0].slots.clone();
            for (index, (generation, len)) in slots.into_iter().filter(|(_, (_, len))| *len > 0) {
                let slot = NvSlot { index, generation };
                life.ask(StorePlan::Read(slot, len), HostOp::Read, 1, Vec::new(), false)?;
                let completion = life.files.wait().map_err(|error| error.to_string())?;
                let mut expected = page(slot);
                expected[len as usize..].fill(0);
                if completion.is_none_or(|completion| completion.bytes != expected) {
                    return Err(when(format!("{slot:?} holds other bytes")));
                }
            }
        }
        Ok(())
    }

    fn ask(&mut self, plan: StorePlan, op: HostOp, pages: usize, data: Vec<u8>, fua: bool) -> Result<(), String> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner).push_back(plan);
        let len = pages as u64 * PAGE;
        // The tag tells after how many steps it is done, and whether it is durable then.
        let tag = (self.states.len() - 1) as u64 * 2 + u64::from(fua || op == HostOp::Flush);
        let request = HostRequest { tag, op, offset: 0, len, fua };
        self.files.submit(request, data).map_err(|error| error.to_string())
    }

    /// A step of any kind. A commit of puts frees slots, too, and the other way round, as the dice
    /// for what commits have besides say.
    fn issue(&mut self, dice: &mut RandomDraws, besides: &mut RandomDraws) -> Result<(), String> {
        let mut state = self.states.last().expect("there is one").clone();
        let free: Vec<u32> = (0..self.kind.slots).filter(|slot| !state.slots.contains_key(slot)).collect();
        // A slot is freed when its put is done, and put again when its free is, as controllers do.
        let settled = &self.states[self.done];
        let ready = |slot: &u32| settled.slots.get(slot) == state.slots.get(slot);
        let free: Vec<u32> = free.into_iter().filter(ready).collect();
        let used: Vec<u32> = state.slots.keys().copied().filter(ready).collect();
        let some = |from: &[u32], count: u64, dice: &mut RandomDraws| {
            let mut slots: Vec<u32> = (0..count).filter(|_| !from.is_empty()).map(|_| dice.pick(from)).collect();
            slots.sort_unstable();
            slots.dedup();
            slots
        };
        let (to_put, to_free) = match dice.below(6) {
            0 | 1 if !free.is_empty() => {
                let first = dice.pick(&free);
                let mut to_put = some(&free, besides.below(MOST_PUTS), besides);
                to_put.retain(|slot| *slot != first);
                to_put.insert(0, first);
                (to_put, some(&used, besides.below(4), besides))
            }
            2 | 3 if !used.is_empty() => {
                let to_free = some(&used, dice.within(1, 6), dice);
                (some(&free, besides.below(3), besides), to_free)
            }
            // Intents make all commits before them durable. Fewer of them let a small journal come round without.
            _ if self.kind.slots < 12 && !besides.one_in(6) => return Ok(()),
            _ => {
                let (rows, set) = (Rows::new(Row(dice.below(16) * 600), 900), dice.one_in(2));
                state.rows.set(rows, set);
                self.states.push(state);
                return self.ask(StorePlan::Intent { rows, set }, HostOp::Flush, 0, Vec::new(), false);
            }
        };
        let frees = to_free.iter().map(|&index| NvSlot { index, generation: state.slots[&index].0 }).collect();
        state.slots.retain(|slot, _| !to_free.contains(slot));
        let (mut puts, mut data) = (Vec::new(), Vec::new());
        for index in to_put {
            self.generation += 1;
            let slot = NvSlot { index, generation: self.generation };
            let len = match besides.below(4) {
                0 => 0,
                1 => PAGE as u32,
                _ => besides.within(1, PAGE) as u32,
            };
            state.slots.insert(index, (slot.generation, len));
            puts.push((slot, len));
            data.extend(page(slot));
        }
        let (op, pages) = if puts.is_empty() { (HostOp::Discard, 1) } else { (HostOp::Write, puts.len()) };
        self.states.push(state);
        let fua = op == HostOp::Write && besides.one_in(6);
        self.ask(StorePlan::Commit { puts, frees }, op, pages, data, fua)
    }

    /// Lets some commands be carried out; whether it goes on. It stops, with the name of the file,
    /// only over an operation that was made to fail.
    fn step(&mut self, report: &mut u64) -> Result<bool, String> {
        let polled = self.files.poll();
        let moments = self.os.take_moments();
        self.look(moments, report)?;
        let first = match polled {
            Ok(first) => first,
            Err(FilesError::Io { path, .. }) if path.starts_with("/array") && !self.os.take_fault() => {
                return Ok(false);
            }
            Err(error) => return Err(error.to_string()),
        };
        for completion in first.into_iter().chain(std::iter::from_fn(|| self.files.next_completion())) {
            let step = (completion.tag / 2) as usize;
            // Steps end one after the other.
            self.done = self.done.max(step);
            if self.kind.every_write || completion.tag % 2 == 1 {
                self.covered = self.covered.max(step);
            }
        }
        Ok(true)
    }
}

/// Runs a history of steps of the NVRAM; how often it was cut.
pub fn run_store(seed: u64, slip: Option<ExecutorFault>) -> Result<u64, Box<FilesFailure>> {
    let mut cuts = 0;
    let outcome = caught(|| history(seed, slip, &mut cuts));
    match outcome {
        Ok(Ok(())) => Ok(cuts),
        Ok(Err(what)) | Err(what) => Err(Box::new(FilesFailure { seed, what, cuts, log: Vec::new(), actions: 0 })),
    }
}

fn history(seed: u64, slip: Option<ExecutorFault>, cuts: &mut u64) -> Result<(), String> {
    let mut dice = RandomDraws::new(seed);
    let mut besides = RandomDraws::part(seed, u64::MAX - 6);
    let os = RecordingOs::new(move |n| Box::new(RandomDraws::part(seed, n)));
    let mut life = StoreLife::begin(os, true, StoreState::default(), 0, StoreHistoryKind::of(seed))?;
    life.os.plant(slip);
    for _ in 0..dice.within(1, 4) {
        life.os.keep_moments(dice.pick(&[2, 4]));
        if dice.one_in(3) {
            life.os.fail_after(dice.below(40), dice.pick(&[IoFault::Broken, IoFault::NoRoom]));
        }
        let mut goes_on = true;
        for _ in 0..dice.within(4, if life.kind.slots < 12 { 90 } else { 30 }) {
            if goes_on {
                life.issue(&mut dice, &mut besides)?;
            }
            let mut steps = dice.below(4);
            while goes_on && (steps > 0 || life.files.unanswered() > 5) {
                goes_on = life.step(cuts)?;
                steps = steps.saturating_sub(1);
            }
        }
        *cuts += 1;
        let power = dice.one_in(2);
        let left = life.os.end(power);
        left.keep_moments(3);
        let next = life.after(left.clone(), power)?;
        left.keep_moments(0);
        // Until it is open, nobody relies on what this start has found.
        let opening = left.take_moments().into_iter();
        life.look(opening.map(|moment| CrashPoint { power: power || moment.power, ..moment }).collect(), cuts)?;
        life = next;
    }
    Ok(())
}
