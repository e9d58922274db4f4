//! SSDs of an array that say when they collect garbage, and collect when they are told to.

use std::sync::{Arc, Mutex};

use destage_plan::{
    Class, Controller, Dev, DevSet, Event, Ext, Frag, HostOp, Nanos, Op, OpId, Out, PageGeometry, PageNo, Quota,
    Request, Shape, Step, StepSet,
};
use destage_raid::RaidLevel;
use destage_sim::array::{
    ArrayExperiment, ArrayResult, DeviceSetup, FixedTimes, SetupError, StepTimes, VirtualDevice, VirtualExecutor,
};
use destage_sim::ssd::{Ftl, ModernDesign, Ssd, SsdConfig, SsdShape, StartState};

use crate::arrays::{self, PAGE, Random, answered, host, run, small_ssd, ssd_shape, submit_at};

/// Records the notices that a controller received.
#[derive(Debug, Default)]
struct Heard {
    collectors: DevSet,
    /// When, which device and element, whether it begins, how many blocks.
    collections: Vec<(Nanos, Dev, u16, bool, u32)>,
    near: Vec<(Nanos, Dev)>,
}

/// Writes pages to the first device, reads them from the second, and has that collect at a flush.
struct Probe {
    heard: Arc<Mutex<Heard>>,
    frags: Vec<Option<Frag>>,
    quota: Quota,
}

impl Controller for Probe {
    fn handle(&mut self, event: Event<'_>, out: &mut Out) {
        let mut heard = self.heard.lock().expect("nobody panics over it");
        match event {
            Event::Start(start) => {
                heard.collectors = start.collectors;
                out.ready();
            }
            Event::Submit(frag) => {
                let OpId(op) = out.open(Class::Internal, None, Some(frag.id));
                self.frags.resize(self.frags.len().max(op as usize + 1), None);
                self.frags[op as usize] = Some(frag);
            }
            Event::Granted(op) => {
                let frag = self.frags[op.index()].take().expect("a fragment");
                let page = frag.page;
                let step = match frag.op {
                    HostOp::Read => Step::Read { ext: Ext::new(Dev(1), page, frag.pages), dst: frag.host(0) },
                    HostOp::Flush => Step::Collect { dev: Dev(1), quota: self.quota },
                    _ => Step::Write { ext: Ext::new(Dev(0), page, frag.pages), src: frag.host(0), fua: false },
                };
                let done = out.step(op, step, StepSet::EMPTY);
                out.step(op, Step::Ack { frag: frag.id, pages: frag.pages, ok: true }, done);
                out.close(op);
            }
            Event::DeviceGc { dev, unit, on, blocks } => heard.collections.push((out.now(), dev, unit, on, blocks)),
            Event::DeviceNearGc(dev) => heard.near.push((out.now(), dev)),
            _ => {}
        }
    }
}

fn probe(devices: Vec<VirtualDevice>, quota: Quota) -> (VirtualExecutor<Probe>, Arc<Mutex<Heard>>) {
    let heard = Arc::<Mutex<Heard>>::default();
    let pages = devices[0].pages();
    let shape = Shape::new(PAGE, 512, pages, pages, pages).expect("a shape");
    let probe = Probe { heard: Arc::clone(&heard), frags: Vec::new(), quota };
    (VirtualExecutor::new(probe, shape, 64, devices, StepTimes::default()), heard)
}

/// 2 elements of 64 blocks that program a page in 200 µs.
fn config() -> SsdConfig {
    SsdConfig { transfer_ps_per_byte: 0, summary_page: false, ..small_ssd() }
}

fn ssd(config: SsdConfig) -> VirtualDevice {
    VirtualDevice::new_ssd(ssd_shape(config), StartState::Full)
}

/// Overwrites pages of an SSD; those of both elements in turn.
fn overwrite(ssd: &mut Ssd, pages: impl Iterator<Item = u32>) -> Nanos {
    pages.map(|page| ssd.program(Nanos::ZERO, PageNo(page))).max().expect("pages")
}

#[test]
fn every_collection_is_told_from_begin_to_end() {
    let config = SsdConfig { background: true, ..config() };
    let (mut executor, heard) = probe(vec![ssd(config.clone()), ssd(config)], Quota::Watermark);
    executor.note_collections();
    for tag in 0..3_000 {
        let at = Nanos(tag * 1_000_000);
        submit_at(&mut executor, at, host(tag, HostOp::Write, tag * 7 % 1024, 1));
        while executor.next_notice().is_some() {}
    }
    while executor.step() {}
    let heard = heard.lock().expect("nobody panics over it");
    let total = executor.device(Dev(0)).as_ssd().expect("an SSD").total();
    assert!(total.gc_invocations > 10, "{total:?}");
    let of = |on| heard.collections.iter().filter(move |told| told.3 == on);
    assert_eq!((of(true).count() as u64, of(false).count() as u64), (total.gc_invocations, total.gc_invocations));
    assert!(heard.collections.windows(2).all(|pair| pair[0].0 <= pair[1].0), "they are told in order of time");
    assert_eq!(of(true).map(|told| u64::from(told.4)).sum::<u64>(), total.erases, "and how many blocks they reclaim");
    let mut time = 0;
    let mut since = [None; 2];
    for &(at, dev, unit, on, _) in &heard.collections {
        assert_eq!(dev, Dev(0));
        let since: &mut Option<Nanos> = &mut since[usize::from(unit)];
        assert_eq!(since.is_some(), !on, "an element does one collection at a time");
        time += since.map_or(0, |since| at.since(since).0);
        *since = on.then_some(at);
    }
    assert_eq!((time, since), (total.gc_time.0, [None; 2]));
    // The device as a whole collects while any element does.
    let notes: Vec<_> = std::iter::from_fn(|| executor.next_collection_note()).collect();
    assert!(notes.len() <= heard.collections.len() && notes.windows(2).all(|pair| pair[0].on != pair[1].on));
}

#[test]
fn what_nobody_writes_to_collects_when_it_is_told_to_and_tells_so() {
    let mut aged = Ssd::new(ssd_shape(config()), StartState::Full);
    overwrite(&mut aged, 0..512);
    let busy = aged.idle_at();
    let free = aged.total_free_blocks();
    let (mut executor, heard) = probe(vec![ssd(config()), VirtualDevice::ssd(aged)], Quota::Blocks(3));
    submit_at(&mut executor, busy, host(0, HostOp::Flush, 0, 0));
    // Each element erases three blocks that hold nothing, one after the other.
    let erase = config().erase;
    assert_eq!(answered(&mut executor, 0), busy + Nanos(3 * erase.0));
    while executor.step() {}
    let device = executor.device(Dev(1)).as_ssd().expect("an SSD");
    assert_eq!(device.total_free_blocks(), free + 6);
    device.check().expect("it is consistent");
    let (begin, end) = (busy, busy + Nanos(3 * erase.0));
    assert_eq!(
        heard.lock().expect("nobody panics over it").collections,
        [
            (begin, Dev(1), 0, true, 3),
            (begin, Dev(1), 1, true, 3),
            (end, Dev(1), 0, false, 3),
            (end, Dev(1), 1, false, 3)
        ]
    );
    assert_eq!(executor.device_counters(Dev(1)).collects, 1);
}

#[test]
fn an_ssd_collects_no_more_than_it_gains_from() {
    for copy_back in [false, true] {
        let planes = if copy_back { 2 } else { 1 };
        let config = SsdConfig { copy_back, planes, lanes: planes, blocks_per_plane: 64 / planes, ..config() };
        let mut ssd = Ssd::new(ssd_shape(config), StartState::Full);
        assert_eq!(ssd.collect(Nanos(5), Quota::Blocks(u32::MAX)), Nanos(5), "every block is fully valid");
        assert_eq!(ssd.total().gc_invocations, 0);
        overwrite(&mut ssd, (0..1024).step_by(3));
        let before = ssd.page_states();
        ssd.collect(Nanos::ZERO, Quota::Blocks(u32::MAX));
        let (after, total) = (ssd.page_states(), ssd.total());
        assert_eq!(after.valid, before.valid);
        assert!(after.free > before.free && total.gc_invocations == 2, "{after:?} {total:?}");
        // What is outdated is left in blocks that are being written alone.
        assert!(after.invalid < 64 * 2 * u64::from(planes), "{after:?}");
        ssd.check().expect("it is consistent");
        // Far above the threshold there is nothing to do.
        overwrite(&mut ssd, (0..1024).step_by(3));
        let erases = ssd.total().erases;
        ssd.collect(Nanos::ZERO, Quota::Watermark);
        assert_eq!(ssd.total().erases, erases);
        ssd.collect(Nanos::ZERO, Quota::Blocks(2));
        assert_eq!(ssd.total().erases, erases + 4, "each element two");
    }
}

#[test]
fn what_comes_near_to_the_threshold_says_so_once() {
    // 16 of 64 blocks are free at first, and the last of the first five that are filled is followed by the tenth.
    let config = SsdConfig { reserve_bp: 2500, ..config() };
    let (mut executor, heard) = probe(vec![ssd(config.clone()).with_warning(1_600), ssd(config)], Quota::Watermark);
    let at = |tag| Nanos(tag * 1_000_000);
    for tag in 0..2 * 64 * 8 {
        submit_at(&mut executor, at(tag), host(tag, HostOp::Write, tag % 256, 1));
    }
    while executor.step() {}
    // Elements have every other page.
    let first = 2 * 64 * 5;
    assert_eq!(heard.lock().expect("nobody panics over it").near, [(at(first), Dev(0)), (at(first + 1), Dev(0))]);
}

#[test]
fn disks_and_log_blocks_are_no_collectors() {
    let log_blocks = SsdConfig { ftl: Ftl::Fast, stride: 64, ..config() };
    let fixed = VirtualDevice::fixed(FixedTimes::default(), 1024);
    let (_, heard) = probe(vec![ssd(config()), fixed, ssd(log_blocks), ssd(config())], Quota::Watermark);
    let collectors = heard.lock().expect("nobody panics over it").collectors;
    assert_eq!(collectors.iter().collect::<Vec<_>>(), [Dev(0), Dev(3)]);
}

/// A read of an element that is at work on a collection is delayed by what is left of it.
#[test]
fn requests_that_wait_for_a_collection_are_noted() {
    let mut aged = Ssd::new(ssd_shape(config()), StartState::Full);
    overwrite(&mut aged, 0..512);
    let begin = aged.idle_at();
    let (mut executor, _) = probe(vec![ssd(config()), VirtualDevice::ssd(aged)], Quota::Blocks(1));
    executor.note_collections();
    submit_at(&mut executor, begin, host(0, HostOp::Flush, 0, 0));
    submit_at(&mut executor, begin + Nanos(500_000), host(1, HostOp::Read, 900, 1));
    let done = answered(&mut executor, 1);
    assert_eq!(done, begin + Nanos(1_525_000));
    let notes: Vec<_> = std::iter::from_fn(|| executor.next_delay_note()).collect();
    assert_eq!(
        notes.iter().map(|note| (note.tag, note.at, note.waited)).collect::<Vec<_>>(),
        [(1, done, Nanos(1_000_000))]
    );
    submit_at(&mut executor, done, host(2, HostOp::Read, 901, 1));
    assert_eq!(answered(&mut executor, 2), done + Nanos(25_000));
    assert_eq!(executor.next_delay_note(), None);
}

/// Writes of a page at random places, so that each element collects when it must.
fn random_writes(pages: u64) -> Vec<Request> {
    let mut random = Random::new(7);
    let write = |i: u64| {
        let offset = random.below(pages) * PAGE;
        Request { time: Nanos(i * 2_000_000), offset, len: PAGE, volume: 0, op: Op::Write, fua: false }
    };
    (0..12_000_u64).map(write).collect()
}

fn over_ssds(level: RaidLevel, policies: &[&str]) -> ArrayExperiment {
    let mut experiment = arrays::experiment(level, 4, policies);
    experiment.member = DeviceSetup::Ssd { config: config(), start: StartState::Full };
    experiment.array.member_bytes = None;
    experiment
}

fn orders(result: &ArrayResult) -> u64 {
    result.devices.iter().map(|device| device.counters.collects).sum()
}

/// Modern drives collect in slices all the time, which is shown, and which no controller reacts to; what they are told to
/// collect is told of.
#[test]
fn modern_members_show_slices_and_tell_of_orders() {
    let page = PageGeometry::new(PAGE, 64).expect("pages");
    let drive = ModernDesign::named("pm9a3").expect("a preset").config(page);
    let config = SsdConfig { elements: 2, ..drive }.with_pages(1, page).expect("a drive");
    let mut experiment = over_ssds(RaidLevel::Raid5, &["none", "ggc+none"]);
    experiment.member = DeviceSetup::Ssd { config: config.clone(), start: StartState::Full };
    let results = run(&experiment, &random_writes(2_000));
    let [alone, together] = &results[..] else { panic!("two results") };
    assert_eq!((orders(alone), orders(together)), (0, 0));
    assert_eq!(alone.response, together.response);
    let says_so =
        |result: &ArrayResult| result.context.findings.iter().any(|finding| finding.kind == "nothing-ordered");
    assert_eq!((says_so(alone), says_so(together)), (false, true));
    for result in &results {
        let found = result.collections.clone().expect("there are SSDs");
        assert!(found.spans > 100, "{} spans", found.spans);
        assert!(found.shown.iter().all(|span| span.start < span.end), "{:?}", found.shown);
        assert!(found.overlap.mean_collecting >= Some(1.0), "{:?}", found.overlap);
    }
    let mut ssd = Ssd::new(SsdShape::new(config, page).expect("a shape"), StartState::Steady { seed: 1 });
    ssd.note_collections();
    let free = ssd.page_states().free;
    let end = ssd.collect(Nanos(5), Quota::Blocks(2));
    let mut told = Vec::new();
    ssd.take_collections(|element, collection| told.push((element.0, collection)));
    assert_eq!((told.len(), told[0].0, told[1].0), (2, 0, 1));
    assert!(told.iter().all(|(_, told)| told.start == Nanos(5) && told.end <= end && told.blocks == 2), "{told:?}");
    assert_eq!((end, ssd.total().ordered_erases), (ssd.idle_at(), 4));
    assert!(ssd.page_states().free > free);
    ssd.check().expect("it is consistent");
}

#[test]
fn whatever_the_level_members_collect_together_if_they_are_told_to() {
    for level in [RaidLevel::Raid0, RaidLevel::Raid5] {
        let results = run(&over_ssds(level, &["none", "ggc+none:quota=same", "ggc+none"]), &random_writes(2_000));
        let [alone, together, watermark] = &results[..] else { panic!("three results") };
        assert_eq!((orders(alone), alone.steps.collect), (0, 0));
        assert!(orders(together) > 30, "{level}: {} orders", orders(together));
        assert_eq!(orders(together), together.steps.collect);
        let gc_time =
            |result: &ArrayResult| result.devices.iter().map(|device| device.flash.gc_time).sum::<Option<u64>>();
        assert!(gc_time(together) > gc_time(alone), "who is told collects more");
        // Far above their thresholds the others have nothing to do.
        assert!(orders(watermark) > 0 && gc_time(watermark) <= gc_time(together));
        let of = |result: &ArrayResult| result.collections.clone().expect("there are SSDs");
        for (result, told) in [(alone, false), (together, true), (watermark, true)] {
            let found = of(result);
            let slices: u64 = found.overlap.by_members.iter().sum();
            assert_eq!(slices, result.served_time.div_ceil(found.overlap.slice));
            assert_eq!(found.reactive_rounds.is_some(), told);
            assert!(found.spans > 10 && found.shown.len() as u64 == found.spans.min(400), "{} spans", found.spans);
            let ordered: Option<u64> = result.devices.iter().map(|device| device.flash.ordered_erases).sum();
            let erases: Option<u64> = result.devices.iter().map(|device| device.flash.erases).sum();
            assert!(ordered < erases && (told || ordered == Some(0)), "{ordered:?} of {erases:?}");
            let waited = (found.delayed_requests.expect("no backlog"), found.delayed_time.expect("no backlog"));
            let mean = result.response.as_ref().and_then(|response| response.all.as_ref()).expect("writes").mean;
            assert!(waited.0 > 0 && waited.0 <= result.counters.requests);
            assert!(waited.1 > 0 && waited.1 as f64 <= mean * result.counters.requests as f64);
            assert_eq!(result.series.bins.iter().map(|bin| bin.gc_delayed).sum::<u64>(), waited.0);
        }
        assert!(together.devices.iter().any(|device| device.flash.ordered_erases > Some(0)));
        // They collect together: that is the point of it.
        let means = |result| (of(result).overlap.mean_collecting, of(result).overlap.mean_together);
        assert!(means(together).0 > means(alone).0.map(|mean| 1.5 * mean), "{:?} {:?}", means(together), means(alone));
        assert!(means(together).1 > means(alone).1.map(|mean| 2.0 * mean), "{:?} {:?}", means(together), means(alone));
    }
}

#[test]
fn all_collect_when_several_have_said_that_they_will_have_to_before_one_has_to() {
    let policies =
        ["", ":members=2", ":members=4", ":members=2:soft=0"].map(|members| format!("ggc+none:quota=same{members}"));
    let policies = policies.each_ref().map(String::as_str);
    let results = run(&over_ssds(RaidLevel::Raid5, &policies), &random_writes(2_000));
    let rounds = |result: &ArrayResult| {
        let of = result.collections.as_ref().expect("there are SSDs");
        (of.reactive_rounds.expect("it counts"), of.soft_rounds.expect("it counts"), of.proactive_rounds)
    };
    let [alone, two, four, late] = &results[..] else { panic!("four results") };
    assert!(rounds(alone).0 > 30 && rounds(alone).1 == 0, "{:?}", rounds(alone));
    assert!(rounds(two).0 == 0 && rounds(two).1 > 10, "no element comes down to its threshold: {:?}", rounds(two));
    let (reactive, soft, _) = rounds(four);
    assert!(0 < soft && 0 < reactive && reactive < rounds(alone).0, "that all have is rare: {:?}", rounds(four));
    assert_eq!(rounds(late), rounds(alone), "whose threshold is higher begins before it says so");
}

#[test]
fn members_that_cannot_be_told_are_refused_with_the_reason() {
    let mut experiment = over_ssds(RaidLevel::Raid5, &["ggc+none"]);
    experiment.check().expect("SSDs can be told");
    experiment.member = DeviceSetup::Fixed(FixedTimes::default());
    experiment.array.member_bytes = Some(1024 * PAGE);
    let error = experiment.check().expect_err("they cannot be told").to_string();
    let expected = SetupError::NoCollectors { policy: "ggc+none", device: "fixed" };
    assert_eq!(error, expected.to_string());
}
