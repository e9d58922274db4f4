//! Holds the NVRAM and the intents past the page cache against the device: what is written reaches the device in whole blocks, and nothing else does.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use destage_cache::ServedTier;
use destage_exec::{ExistingFiles, FileExecutor, FilesConfig, NvramPlace};
use destage_plan::{Dev, HostOp};
use destage_raid::RaidLevel;
use destage_raid::array::DurabilityMode;
use destage_testkit::{ExpectedContent, TestRng, data, draw, folder};

use crate::arrays::{Array, assert_holds, cache, reopen, serve};
use crate::loop_device::LoopDevice;

const CACHE: Dev = Dev(4);

fn array(name: &str, regime: DurabilityMode) -> Array {
    Array { page: 4096, sector: 512, member_pages: 64, cache: cache(name), regime, ..Array::new(RaidLevel::Raid5, 4) }
}

fn direct(array: &Array, folder: &Path, nvram: NvramPlace) -> FilesConfig {
    let mut config = FilesConfig { nvram, ..array.files(folder) };
    config.devices.iter_mut().for_each(|device| device.options.direct = true);
    config
}

/// Serves requests of all kinds, each answered before the next.
fn fill(
    files: &mut FileExecutor<Box<dyn ServedTier>>,
    content: &mut ExpectedContent,
    array: &Array,
    seed: u64,
    requests: u64,
) {
    let mut dice = TestRng::new(seed);
    for tag in 0..requests {
        let request = draw(&mut dice, &array.sizes(), tag);
        // What can be read there is another test's.
        if request.op != HostOp::Discard {
            let bytes = data(&request, array.sector);
            content.apply(&request, &bytes);
            assert!(serve(files, request, bytes).ok);
        }
    }
}

/// Whatever the device's blocks: the state is made of sectors of 512 bytes, and of larger blocks the rest is written as it was.
#[test]
fn status_counts_what_the_block_layer_writes() {
    let test = "status_counts_what_the_block_layer_writes";
    for (block, regime) in [
        (512, DurabilityMode::Flush),
        (4096, DurabilityMode::Flush),
        (512, DurabilityMode::EveryWrite),
        (4096, DurabilityMode::EveryWrite),
    ] {
        let (array, folder) = (array("kdd", regime), folder());
        let Some(nvram) = LoopDevice::new(&folder.path().join("image"), 16 << 20, block, test) else { return };
        let config = || direct(&array, folder.path(), PathBuf::from(&nvram.0).into());
        let mut files = FileExecutor::create(array.controller(), config(), ExistingFiles::Refuse).expect("a new array");
        assert!(files.buffered_state()[0].is_none(), "{:?}", files.buffered_state());
        let mut content = ExpectedContent::new(array.sizes());
        for life in 0..3 {
            // The event count of the start is written on the side.
            files.settle().expect("it comes to rest");
            let (before, counted) = (nvram.written_bytes(), files.state_traffic()[0].written_bytes);
            fill(&mut files, &mut content, &array, life, 200);
            files.settle().expect("it comes to rest");
            let counted = files.state_traffic()[0].written_bytes - counted;
            assert_eq!(nvram.written_bytes() - before, counted, "blocks of {block} bytes, life {life}");
            assert!(counted > 50_000 && counted % block == 0, "{counted} bytes in blocks of {block}");
            drop(files);
            files = reopen(|| FileExecutor::open(array.controller(), config())).expect("the array is there");
            assert_holds(&mut files, &content, "after a kill");
        }
        files.stop_clean().expect("it stops");
    }
}

/// Files of the state wherever they lie, killed and opened again.
#[test]
fn what_is_written_past_the_page_cache_is_there_after_a_kill() {
    for (nvram, name) in [
        (NvramPlace::Behind(CACHE), "kdd"),
        (PathBuf::from("nvram").into(), "kdd"),
        (NvramPlace::Behind(CACHE), "write-back"),
    ] {
        let (array, folder) = (array(name, DurabilityMode::Flush), tempfile::tempdir().expect("a folder on a disk"));
        let place = || match &nvram {
            NvramPlace::Own(name) => folder.path().join(name).into(),
            NvramPlace::Behind(dev) => NvramPlace::Behind(*dev),
        };
        let config = || direct(&array, folder.path(), place());
        let mut files = FileExecutor::create(array.controller(), config(), ExistingFiles::Refuse).expect("a new array");
        let mut content = ExpectedContent::new(array.sizes());
        for life in 0..3 {
            fill(&mut files, &mut content, &array, life, 120);
            if life % 2 == 0 {
                drop(files);
            } else {
                files.stop_clean().expect("it stops");
            }
            files = reopen(|| FileExecutor::open(array.controller(), config())).expect("the array is there");
            assert_holds(&mut files, &content, "in the next life");
        }
    }
}

#[test]
fn a_file_that_ends_within_a_block_goes_through_the_page_cache_and_says_why() {
    let test = "a_file_that_ends_within_a_block_goes_through_the_page_cache_and_says_why";
    let (array, folder) = (array("kdd", DurabilityMode::Flush), folder());
    let disk = LoopDevice::new(&folder.path().join("image"), 64 << 20, 4096, test);
    let Some((disk, mounted)) = disk.and_then(|disk| MountedDisk::new(&disk, test).map(|mounted| (disk, mounted)))
    else {
        return;
    };
    let config = || direct(&array, folder.path(), mounted.0.path().join("nvram").into());
    let mut files = FileExecutor::create(array.controller(), config(), ExistingFiles::Refuse).expect("a new array");
    let why = files.buffered_state()[0].map(ToString::to_string).expect("it goes through the page cache");
    assert!(why.ends_with("are no multiple of the device's blocks of 4096"), "{why}");
    let mut content = ExpectedContent::new(array.sizes());
    fill(&mut files, &mut content, &array, 1, 100);
    drop(files);
    let mut files = reopen(|| FileExecutor::open(array.controller(), config())).expect("the array is there");
    assert_holds(&mut files, &content, "after a kill");
    drop((files, disk));
}

/// Holds a file system on a disk, which is unmounted when dropped.
struct MountedDisk(tempfile::TempDir);

impl MountedDisk {
    fn new(disk: &LoopDevice, test: &str) -> Option<Self> {
        let folder = folder();
        let done = |command: &mut Command| command.output().is_ok_and(|done| done.status.success());
        if done(Command::new("mkfs.ext4").args(["-q", &disk.0]))
            && done(Command::new("mount").arg(&disk.0).arg(folder.path()))
        {
            return Some(Self(folder));
        }
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: cannot make and mount a file system");
        None
    }
}

impl Drop for MountedDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
