//! Defines the device that a service serves.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use destage_exec::{AlignedBuffer, FilesError, RequestCompletion};
use destage_nbd::StatusExtent;
use destage_plan::HostRequest;

use crate::{
    ArrayStatus, DeviceReplacement, ReplaceError, ReplaceOutcome, ScrubError, ScrubRequest, ScrubStatus, ServiceEvent,
};

/// A block device that answers requests in its own time. It is asked from one thread, and must not wait.
pub trait BlockBackend {
    /// Bytes that it has.
    fn bytes(&self) -> u64;

    /// Takes a request. `data` is what a write writes, or a buffer of the length of a read.
    ///
    /// # Errors
    /// If it has stopped: nothing more is answered.
    fn submit(&mut self, request: HostRequest, data: AlignedBuffer) -> Result<(), FilesError>;

    /// Does what is to be done now, and gives one of the answers if there are any.
    ///
    /// # Errors
    /// If it has stopped: nothing more is answered.
    fn poll(&mut self) -> Result<Option<RequestCompletion>, FilesError>;

    /// A further answer, if there is one; nothing else happens.
    fn next_completion(&mut self) -> Option<RequestCompletion>;

    /// Has `waker` called, from any thread, when there is something to be done that was not
    /// [heard](Self::hear) of.
    fn wake_with(&mut self, waker: Box<dyn Fn() + Send + Sync>);

    /// Returns a file that is readable when there is something to be done; none if the waker is called for all of
    /// it.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns true if there has been something to be done since the last call.
    fn hear(&mut self) -> bool;

    /// Returns the time after which the device must be [polled](Self::poll) even if nothing else happens.
    fn until_timer(&self) -> Option<Duration>;

    /// Begins to write back what members have not.
    ///
    /// # Errors
    /// If it has stopped.
    fn begin_drain(&mut self) -> Result<(), FilesError>;

    /// Returns true while dirty data is being written back.
    fn is_draining(&self) -> bool;

    /// Returns how long a replacement may wait until the array has [come to rest](Self::begin_settle), if it should wait: a
    /// device has nothing then that is nowhere else, and no row is open that would be torn without it.
    fn settles_before(&self, replacement: &DeviceReplacement) -> Option<Duration> {
        let _ = replacement;
        None
    }

    /// Begins to come to rest: what members have not is written back, and made durable. There are no
    /// [requests](Self::submit) meanwhile.
    ///
    /// # Errors
    /// If it has stopped.
    fn begin_settle(&mut self) -> Result<(), FilesError> {
        self.begin_drain()
    }

    /// Returns true while that is under way.
    fn is_settling(&self) -> bool {
        self.is_draining()
    }

    /// Returns true if it is durable which members are lost: until then a row that a request opens counts as one that may be
    /// torn.
    fn is_noted(&self) -> bool {
        true
    }

    /// Begins to ask the file that is to take a device's place whether it answers; returns false if there is nothing to ask.
    ///
    /// # Errors
    /// If it cannot be asked.
    fn ask_file(&mut self, replacement: &DeviceReplacement) -> Result<bool, ReplaceError> {
        let _ = replacement;
        Ok(false)
    }

    /// Returns what came of that: none so far, or that the file hangs.
    fn file_answers(&mut self) -> Option<Result<(), ReplaceError>> {
        Some(Ok(()))
    }

    /// Puts a file in the place of a device, which is named as the status names it: another one, or its own made
    /// anew; or [takes the device out](DeviceReplacement::takes_out). A device that answers may be copied to the file first,
    /// while requests are served.
    ///
    /// # Errors
    /// If there is no such device, the file cannot take its place, or data would be lost and that is not
    /// [forced](DeviceReplacement::force).
    fn replace(&mut self, replacement: &DeviceReplacement) -> Result<ReplaceOutcome, ReplaceError>;

    /// Begins to compare the rows of an array with each other, while requests are served.
    ///
    /// # Errors
    /// If they cannot be compared now, or not so.
    fn begin_scrub(&mut self, order: &ScrubRequest) -> Result<(), ScrubError> {
        let _ = order;
        Err(ScrubError::NoArray)
    }

    /// Ends that, for this reason, as soon as what is under way of it is done.
    fn end_scrub(&mut self, why: &str) {
        let _ = why;
    }

    /// Returns how far the scrub has come that runs, or ran last.
    fn scrub(&self) -> Option<ScrubStatus> {
        None
    }

    /// Returns true if zeros that may be holes are surely faster for these bytes than a write of as many.
    fn zeroes_fast(&self, offset: u64, len: u64) -> bool {
        let _ = (offset, len);
        false
    }

    /// Returns the state of the first of these bytes, in the words of [`marks`](crate::marks), in extents.
    ///
    /// They need not cover all of the bytes. By default there are no marks.
    fn marks(&self, offset: u64, len: u64) -> Vec<StatusExtent> {
        let _ = offset;
        vec![StatusExtent { length: len, flags: 0 }]
    }

    /// Tells of what has happened since this was asked last, and gone on without anybody asking for it.
    fn news(&mut self, tell: &mut dyn FnMut(ServiceEvent)) {
        let _ = tell;
    }

    /// Returns the status of the device.
    fn status(&self) -> ArrayStatus;

    /// Has it wait for nothing without a limit from now on: it is to [stop](Self::stop) once its requests are answered.
    fn begin_stop(&mut self) {}

    /// Ends, and leaves nothing to be recovered. There are no requests.
    ///
    /// # Errors
    /// If something is left.
    fn stop(self) -> Result<(), FilesError>
    where
        Self: Sized;
}
