//! Carries commands out, with one pool for each device and one for the NVRAM.
//! A pool is threads with a port, or, where there are no threads, the main loop itself, one step of one command
//! at a time.
//!
//! A thread that panics takes the main loop with it ([`CommandBackend::results`]): else the main loop would
//! wait for ever for results that nobody brings.

use std::collections::VecDeque;
use std::io;
use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::files::io::backend::CommandBackend;
use crate::files::io::file::OsFile;
use crate::files::io::port::{CommandPort, LoopWakeup};

/// Carries out the commands of a pool; one pool may have several workers.
pub(crate) trait PoolWorker: Send + 'static {
    /// Is the type of a command.
    type Command: Send + 'static;
    /// Is the type of a result.
    type Done: Send + 'static;

    /// Limits the commands that a worker is given at a time.
    const MOST: usize;

    /// Works on these in order, and takes out those that are done.
    /// The pool calls it until none is left.
    fn work(&mut self, commands: &mut VecDeque<Self::Command>, done: &mut dyn FnMut(Self::Done));

    /// Returns true if the worker could go on now; else it hangs, or waits for another of its pool.
    /// Only workers without threads are asked.
    fn is_ready(&self) -> bool {
        true
    }
}

/// Sends commands to workers, who take them in order and end them in any order.
///
/// Its threads end when the pool is closed: they finish the commands that they have begun, and no others.
/// Only [`end`](Self::end) waits for them.
pub(crate) struct WorkerPool<W: PoolWorker> {
    by: PoolWorkers<W>,
    /// Counts the commands without a result so far.
    in_flight: usize,
    depth: usize,
}

enum PoolWorkers<W: PoolWorker> {
    Threads {
        port: Arc<CommandPort<W::Command, W::Done>>,
        wakeup: Arc<LoopWakeup>,
        threads: Vec<Option<JoinHandle<()>>>,
        panicked: bool,
        /// Records when the last result came, or a command to idle threads.
        moved: Instant,
        /// Holds a lock until the last of the threads has ended.
        kept: ThreadLock,
    },
    MainLoop {
        workers: Vec<InLine<W>>,
        commands: VecDeque<W::Command>,
        results: VecDeque<W::Done>,
    },
}

/// Holds a lock that lives as long as the threads.
type ThreadLock = Arc<OnceLock<Arc<dyn OsFile>>>;

/// Pairs a worker without a thread with its current commands.
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
                // Its `drop` reports the end, so a panic is reported as well.
                let end = ThreadExit { port: shared, thread: number };
                // Declared before the worker and dropped after it: the worker's
                // file closes, then the lock goes, then the end is told.
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

    /// Makes the main loop do the work, at most `depth` commands at a time.
    pub(crate) fn in_line(depth: usize, workers: Vec<W>) -> Self {
        let workers = workers.into_iter().map(|worker| InLine { worker, taken: VecDeque::new() }).collect();
        Self {
            by: PoolWorkers::MainLoop { workers, commands: VecDeque::new(), results: VecDeque::new() },
            in_flight: 0,
            depth,
        }
    }

    /// Waits for the end of these threads, which have reported that they end.
    ///
    /// # Panics
    /// Panics as a thread did, if one did, and again whenever commands are in flight.
    fn join(&mut self, ended: u32) {
        let PoolWorkers::Threads { threads, panicked, .. } = &mut self.by else { return };
        // The panic was caught and the pool is used all the same; the commands of
        // that thread never end.
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
                // The time counts from an idle pool's first command, not from its
                // last result.
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
            // The recording has no clock.
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
            // A random number of commands, since threads may take any number that
            // is there.
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
                // A hanging worker has begun a command, as a thread would have, so
                // its command does not come back.
                for one in workers.iter_mut().filter(|one| one.taken.is_empty() && !one.worker.is_ready()) {
                    one.taken.extend(commands.pop_front());
                }
                std::mem::take(commands)
            }
        };
        // Returned commands get no result, so they are no longer in flight.
        self.in_flight -= left.len();
        left
    }

    fn end(&mut self, until: Instant, keep: Option<&Arc<dyn OsFile>>) {
        self.close();
        let PoolWorkers::Threads { port, wakeup, threads, kept, .. } = &mut self.by else { return };
        // Worker numbers are below 32, so the mask fits.
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
        // The waits above have heard signals of other pools as well, so one is
        // given again.
        wakeup.signal();
        if ended != all
            && let Some(keep) = keep
        {
            // The last of these threads drops it, perhaps right now.
            drop(kept.set(Arc::clone(keep)));
        }
        // A panic was reported already, and this very drop may be part of its
        // unwinding.
        let ended = threads.drain(..).enumerate().filter(|(number, _)| ended >> number & 1 != 0);
        ended.filter_map(|(_, thread)| thread).for_each(|thread| drop(thread.join()));
    }
}

impl<W: PoolWorker> InLine<W> {
    /// Returns true if the worker could go on, given these waiting commands.
    fn can_go_on(&self, waiting: &VecDeque<W::Command>) -> bool {
        !(self.taken.is_empty() && waiting.is_empty()) && self.worker.is_ready()
    }
}

impl<W: PoolWorker> Drop for WorkerPool<W> {
    fn drop(&mut self) {
        // Nobody waits for threads here: one that hangs must not hang its owner.
        self.close();
    }
}

/// Reports the end of a thread, also after a panic.
struct ThreadExit<T, R> {
    port: Arc<CommandPort<T, R>>,
    thread: usize,
}

impl<T, R> Drop for ThreadExit<T, R> {
    fn drop(&mut self) {
        self.port.end(self.thread);
    }
}
