//! The figures of volumes before an array: they add up to the run's, and asking for them changes nothing
//! else.

use destage_plan::{Nanos, Request};
use destage_raid::RaidLevel;
use destage_sim::input::{LbaOverflow, WarmupPart};
use destage_sim::measure::VolumeResult;

use crate::arrays;
use crate::mixed;

/// Everything that a trace can hold, spread over five volumes.
fn workload() -> Vec<Request> {
    let mut requests = mixed::mixed(6, 800, 4_000, Nanos(60_000_000));
    for (request, volume) in requests.iter_mut().zip([0, 0, 3, 1, 0, 2, 4, 1].into_iter().cycle()) {
        request.volume = volume;
    }
    requests
}

#[test]
fn arrays_have_the_requests_and_response_times_of_volumes() {
    let requests = workload();
    let mut experiment = arrays::experiment(RaidLevel::Raid5, 4, &["none", "write-through"]);
    experiment.replay.lba_overflow = LbaOverflow::Wrap;
    for warmup in [WarmupPart::None, WarmupPart::Requests(500)] {
        experiment.host.warmup = warmup;
        experiment.host.per_volume = false;
        let plain = arrays::run(&experiment, &requests);
        experiment.host.per_volume = true;
        for (mut r, plain) in arrays::run(&experiment, &requests).into_iter().zip(plain) {
            let found = r.volumes.take().expect("figures of volumes");
            assert_eq!(r, plain, "nothing else changes");
            let sum = |of: fn(&VolumeResult) -> u64| found.iter().map(of).sum::<u64>();
            assert_eq!((found.len() as u64, sum(|v| v.requests)), (5, r.counters.requests));
            assert_eq!(
                (sum(|v| v.host_bytes_read), sum(|v| v.host_bytes_written)),
                (r.counters.host_bytes_read, r.counters.host_bytes_written)
            );
            assert!(found.iter().all(|v| v.read_hits.or(v.pages_written).or(v.pad_pages).is_none()));
            let all = r.response.as_ref().and_then(|response| response.all.as_ref()).expect("response times");
            let of = |v: &VolumeResult| v.response.clone().expect("response times");
            assert_eq!(found.iter().map(|v| of(v).count).sum::<u64>(), all.count);
            assert_eq!(found.iter().map(|v| of(v).max).max(), Some(all.max));
            let time = found.iter().map(|v| of(v).mean * of(v).count as f64).sum::<f64>();
            assert!((time / all.count as f64 / all.mean - 1.0).abs() < 1e-9);
        }
    }
}
