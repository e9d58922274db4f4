//! A small controller to test executors with: every member holds the same, with intents and their
//! recovery; no loss of members.

use destage_exec::{MemoryView, RowCheck};
use destage_plan::{
    Buf, Claim, Class, ColumnSet, Control, Controller, Dev, Event, Ext, Frag, HostOp, Intents, OpId, Out, Row, Rows,
    Start, Step, StepSet, Stripe,
};

/// Pages in a stripe, across which fragments do not go.
pub const STRIPE: u64 = 4;

#[derive(Clone, Copy)]
enum Task {
    Io(Frag),
    Write(Frag, Rows),
    Flush { generation: u64, stop: bool },
    Clear { stop: bool },
    Recover,
}

pub struct Mirror {
    members: u8,
    tasks: Vec<Option<Task>>,
    intents: Intents,
    clear: Vec<Rows>,
}

impl Mirror {
    pub fn new(members: u8) -> Self {
        Self { members, tasks: Vec::new(), intents: Intents::default(), clear: Vec::new() }
    }

    fn open(&mut self, class: Class, claim: Option<Claim>, frag: Option<Frag>, task: Task, out: &mut Out) -> OpId {
        let op = out.open(class, claim, frag.map(|frag| frag.id));
        if self.tasks.len() <= op.index() {
            self.tasks.resize(op.index() + 1, None);
        }
        self.tasks[op.index()] = Some(task);
        op
    }

    fn devs(&self) -> impl Iterator<Item = Dev> + use<> {
        (0..self.members).map(Dev)
    }

    fn flush(&mut self, frag: Option<Frag>, stop: bool, out: &mut Out) {
        let generation = self.intents.flush_begins();
        let op = self.open(Class::Internal, None, frag, Task::Flush { generation, stop }, out);
        let flushed =
            self.devs().fold(StepSet::EMPTY, |steps, dev| steps | out.step(op, Step::FlushDev { dev }, StepSet::EMPTY));
        if let Some(frag) = frag {
            out.step(op, Step::Ack { frag: frag.id, pages: 1, ok: true }, flushed);
        }
        out.close(op);
    }

    fn start(&mut self, start: Start<'_>, out: &mut Out) {
        if start.intents.is_empty() {
            return out.ready();
        }
        let op = self.open(Class::Recovery, None, None, Task::Recover, out);
        let mut written = StepSet::EMPTY;
        for rows in start.intents {
            let dst = out.tmp(op, rows.count as u16);
            let read = out.step(
                op,
                Step::Read { ext: Ext::new(Dev(0), rows.first.0, rows.count as u16), dst },
                StepSet::EMPTY,
            );
            for dev in self.devs().skip(1) {
                let ext = Ext::new(dev, rows.first.0, rows.count as u16);
                written |= out.step(op, Step::Write { ext, src: dst, fua: false }, read);
            }
        }
        let flushed =
            self.devs().fold(StepSet::EMPTY, |steps, dev| steps | out.step(op, Step::FlushDev { dev }, written));
        let rows = out.rows(op, start.intents);
        out.step(op, Step::Intent { rows, set: false }, flushed);
        out.close(op);
    }

    fn submit(&mut self, frag: Frag, out: &mut Out) {
        let rows = Rows::new(Row(frag.page), u32::from(frag.pages));
        let (task, class, r, w) = match frag.op {
            HostOp::Flush => return self.flush(Some(frag), false, out),
            HostOp::Read => (Task::Io(frag), Class::Read, ColumnSet::first(1), ColumnSet::EMPTY),
            _ => (Task::Write(frag, rows), Class::Write, ColumnSet::EMPTY, ColumnSet::first(1)),
        };
        let claim =
            Claim { stripe: Stripe(frag.page / STRIPE), first: (frag.page % STRIPE) as u32, rows: rows.count, r, w };
        self.open(class, Some(claim), Some(frag), task, out);
    }

    fn granted(&mut self, op: OpId, out: &mut Out) {
        match self.tasks[op.index()] {
            Some(Task::Io(frag)) => {
                let ext = Ext::new(Dev(frag.id.0 as u8 % self.members), frag.page, frag.pages);
                let done = match frag.sectors {
                    None => out.step(op, Step::Read { ext, dst: frag.host(0) }, StepSet::EMPTY),
                    Some(sectors) => {
                        let page = out.tmp(op, 1);
                        let read = out.step(op, Step::Read { ext, dst: page }, StepSet::EMPTY);
                        out.step(op, Step::Slice { src: page, sectors, dst: frag.host(0) }, read)
                    }
                };
                out.step(op, Step::Ack { frag: frag.id, pages: frag.pages, ok: true }, done);
                out.close(op);
            }
            Some(Task::Write(frag, rows)) => {
                self.intents.begin(rows);
                let list = out.rows(op, &[rows]);
                let mut before = out.step(op, Step::Intent { rows: list, set: true }, StepSet::EMPTY);
                let bytes = if frag.op == HostOp::Write { frag.host(0) } else { Buf::Zero };
                let mut src = bytes;
                if let Some(sectors) = frag.sectors {
                    src = out.tmp(op, 1);
                    let read =
                        out.step(op, Step::Read { ext: Ext::new(Dev(0), frag.page, 1), dst: src }, StepSet::EMPTY);
                    before |= out.step(op, Step::Merge { old: src, new: bytes, sectors, dst: src }, read);
                }
                let mut written = StepSet::EMPTY;
                for dev in self.devs() {
                    let ext = Ext::new(dev, frag.page, frag.pages);
                    let step = match frag.op {
                        HostOp::Discard => Step::Trim { ext },
                        _ => Step::Write { ext, src, fua: frag.fua },
                    };
                    written |= out.step(op, step, before);
                }
                out.step(op, Step::Ack { frag: frag.id, pages: frag.pages, ok: true }, written);
                out.close(op);
            }
            _ => {}
        }
    }

    fn done(&mut self, op: OpId, out: &mut Out) {
        match self.tasks[op.index()].take() {
            Some(Task::Write(_, rows)) => self.intents.end(rows, true),
            Some(Task::Flush { generation, stop }) => {
                self.clear.clear();
                self.intents.flushed(generation, |_| false);
                self.intents.clear(0, &mut self.clear);
                let clear = std::mem::take(&mut self.clear);
                let op = self.open(Class::Internal, None, None, Task::Clear { stop }, out);
                let rows = out.rows(op, &clear);
                out.step(op, Step::Intent { rows, set: false }, StepSet::EMPTY);
                out.close(op);
                self.clear = clear;
            }
            Some(Task::Clear { stop: true }) => out.clean(),
            Some(Task::Recover) => out.ready(),
            _ => {}
        }
    }
}

impl Controller for Mirror {
    fn handle(&mut self, event: Event<'_>, out: &mut Out) {
        match event {
            Event::Start(start) => self.start(start, out),
            Event::Submit(frag) => self.submit(frag, out),
            Event::Granted(op) => self.granted(op, out),
            Event::OpDone(op) => self.done(op, out),
            Event::Control(Control::Clean) => self.flush(None, true, out),
            other => panic!("{other:?} is not expected"),
        }
    }
}

/// Rows of a mirror.
pub struct Copies(pub u8);

impl<C> RowCheck<C> for Copies {
    fn members(&self) -> u8 {
        self.0
    }
    fn counts(&self, _: &C, _: Dev, _: Row) -> bool {
        true
    }
    fn row(&self, _: &C, view: &MemoryView<'_>, row: Row) -> Result<(), String> {
        let mut copies = (0..self.0).filter_map(|dev| view.page(Dev(dev), row.0));
        let first = copies.next();
        if copies.all(|copy| Some(copy) == first) { Ok(()) } else { Err("the copies differ".to_owned()) }
    }
}
