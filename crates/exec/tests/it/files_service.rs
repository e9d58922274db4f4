//! Many requests at a time, in any order, and what is refused.

use std::path::Path;
use std::time::{Duration, Instant};

use destage_cache::ServedTier;
use destage_exec::{AlignedBuffer, DeviceOptions, ExistingFiles, FileExecutor, FilesConfig, FilesError, IoBackend};
use destage_plan::{
    Buf, Column, Dev, Ext, HostOp, HostRequest, List, NvPut, NvSlot, Out, Quota, RangeError, Step, StepSet,
};
use destage_raid::RaidLevel;
use destage_raid::array::VersionSource;
use destage_testkit::ScriptedController;
use destage_testkit::{ArraySizes, ExpectedContent, TestRng, data, folder, soak};

use crate::arrays::{Array, assert_holds, cache, member, serve};
use crate::scribe;

backend_tests! {
    ten_thousand_small_requests_at_a_time,
    settings_that_cannot_be_are_named,
    requests_overtake_those_for_a_slow_device,
    what_was_not_begun_before_a_crash_never_happens,
    a_replaced_device_gets_no_steps_of_the_old_one,
    a_device_that_hangs_is_replaced_and_not_waited_for,
    trimmed_pages_are_zeros_on_the_members,
    a_clean_stop_leaves_nothing_to_recover,
    what_would_tell_files_to_collect_is_refused_at_the_start,
    draining_writes_the_cache_back_while_requests_are_served,
    requests_that_cannot_be_are_refused_and_change_nothing,
    files_in_the_way_in_use_or_used_twice_are_refused,
}

const fn request(tag: u64, op: HostOp, offset: u64, len: u64) -> HostRequest {
    HostRequest { tag, op, offset, len, fua: false }
}

fn ten_thousand_small_requests_at_a_time(io: IoBackend) {
    let array = Array {
        depth: 32,
        member_pages: 512,
        cache: cache("write-through"),
        cache_pages: 64,
        ..Array::over(io, RaidLevel::Raid5, 4)
    };
    let folder = folder();
    let mut files = array.create(folder.path());
    let sizes = array.sizes();
    let mut content = ExpectedContent::new(sizes);
    let mut dice = TestRng::new(1);
    let count = if soak() { 1_000_000 } else { 10_000 };
    // Requests that meet take effect in the order of submission.
    let mut buffers: Vec<AlignedBuffer> = Vec::new();
    let (mut submitted, mut answered, mut most) = (0, 0, 0);
    while answered < count {
        while submitted < count && files.unanswered() < 256 {
            let sector = dice.below(sizes.sectors());
            let request = request(submitted, HostOp::Write, sector * sizes.sector, sizes.sector);
            let mut buffer = buffers.pop().unwrap_or_default();
            buffer.extend_from_slice(&data(&request, sizes.sector));
            content.apply(&request, &buffer);
            files.submit(request, buffer).expect("a request in range");
            submitted += 1;
        }
        most = most.max(files.unanswered());
        let completion = files.wait().expect("the array is served").expect("requests are under way");
        assert!(completion.ok && completion.bytes.is_empty());
        buffers.push(completion.bytes);
        answered += 1;
    }
    assert_eq!((files.unanswered(), most), (0, 256));
    assert_eq!(files.wait().expect("the array is served"), None);
    assert_holds(&mut files, &content, "after all");
}

fn settings_that_cannot_be_are_named(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid5, 4);
    let folder = folder();
    drop(array.create(folder.path()));
    let refused = |change: &dyn Fn(&mut FilesConfig), message: &str| {
        let mut config = array.files(folder.path());
        change(&mut config);
        let error = FileExecutor::open(array.controller(), config).expect_err("it is wrong");
        assert_eq!(error.to_string(), message);
    };
    refused(&|config| config.devices.clear(), "devices = 0; there must be between 1 and 64");
    refused(&|config| config.depth = 0, "depth = 0; it must be between 1 and 65,536");
    refused(&|config| config.devices[3].options.workers = 0, "workers of dev3 = 0; it must be between 1 and 16");
    refused(&|config| config.devices[3].options.workers = 17, "workers of dev3 = 17; it must be between 1 and 16");
    refused(&|config| config.devices[2].pages = 0, "pages of dev2 = 0; it must be between 1 and 2^40");
    let size = format!(
        "{} is 36352 bytes long; with pages of dev0 = 65 and page-bytes = 512 it must be 36864",
        member(folder.path(), 0).display()
    );
    refused(&|config| config.devices.iter_mut().for_each(|device| device.pages = 65), &size);
    // A file in the place of a device must be as long as that.
    let short = folder.path().join("short");
    std::fs::write(&short, [0; 100]).expect("a file");
    let mut files = array.open(folder.path());
    let error = files.replace(Dev(3), &short).expect_err("it is too short");
    let size = "is 100 bytes long; with pages of dev3 = 64 and page-bytes = 512 it must be 36352";
    assert_eq!(error.to_string(), format!("{} {size}", short.display()));
}

/// Returns the bytes of a member's file before its label.
fn pages_of(path: &Path, len: usize) -> Vec<u8> {
    let mut bytes = std::fs::read(path).expect("the file is there");
    assert_eq!(&bytes[len..len + 8], b"dstgMEMB");
    let count = 2 * 512;
    let marks = [len + 512 + count, len + 512 + count + 1024].map(|at| &bytes[at..at + 8] == b"dstgMARK");
    assert!(marks.contains(&true), "one copy of the marks is there at least");
    assert_eq!(bytes.len(), len + 512 + count + 2 * 1024);
    bytes.truncate(len);
    bytes
}

/// RAID-0 whose first member is slow, and does one thing at a time.
fn slow_first(io: IoBackend, delay: Duration, folder: &Path) -> (Array, FileExecutor<Box<dyn ServedTier>>) {
    let array = Array { depth: 8, chunk: 1, ..Array::over(io, RaidLevel::Raid0, 2) };
    let mut config = array.files(folder);
    config.devices[0].options = DeviceOptions { delay, workers: 1, ..DeviceOptions::default() };
    let files = FileExecutor::create(array.controller(), config, ExistingFiles::Refuse).expect("a new array");
    (array, files)
}

fn requests_overtake_those_for_a_slow_device(io: IoBackend) {
    let folder = folder();
    let delay = Duration::from_millis(300);
    let (array, mut files) = slow_first(io, delay, folder.path());
    let ArraySizes { page, .. } = array.sizes();
    let begin = Instant::now();
    for tag in 0..4 {
        files.submit(request(tag, HostOp::Write, tag * page, page), vec![tag as u8; page as usize]).expect("in range");
    }
    let order: Vec<u64> = (0..4).map(|_| files.wait().expect("it is served").expect("it is under way").tag).collect();
    assert_eq!(order.iter().map(|tag| tag % 2).collect::<Vec<_>>(), [1, 1, 0, 0], "pages of the fast member first");
    assert!(begin.elapsed() >= 2 * delay, "the slow one was slow");
}

fn what_was_not_begun_before_a_crash_never_happens(io: IoBackend) {
    let folder = folder();
    let (array, mut files) = slow_first(io, Duration::from_millis(100), folder.path());
    let ArraySizes { page, .. } = array.sizes();
    for tag in 0..6 {
        files.submit(request(tag, HostOp::Write, 2 * tag * page, page), vec![7; page as usize]).expect("in range");
    }
    drop(files);
    let written = pages_of(&member(folder.path(), 0), (array.member_pages * page) as usize);
    let pages: Vec<bool> = written.chunks(page as usize).map(|page| page[0] == 7).collect();
    assert!(!pages[1..].contains(&true), "only what was at work came to an end: {pages:?}");
}

/// A mirror whose second device begins each step later, with twenty writes under way; what they
/// will have written.
fn written_with_a_slow_second(
    io: IoBackend,
    delay: Duration,
    folder: &Path,
) -> (Array, FileExecutor<Box<dyn ServedTier>>, ExpectedContent) {
    let array = Array { depth: 8, ..Array::over(io, RaidLevel::Raid1, 2) };
    let mut config = array.files(folder);
    config.devices[1].options.delay = delay;
    let mut files = FileExecutor::create(array.controller(), config, ExistingFiles::Refuse).expect("a new array");
    let sizes = array.sizes();
    let mut content = ExpectedContent::new(sizes);
    for tag in 0..20 {
        let request = request(tag, HostOp::Write, tag * sizes.page, sizes.page);
        let data = data(&request, sizes.sector);
        content.apply(&request, &data);
        files.submit(request, data).expect("in range");
    }
    (array, files, content)
}

fn a_replaced_device_gets_no_steps_of_the_old_one(io: IoBackend) {
    let folder = folder();
    let (_, mut files, content) = written_with_a_slow_second(io, Duration::from_millis(30), folder.path());
    let other = folder.path().join("other");
    files.replace(Dev(1), &other).expect("a new file");
    while let Some(completion) = files.wait().expect("the array is served") {
        assert!(completion.ok);
    }
    files.settle().expect("the member is filled");
    drop(files.stop_clean().expect("the array stops"));
    assert_eq!(pages_of(&other, content.bytes().len()), content.bytes());
    assert_eq!(pages_of(&member(folder.path(), 0), content.bytes().len()), content.bytes());
}

fn a_device_that_hangs_is_replaced_and_not_waited_for(io: IoBackend) {
    let folder = folder();
    let (array, mut files, content) = written_with_a_slow_second(io, Duration::from_secs(15), folder.path());
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(200) {
        assert_eq!(files.poll().expect("the array is served"), None, "each needs both members");
        std::thread::yield_now();
    }
    // Its own file may be written by the thread yet.
    let own = member(folder.path(), 1);
    let error = files.replace(Dev(1), &own).expect_err("its thread is at work on it");
    assert!(matches!(error, FilesError::AtWork(path) if path == own));
    assert!(!files.answers(Dev(1)), "it has failed");
    let other = folder.path().join("other");
    files.replace(Dev(1), &other).expect("a new file");
    while let Some(completion) = files.wait().expect("the array is served") {
        assert!(completion.ok);
    }
    files.settle().expect("the member is filled");
    assert_holds(&mut files, &content, "with the new member");
    drop(files.stop_clean().expect("the array stops"));
    assert!(begin.elapsed() < Duration::from_secs(10), "nobody waited for the thread: {:?}", begin.elapsed());
    assert_eq!(pages_of(&other, content.bytes().len()), content.bytes());
    let error =
        FileExecutor::open(array.controller(), array.files(folder.path())).expect_err("a thread may still write to it");
    assert!(matches!(error, FilesError::InUse(path) if path == own));
}

#[test]
fn nothing_but_the_port_touches_the_operating_system() {
    let mut left = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/files")];
    let mut looked_at = 0;
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("the executor's sources");
            left.extend(entries.map(|entry| entry.expect("an entry").path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source");
        let touches = ["std::fs::{", "std::fs::File", "fs::read", "fs::write", "rustix::fs", "std::os"];
        let found = touches.iter().find(|what| text.contains(**what));
        let port = path.ends_with("real.rs") || path.ends_with("uring/kernel.rs");
        assert!(port || found.is_none(), "{} uses {found:?}", path.display());
        looked_at += 1;
    }
    assert!(looked_at > 12, "{looked_at} sources");
}

fn trimmed_pages_are_zeros_on_the_members(io: IoBackend) {
    let array = Array { page: 4096, sector: 512, ..Array::over(io, RaidLevel::Raid1, 2) };
    let folder = folder();
    let mut files = array.create(folder.path());
    let len = 8 * 4096;
    assert!(serve(&mut files, request(1, HostOp::Write, 4096, len), vec![9; len as usize]).ok);
    assert!(serve(&mut files, request(2, HostOp::Discard, 2 * 4096, 4 * 4096), Vec::new()).ok);
    let bytes = std::fs::read(member(folder.path(), 1)).expect("it is there");
    let pages: Vec<u8> = bytes.chunks(4096).take(10).map(|page| page[4095]).collect();
    assert_eq!(pages, [0, 9, 0, 0, 0, 0, 9, 9, 9, 0]);
    assert_eq!(bytes.len() as u64, (array.member_pages + 5) * 4096, "holes do not shorten the file");
}

fn a_clean_stop_leaves_nothing_to_recover(io: IoBackend) {
    let array = Array { depth: 4, ..Array::over(io, RaidLevel::Raid6, 5) };
    let folder = folder();
    let mut files = array.create(folder.path());
    for tag in 0..8 {
        files.submit(request(tag, HostOp::Write, tag * 512, 512), vec![3; 512]).expect("in range");
    }
    let answered = files.stop_clean().expect("the array stops");
    assert_eq!(answered.len(), 8, "requests under way are answered first");
    let files = array.open(folder.path());
    assert_eq!(files.status(), destage_plan::Status::Ready);
    assert_eq!(files.engine().controller().array().stats().recovered_rows, 0);
}

fn what_would_tell_files_to_collect_is_refused_at_the_start(io: IoBackend) {
    let cache = destage_cache::host_cache("ggc+none").expect("it is registered");
    let array = Array { cache, ..Array::over(io, RaidLevel::Raid5, 3) };
    let folder = folder();
    let error = array.create(folder.path()).wait_ready().expect_err("files collect nothing");
    assert!(error.to_string().contains("files cannot be; serve the array without ggc+"), "{error}");
}

fn draining_writes_the_cache_back_while_requests_are_served(io: IoBackend) {
    let array = Array { cache: cache("lawc"), depth: 4, ..Array::over(io, RaidLevel::Raid5, 3) };
    let folder = folder();
    let mut files = array.create(folder.path());
    for tag in 0..8 {
        files.submit(request(tag, HostOp::Write, tag * 512, 512), vec![tag as u8 + 1; 512]).expect("in range");
    }
    while files.unanswered() > 4 {
        files.wait().expect("served");
    }
    files.drain().expect("drained");
    let mut read = 0;
    while files.wait().expect("served").is_some() {
        read += 1;
    }
    assert!(read > 0, "answers are kept while the cache is drained");
    files.drain().expect("drained");
    let cache = files.engine().controller();
    let rows = (0..array.member_pages).map(destage_plan::Row);
    let held =
        rows.filter(|row| (0..3).any(|column| cache.sources(*row).newest(Column(column)) != VersionSource::Member));
    assert_eq!(held.count(), 0, "everything is on the members");
}

fn requests_that_cannot_be_are_refused_and_change_nothing(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid5, 4);
    let folder = folder();
    let mut files = array.create(folder.path());
    let bytes = array.shape().bytes();
    let beyond = files.submit(request(1, HostOp::Read, bytes, 64), Vec::new());
    assert!(matches!(beyond, Err(FilesError::Range(RangeError::Beyond { .. }))));
    let askew = files.submit(request(1, HostOp::Read, 1, 64), Vec::new());
    assert!(matches!(askew, Err(FilesError::Range(RangeError::Misaligned { .. }))));
    let error = files.submit(request(1, HostOp::Write, 0, 128), vec![0; 64]).expect_err("too little data");
    assert_eq!(error.to_string(), "a write of 128 bytes came with 64 bytes of data");
    assert!(matches!(files.replace(Dev(4), &folder.path().join("x")), Err(FilesError::NoDevice(Dev(4)))));
    assert_eq!((files.unanswered(), files.wait().expect("nothing is wrong")), (0, None));
    // Requests may have the same tag, and none of their own bytes.
    for _ in 0..2 {
        files.submit(request(5, HostOp::Read, 0, 0), Vec::new()).expect("an empty read");
    }
    assert_eq!(files.wait().expect("it is served").map(|completion| completion.tag), Some(5));
    assert_eq!(files.poll().expect("it is served").map(|completion| completion.tag), Some(5));
}

fn files_in_the_way_in_use_or_used_twice_are_refused(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid5, 4);
    let folder = folder();
    let create = |existing| FileExecutor::create(array.controller(), array.files(folder.path()), existing);
    let in_the_way = member(folder.path(), 2);
    std::fs::write(&in_the_way, b"precious").expect("a file");
    assert!(matches!(create(ExistingFiles::Refuse), Err(FilesError::Exists(path)) if path == in_the_way));
    assert_eq!(std::fs::read(&in_the_way).expect("it is there"), b"precious");
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 1, "nothing else was made");
    let mut files = create(ExistingFiles::Overwrite).expect("a new array");
    assert!(matches!(create(ExistingFiles::Overwrite), Err(FilesError::InUse(_))));
    assert!(matches!(FileExecutor::open(array.controller(), array.files(folder.path())), Err(FilesError::InUse(_))));
    for other in [member(folder.path(), 3), folder.path().join("nvram"), folder.path().join("intents")] {
        let error = files.replace(Dev(2), &other).expect_err("it is in use");
        assert!(matches!(error, FilesError::Same(..) | FilesError::Size { .. }), "{error}");
    }
    assert!(files.answers(Dev(2)), "the device stays as it is");
    // Nor may another array take a member, by being made or as a replacement.
    let elsewhere = self::folder();
    let mut thief = array.files(elsewhere.path());
    thief.devices[1].path = member(folder.path(), 1);
    let stolen = FileExecutor::create(array.controller(), thief, ExistingFiles::Overwrite);
    assert!(matches!(stolen, Err(FilesError::InUse(path)) if path == member(folder.path(), 1)));
    drop(files);
    let open = |change: &dyn Fn(&mut FilesConfig)| {
        let mut config = array.files(folder.path());
        change(&mut config);
        FileExecutor::open(array.controller(), config).expect_err("it is wrong")
    };
    assert!(matches!(open(&|config| config.devices[1].path = member(folder.path(), 0)), FilesError::Same(..)));
    assert!(matches!(open(&|config| config.intents = folder.path().join("no")), FilesError::Missing(_)));
    assert!(matches!(open(&|config| config.nvram = folder.path().join("no").into()), FilesError::Missing(_)));
    assert!(matches!(
        open(&|config| config.devices.iter_mut().for_each(|device| device.pages += 1)),
        FilesError::Size { found: 36_352, expected: 36_864, .. }
    ));
    assert!(matches!(open(&|config| folder.path().clone_into(&mut config.devices[0].path)), FilesError::Io { .. }));
    let missing =
        FileExecutor::create(array.controller(), array.files(&folder.path().join("no")), ExistingFiles::Refuse);
    assert!(matches!(missing, Err(FilesError::Io { what: "make it", .. })));
}

#[test]
fn a_controller_that_asks_for_what_is_not_there_is_stopped() {
    let read = |dev, page| Step::Read { ext: Ext::new(Dev(dev), page, 2), dst: Buf::None };
    let slot = |index| NvSlot { index, generation: 1 };
    let cases = [
        (Some(read(0, 0)), "the controller uses the page 1, but pages of the device = 1"),
        (Some(Step::FlushDev { dev: Dev(3) }), "there is no dev3"),
        (Some(Step::Collect { dev: Dev(0), quota: Quota::Watermark }), "dev0 is a file and collects nothing"),
        (None, "nothing is in flight and no timer is set, but work is under way"),
    ];
    let puts = [
        (NvPut::tag(slot(16), [0; 24]), "the controller uses the slot 16, but nv-slots = 16"),
        (
            NvPut::page(slot(15), [0; 24], Buf::Zero, 513),
            "the controller uses the byte of a slot 512, but page-bytes = 512",
        ),
    ];
    let cases = cases.map(|(step, expected)| (step, None, expected));
    for (step, put, expected) in cases.into_iter().chain(puts.map(|(put, expected)| (None, Some(put), expected))) {
        let folder = folder();
        // With no step it never answers.
        let script = ScriptedController(|_, op, out: &mut Out| {
            if let Some(step) = step {
                out.step(op, step, StepSet::EMPTY);
            }
            if let Some(put) = put {
                let puts = out.puts(op, &[put]);
                out.step(op, Step::NvCommit { puts, frees: List::EMPTY }, StepSet::EMPTY);
            }
        });
        let mut files =
            FileExecutor::create(script, scribe::config(folder.path()), ExistingFiles::Refuse).expect("a new array");
        let error = match files.submit(request(1, HostOp::Write, 0, 512), vec![0; 512]) {
            Err(error) => error,
            Ok(()) => files.wait().expect_err("the controller is at fault"),
        };
        assert!(error.to_string().starts_with(expected), "{error}");
        assert!(matches!(files.poll(), Err(FilesError::Stopped)));
    }
}
