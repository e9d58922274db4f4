//! Neighbouring reads and writes of one turn, merged, with what can go wrong with them: over the recording with errors and
//! short counts, over the kernel's ring, and over loop devices, whose commands the kernel counts.

use std::path::PathBuf;

use destage_cache::ServedTier;
use destage_exec::{
    BadBytes, DeviceTraffic, ExecutorFault, ExistingFiles, FileExecutor, FilesConfig, FilesError, IoBackend, IoFault,
};
use destage_plan::{DevSet, HostOp, HostRequest};
use destage_raid::RaidLevel;
use destage_testkit::{data, folder};

use crate::arrays::{self, Array, read_all, serve};
use crate::filled_array::FilledArray;
use crate::loop_device::LoopDevice;

/// Puts neighbours on the same member: chunks of a page, over which a request of many pages comes round again and again.
fn striped(level: RaidLevel, members: u8) -> Array {
    Array { chunk: 1, depth: 32, ..Array::over(IoBackend::Ring, level, members) }
}

fn merges(files: &FileExecutor<Box<dyn ServedTier>>) -> [u64; 4] {
    let sum = |of: fn(&DeviceTraffic) -> u64| files.traffic().map(|traffic| of(&traffic)).sum();
    [sum(|of| of.reads), sum(|of| of.read_merges), sum(|of| of.writes), sum(|of| of.write_merges)]
}

/// Reads all of an array with a bad sector in the middle of what one member is asked for. Returns how many of its pages were
/// made anew.
fn bad_pages_of_a_merged_read(slip: Option<ExecutorFault>) -> u64 {
    let mut filled = FilledArray::new(striped(RaidLevel::Raid5, 4));
    filled.os.plant(slip);
    filled.spoil(0, 6, BadBytes::UntilWritten);
    assert!(filled.holds(), "every byte is served");
    filled.rest();
    assert!(merges(&filled.files)[1] > 0, "reads were merged");
    filled.corrected()
}

#[test]
fn a_bad_sector_in_a_merged_read_costs_one_page() {
    assert_eq!(bad_pages_of_a_merged_read(None), 1);
    // The planted fault: whoever believes an error of all parts makes them all anew.
    assert!(bad_pages_of_a_merged_read(Some(ExecutorFault::MergedErrorOfAll)) > 1);
}

/// Each result that goes to the wrong part is seen at once by whoever reads again.
#[test]
fn planted_faults_of_merged_reads_are_seen() {
    let slips =
        [ExecutorFault::MergedShort, ExecutorFault::MergedErrorOfFirst, ExecutorFault::MergedExchanged].map(Some);
    for slip in slips.into_iter().chain([None]) {
        let mut filled = FilledArray::new(striped(RaidLevel::Raid5, 4));
        filled.spoil(0, 6, BadBytes::UntilWritten);
        filled.os.plant(slip);
        let is_seen = (0..8).any(|_| !filled.holds());
        assert_eq!(is_seen, slip.is_some(), "{slip:?}");
    }
}

#[test]
fn no_room_for_a_part_stops_the_array_and_costs_nothing_else() {
    for operations in 0..24 {
        let mut filled = FilledArray::new(striped(RaidLevel::Raid5, 4));
        let len = 12 * filled.array.page;
        filled.os.fail_after(operations, IoFault::NoRoom);
        let request = HostRequest { tag: 1, op: HostOp::Write, offset: 0, len, fua: false };
        let bytes = data(&request, filled.array.sector);
        filled.files.submit(request, bytes.clone()).expect("in range");
        let error = loop {
            match filled.files.poll() {
                Ok(Some(_)) => break None,
                Ok(None) => {}
                Err(error) => break Some(error),
            }
        };
        let was_struck = !filled.os.take_fault();
        if was_struck && error.is_none() {
            // What is done behind the answer fails then.
            assert!((0..10_000).any(|_| filled.files.poll().is_err()), "operation {operations}: somebody hears of it");
        }
        assert!(!matches!(error, Some(FilesError::Stopped)));
        let mut again = filled.again();
        assert_eq!(again.lost(), DevSet::EMPTY, "operation {operations}: no member is lost");
        // Answered or not, the write comes again, and all is there.
        assert!(again.write(0, len).ok && again.holds(), "operation {operations}");
    }
}

/// Writes and reads neighbours over the kernel's ring; what it is asked for together is one command.
#[test]
fn neighbours_are_one_command_of_the_kernel() {
    let Some(io) = arrays::ring() else { return };
    for level in [RaidLevel::Raid0, RaidLevel::Raid5] {
        let array = Array { page: 4096, sector: 512, io, member_pages: 256, ..striped(level, 4) };
        let folder = folder();
        let mut files = array.create(folder.path());
        files.settle().expect("it is ready");
        let len = array.sizes().stripe * 4096 * 16;
        let request = |tag, op| HostRequest { tag, op, offset: 0, len, fua: op == HostOp::Write };
        let bytes = data(&request(1, HostOp::Write), 512);
        let before = merges(&files);
        assert!(serve(&mut files, request(1, HostOp::Write), bytes.clone()).ok);
        let written = merges(&files);
        assert!(*serve(&mut files, request(2, HostOp::Read), Vec::new()).bytes == *bytes, "{level}");
        let read = merges(&files);
        // Each member writes 16 pages in a row, and reads as many as hold data.
        let pages = if level == RaidLevel::Raid0 { 64 } else { 48 };
        let (writes, write_merges) = (written[2] - before[2], written[3] - before[3]);
        assert_eq!(writes + write_merges, 64, "{level}: {writes} and {write_merges}");
        let (reads, read_merges) = (read[0] - written[0], read[1] - written[1]);
        assert_eq!(reads + read_merges, pages, "{level}: {reads} and {read_merges}");
        assert!(writes < 32 && reads < 32, "{level}: {writes} writes and {reads} reads");
        assert!(read_all(&mut files)[..len as usize] == bytes[..], "{level}");
    }
}

/// Compares with what the kernel counts, whose own merging has less to do.
#[test]
fn status_counts_what_reaches_the_device() {
    let test = "files_merging::status_counts_what_reaches_the_device";
    let Some(io) = arrays::ring() else { return };
    let folder = folder();
    let devices: Vec<_> = (0..4)
        .map_while(|dev| LoopDevice::new(&folder.path().join(format!("image{dev}")), 4 << 20, 512, test))
        .collect();
    if devices.len() < 4 {
        return;
    }
    let array = Array { page: 4096, sector: 512, io, member_pages: 256, ..striped(RaidLevel::Raid0, 4) };
    let config = {
        let mut config: FilesConfig = array.files(folder.path());
        for (device, disk) in config.devices.iter_mut().zip(&devices) {
            (device.path, device.options.direct) = (PathBuf::from(&disk.0), true);
        }
        config
    };
    let mut files = FileExecutor::create(array.controller(), config, ExistingFiles::Refuse).expect("a new array");
    files.settle().expect("it is ready");
    let kernel =
        || devices.iter().map(LoopDevice::commands).reduce(|one, two| std::array::from_fn(|at| one[at] + two[at]));
    let (before, counted) = (kernel().expect("four devices"), merges(&files));
    for tag in 0..32 {
        let request = HostRequest { tag, op: HostOp::Write, offset: tag * (64 << 10), len: 64 << 10, fua: false };
        assert!(serve(&mut files, request, data(&request, 512)).ok);
        assert!(serve(&mut files, HostRequest { op: HostOp::Read, ..request }, Vec::new()).ok);
    }
    files.settle().expect("it comes to rest");
    let (after, now) = (kernel().expect("four devices"), merges(&files));
    let kernel: Vec<_> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    let counted: Vec<_> = now.iter().zip(counted).map(|(now, before)| now - before).collect();
    // 16 pages a request, four for each member, which the kernel need not merge any more.
    assert_eq!(counted, [128, 384, 128, 384]);
    assert_eq!(kernel, [128, 0, 128, 0], "reads, merged ones, writes, merged ones");
}
