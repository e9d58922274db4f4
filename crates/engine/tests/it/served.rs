//! A service over a device in memory, on a thread of its own.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use destage_engine::{
    ArrayStatus, Backend, DeviceReplacement, Listener, Offer, Order, ReplaceError, Reply, Service, ServiceError,
    Status, order,
};
use destage_exec::{Buffer, Completion, FilesError};
use destage_nbd::client::blocking::{Connection, Wanted};
use destage_plan::{HostOp, HostRequest};

pub const BYTES: usize = 1 << 20;
/// How long a service may take to hear an order.
const PATIENCE: Duration = Duration::from_secs(30);

/// A device in memory that breaks when it is told to.
struct FakeBackend {
    memory: Vec<u8>,
    done: VecDeque<Completion>,
    flushed: VecDeque<Completion>,
    asked: Arc<Mutex<Vec<HostRequest>>>,
    /// Holds the completions of flushes back.
    holds_flushes: Arc<AtomicBool>,
    /// It breaks with the next request.
    breaks: Arc<AtomicBool>,
    /// It refuses to start.
    refuses: bool,
}

impl Backend for FakeBackend {
    fn bytes(&self) -> u64 {
        self.memory.len() as u64
    }

    fn submit(&mut self, request: HostRequest, mut data: Buffer) -> Result<(), FilesError> {
        if self.breaks.load(Ordering::Relaxed) {
            return Err(FilesError::Missing(PathBuf::from("the journal")));
        }
        self.asked.lock().expect("nobody panics").push(request);
        let place = request.offset as usize..(request.offset + request.len) as usize;
        match request.op {
            HostOp::Read => data.copy_from_slice(&self.memory[place]),
            HostOp::Write => self.memory[place].copy_from_slice(&data),
            _ => {}
        }
        let done = if request.op == HostOp::Flush { &mut self.flushed } else { &mut self.done };
        done.push_back(Completion { tag: request.tag, ok: true, bytes: data });
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Completion>, FilesError> {
        if self.refuses {
            return Err(FilesError::Refused(Box::new(destage_plan::Refusal::Nvram)));
        }
        Ok(self.next_completion())
    }

    fn next_completion(&mut self) -> Option<Completion> {
        let flushed = if self.holds_flushes.load(Ordering::Relaxed) { None } else { self.flushed.pop_front() };
        flushed.or_else(|| self.done.pop_front())
    }

    fn wake_with(&mut self, _: Box<dyn Fn() + Send + Sync>) {}

    fn hear(&mut self) -> bool {
        false
    }

    fn until_timer(&self) -> Option<Duration> {
        None
    }

    fn begin_drain(&mut self) -> Result<(), FilesError> {
        Ok(())
    }

    fn is_draining(&self) -> bool {
        false
    }

    fn replace(&mut self, replacement: &DeviceReplacement) -> Result<(), ReplaceError> {
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
}

impl TestService {
    pub fn new(refuses: bool) -> Self {
        Self::over(vec![0; BYTES], refuses, None)
    }

    /// Serves so many bytes, with so many for requests and replies.
    pub fn bounded(bytes: usize, limit: u64) -> Self {
        Self::over(vec![0; bytes], false, Some(limit))
    }

    fn over(memory: Vec<u8>, refuses: bool, limit: Option<u64>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let breaks = Arc::new(AtomicBool::new(false));
        let (told, ready) = mpsc::channel();
        let (socket, control) = (folder.path().join("nbd"), folder.path().join("control"));
        let (holds_flushes, asked) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<HostRequest>>>::default());
        let (shared, holds, log) = (Arc::clone(&breaks), Arc::clone(&holds_flushes), Arc::clone(&asked));
        let thread = std::thread::spawn(move || {
            let (done, flushed) = (VecDeque::new(), VecDeque::new());
            let backend =
                FakeBackend { memory, done, flushed, asked: log, holds_flushes: holds, breaks: shared, refuses };
            let mut service = Service::new(backend, &Offer::default())?;
            if let Some(limit) = limit {
                service.limit_memory(limit);
            }
            service.listen(Listener::unix(&socket).expect("a socket"))?;
            service.take_orders(&control)?;
            told.send(()).expect("somebody waits");
            service.run()
        });
        ready.recv().expect("it serves");
        Self { folder, breaks, holds_flushes, asked, thread }
    }

    pub fn stream(&self) -> UnixStream {
        let stream = UnixStream::connect(self.folder.path().join("nbd")).expect("it takes clients");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        stream
    }

    pub fn client(&self) -> Connection<UnixStream> {
        Connection::begin(self.stream(), &Wanted { structured: true, ..Wanted::default() }).expect("an export")
    }

    pub fn order(&self, what: &Order) -> Reply {
        order(&self.folder.path().join("control"), what, PATIENCE).expect("it takes orders")
    }

    pub fn status(&self) -> Status {
        match self.order(&Order::Status) {
            Reply::Status(status) => *status,
            other => panic!("{other:?} is no status"),
        }
    }

    pub fn stop(self) -> Result<(), ServiceError> {
        self.order(&Order::Stop);
        self.thread.join().expect("it does not panic")
    }
}
