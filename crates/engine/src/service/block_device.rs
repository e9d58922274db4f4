//! The kernel's block device beside the clients: its requests come by a queue of the ublk driver's instead of a socket.
//!
//! The driver answers some orders only once the device has answered requests: those are given by a thread, which tells how they went
//! and gives the device's control back. Requests that wait for memory are no more than the queue has tags, and no others
//! are held up by them than those that come later.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use destage_exec::Buffer;
use destage_nbd::{Command, Errno, Request};
use destage_ublk::{BlockOp, BlockRequest, QueueEvent, RequestQueue, UblkDevice, UblkError};

use super::requests::{PendingRequest, Requester};
use super::{CLIENTS, PAUSE, Service, ServiceError, Source, cannot};
use crate::budget::{BufferGrant, REQUEST};
use crate::connection::Incoming;
use crate::waiter::Interest;
use crate::{Backend, ServiceEvent};

/// Stands for the block device among those that hold memory.
const HOLDER: usize = CLIENTS;

/// Gives a block device's orders to the kernel. All but its name may wait for requests to be answered.
pub trait DeviceControl: Send {
    /// Returns the block device.
    fn path(&self) -> PathBuf;
    /// Returns true if it goes on after its last server ended.
    fn resumes(&self) -> bool;
    /// Returns true if its requests wait for another server when this one ends.
    fn outlives_server(&self) -> bool;
    /// Has it appear, or go on.
    ///
    /// # Errors
    /// If the kernel refuses.
    fn start(&mut self) -> Result<(), UblkError>;
    /// Has it disappear, if nobody uses it; what the kernel's memory has of it is written first.
    ///
    /// # Errors
    /// If somebody uses it, or the kernel refuses.
    fn stop(&mut self) -> Result<(), UblkError>;
    /// Removes it, whose queue is closed.
    ///
    /// # Errors
    /// If the kernel refuses.
    fn remove(&mut self) -> Result<(), UblkError>;
}

impl DeviceControl for UblkDevice {
    fn path(&self) -> PathBuf {
        self.path()
    }

    fn resumes(&self) -> bool {
        self.resumes()
    }

    fn outlives_server(&self) -> bool {
        self.outlives_server()
    }

    fn start(&mut self) -> Result<(), UblkError> {
        self.start()
    }

    fn stop(&mut self) -> Result<(), UblkError> {
        self.stop()
    }

    fn remove(&mut self) -> Result<(), UblkError> {
        self.remove()
    }
}

/// Says what a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeviceOrder {
    Start,
    Stop,
}

/// Says how far the device is.
enum DevicePhase {
    /// A thread carries out an order.
    Ordered(DeviceOrder, Receiver<(Box<dyn DeviceControl>, Result<(), UblkError>)>),
    /// It is served.
    Serving(Box<dyn DeviceControl>),
    /// It is to be removed.
    Stopped(Box<dyn DeviceControl>),
    /// It could not be started.
    Failed,
}

/// Is the block device.
pub(super) struct BlockDevice {
    queue: RequestQueue,
    path: PathBuf,
    phase: DevicePhase,
    /// Says whether the service ends however the order to stop goes: the device waits for another server then.
    may_wait: bool,
    /// Says whether its requests wait for another server when this one ends.
    outlives: bool,
    /// The service ends as soon as it is started, and it waits for another server.
    pauses: bool,
    /// Holds the requests that were handed to the backend, by tag.
    begun: Vec<Option<BlockRequest>>,
    /// Holds those that wait for memory, in the order of coming.
    waiting: VecDeque<BlockRequest>,
    /// Counts the bytes that they hold.
    held: usize,
    /// Requests are taken: the queue's file is waited for.
    is_heard: bool,
    /// The driver has refused something, and answers of ours may have been lost.
    is_lost: bool,
}

impl<B: Backend> Service<B> {
    /// Serves the kernel's block device, too, from this thread alone: to be called by the one that [runs](Self::run) the service.
    ///
    /// # Errors
    /// If the system does not let it wait for its requests.
    pub fn attach(&mut self, control: Box<dyn DeviceControl>, queue: RequestQueue) -> Result<(), ServiceError> {
        if let Some(file) = queue.file() {
            let added = self.waiter.add(file, Source::BlockDevice.number(), Interest::READ);
            added.map_err(cannot("wait for the block device's requests"))?;
        }
        self.device = Some(BlockDevice {
            path: control.path(),
            outlives: control.outlives_server(),
            phase: self.order_device(control, DeviceOrder::Start),
            queue,
            may_wait: false,
            pauses: false,
            begun: Vec::new(),
            waiting: VecDeque::new(),
            held: 0,
            is_heard: true,
            is_lost: false,
        });
        Ok(())
    }

    /// Returns the block device, if there is one.
    pub fn block_device(&self) -> Option<String> {
        self.device.as_ref().map(|device| device.path.display().to_string())
    }

    fn order_device(&self, mut control: Box<dyn DeviceControl>, order: DeviceOrder) -> DevicePhase {
        let (done, told) = channel();
        let wake = WakeOnDrop(self.waiter.waker());
        let thread = std::thread::Builder::new().name("ublk".to_owned());
        let started = thread.spawn(move || {
            // Dropped after the channel, also if this panics, or is never begun for want of a thread.
            let (_wake, done) = (wake, done);
            let result = match order {
                DeviceOrder::Start => control.start(),
                DeviceOrder::Stop => control.stop(),
            };
            // If nobody listens the process ends.
            drop(done.send((control, result)));
        });
        // Without a thread the channel is closed, as after a panic.
        drop(started);
        DevicePhase::Ordered(order, told)
    }

    /// Ends the service once the block device is stopped, or at once if there is none. If it is in use the service goes on, or ends all
    /// the same where the device `may_wait` for another server.
    pub(super) fn begin_end(&mut self, may_wait: bool) {
        self.is_ending = true;
        let Some(mut device) = self.device.take() else { return self.stop_now() };
        device.may_wait |= may_wait;
        if may_wait {
            // Whatever hangs, the end comes.
            self.backend.begin_stop();
        }
        if self.broken.is_some() {
            // Nothing that the kernel has of it could be written.
            self.device = Some(device);
            return self.stop_now();
        }
        match std::mem::replace(&mut device.phase, DevicePhase::Failed) {
            DevicePhase::Serving(control) => device.phase = self.order_device(control, DeviceOrder::Stop),
            phase => {
                self.stopping |= !matches!(phase, DevicePhase::Ordered(..));
                device.phase = phase;
            }
        }
        self.device = Some(device);
    }

    /// Ends the service, and has the block device wait for another one.
    ///
    /// # Errors
    /// Why it cannot.
    pub(super) fn pause_device(&mut self) -> Result<(), &'static str> {
        let Some(device) = &mut self.device else {
            return Err("there is no block device that could wait: it is served without --ublk");
        };
        match &device.phase {
            _ if !device.outlives => {
                Err("the block device belongs to a user without privileges, and the kernel lets none such wait")
            }
            // A stop that hangs is given up so, too.
            DevicePhase::Serving(_) | DevicePhase::Ordered(DeviceOrder::Stop, _) => {
                self.stop_now();
                Ok(())
            }
            DevicePhase::Ordered(DeviceOrder::Start, _) => {
                device.pauses = true;
                Ok(())
            }
            _ => Err("the block device is being removed"),
        }
    }

    /// Takes in what has become of an order for the device.
    pub(super) fn hear_device(&mut self) {
        let Some(device) = &mut self.device else { return };
        let DevicePhase::Ordered(order, told) = &device.phase else { return };
        let order = *order;
        let (control, result) = match told.try_recv() {
            Ok(told) => told,
            Err(TryRecvError::Empty) => return,
            // The thread has panicked: what it did nobody knows.
            Err(TryRecvError::Disconnected) => {
                device.phase = DevicePhase::Failed;
                return self.stop_now();
            }
        };
        let path = device.path.display().to_string();
        let (may_wait, pauses) = (device.may_wait, device.pauses);
        match (order, result) {
            (DeviceOrder::Start, Ok(())) => {
                let resumed = control.resumes();
                device.phase = DevicePhase::Serving(control);
                self.happened(|| ServiceEvent::BlockDeviceStarted { path, resumed });
                if pauses {
                    self.stop_now();
                } else if self.is_ending {
                    self.begin_end(may_wait);
                }
            }
            (DeviceOrder::Stop, Ok(())) => {
                device.phase = DevicePhase::Stopped(control);
                self.stop_now();
            }
            (DeviceOrder::Start, Err(error)) => {
                // What waits for the array goes on waiting; a new device is of use to nobody.
                device.phase = if control.resumes() { DevicePhase::Failed } else { DevicePhase::Stopped(control) };
                self.device_error = Some(error);
                self.stop_now();
            }
            (DeviceOrder::Stop, Err(error)) => {
                device.phase = DevicePhase::Serving(control);
                if may_wait || self.broken.is_some() {
                    return self.stop_now();
                }
                self.is_ending = false;
                let why = error.to_string();
                self.happened(|| ServiceEvent::Ordered { order: "stop".to_owned(), refused: Some(why.clone()) });
                self.bosses.iter_mut().for_each(|(_, boss)| boss.refused_stop(&why));
            }
        }
    }

    /// Ends the service, be the device what it is.
    pub(super) const fn stop_now(&mut self) {
        self.stopping = true;
    }

    /// Takes the device's requests, and hands its answers to the kernel.
    pub(super) fn serve_device(&mut self) {
        if self.device.is_none() {
            return;
        }
        let is_heard = !self.holds_requests() && !self.stopping;
        self.hear_requests(is_heard);
        if is_heard {
            self.take_device_requests();
        }
        let Some(device) = &mut self.device else { return };
        let submitted = device.queue.submit();
        let failure = device.queue.failure().map(Into::into).or(submitted.err());
        if let Some(error) = failure.filter(|_| !device.is_lost) {
            device.is_lost = true;
            let path = device.path.display().to_string();
            self.happened(|| ServiceEvent::BlockDeviceFailed { path, why: error.to_string() });
            // The next service is asked again for what was not answered.
            self.stop_now();
        }
        let Some(device) = &mut self.device else { return };
        while let Some(buffer) = device.queue.take_spare() {
            self.budget.keep(buffer);
        }
        self.budget.settle(HOLDER, device.held);
    }

    /// Waits for the queue's file, or does not while nothing is taken: it would be readable all the time.
    fn hear_requests(&mut self, is_heard: bool) {
        let Some(device) = self.device.as_mut().filter(|device| device.is_heard != is_heard) else { return };
        device.is_heard = is_heard;
        if let Some(file) = device.queue.file() {
            let interest = Interest { read: is_heard, ..Interest::default() };
            // It is there; and a queue that is heard too often costs time alone.
            let _stays_as_it_is = self.waiter.change(file, Source::BlockDevice.number(), interest);
        }
    }

    /// Returns true if the kernel has not taken all answers.
    pub(super) fn owes_device(&self) -> bool {
        self.device.as_ref().is_some_and(|device| !device.is_lost && device.queue.is_behind())
    }

    /// Returns how long requests may wait for memory before it is asked for again: nobody says so if the system has none.
    pub(super) fn device_wait(&self) -> Option<Duration> {
        self.device.as_ref().filter(|device| !device.waiting.is_empty()).map(|_| PAUSE)
    }

    fn take_device_requests(&mut self) {
        self.admit_device_requests();
        while let Some(device) = &mut self.device {
            match device.queue.next_event() {
                Some(QueueEvent::Received(request, data)) => self.begin_device(request, data),
                Some(QueueEvent::Replaced(request, room)) => {
                    device.held -= room.capacity() + REQUEST;
                    self.budget.keep(room);
                    device.waiting.push_back(request);
                    self.admit_device_requests();
                }
                Some(QueueEvent::Came(request)) => {
                    device.waiting.push_back(request);
                    self.admit_device_requests();
                }
                None => return,
            }
        }
    }

    /// Begins those that wait for memory, as far as there is some.
    fn admit_device_requests(&mut self) {
        loop {
            let Some(device) = &mut self.device else { return };
            let Some(request) = device.waiting.front().copied() else { return };
            let len = if matches!(request.op, BlockOp::Read | BlockOp::Write) { request.len as usize } else { 0 };
            // What fails for want of memory is tried again: the driver takes no answer to a write of which it was given no room.
            let BufferGrant::Given(data) = self.budget.take(HOLDER, device.held, len, 0) else { return };
            device.waiting.pop_front();
            device.held += data.capacity() + REQUEST;
            if request.op == BlockOp::Write {
                device.queue.receive(request.tag, data);
            } else {
                self.begin_device(request, data);
            }
        }
    }

    fn begin_device(&mut self, request: BlockRequest, data: Buffer) {
        let Some(device) = &mut self.device else { return };
        let tag = usize::from(request.tag);
        if device.begun.len() <= tag {
            device.begun.resize(tag + 1, None);
        }
        device.begun[tag] = Some(request);
        self.begin(Requester::BlockDevice, Incoming { request: as_client(&request), data });
    }

    /// Answers a request of the device's.
    pub(super) fn answer_device(&mut self, pending: &PendingRequest, done: Result<Buffer, Errno>) {
        let Some(device) = &mut self.device else { return };
        let tag = pending.request.cookie as usize;
        let Some(request) = device.begun.get_mut(tag).and_then(Option::take) else { return };
        device.held -= pending.bytes + REQUEST;
        device.queue.answer(&request, done.map_err(as_kernel));
    }

    /// Returns true if requests of the device's are left to the next service when this one is refused a start.
    pub(super) fn leaves_device_requests(&self) -> bool {
        self.device.as_ref().is_some_and(|device| device.outlives)
    }

    /// Closes the device's queue at the end of the service.
    pub(super) fn close_queue(&mut self) -> Option<ClosedDevice> {
        let BlockDevice { queue, path, phase, held, outlives, .. } = self.device.take()?;
        if let Some(file) = queue.file() {
            self.waiter.remove(file);
        }
        let path = path.display().to_string();
        let control = if let DevicePhase::Stopped(control) = phase {
            debug_assert!(held == 0 || self.device_error.is_some(), "all is answered");
            drop(queue);
            Some(control)
        } else {
            // The process does that as it ends: the driver counts a queue's server as gone only when its thread is.
            std::mem::forget(queue);
            None
        };
        Some(ClosedDevice { path, outlives, control, error: self.device_error.take() })
    }
}

/// Is a device whose queue is closed.
pub(super) struct ClosedDevice {
    path: String,
    outlives: bool,
    /// Removes it, if it is to be.
    control: Option<Box<dyn DeviceControl>>,
    /// Says why it could not be started.
    error: Option<UblkError>,
}

impl ClosedDevice {
    /// Removes the device, or leaves it to the next service; returns what is told of that.
    pub(super) fn end(self) -> Result<ServiceEvent, ServiceError> {
        let Self { path, outlives, control, error } = self;
        let removed = control.map(|mut control| control.remove());
        if let Some(error) = error {
            return Err(error.into());
        }
        match removed {
            Some(removed) => {
                removed?;
                Ok(ServiceEvent::BlockDeviceRemoved { path })
            }
            None => Ok(ServiceEvent::BlockDeviceLeft { path, waits: outlives }),
        }
    }
}

/// Wakes the service when it goes.
struct WakeOnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for WakeOnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Returns a request as a client would ask.
fn as_client(request: &BlockRequest) -> Request {
    let command = match request.op {
        BlockOp::Read => Command::Read { whole: true },
        BlockOp::Write => Command::Write,
        BlockOp::Flush => Command::Flush,
        BlockOp::Discard => Command::Trim,
        BlockOp::WriteZeroes { keeps_room } => Command::WriteZeroes { no_hole: keeps_room, fast: false },
    };
    // The driver is told of a limit that fits.
    let length = request.len as u32;
    Request { cookie: request.tag.into(), command, fua: request.fua, offset: request.offset, length }
}

/// Returns an error as the kernel has it.
const fn as_kernel(errno: Errno) -> rustix::io::Errno {
    match errno {
        Errno::NoMem => rustix::io::Errno::NOMEM,
        Errno::NotSup => rustix::io::Errno::OPNOTSUPP,
        Errno::NoSpc => rustix::io::Errno::NOSPC,
        Errno::Inval => rustix::io::Errno::INVAL,
        Errno::Perm => rustix::io::Errno::PERM,
        _ => rustix::io::Errno::IO,
    }
}
