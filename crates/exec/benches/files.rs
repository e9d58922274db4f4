//! Measures what an array of files serves, without a cache: 4 KiB at random places, read or written.
//! It runs by threads or by `io_uring`, through the page cache or past it, with one request at a time or 32.
//!
//! The members are files in the folder for temporary files (`TMPDIR`), and are written whole before the
//! measurement. A page cache can hold all of them. A direct write ends when the device has it; a buffered one
//! when the page cache has it.
//!
//! `TMPDIR=FOLDER cargo bench -p destage-exec --bench files [-- FILTER]`

use std::path::Path;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use destage_cache::{HostCacheSpec, ServedTier};
use destage_exec::{AlignedBuffer, DeviceConfig, DeviceOptions, ExistingFiles, FileExecutor, FilesConfig, IoBackend};
use destage_plan::{HostOp, HostRequest, Shape};
use destage_raid::array::ArrayConfig;
use destage_raid::{Geometry, RaidLevel};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const PAGE: u64 = 4096;
/// Pages of a member: 64 MiB.
const MEMBER: u64 = 16_384;
/// Pages of a chunk.
const CHUNK: u32 = 16;

fn files(
    level: RaidLevel,
    members: u32,
    io: IoBackend,
    direct: bool,
    folder: &Path,
) -> FileExecutor<Box<dyn ServedTier>> {
    let geometry = Geometry::new(level, level.default_layout(), members, CHUNK, MEMBER).expect("an array");
    let config = ArrayConfig { page_bytes: PAGE as u32, ..ArrayConfig::new(geometry.clone()) };
    let controller = "none".parse::<HostCacheSpec>().expect("there is one").build(&config, 0).expect("an array");
    let options = DeviceOptions { direct, ..DeviceOptions::default() };
    let device = |dev| DeviceConfig { path: folder.join(format!("member{dev}")), offset: 0, pages: MEMBER, options };
    let stripe = u64::from(CHUNK) * u64::from(geometry.data_columns());
    let files = FilesConfig {
        array: 1,
        about: String::new(),
        shape: Shape::new(PAGE, 512, stripe, stripe, geometry.data_pages()).expect("a shape"),
        depth: 256,
        devices: (0..members).map(device).collect(),
        every_write: false,
        nvram: folder.join("nvram").into(),
        spare_nvram: None,
        nv_slots: config.nv_slots,
        intents: folder.join("intents"),
        rows: MEMBER,
        members: members as usize,
        rows_per_mark: 16,
        idle_marks: 64,
        io,
        patience: FilesConfig::PATIENCE,
        device_timeout: None,
    };
    FileExecutor::create(controller, files, ExistingFiles::Overwrite).expect("an array of files")
}

/// Has so many requests served, `depth` at a time.
fn serve(
    files: &mut FileExecutor<Box<dyn ServedTier>>,
    dice: &mut Xoshiro256PlusPlus,
    op: HostOp,
    depth: u64,
    count: u64,
) {
    let pages = files.engine().shape().bytes() / PAGE;
    let (mut begun, mut ended) = (0, 0);
    let mut spare: Vec<_> = (0..depth).map(|_| AlignedBuffer::zeroed(PAGE as usize)).collect();
    while ended < count {
        while begun < count && begun - ended < depth {
            let mut data = spare.pop().unwrap_or_default();
            data.resize(PAGE as usize);
            let request = HostRequest { tag: begun, op, offset: dice.next_u64() % pages * PAGE, len: PAGE, fua: false };
            files.submit(request, data).expect("in range");
            begun += 1;
        }
        let completion = files.wait().expect("it is served").expect("it is under way");
        assert!(completion.ok);
        spare.push(completion.bytes);
        ended += 1;
    }
}

/// Writes all.
fn fill(files: &mut FileExecutor<Box<dyn ServedTier>>) {
    let (bytes, part) = (files.engine().shape().bytes(), 1 << 20);
    for (tag, offset) in (0..bytes).step_by(part).enumerate() {
        let len = (part as u64).min(bytes - offset);
        let request = HostRequest { tag: tag as u64, op: HostOp::Write, offset, len, fua: false };
        files.submit(request, vec![tag as u8; len as usize]).expect("in range");
        files.wait().expect("it is served");
    }
    let flush = HostRequest { tag: 0, op: HostOp::Flush, offset: 0, len: 0, fua: false };
    files.submit(flush, Vec::new()).expect("a flush");
    files.wait().expect("it is served");
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for (level, members) in [(RaidLevel::Raid0, 2), (RaidLevel::Raid5, 4)] {
        for (io, by) in [(IoBackend::Threads, "threads"), (IoBackend::Ring, "io_uring")] {
            for direct in [false, true] {
                let folder = tempfile::tempdir().expect("a temporary folder");
                let mut files = files(level, members, io, direct, folder.path());
                if direct && files.buffered().next().is_some() {
                    eprintln!("skipped: {level} by {by}, direct: {:?}", files.buffered().next());
                    continue;
                }
                fill(&mut files);
                let mut dice = Xoshiro256PlusPlus::seed_from_u64(1);
                let how = if direct { "direct" } else { "buffered" };
                let mut group = criterion.benchmark_group(format!("{level}:{members}/{by}/{how}"));
                group.throughput(Throughput::Elements(1));
                for (op, name) in [(HostOp::Read, "read"), (HostOp::Write, "write")] {
                    for depth in [1, 32] {
                        group.bench_function(format!("{name}/{depth}"), |bencher| {
                            bencher.iter_custom(|count| {
                                let begin = Instant::now();
                                serve(&mut files, &mut dice, op, depth, count);
                                begin.elapsed()
                            });
                        });
                    }
                }
                group.finish();
            }
        }
    }
    criterion.final_summary();
}
