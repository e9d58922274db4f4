//! The figures of volumes: they add up to the run's for every policy and device, a small model finds the
//! same, and asking for them changes nothing else.

use std::collections::BTreeMap;

use destage_plan::{Nanos, Op, PageGeometry, Request};
use destage_policy::buffer::{EvictionUnit, info, policies};
use destage_sim::buffer::{AnalyticConfig, BufferExperiment, DeviceConfig, FlushMode, RunResult};
use destage_sim::experiment::RunResources;
use destage_sim::input::{HostModel, LbaOverflow, VolumeSelection, WarmupPart};
use destage_sim::measure::VolumeResult;
use destage_sim::ssd::{Ftl, PageAllocation, SsdConfig, StartState};

use crate::in_memory::{experiment, run, run_one, try_run};
use crate::mixed::{PAGE, mixed};

const PAGES: u64 = 4096;
const CACHES: [u64; 2] = [16 * PAGE, 300 * PAGE];

fn geometry() -> PageGeometry {
    PageGeometry::new(PAGE, 16).expect("a geometry")
}

/// Everything that a trace can hold, spread over volumes: one has most of it.
fn workload(seed: u64, volumes: u32) -> Vec<Request> {
    let mut requests = mixed(seed, PAGES / u64::from(volumes), 4_000, Nanos(60_000_000));
    for (i, request) in requests.iter_mut().enumerate() {
        let spread = (i as u32).wrapping_mul(2_654_435_761) >> 16;
        request.volume = if spread.is_multiple_of(2) { 0 } else { spread / 2 % volumes };
    }
    requests
}

fn ssd(allocation: PageAllocation, ftl: Ftl) -> DeviceConfig {
    let mut config = SsdConfig { elements: 2, planes: 2, blocks_per_plane: 96, lanes: 2, ..SsdConfig::default() };
    config.reserve_bp = 2000;
    config.allocation = allocation;
    config.ftl = ftl;
    if ftl != Ftl::Page {
        (config.summary_page, config.stride) = (false, if allocation == PageAllocation::Static { 16 } else { 1 });
    }
    DeviceConfig::Ssd(config, StartState::Full)
}

fn over(device: DeviceConfig, policies: &[&str]) -> BufferExperiment {
    let mut experiment = experiment(policies, &CACHES, geometry(), device);
    experiment.replay.lba_overflow = LbaOverflow::Compact;
    experiment.run.max_backlog = u64::MAX;
    experiment.run.flush = FlushMode::Drain;
    experiment.run.per_volume = true;
    experiment
}

fn volumes(r: &RunResult) -> &[VolumeResult] {
    r.volumes.as_deref().expect("figures of volumes")
}

fn adds_up(r: &RunResult, name: &str) {
    let (c, volumes) = (&r.counters, volumes(r));
    let sum = |of: fn(&VolumeResult) -> u64| volumes.iter().map(of).sum::<u64>();
    let of_pages = |of: fn(&VolumeResult) -> Option<u64>| {
        volumes.iter().map(|v| of(v).unwrap_or_else(|| panic!("{name}: no figure of {}", v.name))).sum::<u64>()
    };
    let ones = |of: fn(&VolumeResult) -> Option<f64>| volumes.iter().filter_map(of).sum::<f64>();
    assert_eq!(sum(|v| v.requests), c.requests, "{name}");
    assert_eq!((sum(|v| v.read_requests), sum(|v| v.write_requests)), (c.read_requests, c.write_requests), "{name}");
    assert_eq!(
        (sum(|v| v.host_bytes_read), sum(|v| v.host_bytes_written)),
        (c.host_bytes_read, c.host_bytes_written),
        "{name}"
    );
    for share in [ones(|v| v.request_share), ones(|v| v.read_share), ones(|v| v.write_share), ones(|v| v.traffic_share)]
    {
        assert!((share - 1.0).abs() < 1e-9, "{name}: {share}");
    }
    assert_eq!((of_pages(|v| v.read_pages), of_pages(|v| v.write_pages)), (c.read_pages, c.write_pages), "{name}");
    assert_eq!((of_pages(|v| v.read_hits), of_pages(|v| v.write_hits)), (c.read_hits, c.write_hits), "{name}");
    assert_eq!(
        of_pages(|v| v.pages_written),
        c.dirty_pages_flushed + c.flush_pages_flushed + c.destage_pages_flushed + c.bypassed_writes,
        "{name}"
    );
    assert_eq!(of_pages(|v| v.drained_pages), c.drain_pages_flushed, "{name}");
    let traffic = |v: &VolumeResult| v.host_bytes_read + v.host_bytes_written;
    assert!(volumes.windows(2).all(|pair| traffic(&pair[0]) >= traffic(&pair[1])), "{name}: the order");
    if r.device != "analytic" {
        assert_eq!(of_pages(|v| v.pad_pages), c.pad_reads + c.flush_pad_reads + c.destage_pad_reads, "{name}");
    }
    if let Some(ssd) = &r.ssd {
        let programs = of_pages(|v| v.pages_written) + of_pages(|v| v.pad_pages);
        assert_eq!(programs, ssd.host_programs, "{name}: what was programmed for hosts");
    }
    let answered: Vec<_> = volumes.iter().filter_map(|v| v.response.as_ref()).collect();
    match r.response.as_ref().and_then(|response| response.all.as_ref()) {
        None => assert!(answered.is_empty(), "{name}: response times without a time"),
        Some(all) => {
            assert_eq!(answered.iter().map(|response| response.count).sum::<u64>(), all.count, "{name}");
            assert_eq!(answered.iter().map(|response| response.max).max(), Some(all.max), "{name}");
            let time = answered.iter().map(|response| response.mean * response.count as f64).sum::<f64>();
            assert!((time / all.count as f64 / all.mean - 1.0).abs() < 1e-9, "{name}: mean response time");
        }
    }
}

#[test]
fn volumes_add_up_to_the_run_for_every_policy_and_device() {
    let all: Vec<_> = policies().iter().map(|policy| policy.name).collect();
    let anywhere: Vec<_> =
        policies().iter().filter(|policy| !policy.chooses_channels).map(|policy| policy.name).collect();
    let requests = workload(1, 5);
    let log_blocks = |ftl| over(ssd(PageAllocation::Static, ftl), &anywhere);
    let mut experiments = vec![
        over(DeviceConfig::None, &all),
        over(DeviceConfig::Analytic(AnalyticConfig::default()), &all),
        over(ssd(PageAllocation::Static, Ftl::Page), &anywhere),
        over(ssd(PageAllocation::Channels, Ftl::Page), &all),
        over(
            ssd(PageAllocation::Channels, Ftl::Page),
            &["gcar+lru", "gcar+bplru", "cave+fab", "cave+bplru", "gate+lru", "gcar+cave+fab", "bplru:padding=0.5"],
        ),
        log_blocks(Ftl::Bast),
        log_blocks(Ftl::Fast),
    ];
    // Volumes share pages.
    let on_ssd = over(ssd(PageAllocation::Static, Ftl::Page), &anywhere);
    let mut merged = on_ssd.clone();
    merged.replay.volumes = VolumeSelection::Merge;
    let mut wrapped = on_ssd;
    wrapped.replay.lba_overflow = LbaOverflow::Wrap;
    experiments.extend([merged, wrapped]);
    for experiment in &experiments {
        for r in run(experiment, &requests).results {
            let name = format!("{} with {:?} B over {}", r.policy, r.cache_bytes, r.device);
            adds_up(&r, &name);
            assert_eq!(volumes(&r).len(), 5, "{name}");
            let is_block =
                info(r.policy.rsplit('+').next().expect("a policy")).expect("a policy").unit == EvictionUnit::Block;
            let pads = volumes(&r).iter().all(|v| v.pad_pages.is_some());
            assert_eq!(pads, r.device != "analytic" || !is_block, "{name}: pads");
        }
    }
}

#[test]
fn warmups_and_hosts_in_a_closed_loop_do_not_matter() {
    let requests = workload(2, 4);
    for warmup in [WarmupPart::Requests(1_500), WarmupPart::Time(requests[1_000].time)] {
        for host in [HostModel::Open, HostModel::Closed { depth: 3 }] {
            for device in [DeviceConfig::None, ssd(PageAllocation::Static, Ftl::Page)] {
                let timed = device != DeviceConfig::None;
                let mut experiment = over(device, &["lru", "bplru", "none", "lb-clock"]);
                (experiment.run.warmup, experiment.run.host) = (warmup, host);
                for r in run(&experiment, &requests).results {
                    assert!(r.context.warmup_requests > 0 && (timed || r.response.is_none()));
                    adds_up(&r, &format!("{} after {warmup:?}, {host:?}", r.policy));
                }
            }
        }
    }
}

#[test]
fn asking_changes_nothing_else() {
    let requests = workload(3, 3);
    for device in [DeviceConfig::None, ssd(PageAllocation::Static, Ftl::Page)] {
        let asked = over(device, &["lru", "clock", "fab", "bplru", "lb-clock", "none"]);
        let mut plain = asked.clone();
        plain.run.per_volume = false;
        let mut results = run(&asked, &requests).results;
        assert!(results.iter().all(|r| volumes(r).len() == 3));
        for r in &mut results {
            r.volumes = None;
        }
        assert_eq!(results, run(&plain, &requests).results);
        let threads = RunResources { threads: 3, memory_bytes: 1 << 30, stop: None };
        let parallel = try_run(&asked, threads, &std::sync::Arc::new(requests.clone())).expect("an experiment");
        assert_eq!(parallel.results, run(&asked, &requests).results);
    }
}

/// A run with one volume has no figures but the run's own.
#[test]
fn the_only_volume_is_the_run() {
    let requests = workload(4, 1);
    let mut experiment = over(ssd(PageAllocation::Static, Ftl::Page), &["lru"]);
    experiment.caches.truncate(1);
    let r = run_one(&experiment, &requests);
    let [only] = volumes(&r) else { panic!("one volume") };
    assert_eq!((only.name.as_str(), only.volume, only.volumes, only.traffic_share), ("0", Some(0), 1, Some(1.0)));
    assert_eq!(only.hit_ratio, r.hit_ratio);
    let all = r.response.as_ref().and_then(|response| response.all.as_ref()).expect("response times");
    let own = only.response.as_ref().expect("response times");
    assert_eq!((own.count, own.max), (all.count, all.max));
    for (own, all) in [(own.p50, all.p50), (own.p99, all.p99), (own.p99_9, all.p99_9)] {
        assert!((own as f64 / all as f64 - 1.0).abs() < 0.01, "{own} and {all}: two significant digits");
    }
}

/// Counts a volume's events in the model: read and write hits, pages written, pages drained.
type Model = BTreeMap<u32, [u64; 4]>;

/// A list of pages from the most to the least recently used, each with who wrote it last.
fn lru(requests: &[Request], capacity: usize, merged: bool) -> Model {
    let mut list: Vec<((u32, u64), Option<u32>)> = Vec::new();
    let mut model = Model::new();
    for request in requests {
        let counts = *model.entry(request.volume).or_default();
        model.insert(request.volume, counts);
        let write = match request.op {
            Op::Read => false,
            Op::Write => true,
            Op::Flush | Op::Discard => continue,
        };
        let pages =
            if request.len == 0 { 0..0 } else { request.offset / PAGE..(request.offset + request.len).div_ceil(PAGE) };
        let of = |page| (if merged { 0 } else { request.volume }, page);
        if write {
            // Those held already are the volume's from the request's beginning on.
            for (page, writer) in &mut list {
                if pages.clone().any(|p| of(p) == *page) && writer.is_some() {
                    *writer = Some(request.volume);
                }
            }
        }
        for page in pages.map(of) {
            let at = list.iter().position(|(held, _)| *held == page);
            let mut writer = None;
            if let Some(at) = at {
                model.entry(request.volume).or_default()[usize::from(write)] += 1;
                writer = list.remove(at).1;
            } else if list.len() == capacity
                && let Some((_, Some(writer))) = list.pop()
            {
                model.entry(writer).or_default()[2] += 1;
            }
            list.insert(0, (page, if write { Some(request.volume) } else { writer }));
        }
    }
    for writer in list.iter().filter_map(|(_, writer)| *writer) {
        model.entry(writer).or_default()[3] += 1;
    }
    model
}

#[test]
fn a_small_model_of_lru_finds_the_same() {
    for (seed, way) in [VolumeSelection::Each, VolumeSelection::Merge].into_iter().enumerate() {
        let requests: Vec<_> =
            workload(10 + seed as u64, 4).into_iter().filter(|request| request.op != Op::Discard).collect();
        for capacity in [3, 40, 500] {
            let mut experiment = over(DeviceConfig::None, &["lru"]);
            (experiment.caches, experiment.replay.volumes) = (vec![capacity * PAGE], way.clone());
            experiment.run.flush = FlushMode::Ignore;
            let r = run_one(&experiment, &requests);
            let found: Model = volumes(&r)
                .iter()
                .map(|v| {
                    let counts = [v.read_hits, v.write_hits, v.pages_written, v.drained_pages];
                    (v.volume.expect("few volumes") as u32, counts.map(|count| count.expect("a buffer")))
                })
                .collect();
            assert_eq!(
                found,
                lru(&requests, capacity as usize, way == VolumeSelection::Merge),
                "{capacity} pages, {way:?}"
            );
        }
    }
}

/// One volume of several keeps its number.
#[test]
fn the_volume_that_takes_part_is_told_by_its_number() {
    let mut experiment = over(DeviceConfig::None, &["lru"]);
    experiment.caches.truncate(1);
    experiment.replay.volumes = VolumeSelection::Only("#2".parse().expect("a choice"));
    let r = run_one(&experiment, &workload(5, 4));
    assert_eq!(volumes(&r).iter().map(|v| v.volume).collect::<Vec<_>>(), [Some(2)]);
    adds_up(&r, "the third volume");
}
