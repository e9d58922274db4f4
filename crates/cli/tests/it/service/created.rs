//! Reads what `destage create` writes into an array's description.

use std::fs;

use super::binary;

#[test]
fn deltas_are_staged_in_memory_unless_it_is_told_otherwise() {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, (asked, written)) in [
        ("kdd", "kdd:staged-in=memory"),
        ("kdd:ways=8", "kdd:ways=8:staged-in=memory"),
        ("kdd:staged-in=nvram", "kdd:staged-in=nvram"),
        ("leavo", "leavo"),
        ("write-back:dirty-high=40", "write-back:dirty-high=40"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.path().join(format!("array{number}"));
        let args = ["--level", "raid5:4", "--member-size", "1MiB", "--cache", "1MiB", "--policy", asked];
        let made = binary::destage(&[&["create", &path.display().to_string()][..], &args].concat());
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{said}");
        let description = fs::read_to_string(path.join("array.toml")).expect("a description");
        assert!(description.contains(&format!("policy = \"{written}\"\n")), "{description}");
    }
}
