//! An array in files through crashes of the process, lost members and their replacements.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;

use destage_cache::{CacheMedium, host_caches};
use destage_exec::{ExistingFiles, FileExecutor, FilesError, IoBackend};
use destage_plan::{Controller, Dev, DevSet, HostOp, HostRequest, Refusal, Status};
use destage_raid::RaidLevel;
use destage_testkit::{ArraySizes, ExpectedContent, TestRng, data, draw, folder, soak};

use crate::arrays::{Array, assert_holds, cache, member, read_all, serve};

backend_tests! {
    acknowledged_writes_survive_crashes_under_every_cache,
    a_member_that_fails_at_work_is_done_without_and_filled_again,
    a_crash_while_a_member_is_filled_goes_on_where_it_was_noted,
    a_lost_cache_costs_nothing,
    why_members_do_not_answer_is_told_until_they_are_replaced,
    a_member_whose_making_was_cut_short_counts_as_not_there,
    too_many_lost_members_are_refused,
    requests_may_come_before_the_array_is_recovered,
}

/// Describes what an array may hold after a crash: each sector that was being written has its old content or
/// its new one.
struct Crashed {
    content: ExpectedContent,
    /// Requests that were not answered.
    open: Vec<(HostRequest, Vec<u8>)>,
}

impl Crashed {
    /// Checks what was found, which is the truth from now on.
    fn settle(self, sizes: &ArraySizes, found: &[u8]) -> ExpectedContent {
        let mut content = self.content;
        let sector = sizes.sector as usize;
        for at in (0..found.len()).step_by(sector) {
            let now = &found[at..at + sector];
            let could = |(request, data): &(HostRequest, Vec<u8>)| {
                let range = request.offset..request.offset + request.len;
                range.contains(&(at as u64))
                    && match request.op {
                        HostOp::Write => data[at - request.offset as usize..][..sector] == *now,
                        HostOp::WriteZeroes | HostOp::WriteZeroesUnmap | HostOp::Discard => {
                            now.iter().all(|byte| *byte == 0)
                        }
                        HostOp::Read | HostOp::Flush => false,
                    }
            };
            let is_old = content.bytes()[at..at + sector] == *now;
            assert!(is_old || self.open.iter().any(could), "byte {at} is neither what it was nor what it was to be");
            let request = HostRequest { tag: 0, op: HostOp::Write, offset: at as u64, len: sizes.sector, fua: false };
            content.apply(&request, now);
        }
        content
    }
}

/// Serves requests for a while and crashes with some under way.
fn work_and_crash<C: Controller>(
    mut files: FileExecutor<C>,
    dice: &mut TestRng,
    sizes: &ArraySizes,
    content: ExpectedContent,
    tag: &mut u64,
) -> Crashed {
    let mut crashed = Crashed { content, open: Vec::new() };
    for _ in 0..dice.below(60) {
        let request = draw(dice, sizes, *tag);
        // Requests that overlap, and what a discard does, are the models' of the crash harness.
        let end = request.offset + request.len;
        let apart =
            |(other, _): &(HostRequest, Vec<u8>)| end <= other.offset || other.offset + other.len <= request.offset;
        if request.op != HostOp::Discard && crashed.open.iter().all(apart) {
            *tag += 1;
            let data = data(&request, sizes.sector);
            files.submit(request, data.clone()).expect("a request in range");
            crashed.open.push((request, data));
        }
        if dice.below(3) == 0 {
            let mut next = if dice.below(2) == 0 { files.wait() } else { files.poll() };
            while let Some(completion) = next.expect("the array is served") {
                let at = crashed.open.iter().position(|(request, _)| request.tag == completion.tag);
                let (request, data) = crashed.open.remove(at.expect("it was under way"));
                assert!(completion.ok, "{request:?}");
                if request.op == HostOp::Read {
                    assert!(completion.bytes == crashed.content.of(&request), "{request:?}");
                }
                crashed.content.apply(&request, &data);
                next = files.poll();
            }
        }
    }
    crashed
}

/// Crashes again and again, now and then while it recovers.
fn crashes(array: &Array, seed: u64, lives: u64) {
    let folder = folder();
    let sizes = array.sizes();
    let mut dice = TestRng::new(seed);
    let mut content = ExpectedContent::new(sizes);
    let mut files = array.create(folder.path());
    let mut tag = 1;
    let mut recovered = 0;
    for _ in 0..lives {
        let crashed = work_and_crash(files, &mut dice, &sizes, content, &mut tag);
        while dice.below(4) == 0 {
            let mut files = array.open(folder.path());
            for _ in 0..dice.below(8) {
                assert_eq!(files.poll().expect("recovery goes on"), None);
                std::thread::yield_now();
            }
        }
        files = array.open(folder.path());
        recovered += u64::from(files.status() == Status::Starting);
        content = crashed.settle(&sizes, &read_all(&mut files));
    }
    // What enters the NVRAM together with its parity opens no row.
    let opens_rows = array.level != RaidLevel::Raid0 && array.cache.medium != CacheMedium::Nvram;
    assert!(!opens_rows || recovered > 0, "{recovered} of {lives} starts were unclean");
    drop(files.stop_clean().expect("the array stops"));
    // What is on the members is consistent: it is the same without any of them.
    if array.level != RaidLevel::Raid0 {
        for dev in 0..array.members {
            let away = folder.path().join("away");
            fs::rename(member(folder.path(), dev), &away).expect("the file is there");
            let mut files = array.open(folder.path());
            assert!(!files.answers(Dev(dev)));
            assert_holds(&mut files, &content, "without a member");
            files.replace(Dev(dev), &member(folder.path(), dev)).expect("a new file");
            files.settle().expect("the member is filled");
            assert_holds(&mut files, &content, "with the member filled");
            assert_eq!(files.stop_clean().expect("the array stops"), []);
        }
    }
}

fn arrays(io: IoBackend) -> [Array; 4] {
    let array = |level, members| Array { depth: 8, ..Array::over(io, level, members) };
    let large = |array| Array { page: 4096, sector: 512, member_pages: 16, ..array };
    [
        array(RaidLevel::Raid0, 3),
        array(RaidLevel::Raid1, 3),
        array(RaidLevel::Raid5, 4),
        large(array(RaidLevel::Raid6, 5)),
    ]
}

fn lives() -> u64 {
    if soak() { 2_000 } else { 20 }
}

fn acknowledged_writes_survive_crashes_under_every_cache(io: IoBackend) {
    for (cache, seeds) in host_caches().zip((1..).step_by(10)) {
        for (array, seed) in arrays(io).iter().zip(seeds..).filter(|(array, _)| (cache.serves)(array.level)) {
            crashes(&Array { cache, ..*array }, seed, lives());
        }
    }
}

/// Serves requests one by one.
fn work<C: Controller>(
    files: &mut FileExecutor<C>,
    dice: &mut TestRng,
    sizes: &ArraySizes,
    content: &mut ExpectedContent,
    tag: &mut u64,
    count: u64,
) {
    for _ in 0..count {
        let request = draw(dice, sizes, *tag);
        *tag += 1;
        let data = data(&request, sizes.sector);
        let completion = serve(files, request, data.clone());
        assert!(completion.ok, "{request:?}");
        match request.op {
            HostOp::Read => assert!(completion.bytes == content.of(&request), "{request:?}"),
            HostOp::Discard => {
                let found = serve(files, HostRequest { op: HostOp::Read, ..request }, Vec::new());
                content.discarded(&request, &found.bytes);
            }
            _ => content.apply(&request, &data),
        }
    }
}

fn a_member_that_fails_at_work_is_done_without_and_filled_again(io: IoBackend) {
    for (array, seed) in arrays(io).iter().zip(21..).filter(|(array, _)| array.level != RaidLevel::Raid0) {
        let folder = folder();
        let sizes = array.sizes();
        let mut dice = TestRng::new(seed);
        let mut content = ExpectedContent::new(sizes);
        let mut tag = 0;
        drop(array.create(folder.path()));
        for round in 0..array.members {
            let (dev, path) = (Dev(round), member(folder.path(), round));
            let mut config = array.files(folder.path());
            config.devices[dev.index()].options.breaks_after = Some(dice.within(1, 60));
            let mut files = FileExecutor::open(array.controller(), config).expect("the array is there");
            while files.answers(dev) {
                work(&mut files, &mut dice, &sizes, &mut content, &mut tag, 1);
            }
            work(&mut files, &mut dice, &sizes, &mut content, &mut tag, 100);
            // Degraded writes keep what they compute in the NVRAM; it is found after a crash, and
            // the member stays lost though its file answers again.
            drop(files);
            if round % 2 == 0 {
                fs::remove_file(&path).expect("the file is there");
            }
            let mut files = array.open(folder.path());
            assert_holds(&mut files, &content, "degraded, after a crash");
            assert_eq!(files.engine().controller().array().degraded(), DevSet::one(Dev(round)));
            files.replace(dev, &path).expect("a new file, or the old one again");
            assert!(files.answers(dev));
            work(&mut files, &mut dice, &sizes, &mut content, &mut tag, 20);
            files.settle().expect("the member is filled");
            assert_eq!(files.engine().controller().array().degraded(), DevSet::EMPTY);
            // A member that breaks while rows are recovered costs data, which is not the question
            // here.
            assert_eq!(files.stop_clean().expect("the array stops"), []);
        }
        let mut files = array.open(folder.path());
        assert_holds(&mut files, &content, "at the end");
    }
}

fn a_crash_while_a_member_is_filled_goes_on_where_it_was_noted(io: IoBackend) {
    let array = Array { depth: 8, member_pages: 512, ..Array::over(io, RaidLevel::Raid5, 4) };
    let folder = folder();
    let sizes = array.sizes();
    let (mut dice, mut content, mut tag) = (TestRng::new(31), ExpectedContent::new(sizes), 0);
    let mut files = array.create(folder.path());
    work(&mut files, &mut dice, &sizes, &mut content, &mut tag, 300);
    let path = member(folder.path(), 1);
    files.replace(Dev(1), &path).expect("the same file again");
    let mut crashes = 0;
    while files.engine().controller().array().degraded() != DevSet::EMPTY {
        work(&mut files, &mut dice, &sizes, &mut content, &mut tag, 2);
        if dice.below(3) == 0 {
            drop(files);
            crashes += 1;
            files = array.open(folder.path());
            files.wait_ready().expect("the array is recovered");
            if files.engine().controller().array().degraded() != DevSet::EMPTY
                && !files.engine().controller().array().is_rebuilding()
            {
                files.replace(Dev(1), &path).expect("the same file again");
            }
        }
    }
    assert!(crashes > 0, "the filling was cut short");
    assert_holds(&mut files, &content, "after the filling");
}

fn a_lost_cache_costs_nothing(io: IoBackend) {
    let array = Array { cache: cache("write-through"), ..Array::over(io, RaidLevel::Raid5, 4) };
    let folder = folder();
    let sizes = array.sizes();
    let (mut dice, mut content, mut tag) = (TestRng::new(41), ExpectedContent::new(sizes), 0);
    let mut config = array.files(folder.path());
    config.devices[4].options.breaks_after = Some(150);
    let mut files = FileExecutor::create(array.controller(), config, ExistingFiles::Refuse).expect("a new array");
    while files.answers(Dev(4)) {
        work(&mut files, &mut dice, &sizes, &mut content, &mut tag, 1);
    }
    let path = member(folder.path(), 4);
    work(&mut files, &mut dice, &sizes, &mut content, &mut tag, 200);
    assert!(!files.answers(Dev(4)) && !files.engine().controller().is_caching());
    fs::remove_file(&path).expect("the file is there");
    files.replace(Dev(4), &path).expect("a new file");
    work(&mut files, &mut dice, &sizes, &mut content, &mut tag, 200);
    assert!(files.engine().controller().is_caching());
    assert_holds(&mut files, &content, "with a new cache");
}

fn why_members_do_not_answer_is_told_until_they_are_replaced(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid6, 5);
    let folder = folder();
    let sizes = array.sizes();
    let (mut dice, mut content, mut tag) = (TestRng::new(61), ExpectedContent::new(sizes), 0);
    let mut files = array.create(folder.path());
    work(&mut files, &mut dice, &sizes, &mut content, &mut tag, 50);
    assert!(files.errors().next().is_none());
    assert_eq!(files.stop_clean().expect("the array stops"), []);
    // One file is not there, and one is cut under its reader.
    fs::remove_file(member(folder.path(), 0)).expect("the file is there");
    let mut files = array.open(folder.path());
    files.settle().expect("the other members know of the loss");
    let cut = fs::File::options().write(true).open(member(folder.path(), 2)).expect("the file is there");
    cut.set_len(512).expect("it can be cut");
    assert_holds(&mut files, &content, "without two members");
    let told = |files: &FileExecutor<_>| -> Vec<_> {
        let told = |(dev, error): (Dev, &FilesError)| match error {
            FilesError::Io { path, what, source } if *path == member(folder.path(), dev.0) => {
                (dev, *what, source.kind())
            }
            other => panic!("{dev}: {other}"),
        };
        files.errors().map(told).collect()
    };
    let not_there = (Dev(0), "open it", ErrorKind::NotFound);
    let cut = (Dev(2), "read from it", ErrorKind::UnexpectedEof);
    assert_eq!(told(&files), [not_there, cut]);
    files.replace(Dev(0), &member(folder.path(), 0)).expect("a new file");
    assert_eq!(told(&files), [cut]);
    fs::remove_file(member(folder.path(), 2)).expect("the file is there");
    files.replace(Dev(2), &member(folder.path(), 2)).expect("a new file");
    files.settle().expect("the members are filled");
    assert_eq!(told(&files), []);
    assert_holds(&mut files, &content, "with the members filled");
}

fn a_member_whose_making_was_cut_short_counts_as_not_there(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid5, 4);
    let folder = folder();
    let sizes = array.sizes();
    let (mut dice, mut content, mut tag) = (TestRng::new(71), ExpectedContent::new(sizes), 0);
    let mut files = array.create(folder.path());
    work(&mut files, &mut dice, &sizes, &mut content, &mut tag, 50);
    drop(files.stop_clean().expect("the array stops"));
    let path = member(folder.path(), 2);
    fs::write(&path, []).expect("it can be emptied");
    let mut files = array.open(folder.path());
    assert!(!files.answers(Dev(2)));
    assert_holds(&mut files, &content, "without the member");
    files.replace(Dev(2), &path).expect("it is made to an end");
    files.settle().expect("the member is filled");
    assert!(files.answers(Dev(2)));
    assert_holds(&mut files, &content, "with the member");
}

fn too_many_lost_members_are_refused(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid5, 4);
    let folder = folder();
    drop(array.create(folder.path()));
    for dev in [0, 2] {
        fs::remove_file(member(folder.path(), dev)).expect("the file is there");
    }
    let mut files = array.open(folder.path());
    let refusal = Refusal::MembersLost { lost: 2, tolerated: 1 };
    assert_eq!(files.status(), Status::Refused(refusal));
    let error = files.wait_ready().expect_err("it is refused");
    assert_eq!(
        error.to_string(),
        "the array cannot be started: 2 members are lost; the level can do without 1: bring one of them back, or go on with the \
         freshest (destage assemble --force; without --force it says what that costs)"
    );
    let request = HostRequest { tag: 1, op: HostOp::Flush, offset: 0, len: 0, fua: false };
    assert!(matches!(files.submit(request, Vec::new()), Err(FilesError::Stopped)));
}

fn requests_may_come_before_the_array_is_recovered(io: IoBackend) {
    let array = Array { depth: 8, ..Array::over(io, RaidLevel::Raid5, 4) };
    let folder = folder();
    let mut files = array.create(folder.path());
    let sizes = array.sizes();
    let (mut dice, mut content, mut tag) = (TestRng::new(51), ExpectedContent::new(sizes), 0);
    work(&mut files, &mut dice, &sizes, &mut content, &mut tag, 50);
    drop(files);
    let mut files = array.open(folder.path());
    assert_eq!(files.status(), Status::Starting);
    let pages: BTreeMap<u64, Vec<u8>> = (0..sizes.pages)
        .map(|page| {
            let request =
                HostRequest { tag: page, op: HostOp::Read, offset: page * sizes.page, len: sizes.page, fua: false };
            files.submit(request, Vec::new()).expect("a request in range");
            (page, content.of(&request).to_vec())
        })
        .collect();
    for completion in files.stop_clean().expect("the array stops") {
        assert!(completion.ok && completion.bytes == pages[&completion.tag], "page {}", completion.tag);
    }
}
