//! Checks that impossible orders are refused, with what would be right.

use std::fs;

use super::{Array, IoMode, binary};

io_mode_tests! {
    an_array_is_made_once,
    what_was_made_otherwise_is_not_opened,
    an_array_is_served_once_and_asked_only_then,
    a_record_is_written_where_it_can_be,
    a_socket_takes_the_place_of_no_other_file,
}

fn said(output: &std::process::Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn an_array_is_made_once(io_mode: IoMode) {
    let array = Array::new(io_mode, &["--policy", "none"]);
    let again = array.command("create", &["--dev"]);
    assert!(said(&again).contains("exists already"), "{again:?}");
    fs::remove_file(array.file("array.toml")).expect("a description");
    let over = array.command("create", &["--dev"]);
    assert!(
        said(&over).contains("member0 exists already"),
        "files without a description are not overwritten: {over:?}"
    );
}

fn what_was_made_otherwise_is_not_opened(io_mode: IoMode) {
    let array = Array::new(io_mode, &["--policy", "none"]);
    let text = fs::read_to_string(array.file("array.toml")).expect("a description");
    for (from, to, part) in [
        ("member-size = \"2MiB\"", "member-size = \"1MiB\"", "rows"),
        ("uuid = \"", "uuid = \"f", "uuid"),
        (
            "chunk = \"64KiB\"",
            "chunk = \"128KiB\"",
            "was made with chunk = 64KiB; it cannot be opened with chunk = 128KiB",
        ),
        ("data-offset = \"1MiB\"", "data-offset = \"0B\"", "bytes long"),
        ("[array]", "[array]\nlayout = \"right-symmetric\"", "was made with layout = left-symmetric"),
        ("level = \"raid5\"", "level = \"raid7\"", "raid7"),
        ("page = \"4KiB\"", "page = \"4KB\"", "page"),
        ("chunk", "chunks", "chunks"),
        ("memory = \"256MiB\"", "memory = \"32MiB\"", "memory = 32MiB in [serve] is less than 64MiB"),
        ("memory = \"256MiB\"", "memory = \"much\"", "much"),
        (
            "device-timeout = \"30s\"",
            "device-timeout = \"500ms\"",
            "a time of at least 1s, such as 30s or 2min, nor \"off\"",
        ),
        ("device-timeout = \"30s\"", "device-timeout = \"0\"", "\"0\" is neither a time"),
        ("device-timeout = \"30s\"", "device-timeout = \"30\"", "\"30\" is neither a time"),
        ("version = 1", "version = 2", "version 2"),
        ("policy = \"none\"", "policy = \"kdd\"", "size"),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from}");
        fs::write(array.file("array.toml"), changed).expect("a description");
        let refused = array.command("serve", &["--run", "true"]);
        assert!(said(&refused).contains(part), "{to}: {refused:?}");
    }
    fs::write(array.file("array.toml"), text).expect("a description");
    assert!(array.command("serve", &["--run", "true"]).status.success(), "as it was it is opened");
}

fn an_array_is_served_once_and_asked_only_then(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "none"]);
    for command in ["status", "flush", "stop"] {
        assert!(said(&array.command(command, &[])).contains("nobody serves"));
    }
    array.serve(&[]);
    let again = array.command("serve", &["--run", "true"]);
    assert!(said(&again).contains("in use"), "{again:?}");
    assert!(array.command("status", &[]).status.success(), "the first goes on");
    array.stop();
    assert!(said(&binary::destage(&["serve", "/nowhere"])).contains("/nowhere"));
}

#[test]
fn what_has_no_meaning_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("array").display().to_string();
    for (args, part) in [
        (&["--level", "raid5"][..], "raid5:5"),
        (&["--level", "raid5:2", "--member-size", "1MiB"], "is not between 3 and 32"),
        (&["--level", "raid5:4"], "--member-size"),
        (&["--level", "raid5:4", "--member-size", "1MB"], "whole number of pages"),
        (&["--level", "raid5:4", "--member-size", "1MiB", "--policy", "kdd"], "size"),
        (&["--level", "raid5:4", "--member-size", "1MiB", "--policy", "kd", "--cache", "1MiB"], "kd"),
        (&["--level", "raid5:4", "--member-size", "1MiB", "--cache", "1MiB"], "size"),
        (&["--level", "raid5:4", "--member-size", "1MiB", "--member", "a"], "4 members"),
        (&["--level", "raid5:4", "--member-size", "1MiB", "--policy", "ggc+none"], "ggc"),
    ] {
        let refused = binary::destage(&[&["create", &path], args].concat());
        assert!(said(&refused).contains(part), "{args:?}: {refused:?}");
        assert!(!folder.path().join("array/array.toml").exists(), "{args:?}");
    }
}

fn a_record_is_written_where_it_can_be(io_mode: IoMode) {
    let array = Array::new(io_mode, &["--policy", "none"]);
    let description = array.file("array.toml").display().to_string();
    for (to, part) in [(description.as_str(), "it is an input"), ("/nowhere/record", "cannot create")] {
        let refused = array.command("serve", &["--record", to, "--run", "true"]);
        assert!(said(&refused).contains(part), "{to}: {refused:?}");
    }
    let members = ["a", "b", "c"].map(|name| array.file(name).display().to_string());
    let cache = array.file("d").display().to_string();
    let own = array.file("own").display().to_string();
    let mut args =
        vec!["create", &own, "--level", "raid5:3", "--member-size", "1MiB", "--policy", "kdd", "--cache", "1MiB"];
    args.extend(members.iter().flat_map(|member| ["--member", member]));
    args.extend(["--cache-device", &cache]);
    let made = binary::destage(&args);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let socket = array.file("socket").display().to_string();
    let served = binary::destage(&["serve", &own, "--socket", &socket, "--run", "test -S \"$unixsocket\""]);
    assert!(served.status.success(), "{}", String::from_utf8_lossy(&served.stderr));
}

/// Guards files whose name is given where a socket's is meant: to connect to them is refused as to a socket that a killed
/// service has left.
fn a_socket_takes_the_place_of_no_other_file(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "none"]);
    let file = array.folder.path().join("thesis");
    fs::write(&file, "three years' work").expect("a file");
    let name = file.display().to_string();
    for option in ["--control", "--socket"] {
        let why = said(&array.command("serve", &[option, &name, "--run", "true"]));
        assert!(why.contains(&name) && why.contains("in use"), "{option}: {why}");
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "three years' work", "{option}");
    }
    // Sockets that a killed service has left are replaced.
    array.serve(&[]);
    array.kill();
    array.serve(&[]);
    assert_eq!(array.status()["array"]["state"], "serving");
    array.stop();
}

#[test]
fn an_array_that_cannot_be_made_leaves_no_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let array = folder.path().join("of/somebody/array");
    let [array, nowhere] = [array, folder.path().join("nowhere/disk")].map(|path| path.display().to_string());
    let members: Vec<String> = (0..4).map(|number| format!("{nowhere}{number}")).collect();
    let mut args = vec!["create", &array, "--level", "raid5:4", "--member-size", "2MiB"];
    args.extend(members.iter().flat_map(|member| ["--member", member]));
    let refused = binary::destage(&args);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains(&members[0]), "{said}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").collect();
    assert!(left.is_empty(), "{left:?}");
}
