//! `sim --array`, `create` and `array.toml` have the same settings of an array: their names, words and defaults.

use std::fs;
use std::path::Path;

use toml::Table;

use crate::binary::{destage, quietly, refused};

/// Creates a small array in this folder, with these flags too, and returns `[array]` of its description.
fn described(folder: &Path, more: &[&str]) -> Table {
    let path = folder.display().to_string();
    let args = [&["create", &path, "--level", "raid5:3", "--member-size", "1MiB"], more].concat();
    let created = destage(&args);
    assert!(created.status.success(), "{created:?}");
    let text = fs::read_to_string(folder.join("array.toml")).expect("a description");
    let description: Table = text.parse().expect("TOML");
    description["array"].as_table().expect("a table").clone()
}

#[test]
fn descriptions_name_settings_as_create_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let array = described(&folder.path().join("array"), &["--layout", "left-asymmetric"]);
    let help = quietly(&["create", "--help"]);
    for key in array.keys() {
        let flag = if key == "members" { "member" } else { key };
        assert!(help.contains(&format!(" --{flag} <")), "--{flag} of [array] in array.toml is no flag");
    }
    assert_eq!(array.len(), 9, "{array}");
}

#[test]
fn a_simulated_array_and_a_new_one_have_the_same_defaults() {
    let folder = tempfile::tempdir().expect("a folder");
    let array = described(&folder.path().join("array"), &[]);
    let scenario = quietly(&["sim", "--workload=skewed", "--array=raid5:3", "--print-scenario"]);
    let scenario: Table = scenario.parse().expect("TOML");
    for (described, simulated) in [("chunk", "chunk"), ("page", "page"), ("parity", "parity"), ("durability", "regime")]
    {
        assert_eq!(array[described], scenario[simulated], "{described}");
    }
}

#[test]
fn arrays_are_created_with_words_that_can_be_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    for (key, flag, words) in [
        ("parity", "--parity", ["min", "rmw", "rcw"].as_slice()),
        ("durability", "--durability", &["flush", "every-write"]),
    ] {
        for word in words {
            let path = folder.path().join(word);
            assert_eq!(described(&path, &[flag, word])[key].as_str(), Some(*word));
            let path = path.display().to_string();
            let served = destage(&["serve", &path, "--run", "true"]);
            assert!(served.status.success(), "{served:?}");
        }
    }
    // DiskSim's way is there to compare with it.
    let sim = ["sim", "--workload=skewed", "--array=raid5:3", "--parity=disksim", "--print-scenario"];
    assert!(quietly(&sim).contains("parity = \"disksim\""));
    let file = folder.path().join("min/array.toml");
    let text = fs::read_to_string(&file).expect("a description");
    fs::write(&file, text.replace("parity = \"min\"", "parity = \"disksim\"")).expect("a description");
    let path = folder.path().join("min").display().to_string();
    let said = refused(&["serve", &path, "--run", "true"]);
    assert!(said.contains("unknown variant `disksim`, expected one of `min`, `rmw`, `rcw`"), "{said}");
    let path = folder.path().join("another").display().to_string();
    let args = ["create", &path, "--level=raid5:3", "--member-size=1MiB", "--parity=disksim"];
    assert_eq!(destage(&args).status.code(), Some(2));
}
