//! Orders to a service: status, flush, stop; signals; a command that is served.

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Instant;

use destage_nbd::client::blocking::{BlockingConnection, ExportRequest};
use rustix::process::{Pid, Signal, kill_process};

use super::{Array, IoMode, PATIENCE, binary, page};

io_mode_tests! {
    status_counts_what_was_asked_for,
    flush_writes_back_what_members_have_not,
    a_signal_ends_it_in_order,
    a_service_that_does_not_hear_is_told_of,
    a_command_is_served_as_long_as_it_runs,
    sockets_may_be_handed_over,
    what_is_no_socket_for_clients_is_refused,
}

fn status_counts_what_was_asked_for(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "kdd:staged-in=nvram", "--cache", "1MiB"]);
    array.serve(&[]);
    let mut client = array.client();
    for number in 0..10 {
        // The last two are deltas, which are staged.
        client.write(number % 8 * 4096, &page(number), false).expect("a write");
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
    if io_mode == IoMode::BufferedThreads {
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
    assert!(written >= (10 + 8) * 4096, "data, and parity unless it is left for later: {status}");
    for file in ["nvram", "intents"] {
        let of = |key: &str| count(&format!("/array/{file}/{key}")).expect("a count");
        let (steps, syncs, bytes) = (of("steps"), of("syncs"), of("written_bytes"));
        assert!(syncs > 0 && syncs <= steps && bytes >= 512 * syncs, "{file}: {status}");
        assert!(status["array"][file]["path"].as_str().is_some_and(|path| path.ends_with(file)), "{status}");
    }
    let shown = String::from_utf8(array.command("status", &[]).stdout).expect("text");
    for part in
        ["serving", "raid5:4", "kdd:", "10 of 40 KiB", "member 3", "for each of clients: members", "nbd+unix:///"]
    {
        assert!(shown.contains(part), "{part}:\n{shown}");
    }
    array.stop();
}

fn flush_writes_back_what_members_have_not(io_mode: IoMode) {
    for (policy, size) in [("write-back", "1MiB"), ("wow", "1MiB"), ("lawc", "1MiB")] {
        let mut array = Array::new(io_mode, &["--policy", policy, "--cache", size]);
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

fn a_signal_ends_it_in_order(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "write-back", "--cache", "1MiB"]);
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

/// Orders to a process that is stopped: each is given up with a message, and none is carried out later.
fn a_service_that_does_not_hear_is_told_of(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "none"]);
    array.serve(&[]);
    let pid = Pid::from_child(array.service.as_ref().expect("it is served"));
    kill_process(pid, Signal::STOP).expect("it is there");
    for (command, more) in [("status", None), ("flush", None), ("replace", Some("0")), ("stop", None)] {
        let more: Vec<_> = more.into_iter().chain(["--timeout", "1"]).collect();
        let begin = Instant::now();
        let output = array.command(command, &more);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(begin.elapsed() < PATIENCE / 6, "{command}: {:?}", begin.elapsed());
        assert_eq!(output.status.code(), Some(1), "{command}: {said}");
        for part in ["did not answer within 1 s", "control.sock", "nothing was done", "--timeout waits longer"] {
            assert!(said.contains(part), "{command}: {part}: {said}");
        }
        // Some containers do not show locks.
        if std::fs::read_to_string("/proc/locks").is_ok_and(|locks| !locks.is_empty()) {
            assert!(said.contains(&format!("kill {}", pid.as_raw_nonzero())), "{command}: {said}");
        }
    }
    kill_process(pid, Signal::CONT).expect("it is there");
    let status = array.status();
    assert_eq!(status["array"]["state"], "serving", "no order was carried out late: {status}");
    array.client().read(0, &mut [0; 4096]).expect("it serves");
    array.stop();
}

fn a_command_is_served_as_long_as_it_runs(io_mode: IoMode) {
    let array = Array::new(io_mode, &["--policy", "none"]);
    let path = array.path();
    let fine = binary::destage(&["serve", &path, "--run", "test -S \"$unixsocket\" && echo \"$uri\""]);
    let said = String::from_utf8(fine.stdout).expect("text");
    assert!(fine.status.success() && said.starts_with("nbd+unix:///?socket="), "{said}");
    let failed = binary::destage(&["serve", &path, "--run", "exit 3"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("exit status: 3"));
}

/// A shell as systemd would be: it has sockets at 3 and 4, and says so.
fn activated(array: &Array, sockets: [OwnedFd; 2], count: &str, more: &str) -> Child {
    let [third, fourth] = sockets;
    let serve =
        format!("LISTEN_PID=$$ LISTEN_FDS={count} exec \"$0\" serve \"$1\" {more} 3<&0 4<&1 0</dev/null 1>/dev/null");
    let mut shell = Command::new("sh");
    shell.args(["-c", &serve, env!("CARGO_BIN_EXE_destage"), &array.path()]).stdin(third).stdout(fourth);
    let log = std::fs::File::create(array.folder.path().join("log")).expect("a file");
    shell.stderr(log).spawn().expect("a shell")
}

fn sockets_may_be_handed_over(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "write-back", "--cache", "1MiB"]);
    let path = array.folder.path().join("handed over.sock");
    for life in 0..2 {
        // Both outlive the service: who comes before it, or between two, waits.
        let unix = if life == 0 { UnixListener::bind(&path).expect("a socket") } else { rebound(&path) };
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = tcp.local_addr().expect("an address");
        let before = UnixStream::connect(&path).expect("it is listened to");
        array.service = Some(activated(&array, [unix.into(), tcp.into()], "2", ""));
        let mut client = BlockingConnection::begin(before, &ExportRequest::default()).expect("the export is there");
        client.write(0, &page(life), true).expect("a write");
        let stream = TcpStream::connect(address).expect("it is listened to");
        let mut read = vec![0; 4096];
        BlockingConnection::begin(stream, &ExportRequest::default())
            .expect("the export is there")
            .read(0, &mut read)
            .expect("a read");
        assert_eq!(read, page(life));
        // The one that is there by default is not, and what was handed over stays.
        assert!(!array.file("nbd.sock").exists());
        array.stop();
        assert!(path.exists() && array.log().contains("handed%20over.sock"), "{}", array.log());
    }
}

fn rebound(path: &Path) -> UnixListener {
    std::fs::remove_file(path).expect("the socket's file");
    UnixListener::bind(path).expect("a socket")
}

fn what_is_no_socket_for_clients_is_refused(io_mode: IoMode) {
    let array = Array::new(io_mode, &["--policy", "none"]);
    let null = || OwnedFd::from(std::fs::File::options().read(true).write(true).open("/dev/null").expect("a device"));
    let (ours, _theirs) = UnixStream::pair().expect("sockets");
    for (socket, why) in [(null(), "socket 0: neither a Unix nor a TCP stream socket"), (ours.into(), "socket 0: ")] {
        let mut service = activated(&array, [socket, null()], "1", "");
        assert!(!service.wait().expect("it ends").success());
        assert!(array.log().contains(why), "{}", array.log());
    }
    // A connection, as Accept=yes gives it.
    let path = array.folder.path().join("accepted");
    let listener = UnixListener::bind(&path).expect("a socket");
    let _client = UnixStream::connect(&path).expect("it is listened to");
    let (connection, _) = listener.accept().expect("a connection");
    let mut service = activated(&array, [connection.into(), null()], "1", "");
    assert!(!service.wait().expect("it ends").success());
    assert!(array.log().contains("Accept=no"), "{}", array.log());
    // Those of another process are not ours.
    let mut array = array;
    let text = "LISTEN_PID=1 LISTEN_FDS=1 exec \"$0\" serve \"$1\" --run true";
    let served = Command::new("sh").args(["-c", text, env!("CARGO_BIN_EXE_destage"), &array.path()]).output();
    assert!(served.expect("a shell").status.success());
    array.service = None;
}
