//! A folder with everything that commands read.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use super::rows::{OutputKind, Row};
use crate::binary::{command, signalled};

/// Holds the files in a folder and below it: contents, and where links lead.
pub type Content = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// Holds the content of the file that had the name of an output before.
pub const OLD: &[u8] = b"last week's results\n";

const PAPER: &str = r#"
name = "small"
title = "A small paper"
about = "About."
verdict = "Verdict."
seeds = 2
policies = ["bplru", "lru"]

[settings]
device = "analytic"

[[workload]]
name = "recorded"
provenance = "original"
stands-for = ["Trace"]
files = ["original.spc"]

[[workload]]
name = "made up"
provenance = "synthetic"
stands-for = ["Trace"]
synthetic = "workload.toml"

[[claim]]
id = "S1"
where = "text"
workload = "Trace"
metric = "throughput"
new = "lru"
than = "bplru"
caches = ["1MiB"]
claimed = [1, 9]
why = ["made-up"]

[[reason]]
id = "made-up"
text = "Nobody claims it."
"#;

/// Results of simulations of the trace, which are always the same.
static RESULTS: OnceLock<[Vec<u8>; 2]> = OnceLock::new();

/// The folder, in which calls are made.
pub struct Workshop {
    folder: tempfile::TempDir,
    device: Option<String>,
}

impl Workshop {
    /// A new one; `device` is a disk to record, if there is one.
    pub fn new(device: Option<&str>) -> Self {
        let made = Self { folder: tempfile::tempdir().unwrap(), device: device.map(str::to_owned) };
        let mut trace = String::new();
        for i in 0..10_000_u64 {
            let (lba, op) = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48 << 3, if i % 4 == 0 { 'R' } else { 'W' });
            writeln!(trace, "0,{lba},{},{op},{}.{:03}000", 512 * (1 + i % 40), i / 500, i % 500).unwrap();
        }
        let write = |name: &str, content: &[u8]| fs::write(made.path(name), content).unwrap();
        for folder in ["originals", "broken-traces"] {
            fs::create_dir(made.path(folder)).unwrap();
        }
        write("trace.spc", trace.as_bytes());
        write("originals/original.spc", trace.as_bytes());
        // Long enough that it is read for a while before that is found.
        write("broken.spc", format!("{trace}0,nonsense,512,W,99.0\n").as_bytes());
        write("broken-traces/original.spc", format!("{trace}0,nonsense,512,W,99.0\n").as_bytes());
        write("ambiguous", b"0 0 2001 7 0\n26 0 2008 7 0\n");
        write("scenario.toml", b"page = \"4KiB\"\n");
        write("naming.toml", b"trace = \"trace.spc\"\n");
        write("settings.toml", b"space = \"64MiB\"\n");
        let workload =
            "about = \"A\"\nsource = \"B\"\nkind = \"synthetic\"\nlength = 20_000\n[[part]]\nspace = \"64MiB\"\n";
        write("workload.toml", workload.as_bytes());
        write("paper.toml", PAPER.as_bytes());
        write("wrong-paper.toml", PAPER.replace("workload.toml", "nowhere.toml").as_bytes());
        let part = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/data/loop.blktrace");
        fs::copy(part, made.path("recording.blktrace.1")).unwrap();
        symlink(".", made.path("here")).unwrap();
        let results = RESULTS.get_or_init(|| {
            ["lru", "fab"].map(|policy| {
                let done = made.run(&["sim", "--trace", "trace.spc", "--cache=1MiB", "--policy", policy, "--json"]);
                assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
                done.stdout
            })
        });
        write("results.json", &results[0]);
        write("results2.json", &results[1]);
        made
    }

    /// Returns true if a row can be tried: recording needs a disk.
    pub fn has(&self, row: &Row) -> bool {
        self.device.is_some() || row.command != "trace record"
    }

    /// A file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the name for which a word in braces stands.
    pub fn name(&self, word: &str) -> &str {
        match word {
            "{trace}" => "trace.spc",
            "{traces}" => "originals",
            "{original}" => "originals/original.spc",
            "{broken}" => "broken.spc",
            "{broken-traces}" => "broken-traces",
            "{ambiguous}" => "ambiguous",
            "{scenario}" => "scenario.toml",
            "{naming}" => "naming.toml",
            "{settings}" => "settings.toml",
            "{workload}" => "workload.toml",
            "{paper}" => "paper.toml",
            "{wrong-paper}" => "wrong-paper.toml",
            "{results}" => "results.json",
            "{results2}" => "results2.json",
            "{recording}" => "recording",
            "{part}" => "recording.blktrace.1",
            "{nowhere}" => "nowhere",
            "{device}" => self.device.as_deref().expect("rows without a disk are left out"),
            _ => panic!("{word} stands for nothing"),
        }
    }

    /// The words of a call with these outputs.
    pub fn words(&self, call: &str, outputs: &[(&Row, &str)]) -> Vec<String> {
        let words = call.split(' ').map(|word| if word.starts_with('{') { self.name(word) } else { word });
        let options = outputs.iter().map(|(row, out)| row.option.replace("{}", out));
        words.map(str::to_owned).chain(options).collect()
    }

    /// Makes a call, to its end.
    pub fn run<S: AsRef<str>>(&self, words: &[S]) -> Output {
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        command(&words).current_dir(self.folder.path()).output().expect("the binary starts")
    }

    /// A call that signals reach.
    pub fn signalled<S: AsRef<str>>(&self, words: &[S]) -> Command {
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        let mut call = signalled(&words);
        call.current_dir(self.folder.path());
        call
    }

    /// Everything that there is.
    pub fn content(&self) -> Content {
        content(self.folder.path())
    }

    /// Lays what was there last week where a row's output goes.
    pub fn last_week(&self, row: &Row, out: &str) {
        last_week(row, &self.path(out));
    }
}

/// Everything in a folder.
pub fn content(folder: &Path) -> Content {
    let mut all = Content::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            let content = match () {
                () if kind.is_symlink() => Some(fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()),
                () if kind.is_file() => Some(fs::read(&path).unwrap()),
                () => None,
            };
            if kind.is_dir() {
                folders.push(path.clone());
            }
            all.insert(path.strip_prefix(folder).unwrap().to_owned(), content);
        }
    }
    all
}

/// Lays what was there last week where a row's output goes.
pub fn last_week(row: &Row, out: &Path) {
    match row.kind {
        OutputKind::File => fs::write(out, OLD).unwrap(),
        OutputKind::Report(members) | OutputKind::Pages(members) => {
            fs::create_dir(out).unwrap();
            for member in members {
                fs::write(out.join(member), OLD).unwrap();
            }
        }
    }
}
