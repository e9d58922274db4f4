//! Runs the service: one thread takes requests from clients, hands them to the backend, and sends the replies.
//!
//! Invariants:
//! * The thread waits in one place ([`EventWaiter`]) and never for one client, one device or one request.
//! * A client's number stays taken until its last request is answered, so no reply reaches another client.
//! * Once the backend has stopped, every further request fails with an error; nothing is retried silently.

mod block_device;
mod clients;
mod device_control;
mod device_requests;
mod news;
mod orders;
mod replacing;
mod requests;
mod scrubbing;
mod unaligned;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use destage_exec::FilesError;
use destage_nbd::{BlockSizes, Errno, ExportError, ExportFeatures, ExportList, NbdExport};
use destage_plan::Request as Asked;
use destage_ublk::UblkError;
use slab::Slab;

use crate::budget::{LONGEST, MEMORY, MemoryBudget};
use crate::connection::{ClientConnection, ConnectionLoss};
use crate::control::ControlConnection;
use crate::descriptors::DescriptorReserve;
use crate::load::ServiceLoad;
use crate::sectors::SectorQueue;
use crate::socket::SocketListener;
use crate::status::ArrayState;
use crate::waiter::{EventWaiter, IoInterest};
use crate::{BlockBackend, ServiceEvent, marks};
use block_device::{BlockDevice, ClosedDevice};
pub use device_control::DeviceControl;
use news::NewsTimer;
use replacing::PendingReplacement;
use requests::{PendingRequest, RequestSource};
use scrubbing::OrderedScrub;
use unaligned::SectorWork;

/// Clients at a time.
const CLIENTS: usize = 1024;
/// Limits the control connections at a time.
const CONTROLS: usize = 8;
/// Limits how long a control connection may stay silent while others wait.
const SILENCE: Duration = Duration::from_secs(1);
/// Requests that are taken from one client before the others have their turn.
const TURN: usize = 64;
/// Limits how long a client may take to agree on an export.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// Sets how often connections are checked that hold memory which others wait for.
const WATCH: Duration = Duration::from_secs(1);
/// Sets how long new clients wait when the system has no descriptors or memory for them.
const PAUSE: Duration = Duration::from_millis(200);
/// Limits how long clients are waited for at the end to take their replies.
const GOODBYE: Duration = Duration::from_secs(5);

/// Describes the export as clients see it.
#[derive(Clone, Debug, Default)]
pub struct ExportSettings {
    /// The export's name; that without a name is the default of clients.
    pub name: String,
    /// Describes the export for people.
    pub description: String,
    /// Nothing can be written.
    pub read_only: bool,
}

/// Contexts of block status.
const CONTEXTS: [&str; 2] = ["base:allocation", marks::CONTEXT];

impl ExportSettings {
    // Unaligned requests are served, so the minimum is 1 byte; 4 KiB is the default page.
    fn export(&self, bytes: u64) -> NbdExport {
        NbdExport {
            description: self.description.clone(),
            features: ExportFeatures {
                read_only: self.read_only,
                flush: true,
                fua: true,
                trim: true,
                write_zeroes: true,
                // The backend knows for each request whether zeros are fast.
                fast_zero: true,
                // A flush covers every acknowledged write of all clients, which is what NBD asks of
                // multi-connection servers.
                multi_conn: true,
                cache: true,
                ..ExportFeatures::default()
            },
            blocks: BlockSizes { minimum: 1, preferred: 4096, maximum: LONGEST },
            contexts: CONTEXTS.map(str::to_owned).to_vec(),
            ..NbdExport::new(self.name.clone(), bytes)
        }
    }
}

/// Why the service cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Tells that the device cannot be exported with these settings.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The system does not let it.
    #[error("cannot {what}: {source}")]
    Io {
        /// Names the attempt.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// Something is left to be recovered.
    #[error(transparent)]
    Backend(#[from] FilesError),
    /// Tells that the kernel's block device cannot be served.
    #[error(transparent)]
    BlockDevice(#[from] UblkError),
    /// The backend had stopped before: requests were answered with errors since.
    #[error("{0}")]
    Broken(String),
}

fn cannot(what: &'static str) -> impl Fn(io::Error) -> ServiceError {
    move |source| ServiceError::Io { what, source }
}

/// Names the source of an event by the waiter's number.
#[derive(Clone, Copy, Debug)]
enum EventSource {
    Listener(usize),
    Control,
    Client(usize),
    ControlClient(usize),
    Backend,
    BlockDevice,
}

impl EventSource {
    fn number(self) -> u64 {
        let (kind, at) = match self {
            Self::Listener(at) => (0, at),
            Self::Control => (1, 0),
            Self::Client(at) => (2, at),
            Self::ControlClient(at) => (3, at),
            Self::Backend => (4, 0),
            Self::BlockDevice => (5, 0),
        };
        kind << 32 | at as u64
    }

    const fn of(number: u64) -> Self {
        let at = number as u32 as usize;
        match number >> 32 {
            0 => Self::Listener(at),
            1 => Self::Control,
            2 => Self::Client(at),
            3 => Self::ControlClient(at),
            4 => Self::Backend,
            _ => Self::BlockDevice,
        }
    }
}

/// Serves one device to any number of clients.
pub struct BlockService<B> {
    backend: B,
    exports: Arc<ExportList>,
    waiter: EventWaiter,
    listeners: Vec<SocketListener>,
    /// Nobody is welcomed before this: the system had no room.
    unwelcome: Option<Instant>,
    control: Option<SocketListener>,
    descriptors: DescriptorReserve,
    clients: Slab<ClientConnection>,
    controls: Slab<ControlConnection>,
    pending: Slab<PendingRequest>,
    /// Keeps requests in order that touch sectors of which parts are written.
    sectors: SectorQueue<SectorWork>,
    budget: MemoryBudget,
    /// Notes when connections that hold memory were checked last, while others wait for it.
    watched: Option<Instant>,
    load: ServiceLoad,
    listening: Option<RequestListener>,
    events: Option<EventListener>,
    news: NewsTimer,
    replacing: Option<PendingReplacement>,
    scrubbing: Option<OrderedScrub>,
    device: Option<BlockDevice>,
    /// Says why the block device could not be started.
    device_error: Option<UblkError>,
    /// Tells that whoever runs the service wants it to end: the block device is stopped first.
    is_ending: bool,
    /// Requests were handed to the backend since it was polled last.
    begun: bool,
    /// Why nothing is answered but with errors.
    broken: Option<String>,
    /// The end is asked for.
    stopping: bool,
    /// Clients that may have something to be read or sent.
    stirred: Vec<usize>,
    /// Keeps the allocation for clients whose turn comes again; empty between turns.
    again: Vec<usize>,
    ready: Vec<u64>,
    stop: Arc<AtomicBool>,
    begin: Instant,
}

impl<B: BlockBackend> BlockService<B> {
    /// Serves this device, to nobody so far.
    ///
    /// # Errors
    /// If it cannot be offered so, or the system does not let it wait.
    pub fn new(mut backend: B, offer: &ExportSettings) -> Result<Self, ServiceError> {
        let exports = ExportList::new(vec![offer.export(backend.bytes())], Some(&offer.name))?;
        let waiter = EventWaiter::new().map_err(cannot("wait for clients"))?;
        // Threads of devices must not touch the service: they only wake it.
        backend.wake_with(Box::new(waiter.waker()));
        if let Some(source) = backend.descriptor() {
            let added = waiter.add(source, EventSource::Backend.number(), IoInterest::READ);
            added.map_err(cannot("wait for the devices"))?;
        }
        Ok(Self {
            backend,
            exports: Arc::new(exports),
            waiter,
            listeners: Vec::new(),
            unwelcome: None,
            control: None,
            descriptors: DescriptorReserve::new(),
            clients: Slab::new(),
            controls: Slab::new(),
            pending: Slab::new(),
            sectors: SectorQueue::default(),
            budget: MemoryBudget::new(MEMORY as usize, CLIENTS + 1),
            watched: None,
            load: ServiceLoad::default(),
            listening: None,
            events: None,
            news: NewsTimer::default(),
            replacing: None,
            scrubbing: None,
            device: None,
            device_error: None,
            is_ending: false,
            begun: false,
            broken: None,
            stopping: false,
            stirred: Vec::new(),
            again: Vec::new(),
            ready: Vec::new(),
            stop: Arc::default(),
            begin: Instant::now(),
        })
    }

    /// Lets clients come this way too.
    ///
    /// # Errors
    /// If the system does not let it.
    pub fn listen(&mut self, listener: SocketListener) -> Result<(), ServiceError> {
        let number = EventSource::Listener(self.listeners.len()).number();
        self.waiter.add(&listener, number, IoInterest::READ).map_err(cannot("wait for clients"))?;
        self.listeners.push(listener);
        Ok(())
    }

    /// Takes [orders](crate::ServiceCommand) here.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub fn take_orders(&mut self, path: &Path) -> Result<(), ServiceError> {
        let listener = SocketListener::unix(path).map_err(cannot("make the control socket"))?;
        self.waiter
            .add(&listener, EventSource::Control.number(), IoInterest::READ)
            .map_err(cannot("wait for orders"))?;
        self.control = Some(listener);
        Ok(())
    }

    /// Lets requests and replies of all clients hold so many bytes, 256 MiB unless told otherwise. To be told before
    /// clients come.
    pub fn limit_memory(&mut self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.budget = MemoryBudget::new(bytes, CLIENTS + 1);
    }

    /// Tells `listener` of every request that a trace can hold, as it comes.
    pub fn tell(&mut self, listener: impl FnMut(Asked) + 'static) {
        self.listening = Some(Box::new(listener));
    }

    /// Tells `listener` of what happens to the array and the service.
    pub fn tell_events(&mut self, listener: impl FnMut(ServiceEvent) + 'static) {
        self.events = Some(Box::new(listener));
    }

    fn happened(&mut self, event: impl FnOnce() -> ServiceEvent) {
        if let Some(tell) = &mut self.events {
            tell(event());
        }
    }

    /// Returns the flag that ends the service cleanly once it is set and the service is [woken](Self::waker).
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Wakes the service, from any thread.
    pub fn waker(&self) -> impl Fn() + Send + Sync + 'static {
        self.waiter.waker()
    }

    /// Returns the NBD URIs under which clients find the export.
    pub fn uris(&self) -> impl Iterator<Item = String> {
        let name = &self.exports.all()[0].name;
        self.listeners.iter().map(|listener| listener.uri(name))
    }

    /// Serves until the end is asked for, answers what is under way, and leaves nothing to be recovered.
    ///
    /// # Errors
    /// If the system does not let it go on, the backend has stopped or refuses to start, or something is left to be
    /// recovered.
    pub fn run(mut self) -> Result<(), ServiceError> {
        let mut is_signalled = false;
        while !self.stopping {
            self.run_once(None)?;
            // The flag may stay set, and the end begins once.
            if self.stop.load(Ordering::Relaxed) && !std::mem::replace(&mut is_signalled, true) {
                self.happened(|| ServiceEvent::Stopping {
                    why: "a signal, or the end of the command that is served".to_owned(),
                });
                self.begin_end(true);
            }
        }
        // Devices that hang are given up from now on, so the end comes.
        self.backend.begin_stop();
        self.backend.end_scrub("the service has ended");
        // Clients are answered before the array stops: their requests may need it.
        self.drain_clients()?;
        let closed = self.close_queue();
        if let Some(why) = self.broken {
            self.controls.iter_mut().for_each(|(_, control)| control.stopped(Err(&why)));
            return Err(ServiceError::Broken(why));
        }
        let stopped = self.backend.stop();
        let told = stopped.as_ref().map(drop).map_err(ToString::to_string);
        self.controls
            .iter_mut()
            .for_each(|(_, control)| control.stopped(told.as_ref().map(drop).map_err(String::as_str)));
        stopped?;
        // Dirty data is safe by now, so the removal of the block device may take its time.
        if let Some(event) = closed.map(ClosedDevice::end).transpose()?
            && let Some(tell) = &mut self.events
        {
            tell(event);
        }
        Ok(())
    }

    /// Nobody new comes, nothing new is begun, and what is under way is answered.
    fn drain_clients(&mut self) -> Result<(), ServiceError> {
        for listener in std::mem::take(&mut self.listeners) {
            self.waiter.remove(&listener);
        }
        for (at, client) in &mut self.clients {
            client.server.shut_down();
            client.refuse_held_back();
            self.budget.leave(at);
            self.stirred.push(at);
        }
        let until = Instant::now() + GOODBYE;
        loop {
            let unsent = self.clients.iter().any(|(_, client)| client.send_queue.left() > 0);
            let left = until.saturating_duration_since(Instant::now());
            // Requests in flight are waited for as long as devices may take: dropping one would leave its client in
            // doubt.
            if self.pending.is_empty() && (!unsent && !self.is_scrubbing() || left.is_zero()) {
                self.report_news();
                return Ok(());
            }
            self.run_once(Some(left.max(Duration::from_millis(1))))?;
        }
    }

    /// Tells what has happened to the array, unless it has stopped.
    fn report_news(&mut self) {
        if let Some(tell) = self.events.as_mut().filter(|_| self.broken.is_none()) {
            self.backend.news(tell);
        }
    }

    /// Does what there is to do, and waits for more, at most as long as this.
    fn run_once(&mut self, most: Option<Duration>) -> Result<(), ServiceError> {
        // Completions come first: they free memory and queue places for the requests that are read next.
        self.poll_backend();
        self.serve_clients();
        if std::mem::take(&mut self.begun) {
            // Requests that end in memory, as hits do, wake nobody: a second look sends their replies in this turn.
            self.poll_backend();
            self.serve_clients();
        }
        self.hear_device();
        self.go_on_replacing();
        self.tell_scrub();
        // Before orders are answered, so whoever gets an answer finds what it did in the log.
        if self.news.is_due() {
            self.report_news();
        }
        self.serve_controls();
        // Threads may have finished something meanwhile: another turn costs less than going to sleep and being
        // woken.
        if self.backend.hear() && self.broken.is_none() {
            return Ok(());
        }
        if self.stopping && most.is_none() {
            return Ok(());
        }
        self.drop_stalled();
        self.mark_memory_ready();
        // Requests that came meanwhile are looked at before the thread sleeps.
        let busy = (std::mem::take(&mut self.begun) || !self.stirred.is_empty() || self.owes_device())
            .then_some(Duration::ZERO);
        // A backend that has stopped has timers that nothing would ever run.
        let timer = if self.broken.is_some() { None } else { self.backend.until_timer() };
        let handshake = self.clients.iter().any(|(_, client)| client.session().is_none()).then_some(HANDSHAKE);
        let welcome = self.unwelcome.map(|until| until.saturating_duration_since(Instant::now()));
        let watched = self.watched.map(|since| WATCH.saturating_sub(since.elapsed()));
        let news = self.news.longest_wait();
        let (scrub, replacing) = (self.until_scrub_is_told(), self.replacement_left());
        let most = [timer, handshake, welcome, watched, news, scrub, replacing, self.device_wait(), busy, most];
        let most = most.into_iter().flatten().min();
        let mut ready = std::mem::take(&mut self.ready);
        self.waiter.wait(most, &mut ready).map_err(cannot("wait for clients"))?;
        for source in ready.drain(..) {
            match EventSource::of(source) {
                EventSource::Listener(at) => self.accept_clients(at)?,
                EventSource::Control => self.accept_controls()?,
                EventSource::Client(at) => self.client_is_ready(at),
                EventSource::ControlClient(at) => self.read_control(at),
                // Both are looked at in every turn.
                EventSource::Backend | EventSource::BlockDevice => {}
            }
        }
        self.ready = ready;
        // Descriptors run out for a moment: listening goes on as soon as some may be free.
        if self.unwelcome.is_some_and(|until| until <= Instant::now()) {
            self.unwelcome = None;
            self.descriptors.refill();
            self.set_listening(IoInterest::READ)?;
            self.shut_control(IoInterest::READ)?;
        }
        self.drop_silent();
        Ok(())
    }

    /// Has those looked at who have waited for memory, and find it now.
    fn mark_memory_ready(&mut self) {
        let stirred = &mut self.stirred;
        self.budget.ready(|client| stirred.push(client));
    }

    fn mark_ready(&mut self, client: usize) {
        // One event after another often concerns the same client, and looking twice would cost a system call.
        if self.stirred.last() != Some(&client) {
            self.stirred.push(client);
        }
    }

    /// Has the backend go on, and takes its answers.
    fn poll_backend(&mut self) {
        if self.broken.is_some() {
            return;
        }
        let mut next = self.backend.poll();
        loop {
            match next {
                Ok(Some(completion)) => self.complete(completion),
                Ok(None) => return,
                Err(error) => return self.stop_answering(&error),
            }
            next = Ok(self.backend.next_completion());
        }
    }

    /// The backend has stopped: nothing is answered but with errors from now on. What was never begun ends at once.
    fn stop_answering(&mut self, error: &FilesError) {
        // Events that happened before the stop are reported first, so the log has them in order.
        self.report_news();
        let is_refused = matches!(error, FilesError::Refused(_));
        self.stopping |= is_refused;
        // The backend has reported a refusal with its news.
        let is_news = self.broken.is_none() && !is_refused;
        let why = self.broken.get_or_insert_with(|| error.to_string()).clone();
        if is_news {
            self.happened(|| ServiceEvent::StateChanged { from: None, to: ArrayState::Stopped(why.clone()) });
        }
        if let Some(source) = self.backend.descriptor() {
            // Nobody takes the backend's events any more, so its descriptor would stay readable and the thread
            // would spin.
            self.waiter.remove(source);
        }
        self.sectors.clear();
        let leaves = is_refused && self.leaves_device_requests();
        for pending in self.pending.drain().collect::<Vec<_>>() {
            if leaves && pending.source == RequestSource::BlockDevice {
                // A file system that has waited so long can wait longer: the operator may accept losses, or bring
                // back a member.
                continue;
            }
            self.refuse(&pending, Errno::Io, &why);
            self.stir_source(pending.source);
        }
        for (_, control) in &mut self.controls {
            control.drained(Err(&why));
        }
    }

    /// Reads from and writes to those clients of whom there may be something new.
    fn serve_clients(&mut self) {
        self.serve_device();
        let mut again = std::mem::take(&mut self.again);
        // Replies that were just sent may have freed the memory that others wait for.
        self.mark_memory_ready();
        while let Some(at) = self.stirred.pop() {
            if !self.clients.contains(at) {
                continue;
            }
            match self.serve(at) {
                Ok(more) => {
                    if more {
                        again.push(at);
                    }
                }
                Err(lost) => self.drop_client(at, Some(&lost)),
            }
        }
        // Clients with more requests come again after all others, so a fast one keeps nobody waiting.
        self.again = std::mem::replace(&mut self.stirred, again);
    }

    /// Takes requests from a client and sends it answers; whether there may be more to be taken.
    fn serve(&mut self, at: usize) -> Result<bool, ConnectionLoss> {
        // A socket that was drained is not read again before the kernel reports something new.
        let mut drained = !self.clients[at].readable;
        let mut taken = 0;
        while taken < TURN && !self.holds_requests() {
            let Some(incoming) = self.clients[at].next(at, &mut self.budget, &mut drained)? else { break };
            self.begin(RequestSource::Client(at), incoming);
            taken += 1;
        }
        let holds = self.holds_requests();
        // Replies that the backend has finished meanwhile go along in the same system call.
        let client = &mut self.clients[at];
        client.readable = !drained;
        let was_full = client.is_full();
        client.send(|buffer| self.budget.keep(buffer))?;
        client.give_back_input(&mut self.budget);
        self.budget.settle(at, client.held());
        if client.is_over() {
            self.drop_client(at, None);
            return Ok(false);
        }
        let wanted = client.wanted();
        let wanted = IoInterest { read: wanted.read && !holds, ..wanted };
        if wanted != client.interest {
            client.interest = wanted;
            self.waiter.change(&client.stream, EventSource::Client(at).number(), wanted)?;
        }
        // Bytes that were received already raise no further event of the socket.
        Ok(taken == TURN || was_full && !client.is_full())
    }
}

/// Hears of every request that a trace can hold.
type RequestListener = Box<dyn FnMut(Asked)>;

/// Receives events.
type EventListener = Box<dyn FnMut(ServiceEvent)>;
