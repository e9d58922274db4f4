//! Tests that a delta that cannot be decoded fails its request, which is tried once and gets no bytes.

use destage_cache::{
    CacheOperations, HostCache, HostCacheError, HostCacheInfo, ReadPages, RegisteredCache, ServedTier, WriteStage,
};
use destage_plan::{
    Buf, DevSet, Engine, HostNotice, HostOp, HostRequest, Nanos, OpId, Out, Params, Shape, Span, Start, Step,
    StepOutcome, StepSet,
};
use destage_raid::array::{ArrayConfig, DegradedRead, PageVersions, RaidArray};
use destage_raid::{Geometry, RaidLevel};

const PAGE: u64 = 4096;

/// Decodes what it has read, and what it writes.
struct Decodes;

impl Decodes {
    fn decode(op: OpId, base: Buf, after: StepSet, out: &mut Out) -> StepSet {
        let (delta, dst) = (out.tmp(op, 1), out.tmp(op, 1));
        out.step(op, Step::Decode { base, delta: Span { buf: delta, offset: 0, len: 8 }, dst }, after)
    }
}

impl PageVersions for Decodes {}

impl HostCache for Decodes {
    type Part = ();

    fn read(
        &mut self,
        op: OpId,
        pages: ReadPages<'_>,
        dst: Buf,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> Result<StepSet, DegradedRead> {
        let read = array.plan_read(op, pages.first(), pages.count, pages.in_fragment(dst, pages.from), out)?;
        Ok(Self::decode(op, dst, read, out))
    }

    fn write(
        &mut self,
        op: OpId,
        stage: WriteStage<'_>,
        _: &mut RaidArray,
        _: &mut CacheOperations<()>,
        out: &mut Out,
    ) -> Option<StepSet> {
        let write = stage.planned();
        Some(write.after | Self::decode(op, write.frag.host(0), StepSet::EMPTY, out))
    }
}

impl RegisteredCache for Decodes {
    const INFO: HostCacheInfo = HostCacheInfo::new::<Self>("decodes", "decodes what it reads", "-");

    fn new(_: u64, _: &ArrayConfig, _: &Params) -> Result<Self, HostCacheError> {
        Ok(Self)
    }
}

fn engine() -> Engine<Box<dyn ServedTier>> {
    let config = ArrayConfig::new(Geometry::new(RaidLevel::Raid5, None, 4, 4, 16).unwrap());
    let shape = Shape::new(PAGE, 512, 12, 12, config.geometry.data_pages()).unwrap();
    let spec: Params = Params::resolve(&[("decodes", &[])], &"decodes".parse().unwrap()).unwrap().remove(0);
    let mut engine = Engine::new((Decodes::INFO.build)(0, &config, &spec).unwrap(), shape, 4);
    engine.start(
        Nanos(0),
        Start { nv: &[], intents: &[], missing: DevSet::EMPTY, collectors: DevSet::EMPTY, unwritable: &[] },
    );
    engine
}

/// Every decode fails; whether the request is served, and how many decodes were tried.
fn ask(op: HostOp) -> (bool, u32) {
    let mut engine = engine();
    engine.submit(Nanos(0), HostRequest { tag: 1, op, offset: 0, len: PAGE, fua: false }).unwrap();
    let (mut served, mut decodes) = (None, 0);
    loop {
        while let Some(notice) = engine.next_notice() {
            if let HostNotice::Acked { ok, .. } = notice {
                assert!(served.replace(ok).is_none(), "it is answered once");
            }
        }
        let Some(issue) = engine.next_issue() else { break };
        let decode = matches!(engine.step(issue), Step::Decode { .. });
        decodes += u32::from(decode);
        let outcome = if decode { StepOutcome::Undecodable } else { StepOutcome::Ok };
        engine.complete(Nanos(0), issue, outcome);
    }
    assert!(engine.controller().array().degraded().is_empty(), "no member is to blame");
    (served.expect("it is answered"), decodes)
}

#[test]
fn a_read_that_cannot_be_decoded_fails() {
    assert_eq!(ask(HostOp::Read), (false, 1));
}

/// Serves a write although something decoded beside it is damaged: the members have its data and its parity.
#[test]
fn a_write_beside_which_something_cannot_be_decoded_is_served() {
    assert_eq!(ask(HostOp::Write), (true, 1));
}
