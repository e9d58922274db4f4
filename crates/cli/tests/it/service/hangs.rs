//! Devices that hang while an array is served: a member is the file of a FUSE server that is stopped by a signal.

use std::fs;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use destage_exec::{OsInterface, PathPresence, RealOs};
use serde_json::Value;

use super::fuse_files::FuseFile;
use super::losses::{assert_holds, fill, wait_for};
use super::{Array, IoMode, PATIENCE, page};

io_mode_tests! {
    a_member_that_hangs_is_lost_and_the_service_ends,
    a_member_that_the_level_needs_is_waited_for,
    status_names_who_is_slow,
    a_member_that_hangs_is_taken_out_all_the_same,
    a_successor_that_hangs_keeps_nothing_waiting,
    a_file_that_hangs_is_refused_while_clients_are_served,
}

/// Bounds what takes as long as a device may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Gives how long an order waits for a device that answers, so that nothing of it is torn.
const SETTLES: Duration = Duration::from_secs(10);

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

/// Takes out a member that hangs, which nothing else does without a limit: the order waits for it, and not for ever.
fn a_member_that_hangs_is_taken_out_all_the_same(io_mode: IoMode) {
    let Some((mut array, member)) = hanging(io_mode, "off", false) else { return };
    member.hang();
    std::thread::scope(|scope| {
        let client = scope.spawn(|| (0..192).all(|number| access(&array, number)));
        while member_1(&array.status())["waiting_seconds"].is_null() {
            assert!(!client.is_finished(), "what needs the member waits");
            std::thread::sleep(Duration::from_millis(50));
        }
        let begin = Instant::now();
        let failed = array.command("fail", &["1"]);
        assert!(failed.status.success(), "{}", String::from_utf8_lossy(&failed.stderr));
        assert!((SETTLES..PATIENCE).contains(&begin.elapsed()), "{:?}", begin.elapsed());
        assert!(client.join().expect("it does not panic"), "what waited is answered from the others");
    });
    let status = array.status();
    assert_eq!((&status["array"]["state"], &member_1(&status)["answers"]), (&"degraded".into(), &false.into()));
    assert!((0..192).all(|number| access(&array, number)), "the others answer");
    for part in ["error: member 1 is lost: ", "taken out by order", "notice: ordered: take out 1"] {
        assert!(array.log().contains(part), "{part}: {}", array.log());
    }
    // Its own file does not take its place while something may still be done to it, and nobody waits for that.
    let path = member.path().display().to_string();
    let begin = Instant::now();
    let refused = array.command("replace", &["1", &path]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && begin.elapsed() < LIMIT, "{:?}: {said}", begin.elapsed());
    member.go_on();
    let begin = Instant::now();
    while !array.command("replace", &["1", &path]).status.success() {
        assert!(begin.elapsed() < LIMIT, "{}", array.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    wait_for(&array, "serving");
    assert!((0..192).all(|number| access(&array, number)), "with the member again");
    array.stop();
}

/// Loses a member, by order and by an error, while it is copied to a file that hangs: neither the order waits for that file
/// for ever, nor does the file wait for ever to be filled from the others.
fn a_successor_that_hangs_keeps_nothing_waiting(io_mode: IoMode) {
    for is_ordered in [true, false] {
        let mut array = Array::sized(io_mode, "16MiB", &["--policy", "none"]);
        let bytes = fs::metadata(array.file("member2")).expect("a member").len();
        let image = array.file("fresh");
        fs::File::create(&image).and_then(|file| file.set_len(bytes)).expect("a file");
        // It hangs while it is being copied to, however late the signal comes.
        let Some(successor) = FuseFile::slow("a successor that hangs", &image, bytes / 4) else { return };
        let description = fs::read_to_string(array.file("array.toml")).expect("a description");
        let changed = description.replace("\"30s\"", "\"off\"").replace("depth = 256", "depth = 1");
        assert!(changed.contains("\"off\"") && changed.contains("depth = 1\n"), "{description}");
        fs::write(array.file("array.toml"), changed).expect("a description");
        array.serve(&["--log", "json"]);
        let content = fill(&array, 61, 100);
        let path = successor.path().display().to_string();
        let ordered = array.command("replace", &["2", &path]);
        assert!(ordered.status.success(), "{}", String::from_utf8_lossy(&ordered.stderr));
        successor.hang();
        let begin = Instant::now();
        let why = if is_ordered {
            let failed = array.command("fail", &["2"]);
            assert!(failed.status.success(), "{}", String::from_utf8_lossy(&failed.stderr));
            "it was taken out by order"
        } else {
            let file = fs::File::options().write(true).open(array.file("member2")).expect("a member");
            file.set_len(4096).expect("it can be cut");
            "cannot be filled from the others: "
        };
        assert_holds(&array, &content, "the others answer");
        assert!(is_ordered || begin.elapsed() < SETTLES, "clients do not wait for it: {:?}", begin.elapsed());
        wait_for(&array, "degraded");
        while array.events("replacement-failed").is_empty() {
            assert!(begin.elapsed() < PATIENCE, "ordered: {is_ordered}: {}", array.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(begin.elapsed() >= SETTLES, "ordered: {is_ordered}: {:?}", begin.elapsed());
        let told = array.events("replacement-failed");
        assert!(told.len() == 1 && told[0]["device"] == "member 2" && told[0]["path"] == path.as_str(), "{told:?}");
        assert!(told[0]["why"].as_str().is_some_and(|text| text.contains(why)), "{why}: {told:?}");
        successor.go_on();
        let begin = Instant::now();
        while !array.command("replace", &["2", &path]).status.success() {
            assert!(begin.elapsed() < LIMIT, "{}", array.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        wait_for(&array, "serving");
        assert_holds(&array, &content, "with the new member");
        array.stop();
    }
}

/// Orders a member to be replaced by a file that hangs already: whoever orders that waits for the file, and nobody else does.
fn a_file_that_hangs_is_refused_while_clients_are_served(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "none"]);
    let bytes = fs::metadata(array.file("member2")).expect("a member").len();
    let image = array.file("fresh");
    fs::File::create(&image).and_then(|file| file.set_len(bytes)).expect("a file");
    let Some(other) = FuseFile::over("a replacement that hangs", &image, "") else { return };
    let description = fs::read_to_string(array.file("array.toml")).expect("a description");
    let changed = description.replace("\"30s\"", "\"3s\"").replace("depth = 256", "depth = 1");
    assert!(changed.contains("\"3s\"") && changed.contains("depth = 1\n"), "{description}");
    fs::write(array.file("array.toml"), changed).expect("a description");
    array.serve(&[]);
    let content = fill(&array, 71, 40);
    let path = other.path().display().to_string();
    other.hang();
    let begin = Instant::now();
    let mut rounds = 0;
    let ordered = std::thread::scope(|scope| {
        let order = scope.spawn(|| array.command("replace", &["2", &path]));
        while !order.is_finished() {
            assert_holds(&array, &content, "while a file hangs");
            rounds += u32::from(!order.is_finished());
        }
        order.join().expect("the order ends")
    });
    let told = String::from_utf8_lossy(&ordered.stderr).into_owned();
    assert!(!ordered.status.success() && told.contains(&format!("{path} does not answer")), "{told}");
    assert!(begin.elapsed() >= Duration::from_secs(3) && rounds > 0, "{rounds} rounds, {:?}", begin.elapsed());
    assert_eq!(array.status()["array"]["state"], "serving");
    other.go_on();
    let ordered = array.command("replace", &["2", &path]);
    assert!(ordered.status.success(), "{}", String::from_utf8_lossy(&ordered.stderr));
    wait_for(&array, "serving");
    assert_holds(&array, &content, "with the new member");
    array.stop();
}

/// Lets go of a file that hangs, which has to be asked when it is closed: nobody waits for it.
#[test]
fn a_file_that_hangs_is_closed_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("image");
    fs::write(&image, [0; 8192]).expect("a file");
    let Some(hanging) = FuseFile::over("a file that is closed while it hangs", &image, "") else { return };
    let file = RealOs.open(hanging.path(), PathPresence::There).expect("it can be opened");
    file.write_all_at(&[1; 4096], 0).expect("it can be written");
    hanging.hang();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        drop(file);
        sender.send(()).expect("somebody waits");
    });
    let closed = receiver.recv_timeout(LIMIT);
    hanging.go_on();
    closed.expect("nobody waits for a file that hangs");
}
