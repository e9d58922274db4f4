//! Orders to a service that does not hear, or takes long: its side of the control socket is played by hand.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use destage_engine::{ControlReply, OrderError, ServiceCommand, order};

/// Limits how long the service may take to hear.
const TIMEOUT: Duration = Duration::from_millis(300);
/// Far longer than that.
const LONG: Duration = Duration::from_secs(1);

/// A control socket that nobody attends to so far.
struct ControlSocket {
    _folder: tempfile::TempDir,
    path: PathBuf,
    listener: UnixListener,
}

impl ControlSocket {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control");
        let listener = UnixListener::bind(&path).expect("a socket");
        Self { _folder: folder, path, listener }
    }

    /// Sends these lines to the one who gives an order, each after so long.
    fn answer(&self, lines: &'static [(Duration, &'static str)]) -> JoinHandle<String> {
        let listener = self.listener.try_clone().expect("a socket");
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody comes");
            let mut asked = String::new();
            BufReader::new(&stream).read_line(&mut asked).expect("an order");
            for (after, line) in lines {
                std::thread::sleep(*after);
                stream.write_all(line.as_bytes()).expect("it is waited for");
            }
            asked
        })
    }

    /// Gives an order; how long it took.
    fn order(&self, what: &ServiceCommand) -> (Result<ControlReply, OrderError>, Duration) {
        let begin = Instant::now();
        (order(&self.path, what, TIMEOUT), begin.elapsed())
    }
}

#[test]
fn what_is_heard_takes_as_long_as_it_takes() {
    let control = ControlSocket::new();
    let service = control.answer(&[(Duration::ZERO, "\"heard\"\n"), (LONG, "\"done\"\n")]);
    let (reply, took) = control.order(&ServiceCommand::Stop);
    assert!(matches!(reply, Ok(ControlReply::Done)) && took >= LONG, "{reply:?} after {took:?}");
    assert_eq!(service.join().expect("it does not panic"), "\"stop\"\n");
}

#[test]
fn who_is_not_heard_is_told_in_time() {
    let control = ControlSocket::new();
    for what in [ServiceCommand::Status, ServiceCommand::Flush, ServiceCommand::Stop] {
        // It is let in and nobody reads the order.
        let (reply, took) = control.order(&what);
        assert!(matches!(reply, Err(OrderError::Unheard { after: TIMEOUT })), "{what:?}: {reply:?}");
        assert!(took >= TIMEOUT && took < LONG, "{what:?}: {took:?}");
    }
}

#[test]
fn who_is_not_let_in_is_told_in_time() {
    let control = ControlSocket::new();
    rustix::net::listen(&control.listener, 0).expect("a queue of one");
    let _first = UnixStream::connect(&control.path).expect("it has a place");
    let (reply, took) = control.order(&ServiceCommand::Status);
    assert!(matches!(reply, Err(OrderError::Unheard { after: TIMEOUT })), "{reply:?}");
    assert!(took >= TIMEOUT && took < LONG, "{took:?}");
}

#[test]
fn a_service_that_ends_has_not_answered() {
    let control = ControlSocket::new();
    let service = control.answer(&[(Duration::ZERO, "\"heard\"\n")]);
    let (reply, _) = control.order(&ServiceCommand::Stop);
    assert!(matches!(&reply, Err(OrderError::Io(error)) if error.to_string().contains("ended")), "{reply:?}");
    service.join().expect("it does not panic");
}
