//! Clients of libnbd and QEMU, which copy and compare whole disks.

use std::fs;

use super::{Served, have, run, skip};

#[test]
fn nbdinfo_sees_what_is_offered() {
    if !have("nbdinfo_sees_what_is_offered", "nbdinfo") {
        return;
    }
    let served = Served::new();
    let all = run("nbdinfo", &["--list", &served.uri("")]);
    for part in [
        "newstyle-fixed without TLS, using structured packets",
        "export=\"disk\"",
        "export=\"sectors\"",
        "export=\"frozen\"",
    ] {
        assert!(all.contains(part), "{part}:\n{all}");
    }
    let json = run("nbdinfo", &["--json", &served.uri("sectors")]);
    let field = |name: &str, value: &str| assert!(json.contains(&format!("\"{name}\": {value}")), "{name}:\n{json}");
    field("export-size", "8388608");
    field("block_size_minimum", "512");
    field("block_size_preferred", "4096");
    field("block_size_maximum", "33554432");
    for name in
        ["can_cache", "can_df", "can_fast_zero", "can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero"]
    {
        field(name, "true");
    }
    field("is_read_only", "false");
    field("is_rotational", "false");
    assert!(json.contains("base:allocation") && json.contains("destage:dirty"), "{json}");
    assert!(run("nbdinfo", &["--json", &served.uri("frozen")]).contains("\"is_read_only\": true"));
    assert_eq!(run("nbdinfo", &["--size", &served.uri("")]).trim(), "8388608");
}

#[test]
fn nbdcopy_copies_there_and_back() {
    if !have("nbdcopy_copies_there_and_back", "nbdcopy") || !have("nbdcopy_copies_there_and_back", "nbdinfo") {
        return;
    }
    let served = Served::new();
    let (from, bytes) = served.file("from", 8 << 20);
    for connections in ["1", "4"] {
        for export in ["disk", "sectors"] {
            run("nbdcopy", &["--connections", connections, "--flush", &from, &served.uri(export)]);
            let back = served.path("back");
            run("nbdcopy", &["--connections", connections, &served.uri(export), &back]);
            assert!(fs::read(&back).expect("a copy") == bytes, "{export} over {connections} connections");
        }
    }
    // What is zeroes is a hole.
    let map = run("nbdinfo", &["--map", &served.uri("disk")]);
    assert!(map.lines().filter(|line| line.contains("hole,zero")).count() > 100, "{map}");
    let dirty = run("nbdinfo", &["--map=destage:dirty", &served.uri("disk")]);
    assert_eq!(dirty.split_whitespace().collect::<Vec<_>>(), ["0", "8388608", "0"], "it was flushed");
    run("nbdcopy", &[&served.uri("disk"), &served.uri("sectors")]);
    run("nbdcopy", &[&served.uri("sectors"), &served.path("again")]);
    assert!(fs::read(served.path("again")).expect("a copy") == bytes);
}

#[test]
fn qemu_img_converts_compares_and_measures() {
    if !have("qemu_img_converts_compares_and_measures", "qemu-img") {
        return;
    }
    let served = Served::new();
    let (from, _) = served.file("from", 8 << 20);
    let uri = served.uri("sectors");
    run("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", "-W", "-m", "8", &from, &uri]);
    run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &from, &uri]);
    let back = served.path("back");
    run("qemu-img", &["convert", "-f", "raw", "-O", "raw", &uri, &back]);
    run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &from, &back]);
    let map = run("qemu-img", &["map", "--output=json", "-f", "raw", &uri]);
    assert!(map.contains("\"zero\": true") && map.contains("\"zero\": false"), "{map}");
    let bench =
        ["bench", "-f", "raw", "-w", "-c", "2000", "-d", "32", "-s", "4096", "-S", "8192", "--flush-interval=64"];
    run("qemu-img", &[&bench[..], &[&served.uri("disk")]].concat());
    run("qemu-img", &["info", "-f", "raw", &format!("nbd://127.0.0.1:{}/frozen", served.port)]);
}

#[test]
fn qemu_io_verifies_what_it_wrote() {
    if !have("qemu_io_verifies_what_it_wrote", "qemu-io") {
        return;
    }
    let served = Served::new();
    let uri = served.uri("sectors");
    let commands = [
        "write -P 0x5a 0 1M",
        "write -f -P 0xa5 1M 64k",
        "read -P 0x5a 0 1M",
        "read -P 0xa5 1M 64k",
        "write -z 4k 64k",
        "write -z -u 128k 64k",
        "discard 512k 64k",
        "flush",
        "read -P 0 4k 64k",
        "read -P 0 128k 64k",
        "read -P 0x5a 192k 64k",
        "read -P 0x5a 0 512",
        "aio_write -P 7 2M 128k",
        "aio_write -P 8 3M 128k",
        "aio_flush",
        "read -P 7 2M 128k",
        "read -P 8 3M 128k",
    ];
    let mut args = vec!["-f", "raw"];
    args.extend(commands.iter().flat_map(|command| ["-c", command]));
    args.push(&uri);
    let said = run("qemu-io", &args);
    assert!(!said.contains("failed") && !said.contains("error"), "{said}");
    let refused = run("qemu-io", &["-r", "-f", "raw", "-c", "read -P 0 0 4k", &served.uri("frozen")]);
    assert!(!refused.contains("failed"), "{refused}");
}

#[test]
fn nbd_client_lists_exports() {
    const TEST: &str = "nbd_client_lists_exports";
    if !have(TEST, "nbd-client") {
        return;
    }
    let served = Served::new();
    let listed = run("nbd-client", &["-l", "127.0.0.1", &served.port.to_string()]);
    for name in ["disk", "sectors", "frozen"] {
        assert!(listed.lines().any(|line| line.split(':').next() == Some(name)), "{name}:\n{listed}");
    }
}

#[test]
fn fio_verifies_what_it_wrote() {
    const TEST: &str = "fio_verifies_what_it_wrote";
    if !have(TEST, "fio") {
        return;
    }
    let engines = run("fio", &["--enghelp"]);
    if !engines.lines().any(|line| line.trim() == "nbd") {
        return skip(TEST, "fio has no engine nbd");
    }
    let served = Served::new();
    let uri = format!("--uri={}", served.uri("disk"));
    let job = [
        "--name=it",
        "--ioengine=nbd",
        "--rw=randwrite",
        "--bs=512-64k",
        "--size=8m",
        "--iodepth=32",
        "--verify=crc32c",
    ];
    run("fio", &[&job[..], &[&uri, "--fsync=50", "--verify_fatal=1", "--verify_state_save=0"]].concat());
}
