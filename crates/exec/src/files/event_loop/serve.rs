//! Provides the calls of an executor's user. A main loop that also waits for sockets begins here what a call
//! would wait for, and polls for it later.

use std::time::Duration;

use destage_plan::{Control, Controller, HostOp, HostRequest, ScrubOrder, ScrubTally, Status};
use rustix::fd::BorrowedFd;

use super::executor::FileExecutor;
use super::request::{InFlightRequest, RequestCompletion};
use crate::buffer::AlignedBuffer;
use crate::files::error::FilesError;

/// Sets after how many requests buffers are tidied.
// Tidying looks at all buffers, so it is spread over so many requests.
pub(super) const TIDY: u32 = 1024;

impl<C: Controller> FileExecutor<C> {
    /// Takes a request; it waits if the array is still being recovered. `data` is what a write
    /// writes; of a read its content does not matter, and what was read comes back in it or in
    /// another. A [`AlignedBuffer`] is handed on as it is, anything else is copied into one. Requests may
    /// have the same tag.
    ///
    /// # Errors
    /// If the request cannot be served, in which case nothing happens, or the executor has stopped.
    pub fn submit(&mut self, request: HostRequest, data: impl Into<AlignedBuffer>) -> Result<(), FilesError> {
        self.check()?;
        let mut data: AlignedBuffer = data.into();
        if request.op != HostOp::Flush {
            self.engine.shape().check(request.offset, request.len)?;
        }
        if request.op == HostOp::Write && data.len() as u64 != request.len {
            return Err(FilesError::Data { expected: request.len, found: data.len() as u64 });
        }
        // Failed requests still hold buffers with commands in flight. Taking more
        // would bound neither memory nor the queue.
        if self.is_full_of_expired() {
            data.clear();
            self.completions.push_back(RequestCompletion { tag: request.tag, ok: false, bytes: data });
            return Ok(());
        }
        // Numbers are used again, so tables by request stay as small as the most in
        // flight.
        let id = self.free.pop().unwrap_or_else(|| {
            self.requests.push(None);
            self.requests.len() as u64 - 1
        });
        // Only writes bring data; a read's buffer is resized in place and comes
        // back in the answer.
        if request.op != HostOp::Write {
            data.resize(if request.op == HostOp::Read { request.len as usize } else { 0 });
        }
        let (now, bytes) = (self.now(), data.len() as u64);
        self.bytes.host_buffer(id, data);
        self.requests[id as usize] = Some(InFlightRequest {
            tag: request.tag,
            op: request.op,
            fua: request.fua,
            since: now,
            bytes,
            is_expired: false,
        });
        self.unanswered += 1;
        self.until_tidy = self.until_tidy.checked_sub(1).unwrap_or_else(|| {
            self.bytes.tidy(&self.engine);
            TIDY
        });
        self.engine.submit(now, HostRequest { tag: id, ..request })?;
        self.go_on()
    }

    /// The next request that was answered, if there is one. Does not wait; without threads,
    /// some commands of one backend are carried out first, or else the next timer goes off.
    ///
    /// # Errors
    /// If the executor has stopped, or does now.
    pub fn poll(&mut self) -> Result<Option<RequestCompletion>, FilesError> {
        // Without threads this does some work; with threads it does nothing.
        self.turn();
        self.advance()?;
        Ok(self.completions.pop_front())
    }

    /// The next request that was answered and not fetched; nothing else happens.
    pub fn next_completion(&mut self) -> Option<RequestCompletion> {
        self.completions.pop_front()
    }

    /// The next request that was answered; waits for one. None if there are no requests.
    ///
    /// # Errors
    /// If the executor has stopped, or does now; if the controller refuses to start.
    pub fn wait(&mut self) -> Result<Option<RequestCompletion>, FilesError> {
        loop {
            if let Some(completion) = self.poll()? {
                return Ok(Some(completion));
            }
            if self.unanswered == 0 {
                return Ok(None);
            }
            self.rest(None)?;
        }
    }

    /// Waits until the array is recovered and requests are served.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_ready(&mut self) -> Result<(), FilesError> {
        self.advance()?;
        while self.engine.status() != Status::Ready {
            self.rest(None)?;
            self.advance()?;
        }
        Ok(())
    }

    /// Waits until nothing is under way: no request, and nothing that the controller does on its
    /// own, such as filling a member. Timers are not waited for.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn settle(&mut self) -> Result<(), FilesError> {
        self.advance()?;
        while !self.is_idle() {
            self.rest(None)?;
            self.advance()?;
        }
        Ok(())
    }

    /// Waits until what was acknowledged before this is written back from the cache to the members.
    /// Requests are served meanwhile; nothing is flushed by it.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn drain(&mut self) -> Result<(), FilesError> {
        self.begin_drain()?;
        while self.draining {
            self.rest(None)?;
            self.advance()?;
        }
        Ok(())
    }

    /// Begins what [`drain`](Self::drain) waits for.
    ///
    /// # Errors
    /// If the executor has stopped, or does now.
    pub fn begin_drain(&mut self) -> Result<(), FilesError> {
        self.check()?;
        self.draining = true;
        let now = self.now();
        self.engine.control(now, Control::Drain);
        self.go_on()
    }

    /// Returns true while a drain is in progress.
    pub const fn is_draining(&self) -> bool {
        self.draining
    }

    /// Begins to compare rows with each other, while requests are served.
    ///
    /// # Errors
    /// If the executor has stopped, or does now.
    ///
    /// # Panics
    /// If the array is not [ready](Self::status), or other rows are being compared.
    pub fn begin_scrub(&mut self, order: ScrubOrder) -> Result<(), FilesError> {
        self.check()?;
        // The controller compares the rows of one order at a time; how fast orders
        // come is decided outside.
        assert!(!self.scrubbing && self.engine.status() == Status::Ready, "an order comes after the last one is done");
        (self.scrubbing, self.scrubbed) = (true, None);
        let now = self.now();
        self.engine.control(now, Control::Scrub(order));
        self.go_on()
    }

    /// Returns what the comparison that was begun last has found, once it is done. Which pages differ is
    /// [reported](Self::next_page_report).
    pub const fn take_scrubbed(&mut self) -> Option<ScrubTally> {
        self.scrubbed.take()
    }

    /// Returns true while rows are being compared.
    pub const fn is_scrubbing(&self) -> bool {
        self.scrubbing
    }

    /// Begins to flush, and to leave no row's intent open that can be cleared; that has ended when the array
    /// [is idle](Self::is_idle).
    ///
    /// # Errors
    /// If the executor has stopped, or does now.
    pub fn begin_settle(&mut self) -> Result<(), FilesError> {
        self.check()?;
        let now = self.now();
        self.engine.control(now, Control::Settle);
        self.go_on()
    }

    /// Answers all requests, lets the controller leave nothing to be recovered, and ends. The
    /// requests that were answered and not fetched are handed out.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), or if a file hangs; the next start is an unclean one then.
    pub fn stop_clean(mut self) -> Result<Vec<RequestCompletion>, FilesError> {
        // A successor is incomplete without the executor, and would only hold the
        // stop up.
        self.drop_successors()?;
        self.begin_end();
        // Requests are answered before the controller is told to become clean,
        // since they make rows dirty.
        self.until(|files| files.engine.status() == Status::Ready && files.unanswered == 0)?;
        let now = self.now();
        self.engine.control(now, Control::Clean);
        self.go_on()?;
        self.until(|files| files.clean)?;
        let condition = self.engine.controller().condition();
        // Marks go last: they say that nothing is open, which must be true of
        // everything written before.
        self.marks.note(condition);
        self.marks.end(condition.losses);
        self.until(|files| !files.marks.is_busy())?;
        // After everything else: a file with this count has seen the whole life.
        self.count_shutdown()?;
        Ok(std::mem::take(&mut self.completions).into())
    }

    /// Has `waker` called, from any thread, when something has happened since that was last
    /// [heard](Self::hear): then [`poll`](Self::poll) has something to do.
    pub fn wake_with(&self, waker: impl Fn() + Send + Sync + 'static) {
        self.wakeup.wake_with(Box::new(waker));
    }

    /// Returns true if something has happened since the last call. If false, the caller may wait for the waker
    /// or for the [next timer](Self::until_timer).
    pub fn hear(&self) -> bool {
        // The wake-up is cleared by hearing it; what stirs by itself has no
        // wake-up.
        self.wakeup.hear() || self.stirs()
    }

    /// Returns the descriptor that becomes readable when something has happened. A main loop that waits
    /// elsewhere waits for it and for the waker. None if the waker tells everything.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.ring.as_ref().and_then(|ring| ring.inner().descriptor())
    }

    /// Returns the time until something is due by time alone; none if nothing is.
    pub fn until_timer(&self) -> Option<Duration> {
        self.next_timer().map(|at| Duration::from_nanos(at.since(self.now()).0))
    }
}
