//! Others' clients, which copy, compare, measure and verify whole devices: libnbd's, QEMU's, fio, nbd-client.

use std::fs;

use super::programs::{end, have, run, said, skip};
use super::{Array, IoMode, page};

io_mode_tests! {
    nbdinfo_sees_what_is_offered,
    nbdcopy_copies_there_and_back,
    qemu_img_converts_compares_and_measures,
    qemu_io_verifies_what_it_wrote,
    fio_verifies_what_it_wrote,
    nbd_client_lists_the_export,
}

/// Lists the arrays that are served to other programs.
const SERVED: [&[&str]; 2] = [&["--policy", "kdd", "--cache", "1MiB"], &["--policy", "write-back", "--cache", "1MiB"]];

/// Bytes of the arrays: three of four members of 2 MiB.
const BYTES: usize = 6 << 20;

/// An array that is served, and where.
fn served(io_mode: IoMode, settings: &[&str], more: &[&str]) -> (Array, String) {
    let mut array = Array::new(io_mode, settings);
    array.serve(more);
    let uri = format!("nbd+unix:///?socket={}", array.file("nbd.sock").display());
    (array, uri)
}

/// A file as long as the array that is no zeroes, with some zeroes between.
fn image(array: &Array) -> (String, Vec<u8>) {
    let bytes: Vec<u8> =
        (0..BYTES as u64 / 4096).flat_map(|at| if at / 40 % 5 == 2 { vec![0; 4096] } else { page(at + 1) }).collect();
    let path = array.file("image");
    fs::write(&path, &bytes).expect("a file");
    (path.display().to_string(), bytes)
}

fn nbdinfo_sees_what_is_offered(io_mode: IoMode) {
    if !have("nbdinfo_sees_what_is_offered", &["nbdinfo"]) {
        return;
    }
    for settings in SERVED {
        let (mut array, uri) = served(io_mode, settings, &[]);
        assert_eq!(run("nbdinfo", &["--size", &uri]).trim(), BYTES.to_string());
        let json = run("nbdinfo", &["--json", &uri]);
        let field = |name: &str, value: &str| assert!(json.contains(&format!("\"{name}\": {value}")), "{name}: {json}");
        field("export-size", &BYTES.to_string());
        field("block_size_minimum", "1");
        field("block_size_preferred", "4096");
        field("block_size_maximum", &(64 << 20).to_string());
        for name in ["can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero", "can_fast_zero", "can_cache"] {
            field(name, "true");
        }
        for name in ["is_read_only", "is_rotational"] {
            field(name, "false");
        }
        assert!(json.contains("base:allocation"), "{json}");
        assert!(json.contains("raid5:4"), "it says what it is: {json}");
        let map = run("nbdinfo", &["--map", &uri]);
        let extents: Vec<Vec<&str>> = map.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(extents, [["0", &BYTES.to_string(), "0", "data"]], "{map}");
        let map = run("nbdinfo", &["--map=destage:state", &uri]);
        let extents: Vec<Vec<&str>> = map.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(extents, [["0", &BYTES.to_string(), "0"]], "{map}");
        array.stop();
        array.serve(&["--read-only", "--name", "disk"]);
        let all = run("nbdinfo", &["--list", "--json", &uri]);
        assert!(all.contains("\"export-name\": \"disk\"") && all.contains("\"is_read_only\": true"), "{all}");
        array.stop();
    }
}

fn nbdcopy_copies_there_and_back(io_mode: IoMode) {
    if !have("nbdcopy_copies_there_and_back", &["nbdcopy"]) {
        return;
    }
    for settings in SERVED {
        for connections in ["1", "4"] {
            let (mut array, uri) = served(io_mode, settings, &[]);
            let (from, bytes) = image(&array);
            run("nbdcopy", &["--connections", connections, "--threads", connections, "--flush", &from, &uri]);
            // It was flushed: the end of the process costs nothing.
            array.kill();
            array.serve(&[]);
            let back = array.file("back").display().to_string();
            run("nbdcopy", &["--connections", connections, "--threads", connections, &uri, &back]);
            assert!(fs::read(back).expect("a copy") == bytes, "{settings:?} over {connections} connections");
            let came = array.status()["clients"]["came"].as_u64();
            assert!(came >= connections.parse().ok(), "as many connections as were asked for: {came:?}");
            array.stop();
        }
    }
}

fn qemu_img_converts_compares_and_measures(io_mode: IoMode) {
    if !have("qemu_img_converts_compares_and_measures", &["qemu-img"]) {
        return;
    }
    for settings in SERVED {
        let (mut array, uri) = served(io_mode, settings, &[]);
        let (from, _) = image(&array);
        let back = array.file("back").display().to_string();
        run("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", "-W", "-m", "8", &from, &uri]);
        run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &from, &uri]);
        run("qemu-img", &["convert", "-f", "raw", "-O", "raw", &uri, &back]);
        run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &from, &back]);
        let bench = |more: &[&str]| {
            let all = ["bench", "-f", "raw", "-c", "2000", "-d", "32", "-s", "4096", "-S", "12288", "--pattern=65"];
            run("qemu-img", &[&all[..], more, &[&uri]].concat());
        };
        let count = |array: &Array, kind: &str| {
            let status = array.status();
            let count = |field: &str| status["requests"][kind][field].as_u64().expect("a count");
            assert_eq!(count("failed"), 0, "{status}");
            count("count")
        };
        let flushes = count(&array, "flushes");
        bench(&["-w", "--flush-interval=64"]);
        assert!(count(&array, "flushes") >= flushes + 2000 / 64);
        bench(&["-w", "--flush-interval=32", "--no-drain"]);
        let reads = count(&array, "reads");
        bench(&[]);
        assert!(count(&array, "reads") >= reads + 2000);
        assert!(count(&array, "writes") >= 4000);
        let mut page = [0; 4096];
        array.client().read(12288, &mut page).expect("a read");
        assert!(page == [65; 4096], "{settings:?}: what was written last is there");
        array.stop();
    }
}

fn qemu_io_verifies_what_it_wrote(io_mode: IoMode) {
    if !have("qemu_io_verifies_what_it_wrote", &["qemu-io"]) {
        return;
    }
    let qemu_io = |array: &Array, uri: &str, commands: &[&str]| {
        let mut args = vec!["-t", "writeback", "-d", "unmap", "-f", "raw"];
        args.extend(commands.iter().flat_map(|command| ["-c", command]));
        args.push(uri);
        let output = end("qemu-io", &args);
        let said = said(&output);
        let fine = output.status.success() && !said.contains("failed") && !said.contains("error");
        assert!(fine, "{}: {said}\n{}", output.status, array.log());
    };
    // What the cache does in the background differs from time to time.
    for settings in SERVED.repeat(4) {
        let (mut array, uri) = served(io_mode, settings, &[]);
        qemu_io(
            &array,
            &uri,
            &[
                "write -P 0x5a 0 1M",
                "write -f -P 0xa5 1M 64k",
                "read -P 0x5a 0 1M",
                "read -P 0xa5 1M 64k",
                "write -z 4k 64k",
                "write -z -u 128k 64k",
                "write -z -f 300k 4k",
                // No whole page is in it.
                "write -z 399872 4k",
                "discard 512k 64k",
                "discard 700k 512",
                "flush",
                "read -P 0 4k 64k",
                "read -P 0 128k 64k",
                "read -P 0 300k 4k",
                "read -P 0x5a 304k 85k",
                "read -P 0 399872 4k",
                "read -P 0x5a 403968 4k",
                "read -P 0x5a 192k 64k",
                "read -P 0x5a 0 512",
                // What a discard covers keeps its content or reads as zeroes; beside it nothing changes.
                "read -P 0x5a 511k 1k",
                "read -P 0x5a 576k 100k",
                "write -P 0x11 512k 64k",
                "read -P 0x11 512k 64k",
                "aio_write -P 7 2M 128k",
                "aio_write -f -P 8 3M 128k",
                "aio_write -z 4M 128k",
                "aio_flush",
                "read -P 7 2M 128k",
                "read -P 8 3M 128k",
                "read -P 0 4M 128k",
                // Not of whole pages.
                "write -P 0x21 5120k 512",
                "write -f -P 0x22 5243392 1536",
                "read -P 0x21 5120k 512",
                "read -P 0x22 5243392 1536",
                "read -P 0 5244928 2k",
                // Nor of whole sectors.
                "write -P 0x31 5300001 7",
                "write -f -P 0x32 5300500 1100",
                "write -z 5300600 600",
                "discard 5300001 3",
                "read -P 0x31 5300001 7",
                "read -P 0 5300000 1",
                "read -P 0x32 5300500 100",
                "read -P 0 5300600 600",
                "read -P 0x32 5301200 400",
            ],
        );
        // What was written with FUA or flushed outlives the process.
        array.kill();
        array.serve(&[]);
        qemu_io(
            &array,
            &uri,
            &[
                "read -P 0xa5 1M 64k",
                "read -P 0 300k 4k",
                "read -P 0 128k 64k",
                "read -P 0x5a 192k 64k",
                "read -P 8 3M 128k",
                "read -P 0x22 5243392 1536",
            ],
        );
        array.stop();
        array.serve(&["--read-only"]);
        let refused = run("qemu-io", &["-r", "-f", "raw", "-c", "read -P 0xa5 1M 64k", &uri]);
        assert!(!refused.contains("failed"), "{refused}");
        array.stop();
    }
}

/// Verifies writes with fio: many requests in flight over several connections, and each read must be what was
/// written.
///
/// Debian's packages of the reference implementation have no `nbd-tester-client`; this is as hard as its integrity
/// test.
fn fio_verifies_what_it_wrote(io_mode: IoMode) {
    const TEST: &str = "fio_verifies_what_it_wrote";
    if !have(TEST, &["fio"]) {
        return;
    }
    if !run("fio", &["--enghelp"]).lines().any(|line| line.trim() == "nbd") {
        return skip(TEST, "fio has no engine nbd");
    }
    for settings in SERVED {
        let (mut array, uri) = served(io_mode, settings, &[]);
        let uri = format!("--uri={uri}");
        let verified = [
            "--name=it",
            "--ioengine=nbd",
            "--iodepth=32",
            "--numjobs=4",
            "--size=1536k",
            "--offset_increment=1536k",
            "--group_reporting",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_state_save=0",
            &uri,
        ];
        for job in [
            &["--rw=randwrite", "--bs=4k", "--loops=4"][..],
            &["--rw=randwrite", "--bs=512-64k", "--bs_unaligned=0", "--blockalign=512", "--fsync=50"],
            &["--rw=randrw", "--rwmixread=30", "--bs=4k", "--verify_backlog=64", "--fsync=100", "--loops=3"],
            &["--rw=write", "--bs=128k", "--end_fsync=1"],
        ] {
            run("fio", &[&verified[..], job].concat());
        }
        // What was written last, read by the next life.
        array.kill();
        array.serve(&[]);
        run("fio", &[&verified[..], &["--rw=write", "--bs=128k", "--verify_only"]].concat());
        let status = array.status();
        for kind in ["reads", "writes", "flushes"] {
            assert_eq!(status["requests"][kind]["failed"], 0, "{status}");
        }
        array.stop();
    }
}

fn nbd_client_lists_the_export(io_mode: IoMode) {
    const TEST: &str = "nbd_client_lists_the_export";
    if !have(TEST, &["nbd-client"]) {
        return;
    }
    let mut array = Array::new(io_mode, &["--policy", "none"]);
    let socket = array.file("nbd.sock").display().to_string();
    array.serve(&["--tcp", "127.0.0.1:0", "--socket", &socket, "--name", "disk"]);
    let status = array.status();
    let uris = status["uris"].as_array().expect("where it is");
    let port = uris.iter().find_map(|uri| uri.as_str()?.strip_prefix("nbd://127.0.0.1:")?.strip_suffix("/disk"));
    let listed = run("nbd-client", &["-l", "127.0.0.1", port.expect("a port")]);
    assert!(listed.lines().any(|line| line.split(':').next() == Some("disk")), "{listed}");
    array.stop();
}
