//! The client here against other people's servers.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use std::{fs, thread};

use destage_nbd::client::OptionRequest;
use destage_nbd::client::blocking::{BlockingConnection, ExportRequest};

use super::have;
use super::own::exercise;

/// A server that ends with the test.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A connection, as soon as there can be one.
fn connect(socket: &Path) -> UnixStream {
    let begun = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return stream,
            Err(error) if [ErrorKind::NotFound, ErrorKind::ConnectionRefused].contains(&error.kind()) => {
                assert!(begun.elapsed() < Duration::from_secs(30), "it does not listen");
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn use_it(socket: &Path, export: &str) {
    for structured in [true, false] {
        let contexts: &[&str] = if structured { &["base:allocation"] } else { &[] };
        let wanted = ExportRequest { export, structured, contexts };
        let mut connection = BlockingConnection::begin(connect(socket), &wanted).expect("a transmission");
        assert_eq!(connection.export().map(|export| export.size), Some(8 << 20));
        exercise(&mut connection);
        if structured {
            let told = connection.status(0, 4 << 20, false).expect("a block status");
            // Whole blocks of theirs, of which some were never written.
            assert!(
                told.iter().any(|(_, extent)| extent.flags == 3) && told.iter().any(|(_, e)| e.flags == 0),
                "{told:?}"
            );
            assert!(told.iter().map(|(_, extent)| extent.length).sum::<u64>() >= 4 << 20, "{told:?}");
        }
        connection.goodbye().expect("an end");
    }
}

#[test]
fn nbdkit_is_understood() {
    if !have("nbdkit_is_understood", "nbdkit") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let mut command = Command::new("nbdkit");
    command.args(["--foreground", "--unix"]).arg(&socket).args(["memory", "8M"]);
    let _peer = Peer(command.spawn().expect("it runs"));
    use_it(&socket, "");
}

#[test]
fn qemu_nbd_is_understood() {
    if !have("qemu_nbd_is_understood", "qemu-nbd") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (socket, image) = (folder.path().join("socket"), folder.path().join("image"));
    fs::File::create(&image).and_then(|file| file.set_len(8 << 20)).expect("an image");
    let mut command = Command::new("qemu-nbd");
    command.args(["--persistent", "--shared=4", "--format=raw", "--discard=unmap", "--export-name=it", "--socket"]);
    let _peer = Peer(command.arg(&socket).arg(&image).spawn().expect("it runs"));
    use_it(&socket, "it");
    let mut connection = BlockingConnection::greet(connect(&socket)).expect("a server");
    assert!(connection.ask(&OptionRequest::Go("other", &[])).is_err());
}
