//! Lines of text every now and then, for those who see no terminal.

use std::io::IsTerminal;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Sets how often lines are written.
const EVERY: Duration = Duration::from_secs(10);

/// Says something now and then, until it is dropped.
pub struct PeriodicMessage {
    /// Hanging up ends it.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl PeriodicMessage {
    /// Writes what `line` has to say to the standard error every ten seconds, but nothing twice in a row, unless that is a
    /// terminal, where it is shown otherwise.
    pub fn to_stderr(line: impl Fn() -> Option<String> + Send + 'static) -> Option<Self> {
        let mut last = None;
        let tell = move || {
            let now = line();
            // A job that hangs would otherwise fill a log with one line.
            if now != last {
                if let Some(line) = &now {
                    eprintln!("{line}");
                }
                last = now;
            }
        };
        (!std::io::stderr().is_terminal()).then(|| Self::new(EVERY, tell))
    }

    fn new(every: Duration, mut tell: impl FnMut() + Send + 'static) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                tell();
            }
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for PeriodicMessage {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A last line that could not be written is of no importance.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn it_tells_until_it_is_dropped() {
        let told = Arc::new(AtomicU32::new(0));
        let counts = Arc::clone(&told);
        let teller = PeriodicMessage::new(Duration::from_millis(2), move || {
            counts.fetch_add(1, Ordering::Relaxed);
        });
        while told.load(Ordering::Relaxed) < 3 {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(teller);
        let until_then = told.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(told.load(Ordering::Relaxed), until_then);
        // One that is dropped early neither waits nor says anything.
        drop(PeriodicMessage::new(Duration::from_hours(1), || panic!("it is too early")));
    }
}
