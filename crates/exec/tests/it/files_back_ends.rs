//! Everybody who serves devices, over the same requests: threads and the ring, buffered and direct, on real files, and the
//! ring of a recording where it applies. What is durable is tried by `crates/crash`, over a recording; what hangs, by
//! `files_hangs` and `ring_hangs`.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use destage_cache::ServedTier;
use destage_exec::{
    AlignedBuffer, EndedOperation, ExistingFiles, FileExecutor, FilesConfig, FilesError, IoBackend, IoRing, OsFile,
    OsInterface, PathPresence, RealOs, RingEntries, SyncPoint,
};
use destage_plan::{Dev, HostOp, HostRequest};
use destage_raid::RaidLevel;
use destage_testkit::{ExpectedContent, TestRng, data, draw, soak};
use tempfile::TempDir;

use crate::arrays::{Array, assert_holds, member, recording, serve};

/// Chooses who serves devices, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BackEnd {
    io: IoBackend,
    direct: bool,
}

impl BackEnd {
    fn config(self, array: &Array, folder: &Path) -> FilesConfig {
        let mut config = FilesConfig { io: self.io, ..array.files(folder) };
        config.devices.iter_mut().for_each(|device| device.options.direct = self.direct);
        config
    }

    fn create(self, array: &Array, folder: &Path) -> FileExecutor<Box<dyn ServedTier>> {
        self.checked(FileExecutor::create(array.controller(), self.config(array, folder), ExistingFiles::Refuse))
    }

    fn open(self, array: &Array, folder: &Path) -> FileExecutor<Box<dyn ServedTier>> {
        self.checked(FileExecutor::open(array.controller(), self.config(array, folder)))
    }

    fn checked(
        self,
        files: Result<FileExecutor<Box<dyn ServedTier>>, FilesError>,
    ) -> FileExecutor<Box<dyn ServedTier>> {
        let files = files.unwrap_or_else(|error| panic!("{self:?}: {error}"));
        assert_eq!(files.io(), self.io);
        assert_eq!((files.is_direct(Dev(0)), files.buffered().count()), (self.direct, 0), "{self:?}");
        files
    }
}

/// Those that this machine has, each with a folder to work in. Those that it has not are named.
fn back_ends() -> Vec<(BackEnd, TempDir)> {
    let mut there = Vec::new();
    for (io, direct) in
        [(IoBackend::Threads, false), (IoBackend::Threads, true), (IoBackend::Ring, false), (IoBackend::Ring, true)]
    {
        if io == IoBackend::Ring
            && let Err(why) = RealOs.ring(64)
        {
            eprintln!("skipped over a ring: there is no io_uring here: {why}");
            continue;
        }
        let folders = [destage_testkit::folder(), tempfile::tempdir().expect("a temporary folder")];
        let fits = |folder: &TempDir| {
            let file = RealOs.open(&folder.path().join("try"), PathPresence::Either).expect("a file");
            file.set_len(4096).expect("room");
            !direct || file.set_direct(4096, 0).is_ok()
        };
        match folders.into_iter().find(fits) {
            Some(folder) => there.push((BackEnd { io, direct }, folder)),
            None => eprintln!("skipped directly: no file system for temporary files has direct I/O here"),
        }
    }
    there
}

fn array(level: RaidLevel, members: u8) -> Array {
    Array { page: 4096, sector: 512, depth: 32, ..Array::new(level, members) }
}

/// Has random requests served, up to `most` at a time that do not touch each other, and compares with a model.
fn against_a_model(
    files: &mut FileExecutor<Box<dyn ServedTier>>,
    array: &Array,
    requests: u64,
    syncs: u64,
    what: &str,
) {
    let sizes = array.sizes();
    let (mut dice, mut content) = (TestRng::new(requests), ExpectedContent::new(sizes));
    let mut under_way: Vec<(HostRequest, Vec<u8>)> = Vec::new();
    let mut tag = 0;
    let mut discarded = Vec::new();
    while tag < requests || !under_way.is_empty() {
        while tag < requests && under_way.len() < 16 {
            let mut request = draw(&mut dice, &sizes, tag);
            // As seldom as real disks need it that are to be done with soon.
            if (request.fua || request.op == HostOp::Flush) && dice.below(syncs) > 0 {
                request.fua = false;
                if request.op == HostOp::Flush {
                    tag += 1;
                    continue;
                }
            }
            let overlaps = |(other, _): &(HostRequest, Vec<u8>)| {
                request.offset < other.offset + other.len && other.offset < request.offset + request.len
            };
            if under_way.iter().any(overlaps) {
                break;
            }
            let bytes = data(&request, sizes.sector);
            files.submit(request, bytes.clone()).expect("in range");
            under_way.push((request, bytes));
            tag += 1;
        }
        // The last of all may have been flushes that were left out.
        if under_way.is_empty() {
            continue;
        }
        let completion = files.wait().expect("it is served").expect("it is under way");
        let at = under_way.iter().position(|(request, _)| request.tag == completion.tag).expect("it was asked for");
        let (request, bytes) = under_way.swap_remove(at);
        assert!(completion.ok, "{what}: {request:?}");
        content.apply(&request, &bytes);
        match request.op {
            HostOp::Read => {
                assert!(completion.bytes == content.of(&request), "{what}: {request:?}");
                // One that is lent for more than is read would stay with clients, who ask for what is as long as theirs.
                assert!(
                    completion.bytes.capacity() <= AlignedBuffer::footprint(request.len as usize),
                    "{what}: {request:?}"
                );
            }
            HostOp::Discard => discarded.push(request),
            _ => {}
        }
        // What a discard leaves is looked at before it is relied on.
        while let Some(request) = discarded.pop() {
            let overlaps = |(other, _): &(HostRequest, Vec<u8>)| {
                request.offset < other.offset + other.len && other.offset < request.offset + request.len
            };
            assert!(!under_way.iter().any(overlaps));
            let read = HostRequest { tag: u64::MAX, op: HostOp::Read, ..request };
            files.submit(read, Vec::new()).expect("in range");
            loop {
                let completion = files.wait().expect("it is served").expect("it is under way");
                if completion.tag == u64::MAX {
                    content.discarded(&request, &completion.bytes);
                    break;
                }
                let at = under_way.iter().position(|(request, _)| request.tag == completion.tag).expect("asked for");
                let (request, bytes) = under_way.swap_remove(at);
                assert!(completion.ok, "{what}: {request:?}");
                content.apply(&request, &bytes);
                match request.op {
                    HostOp::Read => assert!(completion.bytes == content.of(&request), "{what}: {request:?}"),
                    HostOp::Discard => discarded.push(request),
                    _ => {}
                }
            }
        }
    }
    assert_holds(files, &content, what);
}

#[test]
fn a_hundred_thousand_requests_are_served_as_a_model_says() {
    let requests = if soak() { 1_000_000 } else { 100_000 };
    for (back_end, folder) in back_ends() {
        let array = array(RaidLevel::Raid0, 2);
        let mut files = back_end.create(&array, folder.path());
        // On a disk a sync takes long.
        against_a_model(&mut files, &array, requests, if back_end.direct { 64 } else { 1 }, &format!("{back_end:?}"));
        drop(files.stop_clean().expect("it stops"));
    }
}

#[test]
fn parity_and_mirrors_are_served_as_a_model_says() {
    for (level, members) in [(RaidLevel::Raid1, 2), (RaidLevel::Raid5, 4), (RaidLevel::Raid6, 4)] {
        for (back_end, folder) in back_ends() {
            let array = array(level, members);
            let mut files = back_end.create(&array, folder.path());
            against_a_model(&mut files, &array, 3_000, 32, &format!("{back_end:?}"));
            // What many requests needed at a time is not kept while there are few.
            let (busy, page) = (files.kept_bytes(), array.page);
            for tag in 0..4096 {
                let request = HostRequest { tag, op: HostOp::Read, offset: tag % 8 * page, len: page, fua: false };
                assert!(serve(&mut files, request, Vec::new()).ok, "{back_end:?}");
            }
            let (quiet, few) = (files.kept_bytes(), 4 * AlignedBuffer::footprint(page as usize));
            assert!(quiet <= few && few < busy, "{back_end:?}: {busy} bytes, then {quiet}, of which {few} are needed");
            drop(files.stop_clean().expect("it stops"));
        }
    }
}

#[test]
fn pages_at_any_place_of_a_buffer_are_written_directly_too() {
    for (back_end, folder) in back_ends() {
        let array = array(RaidLevel::Raid0, 2);
        let mut files = back_end.create(&array, folder.path());
        let mut content = ExpectedContent::new(array.sizes());
        // The second page of the request begins at no multiple of what a device asks for.
        for (tag, offset) in (0..64).map(|tag| (tag, tag * 4096 + 512 * (tag % 8))) {
            let request = HostRequest { tag, op: HostOp::Write, offset, len: 3 * 4096, fua: false };
            let bytes = data(&request, array.sector);
            content.apply(&request, &bytes);
            assert!(serve(&mut files, request, bytes).ok, "{back_end:?}");
        }
        assert_holds(&mut files, &content, &format!("{back_end:?}"));
        drop(files);
        let mut files = back_end.open(&array, folder.path());
        assert_holds(&mut files, &content, &format!("{back_end:?}, opened again"));
    }
}

#[test]
fn what_cannot_be_direct_is_buffered_and_says_why() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // No disk has blocks so small.
    let array = Array { page: 512, sector: 64, ..Array::new(RaidLevel::Raid1, 2) };
    let odd = Array { page: 256, sector: 64, ..array };
    for io in [IoBackend::Threads, IoBackend::Auto] {
        let place = folder.path().join(format!("{io:?}"));
        std::fs::create_dir(&place).expect("a folder");
        let config = BackEnd { io, direct: true }.config(&odd, &place);
        let files = FileExecutor::create(odd.controller(), config, ExistingFiles::Refuse);
        let mut files = files.expect("an array all the same");
        let mut content = ExpectedContent::new(odd.sizes());
        let request = HostRequest { tag: 1, op: HostOp::Write, offset: 256, len: 4 * 256, fua: true };
        let bytes = data(&request, odd.sector);
        content.apply(&request, &bytes);
        assert!(serve(&mut files, request, bytes).ok);
        assert_holds(&mut files, &content, "buffered or not");
        for (dev, why) in files.buffered() {
            assert!(!files.is_direct(dev) && why.to_string().contains("256"), "{why}");
        }
        if files.buffered().next().is_none() {
            eprintln!("skipped: the file system takes pages of 256 bytes directly");
        }
    }
}

#[test]
fn a_file_that_is_cut_short_is_a_device_that_failed() {
    for (back_end, folder) in back_ends() {
        let array = array(RaidLevel::Raid5, 4);
        let mut files = back_end.create(&array, folder.path());
        let mut content = ExpectedContent::new(array.sizes());
        for tag in 0..60 {
            let request = HostRequest { tag, op: HostOp::Write, offset: tag * 4096, len: 4096, fua: false };
            let bytes = data(&request, array.sector);
            content.apply(&request, &bytes);
            assert!(serve(&mut files, request, bytes).ok);
        }
        files.settle().expect("it comes to rest");
        let file = OpenOptions::new().write(true).open(member(folder.path(), 1)).expect("it is there");
        // In the middle of a page, which is read as far as it goes, and then no further.
        file.set_len(4096 + 512).expect("a length");
        assert_holds(&mut files, &content, &format!("{back_end:?}"));
        assert!(!files.answers(Dev(1)), "{back_end:?}");
        let (_, error) = files.errors().next().expect("why is told");
        assert!(error.to_string().contains("cannot read from it"), "{error}");
        assert_eq!(files.errors().count(), 1, "of one device");
    }
}

/// A file system of this size, until it is dropped; none if this is not root.
struct Small(TempDir);

impl Small {
    fn new(bytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "destage-test"])
            .arg(folder.path())
            .output();
        mount.is_ok_and(|output| output.status.success()).then(|| Self(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Whatever cannot be taken away is so small that it may stay.
        drop(Command::new("umount").arg("-l").arg(self.0.path()).output());
    }
}

#[test]
fn a_write_without_room_stops_and_costs_no_member() {
    for (back_end, _) in back_ends().into_iter().filter(|(back_end, _)| !back_end.direct) {
        let Some(small) = Small::new(400 << 10) else {
            eprintln!("skipped: a file system that is full needs root and mount");
            return;
        };
        let array = array(RaidLevel::Raid1, 2);
        let mut files = back_end.create(&array, small.0.path());
        let mut written = 0;
        let error = loop {
            let request =
                HostRequest { tag: written, op: HostOp::Write, offset: written * 4096, len: 4096, fua: false };
            files.submit(request, data(&request, array.sector)).expect("in range");
            match files.wait() {
                Ok(Some(completion)) => assert!(completion.ok),
                Ok(None) => panic!("it was under way"),
                Err(error) => break error,
            }
            written += 1;
        };
        assert!(matches!(&error, FilesError::Io { what: "find room for a step", .. }), "{back_end:?}: {error}");
        assert!(written > 10 && (0..2).all(|dev| files.answers(Dev(dev))), "{back_end:?}: {written}");
        assert!(matches!(files.poll(), Err(FilesError::Stopped)));
        drop(files);
        let options = format!("remount,size={}", 4 << 20);
        let grown = Command::new("mount").args(["-o", &options]).arg(small.0.path()).output().expect("mount runs");
        assert!(grown.status.success(), "{grown:?}");
        let mut files = back_end.open(&array, small.0.path());
        files.wait_ready().expect("with room nothing is lost");
        for tag in 0..written {
            let request = HostRequest { tag, op: HostOp::Write, offset: tag * 4096, len: 4096, fua: false };
            let read = serve(&mut files, HostRequest { op: HostOp::Read, ..request }, Vec::new());
            assert!(read.ok && *read.bytes == *data(&request, array.sector), "{back_end:?}: page {tag}");
        }
    }
}

#[test]
fn dropping_with_work_under_way_leaves_pages_old_or_new() {
    for (back_end, folder) in back_ends() {
        let array = array(RaidLevel::Raid0, 2);
        let mut known = vec![vec![0_u8]; 64];
        drop(back_end.create(&array, folder.path()));
        for round in 1..=20_u8 {
            let mut files = back_end.open(&array, folder.path());
            files.wait_ready().expect("it is recovered");
            for (page, values) in known.iter_mut().enumerate() {
                let request = HostRequest {
                    tag: page as u64,
                    op: HostOp::Read,
                    offset: page as u64 * 4096,
                    len: 4096,
                    fua: false,
                };
                let found = serve(&mut files, request, Vec::new()).bytes;
                for sector in found.chunks(512) {
                    assert!(sector.iter().all(|byte| *byte == sector[0]), "{back_end:?}: a torn sector of page {page}");
                    assert!(values.contains(&sector[0]), "{back_end:?}: page {page} has {}", sector[0]);
                }
                *values = found.chunks(512).map(|sector| sector[0]).collect();
            }
            for (page, values) in known.iter_mut().enumerate() {
                let request = HostRequest {
                    tag: page as u64,
                    op: HostOp::Write,
                    offset: page as u64 * 4096,
                    len: 4096,
                    fua: page % 8 == 0,
                };
                files.submit(request, vec![round; 4096]).expect("in range");
                values.push(round);
            }
            for _ in 0..round {
                files.poll().expect("it is served");
            }
            // Whoever opens it next waits for nobody: all that was under way has ended.
            drop(files);
        }
    }
}

/// Real files, whose ring says how much it had at a time.
#[derive(Clone, Debug, Default)]
struct Counted(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    most: AtomicUsize,
    calls: AtomicUsize,
    operations: AtomicUsize,
    devices: Mutex<[isize; 4]>,
    /// There is no ring.
    forbidden: bool,
}

#[derive(Debug)]
struct CountedRing(Arc<Counts>, Box<dyn IoRing>);

impl IoRing for CountedRing {
    fn submit(&mut self, entries: &mut RingEntries) -> io::Result<()> {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        self.0.operations.fetch_add(entries.len(), Ordering::Relaxed);
        let mut devices = self.0.devices.lock().unwrap();
        for entry in &*entries {
            let count = &mut devices[usize::from(entry.tag.dev)];
            *count += 1;
            self.0.most.fetch_max(count.cast_unsigned(), Ordering::Relaxed);
        }
        self.1.submit(entries)
    }

    fn reap(&mut self, into: &mut VecDeque<EndedOperation>) {
        let before = into.len();
        self.1.reap(into);
        let mut devices = self.0.devices.lock().unwrap();
        into.iter().skip(before).for_each(|(entry, _)| devices[usize::from(entry.tag.dev)] -= 1);
    }

    fn under_way(&self) -> usize {
        self.1.under_way()
    }

    fn is_behind(&self) -> bool {
        self.1.is_behind()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.1.descriptor()
    }
}

impl OsInterface for Counted {
    fn exists(&self, path: &Path) -> io::Result<bool> {
        RealOs.exists(path)
    }

    fn is_block_device(&self, path: &Path) -> bool {
        RealOs.is_block_device(path)
    }

    fn open(&self, path: &Path, presence: PathPresence) -> io::Result<Arc<dyn OsFile>> {
        RealOs.open(path, presence)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealOs.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealOs.rename(from, to)
    }

    fn sync_folder(&self, folder: &Path, at: SyncPoint) -> io::Result<()> {
        RealOs.sync_folder(folder, at)
    }

    fn draw(&self) -> [u8; 16] {
        RealOs.draw()
    }

    fn ring(&self, operations: u32) -> io::Result<Box<dyn IoRing>> {
        if self.0.forbidden {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(Box::new(CountedRing(Arc::clone(&self.0), RealOs.ring(operations)?)))
    }
}

#[test]
fn a_ring_has_no_more_than_the_depth_and_is_given_all_of_a_turn_in_one_call() {
    if let Err(why) = RealOs.ring(64) {
        eprintln!("skipped: there is no io_uring here: {why}");
        return;
    }
    let (os, folder) = (Counted::default(), destage_testkit::folder());
    let array = Array { depth: 8, chunk: 1, ..array(RaidLevel::Raid0, 2) };
    let config = FilesConfig { io: IoBackend::Ring, ..array.files(folder.path()) };
    let mut files = FileExecutor::create_on(Arc::new(os.clone()), array.controller(), config, ExistingFiles::Refuse)
        .expect("an array");
    files.wait_ready().expect("it is ready");
    let calls = os.0.calls.load(Ordering::Relaxed);
    // Fragments are bounded by the depth, too: these are of two pages each, one on each device.
    for tag in 0..8 {
        let request = HostRequest { tag, op: HostOp::Write, offset: tag * 8192, len: 8192, fua: false };
        files.submit(request, data(&request, array.sector)).expect("in range");
    }
    assert_eq!(os.0.calls.load(Ordering::Relaxed), calls, "nothing goes before the turn is over");
    assert!(files.hear(), "and whoever waits elsewhere is told so");
    files.poll().expect("it is served");
    let operations = os.0.operations.load(Ordering::Relaxed);
    assert!(os.0.calls.load(Ordering::Relaxed) <= calls + 2 && operations >= 8, "{operations} in few calls");
    for tag in 8..100 {
        let request = HostRequest { tag, op: HostOp::Write, offset: tag % 16 * 8192, len: 8192, fua: false };
        files.submit(request, data(&request, array.sector)).expect("in range");
    }
    while files.unanswered() > 0 {
        assert!(files.wait().expect("it is served").is_some_and(|completion| completion.ok));
    }
    let most = os.0.most.load(Ordering::Relaxed);
    assert!((2..=8).contains(&most), "{most} at a time for one device");
}

#[test]
fn a_ring_that_is_forbidden_is_told_of_and_threads_take_its_place_if_they_may() {
    let os = Counted(Arc::new(Counts { forbidden: true, ..Counts::default() }));
    let folder = destage_testkit::folder();
    let array = array(RaidLevel::Raid1, 2);
    let asked = |io| FilesConfig { io, ..array.files(folder.path()) };
    let refused = FileExecutor::create_on(
        Arc::new(os.clone()),
        array.controller(),
        asked(IoBackend::Ring),
        ExistingFiles::Refuse,
    );
    let error = refused.expect_err("there is no ring").to_string();
    assert!(error.contains("io_uring") && error.contains("permission denied") && error.contains("threads"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing is left of it");
    let made = FileExecutor::create_on(
        Arc::new(os.clone()),
        array.controller(),
        asked(IoBackend::Auto),
        ExistingFiles::Refuse,
    );
    let files = made.expect("threads do");
    assert_eq!((files.io(), files.no_ring().is_some()), (IoBackend::Threads, true));
    drop(files);
    let files = FileExecutor::open_on(Arc::new(os), array.controller(), asked(IoBackend::Threads)).expect("threads do");
    assert_eq!((files.io(), files.no_ring().is_some()), (IoBackend::Threads, false), "nobody asked for a ring");
}

#[test]
fn the_recordings_back_ends_do_what_the_model_says() {
    for io in [IoBackend::Threads, IoBackend::Ring] {
        let os = recording();
        let array = array(RaidLevel::Raid0, 2);
        let config = FilesConfig { io, ..array.files(Path::new("/array")) };
        let files = FileExecutor::create_on(Arc::new(os.clone()), array.controller(), config, ExistingFiles::Refuse);
        let mut files = files.expect("a new array");
        against_a_model(&mut files, &array, 10_000, 1, &format!("{io:?}, recorded"));
        // Flushes and FUA writes share syncs, but each has one.
        let syncs = os.syncs();
        assert!(syncs[&SyncPoint::Flush] > 100 && syncs[&SyncPoint::Fua] > 100, "{io:?}: {syncs:?}");
    }
}
