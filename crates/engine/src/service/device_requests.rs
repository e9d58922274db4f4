//! Takes the requests of the kernel's block device, hands them to the backend, and answers them.
//!
//! Requests that wait for memory are no more than the queue has tags. They hold up only device requests that come later.

use std::time::Duration;

use destage_exec::AlignedBuffer;
use destage_nbd::{Errno, NbdCommand, NbdRequest};
use destage_ublk::{BlockOp, BlockRequest, QueueEvent};

use super::requests::{PendingRequest, RequestSource};
use super::{BlockService, CLIENTS, EventSource, PAUSE};
use crate::budget::{BufferGrant, REQUEST};
use crate::connection::IncomingRequest;
use crate::waiter::IoInterest;
use crate::{BlockBackend, ServiceEvent};

/// Stands for the block device among those that hold memory.
const HOLDER: usize = CLIENTS;

impl<B: BlockBackend> BlockService<B> {
    /// Takes the device's requests, and hands its answers to the kernel.
    pub(super) fn serve_device(&mut self) {
        if self.device.is_none() {
            return;
        }
        // While a replacement comes to rest no request begins; the driver queues them meanwhile.
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
            // The driver hands requests that were not answered to the next service.
            self.stop_now();
        }
        let Some(device) = &mut self.device else { return };
        while let Some(buffer) = device.queue.take_spare() {
            self.budget.keep(buffer);
        }
        // The device counts as one client of the memory budget.
        self.budget.settle(HOLDER, device.held);
    }

    /// Waits for the queue's file, or does not while nothing is taken: it would be readable all the time.
    fn hear_requests(&mut self, is_heard: bool) {
        let Some(device) = self.device.as_mut().filter(|device| device.is_heard != is_heard) else { return };
        device.is_heard = is_heard;
        if let Some(file) = device.queue.file() {
            let interest = IoInterest { read: is_heard, ..IoInterest::default() };
            // The change cannot fail for a descriptor that is registered; at worst the queue is looked at too
            // often.
            let _stays_as_it_is = self.waiter.change(file, EventSource::BlockDevice.number(), interest);
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
            // Memory that is short is asked for again: the driver takes no answer to a write before it has copied
            // the bytes.
            let BufferGrant::Given(data) = self.budget.take(HOLDER, device.held, len, 0) else { return };
            device.waiting.pop_front();
            device.held += data.capacity() + REQUEST;
            // The driver copies a write's bytes only now (`UBLK_F_NEED_GET_DATA`): one command more, and no buffer
            // per tag.
            if request.op == BlockOp::Write {
                device.queue.receive(request.tag, data);
            } else {
                self.begin_device(request, data);
            }
        }
    }

    fn begin_device(&mut self, request: BlockRequest, data: AlignedBuffer) {
        let Some(device) = &mut self.device else { return };
        let tag = usize::from(request.tag);
        if device.begun.len() <= tag {
            device.begun.resize(tag + 1, None);
        }
        device.begun[tag] = Some(request);
        self.begin(RequestSource::BlockDevice, IncomingRequest { request: as_client(&request), data });
    }

    /// Answers a request of the device's.
    pub(super) fn answer_device(&mut self, pending: &PendingRequest, done: Result<AlignedBuffer, Errno>) {
        let Some(device) = &mut self.device else { return };
        let tag = pending.request.cookie as usize;
        let Some(request) = device.begun.get_mut(tag).and_then(Option::take) else { return };
        device.held -= pending.bytes + REQUEST;
        device.queue.answer(&request, done.map_err(as_kernel));
    }
}

/// Returns a request as a client would ask.
fn as_client(request: &BlockRequest) -> NbdRequest {
    let command = match request.op {
        BlockOp::Read => NbdCommand::Read { whole: true },
        BlockOp::Write => NbdCommand::Write,
        BlockOp::Flush => NbdCommand::Flush,
        BlockOp::Discard => NbdCommand::Trim,
        BlockOp::WriteZeroes { keeps_room } => NbdCommand::WriteZeroes { no_hole: keeps_room, fast: false },
    };
    // The driver keeps to the limit that the service set, which fits in 32 bits.
    let length = request.len as u32;
    NbdRequest { cookie: request.tag.into(), command, fua: request.fua, offset: request.offset, length }
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
