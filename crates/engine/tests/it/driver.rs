//! Models Linux' ublk driver: what it takes and refuses, and in which order it tells of what.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use destage_engine::{DeviceControl, UblkError};
use destage_exec::AlignedBuffer;
use destage_ublk::abi::{DESCRIPTOR_BYTES, OP_READ, OP_WRITE, RESULT_NEED_GET_DATA, RESULT_OK, RequestDescriptor};
use destage_ublk::{KernelEvent, QueueKernel};
use rustix::event::{EventfdFlags, eventfd};

use crate::served::ShuffleRng;

/// Is the driver's answer for a tag that it wants no more.
const ABORT: i32 = -19;
/// Names the read by which the kernel looks for partitions.
const PARTITIONS: usize = usize::MAX;

/// Is what the kernel wants of the device.
#[derive(Clone, Debug)]
pub struct KernelRequest {
    /// Tells it from the others.
    pub id: usize,
    pub op: u8,
    pub flags: u32,
    pub first: u64,
    pub sectors: u32,
    /// Is what a write writes.
    pub data: Vec<u8>,
}

/// Is what became of it: what a read read.
pub type KernelAnswer = (usize, Result<Vec<u8>, i32>);

/// Is a tag as the driver sees it.
#[derive(Default)]
struct TagModel {
    /// Says that the driver has a command of the server's.
    active: bool,
    /// Says that the server has the request.
    owned: bool,
    /// Says that the server was told that a write's bytes want room.
    wants_room: bool,
    request: Option<KernelRequest>,
    /// Counts the sectors that the server was told of, if they are fewer than were asked for.
    told_sectors: u32,
}

enum ServerCommand {
    Fetch(u16),
    Room(u16, AlignedBuffer),
    Answer(u16, i32, AlignedBuffer),
}

struct DriverState {
    tags: Vec<TagModel>,
    given: Vec<ServerCommand>,
    told: VecDeque<KernelEvent>,
    queue: VecDeque<KernelRequest>,
    answered: Vec<KernelAnswer>,
    spare: Vec<AlignedBuffer>,
    draws: ShuffleRng,
    /// Now and then hands over fewer sectors than were asked for, or takes a write back.
    is_short: bool,
    in_use: bool,
    refuses: bool,
    fails: bool,
    outlives: bool,
    resumed: bool,
    started: bool,
    closed: bool,
    removed: bool,
}

/// Is the driver, seen by the kernel.
#[derive(Clone)]
pub struct DriverModel {
    state: Arc<Mutex<DriverState>>,
    wake: Arc<OwnedFd>,
}

/// Is the driver, seen by the server.
pub struct ModelKernel(DriverModel);

/// Gives orders to the driver.
pub struct ModelControl(DriverModel);

impl DriverModel {
    pub fn new(depth: u16, seed: u64) -> Self {
        let state = DriverState {
            tags: (0..depth).map(|_| TagModel::default()).collect(),
            given: Vec::new(),
            told: VecDeque::new(),
            queue: VecDeque::new(),
            answered: Vec::new(),
            spare: Vec::new(),
            draws: ShuffleRng(seed),
            is_short: false,
            in_use: false,
            refuses: false,
            fails: false,
            outlives: true,
            resumed: false,
            started: false,
            closed: false,
            removed: false,
        };
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a file");
        Self { state: Arc::new(Mutex::new(state)), wake: Arc::new(wake) }
    }

    pub fn kernel(&self) -> ModelKernel {
        ModelKernel(self.clone())
    }

    pub fn control(&self) -> ModelControl {
        ModelControl(self.clone())
    }

    fn state(&self) -> MutexGuard<'_, DriverState> {
        self.state.lock().expect("nobody panics")
    }

    pub fn set_short(&self) {
        self.state().is_short = true;
    }

    pub fn set_in_use(&self, in_use: bool) {
        self.state().in_use = in_use;
    }

    /// Refuses answers.
    pub fn set_refusing(&self) {
        self.state().refuses = true;
    }

    /// Has the device wait from before.
    pub fn set_resumed(&self) {
        self.state().resumed = true;
    }

    /// Has the device not start.
    pub fn set_failing(&self) {
        self.state().fails = true;
    }

    /// Is a device of a user without privileges.
    pub fn set_unprivileged(&self) {
        self.state().outlives = false;
    }

    /// Returns whether the server has closed the queue, and whether it has removed the device.
    pub fn ends(&self) -> (bool, bool) {
        let state = self.state();
        (state.closed, state.removed)
    }

    /// Asks for something, once there is a tag for it.
    pub fn ask(&self, asked: KernelRequest) {
        let mut state = self.state();
        state.queue.push_back(asked);
        state.dispatch();
        drop(state);
        self.tell();
    }

    pub fn take_answered(&self) -> Vec<KernelAnswer> {
        std::mem::take(&mut self.state().answered)
    }

    /// Waits for so many answers.
    pub fn wait(&self, number: usize) -> Vec<KernelAnswer> {
        let (mut all, begin) = (Vec::new(), Instant::now());
        while all.len() < number {
            all.extend(self.take_answered());
            assert!(begin.elapsed() < Duration::from_mins(1), "{} of {number} answers", all.len());
            std::thread::sleep(Duration::from_micros(50));
        }
        all
    }

    /// Waits until the device is there, if it is to be.
    pub fn wait_started(&self) {
        self.until(|state| state.started || state.fails);
    }

    fn tell(&self) {
        let _full = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Waits until this holds of the driver.
    fn until(&self, holds: impl Fn(&DriverState) -> bool) {
        let begin = Instant::now();
        while !holds(&self.state()) {
            assert!(begin.elapsed() < Duration::from_mins(1), "the server does not go on");
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

impl DriverState {
    /// Hands requests to tags that have none.
    fn dispatch(&mut self) {
        while let Some(tag) = self.tags.iter().position(|tag| tag.active && tag.request.is_none()) {
            let Some(asked) = self.queue.pop_front() else { return };
            let (is_write, sectors) = (asked.op == OP_WRITE, asked.sectors);
            let model = &mut self.tags[tag];
            (model.request, model.told_sectors) = (Some(asked), sectors);
            (model.active, model.owned, model.wants_room) = (false, true, is_write);
            let result = if is_write { RESULT_NEED_GET_DATA } else { RESULT_OK };
            self.told.push_back(KernelEvent { tag: tag as u16, result, room: AlignedBuffer::new() });
        }
    }

    fn carry_out(&mut self, given: ServerCommand) {
        match given {
            ServerCommand::Fetch(tag) => {
                let tag = &mut self.tags[usize::from(tag)];
                assert!(!tag.active && !tag.owned, "a tag is fetched once");
                tag.active = true;
            }
            ServerCommand::Room(at, mut room) => {
                let is_odd = self.is_short && self.draws.below(4) == 0;
                let tag = &mut self.tags[usize::from(at)];
                assert!(tag.owned && tag.wants_room && !tag.active, "room is given when it is asked for");
                let asked = tag.request.as_ref().expect("it has a request");
                let mut result = RESULT_OK;
                if is_odd && self.draws.below(2) == 0 {
                    // It could copy nothing, and sends the request again.
                    result = RESULT_NEED_GET_DATA;
                } else {
                    let sectors = if is_odd && asked.sectors > 1 { asked.sectors / 2 } else { asked.sectors };
                    let bytes = sectors as usize * 512;
                    assert!(room.len() >= asked.data.len(), "there is room for all");
                    room[..bytes].copy_from_slice(&asked.data[..bytes]);
                    (tag.told_sectors, tag.wants_room) = (sectors, false);
                }
                self.told.push_back(KernelEvent { tag: at, result, room });
            }
            ServerCommand::Answer(tag, ..) if self.refuses => {
                self.told.push_back(KernelEvent { tag, result: -22, room: AlignedBuffer::new() });
            }
            ServerCommand::Answer(at, result, data) => {
                let tag = &mut self.tags[usize::from(at)];
                assert!(tag.owned && !tag.wants_room && !tag.active, "what the server has is answered once");
                (tag.owned, tag.active) = (false, true);
                let mut asked = tag.request.take().expect("it has a request");
                let whole = asked.sectors as usize * 512;
                let done = match result {
                    error if error < 0 => Err(error),
                    _ if asked.op == OP_READ => Ok(data[..whole].to_vec()),
                    _ => Ok(Vec::new()),
                };
                let moved = result as usize;
                if done.is_ok() && asked.op == OP_WRITE && moved < whole {
                    // The rest comes again.
                    assert!(moved > 0 && moved.is_multiple_of(512), "{moved} of {whole}");
                    asked.first += moved as u64 / 512;
                    asked.sectors -= moved as u32 / 512;
                    asked.data.drain(..moved);
                    self.queue.push_front(asked);
                } else {
                    if asked.op == OP_READ && result >= 0 {
                        assert_eq!(moved, whole, "a read reads all");
                    }
                    if asked.id == PARTITIONS {
                        self.started = true;
                    } else {
                        self.answered.push((asked.id, done));
                    }
                }
                self.spare.push(data);
            }
        }
    }
}

impl QueueKernel for ModelKernel {
    fn depth(&self) -> u16 {
        self.0.state().tags.len() as u16
    }

    fn fetch(&mut self, tag: u16) {
        self.0.state().given.push(ServerCommand::Fetch(tag));
    }

    fn receive(&mut self, tag: u16, room: AlignedBuffer) {
        self.0.state().given.push(ServerCommand::Room(tag, room));
    }

    fn answer(&mut self, tag: u16, result: i32, data: AlignedBuffer) {
        self.0.state().given.push(ServerCommand::Answer(tag, result, data));
    }

    fn submit(&mut self) -> io::Result<()> {
        let mut state = self.0.state();
        for given in std::mem::take(&mut state.given) {
            state.carry_out(given);
        }
        state.dispatch();
        if !state.told.is_empty() {
            self.0.tell();
        }
        Ok(())
    }

    fn is_behind(&self) -> bool {
        false
    }

    fn next(&mut self) -> Option<KernelEvent> {
        let told = self.0.state().told.pop_front();
        if told.is_none() {
            let _empty = rustix::io::read(&self.0.wake, &mut [0_u8; 8]);
            // What came between is not slept over.
            return self.0.state().told.pop_front();
        }
        told
    }

    fn descriptor(&self, tag: u16) -> [u8; DESCRIPTOR_BYTES] {
        let state = self.0.state();
        let tag = &state.tags[usize::from(tag)];
        let KernelRequest { op, flags, first, .. } = *tag.request.as_ref().expect("it has a request");
        RequestDescriptor { op, flags, sectors: tag.told_sectors, first }.encode()
    }

    fn take_answered(&mut self) -> Option<AlignedBuffer> {
        self.0.state().spare.pop()
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.wake.as_fd())
    }
}

impl Drop for ModelKernel {
    fn drop(&mut self) {
        self.0.state().closed = true;
    }
}

impl DeviceControl for ModelControl {
    fn path(&self) -> PathBuf {
        PathBuf::from("/dev/ublkb0")
    }

    fn resumes(&self) -> bool {
        self.0.state().resumed
    }

    fn outlives_server(&self) -> bool {
        self.0.state().outlives
    }

    /// Starts the device; the kernel looks for partitions meanwhile.
    fn start(&mut self) -> Result<(), UblkError> {
        if self.0.state().fails {
            return Err(UblkError::Io { what: "start /dev/ublkb0".to_owned(), source: io::ErrorKind::Other.into() });
        }
        self.0.ask(KernelRequest { id: PARTITIONS, op: OP_READ, flags: 0, first: 0, sectors: 8, data: Vec::new() });
        self.0.until(|state| state.started);
        Ok(())
    }

    fn stop(&mut self) -> Result<(), UblkError> {
        if self.0.state().in_use {
            return Err(UblkError::InUse(0));
        }
        self.0.until(|state| state.queue.is_empty() && state.tags.iter().all(|tag| tag.request.is_none()));
        let mut state = self.0.state();
        for tag in 0..state.tags.len() as u16 {
            state.tags[usize::from(tag)].active = false;
            state.told.push_back(KernelEvent { tag, result: ABORT, room: AlignedBuffer::new() });
        }
        drop(state);
        self.0.tell();
        Ok(())
    }

    fn remove(&mut self) -> Result<(), UblkError> {
        let mut state = self.0.state();
        assert!(state.closed, "who has the file open keeps it from being removed");
        state.removed = true;
        Ok(())
    }
}
