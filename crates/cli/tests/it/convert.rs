//! `destage trace convert --to`: what a user of other tools meets.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::binary::destage;

/// Standard error of a conversion that must succeed (`true`) or fail.
fn convert(args: &[&str], succeeds: bool) -> String {
    let args = [&["trace", "convert"], args].concat();
    let output = destage(&args);
    let errors = String::from_utf8(output.stderr).expect("messages are UTF-8");
    assert_eq!(output.status.success(), succeeds, "{args:?}: {errors}");
    errors
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

/// A write, a flush, a read and a discard on two servers' disks, in the one format of text that
/// names such.
const TRACE: &str = "fio version 3 iolog\n0 sda add\n0 sda write 0 4096\n5 sda sync 0 0\n7 sdb read 512 512\n\
                     9 sda trim 0 4096\n";

#[test]
fn losses_are_refused_or_told() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("trace"), folder.path().join("out"));
    fs::write(&from, TRACE).unwrap();
    let (from, to_text) = (text(&from), text(&to));

    let message = convert(&[from, to_text, "--to", "disksim"], false);
    let expected = format!(
        "destage: {from}: disksim cannot hold all of this; give disksim:drop=flush+discard, or some of these options\n  \
         request 2 is a flush: drop=flush to leave flushes out\n  request 4 is a discard: drop=discard to leave discards out\n"
    );
    assert_eq!(message, expected);
    assert!(!to.exists(), "what cannot be completed is removed");

    let message = convert(&[from, to_text, "--to", "mqsim:drop=flush+discard"], true);
    assert_eq!(
        message,
        format!(
            "wrote {to_text} as ssdsim:drop=flush+discard: 2 of 4 requests as 2 records; flushes left out: 1; discards \
             left out: 1; 23 bytes\nnote: volumes are written as numbers: 0 is sda, 1 is sdb\n"
        )
    );
    assert_eq!(fs::read_to_string(&to).unwrap(), "0 0 0 8 0\n7000 1 1 1 1\n");

    // The second pass of oracle-general leaves nothing beside the new file.
    convert(&[from, to_text, "--to", "oracle-general:op=all,drop=flush+discard,volumes=merge"], true);
    assert_eq!(fs::read(&to).unwrap().len(), 2 * 24);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);

    let output = destage(&["trace", "convert", from, "-", "--to", "fio:names=keep"]);
    assert!(output.status.success());
    let expected = "fio version 3 iolog\n1 sda add\n1 sda open\n1 sda write 0 4096\n6 sda sync 0 0\n8 sdb add\n\
                    8 sdb open\n8 sdb read 512 512\n10 sda trim 0 4096\n10 sda close\n10 sdb close\n";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn formats_are_checked_before_a_file_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("trace"), folder.path().join("out"));
    fs::write(&from, TRACE).unwrap();
    let (from, to_text) = (text(&from), text(&to));
    let message = convert(&[from, to_text, "--to", "tencent"], false);
    assert!(
        message.starts_with("destage: --to: format \"tencent\" cannot be written; native and ssdsim,"),
        "{message}"
    );
    let message = convert(&[from, to_text, "--to", "spc", "--level", "9"], false);
    assert!(message.contains("--level: only the native format is compressed; leave it out with --to spc"), "{message}");
    assert!(!to.exists());
    // The native format by name, and as the default.
    assert!(convert(&[from, to_text, "--to", "native", "--level", "9"], true).contains("4 requests"));
    assert!(convert(&[from, to_text], true).contains("4 requests"));
}

/// The files of a recording by blktrace are one trace, and none of them is overwritten.
#[test]
fn recordings_convert_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/data/loop.blktrace");
    let part = folder.path().join("rec.blktrace.1");
    fs::copy(sample, &part).unwrap();
    let name = folder.path().join("rec");
    let message = convert(&[text(&name), text(&part)], false);
    assert!(message.contains("rec.blktrace.1: it is an input ("), "{message}");
    let to = folder.path().join("rec.csv");
    convert(&[text(&name), text(&to), "--to", "rq-csv"], true);
    let lines = fs::read_to_string(&to).unwrap();
    assert_eq!(lines.lines().count(), 18);
    assert!(lines.starts_with("0,W,40,8\n"), "{lines}");
}

/// The names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_had_the_name_stays_until_the_new_file_is_complete() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("trace"), folder.path().join("out"));
    let (link, dangling) = (folder.path().join("link"), folder.path().join("dangling"));
    fs::write(&from, TRACE).unwrap();
    // Its last line cannot be read, so that both kinds of conversion fail after they have begun.
    let broken = folder.path().join("broken");
    fs::write(&broken, format!("{TRACE}11 sda nonsense 0 4096\n")).unwrap();
    fs::write(&to, "old").unwrap();
    fs::set_permissions(&to, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("out", &link).unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    symlink("sub/new", &dangling).unwrap();
    let all = ["broken", "dangling", "link", "out", "sub", "trace"];
    for target in [&to, &link] {
        convert(&[text(&from), text(target), "--to", "disksim"], false);
        convert(&[text(&broken), text(target), "--to", "fio"], false);
        convert(&[text(&broken), text(target)], false);
        assert_eq!(fs::read_to_string(&to).unwrap(), "old");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(names(folder.path()), all);
    }
    // Through the link to the file, which keeps its permissions and owner.
    let before = fs::metadata(&to).unwrap();
    convert(&[text(&from), text(&link), "--to", "fio"], true);
    assert!(fs::read_to_string(&to).unwrap().starts_with("fio version 3 iolog"));
    let after = fs::metadata(&to).unwrap();
    assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
    convert(&[text(&from), text(&dangling)], true);
    assert!(fs::symlink_metadata(&dangling).unwrap().is_symlink());
    assert_eq!(names(&folder.path().join("sub")), ["new"]);
    assert_eq!(names(folder.path()), all);
    // A made-up trace is a new file too.
    let output = destage(&["trace", "synth", text(&to), "--length", "10"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read(&to).unwrap()[..4], fs::read(folder.path().join("sub/new")).unwrap()[..4]);
    assert_eq!(names(folder.path()), all);
}

#[test]
fn what_is_no_file_is_written_directly() {
    let folder = tempfile::tempdir().unwrap();
    let (from, pipe) = (folder.path().join("trace"), folder.path().join("pipe"));
    fs::write(&from, TRACE).unwrap();
    convert(&[text(&from), "/dev/null"], true);
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (format, succeeds) in [("fio", true), ("disksim", false)] {
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        convert(&[text(&from), text(&pipe), "--to", format], succeeds);
        assert_eq!(reader.join().unwrap().starts_with(b"fio version 3 iolog"), succeeds);
        assert_eq!(names(folder.path()), ["pipe", "trace"]);
    }
    // What cannot be made.
    let inside = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    for to in [inside("nowhere/out"), inside("."), inside("new/"), inside("trace/"), String::new()] {
        let message = convert(&[text(&from), &to], false);
        assert!(message.contains(&format!("cannot create {to}")), "{message}");
    }
    assert_eq!(names(folder.path()), ["pipe", "trace"]);
}

/// The input is known by what it is, not by its name.
#[test]
fn no_trace_is_converted_onto_itself() {
    use std::process::Stdio;
    let folder = tempfile::tempdir().unwrap();
    let (from, hard, soft) = (folder.path().join("trace"), folder.path().join("hard"), folder.path().join("soft"));
    fs::write(&from, TRACE).unwrap();
    fs::hard_link(&from, &hard).unwrap();
    std::os::unix::fs::symlink(&from, &soft).unwrap();
    for to in [&from, &hard, &soft] {
        let message = convert(&[text(&from), text(to)], false);
        assert!(message.contains("it is an input ("), "{message}");
        let child = Command::new(env!("CARGO_BIN_EXE_destage"))
            .args(["trace", "convert", "-", text(to), "--to", "fio"])
            .stdin(fs::File::open(&from).unwrap())
            .output()
            .unwrap();
        assert!(!child.status.success());
        assert!(String::from_utf8_lossy(&child.stderr).contains("it is an input (the standard input)"));
    }
    // And by way of the standard output.
    let child = Command::new(env!("CARGO_BIN_EXE_destage"))
        .args(["trace", "convert", text(&from), "-"])
        .stdout(fs::File::options().append(true).open(&from).unwrap())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert!(
        !child.status.success()
            && String::from_utf8_lossy(&child.stderr).contains("the standard output: it is an input")
    );
    assert_eq!(fs::read_to_string(&from).unwrap(), TRACE);
}
