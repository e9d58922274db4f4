//! Devices that hang while an array is served: a member is the file of a FUSE server that is stopped by a signal.

use std::fs;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::fuse_files::FuseFile;
use super::{Array, IoMode, PATIENCE, page};

io_mode_tests! {
    a_member_that_hangs_is_lost_and_the_service_ends,
    a_member_that_the_level_needs_is_waited_for,
    status_names_who_is_slow,
}

/// Bounds what takes as long as a device may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Serves an array of which member 1 can hang, and writes all of its first stripes.
fn hanging(io_mode: IoMode, timeout: &str, lost: bool) -> Option<(Array, FuseFile)> {
    let mut array = Array::new(io_mode, &["--policy", "none"]);
    let member = FuseFile::over("members that hang", &array.file("member1"), "")?;
    let description = fs::read_to_string(array.file("array.toml")).expect("a description");
    // A server of QEMU 7.2 corrupts writes that are made at the same time.
    let changed = description
        .replace("\"member1\"", "\"member1.fuse\"")
        .replace("device-timeout = \"30s\"", &format!("device-timeout = \"{timeout}\""))
        .replace("depth = 256", "depth = 1");
    assert!(["member1.fuse", "depth = 1\n", timeout].iter().all(|part| changed.contains(part)), "{description}");
    fs::write(array.file("array.toml"), changed).expect("a description");
    if lost {
        fs::remove_file(array.file("member0")).expect("a member");
    }
    array.serve(&[]);
    let mut client = array.client();
    for number in 0..192 {
        client.write(number * 4096, &page(number), false).expect("a write");
    }
    client.flush().expect("a flush");
    Some((array, member))
}

/// Writes a page with what it has, and reads it; says whether that could be done. What is read is right.
fn access(array: &Array, number: u64) -> bool {
    let mut client = array.client();
    let written = client.write(number * 4096, &page(number), false).is_ok();
    let mut bytes = vec![0; 4096];
    let read = client.read(number * 4096, &mut bytes).is_ok();
    assert!(!read || bytes == page(number), "page {number}");
    read && written
}

/// Returns what `destage status` tells people, in one line: it is broken as wide as a terminal is.
fn told(array: &Array) -> String {
    let text = String::from_utf8_lossy(&array.command("status", &[]).stdout).into_owned();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn member_1(status: &Value) -> &Value {
    &status["array"]["devices"][1]
}

/// Waits until nothing is served any more. The kernel keeps the process, with nothing of the array but the device's file,
/// until it has an answer for what it was asked.
fn await_end(array: &Array) {
    let begin = Instant::now();
    for socket in ["nbd.sock", "control.sock"] {
        while UnixStream::connect(array.file(socket)).is_ok() {
            assert!(begin.elapsed() < LIMIT, "it does not end: {}", array.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn terminate(array: &Array) {
    let id = array.service.as_ref().expect("it is served").id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill is there").success());
}

fn a_member_that_hangs_is_lost_and_the_service_ends(io_mode: IoMode) {
    let Some((mut array, member)) = hanging(io_mode, "1s", false) else { return };
    member.hang();
    let begin = Instant::now();
    for number in 0..192 {
        assert!(access(&array, number), "the others answer for page {number}");
    }
    assert!((Duration::from_secs(1)..LIMIT).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    let status = array.status();
    assert_eq!((&status["array"]["state"], &member_1(&status)["answers"]), (&"degraded".into(), &false.into()));
    let log = array.log();
    let line = format!("error: member 1 is lost: {}: no answer for 1 s", member.path().display());
    assert!(log.contains(&line), "{line}: {log}");
    let mut client = array.client();
    client.write(0, &page(0), true).expect("it is written without the member");
    drop(client);
    // Whatever is still asked of the member.
    let stopped = array.command("stop", &[]);
    assert!(stopped.status.success(), "{} {}", String::from_utf8_lossy(&stopped.stderr), array.log());
    await_end(&array);
    member.go_on();
    let mut service = array.service.take().expect("it was served");
    assert!(service.wait().expect("it ends").success(), "{}", array.log());
    // It answers again, and has missed a write.
    array.serve(&[]);
    let status = array.status();
    let error = member_1(&status)["error"].as_str().unwrap_or_default();
    assert!(error.contains("missed writes"), "{status}");
    assert!((0..192).all(|number| access(&array, number)));
    array.stop();
}

fn a_member_that_the_level_needs_is_waited_for(io_mode: IoMode) {
    let Some((mut array, member)) = hanging(io_mode, "1s", true) else { return };
    assert_eq!(array.status()["array"]["state"], "degraded");
    member.hang();
    let begin = Instant::now();
    let served: Vec<u64> = (0..192).step_by(16).filter(|number| access(&array, *number)).collect();
    assert!(begin.elapsed() < PATIENCE && served.len() < 12, "what needs it fails: {served:?}");
    let status = array.status();
    assert_eq!((&status["array"]["state"], &member_1(&status)["answers"]), (&"hanging".into(), &true.into()));
    let text = told(&array);
    assert!(text.contains("slow: no answer for") && text.contains("hanging: a device takes too long"), "{text}");
    member.go_on();
    let begin = Instant::now();
    while array.status()["array"]["state"] != "degraded" {
        assert!(begin.elapsed() < LIMIT, "it answers again: {}", array.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!((0..192).all(|number| access(&array, number)), "nothing was given up");
    let log = array.log();
    for part in ["error: member 1 hangs: ", "critical: the array is hanging", "notice: member 1 answers again: "] {
        assert!(log.contains(part), "{part}: {log}");
    }
    // Nothing is left to be done that could be; a start goes on.
    member.hang();
    assert!(!(0..192).step_by(16).all(|number| access(&array, number)));
    terminate(&array);
    await_end(&array);
    member.go_on();
    let mut service = array.service.take().expect("it was served");
    assert!(!service.wait().expect("it ends").success(), "it says that something is left: {}", array.log());
    array.serve(&[]);
    assert!((0..192).all(|number| access(&array, number)), "nothing was given up");
    array.stop();
}

fn status_names_who_is_slow(io_mode: IoMode) {
    let Some((mut array, member)) = hanging(io_mode, "off", false) else { return };
    assert!(
        array.status()["array"]["devices"]
            .as_array()
            .expect("devices")
            .iter()
            .all(|one| one["waiting_seconds"].is_null())
    );
    member.hang();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| (0..192).all(|number| access(&array, number)));
        let begin = Instant::now();
        let status = loop {
            let status = array.status();
            if !member_1(&status)["waiting_seconds"].is_null() {
                break status;
            }
            assert!(begin.elapsed() < LIMIT, "{status}");
            std::thread::sleep(Duration::from_millis(50));
        };
        let devices = status["array"]["devices"].as_array().expect("devices");
        let slow: Vec<_> = devices.iter().filter(|one| !one["waiting_seconds"].is_null()).collect();
        assert!(
            slow.len() == 1 && slow[0]["name"] == "member 1" && slow[0]["waiting_seconds"].as_f64() > Some(1.0),
            "{status}"
        );
        let text = told(&array);
        let line = format!("{}, slow: no answer for ", member.path().display());
        assert!(text.contains(&line), "{line}: {text}");
        member.go_on();
        assert!(reader.join().expect("it reads"), "it was waited for");
    });
    assert_eq!(array.status()["array"]["state"], "serving");
    array.stop();
}
