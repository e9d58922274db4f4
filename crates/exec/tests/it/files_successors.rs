//! A member that answers is copied to its successor, whatever is written meanwhile, and the successor takes its place with
//! all that it held. Whatever goes wrong with the successor costs the successor alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use destage_cache::{ServedTier, host_caches_of};
use destage_exec::{
    BadBytes, DroppedSuccessor, FileExecutor, FilesError, IoBackend, IoFault, SuccessionPhase, SuccessorLabelling,
    SyncPoint,
};
use destage_plan::{Dev, DevSet, HostOp, HostRequest};
use destage_raid::RaidLevel;
use destage_testkit::{ExpectedContent, TestRng, data, draw, soak};

use crate::arrays::{Array, cache, member};
use crate::filled_array::{FOLDER, FilledArray};

backend_tests! {
    a_successor_holds_what_its_member_holds,
    a_successor_that_breaks_costs_nothing,
    a_successor_that_hangs_costs_nothing,
    a_successor_without_room_costs_nothing,
    a_successor_that_cannot_be_made_durable_costs_nothing,
    pages_that_the_member_cannot_read_come_from_the_others,
    a_page_that_nothing_makes_up_keeps_the_member_in_its_place,
    a_member_that_is_lost_meanwhile_is_lost_as_always,
    a_degraded_array_and_one_without_redundancy_are_copied,
    either_file_is_the_members_until_the_next_write,
    a_successor_that_was_left_has_missed_writes,
    one_member_is_copied_at_a_time,
    a_stop_drops_the_successor,
}

const LEVELS: [(RaidLevel, u8); 5] =
    [(RaidLevel::Raid0, 3), (RaidLevel::Raid1, 3), (RaidLevel::Raid4, 4), (RaidLevel::Raid5, 4), (RaidLevel::Raid6, 5)];

/// Names the file that takes a member's place.
fn fresh(number: u32) -> PathBuf {
    Path::new(FOLDER).join(format!("fresh{number}"))
}

fn array(io: IoBackend, level: RaidLevel, members: u8) -> Array {
    Array { member_pages: 192, chunk: 8, ..Array::over(io, level, members) }
}

/// Serves random requests, several at a time, of which none that write overlap.
struct BusyArray {
    filled: FilledArray,
    dice: TestRng,
    asked: Vec<(HostRequest, Vec<u8>)>,
    tag: u64,
}

impl BusyArray {
    fn new(array: Array, seed: u64) -> Self {
        Self { filled: FilledArray::new(array), dice: TestRng::new(seed), asked: Vec::new(), tag: 1 }
    }

    fn files(&mut self) -> &mut FileExecutor<Box<dyn ServedTier>> {
        &mut self.filled.files
    }

    fn submit(&mut self) {
        self.tag += 1;
        let mut request = draw(&mut self.dice, &self.filled.array.sizes(), self.tag);
        if request.op == HostOp::Discard {
            request.op = HostOp::WriteZeroesUnmap;
        }
        let end = request.offset + request.len;
        if self.asked.iter().any(|(other, _)| request.offset < other.offset + other.len && other.offset < end) {
            return;
        }
        let bytes = data(&request, self.filled.array.sector);
        self.filled.content.apply(&request, &bytes);
        self.filled.files.submit(request, bytes.clone()).expect("a request in range");
        self.asked.push((request, bytes));
    }

    /// Goes on a little, with requests in flight.
    fn go_on(&mut self) {
        if self.asked.len() < 5 && self.dice.below(3) > 0 {
            self.submit();
        }
        self.poll();
    }

    fn poll(&mut self) {
        let mut next = self.filled.files.poll().expect("the array is served");
        while let Some(completion) = next {
            let at = self.asked.iter().position(|(request, _)| request.tag == completion.tag).expect("it was asked");
            let (request, _) = self.asked.swap_remove(at);
            assert!(completion.ok, "{request:?}");
            if request.op == HostOp::Read {
                assert!(*completion.bytes == *self.filled.content.of(&request), "{request:?}");
            }
            next = self.filled.files.next_completion();
        }
    }

    fn settle(&mut self) {
        let mut left = 200_000;
        while !self.asked.is_empty() || !self.filled.files.is_idle() {
            self.poll();
            left -= 1;
            assert!(
                left > 0,
                "it comes to rest: {:?} {:?}",
                self.asked.iter().map(|asked| asked.0).collect::<Vec<_>>(),
                self.filled.files.engine().out()
            );
        }
    }

    /// Goes on until the successor is whole and all is quiet; returns false if it was dropped.
    fn is_copied(&mut self) -> bool {
        for _ in 0..200_000 {
            match self.files().succession().map(|(.., phase)| phase) {
                None => return false,
                Some(SuccessionPhase::Copying) => self.go_on(),
                Some(SuccessionPhase::Copied) => {
                    self.files().begin_hand_over();
                    self.go_on();
                }
                Some(SuccessionPhase::Quiet) => return true,
            }
        }
        panic!("it is not copied");
    }

    /// Returns what a file holds of a member.
    fn pages(&self, path: &Path) -> Vec<u8> {
        let len = (self.filled.array.member_pages * self.filled.array.page) as usize;
        self.filled.os.content(path).expect("it is there")[..len].to_vec()
    }

    /// Copies a member, and has the successor take its place.
    fn succeed(&mut self, dev: Dev, path: &Path) {
        self.files().begin_succession(dev, path).expect("it is copied");
        assert!(self.is_copied(), "{:?}", self.files().take_dropped_successor());
        let old = self.files().config().devices[dev.index()].path.clone();
        assert!(self.pages(&old) == self.pages(path), "{dev} is {} in all pages", path.display());
        assert_eq!(self.files().label_successor().expect("it serves"), SuccessorLabelling::Durable);
        self.files().hand_over().expect("it takes its place");
        assert_eq!(self.files().config().devices[dev.index()].path, path);
        assert_eq!(self.filled.lost(), DevSet::EMPTY, "nothing was lost meanwhile");
    }

    fn dropped(&mut self) -> DroppedSuccessor {
        self.files().take_dropped_successor().expect("it is dropped")
    }
}

fn a_successor_holds_what_its_member_holds(io: IoBackend) {
    for (level, members) in LEVELS {
        for of_level in host_caches_of(level) {
            for seed in 0..if soak() { 40 } else { 2 } {
                let array =
                    Array { cache: of_level, cache_pages: 160, hurries: seed % 2 == 0, ..array(io, level, members) };
                let mut busy = BusyArray::new(array, seed);
                for number in 0..2 {
                    (0..20).for_each(|_| busy.go_on());
                    let dev = Dev(busy.dice.below(u64::from(members)) as u8);
                    busy.succeed(dev, &fresh(number));
                    (0..20).for_each(|_| busy.go_on());
                }
                busy.settle();
                assert!(busy.filled.holds(), "{} {level} {seed}", of_level.name);
                // What it holds counts as any member's: another can be done without.
                let mut again = busy.filled.restart();
                if level != RaidLevel::Raid0 {
                    again.os.set_broken(&again.files.config().devices[0].path, true);
                }
                assert!(again.holds(), "{} {level} {seed}: later, without a member", of_level.name);
            }
        }
    }
}

/// Has something go wrong with a successor at some moment, and checks that nothing of the array has changed.
fn assert_dropped(
    array: Array,
    seed: u64,
    goes_wrong: impl Fn(&BusyArray, &Path),
    expected: impl Fn(&FilesError) -> bool,
) {
    let mut busy = BusyArray::new(array, seed);
    let path = fresh(0);
    busy.files().begin_succession(Dev(1), &path).expect("it is copied");
    let steps = busy.dice.below(60);
    (0..steps).for_each(|_| busy.go_on());
    goes_wrong(&busy, &path);
    // All may be copied by now: what hangs shows when it is asked for something.
    (0..20).for_each(|_| busy.go_on());
    let is_taken =
        busy.is_copied() && busy.files().label_successor().expect("it serves") == SuccessorLabelling::Durable;
    assert!(!is_taken, "seed {seed}: it takes the member's place");
    let dropped = busy.dropped();
    assert!(dropped.dev == Dev(1) && dropped.path == path && !dropped.is_fit && expected(&dropped.why), "{dropped:?}");
    (0..20).for_each(|_| busy.go_on());
    busy.settle();
    assert_eq!(busy.filled.lost(), DevSet::EMPTY);
    assert!(busy.filled.holds(), "seed {seed}");
    // The same order once more does it, though the file holds something by now.
    busy.filled.os.set_broken(&path, false);
    busy.filled.os.set_hangs(&path, false);
    let mut again = BusyArray { filled: busy.filled.again(), ..busy };
    again.succeed(Dev(1), &path);
    again.settle();
    assert!(again.filled.holds(), "seed {seed}: once more");
}

fn a_successor_that_breaks_costs_nothing(io: IoBackend) {
    for seed in 0..if soak() { 400 } else { 24 } {
        let (level, members) = LEVELS[seed as usize % LEVELS.len()];
        let breaks = |busy: &BusyArray, path: &Path| busy.filled.os.set_broken(path, true);
        assert_dropped(array(io, level, members), seed, breaks, |why| matches!(why, FilesError::Io { .. }));
    }
}

fn a_successor_that_hangs_costs_nothing(io: IoBackend) {
    for seed in 0..if soak() { 200 } else { 12 } {
        let (level, members) = LEVELS[seed as usize % LEVELS.len()];
        let array = Array { device_timeout: Some(Duration::from_millis(5)), ..array(io, level, members) };
        let hangs = |busy: &BusyArray, path: &Path| busy.filled.os.set_hangs(path, true);
        assert_dropped(array, seed, hangs, |why| matches!(why, FilesError::NoAnswer { .. }));
    }
}

fn a_successor_without_room_costs_nothing(io: IoBackend) {
    let mut struck = 0;
    for seed in 0..if soak() { 2000 } else { 120 } {
        let mut busy = BusyArray::new(array(io, RaidLevel::Raid5, 4), seed);
        let path = fresh(0);
        busy.files().begin_succession(Dev(1), &path).expect("it is copied");
        // Reads alone: what is written is what is copied.
        busy.filled.os.fail_after(seed % 60, IoFault::NoRoom);
        while let Some((.., SuccessionPhase::Copying)) = busy.files().succession() {
            busy.poll();
        }
        let was_struck = !busy.filled.os.take_fault();
        if was_struck {
            assert_eq!(busy.filled.os.struck(), Some(path));
            let dropped = busy.dropped();
            assert!(dropped.why.to_string().contains("No space left"), "{dropped:?}");
            struck += 1;
        }
        assert!(busy.filled.holds(), "seed {seed}");
        assert_eq!(busy.filled.lost(), DevSet::EMPTY);
    }
    assert!(struck > 20, "{struck} have no room");
}

fn a_successor_that_cannot_be_made_durable_costs_nothing(io: IoBackend) {
    for point in [SyncPoint::Successor, SyncPoint::ReplaceFolder] {
        let mut busy = BusyArray::new(array(io, RaidLevel::Raid0, 3), 4);
        busy.files().begin_succession(Dev(1), &fresh(0)).expect("it is copied");
        assert!(busy.is_copied());
        busy.filled.os.fail_sync(point, IoFault::Broken);
        assert_eq!(busy.files().label_successor().expect("it serves"), SuccessorLabelling::Dropped, "{point:?}");
        let dropped = busy.dropped();
        assert!(!dropped.is_fit && matches!(dropped.why, FilesError::Io { .. }), "{dropped:?}");
        busy.settle();
        assert_eq!(busy.filled.lost(), DevSet::EMPTY);
        let mut again = busy.filled.restart();
        assert!(again.holds(), "{point:?}");
    }
}

fn pages_that_the_member_cannot_read_come_from_the_others(io: IoBackend) {
    for (level, members) in &LEVELS[1..] {
        for kind in [BadBytes::UntilWritten, BadBytes::Unreadable] {
            for name in ["none", "kdd", "lawc"] {
                let (level, members) = (*level, *members);
                if !host_caches_of(level).any(|info| info.name == name) {
                    continue;
                }
                let array = Array { cache: cache(name), cache_pages: 160, ..array(io, level, members) };
                let mut busy = BusyArray::new(array, 3);
                let old = member(Path::new(FOLDER), 1);
                for row in [0, 7, 40, 41, 120, 191] {
                    busy.filled.spoil(1, row, kind);
                }
                busy.files().begin_succession(Dev(1), &fresh(0)).expect("it is copied");
                assert!(busy.is_copied(), "{:?}", busy.files().take_dropped_successor());
                assert_eq!(busy.files().label_successor().expect("it serves"), SuccessorLabelling::Durable);
                busy.files().hand_over().expect("it takes its place");
                assert_ne!(busy.files().config().devices[1].path, old);
                busy.settle();
                let array = busy.files().engine().controller().array();
                assert_eq!((array.unreadable(), array.degraded()), (Vec::new(), DevSet::EMPTY), "{name} {level}");
                assert!(busy.filled.holds(), "{name} {level}");
                let mut again = busy.filled.restart();
                again.os.set_broken(&again.files.config().devices[0].path, true);
                assert!(again.holds(), "{name} {level}: without another");
            }
        }
    }
}

fn a_page_that_nothing_makes_up_keeps_the_member_in_its_place(io: IoBackend) {
    for (level, members) in [(RaidLevel::Raid0, 3), (RaidLevel::Raid5, 4)] {
        let mut busy = BusyArray::new(array(io, level, members), 1);
        busy.filled.spoil(1, 100, BadBytes::UntilWritten);
        if level == RaidLevel::Raid5 {
            busy.filled.spoil(2, 100, BadBytes::UntilWritten);
        }
        busy.files().begin_succession(Dev(1), &fresh(0)).expect("it is copied");
        while busy.files().succession().is_some() {
            busy.poll();
        }
        let dropped = busy.dropped();
        let at = 100 * busy.filled.array.page;
        let FilesError::UnreadablePage { path, at: found } = &dropped.why else { panic!("{dropped:?}") };
        assert_eq!((path, *found, dropped.is_fit), (&member(Path::new(FOLDER), 1), at, false));
        assert_eq!(busy.filled.lost(), DevSet::EMPTY);
        // As the message says: what is written anew can be copied.
        let len = busy.filled.content.bytes().len() as u64;
        assert!(busy.filled.write(0, len).ok);
        busy.succeed(Dev(1), &fresh(0));
        busy.settle();
        assert!(busy.filled.holds(), "{level}");
    }
}

fn a_member_that_is_lost_meanwhile_is_lost_as_always(io: IoBackend) {
    for seed in 0..12 {
        let (level, members) = LEVELS[1..][seed as usize % 4];
        let mut busy = BusyArray::new(array(io, level, members), seed);
        busy.files().begin_succession(Dev(1), &fresh(0)).expect("it is copied");
        let steps = busy.dice.below(30);
        (0..steps).for_each(|_| busy.go_on());
        busy.filled.os.set_broken(&member(Path::new(FOLDER), 1), true);
        let is_quiet = busy.is_copied();
        if is_quiet {
            // It has held all before its member was asked for anything.
            assert_eq!(busy.files().label_successor().expect("it serves"), SuccessorLabelling::Durable);
            busy.files().hand_over().expect("it takes its place");
            assert_eq!(busy.filled.lost(), DevSet::EMPTY);
        } else {
            let dropped = busy.dropped();
            assert!(dropped.is_fit && matches!(dropped.why, FilesError::LostBefore(_)), "{dropped:?}");
            assert_eq!(busy.filled.lost(), DevSet::one(Dev(1)));
            // It is filled from the others then, as nobody needs what it holds.
            let mut replaced = busy.files().replace(Dev(1), &fresh(0));
            while matches!(replaced, Err(FilesError::AtWork(_))) {
                // What it was given before has to end.
                busy.go_on();
                replaced = busy.files().replace(Dev(1), &fresh(0));
            }
            replaced.expect("it takes its place");
        }
        busy.settle();
        assert_eq!(busy.filled.lost(), DevSet::EMPTY, "seed {seed}");
        assert!(busy.filled.holds(), "seed {seed}");
    }
}

fn a_degraded_array_and_one_without_redundancy_are_copied(io: IoBackend) {
    for (level, members, broken) in [(RaidLevel::Raid5, 4, 1), (RaidLevel::Raid6, 5, 2), (RaidLevel::Raid1, 3, 2)] {
        let mut busy = BusyArray::new(array(io, level, members), 5);
        for dev in 1..=broken {
            busy.filled.os.set_broken(&member(Path::new(FOLDER), dev), true);
        }
        (0..60).for_each(|_| busy.go_on());
        busy.settle();
        assert_eq!(busy.filled.lost().len(), u32::from(broken), "{level}");
        busy.files().begin_succession(Dev(0), &fresh(0)).expect("it is copied");
        assert!(busy.is_copied(), "{:?}", busy.files().take_dropped_successor());
        assert_eq!(busy.files().label_successor().expect("it serves"), SuccessorLabelling::Durable);
        busy.files().hand_over().expect("it takes its place");
        busy.settle();
        assert_eq!(busy.filled.lost().len(), u32::from(broken), "{level}");
        assert!(busy.filled.holds(), "{level}");
        let mut again = busy.filled.restart();
        assert!(again.holds(), "{level}: at the next start");
    }
}

/// Ends an array whose successor is labelled, and opens it with a file in the member's place.
fn open_with(busy: BusyArray, path: &Path) -> FilledArray {
    let FilledArray { array, os, files, content } = busy.filled;
    let mut config = files.config().clone();
    path.clone_into(&mut config.devices[1].path);
    drop(files);
    let files = FileExecutor::open_on(Arc::new(os.clone()), array.controller(), config).expect("the array is there");
    let mut filled = FilledArray { array, os, files, content };
    filled.rest();
    filled
}

fn labelled(io: IoBackend, level: RaidLevel, members: u8) -> BusyArray {
    let mut busy = BusyArray::new(array(io, level, members), 9);
    busy.files().begin_succession(Dev(1), &fresh(0)).expect("it is copied");
    assert!(busy.is_copied(), "it is copied");
    // Those that need the member wait, and nobody hears of them any more.
    busy.asked.clear();
    assert_eq!(busy.files().label_successor().expect("it serves"), SuccessorLabelling::Durable);
    busy
}

fn either_file_is_the_members_until_the_next_write(io: IoBackend) {
    for (level, members) in LEVELS {
        for path in [member(Path::new(FOLDER), 1), fresh(0)] {
            let mut busy = labelled(io, level, members);
            // What was in flight may be there or not.
            busy.filled.content = ExpectedContent::new(busy.filled.array.sizes());
            let mut opened = open_with(busy, &path);
            assert_eq!(opened.lost(), DevSet::EMPTY, "{level}: {}", path.display());
            let len = opened.content.bytes().len() as u64;
            assert!(opened.write(0, len).ok && opened.holds());
            let again = opened.restart();
            assert_eq!(again.lost(), DevSet::EMPTY, "{level}: {}, once more", path.display());
            // From now on the other one has missed writes.
            let other = if path == fresh(0) { member(Path::new(FOLDER), 1) } else { fresh(0) };
            let FilledArray { array, os, files, .. } = again;
            let mut config = files.config().clone();
            config.devices[1].path = other;
            drop(files);
            let files = FileExecutor::open_on(Arc::new(os), array.controller(), config);
            match files {
                Ok(files) => {
                    let why = files.errors().map(|(dev, why)| (dev, why.to_string())).collect::<Vec<_>>();
                    assert!(matches!(&why[..], [(Dev(1), why)] if why.contains("missed writes")), "{level}: {why:?}");
                }
                Err(error) => panic!("{level}: {error}"),
            }
        }
    }
}

fn a_successor_that_was_left_has_missed_writes(io: IoBackend) {
    let mut busy = BusyArray::new(array(io, RaidLevel::Raid5, 4), 2);
    busy.files().begin_succession(Dev(1), &fresh(0)).expect("it is copied");
    (0..10).for_each(|_| busy.go_on());
    let opened = open_with(busy, &fresh(0));
    let why: Vec<_> = opened.files.errors().map(|(dev, why)| (dev, why.to_string())).collect();
    assert!(matches!(&why[..], [(Dev(1), why)] if why.contains("was not filled to the end")), "{why:?}");
    assert_eq!(opened.lost(), DevSet::one(Dev(1)));
}

fn one_member_is_copied_at_a_time(io: IoBackend) {
    let mut busy = BusyArray::new(array(io, RaidLevel::Raid5, 4), 2);
    let own = member(Path::new(FOLDER), 1);
    let refused = |busy: &mut BusyArray, dev: u8, path: &Path| {
        busy.files().begin_succession(Dev(dev), path).expect_err("it must not be copied").to_string()
    };
    assert!(refused(&mut busy, 1, &own).contains("are the same file"), "its own file");
    assert!(refused(&mut busy, 1, &member(Path::new(FOLDER), 2)).contains("are the same file"), "another's");
    busy.files().begin_succession(Dev(1), &fresh(0)).expect("it is copied");
    for dev in [1, 2] {
        assert!(refused(&mut busy, dev, &fresh(1)).contains("fresh0 already"), "{dev}");
    }
    let used = busy.files().replace(Dev(2), &fresh(0)).expect_err("it is in use").to_string();
    assert!(used.contains("are the same file"), "{used}");
    assert!(busy.is_copied());
    assert_eq!(busy.files().label_successor().expect("it serves"), SuccessorLabelling::Durable);
    busy.files().hand_over().expect("it takes its place");
    busy.filled.os.set_broken(&member(Path::new(FOLDER), 2), true);
    (0..60).for_each(|_| busy.go_on());
    assert!(refused(&mut busy, 2, &fresh(1)).contains("cannot be copied"), "one that is lost");
    busy.settle();
    assert!(busy.filled.holds());
}

fn a_stop_drops_the_successor(io: IoBackend) {
    let mut busy = BusyArray::new(array(io, RaidLevel::Raid5, 4), 2);
    busy.files().begin_succession(Dev(1), &fresh(0)).expect("it is copied");
    (0..5).for_each(|_| busy.go_on());
    while !busy.asked.is_empty() {
        busy.poll();
    }
    let mut again = busy.filled.restart();
    assert_eq!((again.lost(), &*again.files.config().devices[1].path), (DevSet::EMPTY, &*member(Path::new(FOLDER), 1)));
    assert!(again.holds());
}
