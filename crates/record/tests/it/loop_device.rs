//! Compares recordings with the requests that were made of a loop device. Needs root, tracefs and loop devices.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use destage_plan::Op;
use destage_record::{RecordOptions, RecordProgress, RecordedDevice, RecordedMoments, RecordedRequest, TraceRecorder};
use rustix::fs::OFlags;

use crate::machine::{Loop, alone, record, skip, tool};

/// A buffer whose part of `bytes` bytes begins at a page, as direct I/O wants it.
struct Aligned(Vec<u8>, usize);

impl Aligned {
    fn new() -> Self {
        let bytes = vec![0x5a; 2 << 20];
        let start = bytes.as_ptr().align_offset(4096);
        Self(bytes, start)
    }

    fn part(&mut self, bytes: usize) -> &mut [u8] {
        &mut self.0[self.1..self.1 + bytes]
    }
}

/// A device for reading and writing past the page cache.
fn direct(device: &Path, flags: OFlags) -> File {
    let flags = (OFlags::DIRECT | flags).bits().cast_signed();
    File::options().read(true).write(true).custom_flags(flags).open(device).unwrap()
}

/// Kind, FUA, offset and length.
type Shape = (Op, bool, u64, u64);

fn shapes(all: &[RecordedRequest]) -> Vec<Shape> {
    all.iter().map(|RecordedRequest { request: r, .. }| (r.op, r.fua, r.offset, r.len)).collect()
}

/// Checks what holds for every recording without losses.
fn is_plausible(all: &[RecordedRequest]) {
    assert!(all.iter().zip(all.iter().skip(1)).all(|(a, b)| a.request.time <= b.request.time), "times ascend");
    assert_eq!(all[0].request.time.0, 0);
    for RecordedRequest { request, latency } in all {
        let latency = latency.unwrap_or_else(|| panic!("{request:?} has no latency")).0;
        assert!((1..5_000_000_000).contains(&latency), "{request:?} took {latency} ns");
    }
}

fn device(test: &str, bytes: u64, options: &[&str]) -> Option<Loop> {
    Loop::new(bytes, options).map_err(|why| skip(test, &why)).ok()
}

#[test]
fn direct_requests_are_recorded_as_issued() {
    let test = "direct_requests_are_recorded_as_issued";
    let _alone = alone();
    let Some(disk) = device(test, 64 << 20, &[]) else { return };
    let mut buffer = Aligned::new();
    let mut expected: Vec<Shape> = vec![];
    let (all, summary) = record(&disk.path, &RecordOptions::default(), || {
        let file = direct(&disk.path, OFlags::empty());
        for i in 0..200_u64 {
            let (offset, len) = (i * 7919 % 1000 * 4096, 4096 * (1 + i % 16));
            if i % 3 == 0 {
                file.read_exact_at(buffer.part(len as usize), offset).unwrap();
                expected.push((Op::Read, false, offset, len));
            } else {
                file.write_all_at(buffer.part(len as usize), offset).unwrap();
                expected.push((Op::Write, false, offset, len));
            }
            if i % 10 == 9 {
                file.sync_data().unwrap();
                expected.push((Op::Flush, false, 0, 0));
            }
        }
        // Sector by sector, where the device has such.
        file.write_all_at(buffer.part(512), 512 * 12_345).unwrap();
        expected.push((Op::Write, false, 512 * 12_345, 512));
        drop(file);
        tool("blkdiscard", &["--force", "--offset", "1048576", "--length", "2097152", disk.name()]).unwrap();
        expected.push((Op::Discard, false, 1 << 20, 2 << 20));
        tool("blkdiscard", &["--force", "--zeroout", "--offset", "8388608", "--length", "65536", disk.name()]).unwrap();
        expected.push((Op::Write, false, 8 << 20, 64 << 10));
    })
    .unwrap();
    let c = &summary.counts;
    if c.failed == 1 {
        // A file in memory cannot be zeroed at once; the kernel then writes zeroes itself.
        expected.push((Op::Write, false, 8 << 20, 64 << 10));
    }
    assert_eq!(shapes(&all), expected);
    is_plausible(&all);
    assert_eq!((c.total(), c.write_zeroes), (expected.len() as u64, 1));
    assert_eq!(c.requests[Op::Flush as usize], 20);
    assert_eq!((summary.losses.total(), summary.gaps, summary.late, summary.strange), (0, 0, 0, 0));
    assert_eq!((c.without_completion, c.without_beginning, c.unknown), (0, 0, 0));
    assert_eq!(summary.latencies, expected.len() as u64);
}

#[test]
fn what_is_asked_is_recorded_before_it_is_split() {
    let test = "what_is_asked_is_recorded_before_it_is_split";
    let _alone = alone();
    let Some(disk) = device(test, 64 << 20, &[]) else { return };
    disk.split_at(512);
    let mut buffer = Aligned::new();
    let mut work = |expected: &mut Vec<Shape>| {
        let file = direct(&disk.path, OFlags::empty());
        // As much as a bio of pages that lie apart holds, and twice what this device takes at once.
        file.write_all_at(buffer.part(1 << 20), 0).unwrap();
        expected.push((Op::Write, false, 0, 1 << 20));
        file.sync_data().unwrap();
        expected.push((Op::Flush, false, 0, 0));
        let durable = direct(&disk.path, OFlags::DSYNC);
        durable.write_all_at(buffer.part(4096), 4096).unwrap();
        // FUA of the block layer, and the flush that a block device's O_DSYNC adds.
        expected.push((Op::Write, true, 4096, 4096));
    };
    let mut expected = vec![];
    let options = RecordOptions { at: RecordedMoments::Queue, ..RecordOptions::default() };
    let (all, summary) = record(&disk.path, &options, || work(&mut expected)).unwrap();
    let asked = shapes(&all);
    assert_eq!(asked[..expected.len()], expected);
    assert!(asked[expected.len()..].iter().all(|shape| shape.0 == Op::Flush), "{asked:?}");
    is_plausible(&all);
    assert_eq!(summary.counts.fua, 1);
    assert_eq!(summary.counts.without_beginning, 0);

    // The same as the device saw it: pieces, and a flush behind the write instead of FUA, which
    // loop devices lack.
    let (all, _) = record(&disk.path, &RecordOptions::default(), || work(&mut vec![])).unwrap();
    let issued = shapes(&all);
    is_plausible(&all);
    let writes: u64 = all.iter().filter(|r| r.request.op == Op::Write).map(|r| r.request.len).sum();
    assert_eq!(writes, expected.iter().map(|shape| shape.3).sum::<u64>());
    assert!(issued.iter().all(|&(op, fua, _, len)| len < 1 << 20 && !fua && (op == Op::Flush) == (len == 0)));
    let position = issued.iter().position(|shape| *shape == (Op::Write, false, 4096, 4096)).unwrap();
    assert_eq!(issued[position + 1].0, Op::Flush);
}

#[test]
fn a_partition_is_recorded_from_its_own_beginning() {
    let test = "a_partition_is_recorded_from_its_own_beginning";
    let _alone = alone();
    let Some(disk) = device(test, 64 << 20, &["--partscan"]) else { return };
    // A DOS table with two partitions: sectors 2048 to 34815 and 65536 to 98303.
    let mut table = [0_u8; 512];
    for (i, (start, sectors)) in [(2048_u32, 32_768_u32), (65_536, 32_768)].into_iter().enumerate() {
        let entry = &mut table[446 + 16 * i..][..16];
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&start.to_le_bytes());
        entry[12..16].copy_from_slice(&sectors.to_le_bytes());
    }
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    std::fs::write(disk.file("image.table"), table).unwrap();
    std::fs::OpenOptions::new().write(true).open(&disk.path).unwrap().write_all_at(&table, 0).unwrap();
    let _ = tool("partx", &["--update", disk.name()]);
    let part = format!("{}p1", disk.name());
    if !std::path::Path::new(&part).exists() {
        return skip(test, "the kernel, or udev, makes no partitions of loop devices here");
    }
    let mut buffer = Aligned::new();
    for at in [RecordedMoments::Issue, RecordedMoments::Queue] {
        let mut work = || {
            let open = |name: &str| direct(name.as_ref(), OFlags::empty());
            let (first, second, whole) = (open(&part), open(&format!("{}p2", disk.name())), open(disk.name()));
            first.write_all_at(buffer.part(8192), 4096).unwrap();
            second.write_all_at(buffer.part(4096), 0).unwrap();
            whole.write_all_at(buffer.part(4096), 0).unwrap();
            // Through the disk into the partition, and over the partition's beginning.
            whole.write_all_at(buffer.part(4096), (2048 + 64) * 512).unwrap();
            whole.write_all_at(buffer.part(8192), 2040 * 512).unwrap();
            first.read_exact_at(buffer.part(4096), 0).unwrap();
        };
        let options = RecordOptions { at, ..RecordOptions::default() };
        let (all, summary) = record(part.as_ref(), &options, &mut work).unwrap();
        let of_first = [
            (Op::Write, false, 4096, 8192),
            (Op::Write, false, 32_768, 4096),
            (Op::Write, false, 0, 4096),
            (Op::Read, false, 0, 4096),
        ];
        assert_eq!(shapes(&all), of_first, "{at:?}");
        assert_eq!(summary.counts.without_beginning, 0);
        is_plausible(&all);

        let (all, _) = record(&disk.path, &options, &mut work).unwrap();
        let offsets: Vec<u64> = all.iter().map(|r| r.request.offset / 512).collect();
        assert_eq!(offsets, [2056, 65_536, 0, 2112, 2040, 2048], "{at:?}");
        is_plausible(&all);
    }
}

#[test]
fn a_number_of_requests_is_an_end() {
    let test = "a_number_of_requests_is_an_end";
    let _alone = alone();
    let Some(disk) = device(test, 16 << 20, &[]) else { return };
    let mut buffer = Aligned::new();
    let options = RecordOptions { requests: Some(17), ..RecordOptions::default() };
    let (all, summary) = record(&disk.path, &options, || {
        let file = direct(&disk.path, OFlags::empty());
        for i in 0..100 {
            file.write_all_at(buffer.part(4096), i * 4096).unwrap();
        }
    })
    .unwrap();
    assert_eq!(summary.counts.total(), 17);
    let expected: Vec<Shape> = (0..17).map(|i| (Op::Write, false, i * 4096, 4096)).collect();
    assert_eq!(shapes(&all), expected);
    is_plausible(&all);
}

#[test]
fn other_devices_are_not_recorded_and_nothing_is_left_behind() {
    let test = "other_devices_are_not_recorded_and_nothing_is_left_behind";
    let _alone = alone();
    let Some(disk) = device(test, 16 << 20, &[]) else { return };
    let Some(other) = device(test, 16 << 20, &[]) else { return };
    let instances = || -> Vec<String> {
        let places = ["/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"];
        let found = places.iter().find_map(|place| std::fs::read_dir(place).ok()).unwrap();
        let names = found.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let own = format!("destage-{}-", std::process::id());
        names.filter(|name| name.starts_with(&own)).collect()
    };
    let mut buffer = Aligned::new();
    let (all, _) = record(&disk.path, &RecordOptions::default(), || {
        assert_eq!(instances().len(), 1);
        direct(&other.path, OFlags::empty()).write_all_at(buffer.part(4096), 0).unwrap();
        direct(&disk.path, OFlags::empty()).write_all_at(buffer.part(4096), 8192).unwrap();
    })
    .unwrap();
    assert_eq!(shapes(&all), [(Op::Write, false, 8192, 4096)]);
    assert_eq!(instances(), [""; 0]);
}

#[test]
fn losses_are_counted_and_nothing_is_guessed() {
    let test = "losses_are_counted_and_nothing_is_guessed";
    let _alone = alone();
    let Some(disk) = device(test, 16 << 20, &[]) else { return };
    let written = 3000;
    let options = RecordOptions { buffer_bytes: 8 << 10, ..RecordOptions::default() };
    let recorder = TraceRecorder::start(&RecordedDevice::open(&disk.path).unwrap(), &options).unwrap();
    let mut all = vec![];
    let summary = std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let (file, mut buffer) = (direct(&disk.path, OFlags::empty()), Aligned::new());
            for i in 0..written {
                file.write_all_at(buffer.part(4096), i * 4096 % (16 << 20)).unwrap();
            }
        });
        // Nobody takes anything out of the buffers meanwhile.
        let mut wait = |_: &RecordProgress| {
            while !work.is_finished() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            false
        };
        recorder.run(&mut wait, &mut |requests| {
            all.extend_from_slice(requests);
            Ok(())
        })
    })
    .unwrap();
    let c = &summary.counts;
    assert!(summary.losses.dropped > written && summary.losses.overrun == 0, "{summary:?}");
    assert_eq!(all.len() as u64, c.total());
    assert!(!all.is_empty() && c.total() < written / 2);
    // What is there is what was written, in its order; each CPU's buffer has its own beginning of
    // it.
    let offsets: Vec<u64> = all.iter().map(|r| r.request.offset).collect();
    assert_eq!(offsets[0], 0);
    assert!(offsets.is_sorted_by(|a, b| a < b), "{offsets:?}");
    assert!(shapes(&all).iter().all(|&(op, fua, _, len)| (op, fua, len) == (Op::Write, false, 4096)));
    assert_eq!(all.iter().filter(|r| r.latency.is_none()).count() as u64, c.without_completion);
}

/// The same few sectors are written again and again, so that a completion that was lost is followed
/// by one that would fit. No latency may be longer than the longest that the writer saw.
#[test]
fn no_latency_is_made_up_after_a_loss() {
    let test = "no_latency_is_made_up_after_a_loss";
    let _alone = alone();
    let Some(disk) = device(test, 16 << 20, &[]) else { return };
    let options = RecordOptions { buffer_bytes: 8 << 10, ..RecordOptions::default() };
    let recorder = TraceRecorder::start(&RecordedDevice::open(&disk.path).unwrap(), &options).unwrap();
    let mut all = vec![];
    let (summary, longest) = std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let (file, mut buffer) = (direct(&disk.path, OFlags::empty()), Aligned::new());
            let mut longest = Duration::ZERO;
            // Bursts that fill the buffers, and quiet times in which they are emptied.
            for i in 0..40_u64 {
                for j in 0..(50 + 37 * i % 300) {
                    let begun = Instant::now();
                    file.write_all_at(buffer.part(4096), j % 2 * 4096).unwrap();
                    longest = longest.max(begun.elapsed());
                }
                std::thread::sleep(Duration::from_millis(40 + 7 * i % 30));
            }
            longest
        });
        let summary = recorder.run(&mut |_: &RecordProgress| !work.is_finished(), &mut |requests| {
            all.extend_from_slice(requests);
            Ok(())
        });
        (summary.unwrap(), work.join().unwrap())
    });
    assert!(summary.losses.dropped > 0, "{summary:?}");
    let known: Vec<u64> = all.iter().filter_map(|r| r.latency).map(|latency| latency.0).collect();
    assert!(!known.is_empty() && known.len() < all.len(), "{summary:?}");
    let (found, longest) = (known.into_iter().max().unwrap_or(0), longest.as_nanos() as u64);
    assert!(found <= longest, "{found} ns, but nothing took more than {longest} ns: {summary:?}");
}
