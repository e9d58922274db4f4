//! Who carries commands out, one pool for each device and one for the NVRAM: threads and what they
//! share with the main loop, or, where there are no threads, the main loop itself, a little of one
//! command or another at a time.
//!
//! A thread that panics takes the main loop with it ([`CommandBackend::results`]): else that would wait for
//! ever for results that nobody will bring.

use std::collections::VecDeque;
use std::io;
use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::files::io::backend::CommandBackend;
use crate::files::io::file::OsFile;
use crate::files::io::port::{CommandPort, LoopWakeup};

/// What carries out the commands of a pool; there may be several in one.
pub(crate) trait PoolWorker: Send + 'static {
    /// What it is told.
    type Command: Send + 'static;
    /// What it answers.
    type Done: Send + 'static;

    /// Commands that it is given at a time at most.
    const MOST: usize;

    /// Goes on with these, in order, and takes out those that are done. It is called until none is
    /// left.
    fn work(&mut self, commands: &mut VecDeque<Self::Command>, done: &mut dyn FnMut(Self::Done));

    /// Whether it would go on now; else it hangs, or waits for another of its pool. Only workers
    /// without threads are asked.
    fn is_ready(&self) -> bool {
        true
    }
}

/// The way to workers, who take commands in order and end them in any. Their threads end when the
/// pool is closed: what they are at work on is finished, what they have not begun never is. Nobody
/// waits for them unless by [`end`](Self::end).
pub(crate) struct WorkerPool<W: PoolWorker> {
    by: PoolWorkers<W>,
    /// Commands without a result so far.
    in_flight: usize,
    depth: usize,
}

enum PoolWorkers<W: PoolWorker> {
    Threads {
        port: Arc<CommandPort<W::Command, W::Done>>,
        wakeup: Arc<LoopWakeup>,
        threads: Vec<Option<JoinHandle<()>>>,
        panicked: bool,
        /// When the last result came, or a command to threads without any.
        moved: Instant,
        /// What is held until the last of them has ended.
        kept: ThreadLock,
    },
    MainLoop {
        workers: Vec<InLine<W>>,
        commands: VecDeque<W::Command>,
        results: VecDeque<W::Done>,
    },
}

/// A lock that threads hold as long as they are there.
type ThreadLock = Arc<OnceLock<Arc<dyn OsFile>>>;

/// A worker without a thread, and what it is at work on.
struct InLine<W: PoolWorker> {
    worker: W,
    taken: VecDeque<W::Command>,
}

impl<W: PoolWorker> WorkerPool<W> {
    /// Starts a thread for each worker. Together they have at most `depth` commands at a time.
    pub(crate) fn start(name: &str, depth: usize, wakeup: &Arc<LoopWakeup>, workers: Vec<W>) -> io::Result<Self> {
        let port = Arc::new(CommandPort::new(depth, Arc::clone(wakeup)));
        let mut threads = Vec::with_capacity(workers.len());
        let kept = ThreadLock::default();
        for (number, worker) in workers.into_iter().enumerate() {
            let (shared, kept) = (Arc::clone(&port), Arc::clone(&kept));
            let thread = Builder::new().name(format!("{name}.{number}")).spawn(move || {
                let end = ThreadExit { port: shared, thread: number };
                // Dropped before the end is told: with the worker its file, and then the lock.
                let _kept = kept;
                let mut worker = worker;
                let mut taken = VecDeque::new();
                loop {
                    end.port.take(W::MOST, &mut taken);
                    if taken.is_empty() {
                        return;
                    }
                    while !taken.is_empty() {
                        worker.work(&mut taken, &mut |done| end.port.finish([done]));
                    }
                }
            });
            match thread {
                Ok(thread) => threads.push(Some(thread)),
                Err(error) => {
                    port.close();
                    return Err(error);
                }
            }
        }
        let (wakeup, moved) = (Arc::clone(wakeup), Instant::now());
        Ok(Self {
            by: PoolWorkers::Threads { port, wakeup, threads, panicked: false, moved, kept },
            in_flight: 0,
            depth,
        })
    }

    /// Has the main loop do the work, at most `depth` commands at a time.
    pub(crate) fn in_line(depth: usize, workers: Vec<W>) -> Self {
        let workers = workers.into_iter().map(|worker| InLine { worker, taken: VecDeque::new() }).collect();
        Self {
            by: PoolWorkers::MainLoop { workers, commands: VecDeque::new(), results: VecDeque::new() },
            in_flight: 0,
            depth,
        }
    }

    /// Waits for the end of these threads, which have said that they end.
    ///
    /// # Panics
    /// As a thread did, if one did, and again whenever something is under way.
    fn join(&mut self, ended: u32) {
        let PoolWorkers::Threads { threads, panicked, .. } = &mut self.by else { return };
        // Its panic was caught and the pool is used all the same: what that thread had taken is
        // never done.
        assert!(!*panicked || self.in_flight == 0, "a thread that panicked brings no more results");
        for (_, thread) in threads.iter_mut().enumerate().filter(|(number, _)| ended >> number & 1 != 0) {
            if let Some(Err(panic)) = thread.take().map(JoinHandle::join) {
                *panicked = true;
                resume_unwind(panic);
            }
        }
    }
}

impl<W: PoolWorker> CommandBackend for WorkerPool<W> {
    type Command = W::Command;
    type Done = W::Done;

    fn has_room(&self) -> bool {
        self.in_flight < self.depth
    }

    fn is_busy(&self) -> bool {
        self.in_flight > 0
    }

    fn send(&mut self, command: W::Command) {
        debug_assert!(self.has_room(), "the caller looks for room");
        self.in_flight += 1;
        match &mut self.by {
            PoolWorkers::Threads { port, moved, .. } => {
                if self.in_flight == 1 {
                    *moved = Instant::now();
                }
                port.send(command);
            }
            PoolWorkers::MainLoop { commands, .. } => commands.push_back(command),
        }
    }

    fn stuck(&self) -> Duration {
        match &self.by {
            PoolWorkers::Threads { moved, .. } if self.is_busy() => moved.elapsed(),
            _ => Duration::ZERO,
        }
    }

    fn ready(&self) -> usize {
        match &self.by {
            PoolWorkers::MainLoop { workers, commands, .. } => {
                workers.iter().filter(|one| one.can_go_on(commands)).count()
            }
            PoolWorkers::Threads { .. } => 0,
        }
    }

    fn turn(&mut self, choose: impl Fn(usize) -> usize) {
        let ready = self.ready();
        if ready == 0 {
            return;
        }
        let chosen = choose(ready);
        let PoolWorkers::MainLoop { workers, commands, results } = &mut self.by else { return };
        let Some(one) = workers.iter_mut().filter(|one| one.can_go_on(commands)).nth(chosen) else { return };
        if one.taken.is_empty() {
            let count = 1 + choose(commands.len().min(W::MOST));
            one.taken.extend(commands.drain(..count));
        }
        one.worker.work(&mut one.taken, &mut |done| results.push_back(done));
    }

    fn results(&mut self, into: &mut VecDeque<W::Done>) {
        let before = into.len();
        let ended = match &mut self.by {
            PoolWorkers::Threads { port, moved, .. } => {
                let ended = port.results(into);
                if into.len() > before {
                    *moved = Instant::now();
                }
                ended
            }
            PoolWorkers::MainLoop { results, .. } => {
                into.append(results);
                0
            }
        };
        self.in_flight -= into.len() - before;
        if ended != 0 {
            self.join(ended);
        }
    }

    fn close(&mut self) -> VecDeque<W::Command> {
        let left = match &mut self.by {
            PoolWorkers::Threads { port, .. } => port.close(),
            PoolWorkers::MainLoop { workers, commands, .. } => {
                // Those that hang have begun one each.
                for one in workers.iter_mut().filter(|one| one.taken.is_empty() && !one.worker.is_ready()) {
                    one.taken.extend(commands.pop_front());
                }
                std::mem::take(commands)
            }
        };
        self.in_flight -= left.len();
        left
    }

    fn end(&mut self, until: Instant, keep: Option<&Arc<dyn OsFile>>) {
        self.close();
        let PoolWorkers::Threads { port, wakeup, threads, kept, .. } = &mut self.by else { return };
        let all = u32::MAX >> (u32::BITS - threads.len() as u32);
        let mut ended = port.results(&mut VecDeque::new());
        while ended != all {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            wakeup.wait(Some(left));
            ended = port.results(&mut VecDeque::new());
        }
        // Whoever else's ring it was is heard once more.
        wakeup.signal();
        if ended != all
            && let Some(keep) = keep
        {
            // Dropped with the last of these threads, be it right now.
            drop(kept.set(Arc::clone(keep)));
        }
        // A thread that panicked has said so, and what is dropped may be dropped by that very panic.
        let ended = threads.drain(..).enumerate().filter(|(number, _)| ended >> number & 1 != 0);
        ended.filter_map(|(_, thread)| thread).for_each(|thread| drop(thread.join()));
    }
}

impl<W: PoolWorker> InLine<W> {
    /// Whether it could go on with something, if these wait.
    fn can_go_on(&self, waiting: &VecDeque<W::Command>) -> bool {
        !(self.taken.is_empty() && waiting.is_empty()) && self.worker.is_ready()
    }
}

impl<W: PoolWorker> Drop for WorkerPool<W> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Says that a thread has ended, however it did.
struct ThreadExit<T, R> {
    port: Arc<CommandPort<T, R>>,
    thread: usize,
}

impl<T, R> Drop for ThreadExit<T, R> {
    fn drop(&mut self) {
        self.port.end(self.thread);
    }
}
