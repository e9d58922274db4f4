//! Arrays that are made on block devices, and what these can do.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use destage_cache::Served;
use destage_exec::{Existing, Files, FilesConfig, FilesError, NvramPlace, ZeroingWatch};
use destage_plan::Dev;
use destage_raid::Level;
use destage_testkit::folder;

use crate::arrays::{Array, cache, member};
use crate::disks::Disks;

const MEMBERS: u8 = 4;
const CACHE: u8 = MEMBERS;
const OWN: u8 = MEMBERS + 1;
const DISK: u64 = 16 << 20;
/// Lies in pages that nothing looks at before an array is made.
const DIRT: u64 = (1 << 20) + (1 << 19);

fn array() -> Array {
    Array {
        page: 4096,
        sector: 512,
        member_pages: 1024,
        cache: cache("kdd"),
        cache_pages: 64,
        ..Array::new(Level::Raid5, MEMBERS)
    }
}

/// Makes disks for an array's devices, and one for the NVRAM alone, that hold something.
fn disks(folder: &Path, block: u64) -> Disks {
    let paths: Vec<PathBuf> = (0..=OWN).map(|dev| member(folder, dev)).collect();
    for path in &paths {
        let file = fs::File::create(path).expect("a file");
        file.set_len(DISK).and_then(|()| file.write_all_at(&[7; 4096], DIRT)).expect("room");
    }
    Disks::new(block, paths)
}

/// Returns the array's files, all on disks but the intents.
fn config(array: &Array, folder: &Path, nvram: NvramPlace) -> FilesConfig {
    let mut config = FilesConfig { nvram, ..array.files(folder) };
    for device in &mut config.devices {
        device.options.direct = true;
    }
    config
}

fn create(
    disks: &Disks,
    array: &Array,
    config: FilesConfig,
    watch: ZeroingWatch,
) -> Result<Files<Box<dyn Served>>, FilesError> {
    Files::create_watched_on(Arc::new(disks.clone()), array.controller(), config, Existing::Refuse, watch)
}

#[test]
fn disks_read_as_zeros_whatever_they_have_for_that() {
    // (holes, zeros by the kernel, directly)
    for (holes, ranges, direct) in
        [(true, true, true), (false, true, true), (false, false, true), (false, false, false)]
    {
        let what = format!("holes {holes}, zeros by the kernel {ranges}, directly {direct}");
        let (array, folder) = (array(), folder());
        let disks = disks(folder.path(), 512);
        (disks.state().holes, disks.state().ranges) = (holes, ranges);
        let mut config = config(&array, folder.path(), NvramPlace::Behind(Dev(CACHE)));
        config.devices.iter_mut().for_each(|device| device.options.direct = direct);
        let ends: Vec<u64> = config.devices.iter().map(|device| device.pages * array.page).collect();
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&told);
        let watch: ZeroingWatch = Box::new(move |progress| {
            let at = (progress.path.to_owned(), progress.done_bytes, progress.all_bytes);
            tell.lock().expect("nobody panics").push(at);
            ControlFlow::Continue(())
        });
        let files = create(&disks, &array, config, watch).unwrap_or_else(|error| panic!("{what}: {error}"));
        drop(files);
        for (dev, end) in (0..).zip(&ends) {
            let bytes = fs::read(member(folder.path(), dev)).expect("a disk");
            assert!(bytes[..*end as usize].iter().all(|byte| *byte == 0), "{what}: device {dev}");
        }
        let beside = fs::read(member(folder.path(), OWN)).expect("a disk");
        assert_eq!(beside[DIRT as usize], 7, "{what}: what is none of its devices is left alone");
        // A piece holds more than one of them.
        let all = ends.iter().sum();
        let done = (1..=ends.len()).map(|count| ends[..count].iter().sum());
        let expected: Vec<_> = (0..).zip(done).map(|(dev, done)| (member(folder.path(), dev), done, all)).collect();
        assert_eq!(*told.lock().expect("nobody panics"), expected, "{what}");
        let state = disks.state();
        // A write of the NVRAM's place may be as long as one of zeros.
        assert!(state.longest <= 1 << 20, "{what}: zeros take {} bytes of memory", state.longest);
        let kernel = if holes || !ranges { 0 } else { ends.len() as u64 + 1 };
        assert_eq!(state.ranges_made, kernel, "{what}: of the devices and the NVRAM's place");
        let writes = !holes && !ranges;
        let directly = if writes && direct { all } else { 0 };
        assert!((directly..directly + (1 << 20)).contains(&state.direct_bytes), "{what}: {}", state.direct_bytes);
        assert_eq!(state.unaligned, 0, "{what}");
    }
}
