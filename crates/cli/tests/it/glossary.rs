//! Holds names to the field's words: each type of the public surface of `destage-plan` and `destage-cache`, each key of a
//! scenario, each field of results and each state of an array is made of common words (`common_words.txt`) or of terms of
//! docs/glossary.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::binary::quietly;

const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Splits a name at signs and capitals into words of small letters: `NvSlots`, `nv-slots` and `nv_slots` are `nv` and `slots`.
fn words(name: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() {
            before = ' ';
            continue;
        }
        let begins = !before.is_ascii_alphanumeric()
            || c.is_ascii_uppercase() && !before.is_ascii_uppercase()
            || c.is_ascii_digit() != before.is_ascii_digit();
        match found.last_mut() {
            Some(word) if !begins => word.push(c.to_ascii_lowercase()),
            _ => found.push(c.to_ascii_lowercase().to_string()),
        }
        before = c;
    }
    found
}

#[test]
fn names_are_split_at_signs_and_capitals() {
    assert_eq!(words("NvSlots"), ["nv", "slots"]);
    assert_eq!(words("ssd.pages-per-block"), ["ssd", "pages", "per", "block"]);
    assert_eq!(words("p99_9"), ["p", "99", "9"]);
    assert_eq!(words("RAID levels"), ["raid", "levels"]);
}

/// Returns all singular forms under which a word may be listed.
fn forms(word: &str) -> impl Iterator<Item = &str> {
    [Some(word), word.strip_suffix('s'), word.strip_suffix("es"), word.strip_suffix("ed")].into_iter().flatten()
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(CHECKOUT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the words of the terms of the glossary: those in the first column of its tables.
fn terms(glossary: &str) -> BTreeSet<String> {
    let rows = glossary.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| row.split(" |").next());
    cells.filter(|cell| *cell != "term" && !cell.starts_with('-')).flat_map(words).collect()
}

/// Finds the public types that a crate's sources declare.
fn public_types(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            public_types(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            for line in text.lines() {
                let declared = ["struct ", "enum ", "trait ", "type "]
                    .iter()
                    .find_map(|kind| line.trim_start().strip_prefix("pub ")?.strip_prefix(kind));
                let name = declared.map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default());
                found.extend(name.map(str::to_owned));
            }
        }
    }
}

/// Collects the names of fields of results, however deep.
fn fields(list: &serde_json::Value, found: &mut Vec<String>) {
    for field in list.as_array().into_iter().flatten() {
        found.push(field["name"].as_str().expect("a name").to_owned());
        fields(&field["fields"], found);
    }
}

/// Returns the states that docs/failures.md has a row for; `failure_rows.rs` holds these to the code.
fn states(failures: &str) -> Vec<String> {
    let table = failures.lines().skip_while(|line| !line.starts_with("| state | exit status |"));
    let rows = table.skip(2).take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| row.split('`').nth(1)).map(str::to_owned).collect()
}

#[test]
fn every_name_is_made_of_words_of_the_field() {
    let mut names = Vec::new();
    for name in ["plan", "cache"] {
        public_types(&Path::new(CHECKOUT).join(format!("crates/{name}/src")), &mut names);
    }
    names.extend(destage_scenario::keys::SIM.iter().map(|key| key.name.to_owned()));
    for kind in [&["schema", "--json"][..], &["schema", "--array", "--json"]] {
        fields(&serde_json::from_str(&quietly(kind)).expect("a list of fields"), &mut names);
    }
    let states = states(&read("docs/failures.md"));
    assert!(states.len() > 5, "{states:?}");
    names.extend(states);

    let mut known = terms(&read("docs/glossary.md"));
    let common = read("crates/cli/tests/it/common_words.txt");
    known.extend(common.lines().filter(|line| !line.starts_with('#')).flat_map(words));
    let is_known = |word: &String| word.parse::<u32>().is_ok() || forms(word).any(|form| known.contains(form));
    let unknown: BTreeSet<_> = names
        .iter()
        .flat_map(|name| {
            words(name).into_iter().filter(|word| !is_known(word)).map(move |word| format!("{word}, of {name}"))
        })
        .collect();
    assert!(names.len() > 400, "only {} names were found", names.len());
    assert!(
        unknown.is_empty(),
        "give these the field's term, list it in docs/glossary.md, or add a common word to common_words.txt:\n{}",
        unknown.into_iter().collect::<Vec<_>>().join("\n")
    );
}
