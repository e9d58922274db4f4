//! Every row of the tables of docs/failures.md has tests that show it: `failure_rows.toml` names them, and this checks that
//! they are there. A row without an entry, an entry without a row, and a test that was renamed fail.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Names the section whose table is made by a script that runs both.
const MADE: &str = "Beside md";

/// Lists the tests of each row, by the beginning of its first cell, for each section with a table.
type Declaration = BTreeMap<String, BTreeMap<String, Vec<String>>>;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(CHECKOUT).join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// Returns the first cells of all rows, by the sections that they are in.
fn rows(document: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut rows: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let (mut section, mut is_head) = ("", true);
    for line in document.lines() {
        let Some(cells) = line.strip_prefix("| ") else {
            // The line below the names of columns.
            is_head = !line.starts_with("|---");
            section = line.strip_prefix('#').map_or(section, |title| title.trim_start_matches('#').trim());
            continue;
        };
        if !is_head {
            rows.entry(section).or_default().push(cells.split(" | ").next().unwrap_or_default());
        }
    }
    rows
}

/// Returns what is wrong between rows and entries: each row begins with one key, each key begins one row.
fn unmatched(rows: &BTreeMap<&str, Vec<&str>>, entries: &Declaration) -> Vec<String> {
    let mut wrong = Vec::new();
    let none = BTreeMap::new();
    for (section, rows) in rows.iter().filter(|(section, _)| **section != MADE) {
        let keys = entries.get(*section).unwrap_or(&none);
        for row in rows {
            let count = keys.keys().filter(|key| row.starts_with(key.as_str())).count();
            if count != 1 {
                wrong.push(format!("{section}: {count} entries for the row: {row}"));
            }
        }
        for key in keys.keys() {
            let count = rows.iter().filter(|row| row.starts_with(key.as_str())).count();
            if count != 1 {
                wrong.push(format!("{section}: {count} rows for the entry: {key}"));
            }
        }
    }
    let others = entries.keys().filter(|section| !rows.contains_key(section.as_str()));
    wrong.extend(others.map(|section| format!("no section with a table is called {section}")));
    wrong
}

/// Returns the file of a module of a crate's integration tests, if its parents declare it.
fn module_file(tests: &Path, module: &[&str]) -> Option<PathBuf> {
    let (mut folder, mut parent) = (tests.to_owned(), tests.join("main.rs"));
    for name in module {
        let declares = fs::read_to_string(&parent).ok()?.lines().any(|line| line == format!("mod {name};"));
        let files = [folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")];
        parent = files.into_iter().find(|file| declares && file.is_file())?;
        folder = folder.join(name);
    }
    Some(parent)
}

/// Returns true if a source has a test of this name, which is run: a function with the attribute, or one of a list that a
/// macro makes tests of.
fn has_test(source: &str, name: &str) -> bool {
    let mut attributes = Vec::new();
    let mut list: Option<bool> = None;
    let (mut is_function, mut is_listed, mut is_marked) = (false, false, false);
    for line in source.lines().map(str::trim) {
        if line.ends_with("_tests! {") {
            list = Some(false);
        } else if line == "}" {
            list = None;
        } else if let Some(is_ignored) = &mut list {
            is_listed |= line.strip_suffix(',') == Some(name) && !*is_ignored;
            *is_ignored = line.starts_with("#[ignore");
        } else if line.starts_with("#[") {
            attributes.push(line);
        } else if let Some(rest) = line.strip_prefix("fn ") {
            if rest.strip_prefix(name).is_some_and(|rest| rest.starts_with('(')) {
                is_function = true;
                is_marked |=
                    attributes.contains(&"#[test]") && !attributes.iter().any(|one| one.starts_with("#[ignore"));
            }
            attributes.clear();
        } else if !line.starts_with("//") {
            attributes.clear();
        }
    }
    is_function && (is_listed || is_marked)
}

/// Looks for a test that is named as `cargo test` does, behind its crate: `exec files_life::too_many_lost_members_are_refused`.
fn find_test(named: &str) -> Result<(), String> {
    let (package, path) = named.split_once(' ').ok_or("no crate is named")?;
    let mut module: Vec<&str> = path.split("::").collect();
    let name = module.pop().unwrap_or_default();
    let tests = Path::new(CHECKOUT).join("crates").join(package).join("tests/it");
    let file = module_file(&tests, &module).ok_or("there is no such module")?;
    let source = fs::read_to_string(&file).map_err(|why| why.to_string())?;
    if has_test(&source, name) { Ok(()) } else { Err(format!("no test of this name is run in {}", file.display())) }
}

#[test]
fn every_row_of_the_tables_of_failures_has_tests() {
    let (document, declaration) = (read("docs/failures.md"), read("crates/cli/tests/it/failure_rows.toml"));
    let entries: Declaration = toml::from_str(&declaration).expect("lists of tests");
    let rows = rows(&document);
    assert!(rows.len() == 6 && rows.values().map(Vec::len).sum::<usize>() > 100, "{rows:#?}");
    let mut wrong = unmatched(&rows, &entries);
    for (section, entries) in &entries {
        for (row, tests) in entries {
            let once: BTreeSet<&String> = tests.iter().collect();
            if tests.is_empty() || once.len() < tests.len() {
                wrong.push(format!("{section}: {row}: no test, or one twice"));
            }
            let missing = tests.iter().filter_map(|test| Some((test, find_test(test).err()?)));
            wrong.extend(missing.map(|(test, why)| format!("{section}: {row}: {test}: {why}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_row_without_an_entry_and_an_entry_without_a_row_are_found() {
    let document = "## Fires\n\n| what | then |\n|---|---|\n| a small one | water |\n| a large one | run |\n\n## Beside md\n\n\
                    | what | then |\n|---|---|\n| whatever | no |\n";
    let rows = rows(document);
    assert_eq!(rows, BTreeMap::from([("Fires", vec!["a small one", "a large one"]), (MADE, vec!["whatever"])]));
    let entries = |keys: &[&str]| -> Declaration {
        let keys = keys.iter().map(|key| ((*key).to_owned(), Vec::new())).collect();
        BTreeMap::from([("Fires".to_owned(), keys)])
    };
    assert!(unmatched(&rows, &entries(&["a small", "a large"])).is_empty());
    assert_eq!(unmatched(&rows, &entries(&["a small"])), ["Fires: 0 entries for the row: a large one"]);
    assert_eq!(unmatched(&rows, &entries(&["a small", "a large", "a cold"])), ["Fires: 0 rows for the entry: a cold"]);
    assert_eq!(unmatched(&rows, &entries(&["a small", "a"])).len(), 2, "an entry is of one row");
    assert_eq!(unmatched(&rows, &Declaration::new()).len(), 2);
    let floods = BTreeMap::from([("Floods".to_owned(), BTreeMap::new())]);
    assert!(unmatched(&rows, &floods).contains(&"no section with a table is called Floods".to_owned()));
}

#[test]
fn tests_that_are_run_are_told_from_other_functions() {
    let source = "mode_tests! {\n    in_each_mode,\n    #[ignore = \"by another\"]\n    by_another,\n}\n\nfn in_each_mode(mode: Mode) {}\n\
                  fn by_another(mode: Mode) {}\n\n#[test]\nfn alone() {}\n\n/// Helps.\nfn helper() {}\n\n#[test]\n#[ignore]\nfn never() {}\n\n\
                  mode_tests! {\n    not_there,\n}\n";
    let found = ["in_each_mode", "by_another", "alone", "helper", "never", "not_there", "al"]
        .map(|name| has_test(source, name));
    assert_eq!(found, [true, false, true, false, false, false, false]);
    for (named, why) in [
        ("exec files_life::too_many_lost_members_are_refused", None),
        ("crash commands::what_is_killed_is_served_or_refused_with_a_way_on", None),
        ("exec files_life::too_many_lost_members_are_served", Some("no test of this name")),
        ("exec files_death::too_many_lost_members_are_refused", Some("no such module")),
        ("files_life::too_many_lost_members_are_refused", Some("no crate is named")),
    ] {
        let found = find_test(named).err();
        assert_eq!(found.is_some(), why.is_some(), "{named}: {found:?}");
        assert!(why.is_none_or(|why| found.is_some_and(|found| found.contains(why))), "{named}");
    }
}
