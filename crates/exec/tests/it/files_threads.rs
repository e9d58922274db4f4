//! Threads that panic, and threads that end as they are told.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use destage_exec::{ExistingFiles, FileExecutor, IoBackend};
use destage_plan::{Dev, HostOp, HostRequest};
use destage_raid::RaidLevel;

use crate::arrays::{Array, member, serve};
use crate::probe::{Call, Probe};
use destage_testkit::folder;

fn write(tag: u64) -> HostRequest {
    HostRequest { tag, op: HostOp::Write, offset: tag * 512, len: 512, fua: false }
}

#[test]
fn the_panic_of_a_thread_is_the_main_loops() {
    let array = Array::over(IoBackend::Threads, RaidLevel::Raid5, 4);
    let (folder, os) = (folder(), Probe::default());
    let files = FileExecutor::create_on(
        Arc::new(os.clone()),
        array.controller(),
        array.files(folder.path()),
        ExistingFiles::Refuse,
    );
    let mut files = files.expect("a new array");
    assert!(serve(&mut files, write(0), vec![1; 512]).ok);
    files.settle().expect("it comes to rest");
    let path = member(folder.path(), 0);
    os.panic(&path, Call::Write);
    let begin = Instant::now();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        serve(&mut files, write(0), vec![2; 512]);
    }));
    let panic = panic.expect_err("it is not served");
    assert_eq!(panic.downcast_ref::<String>(), Some(&format!("told to panic over {}", path.display())));
    let again = catch_unwind(AssertUnwindSafe(|| files.wait()));
    assert!(again.is_err(), "nobody waits for what is not done either");
    drop(files);
    assert!(begin.elapsed() < Duration::from_secs(10), "nor when it is dropped");
}

#[test]
fn threads_that_ended_as_they_were_told_have_not_panicked() {
    let array = Array::over(IoBackend::Threads, RaidLevel::Raid5, 4);
    let folder = folder();
    let mut config = array.files(folder.path());
    config.devices[1].options.breaks_after = Some(5);
    let mut files = FileExecutor::create(array.controller(), config, ExistingFiles::Refuse).expect("a new array");
    for tag in 0..40 {
        assert!(serve(&mut files, write(tag % 16), vec![tag as u8; 512]).ok, "{tag}");
    }
    assert!(!files.answers(Dev(1)), "its threads were told to end");
    files.settle().expect("it comes to rest");
    files.stop_clean().expect("the array stops");
}
