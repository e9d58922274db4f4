//! A service with clients that behave badly, and a backend that ends.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use destage_engine::{ArrayState, ControlReply, ServiceCommand};
use destage_nbd::{NbdCommand, NbdRequest};

use crate::served::{BYTES, TestService};

#[test]
fn who_does_not_read_or_sends_halves_keeps_nobody_waiting() {
    let served = TestService::new(false);
    // One asks for 512 MiB and takes none of it, as far as the socket holds its requests.
    let mut deaf = served.client().into_stream();
    let read = NbdRequest {
        cookie: 1,
        command: NbdCommand::Read { whole: false },
        fua: false,
        offset: 0,
        length: BYTES as u32,
    };
    deaf.set_write_timeout(Some(Duration::from_secs(1))).expect("a socket");
    for _ in 0..512 {
        if deaf.write_all(&read.encode()).is_err() {
            break;
        }
    }
    // One sends half a request, one half a payload, one nothing, one what is no NBD.
    let mut half = served.client().into_stream();
    half.write_all(&read.encode()[..10]).expect("a socket");
    let mut payload = served.client().into_stream();
    let write = NbdRequest { command: NbdCommand::Write, ..read };
    payload.write_all(&write.encode()).expect("a socket");
    payload.write_all(&[7; 1000]).expect("a socket");
    let silent = served.stream();
    let mut stranger = served.stream();
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").expect("a socket");
    let mut rest = Vec::new();
    stranger.read_to_end(&mut rest).expect("it is closed");
    let mut client = served.client();
    for number in 0..1000 {
        client.write(number * 512, &[number as u8; 512], false).expect("a write");
        let mut bytes = [0; 512];
        client.read(number * 512, &mut bytes).expect("a read");
        assert_eq!(bytes, [number as u8; 512]);
    }
    let status = served.status();
    assert_eq!((status.clients.now, status.clients.lost), (5, 1), "{:?}", status.clients);
    assert!(status.clients.under_way <= 256, "what a client has under way is bounded");
    drop((half, payload, silent, deaf));
    client.read(0, &mut [0; 512]).expect("it goes on");
    let status = served.status();
    // The silent one has not even read what it was greeted with.
    assert_eq!((status.clients.now, status.clients.lost), (1, 5), "{:?}", status.clients);
    served.stop().expect("nothing is left");
}

#[test]
fn when_the_backend_ends_requests_fail_and_the_status_says_why() {
    let served = TestService::new(false);
    let mut client = served.client();
    client.write(0, &[1; 4096], false).expect("a write");
    served.breaks.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        let failed = format!("{:?}", client.write(0, &[2; 4096], false));
        assert!(failed.contains("Io") && failed.contains("the journal does not exist"), "{failed}");
    }
    assert!(client.flush().is_err() && client.read(0, &mut [0; 512]).is_err());
    assert!(matches!(&served.status().array.state, ArrayState::Stopped(why) if why.contains("the journal")));
    assert!(matches!(served.order(&ServiceCommand::Flush), ControlReply::Failed(why) if why.contains("the journal")));
    let ended = served.stop().expect_err("something is left").to_string();
    assert!(ended.contains("the journal"), "{ended}");
}

#[test]
fn a_backend_that_refuses_to_start_ends_the_service() {
    let served = TestService::new(true);
    let ended = served.thread.join().expect("it does not panic").expect_err("it is refused").to_string();
    assert!(ended.contains("cannot be started"), "{ended}");
}

#[test]
fn what_is_no_order_is_answered() {
    let served = TestService::new(false);
    for (line, part) in [
        ("nothing\n".to_owned(), "no order"),
        ("\"flash\"\n".to_owned(), "no order"),
        ("x".repeat(5000), "at most 4096"),
    ] {
        let mut stream = UnixStream::connect(served.folder.path().join("control")).expect("it takes orders");
        stream.write_all(line.as_bytes()).expect("a socket");
        let mut answer = [0; 512];
        let read = stream.read(&mut answer).expect("an answer");
        let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
        assert!(answer.contains("failed") && answer.contains(part), "{line}: {answer}");
    }
    served.stop().expect("nothing is left");
}
