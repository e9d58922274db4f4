//! Tests who labels writes with their streams: the caches and the array, over drives with flexible data placement.

use destage_plan::{Nanos, Op, Request};
use destage_raid::RaidLevel;
use destage_sim::array::{ArrayExperiment, ArrayResult, DeviceSetup};
use destage_sim::ssd::{HandleIsolation, StartState};

use super::placement::placed;
use crate::arrays::{PAGE, Random, experiment, run_one};

/// Writes and reads, three of four in a tenth of the pages.
fn requests(pages: u64) -> Vec<Request> {
    let mut random = Random::new(7);
    let request = |number: u64| {
        let page = if random.below(4) > 0 { random.below(pages / 10) } else { random.below(pages) };
        let op = if random.below(3) == 0 { Op::Read } else { Op::Write };
        Request { time: Nanos(number * 1_000_000), offset: page * PAGE, len: PAGE, volume: 0, op, fua: false }
    };
    (0..20_000).map(request).collect()
}

/// Returns the streams of a device, of which something was written.
fn streams(result: &ArrayResult, device: usize) -> Vec<&str> {
    let streams = result.devices[device].streams.as_ref().expect("streams");
    let counters = &result.devices[device].counters;
    assert_eq!(streams.iter().map(|own| own.pages_written).sum::<u64>(), counters.pages_written, "{streams:?}");
    streams.iter().filter(|own| own.pages_written > 0).map(|own| own.stream.as_ref()).collect()
}

fn with_cache(policy: &str, handles: u8) -> ArrayExperiment {
    let config = placed(192 * 40, handles, HandleIsolation::Initially);
    ArrayExperiment {
        caches: vec![4096 * PAGE],
        cache_device: DeviceSetup::Ssd { config, start: StartState::Full },
        ..experiment(RaidLevel::Raid5, 5, &[policy])
    }
}

/// Ends a run when all is answered, and the counters tell what was done, so that both count alike.
#[test]
fn caches_label_what_they_write() {
    for (policy, expected) in [
        ("kdd", &["journal", "delta", "dirty", "clean"][..]),
        ("write-back", &["journal", "dirty", "clean"]),
        ("write-through", &["dirty", "clean"]),
        ("write-around", &["clean"]),
    ] {
        let result = run_one(&with_cache(policy, 8), &requests(4096));
        assert_eq!(streams(&result, 5), expected, "{policy}");
        assert!(result.devices[..5].iter().all(|member| member.streams.is_none()));
        assert!(result.context.findings.iter().all(|finding| finding.kind != "shared-handles"));
    }
    let result = run_one(&with_cache("kdd", 3), &requests(4096));
    let finding = result.context.findings.iter().find(|finding| finding.kind == "shared-handles").expect("a finding");
    assert!(finding.message.contains("share"), "{}", finding.message);
    assert!(run_one(&with_cache("kdd", 0), &requests(4096)).devices[5].streams.is_none());
}

#[test]
fn arrays_tell_data_from_parity() {
    for (level, expected) in [(RaidLevel::Raid5, &["data", "parity"][..]), (RaidLevel::Raid1, &["data"])] {
        let config = placed(192 * 40, 8, HandleIsolation::Persistently);
        let array = ArrayExperiment {
            member: DeviceSetup::Ssd { config, start: StartState::Full },
            ..experiment(level, if level == RaidLevel::Raid1 { 2 } else { 5 }, &["none"])
        };
        let result = run_one(&array, &requests(1024));
        for member in 0..result.devices.len() {
            assert_eq!(streams(&result, member), expected, "{level:?}");
        }
    }
}
