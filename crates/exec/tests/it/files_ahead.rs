//! Tries arrays that do not make every acknowledged write durable. Changes of the NVRAM cost a sync when
//! something relies on them. That is a flush, a write with FUA, an intent, a clean stop, or after a while. The
//! end of the process alone loses none of them.

use std::path::Path;
use std::sync::Arc;

use destage_exec::{CrashSurvival, ExistingFiles, FileExecutor, FilesConfig, RecordingOs, SyncPoint};
use destage_plan::{HostOp, HostRequest};
use destage_raid::RaidLevel;
use destage_testkit::data;

use crate::arrays::{Array, cache, recording};
use crate::scribe::{self, PAGE, Scribe, intent, put, request, serve};

struct Bench {
    os: RecordingOs,
    files: FileExecutor<Scribe>,
    every_write: bool,
}

impl Bench {
    fn new(every_write: bool) -> Self {
        let os = recording();
        let config = FilesConfig { every_write, ..scribe::config(Path::new("/array")) };
        let system = Arc::new(os.clone());
        let files = FileExecutor::create_on(system, Scribe::new(&Arc::default()), config, ExistingFiles::Refuse);
        Self { os, files: files.expect("a new array"), every_write }
    }

    /// Syncs of commits: of each, before what was begun since, before an answer.
    fn syncs(&self) -> [u64; 3] {
        let syncs = self.os.syncs();
        [SyncPoint::Commit, SyncPoint::Ahead, SyncPoint::Answer].map(|at| syncs.get(&at).copied().unwrap_or(0))
    }

    /// Slots that are found in what is left.
    fn found(&self, left: RecordingOs) -> usize {
        let found = Arc::default();
        let config = FilesConfig { every_write: self.every_write, ..scribe::config(Path::new("/array")) };
        FileExecutor::open_on(Arc::new(left), Scribe::new(&found), config).expect("the array is there");
        let found = found.lock().expect("no thread panics with it");
        found.slots.len()
    }

    /// After the end of the process, and after that of the power with nothing left that is not durable.
    fn left(&self) -> [usize; 2] {
        [self.found(self.os.end(false)), self.found(self.os.cut(CrashSurvival::Nothing))]
    }
}

#[test]
fn writes_cost_no_sync_and_what_relies_on_them_costs_one() {
    let flush = request(HostOp::Flush, 0);
    let mut bench = Bench::new(false);
    (0..4).for_each(|page| put(&mut bench.files, page, 1));
    assert_eq!((bench.syncs(), bench.files.is_durable(), bench.left()), ([0; 3], false, [4, 0]));
    serve(&mut bench.files, flush, Vec::new());
    assert_eq!((bench.syncs(), bench.files.is_durable(), bench.left()), ([0, 0, 1], true, [4, 4]));
    serve(&mut bench.files, flush, Vec::new());
    assert_eq!(bench.syncs(), [0, 0, 1], "nothing is left to be made durable");
    put(&mut bench.files, 4, 1);
    assert_eq!((bench.syncs(), bench.left()), ([0, 0, 1], [5, 4]));
    serve(&mut bench.files, HostRequest { fua: true, ..request(HostOp::Write, 5) }, vec![0; PAGE as usize]);
    assert_eq!((bench.syncs(), bench.left()), ([0, 0, 2], [6, 6]));
    put(&mut bench.files, 6, 1);
    intent(&mut bench.files, 0, true);
    // What zeroes a range is answered by the intent, which is durable, and so is what was before it.
    assert_eq!((bench.syncs(), bench.left()), ([0, 1, 2], [7, 7]));
    put(&mut bench.files, 7, 1);
    // Without threads time goes on when nothing else is to be done.
    for _ in 0..10 {
        assert!(bench.files.poll().expect("it goes on").is_none());
    }
    assert_eq!((bench.syncs(), bench.files.is_durable(), bench.left()), ([0, 2, 2], true, [8, 8]));
    put(&mut bench.files, 8, 1);
    assert_eq!(bench.left(), [9, 8]);
    let (os, again) = (bench.os.clone(), Bench::new(false));
    bench.files.stop_clean().expect("it stops");
    assert_eq!(again.found(os.cut(CrashSurvival::Nothing)), 9);
}

#[test]
fn where_each_write_was_flushed_the_next_is_made_durable_before_its_flush() {
    let flush = request(HostOp::Flush, 0);
    let mut bench = Bench::new(false);
    let turn = |bench: &mut Bench| (0..10).for_each(|_| assert!(bench.files.poll().expect("it goes on").is_none()));
    for page in 0..4 {
        put(&mut bench.files, page, 1);
        assert_eq!((bench.syncs(), bench.left()), ([0, 0, page], [page as usize + 1, page as usize]));
        serve(&mut bench.files, flush, Vec::new());
    }
    put(&mut bench.files, 4, 1);
    turn(&mut bench);
    assert_eq!((bench.syncs(), bench.files.is_durable(), bench.left()), ([0, 1, 4], true, [5, 5]));
    serve(&mut bench.files, flush, Vec::new());
    assert_eq!(bench.syncs(), [0, 1, 4], "there is nothing left for it");
    // The second of these was not flushed in between, and what follows is not expected to be.
    put(&mut bench.files, 5, 1);
    turn(&mut bench);
    put(&mut bench.files, 6, 1);
    put(&mut bench.files, 7, 1);
    assert_eq!((bench.syncs(), bench.left()), ([0, 2, 4], [8, 6]));
    serve(&mut bench.files, flush, Vec::new());
    assert_eq!((bench.syncs(), bench.left()), ([0, 2, 5], [8, 8]));
    put(&mut bench.files, 8, 1);
    assert_eq!(bench.left(), [9, 8]);
}

#[test]
fn commits_that_steps_wait_for_together_are_synced_together() {
    let syncs = |at_a_time: usize| {
        let os = recording();
        let array = Array { cache: cache("write-back"), cache_pages: 64, ..Array::new(RaidLevel::Raid5, 4) };
        let (system, config) = (Arc::new(os.clone()), array.files(Path::new("/array")));
        let files = FileExecutor::create_on(system, array.controller(), config, ExistingFiles::Refuse);
        let mut files = files.expect("a new array");
        // Time without threads goes on to the next timer with each, and these are far.
        for tag in 0..14 {
            let request = HostRequest { tag, op: HostOp::Write, offset: tag * 512, len: 512, fua: false };
            files.submit(request, data(&request, array.sector)).expect("in range");
            while files.unanswered() >= at_a_time {
                files.wait().expect("it is served");
            }
        }
        let syncs = os.syncs();
        [SyncPoint::Commit, SyncPoint::Ahead].map(|at| syncs.get(&at).copied().unwrap_or(0))
    };
    assert_eq!(syncs(1), [0, 17]);
    assert_eq!(syncs(8), [0, 8]);
}

/// Guards against a device that a start has missed and that the next start finds again, and believes.
#[test]
fn a_read_is_answered_when_what_the_start_has_noted_is_durable() {
    let os = recording();
    let array = Array { cache: cache("write-back"), cache_pages: 64, ..Array::new(RaidLevel::Raid5, 4) };
    let config = || array.files(Path::new("/array"));
    let created = FileExecutor::create_on(Arc::new(os.clone()), array.controller(), config(), ExistingFiles::Refuse);
    created.expect("a new array").stop_clean().expect("it stops");
    let left = os.end(true);
    left.take_away(&config().devices.last().expect("the cache's").path);
    let opened = FileExecutor::open_on(Arc::new(left.clone()), array.controller(), config());
    let mut files = opened.expect("it does without the cache");
    let request = HostRequest { tag: 1, op: HostOp::Read, offset: 0, len: 512, fua: false };
    files.submit(request, Vec::new()).expect("in range");
    let mut has_waited = false;
    while files.unanswered() > 0 {
        has_waited |= !files.is_durable();
        files.poll().expect("it goes on");
    }
    assert!(has_waited && files.is_durable(), "the loss is noted, and that is durable before anything is told");
    assert_eq!(left.syncs().get(&SyncPoint::Answer), Some(&1));
}

#[test]
fn each_write_is_durable_where_that_is_promised() {
    let mut bench = Bench::new(true);
    for page in 0..4 {
        put(&mut bench.files, page, 1);
        assert_eq!(bench.syncs(), [page + 1, 0, 0]);
        assert_eq!(bench.left(), [page as usize + 1; 2]);
    }
}
