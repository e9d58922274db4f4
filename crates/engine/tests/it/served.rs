//! A service over a device in memory, on a thread of its own.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use destage_engine::{
    ArrayStatus, BlockBackend, BlockService, ControlReply, DeviceReplacement, ExportSettings, ReplaceError,
    ReplaceOutcome, ServiceCommand, ServiceError, ServiceEvent, ServiceStatus, SocketListener, order,
};
use destage_exec::{AlignedBuffer, FilesError, RequestCompletion};
use destage_nbd::client::blocking::{BlockingConnection, ExportRequest};
use destage_plan::{HostOp, HostRequest};
use destage_ublk::RequestQueue;

use crate::driver::DriverModel;

pub const BYTES: usize = 1 << 20;
/// Limits how long a service may take to hear an order.
const PATIENCE: Duration = Duration::from_secs(30);

/// A device in memory that breaks when it is told to.
struct FakeBackend {
    memory: Vec<u8>,
    done: VecDeque<(HostRequest, AlignedBuffer)>,
    flushed: VecDeque<(HostRequest, AlignedBuffer)>,
    asked: Arc<Mutex<Vec<HostRequest>>>,
    /// Holds the completions of flushes back.
    holds_flushes: Arc<AtomicBool>,
    /// Breaks with the next request.
    breaks: Arc<AtomicBool>,
    /// Refuses to start.
    refuses: bool,
    /// Has requests end late and in any order, from this number on.
    shuffle: Option<ShuffleRng>,
    /// Does what is asked for when that ends, and not when it is asked for.
    is_late: bool,
}

/// Numbers from a seed.
#[derive(Clone)]
pub struct ShuffleRng(pub u64);

impl ShuffleRng {
    /// Draws a number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

impl FakeBackend {
    fn perform(&mut self, request: HostRequest, data: &mut AlignedBuffer) {
        let place = request.offset as usize..(request.offset + request.len) as usize;
        match request.op {
            HostOp::Read => data.copy_from_slice(&self.memory[place]),
            HostOp::Write => self.memory[place].copy_from_slice(data),
            HostOp::WriteZeroes | HostOp::WriteZeroesUnmap => self.memory[place].fill(0),
            // Of each sector it keeps what that has, or does not.
            HostOp::Discard if let Some(draws) = &mut self.shuffle => {
                self.memory[place].chunks_mut(512).filter(|_| draws.below(2) == 0).for_each(|sector| sector.fill(0));
            }
            HostOp::Discard | HostOp::Flush => {}
        }
    }

    /// Takes one of those that end.
    fn take_ended(&mut self) -> Option<(HostRequest, AlignedBuffer)> {
        if let Some(draws) = &mut self.shuffle {
            self.done.append(&mut self.flushed);
            let (waits, at) = (draws.below(3) > 0, draws.below(self.done.len().max(1) as u64));
            return if waits { None } else { self.done.swap_remove_back(at as usize) };
        }
        let flushed = if self.holds_flushes.load(Ordering::Relaxed) { None } else { self.flushed.pop_front() };
        flushed.or_else(|| self.done.pop_front())
    }
}

impl BlockBackend for FakeBackend {
    fn bytes(&self) -> u64 {
        self.memory.len() as u64
    }

    fn submit(&mut self, request: HostRequest, mut data: AlignedBuffer) -> Result<(), FilesError> {
        if self.breaks.load(Ordering::Relaxed) {
            return Err(FilesError::Missing(PathBuf::from("the journal")));
        }
        assert_eq!((request.offset | request.len) % 512, 0, "{request:?} is no whole sectors");
        self.asked.lock().expect("nobody panics").push(request);
        if !self.is_late {
            self.perform(request, &mut data);
        }
        let done = if request.op == HostOp::Flush { &mut self.flushed } else { &mut self.done };
        done.push_back((request, data));
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<RequestCompletion>, FilesError> {
        if self.refuses {
            return Err(FilesError::Refused(Box::new(destage_plan::Refusal::Nvram)));
        }
        Ok(self.next_completion())
    }

    fn next_completion(&mut self) -> Option<RequestCompletion> {
        let (request, mut data) = self.take_ended()?;
        if self.is_late {
            self.perform(request, &mut data);
        }
        Some(RequestCompletion { tag: request.tag, ok: true, bytes: data })
    }

    fn wake_with(&mut self, _: Box<dyn Fn() + Send + Sync>) {}

    fn hear(&mut self) -> bool {
        false
    }

    fn until_timer(&self) -> Option<Duration> {
        (self.shuffle.is_some() && !self.done.is_empty()).then_some(Duration::ZERO)
    }

    fn begin_drain(&mut self) -> Result<(), FilesError> {
        Ok(())
    }

    fn is_draining(&self) -> bool {
        false
    }

    fn replace(&mut self, replacement: &DeviceReplacement) -> Result<ReplaceOutcome, ReplaceError> {
        Err(ReplaceError::Device { device: replacement.device.clone(), known: "none".to_owned() })
    }

    fn status(&self) -> ArrayStatus {
        ArrayStatus::of_bytes(self.bytes())
    }

    fn stop(self) -> Result<(), FilesError> {
        Ok(())
    }
}

/// A service on a thread of its own.
pub struct TestService {
    pub folder: tempfile::TempDir,
    pub breaks: Arc<AtomicBool>,
    pub holds_flushes: Arc<AtomicBool>,
    /// Lists what the device was asked for.
    pub asked: Arc<Mutex<Vec<HostRequest>>>,
    pub thread: JoinHandle<Result<(), ServiceError>>,
    /// Lists what was told.
    pub events: Arc<Mutex<Vec<ServiceEvent>>>,
    /// Ends the service as a signal does.
    signal: Box<dyn Fn() + Send>,
}

impl TestService {
    pub fn new(refuses: bool) -> Self {
        Self::over(vec![0; BYTES], refuses, None, None, None)
    }

    /// Serves so many bytes, with so many for requests and replies.
    pub fn bounded(bytes: usize, limit: u64) -> Self {
        Self::over(vec![0; bytes], false, Some(limit), None, None)
    }

    /// Serves a device whose requests end late and in any order, and have their effects in that order if it `is_late`.
    pub fn shuffled(seed: u64, is_late: bool) -> Self {
        Self::over(vec![0; BYTES], false, None, Some((ShuffleRng(seed), is_late)), None)
    }

    /// Serves a device of the kernel's, too, whose requests end late and in any order unless the seed is 0.
    pub fn with_device(driver: &DriverModel, seed: u64) -> Self {
        let shuffle = (seed > 0).then_some((ShuffleRng(seed), seed.is_multiple_of(2)));
        let served = Self::over(vec![0; BYTES], false, None, shuffle, Some(driver.clone()));
        driver.wait_started();
        served
    }

    /// Does not start, and has a device of the kernel's.
    pub fn refusing_with_device(driver: &DriverModel) -> Self {
        Self::over(vec![0; BYTES], true, None, None, Some(driver.clone()))
    }

    /// Serves one of so many bytes, with so many for requests and replies.
    pub fn bounded_with_device(driver: &DriverModel, bytes: usize, limit: u64) -> Self {
        Self::over(vec![0; bytes], false, Some(limit), None, Some(driver.clone()))
    }

    fn over(
        memory: Vec<u8>,
        refuses: bool,
        limit: Option<u64>,
        shuffle: Option<(ShuffleRng, bool)>,
        device: Option<DriverModel>,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let breaks = Arc::new(AtomicBool::new(false));
        let (told, ready) = mpsc::channel::<Box<dyn Fn() + Send>>();
        let events = Arc::<Mutex<Vec<ServiceEvent>>>::default();
        let heard = Arc::clone(&events);
        let (socket, control) = (folder.path().join("nbd"), folder.path().join("control"));
        let (holds_flushes, asked) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<HostRequest>>>::default());
        let (shared, holds, log) = (Arc::clone(&breaks), Arc::clone(&holds_flushes), Arc::clone(&asked));
        let thread = std::thread::spawn(move || {
            let (done, flushed) = (VecDeque::new(), VecDeque::new());
            let (asked, holds_flushes, breaks) = (log, holds, shared);
            let bytes = memory.len() as u64;
            let is_late = shuffle.as_ref().is_some_and(|(_, is_late)| *is_late);
            let shuffle = shuffle.map(|(draws, _)| draws);
            let backend =
                FakeBackend { memory, done, flushed, asked, holds_flushes, breaks, refuses, shuffle, is_late };
            let mut service = BlockService::new(backend, &ExportSettings::default())?;
            if let Some(limit) = limit {
                service.limit_memory(limit);
            }
            service.listen(SocketListener::unix(&socket).expect("a socket"))?;
            service.take_orders(&control)?;
            if let Some(driver) = device {
                let queue = RequestQueue::new(Box::new(driver.kernel()), bytes).expect("the model takes commands");
                service.attach(Box::new(driver.control()), queue)?;
            }
            service.tell_events(move |event| heard.lock().expect("nobody panics").push(event));
            let (stop, wake) = (service.stop_flag(), service.waker());
            let signal = move || {
                stop.store(true, Ordering::Relaxed);
                wake();
            };
            told.send(Box::new(signal)).expect("somebody waits");
            service.run()
        });
        let signal = ready.recv().expect("it serves");
        Self { folder, breaks, holds_flushes, asked, thread, events, signal }
    }

    pub fn stream(&self) -> UnixStream {
        let stream = UnixStream::connect(self.folder.path().join("nbd")).expect("it takes clients");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        stream
    }

    pub fn client(&self) -> BlockingConnection<UnixStream> {
        BlockingConnection::begin(self.stream(), &ExportRequest { structured: true, ..ExportRequest::default() })
            .expect("an export")
    }

    pub fn order(&self, what: &ServiceCommand) -> ControlReply {
        order(&self.folder.path().join("control"), what, PATIENCE).expect("it takes orders")
    }

    pub fn status(&self) -> ServiceStatus {
        match self.order(&ServiceCommand::Status) {
            ControlReply::Status(status) => *status,
            other => panic!("{other:?} is no status"),
        }
    }

    /// Waits until the service has told an event of this name.
    pub fn wait_told(&self, name: &str) {
        let begin = Instant::now();
        while !self.events.lock().expect("nobody panics").iter().any(|event| event.name() == name) {
            assert!(begin.elapsed() < PATIENCE, "{name} is not told");
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Ends it as a signal does, and returns the names of what was told.
    pub fn signal(self) -> Vec<&'static str> {
        (self.signal)();
        self.thread.join().expect("it does not panic").expect("it ends in order");
        self.events.lock().expect("nobody panics").iter().map(ServiceEvent::name).collect()
    }

    pub fn stop(self) -> Result<(), ServiceError> {
        self.order(&ServiceCommand::Stop);
        self.thread.join().expect("it does not panic")
    }
}
