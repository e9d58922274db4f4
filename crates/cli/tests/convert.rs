//! `destage trace convert --to`: what a user of other tools meets.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn destage(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_destage")).args(args).output().expect("the binary starts")
}

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

/// A write, a flush, a read and a discard on two servers' disks, in the one format of text that names such.
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
        "destage: {from}: request 2: is a flush, which disksim cannot hold; give disksim:drop=flush to leave flushes out\n"
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
    assert!(message.contains("rec.blktrace.1 is a part of "), "{message}");
    let to = folder.path().join("rec.csv");
    convert(&[text(&name), text(&to), "--to", "rq-csv"], true);
    let lines = fs::read_to_string(&to).unwrap();
    assert_eq!(lines.lines().count(), 18);
    assert!(lines.starts_with("0,W,40,8\n"), "{lines}");
}
