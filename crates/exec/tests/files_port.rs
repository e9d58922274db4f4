//! Every interleaving of the main loop and the threads over the ports, as far as they are bounded
//! here. The very file of the executor is compiled with the model checker's locks in place of the
//! real ones.

use std::collections::VecDeque;

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use port::{CommandPort, LoopWakeup};
use syncs::{DeviceSyncs, SyncTurn};

mod sync {
    pub use std::sync::PoisonError;

    pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
}

#[path = "../src/files/io/port.rs"]
mod port;
#[path = "../src/files/io/syncs.rs"]
mod syncs;

/// A thread as the executor's are: it answers each command with twice its number, up to `most` at a
/// time.
fn serve(port: &CommandPort<u32, u32>, number: usize, most: usize) {
    let mut taken = VecDeque::new();
    loop {
        port.take(most, &mut taken);
        if taken.is_empty() {
            return port.end(number);
        }
        port.finish(taken.drain(..).map(|number| 2 * number));
    }
}

fn check(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

/// Bounds the preemptions in the larger models, of which all interleavings are tried; a soak allows more.
fn bound() -> usize {
    if std::env::var_os("DESTAGE_SOAK").is_some() { 4 } else { 2 }
}

#[test]
fn every_command_is_answered_once_and_in_order() {
    for most in [1, usize::MAX] {
        check(Some(bound()), move || {
            let wakeup = Arc::new(LoopWakeup::default());
            let port = Arc::new(CommandPort::new(2, Arc::clone(&wakeup)));
            let shared = Arc::clone(&port);
            let thread = thread::spawn(move || serve(&shared, 0, most));
            port.send(1);
            port.send(2);
            let mut results = VecDeque::new();
            while results.len() < 2 {
                let before = results.len();
                port.results(&mut results);
                if results.len() == before {
                    wakeup.wait(None);
                }
            }
            assert_eq!(results, [2, 4]);
            assert!(port.close().is_empty());
            thread.join().expect("the thread ends");
        });
    }
}

#[test]
fn a_thread_that_ends_without_an_answer_is_noticed_and_what_it_answered_before_is_not_lost() {
    check(None, || {
        let wakeup = Arc::new(LoopWakeup::default());
        let port = Arc::new(CommandPort::new(2, Arc::clone(&wakeup)));
        let shared = Arc::clone(&port);
        let thread = thread::spawn(move || {
            let mut taken = VecDeque::new();
            shared.take(1, &mut taken);
            shared.finish(taken.drain(..));
            shared.take(1, &mut taken);
            shared.end(0);
        });
        port.send(1);
        port.send(2);
        let mut results = VecDeque::new();
        while port.results(&mut results) == 0 {
            wakeup.wait(None);
        }
        assert_eq!(results, [1]);
        thread.join().expect("the thread ends");
    });
}

/// A main loop that waits elsewhere is woken for everything that happens after it has heard the wake-up.
#[test]
fn no_result_is_slept_through_by_who_waits_elsewhere() {
    for also in [false, true] {
        check(Some(bound()), move || {
            let wakeup = Arc::new(LoopWakeup::default());
            // What a counter of events in the kernel is.
            let events = Arc::new((Mutex::new(0), Condvar::new()));
            let counter = Arc::clone(&events);
            let wake: Box<dyn Fn() + Send + Sync> = Box::new(move || {
                *counter.0.lock().expect("nobody panics") += 1;
                counter.1.notify_one();
            });
            // Whoever serves, or the executor's own ring.
            if also {
                wakeup.wake_also_with(wake);
            } else {
                wakeup.wake_with(wake);
            }
            let port = Arc::new(CommandPort::new(2, Arc::clone(&wakeup)));
            let shared = Arc::clone(&port);
            let thread = thread::spawn(move || serve(&shared, 0, 1));
            port.send(1);
            port.send(2);
            let mut results = VecDeque::new();
            while results.len() < 2 {
                port.results(&mut results);
                if results.len() == 2 || wakeup.hear() {
                    continue;
                }
                let mut count = events.0.lock().expect("nobody panics");
                while *count == 0 {
                    count = events.1.wait(count).expect("nobody panics");
                }
                *count = 0;
            }
            port.close();
            thread.join().expect("the thread ends");
        });
    }
}

#[test]
fn one_bell_wakes_for_the_results_of_all_ports() {
    check(Some(bound()), || {
        let wakeup = Arc::new(LoopWakeup::default());
        let ports: Vec<_> = (0..2).map(|_| Arc::new(CommandPort::new(1, Arc::clone(&wakeup)))).collect();
        let threads: Vec<_> = ports
            .iter()
            .map(|port| {
                let shared = Arc::clone(port);
                thread::spawn(move || serve(&shared, 0, 1))
            })
            .collect();
        for (port, number) in ports.iter().zip(1..) {
            port.send(number);
        }
        let mut results = VecDeque::new();
        while results.len() < 2 {
            let before = results.len();
            for port in &ports {
                port.results(&mut results);
            }
            if results.len() == before {
                wakeup.wait(None);
            }
        }
        results.make_contiguous().sort_unstable();
        assert_eq!(results, [2, 4]);
        // A port that has room again is used again.
        ports[0].send(5);
        results.clear();
        while results.is_empty() {
            for port in &ports {
                port.results(&mut results);
            }
            if results.is_empty() {
                wakeup.wait(None);
            }
        }
        assert_eq!(results, [10]);
        for (port, thread) in ports.iter().zip(threads) {
            assert!(port.close().is_empty());
            thread.join().expect("the thread ends");
        }
    });
}

#[test]
fn a_closed_port_ends_its_thread_and_no_command_is_both_taken_back_and_done() {
    for most in [1, usize::MAX] {
        check(None, move || {
            let wakeup = Arc::new(LoopWakeup::default());
            let port = Arc::new(CommandPort::new(2, wakeup));
            let shared = Arc::clone(&port);
            let thread = thread::spawn(move || serve(&shared, 0, most));
            port.send(1);
            port.send(2);
            let left = port.close();
            thread.join().expect("the thread ends though nobody hears the wake-up");
            let mut results = VecDeque::new();
            port.results(&mut results);
            let done: Vec<u32> = results.iter().map(|number| number / 2).chain(left).collect();
            assert_eq!(done, [1, 2]);
        });
    }
}

#[test]
fn several_threads_answer_every_command_once_and_all_of_them_end() {
    // A third preemption takes minutes.
    check(Some(2), || {
        let wakeup = Arc::new(LoopWakeup::default());
        let port = Arc::new(CommandPort::new(3, Arc::clone(&wakeup)));
        let threads = [0, 1].map(|number| {
            let shared = Arc::clone(&port);
            thread::spawn(move || serve(&shared, number, 1))
        });
        (1..=3).for_each(|number| port.send(number));
        let mut results = VecDeque::new();
        while results.len() < 3 {
            let before = results.len();
            port.results(&mut results);
            if results.len() == before {
                wakeup.wait(None);
            }
        }
        results.make_contiguous().sort_unstable();
        assert_eq!(results, [2, 4, 6]);
        // Idle or on their way to be: each hears that the port is closed, and says that it ended.
        assert!(port.close().is_empty());
        while port.results(&mut results) != 0b11 {
            wakeup.wait(None);
        }
        for thread in threads {
            thread.join().expect("the thread ends");
        }
    });
}

#[test]
fn of_a_closed_port_no_command_is_lost_between_several_threads() {
    check(Some(3), || {
        let wakeup = Arc::new(LoopWakeup::default());
        let port = Arc::new(CommandPort::new(3, wakeup));
        let threads = [0, 1].map(|number| {
            let shared = Arc::clone(&port);
            thread::spawn(move || serve(&shared, number, 1))
        });
        (1..=3).for_each(|number| port.send(number));
        let left = port.close();
        for thread in threads {
            thread.join().expect("the thread ends though nobody hears the wake-up");
        }
        let mut results = VecDeque::new();
        assert_eq!(port.results(&mut results), 0b11);
        let mut done: Vec<u32> = results.iter().map(|number| number / 2).chain(left).collect();
        done.sort_unstable();
        assert_eq!(done, [1, 2, 3]);
    });
}

/// A device whose syncs take time: what was written is durable when a sync ends that began after
/// it. One of its syncs may fail; what it was to cover is lost, and it says so once.
#[derive(Default)]
struct Disk {
    written: u32,
    durable: u32,
    /// Writes that a failed sync has lost, a bit each.
    lost: u32,
    failing: bool,
    syncs: u32,
}

/// A worker writes and makes it durable; whether it is told that it did.
fn write_durably(number: u32, disk: &Mutex<Disk>, syncs: &DeviceSyncs) -> bool {
    disk.lock().unwrap().written |= 1 << number;
    match syncs.begin(syncs.ask()) {
        SyncTurn::Yours => {
            let covers = disk.lock().unwrap().written;
            thread::yield_now();
            let success = {
                let mut disk = disk.lock().unwrap();
                disk.syncs += 1;
                if std::mem::take(&mut disk.failing) {
                    disk.lost |= covers & !disk.durable;
                    false
                } else {
                    disk.durable |= covers & !disk.lost;
                    true
                }
            };
            syncs.end(success);
            success
        }
        SyncTurn::Covered => true,
        SyncTurn::Failed => false,
    }
}

/// Three workers write durably, the first two at the same time as the main loop, which is the third.
fn all_write_durably(failing: bool) {
    check(Some(bound()), move || {
        let disk = Arc::new(Mutex::new(Disk { failing, ..Disk::default() }));
        let syncs = Arc::new(DeviceSyncs::default());
        let threads = [0, 1].map(|number| {
            let (disk, syncs) = (Arc::clone(&disk), Arc::clone(&syncs));
            thread::spawn(move || write_durably(number, &disk, &syncs))
        });
        let third = write_durably(2, &disk, &syncs);
        let told = threads.map(|thread| thread.join().expect("the thread ends"));
        let disk = disk.lock().unwrap();
        for (number, told) in told.into_iter().chain([third]).enumerate() {
            assert!(!told || disk.durable >> number & 1 != 0, "{number} is told that it is durable");
            assert!(told || failing, "nothing fails");
        }
        assert!((1..=3).contains(&disk.syncs) && !syncs.is_under_way());
        // Whoever comes later hears of it, too.
        assert_eq!(syncs.begin(syncs.ask()) == SyncTurn::Failed, failing);
    });
}

#[test]
fn a_sync_covers_what_ended_before_it_began_and_nothing_else() {
    all_write_durably(false);
}

#[test]
fn a_sync_that_fails_is_told_to_all_who_asked() {
    all_write_durably(true);
}
