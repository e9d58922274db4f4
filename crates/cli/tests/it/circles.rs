//! No module needs, over others, itself: each crate's modules can be read one after the other. In the crates that
//! [`INSIDE`] names that holds of every file: none imports from a folder that it lies in, since that needs its files. No
//! file is longer than can be read in one sitting.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crates of which every file is looked at; of the others circles inside one module's own folder are its own affair.
const INSIDE: [&str; 1] = ["exec"];

/// Limits the lines of a file.
const LONGEST: usize = 700;

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

/// The whole paths of a list of paths in braces, however deep, or of a single path.
fn paths(text: &str) -> Vec<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(text.len());
    let (path, rest) = text.split_at(end);
    let Some(inside) = rest.strip_prefix('{').filter(|_| path.is_empty() || path.ends_with("::")) else {
        return vec![path.trim_end_matches(':').to_owned()];
    };
    let (mut depth, mut from, mut found) = (1, 0, Vec::new());
    for (at, c) in inside.char_indices() {
        depth += match c {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        if depth == 0 || depth == 1 && c == ',' {
            found.extend(paths(inside[from..at].trim_start()).iter().map(|rest| format!("{path}{rest}")));
            from = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    found
}

/// The crate's root, among the modules of its files.
const ROOT: &str = "crate";

/// The module, of these, in which a path ends that a module names.
fn ends_in(modules: &BTreeMap<String, String>, of: &str, path: &str) -> String {
    let (mut at, mut found) = (Vec::new(), ROOT.to_owned());
    for (number, name) in path.split("::").enumerate() {
        match name {
            "crate" if number == 0 => continue,
            "self" if number == 0 => at = of.split("::").collect(),
            "super" => {
                if number == 0 {
                    at = of.split("::").collect();
                }
                at.pop();
            }
            _ => at.push(name),
        }
        let module = at.join("::");
        if modules.contains_key(&module) {
            found = module;
        } else if !at.is_empty() {
            break;
        }
    }
    found
}

/// Finds which others each file of a crate needs, because it names or declares them; files go by their modules' paths.
fn files(folder: &Path) -> Graph {
    let mut modules = BTreeMap::new();
    for file in sources(folder) {
        let path = file.strip_prefix(folder).expect("it is in the folder").with_extension("");
        let mut names: Vec<_> = path.iter().map(|name| name.to_str().expect("a name")).collect();
        if names.last() == Some(&"mod") {
            names.pop();
        }
        if let ["lib" | "main"] = names[..] {
            names = vec![ROOT];
        }
        modules.insert(names.join("::"), code(&file));
    }
    let needs = |module: &String, code: &String| {
        let named = ["crate::", "super::", "self::"].into_iter().flat_map(|start| {
            let starts = code.match_indices(start).map(|(at, _)| at);
            let is_inside = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            starts.filter(move |at| !code[..*at].ends_with(is_inside)).flat_map(|at| paths(&code[at..]))
        });
        let needed = named.map(|path| ends_in(&modules, module, &path));
        let declared = modules.keys().filter(|other| match other.rsplit_once("::") {
            Some((parent, _)) => parent == module,
            None => module == ROOT,
        });
        needed.chain(declared.cloned()).filter(|needed| needed != module).collect()
    };
    modules.iter().map(|(module, code)| (module.clone(), needs(module, code))).collect()
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
fn no_file_is_longer_than_a_sitting() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    let all = sources(crates);
    let lines = |path: &Path| fs::read_to_string(path).expect("a source").lines().count();
    let long: Vec<_> = all.iter().map(|path| (path, lines(path))).filter(|(_, lines)| *lines > LONGEST).collect();
    assert!(long.is_empty(), "more than {LONGEST} lines: {long:?}");
    assert!(all.len() > 1_000, "{} files", all.len());
}

#[test]
fn files_do_not_need_each_other_in_circles() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    for name in INSIDE {
        let graph = files(&crates.join(name).join("src"));
        if let Some(way) = circle(&graph) {
            panic!("{name}: {} -> {}", way.join(" -> "), way[0]);
        }
        let arrows: usize = graph.values().map(BTreeSet::len).sum();
        assert!(arrows > graph.len(), "{name}: {} files name each other {arrows} times", graph.len());
    }
}

#[test]
fn what_files_name_is_found_inside_folders() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, code: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, code).expect("a source");
    };
    write("lib.rs", "mod low;\nmod house;\npub use low::Brick;\npub use house::{Door, Wall};\n");
    write("low.rs", "pub struct Brick;\n");
    write("house/mod.rs", "mod room;\nmod wall;\npub use wall::{Door, Wall};\n");
    write(
        "house/wall.rs",
        "use crate::{low, low::Brick};\n// use crate::house::room;\npub struct Wall(low::Brick, Brick);\n",
    );
    write("house/room/mod.rs", "mod floor;\nmod roof;\n");
    write("house/room/roof.rs", "use super::super::wall::{Wall, Door};\nuse std::{self, fmt};\n");
    write("house/room/floor.rs", "use crate::{low::Brick, house::{wall::Door, room::roof}};\n");
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let mut expected = Graph::from([
        (ROOT.to_owned(), set(&["house", "low"])),
        ("low".to_owned(), set(&[])),
        ("house".to_owned(), set(&["house::room", "house::wall"])),
        ("house::wall".to_owned(), set(&["low"])),
        ("house::room".to_owned(), set(&["house::room::floor", "house::room::roof"])),
        ("house::room::roof".to_owned(), set(&["house::wall"])),
        ("house::room::floor".to_owned(), set(&["low", "house::wall", "house::room::roof"])),
    ]);
    assert_eq!(files(folder.path()), expected);
    assert_eq!(circle(&expected), None);
    // From the folder that it lies in, and from the root.
    write("house/wall.rs", "use super::Door;\n");
    expected.insert("house::wall".to_owned(), set(&["house"]));
    assert_eq!(files(folder.path()), expected);
    assert_eq!(
        circle(&expected),
        Some(vec!["house", "house::room", "house::room::floor", "house::room::roof", "house::wall"])
    );
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
