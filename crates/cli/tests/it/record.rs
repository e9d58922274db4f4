//! `destage trace record` from outside. What needs root, tracefs and loop devices is skipped
//! without.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::binary::{destage, signalled};
use crate::loop_device::{Loop, skip, tool};

/// Standard output and error of a call that must succeed.
fn done(args: &[&str]) -> (String, String) {
    let output = destage(args);
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{args:?}: {err}");
    (out, err)
}

/// Standard error of a call that must fail with one message.
fn refused(args: &[&str]) -> String {
    let output = destage(args);
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
    let message = String::from_utf8(output.stderr).expect("messages are UTF-8");
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

/// A shell command for one write of 8 KiB at 64 KiB, a flush, and a read of 4 KiB.
fn little(device: &str) -> String {
    format!(
        "dd if=/dev/zero of={device} bs=8k count=1 seek=8 oflag=direct conv=fdatasync,notrunc 2>/dev/null && \
         dd if={device} of=/dev/null bs=4k count=1 skip=3 iflag=direct 2>/dev/null"
    )
}

/// Kind, offset and bytes of the requests that `trace head` prints, and whether each has a latency.
fn requests(file: &str) -> Vec<(String, u64, u64, bool)> {
    let (text, _) = done(&["trace", "head", "-n", "1000", file]);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("time_ns,op,fua,volume,offset,bytes,latency_ns"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), 7, "{line}");
        (cells[1].to_owned(), cells[4].parse().unwrap(), cells[5].parse().unwrap(), !cells[6].is_empty())
    };
    lines.map(row).collect()
}

#[test]
fn a_commands_requests_are_recorded_with_their_latencies() {
    let Some(disk) = Loop::new("a_commands_requests_are_recorded_with_their_latencies") else { return };
    let (out, copy) = (disk.file("out.destage"), disk.file("copy.destage"));
    let (_, err) = done(&["trace", "record", &disk.path, &out, "--", "sh", "-c", &little(&disk.path)]);
    assert!(err.contains("ended by command") && err.contains("events lost"), "{err}");
    let rows = requests(&out);
    let expected = [("write", 65_536, 8192), ("flush", 0, 0), ("read", 12_288, 4096)];
    // dd may flush once more when it closes what it has written.
    let mut kinds: Vec<_> = rows.iter().map(|(op, offset, bytes, _)| (op.as_str(), *offset, *bytes)).collect();
    kinds.dedup();
    assert_eq!(kinds, expected);
    assert!(rows.iter().all(|row| row.3));

    // Conversion keeps the latencies: the same bytes.
    done(&["trace", "convert", &out, &copy]);
    assert_eq!(fs::read(&out).unwrap(), fs::read(&copy).unwrap());

    let (text, _) = done(&["trace", "stat", &out]);
    assert!(text.contains("latency mean, p50, p99, p99.9, max"), "{text}");
    let (text, _) = done(&["trace", "stat", "--json", &out]);
    let stat: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(stat[0]["latency_ns"]["count"], stat[0]["requests"]);
    assert!(stat[0]["latency_ns"]["mean"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_summary_is_json_if_wanted() {
    let Some(disk) = Loop::new("the_summary_is_json_if_wanted") else { return };
    let out = disk.file("out.destage");
    let args =
        ["trace", "record", &disk.path, &out, "--json", "--at", "queue", "--requests", "2", "--buffer", "128KiB"];
    let (text, err) = done(&[&args[..], &["--", "sh", "-c", &little(&disk.path)]].concat());
    assert!(err.is_empty(), "{err}");
    let summary: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&summary["requests"], &summary["writes"], &summary["flushes"]), (&2.into(), &1.into(), &1.into()));
    assert_eq!((&summary["ended_by"], &summary["at"]), (&"requests".into(), &"queue".into()));
    assert_eq!((&summary["lost"]["dropped"], &summary["buffer_bytes"]), (&0.into(), &(128 << 10).into()));
    assert_eq!(requests(&out).len(), 2);
}

#[test]
fn signals_and_durations_end_a_recording_in_good_order() {
    let Some(disk) = Loop::new("signals_and_durations_end_a_recording_in_good_order") else { return };
    let out = disk.file("out.destage");
    let (_, err) = done(&["trace", "record", &disk.path, &out, "--duration", "200ms"]);
    assert!(err.contains("ended by duration"), "{err}");
    done(&["trace", "head", &out]);
    for signal in ["INT", "TERM", "HUP"] {
        let mut child = signalled(&["trace", "record", &disk.path, &out, "--", "sleep", "600"])
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id().to_string();
        // Until it records, a signal is a plain end.
        let mine = || instances().iter().any(|name| name.starts_with(&format!("destage-{pid}-")));
        let running = || !tool("pgrep", &["--parent", &pid]).unwrap_or_default().is_empty();
        for _ in 0..500 {
            if mine() && running() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        tool("kill", &["-s", signal, &pid]).unwrap();
        let status = child.wait().unwrap();
        let mut err = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut err).unwrap();
        assert!(status.success() && err.contains("ended by signal"), "{signal}: {status}: {err}");
        assert!(!mine(), "{signal}: an instance is left");
        done(&["trace", "head", &out]);
    }
}

fn instances() -> Vec<String> {
    let places = ["/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"];
    let found = places.iter().find_map(|place| fs::read_dir(place).ok());
    found.into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[test]
fn what_a_killed_recording_leaves_is_removed_by_the_next() {
    let Some(disk) = Loop::new("what_a_killed_recording_leaves_is_removed_by_the_next") else { return };
    let out = disk.file("out.destage");
    let mut child =
        Command::new(env!("CARGO_BIN_EXE_destage")).args(["trace", "record", &disk.path, &out]).spawn().unwrap();
    let name = format!("destage-{}-", child.id());
    let left = || instances().iter().any(|instance| instance.starts_with(&name));
    for _ in 0..500 {
        if left() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    done(&["trace", "record", &disk.path, &out, "--duration", "1ms"]);
    assert!(!left());
}

#[test]
fn a_command_that_fails_is_told_and_one_that_is_none_costs_nothing() {
    let Some(disk) = Loop::new("a_command_that_fails_is_told_and_one_that_is_none_costs_nothing") else { return };
    let out = disk.file("out.destage");
    let output = destage(&["trace", "record", &disk.path, &out, "--", "sh", "-c", "exit 3"]);
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && err.contains("exit status: 3") && err.contains("is complete"), "{err}");
    let before = fs::read(&out).unwrap();
    let err = refused(&["trace", "record", &disk.path, &out, "--", "/nowhere/at/all"]);
    assert!(err.contains("cannot run /nowhere/at/all"), "{err}");
    assert_eq!(fs::read(&out).unwrap(), before);
}

#[test]
fn a_commands_output_does_not_mix_with_ours() {
    let Some(disk) = Loop::new("a_commands_output_does_not_mix_with_ours") else { return };
    let out = disk.file("out.destage");
    let script = format!("echo chatter; {}", little(&disk.path));
    let command = ["--", "sh", "-c", &script];
    let output = destage(&[&["trace", "record", &disk.path, "-"][..], &command].concat());
    assert!(output.status.success() && String::from_utf8_lossy(&output.stderr).contains("chatter\n"));
    fs::write(&out, &output.stdout).unwrap();
    assert!(requests(&out).len() >= 3);
    let (text, err) = done(&[&["trace", "record", &disk.path, &out, "--json"][..], &command].concat());
    assert!(serde_json::from_str::<Value>(&text).is_ok_and(|summary| summary["writes"] == 1), "{text}");
    assert_eq!(err, "chatter\n");
    // Where nothing else wants the standard output it is the command's.
    let (text, _) = done(&[&["trace", "record", &disk.path, &out][..], &command].concat());
    assert_eq!(text, "chatter\n");
}

/// A recording of a command that goes on when the recording has ended, and what it says when told
/// to stop so many times.
#[test]
fn who_waits_for_a_command_can_be_stopped() {
    let Some(disk) = Loop::new("who_waits_for_a_command_can_be_stopped") else { return };
    let out = disk.file("out.destage");
    let (ready, asked) = (disk.file("ready"), disk.file("asked"));
    // The second one tells of SIGTERM, and goes on.
    let heedless = format!("trap 'echo > {asked}' TERM; while sleep 0.1; do :; done");
    for (script, signals) in [("exec sleep 600", 1), (heedless.as_str(), 2)] {
        let script = format!("echo $$ > {ready}; {script}");
        let mut child =
            signalled(&["trace", "record", &disk.path, &out, "--duration", "10ms", "--", "sh", "-c", &script])
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap();
        let pid = child.id().to_string();
        // A busy disk may take seconds to sync the trace's folder, between the rename and the wait for the command.
        let patiently = |is: &mut dyn FnMut() -> bool| {
            (0..6000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                is()
            })
        };
        // The trace is in its place when the recording has ended.
        let exists = |file: &str| Path::new(file).exists();
        assert!(patiently(&mut || exists(&out) && exists(&ready)), "it does not begin: {script}");
        let interrupt = || tool("kill", &["-s", "INT", &pid]).unwrap();
        interrupt();
        // Two signals at once would be one.
        let is_asked = signals == 1 || patiently(&mut || exists(&asked));
        if signals == 2 {
            interrupt();
        }
        let mut status = None;
        patiently(&mut || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        let shell = fs::read_to_string(&ready).unwrap().trim().to_owned();
        // Whoever is left would keep the pipe of the standard error open.
        if status.is_none() {
            let _ = child.kill();
        }
        if status.is_none() || signals == 2 {
            let _ = tool("kill", &["-s", "KILL", &shell]);
        }
        assert!(is_asked, "the command is not asked to end: {script}");
        let mut err = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut err).unwrap();
        let status = status.unwrap_or_else(|| panic!("it waits on: {err}"));
        assert!(err.contains("ended by duration"), "{err}");
        assert_eq!(status.success(), signals == 1, "{err}");
        assert_eq!(err.contains(&format!("the command, process {shell}, is still running")), signals == 2, "{err}");
        done(&["trace", "head", &out]);
        fs::remove_file(&out).unwrap();
        fs::remove_file(&ready).unwrap();
    }
}

#[test]
fn without_a_place_for_the_trace_no_command_is_started() {
    let Some(disk) = Loop::new("without_a_place_for_the_trace_no_command_is_started") else { return };
    let (started, folder) = (disk.file("started"), disk.file("folder"));
    fs::create_dir(&folder).unwrap();
    for out in [folder.as_str(), "/proc/nowhere", &disk.file("nowhere/out")] {
        let err = refused(&["trace", "record", &disk.path, out, "--", "touch", &started]);
        assert!(err.contains(&format!("cannot create {out}")), "{err}");
        assert!(!Path::new(&started).exists(), "{out}");
    }
    // Nor does a recording that cannot begin touch what is there.
    let out = disk.file("out");
    fs::write(&out, "old").unwrap();
    refused(&["trace", "record", &disk.path, &out, "--", "/nowhere/at/all"]);
    assert_eq!(fs::read_to_string(&out).unwrap(), "old");
}

#[test]
fn a_recording_does_not_record_itself() {
    let Some(disk) = Loop::new("a_recording_does_not_record_itself") else { return };
    let made = tool("mkfs.ext4", &["-q", "-F", &disk.path])
        .and_then(|_| fs::create_dir(disk.file("mnt")).map_err(|error| error.to_string()))
        .and_then(|()| tool("mount", &[&disk.path, &disk.file("mnt")]));
    if let Err(why) = made {
        return skip("a_recording_does_not_record_itself", &why);
    }
    let inside = disk.file("mnt/out.destage");
    let refusal = destage(&["trace", "record", &disk.path, &inside, "--duration", "1ms"]);
    let allowed = destage(&["trace", "record", &disk.path, &inside, "--duration", "1ms", "--own-writes"]);
    // By way of the standard output, and of a link to a file that is not there yet.
    let piped = Command::new(env!("CARGO_BIN_EXE_destage"))
        .args(["trace", "record", &disk.path, "-", "--duration", "1ms"])
        .stdout(File::create(disk.file("mnt/piped")).unwrap())
        .output()
        .unwrap();
    std::os::unix::fs::symlink("mnt/linked", disk.file("link")).unwrap();
    let linked = destage(&["trace", "record", &disk.path, &disk.file("link"), "--duration", "1ms"]);
    let onto = Command::new(env!("CARGO_BIN_EXE_destage"))
        .args(["trace", "record", &disk.path, "-", "--duration", "1ms"])
        .stdout(File::options().write(true).open(&disk.path).unwrap())
        .output()
        .unwrap();
    // A device on a file of the recorded device is found, too.
    let nested = File::create(disk.file("mnt/nested"))
        .and_then(|file| file.set_len(8 << 20))
        .map_err(|error| error.to_string())
        .and_then(|()| tool("losetup", &["--find", "--show", &disk.file("mnt/nested")]));
    let of_nested = nested.as_ref().map(|nested| {
        let made = tool("mkfs.ext4", &["-q", "-F", nested])
            .and_then(|_| fs::create_dir(disk.file("mnt2")).map_err(|error| error.to_string()))
            .and_then(|()| tool("mount", &[nested, &disk.file("mnt2")]));
        let out = disk.file("mnt2/out.destage");
        let refusal = destage(&["trace", "record", &disk.path, &out, "--duration", "1ms"]);
        let _ = tool("umount", &[&disk.file("mnt2")]);
        let _ = tool("losetup", &["--detach", nested]);
        (made, refusal)
    });
    let _ = tool("umount", &[&disk.file("mnt")]);
    for refusal in [refusal, piped, linked] {
        let err = String::from_utf8(refusal.stderr).unwrap();
        assert!(!refusal.status.success() && err.contains("would record itself") && err.contains("/dev/shm"), "{err}");
    }
    let err = String::from_utf8(onto.stderr).unwrap();
    assert!(!onto.status.success() && err.contains("the standard output is a block device"), "{err}");
    assert!(allowed.status.success());
    if let Ok((Ok(_), refusal)) = of_nested {
        let err = String::from_utf8(refusal.stderr).unwrap();
        assert!(!refusal.status.success() && err.contains("would record itself"), "{err}");
    }
}

#[test]
fn what_cannot_be_recorded_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let out: PathBuf = folder.path().join("out");
    let out = out.to_str().unwrap();
    let message = |args: &[&str]| refused(&[&["trace", "record"], args].concat());
    assert!(message(&["/dev/nowhere", out]).contains("lsblk"));
    assert!(message(&["/dev/null", out]).contains("not a block device but a character device"));
    assert!(message(&[folder.path().to_str().unwrap(), out]).contains("a folder"));
    assert!(message(&["/dev/null", out, "--duration", "60"]).contains("--duration 60"));
    assert!(message(&["/dev/null", out, "--buffer", "1KiB"]).contains("between 64 KiB and 4 GiB"));
    assert!(message(&["/dev/null", out, "--requests", "0"]).contains("at least 1"));
    assert!(message(&["/dev/null", "-", "--json"]).contains("both want the standard output"));
    assert!(!Path::new(out).exists(), "nothing is left of a recording that did not begin");
}

#[test]
fn without_root_the_message_says_so() {
    let test = "without_root_the_message_says_so";
    let Some(disk) = Loop::new(test) else { return };
    // Where nobody can reach it.
    let folder = tempfile::Builder::new().prefix("destage").tempdir().unwrap();
    let open = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    open(folder.path());
    let program = folder.path().join("destage");
    fs::copy(env!("CARGO_BIN_EXE_destage"), &program).unwrap();
    open(&program);
    let mut nobody = Command::new("runuser");
    nobody.args(["-u", "nobody", "--"]).arg(&program).args(["trace", "record", &disk.path, "-", "--duration", "1ms"]);
    let Ok(output) = nobody.output() else { return skip(test, "runuser is not there") };
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("recording needs root: run it with sudo"), "{err}");
    assert!(output.stdout.is_empty());
}
