//! The kernel's ring, given operations that hang: what it holds, and until when.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use destage_exec::{
    AlignedBuffer, EndedOperation, ExistingFiles, FileExecutor, FileOp, FilesConfig, FilesError, IoBackend, IoRing,
    LockedFile, MergeRole, OperationTag, OsFile, OsInterface, PathPresence, RealFile, RealOs, RingEntry,
};
use destage_plan::{Dev, HostOp, HostRequest};
use destage_raid::RaidLevel;
use rustix::io::Errno;

use crate::arrays::{self, Array, member, serve};
use crate::probe::Probe;
use destage_testkit::folder;

/// A read that hangs until something is written into the pipe.
fn hanging() -> (RingEntry, Arc<dyn OsFile>, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let file: Arc<dyn OsFile> = Arc::new(RealFile::from(File::from(OwnedFd::from(reader))));
    let entry = RingEntry {
        role: MergeRole::Single,
        tag: OperationTag { dev: 0, life: 1, command: 0 },
        file: LockedFile::new(Arc::clone(&file), false),
        operation: FileOp::Read { offset: 0 },
        bytes: Arc::new(AlignedBuffer::zeroed(4096)),
        range: 0..4096,
    };
    (entry, file, writer)
}

fn ring() -> Option<Box<dyn IoRing>> {
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

#[test]
fn several_entries_are_one_operation_and_each_is_given_back() {
    let Some(mut ring) = ring() else { return };
    let folder = folder();
    let os_file = RealOs.open(&folder.path().join("file"), PathPresence::New).expect("a file");
    let file = LockedFile::new(os_file, false);
    let ended = |ring: &mut Box<dyn IoRing>, write: bool| {
        let entries = (0..3_u32).map(|command| RingEntry {
            role: if command == 0 { MergeRole::First(3) } else { MergeRole::Follows },
            tag: OperationTag { dev: 0, life: 1, command },
            file: Arc::clone(&file),
            operation: if write { FileOp::Write { offset: 512 } } else { FileOp::Read { offset: 512 } },
            bytes: Arc::new(AlignedBuffer::from(vec![if write { command as u8 + 1 } else { 0 }; 1024])),
            // The second half of a buffer of two.
            range: 512..1024,
        });
        ring.submit(&mut entries.collect()).expect("the kernel takes it");
        let (mut ended, begin) = (VecDeque::new(), Instant::now());
        while ended.is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(10));
            ring.reap(&mut ended);
        }
        assert_eq!((ended.len(), ring.under_way()), (3, 0));
        ended
    };
    let whole =
        |ended: VecDeque<EndedOperation>| ended.into_iter().map(|(entry, result)| (entry, result.expect("it is done")));
    assert!(whole(ended(&mut ring, true)).all(|(_, bytes)| bytes == 512));
    for (number, (entry, bytes)) in whole(ended(&mut ring, false)).enumerate() {
        assert_eq!((entry.tag.command as usize, bytes), (number, 512));
        assert_eq!(entry.bytes[512..], [number as u8 + 1; 512]);
        assert_eq!(entry.bytes[..512], [0; 512], "nothing is read beside the range");
    }
    // The file ends in the last of them, and then in the one before.
    for (end, told) in [(512 + 1536 - 8, [512, 512, 0]), (512 + 520, [512, 0, 0])] {
        file.set_len(end).expect("it is cut short");
        assert!(whole(ended(&mut ring, false)).map(|(_, bytes)| bytes).eq(told), "it ends at byte {end}");
    }
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
    let array = Array::over(io, RaidLevel::Raid5, 4);
    let (folder, os) = (folder(), Probe::default());
    let config = || FilesConfig { patience, ..array.files(folder.path()) };
    let files = FileExecutor::create_on(Arc::new(os.clone()), array.controller(), config(), ExistingFiles::Refuse);
    let mut files = files.expect("a new array");
    assert_eq!(files.io(), IoBackend::Ring);
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
    let open = || FileExecutor::open(array.controller(), config());
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

/// Abandons operations: what the kernel fills after all is nobody's, and keeps nothing but its own file.
#[test]
fn what_was_abandoned_in_the_kernel_changes_nothing() {
    let Some(io) = arrays::ring() else { return };
    let (patience, limit) = (Duration::from_secs(20), Duration::from_millis(200));
    let array = Array { device_timeout: Some(limit), ..Array::over(io, RaidLevel::Raid5, 4) };
    let (folder, os) = (folder(), Probe::default());
    let config = || FilesConfig { patience, ..array.files(folder.path()) };
    let files = FileExecutor::create_on(Arc::new(os.clone()), array.controller(), config(), ExistingFiles::Refuse);
    let mut files = files.expect("a new array");
    let request = |tag, op| HostRequest { tag, op, offset: 0, len: 512, fua: false };
    assert!(serve(&mut files, request(1, HostOp::Write), vec![7; 512]).ok);
    files.settle().expect("it comes to rest");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    os.read_from(&member(folder.path(), 0), reader.into());
    let read = serve(&mut files, request(2, HostOp::Read), Vec::new());
    assert!(read.ok && read.bytes[..] == [7; 512] && !files.answers(Dev(0)), "the others answer");
    // Buffers are used again.
    for tag in 3..20 {
        assert!(serve(&mut files, request(tag, HostOp::Write), vec![tag as u8; 512]).ok);
        assert_eq!(serve(&mut files, request(tag, HostOp::Read), Vec::new()).bytes[..], [tag as u8; 512]);
    }
    let mut second = writer.try_clone().expect("a descriptor");
    writer.write_all(&[99; 256]).expect("the kernel reads");
    let begin = Instant::now();
    while begin.elapsed() < limit {
        assert_eq!(serve(&mut files, request(20, HostOp::Read), Vec::new()).bytes[..], [19; 512], "filled by the pipe");
    }
    // Another hangs when it ends.
    let new = folder.path().join("new");
    files.replace(Dev(0), &new).expect("a new file");
    files.settle().expect("it is filled");
    drop(files.stop_clean().expect("it stops"));
    let mut config = config();
    config.devices[0].path = new;
    let files = FileExecutor::open_on(Arc::new(os.clone()), array.controller(), config.clone());
    let mut files = files.expect("the array is there");
    os.read_from_now(&config.devices[0].path);
    let read = serve(&mut files, request(21, HostOp::Read), Vec::new());
    assert!(read.ok && read.bytes[..] == [19; 512] && !files.answers(Dev(0)), "the others answer");
    let begin = Instant::now();
    drop(files);
    assert!(begin.elapsed() < patience, "nobody waits for it");
    let mut files = FileExecutor::open(array.controller(), config).expect("it keeps nobody from the array");
    assert!(!files.answers(Dev(0)), "its own file is locked, and has missed writes");
    assert_eq!(serve(&mut files, request(22, HostOp::Read), Vec::new()).bytes[..], [19; 512]);
    second.write_all(&[99; 256]).expect("the kernel reads");
}
