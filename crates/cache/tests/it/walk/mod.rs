//! A controller that plans what caches with state plan, for one row of deltas and a few rows that
//! are admitted as a whole: the table "KDD and LAWC in steps" of docs/internals/caches.md.
//! It does what it is told in order, and decides nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use destage_plan::{
    Buf, Claim, Class, ColumnSet, Controller, Dev, Event, Ext, Frag, List, Nanos, NvHeld, NvPut, NvSlot, NvSlots, OpId,
    Out, PutList, Row, Rows, Sectors, Span, Start, Step, StepNo, StepOutcome, StepSet, Stripe, Tag, TimerId,
    TimerOwner,
};

pub const PAGE: u64 = 512;
pub const SECTOR: u64 = 64;
/// Two members with data, one with parity, and the cache device.
pub const PARITY: Dev = Dev(2);
pub const CACHE: Dev = Dev(3);
/// On the cache device: frames from page 0, one for each page of the host; then these.
pub const DELTAS: u64 = 20;
pub const LOG: u64 = 21;
pub const DEVICE_PAGES: u64 = 24;
/// The row with deltas is row 0; these are admitted, and destaged as one strip.
pub const STRIP: Rows = Rows::new(Row(1), 4);

/// Names what a request makes the controller do.
#[derive(Clone, Copy, Debug)]
pub enum Job {
    /// A full write of row 0, with both pages in the cache.
    Fill,
    /// KDD: a write of a page that the cache has.
    Hit,
    /// A read, from wherever the newest bytes are.
    Read,
    /// KDD: the staged deltas are packed into one page, and logged.
    Commit,
    /// KDD: the parity of row 0 takes in what the deltas say.
    Clean,
    /// LAWC: a page is admitted, with the parity of its row.
    Admit,
    /// An answer when nothing is left to be destaged.
    Settle,
}

/// Identifies the place of a page's delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    /// In a slot of the NVRAM.
    Staged(NvSlot, u32),
    /// In the page of deltas: where, and how long.
    Packed(u32, u32),
}

/// Names what an operation does, with what is needed of it later.
#[derive(Clone, Copy, Debug)]
enum Doing {
    Job(Job, Frag),
    /// A hit whose delta is being made: the buffer, and the intent.
    Encoding(Frag, Buf, StepSet),
    Start,
    Destage,
}

pub struct Walk {
    jobs: Arc<Mutex<VecDeque<Job>>>,
    slots: NvSlots,
    ops: Vec<Option<Doing>>,
    /// Pages in the cache.
    cached: BTreeSet<u64>,
    /// Of old pages: what makes them new.
    pub deltas: BTreeMap<u64, Delta>,
    /// Slots of pages that wait to be destaged, by member and row.
    pub admitted: BTreeMap<(Dev, Row), NvSlot>,
    /// Slots that are freed with an operation, by its place.
    freed: BTreeMap<OpId, Vec<NvSlot>>,
    waiting: Option<OpId>,
    /// Admissions that are not in the NVRAM so far: nothing of theirs can be destaged.
    admitting: u32,
}

const STAGED: u8 = 1;
const ADMITTED: u8 = 2;
const TIMER: TimerId = TimerId { owner: TimerOwner::Above, number: 0 };

const fn place(page: u64) -> (Dev, Row) {
    (Dev((page % 2) as u8), Row(page / 2))
}

fn ext(dev: Dev, page: u64) -> Ext {
    Ext::new(dev, page, 1)
}

fn staged(page: u64, len: u32) -> Tag {
    let mut tag = [0; 24];
    (tag[0], tag[1]) = (STAGED, page as u8);
    tag[2..6].copy_from_slice(&len.to_le_bytes());
    tag
}

fn admitted((dev, row): (Dev, Row)) -> Tag {
    let mut tag = [0; 24];
    (tag[0], tag[1], tag[2]) = (ADMITTED, dev.0, row.0 as u8);
    tag
}

impl Walk {
    pub fn new(jobs: &Arc<Mutex<VecDeque<Job>>>) -> Self {
        Self {
            jobs: Arc::clone(jobs),
            slots: NvSlots::new(16),
            ops: Vec::new(),
            cached: BTreeSet::new(),
            deltas: BTreeMap::new(),
            admitted: BTreeMap::new(),
            freed: BTreeMap::new(),
            waiting: None,
            admitting: 0,
        }
    }

    fn open(&mut self, class: Class, claim: Option<(Row, u64, u64)>, frag: Option<Frag>, doing: Doing, out: &mut Out) {
        let claim = claim.map(|(row, r, w)| {
            let (r, w) = (ColumnSet::from_bits(r), ColumnSet::from_bits(w));
            Claim { stripe: Stripe(row.0), first: 0, rows: 1, r, w }
        });
        let op = out.open(class, claim, frag.map(|frag| frag.id));
        if self.ops.len() <= op.index() {
            self.ops.resize(op.index() + 1, None);
        }
        self.ops[op.index()] = Some(doing);
    }

    /// Takes what the NVRAM says at once; the log follows when it has been read.
    fn start(&mut self, start: Start<'_>, out: &mut Out) {
        for held @ NvHeld { slot, tag, .. } in start.nv {
            assert!(self.slots.occupy(*slot));
            let len = u32::from_le_bytes(tag[2..6].try_into().expect("four bytes"));
            if tag[0] == STAGED {
                assert_eq!(len, held.len(), "as many bytes as were put");
                self.deltas.insert(tag[1].into(), Delta::Staged(*slot, len));
            } else {
                self.admitted.insert((Dev(tag[1]), Row(tag[2].into())), *slot);
            }
        }
        self.open(Class::Internal, None, None, Doing::Start, out);
    }

    fn submit(&mut self, frag: Frag, out: &mut Out) {
        let job = self.jobs.lock().unwrap().pop_front().expect("a job for each request");
        let (column, row) = (1 << (frag.page % 2), Row(frag.page / 2));
        let (class, claim) = match job {
            Job::Fill => (Class::Write, Some((row, 0, 0b111))),
            Job::Hit => (Class::Write, Some((row, 0, column))),
            Job::Read => (Class::Read, Some((row, column, 0))),
            Job::Clean => (Class::Internal, Some((Row(0), 0b011, 0b100))),
            Job::Admit => (Class::Write, Some((row, 0b011, column | 0b100))),
            Job::Commit | Job::Settle => (Class::Internal, None),
        };
        self.open(class, claim, Some(frag), Doing::Job(job, frag), out);
    }

    fn granted(&mut self, op: OpId, out: &mut Out) {
        const NOW: StepSet = StepSet::EMPTY;
        let done = match self.ops[op.index()].expect("it was opened") {
            Doing::Start => {
                out.step_notify(op, Step::MetaRead { ext: ext(CACHE, LOG) }, NOW);
                return out.close(op);
            }
            Doing::Destage => return self.destage(op, out),
            Doing::Encoding(..) => unreachable!("it is granted once"),
            Doing::Job(Job::Hit, frag) => return self.hit(op, frag, out),
            Doing::Job(Job::Settle, frag) => {
                self.waiting = Some(op);
                return self.settle(frag, out);
            }
            Doing::Job(Job::Fill, frag) => {
                let (srcs, parity) = (out.list(op, &[frag.host(0), frag.host(1)]), out.tmp(op, 1));
                let computed = out.step(op, Step::Xor { srcs, pages: 1, dst: parity }, NOW);
                let mut done = out.step(op, Step::Write { ext: ext(PARITY, 0), src: parity, fua: true }, computed);
                for page in 0..2 {
                    let (member, src) = (ext(Dev(page as u8), 0), frag.host(page));
                    done |= out.step(op, Step::Write { ext: member, src, fua: true }, NOW);
                    done |= out.step(op, Step::Write { ext: ext(CACHE, page.into()), src, fua: true }, NOW);
                }
                done
            }
            Doing::Job(Job::Read, frag) => self.read(op, frag, out),
            Doing::Job(Job::Commit, _) => self.commit(op, out),
            Doing::Job(Job::Clean, _) => self.clean(op, out),
            Doing::Job(Job::Admit, frag) => self.admit(op, frag, out),
        };
        let Some(Doing::Job(_, frag)) = self.ops[op.index()] else { unreachable!("the others have returned") };
        out.step(op, Step::Ack { frag: frag.id, pages: frag.pages, ok: true }, done);
        out.close(op);
    }

    /// Until the length of the delta is known.
    fn hit(&mut self, op: OpId, frag: Frag, out: &mut Out) {
        let rows = out.rows(op, &[Rows::new(Row(0), 1)]);
        let intent = out.step(op, Step::Intent { rows, set: true }, StepSet::EMPTY);
        let (base, delta) = (out.tmp(op, 1), out.tmp(op, 1));
        let read = out.step(op, Step::Read { ext: ext(CACHE, frag.page), dst: base }, StepSet::EMPTY);
        out.step_notify(op, Step::Encode { base, new: frag.host(0), dst: delta, page: frag.page }, read);
        self.ops[op.index()] = Some(Doing::Encoding(frag, delta, intent));
    }

    /// The delta is staged in place of the one before, then the member written without parity.
    fn encoded(&mut self, op: OpId, len: u32, out: &mut Out) {
        let Some(Doing::Encoding(frag, src, intent)) = self.ops[op.index()] else { unreachable!("a delta is made") };
        let slot = self.slots.alloc().expect("a free slot");
        let puts = out.puts(op, &[NvPut { slot, tag: staged(frag.page, len), src, len }]);
        let mut freed = Vec::new();
        if let Some(Delta::Staged(old, _)) = self.deltas.insert(frag.page, Delta::Staged(slot, len)) {
            freed.push(old);
        }
        let frees = out.slots(op, &freed);
        self.freed.insert(op, freed);
        let put = out.step(op, Step::NvCommit { puts, frees }, StepSet::EMPTY);
        let (dev, row) = place(frag.page);
        let write = Step::Write { ext: ext(dev, row.0), src: frag.host(0), fua: true };
        let written = out.step(op, write, put | intent);
        out.step(op, Step::Ack { frag: frag.id, pages: 1, ok: true }, written);
        out.close(op);
    }

    /// The page as it is: its frame, and its delta from the NVRAM or the page of deltas. The steps
    /// after which `dst` has it, and the buffer with what it was.
    fn newest(&self, op: OpId, page: u64, dst: Buf, packed: Option<(Buf, StepSet)>, out: &mut Out) -> (StepSet, Buf) {
        let base = out.tmp(op, 1);
        let read = out.step(op, Step::Read { ext: ext(CACHE, page), dst: base }, StepSet::EMPTY);
        let (delta, after) = match self.deltas[&page] {
            Delta::Staged(slot, len) => (Span { buf: Buf::Nv(slot), offset: 0, len }, read),
            Delta::Packed(offset, len) => {
                let (buf, there) = packed.unwrap_or_else(|| Self::read_deltas(op, out));
                (Span { buf, offset, len }, read | there)
            }
        };
        (out.step(op, Step::Decode { base, delta, dst }, after), base)
    }

    fn read_deltas(op: OpId, out: &mut Out) -> (Buf, StepSet) {
        let dst = out.tmp(op, 1);
        (dst, out.step(op, Step::Read { ext: ext(CACHE, DELTAS), dst }, StepSet::EMPTY))
    }

    fn read(&self, op: OpId, frag: Frag, out: &mut Out) -> StepSet {
        let (dst, at) = (frag.host(0), place(frag.page));
        if self.deltas.contains_key(&frag.page) {
            return self.newest(op, frag.page, dst, None, out).0;
        }
        if let Some(slot) = self.admitted.get(&at) {
            let sectors = Sectors { first: 0, count: (PAGE / SECTOR) as u8 };
            return out.step(op, Step::Slice { src: Buf::Nv(*slot), sectors, dst }, StepSet::EMPTY);
        }
        let from = if self.cached.contains(&frag.page) { ext(CACHE, frag.page) } else { ext(at.0, at.1.0) };
        out.step(op, Step::Read { ext: from, dst }, StepSet::EMPTY)
    }

    /// Packs all deltas, writes them, logs where they are, and then frees their slots.
    fn commit(&mut self, op: OpId, out: &mut Out) -> StepSet {
        let (mut parts, mut freed, mut offset) = (Vec::new(), Vec::new(), 0);
        for delta in self.deltas.values_mut() {
            let Delta::Staged(slot, len) = *delta else { panic!("all deltas are staged") };
            parts.push(Span { buf: Buf::Nv(slot), offset: 0, len });
            freed.push(slot);
            *delta = Delta::Packed(offset, len);
            offset += len;
        }
        let (parts, dst) = (out.spans(op, &parts), out.tmp(op, 1));
        let packed = out.step(op, Step::Pack { parts, dst }, StepSet::EMPTY);
        let written = out.step(op, Step::Write { ext: ext(CACHE, DELTAS), src: dst, fua: true }, packed);
        let logged = self.log(op, written, out);
        let frees = out.slots(op, &freed);
        self.freed.insert(op, freed);
        out.step(op, Step::NvCommit { puts: PutList::EMPTY, frees }, logged)
    }

    /// A page of the log: which pages are old, and where their deltas are.
    fn log(&self, op: OpId, after: StepSet, out: &mut Out) -> StepSet {
        let mut entries = Vec::new();
        for (page, delta) in &self.deltas {
            if let Delta::Packed(offset, len) = delta {
                entries.extend([1, *page as u8]);
                entries.extend(offset.to_le_bytes());
                entries.extend(len.to_le_bytes());
            }
        }
        entries.resize(PAGE as usize, 0);
        let bytes = out.bytes(op, &entries);
        out.step(op, Step::MetaWrite { ext: ext(CACHE, LOG), bytes, fua: true }, after)
    }

    /// Takes what the log says of pages for which the NVRAM has no newer delta.
    fn replay(&mut self, log: &[u8]) {
        let u32_at = |entry: &[u8], at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().expect("four bytes"));
        for entry in log.chunks_exact(10).take_while(|entry| entry[0] == 1) {
            self.cached.insert(entry[1].into());
            self.deltas.entry(entry[1].into()).or_insert(Delta::Packed(u32_at(entry, 2), u32_at(entry, 6)));
        }
    }

    /// Parity = parity ⊕ what each old page was ⊕ what it is; then no page is old any more.
    fn clean(&mut self, op: OpId, out: &mut Out) -> StepSet {
        let rows = out.rows(op, &[Rows::new(Row(0), 1)]);
        let mut ready = out.step(op, Step::Intent { rows, set: true }, StepSet::EMPTY);
        let (parity, packed) = (out.tmp(op, 1), Self::read_deltas(op, out));
        ready |= out.step(op, Step::Read { ext: ext(PARITY, 0), dst: parity }, StepSet::EMPTY);
        let mut srcs = vec![parity];
        for page in self.deltas.keys() {
            let new = out.tmp(op, 1);
            let (decoded, base) = self.newest(op, *page, new, Some(packed), out);
            ready |= decoded;
            srcs.extend([base, new]);
        }
        let srcs = out.list(op, &srcs);
        ready |= out.step(op, Step::Xor { srcs, pages: 1, dst: parity }, ready);
        let written = out.step(op, Step::Write { ext: ext(PARITY, 0), src: parity, fua: false }, ready);
        let flushed = out.step(op, Step::FlushDev { dev: PARITY }, written);
        let old = std::mem::take(&mut self.deltas);
        self.cached.clear();
        let logged = self.log(op, flushed, out);
        let freed = old.into_values().filter_map(|delta| match delta {
            Delta::Staged(slot, _) => Some(slot),
            Delta::Packed(..) => None,
        });
        let freed: Vec<_> = freed.collect();
        let frees = out.slots(op, &freed);
        self.freed.insert(op, freed);
        let freed = out.step(op, Step::NvCommit { puts: PutList::EMPTY, frees }, logged);
        let rows = out.rows(op, &[Rows::new(Row(0), 1)]);
        out.step(op, Step::Intent { rows, set: false }, freed)
    }

    /// The page and the parity of its row, in one commit.
    fn admit(&mut self, op: OpId, frag: Frag, out: &mut Out) -> StepSet {
        self.admitting += 1;
        let (dev, row) = place(frag.page);
        let (other, parity) = (out.tmp(op, 1), out.tmp(op, 1));
        let read = out.step(op, Step::Read { ext: ext(Dev(1 - dev.0), row.0), dst: other }, StepSet::EMPTY);
        let srcs = out.list(op, &[frag.host(0), other]);
        let computed = out.step(op, Step::Xor { srcs, pages: 1, dst: parity }, read);
        let pages = [((dev, row), frag.host(0)), ((PARITY, row), parity)].map(|(at, src)| {
            let slot = self.slots.alloc().expect("a free slot");
            self.admitted.insert(at, slot);
            NvPut::page(slot, admitted(at), src, out.page_bytes())
        });
        let puts = out.puts(op, &pages);
        out.step(op, Step::NvCommit { puts, frees: List::EMPTY }, computed)
    }

    /// The strip leaves the NVRAM, in one request for each member.
    fn destage(&mut self, op: OpId, out: &mut Out) {
        let mut flushed = StepSet::EMPTY;
        for dev in [Dev(0), PARITY] {
            let slots: Vec<_> = STRIP.iter().map(|row| self.admitted[&(dev, row)]).collect();
            let srcs = out.slots(op, &slots);
            let ext = Ext::new(dev, STRIP.first.0, STRIP.count as u16);
            let written = out.step(op, Step::WriteList { ext, srcs, fua: false }, StepSet::EMPTY);
            flushed |= out.step(op, Step::FlushDev { dev }, written);
        }
        let freed: Vec<_> = self.admitted.values().copied().collect();
        let frees = out.slots(op, &freed);
        self.freed.insert(op, freed);
        out.step(op, Step::NvCommit { puts: PutList::EMPTY, frees }, flushed);
        out.close(op);
    }

    fn settle(&mut self, frag: Frag, out: &mut Out) {
        if let Some(op) = self.waiting.take_if(|_| self.admitted.is_empty()) {
            out.step(op, Step::Ack { frag: frag.id, pages: frag.pages, ok: true }, StepSet::EMPTY);
            out.close(op);
        }
    }

    fn done(&mut self, op: OpId, out: &mut Out) {
        self.freed.remove(&op).into_iter().flatten().for_each(|slot| self.slots.free(slot));
        match self.ops[op.index()].take() {
            Some(Doing::Start) => out.ready(),
            Some(Doing::Job(Job::Fill, _)) => self.cached.extend([0, 1]),
            Some(Doing::Job(Job::Admit, _)) => {
                self.admitting -= 1;
                out.timer(TIMER, out.now() + Nanos(1_000_000));
            }
            Some(Doing::Destage) => {
                self.admitted.clear();
                if let Some(Some(Doing::Job(_, frag))) = self.waiting.map(|op| self.ops[op.index()]) {
                    self.settle(frag, out);
                }
            }
            _ => {}
        }
    }
}

impl Controller for Walk {
    fn handle(&mut self, event: Event<'_>, out: &mut Out) {
        match event {
            Event::Start(start) => self.start(start, out),
            Event::Submit(frag) => self.submit(frag, out),
            Event::Granted(op) => self.granted(op, out),
            Event::StepDone { op, outcome: StepOutcome::Length(len), .. } => self.encoded(op, len, out),
            Event::StepDone { op, step: step @ StepNo(_), .. } => {
                let log = out.read_bytes(op, step).to_vec();
                assert_eq!(log.len() as u64, PAGE, "a page of the log was read");
                self.replay(&log);
            }
            // What cannot be decoded is not given to anybody.
            Event::OpStuck { op, devs, .. } => {
                assert!(devs.is_empty(), "no device fails here");
                let Some(Doing::Job(Job::Read, frag)) = self.ops[op.index()] else { panic!("only reads decode") };
                out.restart(op);
                out.step(op, Step::Ack { frag: frag.id, pages: frag.pages, ok: false }, StepSet::EMPTY);
                out.close(op);
            }
            Event::OpDone(op) => self.done(op, out),
            Event::Timer(TIMER) if self.admitting == 0 && self.admitted.len() as u32 == 2 * STRIP.count => {
                self.open(Class::Internal, None, None, Doing::Destage, out);
            }
            Event::Timer(_) => {}
            other => panic!("{other:?} is not expected"),
        }
    }
}
