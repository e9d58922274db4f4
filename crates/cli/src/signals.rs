//! Signals that ask for an end: nothing half written is left, and the exit status tells the signal,
//! as shells do.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::output;

/// Holds the function that hears of a signal in place of an end.
static TOLD: Mutex<Option<SignalHandler>> = Mutex::new(None);

/// Is told the signal's number.
type SignalHandler = Box<dyn Fn(i32) + Send>;

/// Waits for SIGINT, SIGTERM and SIGHUP from now on. What whoever started us had ignored, as
/// `nohup` does, stays ignored.
///
/// # Errors
/// Where the system gives no handler or no thread.
pub fn watch() -> io::Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(&status, signal));
    let mut signals = Signals::new(wanted)?;
    // A file beyond the limit on its size is then an error of writing, and not the end of the process.
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    let wait = move || signals.forever().for_each(end);
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop)
}

/// From now on a signal sets `flag`, for a command that comes to an end by itself then.
pub fn tell(flag: &Arc<AtomicBool>) {
    let flag = Arc::clone(flag);
    call(move |_| flag.store(true, Ordering::Relaxed));
}

/// From now on this is called with a signal's number, for a command that comes to an end by itself then.
pub fn call(told: impl Fn(i32) + Send + 'static) {
    *TOLD.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(told));
}

fn end(signal: i32) {
    if let Some(told) = &*TOLD.lock().unwrap_or_else(PoisonError::into_inner) {
        told(signal);
        return;
    }
    end_now(signal);
}

/// Ends the program as a signal does that nobody is told of.
pub fn end_now(signal: i32) {
    // The lock is kept until the exit, so no other thread makes a file after the clean-up.
    let _nothing_more = output::clean_up();
    signal_hook::low_level::exit(128 + signal);
}

/// Returns true if a process with this text in its `/proc/PID/status` ignores the signal.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_known() {
        let status = "Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n";
        assert!(is_ignored(status, SIGHUP) && is_ignored(status, 13));
        assert!(!is_ignored(status, SIGINT) && !is_ignored("", SIGHUP));
    }
}
