//! A file system on the service, which is killed and started again while programs write: they wait and go on. The way
//! is QEMU's storage daemon, which connects again, a file of FUSE that it exports, a loop device, ext4 or XFS.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::programs::{Daemon, apart, end, have, run, said, skip};
use super::{Array, Draws, IoMode, PATIENCE, page};

io_mode_tests! {
    a_file_system_goes_on_when_the_service_does,
    #[ignore = "run by a_file_system_goes_on_when_the_service_does, where nothing outlasts it"]
    the_service_is_killed,
}

/// A file system: how it is made, and how it is looked at without changing it.
struct System {
    name: &'static str,
    make: &'static [&'static str],
    look: &'static [&'static str],
}

const SYSTEMS: [System; 2] = [
    System { name: "ext4", make: &["mkfs.ext4", "-q", "-F"], look: &["fsck.ext4", "-f", "-n"] },
    System { name: "xfs", make: &["mkfs.xfs", "-q", "-f"], look: &["xfs_repair", "-f", "-n"] },
];

/// Names that the writer gives to files, over and over.
const NAMES: u64 = 200;

fn a_file_system_goes_on_when_the_service_does(io_mode: IoMode) {
    apart(
        "a_file_system_goes_on_when_the_service_does",
        &format!("{}::{}::the_service_is_killed", module_path!(), io_mode.module()),
    );
}

fn the_service_is_killed(io_mode: IoMode) {
    const TEST: &str = "a_file_system_goes_on_when_the_service_does";
    if !have(TEST, &["qemu-storage-daemon", "mount", "umount", "losetup"]) {
        return;
    }
    // Lives of a file system for each, and of the service within.
    let soak = std::env::var_os("DESTAGE_SOAK").is_some();
    let (caches, lives): (&[&[&str]], &[u64]) = if soak {
        let all: &[&[&str]] = &[
            &["--policy", "kdd", "--cache", "16MiB"],
            &["--policy", "kdd", "--cache", "16MiB", "--nvram", "cache-device"],
            &["--policy", "none"],
            &["--policy", "write-back", "--cache", "16MiB"],
            &["--policy", "leavo", "--cache", "16MiB", "--nvram", "cache-device"],
            &["--policy", "lawc", "--cache", "2MiB"],
        ];
        (all, &[5, 5, 5, 5])
    } else {
        (&[&["--policy", "kdd", "--cache", "16MiB"]], &[2, 1])
    };
    for settings in caches {
        for system in &SYSTEMS {
            if !have(TEST, &[system.make[0], system.look[0]]) {
                continue;
            }
            if let Err(why) = outlive(io_mode, settings, system, lives) {
                return skip(TEST, &format!("{}: {why}", system.name));
            }
        }
    }
}

/// The file that QEMU's storage daemon makes of the device, and what is mounted of it.
struct Chain {
    disk: PathBuf,
    folder: PathBuf,
    storage: Daemon,
}

impl Chain {
    /// Makes the file; why not, if this machine does not let it.
    fn new(array: &Array) -> Result<Self, String> {
        let beside = |name: &str| array.folder.path().join(name);
        let (disk, folder) = (beside("disk"), beside("files"));
        File::create(&disk).expect("a file");
        fs::create_dir_all(&folder).expect("a folder");
        let socket = array.file("nbd.sock");
        let device =
            format!("driver=nbd,node-name=n,server.type=unix,server.path={},reconnect-delay=60", socket.display());
        let export = format!("type=fuse,id=e,node-name=n,mountpoint={},writable=on", disk.display());
        let args = ["--blockdev", &device, "--export", &export];
        let storage = Daemon::start("qemu-storage-daemon", &args, &beside("storage.log"));
        let mut chain = Self { disk, folder, storage };
        let disk = &chain.disk;
        chain.storage.until(|| fs::metadata(disk).is_ok_and(|disk| disk.len() > 0))?;
        Ok(chain)
    }

    fn program(&self, command: &[&str]) -> std::process::Output {
        end(command[0], &[&command[1..], &[&self.disk.to_string_lossy()]].concat())
    }

    fn mount(&self, system: &System) -> Result<(), String> {
        let (disk, folder) = (self.disk.to_string_lossy(), self.folder.to_string_lossy());
        let mounted = end("mount", &["-t", system.name, "-o", "loop", &disk, &folder]);
        if mounted.status.success() { Ok(()) } else { Err(said(&mounted)) }
    }

    /// Takes the file system away, and with it the loop device.
    fn unmount(&self) {
        run("umount", &[&self.folder.to_string_lossy()]);
    }

    /// Ends it in order.
    fn close(mut self) {
        self.storage.terminate();
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        // Whatever of it is there; errors, as of a device that is gone, change nothing.
        self.storage.kill();
        // Not later: the loop device has to be gone before another is made of the same file.
        end("umount", &[&self.folder.to_string_lossy()]);
        end("umount", &[&self.disk.to_string_lossy()]);
    }
}

/// Keeps what the writers know.
#[derive(Default)]
struct Known {
    /// Of each name the version that is durable, and the one that was begun last.
    files: BTreeMap<u64, (u64, u64)>,
    /// Records of the journal that are durable, and those that were begun.
    records: (u64, u64),
    /// Copies of the tree that are durable.
    trees: Vec<u64>,
}

/// Keeps the state of the writers.
#[derive(Default)]
struct Writers {
    known: Mutex<Known>,
    /// Counts the acknowledged writes.
    acknowledged: AtomicU64,
    /// They stop.
    stop: AtomicBool,
    /// Errors are what is expected.
    crashed: AtomicBool,
}

impl Writers {
    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().expect("no writer has panicked")
    }

    /// Goes on until it is to stop or nothing can be written any more.
    fn go_on(&self, mut step: impl FnMut() -> io::Result<()>) {
        while !self.stop.load(Ordering::SeqCst) {
            if let Err(error) = step() {
                assert!(self.crashed.load(Ordering::SeqCst), "the file system had an error: {error}");
                return;
            }
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Writes files so that each is there, old or new, and a journal.
    fn write(&self, folder: &Path, draws: &mut Draws, version: &mut u64) {
        self.go_on(|| {
            *version += 1;
            if draws.below(3) == 0 {
                let record = self.known().records.0;
                self.known().records.1 = record + 1;
                let journal = File::options().create(true).write(true).truncate(false).open(folder.join("journal"))?;
                journal.write_all_at(&page(record)[..512], record * 512)?;
                journal.sync_data()?;
                if record == 0 {
                    File::open(folder)?.sync_all()?;
                }
                self.known().records.0 = record + 1;
                return Ok(());
            }
            let name = draws.below(NAMES);
            self.known().files.entry(name).or_default().1 = *version;
            let new = folder.join("new");
            let mut file = File::create(&new)?;
            file.write_all(&content(name, *version))?;
            file.sync_all()?;
            fs::rename(&new, folder.join(name.to_string()))?;
            File::open(folder)?.sync_all()?;
            // XFS takes a folder for synced if the file system has been shut down meanwhile, but not a file.
            file.sync_all()?;
            self.known().files.entry(name).or_default().0 = *version;
            Ok(())
        });
    }

    /// Copies a tree again and again, and removes older copies.
    fn copy(&self, folder: &Path, next: &mut u64) {
        self.go_on(|| {
            let to = |number: u64| folder.join(format!("tree{number}"));
            *next += 1;
            copy(&tree(), &to(*next))?;
            rustix::fs::syncfs(File::open(folder)?)?;
            let old = std::mem::replace(&mut self.known().trees, vec![*next]);
            old.into_iter().try_for_each(|old| fs::remove_dir_all(to(old)))?;
            // So that the other has its turn.
            std::thread::sleep(Duration::from_millis(150));
            Ok(())
        });
    }
}

/// The tree that is copied: the sources of the command line and its tests.
fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::write(&to, fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

/// Files of a tree.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Returns the content of a version of a file.
fn content(name: u64, version: u64) -> Vec<u8> {
    let bytes = 1 + Draws(version << 8 | name).below(40_000) as usize;
    (version << 8..).flat_map(|number| page(number ^ name)).take(bytes).collect()
}

/// Lives of a file system, in each of which the service is killed so often. Of two lives one ends in order, the other
/// in the middle of everything.
fn outlive(io_mode: IoMode, settings: &[&str], system: &System, lives: &[u64]) -> Result<(), String> {
    let mut array = Array::sized(io_mode, "128MiB", settings);
    array.serve(&[]);
    let mut chain = Chain::new(&array)?;
    let made = chain.program(system.make);
    assert!(made.status.success(), "{}: {}", system.name, said(&made));
    chain.mount(system)?;
    let writers = Writers::default();
    let mut draws = Draws(11);
    let (mut version, mut next) = (0, 0);
    let (mut killed, mut longest) = (0, Duration::ZERO);
    let begin = Instant::now();
    for (life, &kills) in lives.iter().enumerate() {
        let crash = life % 2 == 1;
        writers.stop.store(false, Ordering::SeqCst);
        std::thread::scope(|scope| {
            let (folder, seed) = (chain.folder.clone(), draws.below(1 << 30));
            let (version, next, writers, other) = (&mut version, &mut next, &writers, chain.folder.clone());
            scope.spawn(move || writers.write(&folder, &mut Draws(seed), version));
            scope.spawn(move || writers.copy(&other, next));
            for _ in 0..kills {
                std::thread::sleep(Duration::from_millis(100 + draws.below(700)));
                array.kill();
                killed += 1;
                std::thread::sleep(Duration::from_millis(draws.below(300)));
                let before = writers.acknowledged.load(Ordering::SeqCst);
                array.serve(&[]);
                let served = Instant::now();
                while writers.acknowledged.load(Ordering::SeqCst) == before {
                    assert!(served.elapsed() < PATIENCE, "{settings:?}, {}: nobody goes on", system.name);
                    std::thread::sleep(Duration::from_millis(5));
                }
                longest = longest.max(served.elapsed());
            }
            if crash {
                std::thread::sleep(Duration::from_millis(50 + draws.below(300)));
                writers.crashed.store(true, Ordering::SeqCst);
                array.kill();
                chain.storage.kill();
            }
            writers.stop.store(true, Ordering::SeqCst);
        });
        writers.crashed.store(false, Ordering::SeqCst);
        if crash {
            drop(chain);
        } else {
            chain.unmount();
            chain.close();
            // The file system was unmounted, which flushes.
            array.kill();
        }
        // All that follows is read from the device: no page of this life is in any memory.
        array.serve(&[]);
        chain = Chain::new(&array).expect("as before");
        if !crash {
            looks_clean(&chain, system);
        }
        chain.mount(system).unwrap_or_else(|why| panic!("{}: {why}", system.name));
        check(&chain.folder, &mut writers.known(), &format!("{settings:?}, {}, life {life}", system.name));
        if crash {
            // Mounting has replayed the journal.
            chain.unmount();
            looks_clean(&chain, system);
            chain.mount(system).expect("as before");
        }
    }
    chain.unmount();
    chain.close();
    array.stop();
    let known = writers.known();
    println!(
        "{settings:?}, {}: killed {killed} times in {:.1} s, {} acknowledgements ({} records), {} copies of the tree; on \
         again after {:.1} s at most",
        system.name,
        begin.elapsed().as_secs_f64(),
        writers.acknowledged.load(Ordering::SeqCst),
        known.records.0,
        next,
        longest.as_secs_f64()
    );
    Ok(())
}

fn looks_clean(chain: &Chain, system: &System) {
    let looked = chain.program(system.look);
    assert!(looked.status.success(), "{}: {}", system.name, said(&looked));
}

/// All that was acknowledged is there, and nothing else but what was begun.
fn check(folder: &Path, known: &mut Known, when: &str) {
    for (name, (durable, last)) in &mut known.files {
        let found = fs::read(folder.join(name.to_string()));
        let version = match &found {
            Ok(found) => (*durable..=*last).find(|version| *version > 0 && *found == content(*name, *version)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && *durable == 0 => Some(0),
            Err(_) => None,
        };
        let version = version.unwrap_or_else(|| {
            panic!("{when}: file {name} is none of versions {durable} to {last}: {:?}", found.map(|found| found.len()))
        });
        (*durable, *last) = (version, version);
    }
    let journal = fs::read(folder.join("journal")).unwrap_or_default();
    let (durable, begun) = known.records;
    for record in 0..durable {
        let place = record as usize * 512;
        let found = journal.get(place..place + 512);
        assert!(found == Some(&page(record)[..512]), "{when}: record {record} of {durable} to {begun} is not there");
    }
    for tree_number in &known.trees {
        let (from, to) = (tree(), folder.join(format!("tree{tree_number}")));
        for file in files(&from) {
            let copy = to.join(file.strip_prefix(&from).expect("it is in there"));
            let same = fs::read(&copy).is_ok_and(|copy| copy == fs::read(&file).expect("a source"));
            assert!(same, "{when}: {} is not as it was copied", copy.display());
        }
    }
    // What was cut short is made anew.
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_prefix("tree")?.parse().ok());
        if number.is_some_and(|number: u64| !known.trees.contains(&number)) {
            fs::remove_dir_all(&path).expect("a tree that was not whole");
        }
    }
}
