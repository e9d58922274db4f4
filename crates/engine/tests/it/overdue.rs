//! Replacements that wait until a device has come to rest, which hangs: they are carried out once they are overdue, and
//! clients that waited go on.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use destage_engine::{
    ArrayStatus, BlockBackend, BlockService, ControlReply, DeviceReplacement, ExportSettings, ReplaceError,
    ReplaceOutcome, ServiceCommand, ServiceError, ServiceEvent, SocketListener, order,
};
use destage_exec::{AlignedBuffer, FilesError, RequestCompletion};
use destage_nbd::client::blocking::{BlockingConnection, ExportRequest};
use destage_plan::HostRequest;

/// Sets how long a replacement waits.
const LONGEST: Duration = Duration::from_millis(1_500);
/// Counts orders beside clients that keep the service busy.
const ORDERS: usize = 200;
/// Bounds what does not wait for ever.
const LIMIT: Duration = Duration::from_secs(20);

/// Names what never ends of a device on its way to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndlessStep {
    /// Everything ends.
    None,
    /// Writes back dirty data for ever.
    Draining,
    /// A request that was begun before is not answered.
    Request,
    /// Never makes the rest durable.
    Settling,
    /// Never notes that the device was replaced.
    Noting,
}

/// Serves zeros, and comes to rest as far as it is let.
struct RestlessBackend {
    endless: EndlessStep,
    /// Waits no longer than this before it is replaced.
    longest: Duration,
    replaced: Arc<AtomicBool>,
    /// Has everything end after all.
    lets_go: Arc<AtomicBool>,
    done: VecDeque<RequestCompletion>,
    /// Holds what is not answered before the device is replaced.
    held: VecDeque<RequestCompletion>,
    is_draining: bool,
    is_settling: bool,
    /// Counts the times that it was written back of which nobody was told.
    untold: usize,
}

impl RestlessBackend {
    fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Relaxed)
    }

    fn is_endless(&self, step: EndlessStep) -> bool {
        self.endless == step && !self.lets_go.load(Ordering::Relaxed)
    }
}

impl BlockBackend for RestlessBackend {
    fn bytes(&self) -> u64 {
        1 << 20
    }

    fn submit(&mut self, request: HostRequest, data: AlignedBuffer) -> Result<(), FilesError> {
        let hangs = self.is_endless(EndlessStep::Request) && request.offset == 0 && !self.is_replaced();
        let queue = if hangs { &mut self.held } else { &mut self.done };
        queue.push_back(RequestCompletion { tag: request.tag, ok: true, bytes: data });
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<RequestCompletion>, FilesError> {
        self.is_draining &= self.is_endless(EndlessStep::Draining);
        self.is_settling &= self.is_endless(EndlessStep::Settling);
        if self.lets_go.load(Ordering::Relaxed) {
            self.done.append(&mut self.held);
        }
        Ok(self.next_completion())
    }

    fn next_completion(&mut self) -> Option<RequestCompletion> {
        self.done.pop_front()
    }

    fn wake_with(&mut self, _: Box<dyn Fn() + Send + Sync>) {}

    fn hear(&mut self) -> bool {
        false
    }

    fn until_timer(&self) -> Option<Duration> {
        None
    }

    fn begin_drain(&mut self) -> Result<(), FilesError> {
        self.is_draining = true;
        self.untold += 1;
        Ok(())
    }

    fn is_draining(&self) -> bool {
        self.is_draining
    }

    fn settles_before(&self, _: &DeviceReplacement) -> Option<Duration> {
        Some(self.longest)
    }

    fn begin_settle(&mut self) -> Result<(), FilesError> {
        self.is_settling = true;
        Ok(())
    }

    fn is_settling(&self) -> bool {
        self.is_settling
    }

    fn is_noted(&self) -> bool {
        !self.is_endless(EndlessStep::Noting)
    }

    fn replace(&mut self, _: &DeviceReplacement) -> Result<ReplaceOutcome, ReplaceError> {
        self.replaced.store(true, Ordering::Relaxed);
        (self.is_draining, self.is_settling) = (false, false);
        self.done.append(&mut self.held);
        Ok(ReplaceOutcome::Done)
    }

    fn news(&mut self, tell: &mut dyn FnMut(ServiceEvent)) {
        for _ in 0..std::mem::take(&mut self.untold) {
            tell(ServiceEvent::DeviceAnswers { device: "1".to_owned(), path: "2".to_owned() });
        }
    }

    fn status(&self) -> ArrayStatus {
        ArrayStatus::of_bytes(self.bytes())
    }

    fn stop(self) -> Result<(), FilesError> {
        Ok(())
    }
}

/// Serves such a device on a thread of its own.
struct RestlessService {
    folder: tempfile::TempDir,
    replaced: Arc<AtomicBool>,
    lets_go: Arc<AtomicBool>,
    ordered: Arc<Mutex<Vec<ServiceEvent>>>,
    /// Holds the log's news of the device.
    news: Arc<Mutex<Vec<ServiceEvent>>>,
    thread: JoinHandle<Result<(), ServiceError>>,
}

impl RestlessService {
    fn new(endless: EndlessStep, longest: Duration) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (replaced, ordered) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<ServiceEvent>>>::default());
        let lets_go = Arc::<AtomicBool>::default();
        let news = Arc::<Mutex<Vec<ServiceEvent>>>::default();
        let (told, ready) = mpsc::channel();
        let (path, log, news_log) = (folder.path().to_owned(), Arc::clone(&ordered), Arc::clone(&news));
        let shared = (Arc::clone(&replaced), Arc::clone(&lets_go));
        let thread = std::thread::spawn(move || {
            let (done, held) = (VecDeque::new(), VecDeque::new());
            let (is_draining, is_settling) = (false, false);
            let (replaced, lets_go) = shared;
            let untold = 0;
            let backend =
                RestlessBackend { endless, longest, replaced, lets_go, done, held, is_draining, is_settling, untold };
            let mut service = BlockService::new(backend, &ExportSettings::default())?;
            service.listen(SocketListener::unix(&path.join("nbd")).expect("a socket"))?;
            service.take_orders(&path.join("control"))?;
            service.tell_events(move |event| match event {
                ServiceEvent::Ordered { .. } => log.lock().expect("nobody panics").push(event),
                ServiceEvent::DeviceAnswers { .. } => news_log.lock().expect("nobody panics").push(event),
                _ => {}
            });
            told.send(()).expect("somebody waits");
            service.run()
        });
        ready.recv().expect("it serves");
        Self { folder, replaced, lets_go, ordered, news, thread }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn client(&self) -> BlockingConnection<UnixStream> {
        let stream = UnixStream::connect(self.path().join("nbd")).expect("it takes clients");
        stream.set_read_timeout(Some(LIMIT)).expect("a socket");
        BlockingConnection::begin(stream, &ExportRequest { structured: true, ..ExportRequest::default() })
            .expect("an export")
    }

    /// Has the device taken out; returns how long that took.
    fn take_out(&self) -> Duration {
        let replacement = DeviceReplacement { device: "1".to_owned(), path: None, takes_out: true, force: false };
        let begin = Instant::now();
        let reply =
            order(&self.path().join("control"), &ServiceCommand::Replace(replacement), LIMIT).expect("it takes orders");
        assert!(matches!(reply, ControlReply::Done), "{reply:?}");
        begin.elapsed()
    }

    /// Has everything end after all if the device is not taken out within this time, so that a test fails and does not hang.
    fn let_go_after(&self, time: Duration) {
        let begin = Instant::now();
        while self.ordered.lock().expect("nobody panics").is_empty() {
            if begin.elapsed() >= time {
                self.lets_go.store(true, Ordering::Relaxed);
                order(&self.path().join("control"), &ServiceCommand::Status, LIMIT).expect("it takes orders");
            }
            std::thread::sleep(LONGEST / 100);
        }
    }

    fn stop(self) {
        order(&self.path().join("control"), &ServiceCommand::Stop, LIMIT).expect("it takes orders");
        self.thread.join().expect("it does not panic").expect("nothing is left");
    }
}

#[test]
fn what_never_comes_to_rest_is_replaced_all_the_same() {
    for endless in [EndlessStep::Draining, EndlessStep::Request, EndlessStep::Settling, EndlessStep::Noting] {
        let service = RestlessService::new(endless, LONGEST);
        let mut clients = [service.client(), service.client()];
        let [hangs, other] = &mut clients;
        std::thread::scope(|scope| {
            // The request at byte 0 is begun before the order.
            let first = scope.spawn(|| hangs.read(0, &mut [1; 512]));
            std::thread::sleep(LONGEST / 10);
            assert_eq!(!first.is_finished(), endless == EndlessStep::Request, "{endless:?}");
            let begin = Instant::now();
            let ordered = scope.spawn(|| service.take_out());
            scope.spawn(|| service.let_go_after(LIMIT / 2));
            std::thread::sleep(LONGEST / 10);
            let is_replaced = service.replaced.load(Ordering::Relaxed);
            assert_eq!(is_replaced, endless == EndlessStep::Noting, "{endless:?}: it is waited for");
            other.read(4096, &mut [1; 512]).expect("it is answered in the end");
            // Only while what is dirty is written back requests begin.
            let waited = begin.elapsed() >= LONGEST;
            assert_eq!(waited, endless != EndlessStep::Draining, "{endless:?}: {:?}", begin.elapsed());
            first.join().expect("it does not panic").expect("it is answered in the end");
            let took = ordered.join().expect("it does not panic");
            assert!((LONGEST..LIMIT / 2).contains(&took), "{endless:?}: {took:?}");
        });
        other.write(0, &[2; 512], true).expect("it goes on");
        assert!(service.replaced.load(Ordering::Relaxed), "{endless:?}");
        let ordered = service.ordered.lock().expect("nobody panics").clone();
        assert!(
            matches!(&ordered[..], [ServiceEvent::Ordered { order, refused: None }] if order == "take out 1"),
            "{endless:?}: {ordered:?}"
        );
        drop(clients);
        service.stop();
    }
}

#[test]
fn what_comes_to_rest_is_replaced_at_once() {
    let service = RestlessService::new(EndlessStep::None, Duration::MAX);
    let mut client = service.client();
    client.read(0, &mut [1; 512]).expect("it is served");
    assert!(service.take_out() < LIMIT && service.replaced.load(Ordering::Relaxed));
    client.read(0, &mut [1; 512]).expect("it is served");
    drop(client);
    service.stop();
}

/// Has clients keep the service busy, which has it look for news now and then.
#[test]
fn the_answer_to_an_order_follows_the_news_of_it() {
    let service = RestlessService::new(EndlessStep::None, Duration::MAX);
    let clients: [_; 4] = std::array::from_fn(|_| service.client());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for mut client in clients {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    client.read(0, &mut [1; 512]).expect("it is served");
                }
            });
        }
        let told = (1..=ORDERS).map(|_| {
            order(&service.path().join("control"), &ServiceCommand::Flush, LIMIT).expect("it takes orders");
            service.news.lock().expect("nobody panics").len()
        });
        let told: Vec<_> = told.collect();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(told, (1..=ORDERS).collect::<Vec<_>>());
    });
    service.stop();
}
