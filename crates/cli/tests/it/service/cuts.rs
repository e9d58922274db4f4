//! The power fails: members, the cache's device, NVRAM and intents lose what they were not told to make durable, all at once.
//! Each is the file of an `nbdkit` that keeps what is written in memory until it is flushed, and is killed with the service.
//! The NVRAM lies in a file of its own, or on the cache's device.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::crashes::Known;
use super::programs::{Daemon, apart, end, have, skip};
use super::{Array, Draws, IoMode};

io_mode_tests! {
    what_was_flushed_outlives_the_power,
    #[ignore = "run by what_was_flushed_outlives_the_power, where nothing outlasts it"]
    the_power_fails,
}

/// The caches, and what their devices are for: of none, of parity that is late, of all that is newest, of reads.
const CACHES: [&str; 4] = ["kdd", "leavo", "write-back", "write-through"];

/// Pages that are written, of 1536; more than fit into the cache.
const PAGES: usize = 384;
/// Places among an array's devices.
const CACHE: usize = 4;
const INTENTS: usize = 5;
/// Clients that write at the same time.
const WRITERS: usize = 3;

/// Arrays of each cache, and how often the power fails for each; many more with `DESTAGE_SOAK`.
fn rounds() -> (u64, u64) {
    if std::env::var_os("DESTAGE_SOAK").is_some() { (5, 25) } else { (1, 2) }
}

fn what_was_flushed_outlives_the_power(io_mode: IoMode) {
    apart("what_was_flushed_outlives_the_power", &format!("{}::{}::the_power_fails", module_path!(), io_mode.module()));
}

/// An array whose devices lose their power.
struct Powered {
    array: Array,
    devices: Vec<Device>,
}

/// A file that is kept by an `nbdkit`, which keeps the newest of it in memory.
struct Device {
    /// Names the place where the device is mounted.
    mount: PathBuf,
    /// Names the file of its durable content.
    file: PathBuf,
    socket: PathBuf,
    /// The one that keeps it, and the one that makes a file of it.
    power: Option<(Daemon, Option<Daemon>)>,
}

impl Device {
    /// Takes the place of an array's device.
    fn instead(array: &Array, name: &str) -> Self {
        let beside = |kind: &str| array.folder.path().join(format!("{name}.{kind}"));
        let device = Self { mount: beside("mount"), file: beside("file"), socket: beside("sock"), power: None };
        fs::create_dir(&device.mount).expect("a folder");
        fs::rename(array.file(name), &device.file).expect("the array has it");
        symlink(device.mount.join("disk"), array.file(name)).expect("a link");
        device
    }

    fn start_keeping(&mut self) {
        drop(fs::remove_file(&self.socket));
        let (socket, file) = (self.socket.display().to_string(), format!("file={}", self.file.display()));
        let args = ["-f", "-U", &socket, "--filter=cache", "file", &file, "cache=writeback"];
        self.power = Some((Daemon::start("nbdkit", &args, &self.socket.with_extension("kept")), None));
    }

    fn start_showing(&mut self) -> Result<(), String> {
        let (keeper, shower) = self.power.as_mut().expect("it is kept");
        keeper.until(|| UnixStream::connect(&self.socket).is_ok())?;
        let (disk, uri) = (self.mount.join("disk"), format!("nbd+unix:///?socket={}", self.socket.display()));
        let args = [&*disk.to_string_lossy(), &uri];
        *shower = Some(Daemon::start("nbdfuse", &args, &self.socket.with_extension("shown")));
        Ok(())
    }

    fn wait(&mut self) -> Result<(), String> {
        let (_, shower) = self.power.as_mut().expect("it is kept");
        shower.as_mut().expect("it is shown").until(|| self.mount.join("disk").exists())
    }

    /// Cuts the power of the device.
    fn cut(&mut self) {
        let Some((mut keeper, shower)) = self.power.take() else { return };
        // What is not flushed dies with this one.
        keeper.kill();
        drop(shower);
        end("umount", &["--lazy", &self.mount.to_string_lossy()]);
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.cut();
    }
}

impl Powered {
    fn new(io_mode: IoMode, cache: &str, on_cache: bool) -> Self {
        let nvram: &[&str] = if on_cache { &["--nvram", "cache-device"] } else { &[] };
        let array = Array::new(io_mode, &[&["--policy", cache, "--cache", "1MiB"], nvram].concat());
        let names = ["member0", "member1", "member2", "member3", "cache", "intents", "nvram"];
        let names = &names[..names.len() - usize::from(on_cache)];
        let devices = names.iter().map(|name| Device::instead(&array, name)).collect();
        Self { array, devices }
    }

    /// The power comes back.
    fn up(&mut self) -> Result<(), String> {
        self.devices.iter_mut().for_each(Device::start_keeping);
        self.devices.iter_mut().try_for_each(Device::start_showing)?;
        self.devices.iter_mut().try_for_each(Device::wait)
    }

    /// The power fails, for the service and all devices at once.
    fn cut(&mut self) {
        self.array.service.as_mut().expect("it is served").kill().expect("it is there");
        self.devices.iter_mut().filter_map(|device| device.power.as_mut()).for_each(|(keeper, _)| keeper.cut());
        self.devices.iter_mut().for_each(Device::cut);
        self.array.kill();
    }

    /// The NVRAM, which lay on the cache's device, has a file from now on. The intents are made anew with it, whose
    /// length the file of an `nbdkit` does not let anybody set.
    fn move_nvram(&mut self) {
        self.lose(INTENTS);
        let at = self.array.file("array.toml");
        let text = fs::read_to_string(&at).expect("a description");
        let moved = text.replace("on = \"cache-device\"", "slots = \"nvram\"");
        assert_ne!(moved, text);
        fs::write(at, moved).expect("a description");
    }

    /// A device is not there any more.
    fn lose(&mut self, number: usize) {
        self.devices[number].cut();
        let name = self.devices[number].socket.with_extension("");
        fs::remove_file(self.array.file(&name.file_name().expect("a name").to_string_lossy())).expect("a link");
    }
}

fn the_power_fails(io_mode: IoMode) {
    const TEST: &str = "what_was_flushed_outlives_the_power";
    if !have(TEST, &["nbdkit", "nbdfuse", "umount"]) {
        return;
    }
    let mut draws = Draws(5);
    let (arrays, cuts) = rounds();
    for (of, cache) in (0..).zip(CACHES) {
        let (mut powered, mut durable, mut recoveries) = (0, 0, 0);
        for nth in 0..arrays {
            let on_cache = (of + nth) % 2 == 1;
            let mut disks = Powered::new(io_mode, cache, on_cache);
            let mut known = Known::new(PAGES, 4);
            for cut in 0..=cuts {
                let on = if on_cache { ", NVRAM on its device" } else { "" };
                let when = format!("{cache}{on}, array {nth}, after {cut} cuts");
                if let Err(why) = disks.up() {
                    assert!(cut == 0 && nth == 0, "{when}: the devices are there no more: {why}");
                    return skip(TEST, &format!("no files of nbdkits: {why}"));
                }
                disks.array.serve(&[]);
                if cut > 0 && draws.below(4) == 0 {
                    // While what the last one left is put right.
                    std::thread::sleep(Duration::from_millis(draws.below(12)));
                    disks.cut();
                    recoveries += 1;
                    disks.up().expect("as before");
                    disks.array.serve(&[]);
                }
                known.check(&mut disks.array.client(), &when);
                if cut == cuts {
                    break;
                }
                let seeds: Vec<u64> = (0..WRITERS).map(|_| draws.below(1 << 30)).collect();
                let deadline = Duration::from_millis(100 + draws.below(300));
                let mut clients: Vec<_> = seeds.iter().map(|_| disks.array.client()).collect();
                let logs: Vec<_> = std::thread::scope(|scope| {
                    let known = &known;
                    let writers = clients.iter_mut().zip(seeds).enumerate();
                    let writers: Vec<_> = writers
                        .map(|(nth, (client, seed))| scope.spawn(move || known.write(client, seed, nth, WRITERS)))
                        .collect();
                    std::thread::sleep(deadline);
                    disks.cut();
                    writers.into_iter().map(|writer| writer.join().expect("it ends with the connection")).collect()
                });
                durable += logs.into_iter().map(|log| known.note(log)).sum::<u64>();
                powered += 1;
            }
            // Parity and cache are right as well: each device in turn can be done without, after an end in order.
            let status = disks.array.status();
            assert_eq!(status["array"]["state"], "serving", "no device was blamed for the cuts: {status}");
            disks.array.stop();
            let lost = draws.below(4) as usize;
            for number in [CACHE, lost] {
                disks.lose(number);
                if number == CACHE && on_cache {
                    disks.move_nvram();
                }
                disks.array.serve(&[]);
                known.check(&mut disks.array.client(), &format!("{cache}, array {nth}, without {number}"));
                disks.array.stop();
            }
        }
        assert!(durable > 0, "{cache}: nothing was written durably between cuts");
        println!("{cache}: {powered} cuts and {recoveries} more of recoveries, {durable} pages known to be durable");
    }
}
