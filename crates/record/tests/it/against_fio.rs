//! Compares recordings with fio's own log (`write_iolog`): count, sizes, offsets, kinds and flushes. Needs root,
//! tracefs, loop devices and fio.

use std::path::Path;

use destage_plan::Op;
use destage_record::{RecordOptions, RecordSummary, RecordedMoments, RecordedRequest};
use destage_trace::{OpenOptions, TraceSource};

use crate::machine::{Loop, alone, record, skip, tool};

/// Kind, offset and length.
type Asked = (Op, u64, u64);

/// Reads the requests of an I/O log of fio, in its order.
fn logged(log: &Path) -> Vec<Asked> {
    let mut trace = destage_trace::open(log, &OpenOptions::default()).unwrap();
    let (mut all, mut batch) = (vec![], vec![]);
    loop {
        trace.next_batch(&mut batch).unwrap();
        if batch.is_empty() {
            return all;
        }
        all.extend(batch.iter().map(|r| (r.op, r.offset, r.len)));
    }
}

fn shapes(all: &[RecordedRequest]) -> Vec<Asked> {
    all.iter().map(|r| (r.request.op, r.request.offset, r.request.len)).collect()
}

/// Runs fio's jobs, records, and gives both sides; `None` if something is missing here.
fn fio(test: &str, at: RecordedMoments, jobs: &[&[&str]]) -> Option<(Vec<Asked>, Vec<Vec<Asked>>)> {
    fio_summary(test, at, |_| (), jobs).map(|(all, logs, _)| (all, logs))
}

/// Both sides and what the recording says of itself.
type Both = (Vec<Asked>, Vec<Vec<Asked>>, RecordSummary);

/// Runs as [`fio`] does, on a device that `set_up` has changed. Returns the recording's summary too.
fn fio_summary(test: &str, at: RecordedMoments, set_up: impl FnOnce(&Loop), jobs: &[&[&str]]) -> Option<Both> {
    if let Err(why) = tool("fio", &["--version"]) {
        skip(test, &why);
        return None;
    }
    let disk = Loop::new(256 << 20, &[]);
    let disk = disk.map_err(|why| skip(test, &why)).ok()?;
    set_up(&disk);
    let mut arguments = vec![
        format!("--filename={}", disk.name()),
        "--direct=1".into(),
        "--thread".into(),
        "--randrepeat=1".into(),
        "--output".into(),
        disk.file("output").to_string_lossy().into_owned(),
    ];
    for (i, job) in jobs.iter().enumerate() {
        arguments.push(format!("--name=job{i}"));
        arguments.extend(job.iter().map(|&argument| argument.to_owned()));
        arguments.push(format!("--write_iolog={}", disk.file(&format!("log{i}")).display()));
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let options = RecordOptions { at, ..RecordOptions::default() };
    let (all, summary) = record(&disk.path, &options, || {
        tool("fio", &arguments).unwrap();
    })
    .unwrap();
    let c = &summary.counts;
    assert_eq!((c.without_completion, c.without_beginning, c.failed, c.unknown, c.requeued), (0, 0, 0, 0, 0));
    assert_eq!((summary.losses.total(), summary.late, summary.strange), (0, 0, 0));
    assert!(all.iter().zip(all.iter().skip(1)).all(|(a, b)| a.request.time <= b.request.time));
    assert!(all.iter().all(|r| r.latency.is_some_and(|latency| latency.0 > 0)));
    let logs: Vec<Vec<Asked>> = (0..jobs.len()).map(|i| logged(&disk.file(&format!("log{i}")))).collect();
    assert!(logs.iter().all(|log| !log.is_empty()));
    Some((shapes(&all), logs, summary))
}

/// Returns true if fio has an engine. `fio --enghelp=NAME` succeeds even for one that it lacks.
fn has_engine(test: &str, engine: &str) -> bool {
    let engines = tool("fio", &["--enghelp"]).unwrap_or_default();
    let has = engines.lines().any(|line| line.trim() == engine);
    if !has {
        skip(test, &format!("fio has no engine {engine}"));
    }
    has
}

fn count(all: &[Asked], op: Op) -> usize {
    all.iter().filter(|shape| shape.0 == op).count()
}

#[test]
fn a_synchronous_job_is_recorded_in_its_order() {
    for at in [RecordedMoments::Issue, RecordedMoments::Queue] {
        let test = "a_synchronous_job_is_recorded_in_its_order";
        let _alone = alone();
        // Sequential writes with a flush after every fourth, then a mix of sizes and kinds at
        // random.
        let sequential = &["--ioengine=psync", "--rw=write", "--bs=4k", "--size=4m", "--fsync=4"][..];
        let mix = &[
            "--stonewall",
            "--ioengine=psync",
            "--rw=randrw",
            "--rwmixread=40",
            "--bsrange=512-64k",
            "--blockalign=512",
            "--size=64m",
            "--number_ios=3000",
            "--fdatasync=7",
        ];
        let Some((all, logs)) = fio(test, at, &[sequential, mix]) else { return };
        assert_eq!(count(&logs[0], Op::Write), 1024);
        assert!(count(&logs[0], Op::Flush) >= 255);
        assert!(count(&logs[1], Op::Read) > 1000 && count(&logs[1], Op::Flush) > 100);
        assert_eq!(all.len(), logs.concat().len());
        assert!(all == logs.concat(), "{at:?}");
    }
}

#[test]
fn deep_queues_are_recorded_without_loss() {
    let test = "deep_queues_are_recorded_without_loss";
    for (at, engine) in [
        (RecordedMoments::Issue, "libaio"),
        (RecordedMoments::Queue, "libaio"),
        (RecordedMoments::Issue, "io_uring"),
        (RecordedMoments::Queue, "io_uring"),
    ] {
        let _alone = alone();
        let engine_is = format!("--ioengine={engine}");
        let job = &[
            &engine_is[..],
            "--iodepth=8",
            "--rw=randrw",
            "--rwmixread=30",
            "--bs=4k,8k",
            "--blockalign=16k",
            "--size=128m",
            "--number_ios=3000",
        ][..];
        if !has_engine(test, engine) {
            continue;
        }
        let Some((mut all, mut logs)) = fio(test, at, &[job]) else { return };
        // Requests that are under way together may pass each other between fio's log and the
        // device.
        all.sort_unstable();
        logs[0].sort_unstable();
        assert_eq!(all.len(), logs[0].len(), "{engine}, {at:?}");
        assert!(all == logs[0], "{engine}, {at:?}");
    }
}

#[test]
fn several_jobs_with_discards_and_flushes_are_recorded() {
    let test = "several_jobs_with_discards_and_flushes_are_recorded";
    let _alone = alone();
    let job = |rw: &'static str, bs: &'static str, offset: &'static str, fsync: &'static str| {
        ["--ioengine=psync", "--size=32m", "--number_ios=1500", rw, bs, offset, fsync]
    };
    let jobs = [
        job("--rw=randwrite", "--bs=4k", "--offset=0", "--fsync=1"),
        job("--rw=write", "--bs=16k", "--offset=32m", "--fsync=3"),
        job("--rw=randtrim", "--bs=64k", "--offset=64m", "--fsync=0"),
        job("--rw=randread", "--bs=8k", "--offset=96m", "--fsync=0"),
    ];
    let jobs: Vec<&[&str]> = jobs.iter().map(|job| &job[..]).collect();
    // What is asked: the block layer makes one flush of several that come while one is under way.
    let Some((mut all, logs)) = fio(test, RecordedMoments::Queue, &jobs) else { return };
    let mut logs = logs.concat();
    for op in Op::ALL {
        assert!(count(&logs, op) > 100, "{op}");
        assert_eq!(count(&all, op), count(&logs, op), "{op}");
    }
    all.sort_unstable();
    logs.sort_unstable();
    assert!(all == logs);
}

/// `io_uring` first asks without waiting. Where the device has no free tag, or the request would be
/// split, it is told to ask again, and does so: that is one request.
#[test]
fn what_is_asked_again_is_recorded_once() {
    let test = "what_is_asked_again_is_recorded_once";
    if !has_engine(test, "io_uring") {
        return;
    }
    let _alone = alone();
    let uring = |set_up: fn(&Loop), options: &[&'static str]| {
        let job = [&["--ioengine=io_uring"], options].concat();
        fio_summary(test, RecordedMoments::Queue, set_up, &[&job])
    };
    // More are asked for in one call than there are tags: however fast the device is, none of them has begun before all
    // are asked for.
    let batches = ["--iodepth=64", "--iodepth_batch_submit=64", "--iodepth_batch_complete_min=64"];
    let deep = [&batches[..], &["--rw=randwrite", "--bs=4k", "--size=128m", "--number_ios=3000"]].concat();
    let Some((mut all, mut logs, summary)) = uring(|disk| disk.limit_tags(4), &deep) else { return };
    assert_eq!(all.len(), 3000, "{summary:?}");
    all.sort_unstable();
    logs[0].sort_unstable();
    assert!(all == logs[0]);
    assert!(summary.counts.retracted > 0, "the device was never short of tags");

    for (bs, ios) in [("--bs=512k", 256), ("--bs=4m", 32)] {
        let large = &["--iodepth=4", "--rw=write", bs, "--size=128m"];
        let Some((all, logs, summary)) = uring(|disk| disk.split_at(128), large) else { return };
        assert_eq!((count(&logs[0], Op::Write), logs[0].len()), (ios, ios));
        assert!(bs != "--bs=512k" || summary.counts.retracted > 0, "nothing was split: {:?}", summary.counts);
        // One of fio's may be several of the block layer's, but each byte is written once.
        let mut writes: Vec<Asked> = all.into_iter().filter(|shape| shape.0 == Op::Write).collect();
        writes.sort_unstable();
        let end = writes.iter().fold(0, |end, &(_, offset, len)| {
            assert_eq!(offset, end, "{bs}: {:?}", summary.counts);
            end + len
        });
        assert_eq!(end, 128 << 20);
    }
}
