//! The kernel's ring, given operations that hang: what it holds, and until when.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use destage_exec::{
    Buffer, Entry, Existing, Files, FilesConfig, FilesError, Io, Operation, Os, OsFile, RealOs, Ring, Tag, Taken,
};
use destage_plan::{HostOp, HostRequest};
use destage_raid::Level;
use rustix::io::Errno;

use crate::arrays::{self, Array, member, serve};
use crate::probe::Probe;
use destage_testkit::folder;

/// A read that hangs until something is written into the pipe.
fn hanging() -> (Entry, Arc<dyn OsFile>, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let file: Arc<dyn OsFile> = Arc::new(File::from(OwnedFd::from(reader)));
    let entry = Entry {
        tag: Tag { dev: 0, life: 1, command: 0 },
        file: Taken::new(Arc::clone(&file)),
        operation: Operation::Read { offset: 0 },
        bytes: Arc::new(Buffer::zeroed(4096)),
        range: 0..4096,
    };
    (entry, file, writer)
}

fn ring() -> Option<Box<dyn Ring>> {
    let ring = RealOs.ring(8);
    ring.map_err(|why| eprintln!("skipped: there is no io_uring here: {why}")).ok()
}

#[test]
fn a_ring_that_is_dropped_frees_nothing_that_the_kernel_may_fill() {
    let Some(mut ring) = ring() else { return };
    let (entry, file, mut writer) = hanging();
    ring.submit(&mut [entry].into()).expect("the kernel takes it");
    assert_eq!(ring.under_way(), 1);
    drop(ring);
    drop(writer.write_all(b"it goes on"));
    assert_eq!(Arc::strong_count(&file), 2, "its bytes are not freed, nor is its file closed");
}

#[test]
fn what_ends_is_given_back_with_what_it_read() {
    let Some(mut ring) = ring() else { return };
    let (entry, _, mut writer) = hanging();
    ring.submit(&mut [entry].into()).expect("the kernel takes it");
    writer.write_all(b"it goes on").expect("somebody reads");
    let (mut ended, begin) = (VecDeque::new(), Instant::now());
    while ended.is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(10));
        ring.reap(&mut ended);
    }
    let (entry, result) = ended.pop_front().expect("it has ended");
    assert_eq!((result.expect("it was read"), ring.under_way()), (10, 0));
    assert_eq!(entry.bytes[..10], *b"it goes on");
}

/// Those are begun again by whoever has the executor now.
#[test]
fn what_a_thread_has_begun_that_ends_is_called_off_and_said_to_be() {
    let Some(mut ring) = ring() else { return };
    let (entry, _, mut writer) = hanging();
    std::thread::scope(|scope| {
        scope.spawn(|| ring.submit(&mut [entry].into()).expect("the kernel takes it"));
    });
    writer.write_all(b"it goes on").expect("it is open");
    let (mut ended, begin) = (VecDeque::new(), Instant::now());
    while ended.is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(10));
        ring.reap(&mut ended);
    }
    let (_, result) = ended.pop_front().expect("it has ended");
    // Some kernels do it all the same.
    let errno = result.err().map(|error| Errno::from_io_error(&error));
    assert!(matches!(errno, None | Some(Some(Errno::CANCELED | Errno::INTR | Errno::FAULT))), "{errno:?}");
    println!("{errno:?}");
}

#[test]
fn what_the_kernel_has_in_flight_keeps_the_array_locked_when_it_is_dropped() {
    let Some(io) = arrays::ring() else { return };
    let patience = Duration::from_millis(200);
    let array = Array::over(io, Level::Raid5, 4);
    let (folder, os) = (folder(), Probe::default());
    let config = || FilesConfig { patience, ..array.files(folder.path()) };
    let files = Files::create_on(Arc::new(os.clone()), array.controller(), config(), Existing::Refuse);
    let mut files = files.expect("a new array");
    assert_eq!(files.io(), Io::Ring);
    let request = |tag, op| HostRequest { tag, op, offset: 0, len: 512, fua: false };
    assert!(serve(&mut files, request(1, HostOp::Write), vec![7; 512]).ok);
    files.settle().expect("it comes to rest");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    os.read_from(&member(folder.path(), 0), reader.into());
    files.submit(request(2, HostOp::Read), Vec::new()).expect("it is in range");
    assert_eq!(files.poll().expect("the kernel takes it"), None);
    let begin = Instant::now();
    drop(files);
    assert!(begin.elapsed() >= patience, "it is waited for");
    // The files themselves, of which none is a pipe.
    let open = || Files::open(array.controller(), config());
    let error = open().expect_err("the kernel may still fill its bytes");
    assert!(matches!(error, FilesError::InUse(_)), "{error}");
    writer.write_all(&[0; 512]).expect("the kernel reads");
    drop(writer);
    let mut files = loop {
        match open() {
            Ok(files) => break files,
            Err(FilesError::InUse(_)) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "it is held though nothing is in flight");
    };
    let read = serve(&mut files, request(3, HostOp::Read), Vec::new());
    assert!(read.ok && read.bytes[..] == [7; 512], "it is recovered: {read:?}");
}
