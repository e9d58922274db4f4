//! A sync that fails is believed, whatever it was for: the device has failed, or the executor stops. It is
//! asked for once.

use std::path::Path;
use std::sync::Arc;

use destage_cache::ServedTier;
use destage_exec::{
    CrashSurvival, ExistingFiles, FileExecutor, FilesError, IoBackend, IoFault, RecordingOs, RequestCompletion,
    SyncPoint,
};
use destage_plan::{Dev, HostOp, HostRequest};
use destage_raid::RaidLevel;
use destage_raid::array::DurabilityMode;
use destage_testkit::{ExpectedContent, data};

use crate::arrays::{Array, cache, recording};

backend_tests! {
    a_device_whose_sync_fails_has_failed,
    a_device_that_cannot_be_made_durable_at_the_start_does_not_answer,
    an_executor_whose_nvram_cannot_be_synced_stops,
}

const FOLDER: &str = "/array";
const FLUSH: HostRequest = HostRequest { tag: 998, op: HostOp::Flush, offset: 0, len: 0, fua: false };

/// An array that was written to, at rest.
fn filled(array: &Array) -> (RecordingOs, FileExecutor<Box<dyn ServedTier>>, ExpectedContent) {
    let os = recording();
    let made = FileExecutor::create_on(
        Arc::new(os.clone()),
        array.controller(),
        array.files(Path::new(FOLDER)),
        ExistingFiles::Refuse,
    );
    let (mut files, mut content) = (made.expect("a new array"), ExpectedContent::new(array.sizes()));
    for tag in 0..8 {
        assert!(write(array, &mut files, &mut content, tag, false).expect("it is served").ok);
    }
    assert!(answer(&mut files, FLUSH, Vec::new()).expect("it is served").ok);
    while !files.is_idle() {
        files.poll().expect("it comes to rest");
    }
    (os, files, content)
}

fn open(array: &Array, left: &RecordingOs) -> FileExecutor<Box<dyn ServedTier>> {
    let opened = FileExecutor::open_on(Arc::new(left.clone()), array.controller(), array.files(Path::new(FOLDER)));
    opened.expect("the array is there")
}

fn write(
    array: &Array,
    files: &mut FileExecutor<Box<dyn ServedTier>>,
    content: &mut ExpectedContent,
    tag: u64,
    fua: bool,
) -> Result<RequestCompletion, FilesError> {
    let request = HostRequest { tag, op: HostOp::Write, offset: tag % 8 * 512, len: 512, fua };
    let bytes = data(&request, array.sector);
    content.apply(&request, &bytes);
    answer(files, request, bytes)
}

/// Has a request served, without threads.
fn answer(
    files: &mut FileExecutor<Box<dyn ServedTier>>,
    request: HostRequest,
    bytes: Vec<u8>,
) -> Result<RequestCompletion, FilesError> {
    files.submit(request, bytes)?;
    loop {
        if let Some(completion) = files.poll()? {
            assert_eq!(completion.tag, request.tag);
            return Ok(completion);
        }
    }
}

fn holds(files: &mut FileExecutor<Box<dyn ServedTier>>, content: &ExpectedContent) -> bool {
    let len = content.bytes().len() as u64;
    let read = HostRequest { tag: 999, op: HostOp::Read, offset: 0, len, fua: false };
    let completion = answer(files, read, Vec::new()).expect("it is served");
    completion.ok && *completion.bytes == *content.bytes()
}

fn a_device_whose_sync_fails_has_failed(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid5, 4);
    let faults = [IoFault::Broken, IoFault::NoRoom];
    for (at, fault) in [SyncPoint::Fua, SyncPoint::Flush].into_iter().flat_map(|at| faults.map(|fault| (at, fault))) {
        let (os, mut files, mut content) = filled(&array);
        let before = os.syncs().get(&at).copied().unwrap_or(0);
        os.fail_sync(at, fault);
        assert!(write(&array, &mut files, &mut content, 50, at == SyncPoint::Fua).expect("it is served").ok);
        if at == SyncPoint::Flush {
            assert!(answer(&mut files, FLUSH, Vec::new()).expect("it is served").ok);
        }
        assert!(!os.take_fault(), "a sync was asked for");
        let failed: Vec<_> = (0..4).map(Dev).filter(|dev| !files.answers(*dev)).collect();
        let [failed] = failed[..] else { panic!("{at:?}: {failed:?} have failed") };
        let (_, error) = files.errors().find(|(dev, _)| *dev == failed).expect("why is told");
        assert!(error.to_string().contains(&format!("dev{}", failed.0)), "{error}");
        // Data and parity, or the members that had something to flush: each of them once.
        let asked = os.syncs().get(&at).copied().unwrap_or(0) - before;
        assert!((1..=4).contains(&asked), "{at:?}: {asked} syncs");
        assert!(holds(&mut files, &content), "{at:?}: served degraded");

        // What was answered is there though nothing survives that was not durable.
        let left = os.cut(CrashSurvival::Nothing);
        left.take_away(&array.files(Path::new(FOLDER)).devices[failed.index()].path);
        let mut files = open(&array, &left);
        assert!(holds(&mut files, &content), "{at:?}: after the power failed");
    }
}

/// Demands that a device is lost if a start cannot sync it. The writes of an earlier process, which this one
/// reads, may never become durable.
fn a_device_that_cannot_be_made_durable_at_the_start_does_not_answer(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid5, 4);
    for fault in [IoFault::Broken, IoFault::NoRoom] {
        let (os, mut files, mut content) = filled(&array);
        assert!(write(&array, &mut files, &mut content, 50, false).expect("it is served").ok);
        let left = os.end(false);
        left.fail_sync(SyncPoint::OpenDevice, fault);
        let files = open(&array, &left);
        assert!(!left.take_fault(), "a sync was asked for");
        assert!(!files.answers(Dev(0)), "{fault:?}");
        assert!((1..4).all(|dev| files.answers(Dev(dev))), "{fault:?}");
    }
}

fn an_executor_whose_nvram_cannot_be_synced_stops(io: IoBackend) {
    let plain = Array::over(io, RaidLevel::Raid5, 4);
    // Data goes into the NVRAM.
    let cached = Array { cache: cache("wow"), regime: DurabilityMode::EveryWrite, ..plain };
    let batched = Array { regime: DurabilityMode::Flush, ..cached };
    for (at, array, file) in [
        (SyncPoint::Intents, plain, "/array/intents"),
        (SyncPoint::Commit, cached, "/array/nvram"),
        (SyncPoint::Answer, batched, "/array/nvram"),
    ] {
        let (os, mut files, mut content) = filled(&array);
        os.fail_sync(at, IoFault::Broken);
        let before = os.syncs().get(&at).copied().unwrap_or(0);
        // A row of which no intent is set.
        let request =
            HostRequest { tag: 60, op: HostOp::Write, offset: content.bytes().len() as u64 - 512, len: 512, fua: true };
        let bytes = data(&request, array.sector);
        let error = answer(&mut files, request, bytes).expect_err("it stops");
        assert!(matches!(&error, FilesError::Io { path, .. } if path == Path::new(file)), "{at:?}: {error}");
        assert!(matches!(files.poll(), Err(FilesError::Stopped)), "and answers nothing more");
        assert!(os.syncs().get(&at).copied().unwrap_or(0) <= before + 1, "{at:?} is not tried again");
        // What was answered before is there.
        drop(files);
        content = ExpectedContent::new(array.sizes());
        for tag in 0..8 {
            let request = HostRequest { tag, op: HostOp::Write, offset: tag * 512, len: 512, fua: false };
            content.apply(&request, &data(&request, array.sector));
        }
        let left = os.end(false);
        let mut files = open(&array, &left);
        let len = 8 * 512;
        let read = HostRequest { tag: 999, op: HostOp::Read, offset: 0, len, fua: false };
        let completion = answer(&mut files, read, Vec::new()).expect("it is served");
        assert_eq!(completion.bytes[..], content.bytes()[..len as usize], "{at:?}");
    }
}
