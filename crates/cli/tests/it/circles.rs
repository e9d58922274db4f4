//! No module needs, over others, itself: each crate's modules can be read one after the other.
//! Circles inside one module's own folder are its own affair.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules that each module of a crate names.
type Graph = BTreeMap<String, BTreeSet<String>>;

fn sources(of: &Path) -> Vec<PathBuf> {
    if of.is_file() {
        return vec![of.to_owned()];
    }
    let entries = fs::read_dir(of).expect("a folder of sources");
    entries
        .map(|entry| entry.expect("an entry").path())
        .flat_map(|path| sources(&path))
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// The code of a file: without comments, and without its own tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a source");
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// The first names of a path, or of a list of paths in braces.
fn names(text: &str) -> Vec<&str> {
    let Some(inside) = text.strip_prefix('{') else { return vec![word(text)] };
    let (mut depth, mut from, mut found) = (1, 0, Vec::new());
    for (at, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || depth == 1 && c == ',' {
            found.push(word(inside[from..at].trim_start()));
            from = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    // A list may end with a comma.
    found.retain(|name| !name.is_empty());
    found
}

/// The names that a crate's root takes out of its modules, with their modules.
fn taken_out(root: &str, modules: &BTreeMap<String, PathBuf>) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for part in root.split("use ").skip(1) {
        let Some((module, rest)) = part.split_once("::").filter(|(module, _)| modules.contains_key(*module)) else {
            continue;
        };
        out.extend(names(rest).into_iter().map(|name| (name.to_owned(), module.to_owned())));
    }
    out
}

fn graph(folder: &Path) -> Graph {
    let is_root = |name: &str| ["lib", "main"].contains(&name);
    let modules: BTreeMap<String, PathBuf> = fs::read_dir(folder)
        .expect("a folder of sources")
        .map(|entry| entry.expect("an entry").path())
        .filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), path)))
        .filter(|(name, _)| !is_root(name))
        .fold(BTreeMap::new(), |mut modules, (name, path)| {
            // A module's file beside its folder is looked at with it.
            let folder = path.with_extension("");
            modules.insert(name, if folder.is_dir() { folder } else { path });
            modules
        });
    let root: String =
        ["lib.rs", "main.rs"].map(|name| folder.join(name)).iter().filter(|p| p.is_file()).map(|p| code(p)).collect();
    let taken_out = taken_out(&root, &modules);
    let needs = |name: &String, path: &PathBuf| {
        let beside = path.with_extension("rs");
        let files = sources(path).into_iter().chain((beside != *path && beside.is_file()).then_some(beside));
        let mut needed = BTreeSet::new();
        for text in files.map(|file| code(&file)) {
            for rest in text.split("crate::").skip(1) {
                let found = names(rest).into_iter().map(|name| match taken_out.get(name) {
                    // What is both is meant as the module.
                    Some(module) if !modules.contains_key(name) => module.as_str(),
                    _ => name,
                });
                needed.extend(found.filter(|found| found != name && modules.contains_key(*found)).map(str::to_owned));
            }
        }
        needed
    };
    modules.iter().map(|(name, path)| (name.clone(), needs(name, path))).collect()
}

/// A way from a module back to itself, if there is one.
fn circle(graph: &Graph) -> Option<Vec<&str>> {
    fn walk<'a>(graph: &'a Graph, at: &'a str, way: &mut Vec<&'a str>, done: &mut BTreeSet<&'a str>) -> bool {
        if let Some(first) = way.iter().position(|module| *module == at) {
            way.drain(..first);
            return true;
        }
        if !done.insert(at) {
            return false;
        }
        way.push(at);
        if graph[at].iter().any(|next| walk(graph, next, way, done)) {
            return true;
        }
        way.pop();
        false
    }
    let (mut way, mut done) = (Vec::new(), BTreeSet::new());
    graph.keys().any(|module| walk(graph, module, &mut way, &mut done)).then_some(way)
}

#[test]
fn modules_do_not_need_each_other_in_circles() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    let mut looked_at = 0;
    for entry in fs::read_dir(crates).expect("crates") {
        let folder = entry.expect("an entry").path().join("src");
        let graph = graph(&folder);
        if let Some(way) = circle(&graph) {
            panic!("{}: {} -> {}", folder.display(), way.join(" -> "), way[0]);
        }
        looked_at += graph.values().map(BTreeSet::len).sum::<usize>();
    }
    assert!(looked_at > 200, "modules of a crate name each other: {looked_at} times");
}

#[test]
fn a_circle_is_found() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let mut graph = Graph::from([
        ("a".to_owned(), set(&["b", "d"])),
        ("b".to_owned(), set(&["c"])),
        ("c".to_owned(), set(&["d"])),
        ("d".to_owned(), set(&[])),
    ]);
    assert_eq!(circle(&graph), None);
    graph.insert("d".to_owned(), set(&["b"]));
    assert_eq!(circle(&graph), Some(vec!["b", "c", "d"]));
    assert_eq!(names("{a::B, c::{D, E}, F}"), ["a", "c", "F"]);
}
