//! Caches that go on after the host is answered: what they do then must not delay what the answer
//! relies on.

use destage_cache::{CacheOperations, HostCache, HostCacheError, HostCacheInfo, RegisteredCache, WriteStage};
use destage_crash::{DrawLimits, RunOptions, explore, shrink};
use destage_plan::{Buf, Ext, List, OpId, Out, Params, PutList, Step, StepSet};
use destage_raid::RaidLevel;
use destage_raid::array::{ArrayConfig, PageVersions, RaidArray};

use crate::share::share_of;

/// Frees nothing after each write, as a cache frees the slots of what it has staged.
struct FreesLater;

impl PageVersions for FreesLater {}

impl HostCache for FreesLater {
    type Part = ();

    fn write(
        &mut self,
        op: OpId,
        stage: WriteStage<'_>,
        _: &mut RaidArray,
        _: &mut CacheOperations<()>,
        out: &mut Out,
    ) -> Option<StepSet> {
        let write = stage.planned();
        out.step(op, Step::NvCommit { puts: PutList::EMPTY, frees: List::EMPTY }, write.after);
        Some(write.after)
    }
}

impl RegisteredCache for FreesLater {
    const INFO: HostCacheInfo = HostCacheInfo::new::<Self>("frees-later", "frees nothing after each write", "-");

    fn new(_: u64, _: &ArrayConfig, _: &Params) -> Result<Self, HostCacheError> {
        Ok(Self)
    }
}

/// Reads the page that was written once more after the host is answered, and does something with
/// it: a second phase whose reads can fail.
struct ReadsLater;

impl PageVersions for ReadsLater {}

impl HostCache for ReadsLater {
    type Part = ();

    fn write(
        &mut self,
        op: OpId,
        stage: WriteStage<'_>,
        array: &mut RaidArray,
        _: &mut CacheOperations<()>,
        out: &mut Out,
    ) -> Option<StepSet> {
        let write = stage.planned();
        let page = array.pages_of(write.seg).next().expect("a write has a page");
        let dst = out.tmp(op, 1);
        if array.check_whole(page, 1).is_ok() {
            let place = array.config().geometry.locate(page);
            let geometry = &array.config().geometry;
            let dev = geometry.device(place.stripe, place.column);
            let row = geometry.row(place.stripe, place.row_in_chunk);
            let read = out.step(op, Step::Read { ext: Ext::new(dev, row.0, 1), dst }, write.after);
            let srcs = out.list(op, &[dst, Buf::Zero]);
            let copy = out.tmp(op, 1);
            out.step(op, Step::Xor { srcs, pages: 1, dst: copy }, read);
        }
        Some(write.after)
    }
}

impl RegisteredCache for ReadsLater {
    const INFO: HostCacheInfo = HostCacheInfo::new::<Self>("reads-later", "reads again what was written", "-");

    fn new(_: u64, _: &ArrayConfig, _: &Params) -> Result<Self, HostCacheError> {
        Ok(Self)
    }
}

static FREES_LATER: HostCacheInfo = FreesLater::INFO;
static READS_LATER: HostCacheInfo = ReadsLater::INFO;

fn holds(cache: &'static HostCacheInfo) {
    let seeds = share_of(2_000, 20_000);
    for level in RaidLevel::ALL {
        let limits = DrawLimits { level: Some(level), ..DrawLimits::default() };
        if let Err(failure) = explore(cache, 0..seeds, &limits, RunOptions::default()) {
            let small = shrink(cache, &failure, RunOptions::default(), 4_000);
            panic!("{} {level}\nas found: {}\nsmallest found: {small}", cache.name, failure.what);
        }
    }
}

#[test]
fn a_flush_does_not_miss_what_goes_on() {
    holds(&FREES_LATER);
}

#[test]
fn what_fails_later_has_changed_nothing() {
    holds(&READS_LATER);
}
