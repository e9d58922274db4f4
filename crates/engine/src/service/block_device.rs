//! Starts, stops and leaves the kernel's block device, which the service serves beside its clients.
//!
//! The driver carries out some orders only once the device has answered requests. A thread gives those orders, reports the
//! result and returns the device's control. [`device_requests`](super::device_requests) has the requests.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use destage_ublk::{BlockRequest, RequestQueue, UblkError};

use super::device_control::DeviceControl;
use super::{BlockService, EventSource, ServiceError, cannot};
use crate::waiter::IoInterest;
use crate::{BlockBackend, ServiceEvent};

/// Says what a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeviceOrder {
    Start,
    Stop,
}

/// Says how far the device is.
enum DevicePhase {
    /// Waits for a thread that carries out an order.
    Ordered(DeviceOrder, Receiver<(Box<dyn DeviceControl>, Result<(), UblkError>)>),
    /// Is served.
    Serving(Box<dyn DeviceControl>),
    /// Has disappeared, and is to be removed.
    Stopped(Box<dyn DeviceControl>),
    /// Could not be started.
    Failed,
}

/// Is the block device.
pub(super) struct BlockDevice {
    pub(super) queue: RequestQueue,
    pub(super) path: PathBuf,
    phase: DevicePhase,
    /// Says whether the service ends however the order to stop goes: the device waits for another server then.
    may_wait: bool,
    /// Says whether its requests wait for another server when this one ends.
    outlives: bool,
    /// Tells that the service ends as soon as it is started, and that it waits for another server.
    pauses: bool,
    /// Holds the requests that were handed to the backend, by tag.
    pub(super) begun: Vec<Option<BlockRequest>>,
    /// Holds those that wait for memory, in the order of coming.
    pub(super) waiting: VecDeque<BlockRequest>,
    /// Counts the bytes that they hold.
    pub(super) held: usize,
    /// Tells that requests are taken: the queue's file is waited for.
    pub(super) is_heard: bool,
    /// Tells that the driver has refused something, and that answers of ours may have been lost.
    pub(super) is_lost: bool,
}

impl<B: BlockBackend> BlockService<B> {
    /// Serves the kernel's block device, too, from this thread alone: to be called by the one that [runs](Self::run) the service.
    ///
    /// # Errors
    /// If the system does not let it wait for its requests.
    pub fn attach(&mut self, control: Box<dyn DeviceControl>, queue: RequestQueue) -> Result<(), ServiceError> {
        if let Some(file) = queue.file() {
            let added = self.waiter.add(file, EventSource::BlockDevice.number(), IoInterest::READ);
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
            // The waker is dropped after the channel, also if the thread panics or never begins: the service then finds
            // the channel closed.
            let (_wake, done) = (wake, done);
            let result = match order {
                DeviceOrder::Start => control.start(),
                DeviceOrder::Stop => control.stop(),
            };
            // The process ends if nobody listens.
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
            // Devices that hang are given up from now on, so the end comes.
            self.backend.begin_stop();
        }
        if self.broken.is_some() {
            // Nothing that the kernel's page cache holds could be written any more, so a stop could only hang.
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
            // A stop that hangs is given up by a pause, too.
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
            // The thread has panicked, and the driver may or may not have carried out the order.
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
                // A file system that waits for the array goes on waiting; a new device is of use to nobody.
                device.phase = if control.resumes() { DevicePhase::Failed } else { DevicePhase::Stopped(control) };
                self.device_error = Some(error);
                self.stop_now();
            }
            (DeviceOrder::Stop, Err(error)) => {
                device.phase = DevicePhase::Serving(control);
                if may_wait || self.broken.is_some() {
                    return self.stop_now();
                }
                // The device is in use: ending now would fail requests of a mounted file system.
                self.is_ending = false;
                let why = error.to_string();
                self.happened(|| ServiceEvent::Ordered { order: "stop".to_owned(), refused: Some(why.clone()) });
                self.controls.iter_mut().for_each(|(_, control)| control.refused_stop(&why));
            }
        }
    }

    /// Ends the service, be the device what it is.
    pub(super) const fn stop_now(&mut self) {
        self.stopping = true;
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
            // The driver counts a server as gone only when its thread is, so the end of the process closes the
            // queue.
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
