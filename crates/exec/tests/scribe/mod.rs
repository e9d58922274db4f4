//! Controllers to test the file executor with: one does to the NVRAM what the host says, and tells
//! what it found there; one does what the test says.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use destage_exec::{DeviceConfig, DeviceOptions, Existing, Files, FilesConfig, FilesError};
use destage_plan::{
    Buf, Class, Control, Controller, Event, Frag, HostOp, HostRequest, NvSlot, OpId, Out, Row, Rows, Sectors, Shape,
    Step, StepSet, Tag,
};

/// Bytes of a page.
pub const PAGE: u64 = 512;
const SECTOR: u64 = 64;
/// Pages of the host: a slot and a range of rows for each.
pub const PAGES: u64 = 16;
/// Rows that can have an intent: three sectors of the file, the last one in part.
pub const ROWS: u64 = 10_000;

/// What a life began with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub slots: Vec<(NvSlot, Tag)>,
    pub intents: Vec<Rows>,
}

/// A write puts a slot with the page, one with FUA a slot without; a discard frees it. Zeroes set
/// the intents of the page's rows, zeroes of a part of it clear them. A read gives the page in the
/// slot.
pub struct Scribe {
    found: Arc<Mutex<Found>>,
    slots: BTreeMap<u64, NvSlot>,
    frags: Vec<Option<Frag>>,
}

impl Scribe {
    pub fn new(found: &Arc<Mutex<Found>>) -> Self {
        Self { found: Arc::clone(found), slots: BTreeMap::new(), frags: Vec::new() }
    }

    fn plan(&mut self, frag: Frag, op: OpId, out: &mut Out) {
        let page = frag.page;
        let mut done = StepSet::EMPTY;
        match frag.op {
            HostOp::Write => {
                let slot = NvSlot {
                    index: page as u16,
                    generation: self.slots.get(&page).map_or(0, |slot| slot.generation) + 1,
                };
                let src = if frag.fua { Buf::None } else { frag.host(0) };
                done = out.step(op, Step::NvPut { slot, tag: tag(page), src }, StepSet::EMPTY);
                self.slots.insert(page, slot);
            }
            HostOp::Discard => {
                let slots = out.list(op, &[Buf::Nv(self.slots.remove(&page).expect("the slot is in use"))]);
                done = out.step(op, Step::NvFree { slots }, StepSet::EMPTY);
            }
            HostOp::WriteZeroes => {
                let rows = out.rows(op, &[rows(page)]);
                done = out.step(op, Step::Intent { rows, set: frag.sectors.is_none() }, StepSet::EMPTY);
            }
            HostOp::Read => {
                let sectors = Sectors { first: 0, count: (PAGE / SECTOR) as u8 };
                done = out.step(
                    op,
                    Step::Slice { src: Buf::Nv(self.slots[&page]), sectors, dst: frag.host(0) },
                    StepSet::EMPTY,
                );
            }
            HostOp::Flush => {}
        }
        out.step(op, Step::Ack { frag: frag.id, pages: 1, ok: true }, done);
        out.close(op);
    }
}

impl Controller for Scribe {
    fn handle(&mut self, event: Event<'_>, out: &mut Out) {
        match event {
            Event::Start(start) => {
                *self.found.lock().unwrap() = Found { slots: start.nv.to_vec(), intents: start.intents.to_vec() };
                self.slots = start.nv.iter().map(|(slot, _)| (u64::from(slot.index), *slot)).collect();
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

/// Gives each fragment an operation with the steps that a test says, and does nothing about how
/// they end.
pub struct Script<F>(pub F);

impl<F: FnMut(Frag, OpId, &mut Out)> Controller for Script<F> {
    fn handle(&mut self, event: Event<'_>, out: &mut Out) {
        match event {
            Event::Start(_) => out.ready(),
            Event::Submit(frag) => {
                let op = out.open(Class::Internal, None, Some(frag.id));
                (self.0)(frag, op, out);
            }
            _ => {}
        }
    }
}

/// What a page's slot says.
pub fn tag(page: u64) -> Tag {
    let mut tag = [page as u8; 24];
    tag[23] = 0xa5;
    tag
}

/// The rows of a page; those of neighbours overlap, and some lie in two sectors of the file.
pub fn rows(page: u64) -> Rows {
    Rows::new(Row(page * 600), 900)
}

pub fn config(folder: &Path) -> FilesConfig {
    let device = DeviceConfig { path: folder.join("dev0"), pages: 1, options: DeviceOptions::default() };
    FilesConfig {
        array: 0x0102_0304_0506_0708,
        shape: Shape::new(PAGE, SECTOR, 1, 1, PAGES).expect("a shape that can be"),
        depth: 4,
        devices: vec![device],
        nvram: nvram(folder),
        nv_slots: PAGES as u16,
        intents: intents(folder),
        rows: ROWS,
    }
}

pub fn nvram(folder: &Path) -> PathBuf {
    folder.join("nvram")
}

pub fn intents(folder: &Path) -> PathBuf {
    folder.join("intents")
}

/// A new array.
pub fn create(folder: &Path) -> Files<Scribe> {
    Files::create(Scribe::new(&Arc::default()), config(folder), Existing::Refuse).expect("a new array")
}

/// Opens the array; what it found.
pub fn open(folder: &Path) -> Result<(Files<Scribe>, Found), FilesError> {
    let found = Arc::default();
    let files = Files::open(Scribe::new(&found), config(folder))?;
    let found = found.lock().unwrap().clone();
    Ok((files, found))
}

/// A request for a page.
pub const fn request(op: HostOp, page: u64) -> HostRequest {
    HostRequest { tag: page, op, offset: page * PAGE, len: PAGE, fua: false }
}

/// Serves one request; what it read.
pub fn serve(files: &mut Files<Scribe>, request: HostRequest, data: Vec<u8>) -> Vec<u8> {
    files.submit(request, data).expect("a request in range");
    let completion = files.wait().expect("it is served").expect("it is under way");
    assert!(completion.ok && completion.tag == request.tag);
    completion.bytes
}

/// Puts a slot.
pub fn put(files: &mut Files<Scribe>, page: u64, byte: u8) {
    serve(files, request(HostOp::Write, page), vec![byte; PAGE as usize]);
}

/// Sets or clears the intents of a page's rows.
pub fn intent(files: &mut Files<Scribe>, page: u64, set: bool) {
    let len = if set { PAGE } else { SECTOR };
    serve(files, HostRequest { len, ..request(HostOp::WriteZeroes, page) }, Vec::new());
}
