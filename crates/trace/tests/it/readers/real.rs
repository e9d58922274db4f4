//! Real traces hold the requests that they are known to hold.

use super::*;

/// The folder of real traces, if it is there.
fn shared(test: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("DESTAGE_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"),
        |shared| PathBuf::from(shared).join("traces"),
    );
    if folder.is_dir() {
        return Some(folder);
    }
    // Past the test harness, which keeps what a passing test prints.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: there is no folder {}", folder.display());
    None
}

/// File, format to give (none where the content decides), format, reads and writes, discards,
/// percent of reads (of reads and writes), seconds: the traces' own README, but for the discard,
/// which it does not count.
const REAL: [(&str, &str, FormatId, u64, u64, f64, f64); 20] = [
    ("Financial1.first10000.ssdsim.ascii.zst", "", FormatId::Ssdsim, 10_000, 0, 40.8, 259.6),
    ("WebSearch1.first24783.mqsim.trace.zst", "", FormatId::Ssdsim, 24_783, 0, 99.98, 60.06),
    ("tpcc-small.mqsim.trace.zst", "", FormatId::Ssdsim, 6_999, 0, 62.6, 0.136),
    ("hm_0.sample1000.csv.zst", "", FormatId::Msr, 1_000, 0, 50.8, 127.2),
    ("msr.cut.per_10k.rw_20_80.105.trace.zst", "msr-cut", FormatId::MsrCut, 10_000, 0, 20.2, 242.9),
    ("msr.cut.per_10k.most_thpt_rand_iops.1006.trace.zst", "msr-cut", FormatId::MsrCut, 10_000, 0, 83.2, 1.017),
    ("cloudPhysicsIO.2h.vscsi.zst", "", FormatId::Vscsi, 113_872, 0, 41.3, 7_200.0),
    ("mayun.txt.zst", "", FormatId::Diskmon, 24_844, 0, 57.1, 6_530.0),
    ("mayun2.txt.zst", "", FormatId::Diskmon, 87_160, 0, 42.1, 11_720.0),
    ("ssd-postmark-aligned2.trace.zst", "disksim", FormatId::Disksim, 62_257, 0, 83.2, 490.4),
    ("alibaba.first1h.cut.trace.zst", "msr-cut", FormatId::MsrCut, 52_274, 0, 10.4, 3_597.0),
    // Two seconds in turn, of which the first line has the later one.
    ("cloud_storage-sample50000.csv.zst", "", FormatId::Tencent, 50_000, 0, 49.0, 1.0),
    ("systor17-traces-sample999.csv.zst", "", FormatId::Systor, 999, 0, 82.7, 2.45),
    ("hplajw.1992-05-30.1week.srt.zst", "", FormatId::Srt, 44_519, 0, 29.3, 603_065.0),
    ("sqlitewal-update.txt.zst", "", FormatId::Wiscsee, 5_007, 1, 0.1, 1.41),
    ("own.oltp-pgbench-ext4.csv.zst", "", FormatId::RqCsv, 119_807, 0, 1.7, 120.5),
    ("own.install-ext4.csv.zst", "", FormatId::RqCsv, 5_500, 0, 0.1, 12.7),
    ("own.copy-media-ext4.csv.zst", "", FormatId::RqCsv, 1_157, 0, 0.4, 3.8),
    ("own.tree-xfs.csv.zst", "", FormatId::RqCsv, 26_542, 0, 0.1, 34.3),
    // Read as if all its records were of the other decimal format, to show that nothing but the
    // user can tell.
    ("alibaba.first1h.cut.trace.zst", "disksim", FormatId::Disksim, 52_274, 0, 10.4, 3_597.0),
];

#[test]
fn real_traces_hold_what_they_are_known_to_hold() {
    let Some(folder) = shared("real_traces_hold_what_they_are_known_to_hold") else { return };
    let mut seen = 0;
    for (name, format, id, accesses, discards, reads, seconds) in REAL {
        let mut trace = open(folder.join(name), &options(format, false)).unwrap();
        assert_eq!((trace.format(), trace.compression()), (id, TraceCompression::Zstd), "{name}");
        let requests = drain(&mut trace).unwrap();
        let count = |op: Op| requests.iter().filter(|r| r.op == op).count() as u64;
        assert_eq!(count(R) + count(W), accesses, "{name}");
        assert_eq!(count(Discard), discards, "{name}");
        assert_eq!(requests.len() as u64, accesses + discards, "{name}");
        let share = count(R) as f64 * 100.0 / accesses as f64;
        assert!((share - reads).abs() <= 0.05 + 1e-9, "{name}: {share} % reads");
        let span = requests.iter().map(|r| r.time.0).max().unwrap() as f64 / 1e9;
        assert!((span - seconds).abs() <= seconds * 0.005 + 0.05, "{name}: {span} s");
        assert_eq!(trace.progress(), Some(1.0), "{name}");
        println!("{name}: {id}, {} requests, {share:.2} % reads, {span:.3} s", requests.len());
        seen += 1;
    }
    assert_eq!(seen, REAL.len());
    // The ambiguous ones are refused without a format.
    for (name, format, ..) in REAL {
        let refused = open(folder.join(name), &OpenOptions::default());
        assert_eq!(refused.is_err(), !format.is_empty(), "{name}");
        if let Err(error) = refused {
            assert!(error.reason.contains("--format disksim") && error.reason.contains("--format msr-cut"), "{error}");
        }
    }
    // No trace in the folder is missing from the table.
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            Path::new(&name).extension().is_none_or(|e| e != "zst") || REAL.iter().any(|row| row.0 == name),
            "{name} is not in the table"
        );
    }
}
