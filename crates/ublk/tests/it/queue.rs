//! Checks a queue against a driver that says what the test has it say.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use destage_exec::AlignedBuffer;
use destage_ublk::abi::{
    DESCRIPTOR_BYTES, IO_FUA, OP_DISCARD, OP_FLUSH, OP_READ, OP_WRITE, RESULT_NEED_GET_DATA, RESULT_OK,
    RequestDescriptor,
};
use destage_ublk::{BlockOp, BlockRequest, KernelEvent, QueueEvent, QueueKernel, RequestQueue};
use rustix::io::Errno;

const SECTORS: u64 = 1000;

/// Records what was given to the driver: a tag's fetch, room of so many bytes, or an answer with so many.
#[derive(Debug, PartialEq, Eq)]
enum DriverCommand {
    Fetch(u16),
    Room(u16, usize),
    Answer(u16, i32, usize),
}

#[derive(Default)]
struct DriverScript {
    given: Vec<DriverCommand>,
    told: VecDeque<KernelEvent>,
    described: Option<RequestDescriptor>,
}

struct ScriptKernel(Rc<RefCell<DriverScript>>);

impl QueueKernel for ScriptKernel {
    fn depth(&self) -> u16 {
        2
    }

    fn fetch(&mut self, tag: u16) {
        self.0.borrow_mut().given.push(DriverCommand::Fetch(tag));
    }

    fn receive(&mut self, tag: u16, room: AlignedBuffer) {
        self.0.borrow_mut().given.push(DriverCommand::Room(tag, room.len()));
    }

    fn answer(&mut self, tag: u16, result: i32, data: AlignedBuffer) {
        self.0.borrow_mut().given.push(DriverCommand::Answer(tag, result, data.len()));
    }

    fn submit(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn is_behind(&self) -> bool {
        false
    }

    fn next(&mut self) -> Option<KernelEvent> {
        self.0.borrow_mut().told.pop_front()
    }

    fn descriptor(&self, _: u16) -> [u8; DESCRIPTOR_BYTES] {
        self.0.borrow().described.expect("it is described").encode()
    }

    fn take_answered(&mut self) -> Option<AlignedBuffer> {
        None
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

struct ScriptedQueue {
    script: Rc<RefCell<DriverScript>>,
    queue: RequestQueue,
}

impl ScriptedQueue {
    fn new() -> Self {
        let script = Rc::<RefCell<DriverScript>>::default();
        let queue = RequestQueue::new(Box::new(ScriptKernel(Rc::clone(&script))), SECTORS * 512).expect("it starts");
        let mut scripted = Self { script, queue };
        assert_eq!(scripted.given(), [DriverCommand::Fetch(0), DriverCommand::Fetch(1)]);
        scripted
    }

    fn given(&mut self) -> Vec<DriverCommand> {
        std::mem::take(&mut self.script.borrow_mut().given)
    }

    /// Has the driver say this of a tag, and returns what the queue makes of it.
    fn tell(&mut self, tag: u16, result: i32, room: AlignedBuffer) -> Option<QueueEvent> {
        self.script.borrow_mut().told.push_back(KernelEvent { tag, result, room });
        self.queue.next_event()
    }

    fn come(&mut self, tag: u16, op: u8, first: u64, sectors: u32) -> Option<QueueEvent> {
        self.script.borrow_mut().described = Some(RequestDescriptor { op, flags: IO_FUA, sectors, first });
        let result = if op == OP_WRITE { RESULT_NEED_GET_DATA } else { RESULT_OK };
        self.tell(tag, result, AlignedBuffer::new())
    }
}

fn request(tag: u16, op: BlockOp, offset: u64, len: u64) -> BlockRequest {
    BlockRequest { tag, op, offset, len, fua: true }
}

#[test]
fn a_read_brings_its_bytes_with_the_answer() {
    let mut scripted = ScriptedQueue::new();
    let Some(QueueEvent::Came(read)) = scripted.come(1, OP_READ, 8, 16) else { panic!("a read") };
    assert_eq!(read, request(1, BlockOp::Read, 4096, 8192));
    scripted.queue.answer(&read, Ok(AlignedBuffer::zeroed(8192)));
    let Some(QueueEvent::Came(read)) = scripted.come(1, OP_READ, 0, 1) else { panic!("a read") };
    scripted.queue.answer(&read, Err(Errno::IO));
    let Some(QueueEvent::Came(read)) = scripted.come(1, OP_READ, 0, 2) else { panic!("a read") };
    // What is shorter than was asked for is no answer.
    scripted.queue.answer(&read, Ok(AlignedBuffer::zeroed(512)));
    assert_eq!(
        scripted.given(),
        [DriverCommand::Answer(1, 8192, 8192), DriverCommand::Answer(1, -5, 0), DriverCommand::Answer(1, -5, 0)]
    );
}

#[test]
fn a_write_has_its_bytes_once_there_is_room_for_them() {
    let mut scripted = ScriptedQueue::new();
    let Some(QueueEvent::Came(write)) = scripted.come(0, OP_WRITE, 990, 10) else { panic!("a write") };
    assert_eq!(write, request(0, BlockOp::Write, 990 * 512, 5120));
    scripted.queue.receive(0, AlignedBuffer::zeroed(5120));
    // Taken back and sent again.
    let again = scripted.tell(0, RESULT_NEED_GET_DATA, AlignedBuffer::zeroed(5120));
    let Some(QueueEvent::Replaced(write, room)) = again else { panic!("the write again") };
    assert_eq!((write, room.len()), (request(0, BlockOp::Write, 990 * 512, 5120), 5120));
    scripted.queue.receive(0, AlignedBuffer::zeroed(5120));
    // Fewer bytes than were asked for.
    scripted.script.borrow_mut().described = Some(RequestDescriptor { op: OP_WRITE, flags: 0, sectors: 4, first: 990 });
    let received = scripted.tell(0, RESULT_OK, AlignedBuffer::zeroed(5120));
    let Some(QueueEvent::Received(write, bytes)) = received else { panic!("a write") };
    assert_eq!((write.len, bytes.len()), (2048, 2048));
    scripted.queue.answer(&write, Ok(bytes));
    assert!(scripted.queue.take_spare().is_some_and(|spare| spare.capacity() >= 5120), "it serves another request");
    assert_eq!(
        scripted.given(),
        [DriverCommand::Room(0, 5120), DriverCommand::Room(0, 5120), DriverCommand::Answer(0, 2048, 0)]
    );
}

#[test]
fn a_tag_whose_write_was_taken_back_may_have_another_request() {
    let mut scripted = ScriptedQueue::new();
    assert!(scripted.come(0, OP_WRITE, 0, 8).is_some());
    scripted.queue.receive(0, AlignedBuffer::zeroed(4096));
    scripted.script.borrow_mut().described = Some(RequestDescriptor { op: OP_READ, flags: 0, sectors: 16, first: 0 });
    let replaced = scripted.tell(0, RESULT_OK, AlignedBuffer::zeroed(4096));
    let Some(QueueEvent::Replaced(read, _)) = replaced else { panic!("a read") };
    scripted.queue.answer(&read, Ok(AlignedBuffer::zeroed(8192)));
    assert_eq!(scripted.given(), [DriverCommand::Room(0, 4096), DriverCommand::Answer(0, 8192, 8192)]);
    // A refusal of the driver's is kept; that the device is stopped is none.
    assert!(scripted.tell(1, -19, AlignedBuffer::new()).is_none() && scripted.queue.failure().is_none());
    assert!(scripted.tell(0, -22, AlignedBuffer::new()).is_none());
    assert_eq!(scripted.queue.failure(), Some(Errno::INVAL));
}

#[test]
fn what_has_no_bytes_is_answered_without() {
    let mut scripted = ScriptedQueue::new();
    for (op, described) in [(OP_FLUSH, BlockOp::Flush), (OP_DISCARD, BlockOp::Discard)] {
        let sectors = if op == OP_FLUSH { 0 } else { 8 };
        let Some(QueueEvent::Came(came)) = scripted.come(0, op, 0, sectors) else { panic!("a request") };
        assert_eq!(came.op, described);
        scripted.queue.answer(&came, Ok(AlignedBuffer::new()));
    }
    assert_eq!(scripted.given(), [DriverCommand::Answer(0, 0, 0), DriverCommand::Answer(0, 0, 0)]);
}

#[test]
fn what_is_not_understood_is_refused_at_once() {
    let mut scripted = ScriptedQueue::new();
    assert!(scripted.come(0, 10, 0, 8).is_none());
    assert!(scripted.come(0, OP_READ, SECTORS, 1).is_none());
    assert!(scripted.come(0, OP_READ, u64::MAX / 8, 1).is_none());
    assert!(scripted.come(0, OP_READ, 0, 0).is_none());
    assert_eq!(
        scripted.given(),
        [
            DriverCommand::Answer(0, -95, 0),
            DriverCommand::Answer(0, -22, 0),
            DriverCommand::Answer(0, -22, 0),
            DriverCommand::Answer(0, -22, 0)
        ]
    );
}

#[test]
fn a_queue_is_over_when_all_its_tags_have_ended() {
    const ABORT: i32 = -19;
    let mut scripted = ScriptedQueue::new();
    assert!(scripted.come(0, OP_WRITE, 0, 8).is_some());
    scripted.queue.receive(0, AlignedBuffer::zeroed(4096));
    assert!(scripted.tell(0, ABORT, AlignedBuffer::zeroed(4096)).is_none() && !scripted.queue.is_over());
    assert!(scripted.queue.take_spare().is_some(), "its room is free");
    assert!(scripted.tell(1, ABORT, AlignedBuffer::new()).is_none() && scripted.queue.is_over());
}
