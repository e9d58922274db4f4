//! The catalogue that is built in, over papers and over the real pieces beside the checkout.

use std::path::PathBuf;

use destage_reproduce::originals::{FoundTraces, PaperNeeds, search};
use destage_reproduce::paper::{self, PaperFile, WorkloadProvenance};

use super::*;

/// Returns the built-in one.
fn built_in() -> TraceCatalogue {
    TraceCatalogue::built_in().expect("it is right")
}

#[test]
fn the_built_in_catalogue_knows_what_papers_use() {
    let known = built_in();
    let volumes = known.traces().iter().filter(|trace| known.family(trace).id == "msr-cambridge").count();
    assert_eq!(volumes, 36);
    for name in ["gcar", "cawr", "lb-clock", "lawc", "kdd"] {
        let paper = PaperFile::named(name).expect("a paper");
        let needs = PaperNeeds::of(&paper, &known, &FoundTraces::default());
        assert!(!needs.traces.is_empty(), "{name}");
        assert!(needs.traces.iter().all(|needed| needed.files.is_empty() && !needed.published_at.is_empty()));
    }
    for name in paper::built_in() {
        for workload in PaperFile::named(name).expect("a paper").workload {
            let known = workload.trace.as_ref().map(|trace| known.get(trace).expect("the catalogue has it"));
            let is_original = workload.provenance == WorkloadProvenance::Original;
            assert!(!is_original || known.is_some(), "{name}: {}: has no trace in the catalogue", workload.name);
            assert!(known.is_none_or(|known| known.is_piece() != is_original), "{name}: {}", workload.name);
        }
    }
}

#[test]
fn a_header_is_no_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("Exchange.12-12-2007.02-39-PM.trace.csv");
    fs::write(&file, "BeginHeader\n DiskRead, TimeStamp\nEndHeader\n").expect("a file");
    let known = built_in();
    let look = || TraceRecogniser::new(&known, None).look(&file).verdict;
    let TraceVerdict::NotIt { trace, reason: Some(reason), .. } = look() else { panic!("{:?}", look()) };
    assert!(trace == "exchange" && reason.starts_with("fits no known format"), "{trace}: {reason}");
    fs::write(&file, "BeginHeader\nEndHeader\nDiskReadInit, 5, store.exe (2924), 1, 0x1\n").expect("a file");
    let TraceVerdict::Damaged { error, .. } = look() else { panic!("{:?}", look()) };
    assert!(error.ends_with("holds no request"), "{error}");
    let row = " DiskRead, 5, store.exe (2924), 1, 0x1, 0x200, 0x400, 9, 2\n";
    fs::write(&file, format!("BeginHeader\nEndHeader\n{row}")).expect("a file");
    assert_eq!(look(), TraceVerdict::Unchecked { trace: "exchange".into() });
}

fn pieces() -> Option<PathBuf> {
    let beside = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared"));
    let shared = std::env::var_os("DESTAGE_SHARED").map_or(beside, PathBuf::from);
    Some(shared.join("traces")).filter(|traces| traces.is_dir())
}

#[test]
fn real_pieces_are_called_what_they_are() {
    let Some(folder) = pieces() else {
        // Past the test harness, which keeps what a passing test prints.
        let _ = writeln!(std::io::stderr(), "SKIPPED: real_pieces_are_called_what_they_are: no folder shared/traces");
        return;
    };
    let found = search(&built_in(), None, &folder, &|_| {});
    let of = |start: &str| {
        let is_it =
            |file: &&FoundFile| file.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start));
        found.files.iter().find(is_it).unwrap_or_else(|| panic!("{start}"))
    };
    for (start, piece) in [
        ("Financial1.first10000", "financial1-first-10000"),
        ("WebSearch1.first24783", "websearch1-first-24783"),
        ("hm_0.sample1000", "hm_0-first-1000"),
        ("msr.cut.per_10k.rw_20_80.105", "msr-cut-rw-20-80"),
        ("msr.cut.per_10k.most_thpt", "msr-cut-burst"),
        ("mayun.", "diskmon-mayun"),
        ("mayun2.", "diskmon-mayun2"),
        ("hplajw", "hplajw-week"),
    ] {
        let verdict = &of(start).verdict;
        assert!(matches!(verdict, TraceVerdict::KnownPiece { trace, .. } if trace == piece), "{start}: {verdict:?}");
    }
    for start in ["tpcc-small", "cloudPhysicsIO", "alibaba", "cloud_storage", "systor17", "own.tree-xfs", "sqlitewal"] {
        assert_eq!(of(start).verdict, TraceVerdict::OtherTrace, "{start}");
    }
    let share = |start: &str| match &of(start).verdict {
        TraceVerdict::KnownPiece { share, .. } => *share,
        _ => None,
    };
    assert!((share("Financial1.first10000").expect("a share") - 10_000.0 / 5_334_987.0).abs() < 1e-12);
    assert_eq!(share("mayun."), None);
}
