//! Orders to a service: status, flush, stop; signals; a command that is served.

use rustix::process::{Pid, Signal, kill_process};

use super::{Array, BY_THREADS, binary, page};

#[test]
fn status_counts_what_was_asked_for() {
    let mut array = Array::new(&["--policy", "kdd", "--cache", "1MiB"]);
    array.serve(&[]);
    let mut client = array.client();
    for number in 0..10 {
        client.write(number * 4096, &page(number), false).expect("a write");
    }
    client.read(0, &mut [0; 8192]).expect("a read");
    client.flush().expect("a flush");
    let status = array.status();
    let count = |path: &str| status.pointer(path).and_then(serde_json::Value::as_u64);
    assert_eq!(count("/requests/writes/count"), Some(10));
    assert_eq!(count("/requests/writes/bytes"), Some(40_960));
    assert_eq!(count("/requests/reads/count"), Some(1));
    assert_eq!(count("/requests/flushes/count"), Some(1));
    assert_eq!(count("/requests/writes/failed"), Some(0));
    assert_eq!(count("/array/bytes"), Some(6 << 20));
    assert_eq!(status["array"]["state"], "serving");
    assert_eq!(status["array"]["level"], "raid5:4");
    let (io, direct) = (&status["array"]["io"], &status["array"]["devices"][0]["direct"]);
    if BY_THREADS {
        assert!(io == "threads" && direct == false && status["array"]["no_uring"].is_null(), "{status}");
    } else if io != "uring" || direct != true {
        let why = [&status["array"]["no_uring"], &status["array"]["devices"][0]["buffered"]];
        assert!(why.iter().any(|why| why.is_string()), "{status}");
        assert!(
            array.log().contains("there is no io_uring") || array.log().contains("no direct I/O"),
            "{}",
            array.log()
        );
        eprintln!("skipped in part: {why:?}");
    }
    let devices = status["array"]["devices"].as_array().expect("devices");
    assert_eq!(
        devices.iter().map(|device| device["name"].as_str().expect("a name")).collect::<Vec<_>>(),
        ["member 0", "member 1", "member 2", "member 3", "cache"]
    );
    let written: u64 = devices[..4].iter().filter_map(|device| device["written_bytes"].as_u64()).sum();
    assert!(written >= 20 * 4096, "data and parity: {status}");
    let shown = String::from_utf8(array.command("status", &[]).stdout).expect("text");
    for part in ["serving", "raid5:4", "kdd:", "10 of 40 KiB", "member 3", "nbd+unix:///"] {
        assert!(shown.contains(part), "{part}:\n{shown}");
    }
    array.stop();
}

#[test]
fn flush_writes_back_what_members_have_not() {
    for (policy, size) in [("write-back", "1MiB"), ("wow", "1MiB"), ("lawc", "1MiB")] {
        let mut array = Array::new(&["--policy", policy, "--cache", size]);
        array.serve(&[]);
        let mut client = array.client();
        for number in 0..40 {
            client.write(number * 5 * 4096, &page(number), false).expect("a write");
        }
        let flushed = array.command("flush", &[]);
        assert!(flushed.status.success(), "{policy}: {}", String::from_utf8_lossy(&flushed.stderr));
        let status = array.status();
        let members = status["array"]["devices"].as_array().expect("devices")[..4].iter();
        let written: u64 = members.filter_map(|device| device["written_bytes"].as_u64()).sum();
        assert!(written >= 2 * 40 * 4096, "{policy}: data and parity are on the members: {status}");
        array.stop();
    }
}

#[test]
fn a_signal_ends_it_in_order() {
    let mut array = Array::new(&["--policy", "write-back", "--cache", "1MiB"]);
    array.serve(&[]);
    array.client().write(0, &page(1), false).expect("a write");
    let mut service = array.service.take().expect("it is served");
    let pid = Pid::from_child(&service);
    kill_process(pid, Signal::TERM).expect("it is there");
    assert!(service.wait().expect("it ends").success(), "{}", array.log());
    assert!(!array.file("nbd.sock").exists() && !array.file("control.sock").exists(), "sockets are taken away");
    array.serve(&[]);
    let mut bytes = vec![0; 4096];
    array.client().read(0, &mut bytes).expect("a read");
    assert!(bytes == page(1), "what was answered before the end is there");
    array.stop();
}

#[test]
fn a_command_is_served_as_long_as_it_runs() {
    let array = Array::new(&["--policy", "none"]);
    let path = array.path();
    let fine = binary::destage(&["serve", &path, "--run", "test -S \"$unixsocket\" && echo \"$uri\""]);
    let said = String::from_utf8(fine.stdout).expect("text");
    assert!(fine.status.success() && said.starts_with("nbd+unix:///?socket="), "{said}");
    let failed = binary::destage(&["serve", &path, "--run", "exit 3"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("exit status: 3"));
}
