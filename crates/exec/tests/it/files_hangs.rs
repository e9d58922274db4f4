//! Files that hang: nobody waits for them for ever, and nobody serves the array beside whoever is
//! left behind.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use destage_cache::ServedTier;
use destage_exec::{
    ExistingFiles, FileExecutor, FilesConfig, FilesError, IoBackend, SuccessionPhase, SuccessorLabelling, SyncPoint,
};
use destage_plan::{Buf, Dev, Ext, HostOp, HostRequest, Out, Step, StepSet};
use destage_raid::RaidLevel;
use destage_testkit::ScriptedController;
use destage_testkit::{ExpectedContent, data, folder};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;

use crate::arrays::{Array, assert_holds, member, reopen, serve};
use crate::probe::{Call, Probe};
use crate::scribe;

backend_tests! {
    dropping_leaves_threads_that_hang_and_they_keep_the_array,
    a_clean_stop_says_which_file_hangs,
    opening_and_making_say_which_file_hangs,
    replacing_says_that_the_new_file_hangs_and_another_is_taken,
    a_successor_that_hangs_over_its_label_is_not_waited_for,
    a_file_is_asked_whether_it_answers,
    commands_of_one_device_are_carried_out_at_the_same_time,
    pages_are_read_and_written_from_where_direct_io_wants_them,
    the_first_error_of_a_device_is_kept,
}

const PATIENCE: Duration = Duration::from_millis(200);
/// Nothing takes longer than this that does not wait for ever.
const LIMIT: Duration = Duration::from_secs(8);

fn array(io: IoBackend) -> Array {
    Array { depth: 8, ..Array::over(io, RaidLevel::Raid5, 4) }
}

fn config(io: IoBackend, folder: &Path) -> FilesConfig {
    FilesConfig { patience: PATIENCE, ..array(io).files(folder) }
}

/// An array with content, at rest.
fn filled(io: IoBackend, os: &Probe, folder: &Path) -> (FileExecutor<Box<dyn ServedTier>>, ExpectedContent) {
    let controller = array(io).controller();
    let files = FileExecutor::create_on(Arc::new(os.clone()), controller, config(io, folder), ExistingFiles::Refuse);
    let mut files = files.expect("a new array");
    let mut content = ExpectedContent::new(array(io).sizes());
    for tag in 0..20 {
        let request = write(tag);
        let data = data(&request, array(io).sector);
        content.apply(&request, &data);
        assert!(serve(&mut files, request, data).ok);
    }
    files.settle().expect("it comes to rest");
    (files, content)
}

fn open(io: IoBackend, os: &Probe, folder: &Path) -> Result<FileExecutor<Box<dyn ServedTier>>, FilesError> {
    FileExecutor::open_on(Arc::new(os.clone()), array(io).controller(), config(io, folder))
}

/// A page that lies on the first member.
fn write(tag: u64) -> HostRequest {
    HostRequest { tag, op: HostOp::Write, offset: tag * 512, len: 512, fua: false }
}

/// Ends all hanging calls, and demands that the array can be opened again with its content.
fn opens_again(io: IoBackend, os: &Probe, folder: &Path, content: &ExpectedContent) {
    os.release();
    let mut files = reopen(|| open(io, os, folder)).expect("the array is there");
    assert_holds(&mut files, content, "opened again");
    drop(files.stop_clean().expect("it stops"));
}

fn dropping_leaves_threads_that_hang_and_they_keep_the_array(io: IoBackend) {
    for call in [Call::Write, Call::Sync(SyncPoint::Flush)] {
        let (os, folder) = (Probe::default(), folder());
        let (mut files, mut content) = filled(io, &os, folder.path());
        let hanging = member(folder.path(), 0);
        os.hang(&hanging, call);
        // The write is done when it goes on; else it was done before.
        let request = write(0);
        let data = data(&HostRequest { tag: 99, ..request }, array(io).sector);
        content.apply(&request, &data);
        files.submit(request, data).expect("in range");
        let flush = HostRequest { tag: 100, op: HostOp::Flush, offset: 0, len: 0, fua: false };
        if call != Call::Write {
            assert!(files.wait().expect("it is served").is_some());
            files.submit(flush, Vec::new()).expect("a flush");
        }
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            assert!(files.poll().expect("it is served").is_none());
            std::thread::sleep(Duration::from_millis(1));
        }
        let begin = Instant::now();
        drop(files);
        assert!((PATIENCE..LIMIT).contains(&begin.elapsed()), "{:?}", begin.elapsed());
        let error = open(io, &os, folder.path()).expect_err("a thread may still write to it");
        let nvram = folder.path().join("nvram");
        assert!(matches!(&error, FilesError::InUse(path) if *path == nvram), "{error}");
        opens_again(io, &os, folder.path(), &content);
    }
}

fn a_clean_stop_says_which_file_hangs(io: IoBackend) {
    for (point, file) in [(SyncPoint::Flush, "dev2"), (SyncPoint::Intents, "intents")] {
        let (os, folder) = (Probe::default(), folder());
        let (files, content) = filled(io, &os, folder.path());
        os.hang(&folder.path().join(file), Call::Sync(point));
        let begin = Instant::now();
        let error = files.stop_clean().expect_err("it hangs");
        let named = match &error {
            FilesError::Hangs(path) | FilesError::NoAnswer { path, .. } => path,
            other => panic!("{file}: {other}"),
        };
        assert_eq!(*named, folder.path().join(file), "{error}");
        assert!((PATIENCE..LIMIT).contains(&begin.elapsed()), "{:?}", begin.elapsed());
        opens_again(io, &os, folder.path(), &content);
    }
}

fn opening_and_making_say_which_file_hangs(io: IoBackend) {
    let (os, folder) = (Probe::default(), folder());
    let (files, content) = filled(io, &os, folder.path());
    drop(files.stop_clean().expect("it stops"));
    let hangs = [
        (member(folder.path(), 1), Call::Open),
        (member(folder.path(), 3), Call::Sync(SyncPoint::OpenDevice)),
        (folder.path().join("nvram"), Call::Sync(SyncPoint::OpenNvram)),
        (folder.path().join("intents"), Call::Write),
    ];
    for (path, call) in hangs {
        os.hang(&path, call);
        let begin = Instant::now();
        let error = open(io, &os, folder.path()).expect_err("it hangs");
        assert!(matches!(&error, FilesError::Hangs(other) if *other == path), "{error}");
        assert!((PATIENCE..LIMIT).contains(&begin.elapsed()), "{:?}", begin.elapsed());
        // Whoever hangs holds it.
        let error = open(io, &os, folder.path()).expect_err("it hangs");
        assert!(matches!(error, FilesError::InUse(_)), "{error}");
        opens_again(io, &os, folder.path(), &content);
    }
    let other = destage_testkit::folder();
    let path = member(other.path(), 2);
    os.hang(&path, Call::Sync(SyncPoint::CreateDevice));
    let made = FileExecutor::create_on(
        Arc::new(os.clone()),
        array(io).controller(),
        config(io, other.path()),
        ExistingFiles::Refuse,
    );
    assert!(matches!(made.expect_err("it hangs"), FilesError::Hangs(other) if other == path));
    os.release();
}

fn replacing_says_that_the_new_file_hangs_and_another_is_taken(io: IoBackend) {
    let (os, folder) = (Probe::default(), folder());
    let (mut files, content) = filled(io, &os, folder.path());
    // The last while it is labelled.
    let hangs = [(Call::Open, true), (Call::Sync(SyncPoint::ReplaceDevice), true), (Call::Write, false)];
    for (number, (call, answers)) in hangs.into_iter().enumerate() {
        let new = folder.path().join(format!("new{number}"));
        os.hang(&new, call);
        let begin = Instant::now();
        let error = files.replace(Dev(1), &new).expect_err("it hangs");
        assert!(matches!(&error, FilesError::Hangs(path) if *path == new), "{error}");
        assert!((PATIENCE..LIMIT).contains(&begin.elapsed()), "{:?}", begin.elapsed());
        assert_eq!(files.answers(Dev(1)), answers, "nothing has changed before the file is there");
        assert_holds(&mut files, &content, "beside a file that hangs");
    }
    let other = folder.path().join("other");
    files.replace(Dev(1), &other).expect("a new file");
    files.settle().expect("the member is filled");
    assert_holds(&mut files, &content, "with the new member");
    // A member's own threads hang, too, over marks or pages.
    os.hang(&member(folder.path(), 2), Call::Write);
    let mut written = content;
    for tag in 0..6 {
        let request = write(tag);
        let data = data(&HostRequest { tag: tag + 50, ..request }, array(io).sector);
        written.apply(&request, &data);
        files.submit(request, data).expect("in range");
    }
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        files.poll().expect("it is served");
        std::thread::sleep(Duration::from_millis(1));
    }
    os.await_hung(1);
    files.replace(Dev(2), &folder.path().join("third")).expect("nobody waits for the threads");
    while let Some(completion) = files.wait().expect("it is served") {
        assert!(completion.ok);
    }
    files.settle().expect("the member is filled");
    assert_holds(&mut files, &written, "with both new members");
    assert!(begin.elapsed() < LIMIT);
    os.release();
}

fn a_successor_that_hangs_over_its_label_is_not_waited_for(io: IoBackend) {
    for call in [Call::Write, Call::Sync(SyncPoint::Successor)] {
        let (os, folder) = (Probe::default(), folder());
        let (mut files, content) = filled(io, &os, folder.path());
        let new = folder.path().join("new");
        files.begin_succession(Dev(1), &new).expect("it is copied");
        let begin = Instant::now();
        while files.succession().is_some_and(|(.., phase)| phase != SuccessionPhase::Quiet) {
            files.begin_hand_over();
            files.poll().expect("it is served");
            assert!(begin.elapsed() < LIMIT, "{:?}", files.succession());
        }
        os.hang(&new, call);
        let begin = Instant::now();
        assert_eq!(files.label_successor().expect("it serves"), SuccessorLabelling::UnderWay);
        assert!(files.is_labelling() && begin.elapsed() < PATIENCE / 2, "{:?}", begin.elapsed());
        // Pages of the first chunk, on the first member, while the label of the second one's successor hangs.
        for tag in 0..4 {
            let read = HostRequest { tag: 100 + tag, op: HostOp::Read, ..write(tag) };
            assert!(serve(&mut files, read, Vec::new()).ok);
        }
        assert!(begin.elapsed() < PATIENCE, "nobody waits for it: {:?}", begin.elapsed());
        while files.label_successor().expect("it serves") == SuccessorLabelling::UnderWay {
            files.poll().expect("it is served");
            assert!(begin.elapsed() < LIMIT, "it is dropped");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(begin.elapsed() >= PATIENCE, "{:?}", begin.elapsed());
        let dropped = files.take_dropped_successor().expect("it is dropped");
        assert!(matches!(&dropped.why, FilesError::Hangs(path) if *path == new), "{dropped:?}");
        assert_holds(&mut files, &content, "without the successor");
        let error = files.begin_succession(Dev(1), &new).expect_err("it is still written to");
        assert!(matches!(&error, FilesError::AtWork(path) if *path == new), "{error}");
        os.release();
        let begin = Instant::now();
        while let Err(error) = files.begin_succession(Dev(1), &new) {
            assert!(matches!(&error, FilesError::AtWork(_)) && begin.elapsed() < LIMIT, "{error}");
            std::thread::sleep(Duration::from_millis(1));
        }
        files.drop_successors().expect("it is served");
        assert_holds(&mut files, &content, "beside a file that was given again");
    }
}

fn a_file_is_asked_whether_it_answers(io: IoBackend) {
    let (os, folder) = (Probe::default(), folder());
    let (mut files, content) = filled(io, &os, folder.path());
    let new = folder.path().join("new");
    for call in [None, Some(Call::Open)] {
        if let Some(call) = call {
            os.hang(&new, call);
        }
        let begin = Instant::now();
        let mut probe = files.ask_file(Dev(1), &new).expect("a thread").expect("there are threads");
        let answer = loop {
            match probe.poll() {
                Some(answer) => break answer,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
            assert!(begin.elapsed() < LIMIT);
        };
        let hangs = matches!(&answer, Err(FilesError::Hangs(path)) if *path == new);
        assert!(call.map_or(answer.is_ok(), |_| hangs && begin.elapsed() >= PATIENCE), "{call:?}: {answer:?}");
    }
    assert_holds(&mut files, &content, "beside a file that hangs");
    os.release();
}

fn commands_of_one_device_are_carried_out_at_the_same_time(io: IoBackend) {
    let (os, folder) = (Probe::default(), folder());
    let (mut files, content) = filled(io, &os, folder.path());
    // Four pages of the first chunk, each with a read of its own.
    os.let_reads_meet(4);
    for tag in 0..4 {
        files.submit(HostRequest { op: HostOp::Read, ..write(tag) }, Vec::new()).expect("in range");
    }
    for _ in 0..4 {
        let completion = files.wait().expect("it is served").expect("it is under way");
        assert!(completion.ok && completion.bytes == content.of(&write(completion.tag)));
    }
    assert!(files.errors().next().is_none(), "all four were at work together");
}

fn pages_are_read_and_written_from_where_direct_io_wants_them(io: IoBackend) {
    let (os, folder) = (Probe::default(), folder());
    let array = Array { page: 4096, sector: 512, ..array(io) };
    let files = FileExecutor::create_on(
        Arc::new(os.clone()),
        array.controller(),
        array.files(folder.path()),
        ExistingFiles::Refuse,
    );
    let mut files = files.expect("a new array");
    let mut content = ExpectedContent::new(array.sizes());
    for tag in 0..40 {
        let len = [512, 4096, 3 * 4096, 1024][tag as usize % 4];
        let request = HostRequest { tag, op: HostOp::Write, offset: tag * 4096, len, fua: tag % 3 == 0 };
        let data = data(&request, array.sector);
        content.apply(&request, &data);
        assert!(serve(&mut files, request, data).ok);
    }
    assert_holds(&mut files, &content, "after all");
    let (aligned, others) = os.alignment();
    assert!(aligned > 150 && others == 0, "{aligned} aligned, {others} not");
}

/// Whichever of the two ends first says what was wrong with the device; the other says what came of it.
fn the_first_error_of_a_device_is_kept(io: IoBackend) {
    for first in [Call::Read, Call::Write] {
        let (os, folder) = (Probe::default(), folder());
        drop(scribe::create(folder.path()));
        // A file in memory that can be made to refuse writes.
        let memory = File::from(memfd_create("device", MemfdFlags::ALLOW_SEALING).expect("a file in memory"));
        let mut config = scribe::config(folder.path());
        let made = std::fs::read(&config.devices[0].path).expect("it is there");
        memory.write_all_at(&made, 0).expect("room");
        let device = PathBuf::from(format!("/proc/self/fd/{}", memory.as_raw_fd()));
        (config.devices[0].path, config.io) = (device.clone(), io);
        let script = ScriptedController(|_, op, out: &mut Out| {
            let ext = Ext::new(Dev(0), 0, 1);
            out.step(op, Step::Write { ext, src: Buf::Zero, fua: false }, StepSet::EMPTY);
            let dst = out.tmp(op, 1);
            out.step(op, Step::Read { ext, dst }, StepSet::EMPTY);
        });
        let mut files = FileExecutor::open_on(Arc::new(os.clone()), script, config).expect("the array is there");
        assert!(files.answers(Dev(0)) && files.errors().next().is_none());
        memory.set_len(0).expect("it can be cut");
        fcntl_add_seals(&memory, SealFlags::WRITE).expect("it can be sealed");
        os.hang(&device, if first == Call::Read { Call::Write } else { Call::Read });
        let request = HostRequest { tag: 1, op: HostOp::Write, offset: 0, len: scribe::PAGE, fua: false };
        files.submit(request, vec![0; scribe::PAGE as usize]).expect("in range");
        let begin = Instant::now();
        while files.answers(Dev(0)) {
            files.poll().expect("the other step is under way");
            assert!(begin.elapsed() < LIMIT, "{first:?}: nobody hears of the error");
        }
        os.release();
        assert!(matches!(files.wait(), Err(FilesError::Stalled(_))), "the controller does nothing about it");
        let (what, why) = match first {
            Call::Write => ("write to", Some(Errno::PERM)),
            _ => ("read from", None),
        };
        match files.errors().collect::<Vec<_>>()[..] {
            [(Dev(0), error @ FilesError::Io { path, source, .. })] => {
                assert_eq!((path, Errno::from_io_error(source)), (&device, why), "{first:?}");
                assert!(error.to_string().starts_with(&format!("{}: cannot {what} it: ", path.display())), "{error}");
            }
            ref other => panic!("{first:?}: {other:?}"),
        }
    }
}
