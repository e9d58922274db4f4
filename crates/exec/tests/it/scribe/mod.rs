//! Controllers to test the file executor with: one does to the NVRAM what the host says, and tells
//! what it found there; one does what the test says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use destage_exec::{DeviceConfig, DeviceOptions, ExistingFiles, FileExecutor, FilesConfig, FilesError, IoBackend};
use destage_plan::{
    Buf, Class, Control, Controller, Event, Frag, HostOp, HostRequest, NvPut, NvSlot, OpId, Out, PutList, Row, Rows,
    Sectors, Shape, Step, StepSet, Tag,
};

/// Bytes of a page.
pub const PAGE: u64 = 512;
const SECTOR: u64 = 64;
/// Pages of the host: a slot and a range of rows for each.
pub const PAGES: u64 = 16;
/// Rows that can have an intent: three sectors of the file, the last one in part.
pub const ROWS: u64 = 10_000;

/// Holds what a life began with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub slots: Vec<(NvSlot, Tag)>,
    /// Lists those of them whose bytes are damaged.
    pub damaged: Vec<NvSlot>,
    pub intents: Vec<Rows>,
}

/// A write puts a slot with the page, one with FUA a slot without; a discard frees it. A write of
/// several pages is one commit that puts the slots of those that have none, with [`length`] bytes
/// each, and frees those of the others. Zeroes set the intents of the page's rows, zeroes of a part
/// of it clear them. A read gives the whole sectors of the bytes in the slot.
pub struct Scribe {
    found: Arc<Mutex<Found>>,
    slots: BTreeMap<u64, NvSlot>,
    /// Of the slots that this life found: the bytes in them.
    lens: BTreeMap<u64, u32>,
    /// The generation of each slot's last use, of those that this life knows of.
    generations: BTreeMap<u64, u32>,
    frags: Vec<Option<Frag>>,
}

impl Scribe {
    pub fn new(found: &Arc<Mutex<Found>>) -> Self {
        let found = Arc::clone(found);
        Self { found, slots: BTreeMap::new(), lens: BTreeMap::new(), generations: BTreeMap::new(), frags: Vec::new() }
    }

    fn plan(&mut self, frag: Frag, op: OpId, out: &mut Out) {
        let page = frag.page;
        let mut done = StepSet::EMPTY;
        match frag.op {
            HostOp::Write => {
                let (mut puts, mut frees) = (Vec::new(), Vec::new());
                for at in 0..frag.pages {
                    let page = page + u64::from(at);
                    if let Some(slot) = self.slots.remove(&page) {
                        frees.push(slot);
                        continue;
                    }
                    let generation = self.generations.entry(page).or_insert(0);
                    *generation += 1;
                    let slot = NvSlot { index: page as u32, generation: *generation };
                    let len = if frag.fua { 0 } else { length(page, frag.page, frag.pages) };
                    puts.push(NvPut { slot, tag: tag(page, len), src: frag.host(at), len });
                    self.slots.insert(page, slot);
                }
                let commit = Step::NvCommit { puts: out.puts(op, &puts), frees: out.slots(op, &frees) };
                done = out.step(op, commit, StepSet::EMPTY);
            }
            HostOp::Discard => {
                let frees = out.slots(op, &[self.slots.remove(&page).expect("the slot is in use")]);
                done = out.step(op, Step::NvCommit { puts: PutList::EMPTY, frees }, StepSet::EMPTY);
            }
            HostOp::WriteZeroes | HostOp::WriteZeroesUnmap => {
                let rows = out.rows(op, &[rows(page)]);
                done = out.step(op, Step::Intent { rows, set: frag.sectors.is_none() }, StepSet::EMPTY);
            }
            HostOp::Read => {
                let sectors = Sectors { first: 0, count: (self.lens[&page] / SECTOR as u32) as u8 };
                done = out.step(
                    op,
                    Step::Slice { src: Buf::Nv(self.slots[&page]), sectors, dst: frag.host(0) },
                    StepSet::EMPTY,
                );
            }
            HostOp::Flush => {}
        }
        out.step(op, Step::Ack { frag: frag.id, pages: frag.pages, ok: true }, done);
        out.close(op);
    }
}

impl Controller for Scribe {
    fn handle(&mut self, event: Event<'_>, out: &mut Out) {
        match event {
            Event::Start(start) => {
                let slots = start.nv.iter().map(|held| (held.slot, held.tag)).collect();
                let damaged = start.nv.iter().filter(|held| held.is_damaged).map(|held| held.slot).collect();
                *self.found.lock().unwrap() = Found { slots, damaged, intents: start.intents.to_vec() };
                assert!(start.nv.iter().all(|held| held.len() == bytes_in(&held.tag)), "as many bytes as were put");
                self.lens = start.nv.iter().map(|held| (u64::from(held.slot.index), held.len())).collect();
                self.slots = start.nv.iter().map(|held| (u64::from(held.slot.index), held.slot)).collect();
                self.generations = self.slots.iter().map(|(page, slot)| (*page, slot.generation)).collect();
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

/// Bytes that a write of `pages` pages from `first` on puts of a page.
pub fn length(page: u64, first: u64, pages: u16) -> u32 {
    if pages == 1 { PAGE as u32 } else { ((page * 131 + first * 57 + u64::from(pages) * 97) % (PAGE + 1)) as u32 }
}

/// Makes the tag of a page's slot that holds so many bytes.
pub fn tag(page: u64, len: u32) -> Tag {
    let mut tag = [page as u8; 24];
    tag[16..20].copy_from_slice(&len.to_le_bytes());
    tag[23] = 0xa5;
    tag
}

/// The bytes in a slot, as its tag says.
fn bytes_in(tag: &Tag) -> u32 {
    u32::from_le_bytes([tag[16], tag[17], tag[18], tag[19]])
}

/// Returns the bytes that a read brings of those that were put: whole sectors.
pub fn whole_sectors(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len() - bytes.len() % SECTOR as usize]
}

/// The rows of a page; those of neighbours overlap, and some lie in two sectors of the file.
pub fn rows(page: u64) -> Rows {
    Rows::new(Row(page * 600), 900)
}

pub fn config(folder: &Path) -> FilesConfig {
    let device = DeviceConfig { path: folder.join("dev0"), offset: 0, pages: 1, options: DeviceOptions::default() };
    FilesConfig {
        about: String::new(),
        array: 0x0102_0304_0506_0708,
        shape: Shape::new(PAGE, SECTOR, PAGES, PAGES, PAGES).expect("a shape that can be"),
        depth: 4,
        devices: vec![device],
        every_write: true,
        nvram: nvram(folder).into(),
        spare_nvram: None,
        nv_slots: PAGES as u32,
        intents: intents(folder),
        rows: ROWS,
        members: 0,
        rows_per_mark: 1,
        idle_marks: 0,
        io: IoBackend::Threads,
        patience: FilesConfig::PATIENCE,
        device_timeout: None,
    }
}

pub fn nvram(folder: &Path) -> PathBuf {
    folder.join("nvram")
}

pub fn intents(folder: &Path) -> PathBuf {
    folder.join("intents")
}

/// A new array.
pub fn create(folder: &Path) -> FileExecutor<Scribe> {
    FileExecutor::create(Scribe::new(&Arc::default()), config(folder), ExistingFiles::Refuse).expect("a new array")
}

/// Opens the array; what it found.
pub fn open(folder: &Path) -> Result<(FileExecutor<Scribe>, Found), FilesError> {
    let found = Arc::default();
    let files = FileExecutor::open(Scribe::new(&found), config(folder))?;
    let found = found.lock().unwrap().clone();
    Ok((files, found))
}

/// A request for a page.
pub const fn request(op: HostOp, page: u64) -> HostRequest {
    HostRequest { tag: page, op, offset: page * PAGE, len: PAGE, fua: false }
}

/// Serves one request; what it read.
pub fn serve(files: &mut FileExecutor<Scribe>, request: HostRequest, data: Vec<u8>) -> Vec<u8> {
    files.submit(request, data).expect("a request in range");
    let completion = files.wait().expect("it is served").expect("it is under way");
    assert!(completion.ok && completion.tag == request.tag);
    completion.bytes.to_vec()
}

/// Puts a slot.
pub fn put(files: &mut FileExecutor<Scribe>, page: u64, byte: u8) {
    serve(files, request(HostOp::Write, page), vec![byte; PAGE as usize]);
}

/// Sets or clears the intents of a page's rows.
pub fn intent(files: &mut FileExecutor<Scribe>, page: u64, set: bool) {
    let len = if set { PAGE } else { SECTOR };
    serve(files, HostRequest { len, ..request(HostOp::WriteZeroes, page) }, Vec::new());
}
