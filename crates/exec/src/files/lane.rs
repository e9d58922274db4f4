//! Who carries commands out, one lane for each device and one for the NVRAM: a thread and what it
//! shares with the main loop, or, where there are no threads, the main loop itself.
//!
//! A thread that panics takes the main loop with it ([`Lane::results`]): else that would wait for
//! ever for results that nobody will bring.

use std::collections::VecDeque;
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use super::port::{Bell, Port};

/// What carries out the commands of a lane.
pub(super) trait Worker: Send + 'static {
    /// What it is told.
    type Command: Send + 'static;
    /// What it answers.
    type Done: Send + 'static;

    /// Commands that it is given at a time at most.
    const MOST: usize;

    /// Carries out all of these, in order.
    fn work(&mut self, commands: &mut VecDeque<Self::Command>, done: &mut dyn FnMut(Self::Done));

    /// Whether it would not answer now. Only workers without threads know.
    fn hangs(&self) -> bool {
        false
    }
}

/// The way to a worker. A thread ends when its lane is dropped: what it is at work on is finished,
/// what it has not begun never is.
pub(super) struct Lane<W: Worker> {
    by: By<W>,
    /// Commands without a result so far.
    in_flight: usize,
    depth: usize,
}

enum By<W: Worker> {
    Thread { port: Arc<Port<W::Command, W::Done>>, thread: Option<JoinHandle<()>> },
    MainLoop { worker: W, commands: VecDeque<W::Command>, results: VecDeque<W::Done> },
}

impl<W: Worker> Lane<W> {
    /// Starts a thread that has at most `depth` commands at a time.
    pub(super) fn start(name: String, depth: usize, bell: &Arc<Bell>, mut worker: W) -> io::Result<Self> {
        let port = Arc::new(Port::new(depth, Arc::clone(bell)));
        let shared = Arc::clone(&port);
        let thread = Builder::new().name(name).spawn(move || {
            let end = End(shared);
            let mut taken = VecDeque::new();
            loop {
                end.0.take(W::MOST, &mut taken);
                if taken.is_empty() {
                    return;
                }
                worker.work(&mut taken, &mut |done| end.0.finish([done]));
            }
        })?;
        Ok(Self { by: By::Thread { port, thread: Some(thread) }, in_flight: 0, depth })
    }

    /// Has the main loop do the work, at most `depth` commands at a time.
    pub(super) fn in_line(depth: usize, worker: W) -> Self {
        Self { by: By::MainLoop { worker, commands: VecDeque::new(), results: VecDeque::new() }, in_flight: 0, depth }
    }

    /// Whether another command may be sent.
    pub(super) const fn has_room(&self) -> bool {
        self.in_flight < self.depth
    }

    /// Whether commands are without a result.
    pub(super) const fn is_busy(&self) -> bool {
        self.in_flight > 0
    }

    /// Gives the worker a command.
    pub(super) fn send(&mut self, command: W::Command) {
        debug_assert!(self.has_room(), "the caller looks for room");
        self.in_flight += 1;
        match &mut self.by {
            By::Thread { port, .. } => port.send(command),
            By::MainLoop { commands, .. } => commands.push_back(command),
        }
    }

    /// Commands that [`turn`](Self::turn) could do now.
    pub(super) fn ready(&self) -> usize {
        match &self.by {
            By::MainLoop { worker, commands, .. } if !worker.hangs() => commands.len(),
            _ => 0,
        }
    }

    /// Without a thread: does so many commands.
    pub(super) fn turn(&mut self, count: usize) {
        if let By::MainLoop { worker, commands, results } = &mut self.by {
            let mut taken = commands.drain(..count).collect();
            worker.work(&mut taken, &mut |done| results.push_back(done));
        }
    }

    /// Appends the results that there are.
    ///
    /// # Panics
    /// As the thread did, if it did.
    pub(super) fn results(&mut self, into: &mut VecDeque<W::Done>) {
        let before = into.len();
        let ended = match &mut self.by {
            By::Thread { port, .. } => port.results(into),
            By::MainLoop { results, .. } => {
                into.append(results);
                false
            }
        };
        self.in_flight -= into.len() - before;
        if ended {
            self.join();
            // Its panic was caught and the lane is used all the same.
            assert!(self.in_flight == 0, "a thread that panicked brings no more results");
        }
    }

    /// Tells the worker to end; the commands that it has not begun.
    pub(super) fn close(&mut self) -> VecDeque<W::Command> {
        let left = match &mut self.by {
            By::Thread { port, .. } => port.close(),
            // One that hangs has begun the first.
            By::MainLoop { worker, commands, .. } if worker.hangs() && !commands.is_empty() => commands.split_off(1),
            By::MainLoop { commands, .. } => std::mem::take(commands),
        };
        self.in_flight -= left.len();
        left
    }

    /// Waits for the end of the thread, after [`close`](Self::close).
    ///
    /// # Panics
    /// As the thread did, if it did.
    fn join(&mut self) {
        if let By::Thread { thread, .. } = &mut self.by
            && let Some(Err(panic)) = thread.take().map(JoinHandle::join)
        {
            resume_unwind(panic);
        }
    }

    /// Leaves the worker to itself. What it is at work on may never come to an end, and nobody
    /// waits for it; its file stays open, and locked, as long as that lasts.
    pub(super) fn leave(mut self) {
        self.close();
        if let By::Thread { thread, .. } = &mut self.by {
            drop(thread.take());
        }
    }
}

impl<W: Worker> Drop for Lane<W> {
    fn drop(&mut self) {
        self.close();
        if let By::Thread { thread, .. } = &mut self.by
            && let Some(thread) = thread.take()
        {
            // A thread that panicked has said so, and what is dropped may be dropped by that very
            // panic.
            drop(thread.join());
        }
    }
}

/// Says that a thread has ended, however it did.
struct End<T, R>(Arc<Port<T, R>>);

impl<T, R> Drop for End<T, R> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Answers with what it is told, and panics over one number.
    struct Echo {
        panics_over: Option<u32>,
    }

    impl Worker for Echo {
        type Command = u32;
        type Done = u32;

        const MOST: usize = 1;

        fn work(&mut self, commands: &mut VecDeque<u32>, done: &mut dyn FnMut(u32)) {
            for command in commands.drain(..) {
                assert!(self.panics_over != Some(command), "over {command}");
                done(command);
            }
        }
    }

    #[test]
    fn the_panic_of_a_thread_is_the_main_loops() {
        let bell = Arc::new(Bell::default());
        let worker = Echo { panics_over: Some(2) };
        let mut lane = Lane::start("destage-panics".to_owned(), 3, &bell, worker).expect("a thread");
        (1..=3).for_each(|command| lane.send(command));
        let mut results = VecDeque::new();
        let panic = loop {
            bell.wait(None);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| lane.results(&mut results))) {
                break panic;
            }
        };
        assert_eq!(panic.downcast_ref::<String>().map(String::as_str), Some("over 2"));
        assert_eq!(results, [1], "what was done before is not lost");
        let again = catch_unwind(AssertUnwindSafe(|| lane.results(&mut results)));
        assert!(again.is_err(), "nobody waits for what is not done either");
    }

    #[test]
    fn a_thread_that_ended_as_it_was_told_has_not_panicked() {
        let bell = Arc::new(Bell::default());
        let mut lane = Lane::start("destage-ends".to_owned(), 1, &bell, Echo { panics_over: None }).expect("a thread");
        lane.send(1);
        let mut results = VecDeque::new();
        while results.is_empty() {
            bell.wait(None);
            lane.results(&mut results);
        }
        assert!(lane.close().is_empty() && !lane.is_busy());
        lane.join();
        lane.results(&mut results);
        assert_eq!(results, [1]);
    }
}
