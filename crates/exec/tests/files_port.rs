//! Every interleaving of the main loop and the threads over the ports, as far as they are bounded
//! here. The very file of the executor is compiled with the model checker's locks in place of the
//! real ones.

use std::collections::VecDeque;

use loom::sync::Arc;
use loom::thread;

use port::{Bell, Port};

mod sync {
    pub use std::sync::PoisonError;

    pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
}

#[path = "../src/files/port.rs"]
mod port;

/// A thread as the executor's are: it answers each command with twice its number, up to `most` at a
/// time.
fn serve(port: &Port<u32, u32>, most: usize) {
    let mut taken = VecDeque::new();
    loop {
        port.take(most, &mut taken);
        if taken.is_empty() {
            return port.end();
        }
        port.finish(taken.drain(..).map(|number| 2 * number));
    }
}

fn check(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

/// How thoroughly the larger models are checked: all interleavings with so many preemptions, or
/// with more in a soak.
fn bound() -> usize {
    if std::env::var_os("DESTAGE_SOAK").is_some() { 4 } else { 2 }
}

#[test]
fn every_command_is_answered_once_and_in_order() {
    for most in [1, usize::MAX] {
        check(Some(bound()), move || {
            let bell = Arc::new(Bell::default());
            let port = Arc::new(Port::new(2, Arc::clone(&bell)));
            let shared = Arc::clone(&port);
            let thread = thread::spawn(move || serve(&shared, most));
            port.send(1);
            port.send(2);
            let mut results = VecDeque::new();
            while results.len() < 2 {
                let before = results.len();
                port.results(&mut results);
                if results.len() == before {
                    bell.wait(None);
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
        let bell = Arc::new(Bell::default());
        let port = Arc::new(Port::new(2, Arc::clone(&bell)));
        let shared = Arc::clone(&port);
        let thread = thread::spawn(move || {
            let mut taken = VecDeque::new();
            shared.take(1, &mut taken);
            shared.finish(taken.drain(..));
            shared.take(1, &mut taken);
            shared.end();
        });
        port.send(1);
        port.send(2);
        let mut results = VecDeque::new();
        while !port.results(&mut results) {
            bell.wait(None);
        }
        assert_eq!(results, [1]);
        thread.join().expect("the thread ends");
    });
}

#[test]
fn one_bell_wakes_for_the_results_of_all_ports() {
    check(Some(bound()), || {
        let bell = Arc::new(Bell::default());
        let ports: Vec<_> = (0..2).map(|_| Arc::new(Port::new(1, Arc::clone(&bell)))).collect();
        let threads: Vec<_> = ports
            .iter()
            .map(|port| {
                let shared = Arc::clone(port);
                thread::spawn(move || serve(&shared, 1))
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
                bell.wait(None);
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
                bell.wait(None);
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
            let bell = Arc::new(Bell::default());
            let port = Arc::new(Port::new(2, bell));
            let shared = Arc::clone(&port);
            let thread = thread::spawn(move || serve(&shared, most));
            port.send(1);
            port.send(2);
            let left = port.close();
            thread.join().expect("the thread ends though nobody listens to the bell");
            let mut results = VecDeque::new();
            port.results(&mut results);
            let done: Vec<u32> = results.iter().map(|number| number / 2).chain(left).collect();
            assert_eq!(done, [1, 2]);
        });
    }
}
