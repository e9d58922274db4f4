//! Steps of the NVRAM that wait at the same time share a sync.

use std::path::Path;
use std::sync::Arc;

use destage_exec::{CrashSurvival, ExistingFiles, FileExecutor, SyncPoint};
use destage_plan::{HostOp, HostRequest};
use destage_raid::RaidLevel;
use destage_raid::array::DurabilityMode;
use destage_testkit::{ExpectedContent, data};

use crate::arrays::{Array, assert_holds, cache, recording};

#[test]
fn writes_that_come_together_share_syncs_and_are_durable_when_they_are_answered() {
    let array =
        Array { cache: cache("wow"), depth: 8, regime: DurabilityMode::EveryWrite, ..Array::new(RaidLevel::Raid5, 4) };
    let os = recording();
    let config = array.files(Path::new("/array"));
    let made = FileExecutor::create_on(Arc::new(os.clone()), array.controller(), config.clone(), ExistingFiles::Refuse);
    let (mut files, mut content) = (made.expect("a new array"), ExpectedContent::new(array.sizes()));
    files.wait_ready().expect("it starts");
    let commits = || os.syncs().get(&SyncPoint::Commit).copied().unwrap_or(0);
    let before = commits();
    for tag in 0..8 {
        let request = HostRequest { tag, op: HostOp::Write, offset: tag * 512, len: 512, fua: false };
        let bytes = data(&request, array.sector);
        content.apply(&request, &bytes);
        files.submit(request, bytes).expect("in range");
    }
    for _ in 0..8 {
        assert!(files.wait().expect("it is served").expect("one is under way").ok);
    }
    // What is begun while the first is synced comes with the next; what is destaged frees slots.
    assert!((1..=4).contains(&(commits() - before)), "{} syncs for eight writes", commits() - before);

    files.settle().expect("it comes to rest");
    let [nvram, intents] = files.state_traffic();
    let syncs = |at: &[SyncPoint]| at.iter().map(|at| os.syncs().get(at).copied().unwrap_or(0)).sum::<u64>();
    let of_nvram = syncs(&[SyncPoint::Commit, SyncPoint::Ahead, SyncPoint::Copied, SyncPoint::Tail]);
    assert_eq!([nvram.syncs, intents.syncs], [of_nvram, syncs(&[SyncPoint::Intents])]);
    assert!(nvram.steps >= 8 && nvram.syncs < nvram.steps, "{nvram:?}");
    // What is said of each slot that is put, and what it holds, in whole sectors.
    let least = 8 * (512 + config.shape.page_bytes());
    assert!(nvram.written_bytes >= least && intents.written_bytes >= 512 * intents.syncs, "{nvram:?}, {intents:?}");

    let left = os.cut(CrashSurvival::Nothing);
    let mut files = FileExecutor::open_on(Arc::new(left), array.controller(), config).expect("the array is there");
    assert_holds(&mut files, &content, "after the power failed");
}
