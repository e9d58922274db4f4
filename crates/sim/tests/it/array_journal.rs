//! Arrays without an NVRAM: what would be in it goes to a journal on the cache device.

use destage_plan::{Dev, Nanos, Request};
use destage_raid::RaidLevel;
use destage_sim::array::{
    ArrayExperiment, ArrayHost, ArrayResult, DeviceInjection, DeviceSetup, FixedTimes, InjectionKind,
};
use destage_sim::input::HostModel;

use crate::arrays::{PAGE, experiment, mixed, run_one};
use crate::in_memory::write;

/// A device that takes so many microseconds for a page, and nothing else.
fn fixed(read: u64, write: u64) -> DeviceSetup {
    DeviceSetup::Fixed(FixedTimes { read: Nanos(read * 1_000), write: Nanos(write * 1_000), ..FixedTimes::default() })
}

fn journaled(policy: &str, pages: u64) -> ArrayExperiment {
    let mut experiment = experiment(RaidLevel::Raid5, 4, &[policy]);
    (experiment.member, experiment.cache_device) = (fixed(1, 1), fixed(1, 100));
    experiment.caches = vec![256 * PAGE];
    experiment.service.nv_slots = 16;
    experiment.service.journal = Some(pages * PAGE);
    experiment
}

/// Writes of a page each, of rows of their own, so many microseconds apart. A stripe has four rows, and twelve pages.
fn apart(count: u64, micros: u64) -> Vec<Request> {
    (0..count).map(|at| write(at * micros, at / 4 * 12 + at % 4, 1)).collect()
}

fn written(result: &ArrayResult) -> u64 {
    result.devices.last().expect("the cache device").counters.pages_written
}

#[test]
fn steps_wait_for_the_journal_and_share_its_next_page() {
    let experiment = journaled("write-around", 64);
    // The first has a page of the journal to itself; the two that come meanwhile share the next.
    let result = run_one(&experiment, &[write(0, 0, 1), write(10, 48, 1), write(20, 96, 1)]);
    assert_eq!((result.nvram.journal_writes, written(&result)), (2, 2));
    let longest = result.response.as_ref().and_then(|response| response.write.as_ref()).expect("writes").max;
    assert!((190_000..200_000).contains(&longest), "{longest}: of the second, until both pages are there");
    let through_nvram = ArrayExperiment {
        service: destage_sim::array::ArrayService { journal: None, ..experiment.service },
        ..experiment
    };
    let result = run_one(&through_nvram, &[write(0, 0, 1), write(10, 48, 1), write(20, 96, 1)]);
    assert_eq!((result.nvram.journal_writes, written(&result)), (0, 0));
}

/// One step at a time takes a page each, and another for all that holds whenever half of the circle is written.
#[test]
fn what_holds_is_written_again_before_the_circle_closes() {
    let pages = 160;
    let mut experiment = journaled("write-around", pages);
    experiment.service.open_rows = 1 << 20;
    let result = run_one(&experiment, &apart(500, 1_000));
    let steps = result.steps.intent + result.steps.nv_commit;
    assert!(steps >= 500, "{steps}");
    let (mut since, mut all) = (0, 0);
    for _ in 0..steps {
        let again = since + 1 > pages / 2;
        since = if again { 2 } else { since + 1 };
        all += 1 + u64::from(again);
    }
    assert_eq!((result.nvram.journal_writes, written(&result)), (all, all));
}

/// Nothing that is staged is needed after a start: in memory it costs nothing.
#[test]
fn deltas_in_memory_are_not_in_the_journal() {
    let requests = mixed(7, 1_500, 400, 2_000_000);
    let closed = ArrayHost { host: HostModel::Closed { depth: 1 }, ..journaled("kdd", 1 << 14).host };
    let run = |policy| run_one(&ArrayExperiment { host: closed, ..journaled(policy, 1 << 14) }, &requests);
    let (nvram, memory) = (run("kdd:ways=64"), run("kdd:ways=64:staged-in=memory"));
    assert!(memory.steps.hold > 0 && memory.cache_nv_slots < nvram.cache_nv_slots);
    // Each delta has a page of the journal to itself, if one request is under way at a time.
    let (staged, spared) = (memory.steps.hold, nvram.nvram.journal_writes - memory.nvram.journal_writes);
    assert!(spared > staged / 3, "{staged} {:?} {:?}", memory.nvram, nvram.nvram);
    for result in [nvram, memory] {
        let pages = result.cache.as_ref().expect("a cache").pages;
        let causes = pages.read_fills + pages.write_fills + pages.delta_writes + pages.meta_writes;
        assert_eq!(written(&result), causes + result.nvram.journal_writes);
    }
}

#[test]
fn what_cannot_be_journaled_is_refused() {
    let error = |experiment: &ArrayExperiment| experiment.check().expect_err("it cannot be").to_string();
    let mut none = journaled("none", 64);
    none.caches.clear();
    assert!(error(&none).contains("nvram.on = cache-device: policy = none has no cache on a device"));
    let small = error(&journaled("write-around", 16));
    assert!(small.contains("nvram.journal = 65536 B") && small.contains("it takes at least"), "{small}");
    let mut failing = journaled("kdd", 1 << 14);
    failing.injections = vec![DeviceInjection { at: Nanos(1), dev: Dev(4), kind: InjectionKind::Fail }];
    assert!(error(&failing).contains("it has the journal that stands in for the NVRAM"));
}
