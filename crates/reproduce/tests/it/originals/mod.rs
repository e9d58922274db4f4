//! Recognising traces: small files that are made to look like originals, whose figures a catalogue of the test's own gives, what
//! only looks like them, and the real pieces beside the checkout.

mod folders;
mod known;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use destage_reproduce::originals::{FoundFile, TraceCatalogue, TraceRecogniser, TraceVerdict};
use destage_trace::TraceSource as _;

/// Knows an SPC trace of 300 requests, a volume of 400 and one of which nothing but its week is published, a trace of parts
/// without figures, and a piece.
const CATALOGUE: &str = r#"
[[family]]
id = "spc"
title = "SPC"
where = "a repository"
formats = ["spc", "native", "ssdsim", "disksim"]

[[family]]
id = "msr"
title = "MSR"
where = "another repository"
formats = ["msr", "native", "msr-cut"]

[[family.published]]
source = "one week"
seconds = 604_800
within = 2

[[family]]
id = "fiu"
title = "FIU"
where = "a third one"
formats = ["columns:ts=ns,_,_,off=sectors,len=sectors,op,dev,dev,_,sep=blanks"]
parts = 21

[[trace]]
id = "fin"
family = "spc"
title = "Fin"
names = ["fin", "financial"]
begins = ["W 0+8", "R 7919+8"]

[[trace.published]]
source = "a paper"
requests = 300
reads = 150
writes = 150
volumes = 3
within = 0.1

[[trace.published]]
source = "another paper"
describes = true
interval-ms = 10
read-percent = 99
unique = 562
within = 5

[[trace]]
id = "hm_0"
family = "msr"
title = "hm_0"
names = ["hm_0"]
volumes = ["hm_0"]

[[trace.published]]
source = "a count"
requests = 400
within = 0.1

[[trace.published]]
source = "the first"
first = 100
reads = 50
write-kib = 4
within = 1

[[trace]]
id = "web_0"
family = "msr"
title = "web_0"
names = ["web_0"]
volumes = ["web_0"]

[[trace]]
id = "mail"
family = "fiu"
title = "mail"
names = ["cheetah.cs.fiu.edu"]

[[trace]]
id = "fin-first-40"
family = "spc"
title = "Fin, its first 40"
names = ["fin.first40"]
piece-of = "fin"
begins = ["W 0+8"]

[[trace.published]]
source = "counted"
requests = 40
reads = 20
writes = 20
within = 0
"#;

fn catalogue() -> TraceCatalogue {
    TraceCatalogue::parse(Path::new("test.toml"), CATALOGUE).expect("a catalogue")
}

/// Writes an SPC trace: every other request a read, three volumes, 10 ms apart; from request `from` on.
fn spc(from: u64, requests: u64) -> String {
    (from..from + requests).fold(String::new(), |mut text, n| {
        let op = if n % 2 == 1 { 'R' } else { 'W' };
        writeln!(text, "{},{},4096,{op},{}.{:02}0000", n % 3, n * 7919, n / 100, n % 100).expect("a line");
        text
    })
}

/// Writes the same as `MQSim` has it.
fn mqsim(requests: u64) -> String {
    (0..requests).fold(String::new(), |mut text, n| {
        writeln!(text, "{} {} {} 8 {}", n * 20_000_000, n % 3, n * 7919, n % 2).expect("a line");
        text
    })
}

/// Writes a volume's trace, whose requests share a week.
fn msr(host: &str, requests: u64, week: u64, bytes: u64) -> String {
    (0..requests).fold(String::new(), |mut text, n| {
        let op = if n % 2 == 1 { "Read" } else { "Write" };
        let time = 128_166_372_000_000_000 + n * 6_048_000_000_000 / week;
        writeln!(text, "{time},{host},0,{op},{},{bytes},100", n * 8192).expect("a line");
        text
    })
}

fn fiu(requests: u64) -> String {
    (0..requests).fold(String::new(), |mut text, n| {
        let op = if n % 2 == 1 { 'R' } else { 'W' };
        writeln!(text, "{} 4892 syslogd {} 8 {op} 6 0 531e779d4d40c0a4b5ee1e4ccd6c1a6d", 89_967_195_181 + n, n * 8)
            .expect("a line");
        text
    })
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(bytes).expect("memory");
    out.finish().expect("memory")
}

/// Looks at one file of this name and content.
fn look(name: &str, content: impl AsRef<[u8]>) -> FoundFile {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join(name);
    fs::write(&file, content).expect("a file");
    TraceRecogniser::new(&catalogue(), None).look(&file)
}

fn verdict(name: &str, content: impl AsRef<[u8]>) -> TraceVerdict {
    look(name, content).verdict
}

/// Returns the trace that a file is said to look like, and everything that is said against it.
fn refused(name: &str, content: impl AsRef<[u8]>) -> (String, String) {
    match verdict(name, content) {
        TraceVerdict::NotIt { trace, reason, off } => {
            let off = off.iter().map(ToString::to_string);
            (trace, reason.into_iter().chain(off).collect::<Vec<_>>().join("; "))
        }
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn originals_are_known_by_name_and_content() {
    for (name, content) in [
        ("Financial.spc", spc(0, 300).into_bytes()),
        ("FIN.spc.gz", gzip(spc(0, 300).as_bytes())),
        ("fin.trace", mqsim(300).into_bytes()),
        // Its content alone tells it.
        ("data-2002.txt", spc(0, 300).into_bytes()),
    ] {
        let TraceVerdict::Whole { trace, deviations } = verdict(name, &content) else { panic!("{name}") };
        assert_eq!(trace, "fin", "{name}");
        let deviations: Vec<String> = deviations.iter().map(ToString::to_string).collect();
        assert_eq!(deviations, ["reads in percent: found 50, expected 99 (another paper)"], "{name}");
    }
    for name in ["hm_0.csv", "msr-hm_0.csv", "anything.csv"] {
        let TraceVerdict::Whole { trace, deviations } = verdict(name, msr("hm", 400, 400, 4096)) else {
            panic!("{name}")
        };
        assert_eq!((trace.as_str(), deviations.len()), ("hm_0", 0), "{name}");
    }
    // Where no count is published it is as long as the original, and nothing more is known.
    let found = look("web_0.csv", msr("web", 500, 500, 4096)).verdict;
    assert!(matches!(&found, TraceVerdict::AsLong { trace, .. } if trace == "web_0"), "{found:?}");
    assert!(found.is_usable() && found.key() == "as-long");
    let mail = "cheetah.cs.fiu.edu-110108-113008.1.blkparse";
    assert_eq!(verdict(mail, fiu(50)), TraceVerdict::Unchecked { trace: "mail".into() });
    // Nothing but its name says what a trace of FIU is.
    assert_eq!(verdict("some.blkparse", fiu(50)), TraceVerdict::OtherTrace);
}

#[test]
fn pieces_are_told_from_wholes() {
    let found = look("fin.first40.spc", spc(0, 40));
    assert_eq!(found.requests, Some(40));
    let TraceVerdict::KnownPiece { trace, share: Some(share) } = found.verdict else { panic!("{found:?}") };
    assert!(trace == "fin-first-40" && (share - 40.0 / 300.0).abs() < 1e-9);
    let TraceVerdict::Prefix { trace, share: Some(share), because } = verdict("fin.spc", spc(0, 90)) else { panic!() };
    assert!(trace == "fin" && (share - 0.3).abs() < 1e-9 && because.contains("first requests"), "{because}");
    // A volume's first requests have the published figures, or have not; its own name stands in the file.
    let TraceVerdict::Prefix { because, .. } = verdict("x.csv", msr("hm", 200, 800, 4096)) else { panic!() };
    assert!(because.contains("(the first)"), "{because}");
    let piece = |content: String| verdict("x.csv", content);
    assert_eq!(
        piece(msr("hm", 200, 800, 512)),
        TraceVerdict::Piece { trace: "hm_0".into(), share: Some(0.5), is_proven: true }
    );
    let TraceVerdict::Piece { share: Some(share), is_proven: true, .. } = piece(msr("web", 51, 500, 512)) else {
        panic!()
    };
    assert!((share - 0.1).abs() < 1e-3, "{share}");
}

#[test]
fn impostors_are_refused_with_what_is_off() {
    let of = |name: &str, content: String| refused(name, content);
    let (trace, why) = of("fin.spc", spc(0, 400));
    assert_eq!(trace, "fin");
    assert!(why.contains("requests: found 400, expected 300 (a paper)"), "{why}");
    let (_, why) = of("fin.spc", spc(20, 100));
    assert_eq!(why, "its request 1: found W 158380+8, expected W 0+8 (op, sector+sectors)");
    // As many requests as there should be, of which too few are reads.
    let (_, why) = of("fin.spc", spc(0, 300).replacen(",R,", ",W,", 300).replacen(",W,2.99", ",R,2.99", 1));
    assert!(why.contains("writes: found 2"), "{why}");
    // All counts are right, but a paper saw something else entirely.
    let strict = CATALOGUE.replacen("read-percent = 99\nunique = 562\nwithin = 5", "read-percent = 99\nwithin = 4", 1);
    assert!(strict != CATALOGUE);
    let strict = TraceCatalogue::parse(Path::new("test.toml"), &strict).expect("a catalogue");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("fin.spc"), spc(0, 300)).expect("a file");
    let found = TraceRecogniser::new(&strict, None).look(&folder.path().join("fin.spc"));
    let TraceVerdict::NotIt { off, .. } = found.verdict else { panic!("{found:?}") };
    assert_eq!(off[0].to_string(), "reads in percent: found 50, expected 99 (another paper)");
    let (trace, why) = of("hm_0.csv", msr("prn", 400, 400, 4096));
    assert_eq!((trace.as_str(), why.as_str()), ("hm_0", "its volume: found prn_0, expected hm_0"));
    let (trace, why) = of("hm_0.csv", spc(20, 10));
    assert_eq!((trace.as_str(), why.as_str()), ("hm_0", "its format: found spc, expected msr, native, msr-cut"));
    // The content of another known trace counts for more than a wrong name.
    assert!(
        matches!(verdict("hm_0.csv", msr("web", 500, 500, 4096)), TraceVerdict::AsLong { trace, .. } if trace == "web_0")
    );
    for (name, content, says) in [
        ("fin.spc", "", "is empty"),
        ("fin.spc", "ASU,LBA,size,op,time\n", "fits no known format"),
        ("fin.spc", "\u{1}\u{2}\0\u{3}garbage \0\0\0", "fits no known format"),
        ("hm_0.csv.gz", "\u{1f}", "fits no known format"),
    ] {
        let (_, why) = refused(name, content);
        assert!(why.contains(says), "{name}: {why}");
    }
    // Without the name nobody is bothered.
    assert!(matches!(verdict("notes.txt", "hello\n"), TraceVerdict::NoTrace { .. }));
    assert!(matches!(verdict("x.spc", spc(20, 100)), TraceVerdict::OtherTrace));
    assert!(matches!(verdict("muffin.txt", "hello\n"), TraceVerdict::NoTrace { .. }), "a part of a word is no name");
}

#[test]
fn a_native_file_without_names_is_told_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let (csv, native) = (folder.path().join("x.csv"), folder.path().join("hm_0.destage"));
    fs::write(&csv, msr("hm", 400, 400, 4096)).expect("a file");
    let write = |has_names: bool| {
        let mut source = destage_trace::open(&csv, &destage_trace::OpenOptions::default()).expect("a trace");
        let mut writer = destage_trace::NativeWriter::new(Vec::new()).expect("memory");
        let mut batch = Vec::new();
        loop {
            source.next_batch(&mut batch).expect("requests");
            if batch.is_empty() {
                break;
            }
            if has_names {
                writer.volume_names(source.volume_names()).expect("names");
            }
            writer.write(&batch).expect("memory");
        }
        fs::write(&native, writer.finish().expect("memory")).expect("a file");
        TraceRecogniser::new(&catalogue(), None).look(&native).verdict
    };
    assert!(matches!(write(true), TraceVerdict::Whole { trace, .. } if trace == "hm_0"));
    let TraceVerdict::NotIt { trace, reason: Some(reason), .. } = write(false) else { panic!() };
    assert!(
        trace == "hm_0" && reason.contains("no volume names") && reason.contains("destage trace convert"),
        "{reason}"
    );
}

#[test]
fn what_ends_early_is_damaged() {
    let whole = gzip(spc(0, 300).as_bytes());
    for (name, content) in [("fin.spc.gz", &whole[..whole.len() / 2]), ("x.gz", &whole[..whole.len() - 6])] {
        let TraceVerdict::Damaged { trace, error } = verdict(name, content) else { panic!("{name}") };
        assert_eq!(trace.as_deref(), name.starts_with("fin").then_some("fin"), "{name}");
        assert!(error.contains("cut short"), "{name}: {error}");
    }
    // What is read before the end tells it, whatever it is called.
    let long = gzip(spc(0, 40_000).as_bytes());
    let TraceVerdict::Damaged { trace, error } = verdict("x.gz", &long[..long.len() - 100]) else { panic!() };
    assert!(trace.as_deref() == Some("fin") && error.contains("cut short"), "{error}");
    // A line is cut, or one is wrong.
    let text = spc(0, 300);
    for text in [text[..text.len() - 20].to_owned(), text.replacen(",W,1.50", ",X,1.50", 1)] {
        let TraceVerdict::Damaged { trace, error } = verdict("fin.spc", text) else { panic!() };
        assert!(trace.as_deref() == Some("fin") && error.contains("line "), "{error}");
    }
}

#[test]
fn catalogues_that_are_wrong_say_so() {
    let parse = |text: &str| TraceCatalogue::parse(Path::new("k.toml"), text).expect_err("it is wrong").to_string();
    for (from, to, says) in [
        ("requests = 300", "reqests = 300", "k.toml, line "),
        ("id = \"hm_0\"", "id = \"fin\"", "k.toml: two traces have the same id"),
        ("family = \"fiu\"", "family = \"fui\"", "trace \"mail\": there is no family \"fui\""),
        ("piece-of = \"fin\"", "piece-of = \"fun\"", "piece-of: there is no trace \"fun\""),
        ("\"spc\", \"native\"", "\"spcc\", \"native\"", "formats: there is no format \"spcc\""),
        ("names = [\"hm_0\"]", "names = [\"HM_0\"]", "names: \"HM_0\": expected a word in lower case"),
        ("requests = 300", "requests = nan", "published by a paper: expected figures of 0 or more"),
        ("requests = 300", "requests = 0", "published by a paper: requests = 0: expected 1 or more"),
        ("\"W 0+8\", \"R", "\"W 0-8\", \"R", "begins: \"W 0-8\": expected R or W, sector and sectors"),
        ("\"W 0+8\", \"R", "\"D 0+8\", \"R", "begins: \"D 0+8\""),
        ("within = 0.1", "within = -1", "expected figures of 0 or more, within = 0 or more"),
    ] {
        assert!(CATALOGUE.contains(from), "{from}");
        let error = parse(&CATALOGUE.replacen(from, to, 1));
        assert!(error.contains(says), "{to}: {error}");
    }
}
