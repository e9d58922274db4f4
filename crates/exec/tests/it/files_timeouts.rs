//! Commands that take longer than they may: their device is failed and what it does later changes nothing, unless data
//! would be lost without it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use destage_cache::ServedTier;
use destage_exec::{ExistingFiles, FileExecutor, FilesConfig, FilesError, IoBackend, SyncPoint};
use destage_plan::{Controller, Dev, DevSet, HostOp, HostRequest};
use destage_raid::RaidLevel;
use destage_testkit::{ExpectedContent, data, folder};

use crate::arrays::{Array, assert_holds, cache, member, reopen, serve};
use crate::filled_array::{FOLDER, FilledArray};
use crate::probe::{Call, Probe};

backend_tests! {
    a_member_without_an_answer_is_failed_and_what_it_does_later_changes_nothing,
    a_device_that_failed_with_commands_in_flight_holds_nothing_up,
    its_own_file_does_not_take_its_place_while_commands_are_in_flight,
    requests_fail_that_wait_for_a_member_without_which_data_would_be_lost,
    no_more_requests_are_kept_than_there_is_room_for,
    nvram_or_intents_without_an_answer_stop_the_array,
    an_array_stops_without_the_member_that_hangs,
    an_array_without_a_limit_fails_no_member_when_it_ends,
    a_slow_member_is_kept,
    members_and_caches_are_given_up_at_the_limit_and_not_before,
    a_cache_that_alone_has_data_is_kept,
    a_cache_is_kept_that_a_lost_member_needs,
    without_a_limit_a_member_is_waited_for,
}

const TIMEOUT: Duration = Duration::from_millis(250);
/// Bounds what does not wait for ever.
const LIMIT: Duration = Duration::from_secs(8);

fn array(io: IoBackend, level: RaidLevel, members: u8) -> Array {
    Array { depth: 8, device_timeout: Some(TIMEOUT), ..Array::over(io, level, members) }
}

/// Holds an array in real files that can hang, all of which was written.
struct HangingArray {
    array: Array,
    os: Probe,
    folder: tempfile::TempDir,
    files: FileExecutor<Box<dyn ServedTier>>,
    content: ExpectedContent,
    tag: u64,
}

impl HangingArray {
    fn new(array: Array) -> Self {
        let mut made = Self::unwritten(array);
        let len = made.content.bytes().len() as u64;
        made.write(0, len);
        made.files.settle().expect("it comes to rest");
        made
    }

    fn unwritten(array: Array) -> Self {
        let (os, folder) = (Probe::default(), folder());
        let config = array.files(folder.path());
        let files = FileExecutor::create_on(Arc::new(os.clone()), array.controller(), config, ExistingFiles::Refuse);
        let content = ExpectedContent::new(array.sizes());
        Self { array, os, folder, files: files.expect("a new array"), content, tag: 0 }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Counts the bytes of a stripe's data.
    fn stripe(&self) -> u64 {
        self.array.sizes().stripe * self.array.page
    }

    fn next(&mut self, op: HostOp, offset: u64, len: u64) -> (HostRequest, Vec<u8>) {
        self.tag += 1;
        let request = HostRequest { tag: self.tag, op, offset, len, fua: false };
        let bytes = if op == HostOp::Write { data(&request, self.array.sector) } else { Vec::new() };
        (request, bytes)
    }

    fn write(&mut self, offset: u64, len: u64) {
        let (request, bytes) = self.next(HostOp::Write, offset, len);
        self.content.apply(&request, &bytes);
        assert!(serve(&mut self.files, request, bytes).ok, "a write at {offset}");
    }

    /// Serves a request; returns whether it was served, and after how long.
    fn serve(&mut self, op: HostOp, offset: u64, len: u64) -> (bool, Duration) {
        let (request, bytes) = self.next(op, offset, len);
        let begin = Instant::now();
        let completion = serve(&mut self.files, request, bytes.clone());
        if completion.ok && op == HostOp::Read {
            assert_eq!(completion.bytes, self.content.of(&request), "a read at {offset}");
        } else if completion.ok {
            self.content.apply(&request, &bytes);
        }
        (completion.ok, begin.elapsed())
    }

    fn config(&self) -> FilesConfig {
        self.files.config().clone()
    }

    fn error(&self, dev: Dev) -> String {
        let error = self.files.errors().find(|(other, _)| *other == dev);
        error.map_or_else(|| "none".to_owned(), |(_, error)| error.to_string())
    }
}

fn opened(os: &Probe, array: &Array, config: &FilesConfig) -> FileExecutor<Box<dyn ServedTier>> {
    reopen(|| FileExecutor::open_on(Arc::new(os.clone()), array.controller(), config.clone()))
        .expect("the array is there")
}

fn a_member_without_an_answer_is_failed_and_what_it_does_later_changes_nothing(io: IoBackend) {
    for (call, op) in
        [(Call::Write, HostOp::Write), (Call::Read, HostOp::Read), (Call::Sync(SyncPoint::Flush), HostOp::Flush)]
    {
        let mut hanging = HangingArray::new(array(io, RaidLevel::Raid5, 4));
        let path = member(hanging.path(), 0);
        if call == Call::Sync(SyncPoint::Flush) {
            // There is something to be flushed.
            hanging.write(0, 512);
        }
        hanging.os.hang(&path, call);
        let all = hanging.content.bytes().len() as u64;
        let (ok, took) = hanging.serve(op, 0, if op == HostOp::Flush { 0 } else { all });
        assert!(ok, "{call:?}: the others answer");
        assert!((TIMEOUT..LIMIT).contains(&took), "{call:?}: it was waited for, {took:?}");
        assert!(!hanging.files.answers(Dev(0)) && hanging.files.hanging().is_empty(), "{call:?}");
        assert_eq!(hanging.error(Dev(0)), format!("{}: no answer for 0.25 s", path.display()));
        let new = hanging.path().join("new");
        hanging.files.replace(Dev(0), &new).expect("nobody waits for the commands");
        hanging.write(0, all);
        hanging.files.settle().expect("the member is filled");
        // Buffers were used again meanwhile, of reads, too.
        hanging.os.release();
        let begin = Instant::now();
        while begin.elapsed() < 2 * TIMEOUT {
            assert!(hanging.files.poll().expect("it is served").is_none());
            assert_holds(&mut hanging.files, &hanging.content, "with the new member, when the old one answers");
        }
        hanging.files.replace(Dev(1), &hanging.folder.path().join("other")).expect("all others are needed now");
        hanging.files.settle().expect("the member is filled");
        assert_holds(&mut hanging.files, &hanging.content, "with another new member");
        assert!(hanging.files.answers(Dev(0)) && hanging.files.answers(Dev(1)));
    }
}

/// Fails a device by its first error; what else it has in flight may never end.
fn a_device_that_failed_with_commands_in_flight_holds_nothing_up(io: IoBackend) {
    let mut hanging = HangingArray::new(array(io, RaidLevel::Raid5, 4));
    let path = member(hanging.path(), 0);
    hanging.os.hang(&path, Call::Write);
    let begin = Instant::now();
    let (write, bytes) = hanging.next(HostOp::Write, 0, 512);
    hanging.content.apply(&write, &bytes);
    hanging.files.submit(write, bytes).expect("in range");
    while begin.elapsed() < TIMEOUT / 2 {
        assert!(hanging.files.poll().expect("it is served").is_none());
        std::thread::sleep(Duration::from_millis(1));
    }
    // Reads of it fail from now on, the last of its chunks first.
    std::fs::File::options().write(true).open(&path).and_then(|file| file.set_len(512)).expect("it can be cut");
    let (read, _) = hanging.next(HostOp::Read, hanging.content.bytes().len() as u64 / 2, hanging.stripe());
    hanging.files.submit(read, Vec::new()).expect("in range");
    let completion = hanging.files.wait().expect("it is served").expect("it is under way");
    assert!(completion.tag == read.tag && completion.bytes == hanging.content.of(&read));
    assert!(
        !hanging.files.answers(Dev(0)) && !hanging.error(Dev(0)).contains("no answer"),
        "{}",
        hanging.error(Dev(0))
    );
    let completion = hanging.files.wait().expect("it is served").expect("it is under way");
    assert!(completion.tag == write.tag && completion.ok);
    assert!((TIMEOUT..LIMIT).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    hanging.files.settle().expect("it comes to rest");
    assert_holds(&mut hanging.files, &hanging.content, "without the member");
    let begin = Instant::now();
    drop(hanging.files);
    assert!(begin.elapsed() < hanging.array.files(Path::new("")).patience, "nobody waits for what was abandoned");
    hanging.os.release();
}

fn its_own_file_does_not_take_its_place_while_commands_are_in_flight(io: IoBackend) {
    let mut hanging = HangingArray::new(array(io, RaidLevel::Raid5, 4));
    let path = member(hanging.path(), 1);
    hanging.os.hang(&path, Call::Write);
    assert!(hanging.serve(HostOp::Write, 0, hanging.content.bytes().len() as u64).0);
    // Whoever opened it would wait.
    hanging.os.hang(&path, Call::Open);
    let begin = Instant::now();
    let error = hanging.files.replace(Dev(1), &path).expect_err("something may still be done to it");
    assert!(matches!(&error, FilesError::AtWork(other) if *other == path), "{error}");
    assert!(begin.elapsed() < hanging.config().patience, "nothing is asked of it: {:?}", begin.elapsed());
    assert_holds(&mut hanging.files, &hanging.content, "after a refusal");
    hanging.os.release();
    let begin = Instant::now();
    while let Err(error) = hanging.files.replace(Dev(1), &path) {
        assert!(matches!(error, FilesError::AtWork(_)) && begin.elapsed() < LIMIT, "{error}");
        hanging.files.poll().expect("it is served");
    }
    hanging.files.settle().expect("the member is filled");
    hanging.files.replace(Dev(0), &hanging.folder.path().join("new")).expect("all others are needed now");
    hanging.files.settle().expect("the member is filled");
    assert_holds(&mut hanging.files, &hanging.content, "with its own file again");
}

fn requests_fail_that_wait_for_a_member_without_which_data_would_be_lost(io: IoBackend) {
    let mut hanging = HangingArray::new(array(io, RaidLevel::Raid0, 2));
    let (chunk, path) = (hanging.stripe() / 2, member(hanging.path(), 0));
    hanging.os.hang(&path, Call::Read);
    let (ok, took) = hanging.serve(HostOp::Read, 0, 512);
    assert!(!ok && (TIMEOUT..LIMIT).contains(&took), "{took:?}");
    assert_eq!((hanging.files.hanging(), hanging.files.answers(Dev(0))), (DevSet::one(Dev(0)), true));
    assert!(hanging.files.waits_for(Dev(0)).is_some_and(|waits| waits >= TIMEOUT));
    let (ok, took) = hanging.serve(HostOp::Read, chunk, 512);
    assert!(ok && took < TIMEOUT, "the other answers, {took:?}");
    let (ok, _) = hanging.serve(HostOp::Write, chunk, 512);
    assert!(ok, "and is written");
    hanging.os.release();
    let begin = Instant::now();
    while !hanging.files.hanging().is_empty() {
        assert!(begin.elapsed() < LIMIT, "it answers again");
        hanging.files.poll().expect("it is served");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(hanging.files.answers(Dev(0)) && hanging.files.errors().next().is_none());
    assert_holds(&mut hanging.files, &hanging.content, "with the member again");
    hanging.write(0, 2 * chunk);
    let config = hanging.config();
    drop(hanging.files.stop_clean().expect("it stops"));
    let mut files = opened(&hanging.os, &hanging.array, &config);
    assert_holds(&mut files, &hanging.content, "nothing was given up");
}

fn no_more_requests_are_kept_than_there_is_room_for(io: IoBackend) {
    let mut hanging = HangingArray::new(array(io, RaidLevel::Raid0, 2));
    hanging.os.hang(&member(hanging.path(), 0), Call::Read);
    let depth = hanging.array.depth;
    for _ in 0..depth {
        let (request, _) = hanging.next(HostOp::Read, 0, 512);
        hanging.files.submit(request, Vec::new()).expect("in range");
    }
    for _ in 0..depth {
        assert!(!hanging.files.wait().expect("it is served").expect("it is under way").ok);
    }
    let (ok, took) = hanging.serve(HostOp::Read, 0, 512);
    assert!(!ok && took < TIMEOUT, "so many have failed and are kept that no other is taken, {took:?}");
    assert_eq!(hanging.files.unanswered(), 0);
    hanging.os.release();
    let begin = Instant::now();
    while !hanging.serve(HostOp::Read, 0, 512).0 {
        assert!(begin.elapsed() < LIMIT, "it answers again");
        std::thread::sleep(Duration::from_millis(1));
    }
    hanging.files.settle().expect("it comes to rest");
    assert_holds(&mut hanging.files, &hanging.content, "with the member again");
}

fn nvram_or_intents_without_an_answer_stop_the_array(io: IoBackend) {
    for (file, call) in [("intents", Call::Write), ("nvram", Call::Write)] {
        let with_nvram = Array { cache: cache("wow"), hurries: false, ..array(io, RaidLevel::Raid5, 4) };
        let mut hanging =
            HangingArray::unwritten(if file == "nvram" { with_nvram } else { array(io, RaidLevel::Raid5, 4) });
        let path = hanging.path().join(file);
        hanging.os.hang(&path, call);
        let begin = Instant::now();
        let (request, bytes) = hanging.next(HostOp::Write, 0, 512);
        let submitted = hanging.files.submit(request, bytes.clone());
        let (flush, _) = hanging.next(HostOp::Flush, 0, 0);
        let mut ended = submitted.and_then(|()| hanging.files.submit(flush, Vec::new())).err();
        while ended.is_none() {
            assert!(begin.elapsed() < LIMIT, "{file}: nobody hears of it");
            ended = hanging.files.wait().err();
        }
        let error = ended.expect("it has ended");
        assert!(matches!(&error, FilesError::NoAnswer { path: other, .. } if *other == path), "{file}: {error}");
        assert!(begin.elapsed() >= TIMEOUT);
        let (config, begin) = (hanging.config(), Instant::now());
        drop(hanging.files);
        assert!(begin.elapsed() < config.patience, "{file}: it had its time");
        hanging.os.release();
        let mut files = opened(&hanging.os, &hanging.array, &config);
        let read = HostRequest { tag: 0, op: HostOp::Read, offset: 512, len: 512, fua: false };
        assert_eq!(serve(&mut files, read, Vec::new()).bytes, hanging.content.of(&read), "{file}");
    }
}

fn an_array_stops_without_the_member_that_hangs(io: IoBackend) {
    let mut hanging = HangingArray::new(array(io, RaidLevel::Raid5, 4));
    let config = hanging.config();
    hanging.write(0, 512);
    hanging.os.hang(&member(hanging.path(), 0), Call::Sync(SyncPoint::Flush));
    let begin = Instant::now();
    drop(hanging.files.stop_clean().expect("it stops"));
    assert!((TIMEOUT..LIMIT).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    // Its file is locked as long as something is asked of it, by whoever has ended.
    for released in [false, true] {
        let mut files = opened(&hanging.os, &hanging.array, &config);
        files.wait_ready().expect("it is not needed");
        assert!(!files.answers(Dev(0)), "released: {released}");
        let why = files.errors().map(|(_, error)| error.to_string()).collect::<String>();
        assert!(why.contains("it has missed writes"), "{why}");
        assert_holds(&mut files, &hanging.content, "without the member");
        drop(files);
        hanging.os.release();
    }
}

fn an_array_without_a_limit_fails_no_member_when_it_ends(io: IoBackend) {
    let mut hanging = HangingArray::new(Array { device_timeout: None, ..array(io, RaidLevel::Raid5, 4) });
    let config = hanging.config();
    hanging.os.hang(&member(hanging.path(), 0), Call::Read);
    let (read, _) = hanging.next(HostOp::Read, 0, 512);
    hanging.files.submit(read, Vec::new()).expect("in range");
    let begin = Instant::now();
    hanging.files.begin_end();
    let completion = hanging.files.wait().expect("it is served").expect("it is under way");
    assert!(!completion.ok && begin.elapsed() >= config.patience, "{:?}", begin.elapsed());
    let error = hanging.files.stop_clean().expect_err("a member hangs");
    assert!(matches!(&error, FilesError::Hangs(path) if *path == config.devices[0].path), "{error}");
    assert!(begin.elapsed() < LIMIT);
    hanging.os.release();
    let mut files = opened(&hanging.os, &hanging.array, &config);
    assert!(files.answers(Dev(0)), "it is the array's");
    assert_holds(&mut files, &hanging.content, "with all members");
}

/// Counts time from when a command is given to the device, and no longer than it has one.
fn a_slow_member_is_kept(io: IoBackend) {
    let mut hanging = HangingArray::new(array(io, RaidLevel::Raid5, 4));
    let begin = Instant::now();
    while begin.elapsed() < 3 * TIMEOUT {
        let path = member(hanging.path(), 0);
        hanging.os.hang(&path, Call::Read);
        let (read, _) = hanging.next(HostOp::Read, 0, 512);
        hanging.files.submit(read, Vec::new()).expect("in range");
        let since = Instant::now();
        while since.elapsed() < TIMEOUT / 3 {
            assert!(hanging.files.poll().expect("it is served").is_none());
            std::thread::sleep(Duration::from_millis(1));
        }
        hanging.os.release();
        assert!(hanging.files.wait().expect("it is served").expect("it is under way").ok);
        // It has nothing to do for a while.
        std::thread::sleep(TIMEOUT / 3);
    }
    assert!(hanging.files.answers(Dev(0)) && hanging.files.waits_for(Dev(0)).is_none());
}

/// Counts time without threads, so that limits are exact.
fn members_and_caches_are_given_up_at_the_limit_and_not_before(io: IoBackend) {
    for name in ["none", "write-around", "write-through", "leavo", "kdd", "write-back"] {
        // That of write-back has data that no member has as soon as it is asked to write.
        for dev in 0..if ["none", "write-back"].contains(&name) { 4 } else { 5 } {
            let limit = Duration::from_secs(30);
            let cached =
                Array { cache: cache(name), cache_pages: 160, hurries: false, ..array(io, RaidLevel::Raid5, 4) };
            let mut filled = FilledArray::new(Array { device_timeout: Some(limit), ..cached });
            filled.files.drain().expect("it is written back");
            let path = member(Path::new(FOLDER), dev);
            filled.os.set_hangs(&path, true);
            let len = filled.content.bytes().len() as u64;
            // Until the device is asked for something.
            for at in 0.. {
                assert!(at < 64, "{name}: nothing is asked of device {dev}");
                assert!(filled.write(at * len / 64, 512).ok, "{name}: without device {dev}");
                if name == "write-back" {
                    filled.files.drain().expect("it is written back");
                }
                let other = (at * len / 64 + len / 2) % len;
                let read = filled.read(other, 512);
                assert!(read.ok && *read.bytes == filled.content.bytes()[other as usize..][..512], "{name}: {dev}");
                if !filled.files.answers(Dev(dev)) {
                    break;
                }
            }
            let why: Vec<_> = filled.files.errors().map(|(dev, error)| (dev, error.to_string())).collect();
            assert_eq!(why, [(Dev(dev), format!("{}: no answer for 30 s", path.display()))], "{name}");
            assert!(filled.holds(), "{name}: without device {dev}");
            filled.os.set_hangs(&path, false);
            assert!(filled.holds(), "{name}: device {dev} answers, and nobody listens");
            let mut again = filled.again();
            assert!(!again.files.answers(Dev(dev)), "{name}: it has missed writes");
            assert!(again.holds(), "{name}: after a start without device {dev}");
        }
    }
}

fn a_cache_that_alone_has_data_is_kept(io: IoBackend) {
    let back = Array { cache: cache("write-back"), cache_pages: 160, hurries: false, ..array(io, RaidLevel::Raid5, 4) };
    let mut filled = FilledArray::new(back);
    assert!(filled.write(0, 4096).ok);
    assert!(filled.files.engine().controller().status().dirty_rows > 0, "it is not written back");
    let path = member(Path::new(FOLDER), 4);
    filled.os.set_hangs(&path, true);
    assert!(!filled.write(0, 512).ok, "it has to be in the cache");
    assert_eq!(filled.files.hanging(), DevSet::one(Dev(4)));
    filled.os.set_hangs(&path, false);
    let mut again = filled.again();
    // The write that failed has taken effect or not.
    let read = HostRequest { tag: 0, op: HostOp::Read, offset: 512, len: 3584, fua: false };
    assert_eq!(serve(&mut again.files, read, Vec::new()).bytes, again.content.of(&read), "no other byte is lost");
}

/// Loses a member: only the cache tells what the parity of stale rows does not cover.
fn a_cache_is_kept_that_a_lost_member_needs(io: IoBackend) {
    for name in ["kdd", "leavo"] {
        let delayed = Array { cache: cache(name), cache_pages: 160, hurries: false, ..array(io, RaidLevel::Raid6, 5) };
        let mut filled = FilledArray::new(delayed);
        filled.files.drain().expect("parity is up to date");
        assert!(filled.holds());
        // Hits, whose parity is delayed.
        let len = filled.content.bytes().len() as u64;
        for at in (0..len).step_by(1024) {
            assert!(filled.write(at, 64).ok);
        }
        let stale = |filled: &FilledArray| filled.files.engine().controller().stale_rows();
        assert!(stale(&filled) > 0, "{name}: its parity is delayed");
        let spares = |filled: &FilledArray| filled.files.engine().controller().can_spare(Dev(5));
        assert!(spares(&filled), "{name}: the members tell all");
        filled.files.take_out(Dev(0)).expect("the level can do without it");
        assert!(stale(&filled) > 0 && !spares(&filled), "{name}: the cache tells what the parity does not cover");
        filled.os.set_hangs(&member(Path::new(FOLDER), 5), true);
        let read = filled.read(0, len);
        // Rows may become consistent meanwhile.
        assert_eq!(filled.files.answers(Dev(5)), !read.ok, "{name}");
        filled.os.set_hangs(&member(Path::new(FOLDER), 5), false);
        assert!(filled.holds(), "{name}: nothing is lost");
    }
}

fn without_a_limit_a_member_is_waited_for(io: IoBackend) {
    let mut hanging = HangingArray::new(Array { device_timeout: None, ..array(io, RaidLevel::Raid5, 4) });
    hanging.os.hang(&member(hanging.path(), 0), Call::Read);
    let (read, _) = hanging.next(HostOp::Read, 0, 512);
    hanging.files.submit(read, Vec::new()).expect("in range");
    let begin = Instant::now();
    while begin.elapsed() < 2 * TIMEOUT {
        assert!(hanging.files.poll().expect("it is served").is_none());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(hanging.files.waits_for(Dev(0)).is_some_and(|waits| waits >= TIMEOUT));
    hanging.os.release();
    assert!(hanging.files.wait().expect("it is served").expect("it is under way").ok);
    assert!(hanging.files.answers(Dev(0)));
}
