//! Tests requests of a buffer to the device that no policy makes yet: channels, programs in the background,
//! and notices of collections. A buffer that follows a script makes them; the expected times are worked out
//! by hand.
//!
//! A program takes 200 µs, a read 25 µs, an erase 1.5 ms; transfers and the buffer take no time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use destage_plan::{Element, PageGeometry};
use destage_policy::buffer::{DeviceView, EvictionVeto};

use super::*;
use crate::input::FeedRequest;
use crate::ssd::{PageAllocation, SsdConfig, SsdShape, StartState};

const US: u64 = 1000;

type EmitEvictions = fn(&mut Evictions);

/// Holds notices of collections: the element, and which elements collected at that time.
type HeardCollection = Arc<Mutex<Vec<(Element, Vec<bool>)>>>;

/// Answers each access, and each end of a collection, as the script says: an access that it does
/// not mention bypasses.
#[derive(Default)]
struct ScriptedBuffer {
    accesses: VecDeque<(AccessOutcome, EmitEvictions)>,
    ends: VecDeque<EmitEvictions>,
    watches: bool,
    heard: HeardCollection,
}

impl BufferPolicy for ScriptedBuffer {
    fn grow(&mut self, _pages: u32) {}

    fn access<D: DeviceView, V: EvictionVeto>(
        &mut self,
        _: PageAccess,
        _: &D,
        _: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome {
        let Some((outcome, emit)) = self.accesses.pop_front() else { return AccessOutcome::Bypassed };
        emit(out);
        outcome
    }

    fn evict<D: DeviceView, V: EvictionVeto>(&mut self, _: &D, _: &mut V, _: &mut Evictions) -> bool {
        false
    }

    fn notify<D: DeviceView, V: EvictionVeto>(
        &mut self,
        notice: BufferNotice,
        device: &D,
        _: &mut V,
        out: &mut Evictions,
    ) {
        if let BufferNotice::GcEnd { element } = notice {
            let collecting = (0..device.elements()).map(|element| device.collecting(Element(element))).collect();
            self.heard.lock().expect("nobody panicked").push((element, collecting));
            if let Some(emit) = self.ends.pop_front() {
                emit(out);
            }
        }
    }

    fn admits(&self, _: PageAccess) -> bool {
        false
    }

    fn watches_collection(&self) -> bool {
        self.watches
    }

    fn len(&self) -> u32 {
        0
    }

    fn memory_accesses(&self) -> u64 {
        0
    }
}

/// A run, request by request.
struct ScriptedRun(BufferRun<ScriptedBuffer, Ssd>);

impl ScriptedRun {
    fn new(frames: u32, config: SsdConfig, start: StartState, buffer: ScriptedBuffer) -> Self {
        let shape = SsdShape::new(config, PageGeometry::new(4096, 4).expect("a geometry")).expect("a shape");
        let config = RunConfig {
            max_backlog: 10_000,
            capacity_pages: frames,
            pages_per_block: 4,
            flush: FlushMode::Drain,
            ..RunConfig::default()
        };
        Self(BufferRun::new(config, EvictionUnit::Block, buffer, Ssd::new(shape, start)))
    }

    /// Returns the response time of a request in µs.
    fn request(&mut self, op: Op, micros: u64, page: u32) -> u64 {
        let sum = |sim: &BufferRun<_, _>| -> u64 {
            sim.over_time.bins().iter().map(|bin| bin.read_response_sum + bin.write_response_sum).sum()
        };
        let before = sum(&self.0);
        let pages = u32::from(op != Op::Flush);
        let request = FeedRequest {
            time: Nanos(micros * US),
            bytes: 4096,
            spans_end: pages,
            op,
            fua: false,
            head_partial: false,
            tail_partial: false,
        };
        let spans = (pages > 0).then_some(PageSpan { page, pages }).into_iter().collect();
        self.0.feed(&RequestFeed { requests: vec![request], spans, pages: page + 1, ..RequestFeed::default() }, None);
        (sum(&self.0) - before) / US
    }

    fn write(&mut self, micros: u64, page: u32) -> u64 {
        self.request(Op::Write, micros, page)
    }

    fn read(&mut self, micros: u64, page: u32) -> u64 {
        self.request(Op::Read, micros, page)
    }

    /// The next access: what becomes of it, and what leaves.
    fn next(&mut self, outcome: AccessOutcome, emit: EmitEvictions) {
        self.0.buffer.accesses.push_back((outcome, emit));
    }

    /// Writes that enter without evicting.
    fn insert(&mut self, micros: u64, pages: &[u32]) {
        for &page in pages {
            self.next(AccessOutcome::Inserted, |_| {});
            assert_eq!(self.write(micros, page), 0);
        }
    }

    /// A hit upon which this leaves.
    fn leave(&mut self, micros: u64, emit: EmitEvictions) {
        self.next(AccessOutcome::Hit, emit);
        assert_eq!(self.write(micros, 0), 0);
    }

    fn host_programs(&self) -> Vec<u64> {
        self.0.device.counters().map(|c| c.host_programs).collect()
    }
}

fn ssd(elements: u32, allocation: PageAllocation) -> SsdConfig {
    SsdConfig {
        elements,
        allocation,
        planes: 1,
        lanes: 1,
        blocks_per_plane: 1 << 10,
        transfer_ps_per_byte: 0,
        summary_page: false,
        ..SsdConfig::default()
    }
}

fn empty(frames: u32, elements: u32, allocation: PageAllocation) -> ScriptedRun {
    ScriptedRun::new(frames, ssd(elements, allocation), StartState::Empty, ScriptedBuffer::default())
}

/// Single pages, in the background.
fn behind(out: &mut Evictions, kind: EvictionKind, pages: &[u32]) {
    for &page in pages {
        out.page(kind, PageNo(page));
    }
    out.in_background(0);
}

#[test]
fn pages_through_several_channels_are_programmed_at_the_same_time() {
    let mut rig = empty(3, 4, PageAllocation::Channels);
    rig.insert(0, &[0, 1, 2]);
    // Through channel 0, whose turn it is.
    assert_eq!(rig.write(0, 50), 200);
    rig.next(AccessOutcome::Inserted, |out| {
        out.spread(EvictionKind::Flush, [(PageNo(0), 1), (PageNo(1), 2), (PageNo(2), 0)].into_iter(), 3);
    });
    // Channels 1 and 2 are done at 300, channel 0 at 400, and all frames are free then.
    assert_eq!(rig.write(100, 3), 300);
    rig.next(AccessOutcome::Inserted, |_| {});
    assert_eq!(rig.write(150, 4), 250);
    // Read where they are: in channel 2, which has been idle since 300, and channel 0, busy until
    // 400.
    assert_eq!((rig.read(350, 1), rig.read(350, 2)), (25, 75));
    assert_eq!(rig.host_programs(), [2, 1, 1, 0]);
    let c = &rig.0.accounting.counters;
    assert_eq!((c.evictions, c.evicted_pages, c.dirty_pages_flushed), (3, 3, 3));
}

#[test]
fn what_is_cleaned_through_channels_stays() {
    let mut rig = empty(2, 2, PageAllocation::Channels);
    rig.insert(0, &[0, 1]);
    rig.leave(0, |out| out.spread(EvictionKind::Clean, [(PageNo(0), 1), (PageNo(1), 1)].into_iter(), 2));
    assert_eq!((rig.host_programs(), rig.0.device.busy_until(Element(1))), (vec![0, 2], Nanos(400 * US)));
    assert!(!rig.0.timing.frames.any(), "the frames are in use");
}

#[test]
fn background_programs_use_the_pauses() {
    let mut rig = empty(4, 2, PageAllocation::Static);
    rig.insert(0, &[0, 2, 4, 6]);
    assert_eq!(rig.write(0, 100), 200);
    rig.leave(10, |out| behind(out, EvictionKind::Flush, &[0, 2]));
    // The element is busy until 200; who comes until then goes first.
    assert_eq!(rig.write(150, 102), 250);
    // 400 to 600 and 600 to 800.
    assert_eq!(rig.write(1000, 104), 200);
    assert_eq!(rig.host_programs(), [5, 0]);
    // Begun at 1200 and not interrupted.
    rig.leave(1100, |out| behind(out, EvictionKind::Flush, &[4]));
    assert_eq!(rig.write(1300, 106), 300);
    // At the same time the host goes first.
    rig.leave(2000, |out| behind(out, EvictionKind::Flush, &[6]));
    assert_eq!(rig.write(2000, 108), 200);
    assert_eq!((rig.write(2100, 101), rig.host_programs()), (200, vec![8, 1]));
    // At the end of the run what is left is done, and counted.
    rig.0.finish();
    assert_eq!((rig.host_programs(), rig.0.device.busy_until(Element(0))), (vec![9, 1], Nanos(2400 * US)));
    let programs: u64 = rig.0.over_time.bins().iter().map(|bin| bin.host_programs).sum();
    assert_eq!(programs, 10);
}

#[test]
fn frames_in_the_background_are_free_when_their_page_is_programmed() {
    let mut rig = empty(1, 1, PageAllocation::Static);
    rig.insert(0, &[0]);
    rig.leave(0, |out| behind(out, EvictionKind::Flush, &[0]));
    // Done at 200, long before.
    rig.next(AccessOutcome::Inserted, |_| {});
    assert_eq!(rig.write(500, 1), 0);
    // Under way from 600 to 800.
    rig.leave(600, |out| behind(out, EvictionKind::Flush, &[1]));
    rig.next(AccessOutcome::Inserted, |_| {});
    assert_eq!(rig.write(700, 2), 100);
}

#[test]
fn the_oldest_is_no_longer_in_the_background_when_its_frame_is_needed() {
    let mut rig = empty(2, 1, PageAllocation::Static);
    rig.insert(0, &[0, 2]);
    rig.leave(0, |out| behind(out, EvictionKind::Flush, &[0, 2]));
    assert_eq!(rig.write(0, 100), 200);
    rig.next(AccessOutcome::Inserted, |_| {});
    assert_eq!(rig.write(10, 4), 390);
    assert_eq!(rig.host_programs(), [2]);
    rig.next(AccessOutcome::Inserted, |_| {});
    assert_eq!(rig.write(20, 6), 580);
}

#[test]
fn frames_of_a_group_in_the_background_are_free_together() {
    let mut rig = empty(2, 2, PageAllocation::Static);
    rig.insert(0, &[0, 1]);
    rig.leave(0, |out| {
        out.group(EvictionKind::Flush, [PageNo(0), PageNo(1)].into_iter());
        out.end_unit();
        out.in_background(0);
    });
    assert_eq!(rig.write(0, 100), 200);
    // Element 0 programs from 200 to 400, element 1 from 10 to 210.
    rig.next(AccessOutcome::Inserted, |_| {});
    assert_eq!(rig.write(10, 4), 390);
    rig.next(AccessOutcome::Inserted, |_| {});
    assert_eq!(rig.write(20, 6), 380);
}

#[test]
fn padding_in_the_background_reads_just_before_it_programs() {
    let mut rig = ScriptedRun::new(4, ssd(1, PageAllocation::Static), StartState::Full, ScriptedBuffer::default());
    rig.insert(0, &[1]);
    rig.leave(0, |out| {
        out.group(EvictionKind::Pad, [PageNo(0), PageNo(2)].into_iter());
        out.group(EvictionKind::Flush, [PageNo(1)].into_iter());
        out.end_unit();
        out.in_background(0);
    });
    rig.0.finish();
    let total = rig.0.device.total();
    assert_eq!((total.flash_reads, total.host_programs), (2, 3));
    assert_eq!(rig.0.device.busy_until(Element(0)), Nanos((2 * 25 + 3 * 200) * US));
}

#[test]
fn a_page_that_waits_is_read_from_its_frame() {
    let mut rig = ScriptedRun::new(2, ssd(1, PageAllocation::Static), StartState::Full, ScriptedBuffer::default());
    rig.insert(0, &[0]);
    rig.leave(0, |out| behind(out, EvictionKind::Flush, &[0]));
    assert_eq!(rig.write(0, 100), 200);
    assert_eq!(rig.read(10, 0), 0);
    rig.next(AccessOutcome::Inserted, |_| {});
    assert_eq!(rig.read(10, 0), 0);
    assert_eq!(rig.0.device.total().flash_reads, 0);
    // Once it is programmed it has to be read.
    assert_eq!((rig.read(1000, 0), rig.0.device.total().flash_reads), (25, 1));
}

#[test]
fn the_frame_of_a_page_that_is_being_cleaned_is_kept_until_then() {
    let mut rig = empty(1, 1, PageAllocation::Static);
    rig.insert(0, &[0]);
    rig.leave(0, |out| behind(out, EvictionKind::Clean, &[0]));
    assert_eq!(rig.write(0, 100), 200);
    rig.next(AccessOutcome::Inserted, |out| out.page(EvictionKind::Drop, PageNo(0)));
    assert_eq!(rig.write(10, 1), 390);
}

#[test]
fn an_older_version_goes_before_a_newer_one() {
    let mut rig = empty(2, 2, PageAllocation::Channels);
    rig.insert(0, &[0, 1]);
    rig.leave(0, |out| {
        out.spread(EvictionKind::Flush, [(PageNo(0), 1), (PageNo(1), 1)].into_iter(), 2);
        out.in_background(0);
    });
    // Through channel 0, whose turn it is; the older version goes through channel 1 all the same.
    assert_eq!(rig.write(0, 0), 200);
    assert_eq!((rig.host_programs(), rig.0.device.element_of(PageNo(0))), (vec![1, 1], Element(0)));
    // A page that is discarded while it waits does not come back.
    rig.request(Op::Discard, 0, 1);
    rig.0.finish();
    assert_eq!((rig.host_programs(), rig.0.device.page_states().valid), (vec![1, 2], 1));
}

#[test]
fn a_flush_does_not_leave_anything_in_the_background() {
    let mut rig = empty(2, 2, PageAllocation::Static);
    rig.insert(0, &[0, 2]);
    rig.leave(0, |out| behind(out, EvictionKind::Flush, &[0, 2]));
    rig.request(Op::Flush, 0, 0);
    assert_eq!((rig.host_programs(), rig.0.timing.last_completion), (vec![2, 0], Nanos(400 * US)));
}

/// Two elements of 16 blocks of 4 pages, 6 reserved, collection at 2 free: full, each collects two
/// blocks without a valid page, in 3 ms, before its 14th write.
fn collecting(watches: bool, ends: &[EmitEvictions]) -> ScriptedRun {
    let config =
        SsdConfig { blocks_per_plane: 16, reserve_bp: 4000, min_free_bp: 1300, ..ssd(2, PageAllocation::Static) };
    let ends = ends.iter().copied().collect();
    let mut rig =
        ScriptedRun::new(2, config, StartState::Full, ScriptedBuffer { ends, watches, ..ScriptedBuffer::default() });
    rig.insert(0, &[0, 1]);
    for (micros, element) in [(0, 0), (100, 1)] {
        for i in 0..14 {
            rig.write(micros, 2 * (i % 12) + element);
        }
        assert_eq!(rig.0.device.busy_until(Element(element)), Nanos((micros + 13 * 200 + 3000 + 200) * US));
    }
    rig
}

fn heard(rig: &ScriptedRun) -> Vec<(Element, Vec<bool>)> {
    rig.0.buffer.heard.lock().expect("nobody panicked").clone()
}

#[test]
fn the_buffer_hears_of_the_end_of_each_collection_in_time() {
    let (first, second) = ((Element(0), vec![false, true]), (Element(1), vec![false, false]));
    let mut rig = collecting(true, &[]);
    rig.request(Op::Flush, 5_599, 0);
    assert_eq!(heard(&rig), []);
    rig.request(Op::Flush, 5_600, 0);
    assert_eq!(heard(&rig), std::slice::from_ref(&first));
    rig.request(Op::Flush, 5_699, 0);
    assert_eq!(heard(&rig), std::slice::from_ref(&first));
    rig.request(Op::Flush, 60_000, 0);
    assert_eq!(heard(&rig), [first.clone(), second.clone()]);
    // Both before the same request, each as things were at its time.
    let mut rig = collecting(true, &[]);
    rig.request(Op::Flush, 60_000, 0);
    assert_eq!(heard(&rig), [first, second]);
    // Nobody asked.
    let mut rig = collecting(false, &[]);
    rig.request(Op::Flush, 60_000, 0);
    assert_eq!(heard(&rig), []);
}

#[test]
fn what_leaves_after_a_collection_waits_for_the_element() {
    let mut rig = collecting(true, &[|out| behind(out, EvictionKind::Flush, &[0])]);
    let before = rig.host_programs();
    // Ready at 5600; the element programs the write that waited for the collection until 5800, and
    // then this.
    assert_eq!(rig.write(5_900, 2), 300);
    assert_eq!(rig.host_programs(), [before[0] + 2, before[1]]);
    let c = &rig.0.accounting.counters;
    assert_eq!((c.destage_evictions, c.destage_pages_flushed, c.evictions, c.dirty_pages_flushed), (1, 1, 0, 0));
}

/// Victims that wait for a collection leave when the first of those under way has ended; without
/// one at once.
#[test]
fn what_waits_for_a_collection_leaves_after_the_first() {
    let mut rig = collecting(false, &[]);
    // Element 0 collects until 5600, element 1 until 5700, and each then programs until 200 later.
    rig.next(AccessOutcome::Inserted, |out| {
        out.page(EvictionKind::Drop, PageNo(0));
        out.after_collection(0);
    });
    assert_eq!(rig.write(3_000, 2), 2_600);
    rig.next(AccessOutcome::Inserted, |out| {
        out.page(EvictionKind::Flush, PageNo(1));
        out.after_collection(0);
    });
    assert_eq!(rig.write(3_000, 3), 5_900 + 200 - 3_000);
    rig.next(AccessOutcome::Inserted, |out| {
        out.page(EvictionKind::Flush, PageNo(3));
        out.after_collection(0);
    });
    assert_eq!(rig.write(7_000, 4), 200);
}

/// A request waited for a collection if one ended between the issue and the end of the operation
/// that it waited for longest, be it its own or that of the eviction that made room for it.
#[test]
fn requests_that_wait_for_a_collection_are_told_apart() {
    let delayed = |rig: &ScriptedRun| rig.0.over_time.bins().iter().map(|bin| bin.gc_delayed).sum::<u64>();
    let mut rig = collecting(false, &[]);
    // The 14th write of either element. Element 0 collects until 5600, element 1 until 5700.
    assert_eq!(delayed(&rig), 2);
    assert_eq!((rig.write(3_000, 2), delayed(&rig)), (5_800 + 200 - 3_000, 3));
    assert_eq!((rig.read(5_650, 1), delayed(&rig)), (5_900 + 25 - 5_650, 4));
    rig.next(AccessOutcome::Inserted, |out| out.page(EvictionKind::Flush, PageNo(1)));
    assert_eq!((rig.write(5_660, 2), delayed(&rig)), (5_925 + 200 - 5_660, 5));
    // The write from 3000 on still occupies element 0, the collection does not.
    assert_eq!((rig.write(5_700, 2), delayed(&rig)), (6_000 + 200 - 5_700, 5));
    // A hit on the page whose frame waited, and one after it has come.
    rig.next(AccessOutcome::Hit, |_| {});
    assert_eq!((rig.write(5_720, 2), delayed(&rig)), (6_125 - 5_720, 6));
    rig.next(AccessOutcome::Hit, |_| {});
    assert_eq!((rig.write(6_200, 2), delayed(&rig)), (0, 6));
    let response = rig.0.timing.result(HostModel::Open, rig.0.over_time.bins()).response;
    let count = |summary: Option<crate::measure::LatencySummary>| summary.map_or(0, |summary| summary.count);
    assert_eq!((count(response.gc_delayed), count(response.gc_undelayed)), (6, 2 + 26 + 2));
}

/// A collection that a program in the background begins is heard of like any other, before those
/// that end later.
#[test]
fn collections_of_background_programs_are_heard_of_too() {
    // 14 programs in the background of element 0 run into a collection that ends before element
    // 1's.
    let config =
        SsdConfig { blocks_per_plane: 16, reserve_bp: 4000, min_free_bp: 1300, ..ssd(2, PageAllocation::Static) };
    let buffer = ScriptedBuffer { watches: true, ..ScriptedBuffer::default() };
    let mut rig = ScriptedRun::new(1 << 10, config, StartState::Full, buffer);
    rig.insert(0, &(0..24).collect::<Vec<_>>());
    rig.leave(0, |out| behind(out, EvictionKind::Flush, &(0..24).map(|i| i / 2 * 2).step_by(2).collect::<Vec<_>>()));
    rig.leave(0, |out| behind(out, EvictionKind::Flush, &[24, 26]));
    for i in 0..14 {
        rig.write(1_000, 2 * (i % 12) + 1);
    }
    // Element 0: 14 programs, the last after a collection from 2600 on; element 1 collects from
    // 3600 to 6600.
    rig.request(Op::Flush, 60_000, 0);
    let order: Vec<_> = heard(&rig).into_iter().map(|(element, _)| element).collect();
    assert_eq!(order, [Element(0), Element(1)]);
}

/// Blocks that leave one page at a time, two side by side: every page counts, and so does each
/// block.
#[test]
fn blocks_that_leave_page_by_page_are_counted_whole() {
    let mut rig = empty(8, 2, PageAllocation::Channels);
    rig.insert(0, &[0, 1, 2, 4]);
    rig.leave(0, |out| out.spread(EvictionKind::Flush, [(PageNo(0), 0), (PageNo(4), 1)].into_iter(), 1));
    rig.leave(0, |out| out.spread(EvictionKind::Flush, [(PageNo(1), 0)].into_iter(), 0));
    rig.leave(0, |out| out.spread(EvictionKind::Flush, [(PageNo(2), 0)].into_iter(), 1));
    let c = &rig.0.accounting.counters;
    assert_eq!((c.evictions, c.evicted_pages, c.dirty_pages_flushed), (2, 4, 4));
    assert_eq!(c.eviction_sizes.iter().sum::<u64>(), 2);
}
