//! Checks that the memory of requests is bounded, and that a system without memory ends no service.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use destage_nbd::{NbdCommand, NbdRequest};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::{Array, IoMode};

io_mode_tests! {
    clients_that_take_no_replies_are_no_burden,
    without_memory_a_request_fails_alone,
}

/// Gives the bytes of the longest request.
const LONGEST: u32 = 64 << 20;

/// Opens a client that asks for the longest reads, and reads nothing.
fn deaf(array: &Array, number: usize) -> UnixStream {
    let mut stream = array.client().into_stream();
    let read =
        NbdRequest { cookie: 1, command: NbdCommand::Read { whole: false }, fua: false, offset: 0, length: LONGEST };
    stream.write_all(&read.encode().repeat(number)).expect("a socket");
    stream
}

/// Returns a size of the process in bytes, by its name in `/proc`.
fn size(pid: Pid, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).expect("it is there");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("it has such a size");
    line.trim_matches([':', ' ', '\t', 'k', 'B']).parse::<u64>().expect("a number") << 10
}

fn clients_that_take_no_replies_are_no_burden(io_mode: IoMode) {
    let caches: [(&[&str], _); 2] = [(&["none"], 8), (&["kdd", "--cache", "16MiB"], 3)];
    for (policy, seconds) in caches {
        endures_deaf_clients(io_mode, policy, Duration::from_secs(seconds));
    }
}

/// Checks that a client is served beside deaf ones for so long, and that memory stays bounded.
fn endures_deaf_clients(io_mode: IoMode, policy: &[&str], time: Duration) {
    let mut array = Array::sized(io_mode, "22MiB", &[&["--policy"], policy].concat());
    array.serve(&[]);
    let pid = Pid::from_child(array.service.as_ref().expect("it is served"));
    let mut client = array.client();
    // A cache has a page here and there of what is asked for below: the others enter it one by one, while the rest of a long
    // read is on its way.
    for page in (0..(64 << 20) / 4096).step_by(7) {
        client.read(page * 4096, &mut [0; 4096]).expect("a read");
    }
    let deaf_ones: Vec<_> = (0..50).map(|_| deaf(&array, 4)).collect();
    let (begin, mut times, mut most) = (Instant::now(), Vec::new(), 0);
    // Longer than who holds memory that others wait for may do nothing.
    while begin.elapsed() < time {
        let since = Instant::now();
        client.read(0, &mut [0; 4096]).expect("a read");
        times.push(since.elapsed());
        most = most.max(size(pid, "VmRSS"));
        std::thread::sleep(Duration::from_millis(1));
    }
    times.sort_unstable();
    let p99 = times[times.len() * 99 / 100];
    let status = array.status();
    assert!(p99 < Duration::from_millis(100), "{policy:?}: {p99:?} of {} reads", times.len());
    assert_eq!(status["memory"]["limit_bytes"], 256 << 20, "{status}");
    assert!(
        status["memory"]["held_bytes"].as_u64().is_some_and(|held| (64 << 20..=256 << 20).contains(&held)),
        "{status}"
    );
    assert!(status["clients"]["lost"].as_u64() >= Some(1), "nobody made room: {status}");
    // What the array itself has is in it.
    assert!(most < 512 << 20, "{policy:?}: {} MiB of memory were in use", most >> 20);
    let shown = String::from_utf8(array.command("status", &[]).stdout).expect("text");
    assert!(shown.contains("memory") && shown.contains("of 256 MiB for requests"), "{shown}");
    eprintln!("{policy:?}: p99 {p99:?}, {} MiB", most >> 20);
    drop(deaf_ones);
    array.stop();
}

fn without_memory_a_request_fails_alone(io_mode: IoMode) {
    let mut array = Array::sized(io_mode, "22MiB", &["--policy", "none"]);
    array.serve(&[]);
    let pid = Pid::from_child(array.service.as_ref().expect("it is served"));
    let mut client = array.client();
    let mut bytes = vec![0; LONGEST as usize];
    client.read(0, &mut bytes).expect("a read");
    // When this is answered the memory of that is free.
    client.read(0, &mut bytes[..4096]).expect("a read");
    let maximum = getrlimit(Resource::As).maximum;
    let limit = |current| {
        prlimit(Some(pid), Resource::As, Rlimit { current, maximum }).expect("its limit can be changed");
    };
    // Enough for all that is small.
    limit(Some(size(pid, "VmSize") + (40 << 20)));
    for _ in 0..2 {
        let read = client.read(0, &mut bytes).expect_err("there is no memory for it").to_string();
        let written = client.write(0, &bytes, false).expect_err("there is no memory for it").to_string();
        for failed in [read, written] {
            assert!(failed.contains("ENOMEM") && failed.contains("no memory"), "{failed}");
        }
        client.read(0, &mut bytes[..4096]).expect("it goes on");
        client.write(0, &bytes[..4096], false).expect("it goes on");
    }
    assert_eq!(array.status()["memory"]["failed_requests"], 4);
    limit(maximum);
    client.read(0, &mut bytes).expect("there is memory again");
    array.stop();
}
