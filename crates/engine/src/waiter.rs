//! Waits for sockets, for the threads of the executor and for time, in one place.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

use crate::spin::IdleSpin;

/// Events that are taken at a time.
const EVENTS: usize = 64;
/// Numbers the waker among the sources.
const WAKER: u64 = u64::MAX;

/// Names the events that a source is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IoInterest {
    /// Is true if the source is waited for until there is something to read.
    pub(crate) read: bool,
    /// Is true if the source is waited for until there is room to write.
    pub(crate) write: bool,
}

impl IoInterest {
    /// To be read from.
    pub(crate) const READ: Self = Self { read: true, write: false };

    fn flags(self) -> EventFlags {
        let mut flags = EventFlags::empty();
        // A client that is not read from must not report its end of stream for ever, so both go together.
        flags.set(EventFlags::IN | EventFlags::RDHUP, self.read);
        flags.set(EventFlags::OUT, self.write);
        flags
    }
}

/// Waits for many things at once.
pub(crate) struct EventWaiter {
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    events: Vec<Event>,
    spin: IdleSpin,
}

impl EventWaiter {
    /// Waits for nothing so far.
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wake, EventData::new_u64(WAKER), EventFlags::IN)?;
        let spin = IdleSpin::new(available_parallelism().map_or(1, usize::from));
        Ok(Self { epoll, wake: Arc::new(wake), events: Vec::with_capacity(EVENTS), spin })
    }

    /// Returns a function that ends the wait, from any thread.
    pub(crate) fn waker(&self) -> impl Fn() + Send + Sync + 'static {
        let wake = Arc::clone(&self.wake);
        // The counter cannot overflow: it is emptied after every wait.
        move || {
            let _full = rustix::io::write(&wake, &1_u64.to_ne_bytes());
        }
    }

    /// Waits for this one too, under a number of the caller's.
    pub(crate) fn add(&self, source: impl AsFd, number: u64, interest: IoInterest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(number), interest.flags())?)
    }

    /// Waits for something else of it.
    pub(crate) fn change(&self, source: impl AsFd, number: u64, interest: IoInterest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, source, EventData::new_u64(number), interest.flags())?)
    }

    /// Waits for it no longer.
    pub(crate) fn remove(&self, source: impl AsFd) {
        // A source that is missing already is what the caller wants.
        let _missing = epoll::delete(&self.epoll, source);
    }

    /// Waits until something happens, at most as long as this; the numbers of the sources that
    /// have something to be read or room to write, or have ended, are appended.
    pub(crate) fn wait(&mut self, most: Option<Duration>, ready: &mut Vec<u64>) -> io::Result<()> {
        self.events.clear();
        if self.spin.is_wanted() && most != Some(Duration::ZERO) {
            let (since, time) = (Instant::now(), self.spin.time().min(most.unwrap_or(Duration::MAX)));
            let mut waited = Duration::ZERO;
            while self.events.is_empty() && waited < time {
                self.take(Some(Duration::ZERO))?;
                waited = since.elapsed();
            }
            if self.events.is_empty() {
                self.take(most.map(|most| most.saturating_sub(waited)))?;
                waited = since.elapsed();
            }
            self.spin.waited(waited);
        } else {
            self.take(most)?;
        }
        // Level-triggered: a source that is not drained is reported again, so nothing can be missed.
        for event in &self.events {
            let source = event.data.u64();
            if source == WAKER {
                let _empty = rustix::io::read(&self.wake, &mut [0_u8; 8]);
                continue;
            }
            ready.push(source);
        }
        Ok(())
    }

    /// Takes the events that there are, and waits for some at most as long as this.
    fn take(&mut self, most: Option<Duration>) -> io::Result<()> {
        let most = most.map(|most| Timespec {
            tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: most.subsec_nanos().into(),
        });
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), most.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
