//! The built-in workloads: the same everywhere, and as near to what the papers publish as
//! `docs/workloads.md` says.
//!
//! If requests or figures are meant to change, the tests print the new tables for
//! `golden/workloads.tsv` and `docs/workloads.md`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use destage_plan::PageGeometry;
use destage_scenario::workload::{NamedWorkload, WorkloadKind, built_in};
use destage_trace::{Request, TraceSource, TraceStat, TraceSummary};

/// Requests of each workload that the golden hash covers.
const HASHED: usize = 20_000;

const GOLDEN: &str = include_str!("golden/workloads.tsv");
const DOCS: &str = include_str!("../../../../docs/workloads.md");

/// Hands all requests, at most `limit`, to `each` in batches.
fn generate(workload: &NamedWorkload, limit: usize, mut each: impl FnMut(&[Request])) {
    let mut mix = workload.open().unwrap();
    let (mut batch, mut left) = (vec![], limit);
    while left > 0 {
        mix.next_batch(&mut batch).unwrap();
        if batch.is_empty() {
            return;
        }
        batch.truncate(left);
        left -= batch.len();
        each(&batch);
    }
}

fn first(workload: &NamedWorkload, limit: usize) -> Vec<Request> {
    let mut all = vec![];
    generate(workload, limit, |batch| all.extend_from_slice(batch));
    all
}

/// FNV-1a with 64 bits over every field, little-endian.
fn hash(requests: &[Request]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for r in requests {
        add(&r.time.0.to_le_bytes());
        add(&r.offset.to_le_bytes());
        add(&r.len.to_le_bytes());
        add(&r.volume.to_le_bytes());
        add(&[r.op as u8, u8::from(r.fua)]);
    }
    hash
}

#[test]
fn golden_workloads_are_the_same_on_every_machine() {
    let mut table = String::from("workload\trequests\tfnv1a_64\n");
    for mut workload in built_in() {
        workload.set("seed=1").unwrap();
        let requests = first(&workload, HASHED);
        writeln!(table, "{}\t{}\t{:016x}", workload.name(), requests.len(), hash(&requests)).unwrap();
    }
    assert!(table == GOLDEN, "golden/workloads.tsv would now be:\n{table}");
}

#[test]
fn the_folder_holds_the_built_in_workloads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/workloads");
    let names = |path: std::fs::DirEntry| path.path().file_stem().unwrap().to_str().unwrap().to_owned();
    let files: BTreeSet<String> = folder.read_dir().unwrap().map(|entry| names(entry.unwrap())).collect();
    let known: BTreeSet<String> = built_in().map(|workload| workload.name().to_owned()).collect();
    assert_eq!(files, known);
    for workload in built_in() {
        assert!(!workload.about().contains('\n') && workload.about().len() <= 90, "{}", workload.name());
        assert!(workload.source().contains("assumed") || workload.source().contains("Assumed"), "{}", workload.name());
        // By its file it is the same.
        let file = folder.join(format!("{}.toml", workload.name()));
        let read = NamedWorkload::named(file.to_str().unwrap()).unwrap();
        assert_eq!(read.spec(), workload.spec());
        assert!(DOCS.contains(&format!("\n| `{}` | {} |", workload.name(), workload.kind())), "{}", workload.name());
    }
    assert_eq!(built_in().filter(|workload| workload.kind() == WorkloadKind::Synthetic).count(), 6);
}

/// A published figure: its unit decides the digits.
struct Figure {
    what: &'static str,
    /// As published.
    paper: f64,
    /// Limits the deviation of the generated figure, in percent of the published one.
    within_percent: f64,
    of: fn(&TraceSummary) -> f64,
    /// Digits after the point.
    digits: usize,
}

const fn figure(
    what: &'static str,
    paper: f64,
    within_percent: f64,
    digits: usize,
    of: fn(&TraceSummary) -> f64,
) -> Figure {
    Figure { what, paper, within_percent, of, digits }
}

fn write_percent(s: &TraceSummary) -> f64 {
    100.0 - s.read_percent()
}

fn per_second(n: u64, s: &TraceSummary) -> f64 {
    n as f64 / s.duration.as_secs_f64()
}

/// A row of LAWC's Table 3.
fn lawc(writes: f64, write_kb: f64, reads: f64, read_kb: f64) -> Vec<Figure> {
    vec![
        figure("writes/s", writes, 1.0, 2, |s| per_second(s.writes, s)),
        figure("KiB per write", write_kb, 0.5, 2, TraceSummary::mean_write_kib),
        figure("reads/s", reads, 1.0, 2, |s| per_second(s.reads, s)),
        figure("KiB per read", read_kb, 0.5, 2, TraceSummary::mean_read_kib),
    ]
}

/// A row of KDD's Table I, in thousands.
fn kdd(unique: [f64; 3], requested: [f64; 2]) -> Vec<Figure> {
    vec![
        figure("1000 unique pages", unique[0], 3.0, 0, |s| s.unique_pages as f64 / 1e3),
        figure("1000 unique pages read", unique[1], 3.0, 0, |s| s.unique_pages_read as f64 / 1e3),
        figure("1000 unique pages written", unique[2], 3.0, 0, |s| s.unique_pages_written as f64 / 1e3),
        figure("1000 pages read", requested[0], 3.0, 0, |s| s.read_page_touches as f64 / 1e3),
        figure("1000 pages written", requested[1], 3.0, 0, |s| s.write_page_touches as f64 / 1e3),
    ]
}

/// A row of CAWR's Table 3.
fn cawr(writes: f64, interval_s: f64, sizes: [f64; 3]) -> Vec<Figure> {
    vec![
        figure("% writes", writes, 0.5, 2, write_percent),
        figure("mean interval, ms", interval_s * 1e3, 1.0, 2, |s| s.mean_inter_arrival_ns() / 1e6),
        figure("% of writes up to 4 KiB", sizes[0], 1.0, 2, |s| s.write_size_percent()[0]),
        figure("% of writes over 4 to 16 KiB", sizes[1], 1.0, 2, |s| s.write_size_percent()[1]),
        figure("% of writes over 16 to 64 KiB", sizes[2], 2.0, 2, |s| s.write_size_percent()[2]),
    ]
}

/// Statistics of the first million requests of an MSR trace. Overwritten: the share of written
/// pages written before.
fn first_million(reads: f64, read_sectors: f64, write_sectors: f64, interval_ms: f64, overwritten: f64) -> Vec<Figure> {
    vec![
        figure("% reads", reads, 1.0, 2, TraceSummary::read_percent),
        figure("KiB per read", read_sectors / 2.0, 3.0, 2, TraceSummary::mean_read_kib),
        figure("KiB per write", write_sectors / 2.0, 3.0, 2, TraceSummary::mean_write_kib),
        figure("mean interval, ms", interval_ms, 1.0, 1, |s| s.mean_inter_arrival_ns() / 1e6),
        overwrites(overwritten),
    ]
}

/// Given as the share of the written pages that were written before; the rest says more.
fn overwrites(percent: f64) -> Figure {
    figure("% of written pages new", 100.0 - percent, 5.0, 1, |s| {
        s.unique_pages_written as f64 * 100.0 / s.write_page_touches as f64
    })
}

/// Lists the published figures of each workload, and their source.
fn published() -> Vec<(&'static str, &'static str, Vec<Figure>)> {
    let financial1 = [kdd([993., 331., 966.], [1339., 5628.]), cawr(76.84, 0.0082, [86.58, 10.63, 2.76])].concat_all();
    let financial2 = [kdd([405., 271., 212.], [3562., 917.]), cawr(17.66, 0.0110, [87.82, 10.11, 1.88])].concat_all();
    let msr = |mut row: Vec<Figure>, read_kib: f64, overwritten: f64| {
        row.push(figure("KiB per read", read_kib, 3.0, 2, TraceSummary::mean_read_kib));
        row.push(overwrites(overwritten));
        row
    };
    vec![
        ("exchange", "LAWC, Table 3", lawc(533.57, 7.77, 159.40, 8.01)),
        ("cello", "LAWC, Table 3", lawc(55.36, 6.05, 18.91, 7.96)),
        ("financial-lawc", "LAWC, Table 3", lawc(4.08, 8.44, 1.81, 4.05)),
        ("tpc-h", "LAWC, Table 3", lawc(4.57, 10.19, 17.03, 37.35)),
        ("fiu-vm", "LAWC, Table 3", lawc(15.80, 4.0, 3.80, 4.0)),
        ("fiu-mail", "LAWC, Table 3", lawc(83.62, 4.0, 62.02, 4.0)),
        ("skewed", "LAWC, Table 3", lawc(199.76, 4.0, 50.33, 4.0)),
        ("skewed-raid5", "LAWC, Table 3", lawc(199.76, 4.0, 50.33, 4.0)),
        ("prn_0", "first million requests", first_million(10.63, 53.1, 27.9, 119.0, 78.0)),
        ("prxy_0", "first million requests", first_million(2.94, 19.4, 12.6, 48.1, 97.0)),
        ("financial1", "KDD, Table I; CAWR, Table 3", financial1),
        ("financial2", "KDD, Table I; CAWR, Table 3", financial2),
        ("hm_0", "KDD, Table I", kdd([609., 488., 428.], [2880., 5992.])),
        ("web_0", "KDD, Table I", kdd([1913., 1884., 182.], [4575., 3186.])),
        (
            "rsrch_0",
            "CAWR, Table 3; first million requests",
            msr(cawr(92.56, 0.4570, [67.71, 25.35, 6.94]), 15.7, 98.0),
        ),
        (
            "src2_0",
            "CAWR, Table 3; first million requests",
            msr(cawr(89.81, 0.4486, [70.12, 23.06, 6.83]), 12.65, 95.0),
        ),
        ("stg_0", "CAWR, Table 3; first million requests", msr(cawr(84.81, 0.2978, [73.33, 18.62, 8.05]), 33.55, 97.0)),
    ]
}

trait ConcatAll {
    fn concat_all(self) -> Vec<Figure>;
}

impl ConcatAll for [Vec<Figure>; 2] {
    fn concat_all(self) -> Vec<Figure> {
        self.into_iter().flatten().collect()
    }
}

#[test]
fn stand_ins_have_the_published_figures() {
    let geometry = PageGeometry::new(4096, 64).unwrap();
    let mut table =
        String::from("| workload | source | figure | published | generated | off by |\n|---|---|---|---|---|---|\n");
    let mut wrong = String::new();
    for (name, source, figures) in published() {
        let workload = NamedWorkload::named(name).unwrap();
        let mut stat = TraceStat::new(geometry);
        generate(&workload, usize::MAX, |batch| stat.feed(batch));
        let summary = stat.finish();
        for Figure { what, paper, within_percent, of, digits } in figures {
            let got = of(&summary);
            let off = (got / paper - 1.0) * 100.0;
            let off_text = format!("{off:+.1} %").replace("-0.0", "0.0").replace("+0.0", "0.0");
            writeln!(table, "| `{name}` | {source} | {what} | {paper:.digits$} | {got:.digits$} | {off_text} |")
                .unwrap();
            if off.abs() > within_percent {
                writeln!(wrong, "{name}: {what} is {got:.digits$}, published {paper:.digits$} +- {within_percent} %")
                    .unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(DOCS.contains(&table), "the table in docs/workloads.md would now be:\n{table}");
}

#[test]
fn multi_streams_are_their_streams() {
    // The first part of a mix has its seed, so the first stream of each is there request by
    // request.
    let exchange = first(&NamedWorkload::named("exchange").unwrap(), 5000);
    for name in ["ms-ec", "ms-ecft"] {
        let mixed = first(&NamedWorkload::named(name).unwrap(), 8000);
        let low: Vec<_> = mixed.iter().copied().filter(|r| r.offset < 4 << 30).take(5000).collect();
        assert_eq!(low, exchange, "{name}");
    }
}

#[test]
fn half_of_the_skewed_requests_go_to_one_ssd() {
    let share = |name: &str, first_ssd: &dyn Fn(u64) -> bool| {
        let requests = first(&NamedWorkload::named(name).unwrap(), 100_000);
        requests.iter().filter(|r| first_ssd(r.offset >> 17)).count()
    };
    // Half, and an eighth of the other half.
    let on_raid0 = share("skewed", &|strip| strip % 8 == 0);
    // Of a RAID-5 of nine the n-th strip of a row lies on the n-th SSD after that with the parity,
    // which moves down.
    let on_raid5 = share("skewed-raid5", &|strip| {
        let (row, place) = (strip / 8, strip % 8);
        (8 - row % 9 + 1 + place) % 9 == 0
    });
    for count in [on_raid0, on_raid5] {
        // A random request hits the SSD with a probability of 1/8 on the RAID-0 and of 1/9 on the
        // RAID-5, in 5 deviations.
        assert!((54_700..57_100).contains(&count), "{count} of 100000");
    }
}

#[test]
fn changes_are_taken_or_refused() {
    let mut hpc = NamedWorkload::named("hpc").unwrap();
    for pair in ["sizes=4096KiB", "arrivals=poisson:10ms", "part.0.read=20", "length=100", "seed=9"] {
        hpc.set(pair).unwrap();
    }
    let requests = first(&hpc, usize::MAX);
    assert_eq!((requests.len(), requests[0].len), (100, 4 << 20));
    assert_eq!(hpc.changes().join(" "), "sizes=4096KiB arrivals=poisson:10ms part.0.read=20 length=100 seed=9");

    let refused = |name: &str, pair: &str| {
        let mut workload = NamedWorkload::named(name).unwrap();
        workload.set(pair).and_then(|()| workload.open().map(|_| ())).unwrap_err().to_string()
    };
    for (name, pair, says) in [
        ("hpc", "sizes", "write KEY=VALUE"),
        ("hpc", "size=4KiB", "there is no key 'size'; length, seed, and of a part sizes, read"),
        ("hpc", "part.1.read=5", "the parts are numbered from 0 to 0"),
        ("hpc", "part.x.read=5", "write part.N.KEY=VALUE"),
        ("hpc", "part.0.size=5", "did you mean 'sizes'?"),
        ("hpc", "about=x", "there is no key 'about'"),
        ("exchange", "read=5", "there are 2 parts; say which, from part.0.read to part.1.read"),
        ("exchange", "part.1.read=101", "read = '101'"),
        ("exchange", "part.1.space=1KiB", "exchange.toml (built in), line 21 (part 1): space = 1024"),
        ("exchange", "part.1.space=1KiB", "(changed by part.1.space=1KiB)"),
        ("exchange", "length=none", "length = 'none'"),
    ] {
        let message = refused(name, pair);
        assert!(message.contains(says), "{message}\nshould say\n{says}");
    }
    let message = NamedWorkload::named("exchnge").unwrap_err().to_string();
    assert!(message.starts_with(
        "there is no workload 'exchnge'; did you mean 'exchange'? give a file (FILE.toml) or one of exchange, "
    ));
    let message = NamedWorkload::named("no/such.toml").unwrap_err().to_string();
    assert!(message.starts_with("no/such.toml: cannot be read: "), "{message}");
}

#[test]
fn wrong_files_name_line_and_key() {
    const HEAD: &str = "about = 'a'\nsource = 's'\nkind = 'stand-in'\nlength = 10\n";
    let cases = [
        ("", "w.toml: there is no [[part]]"),
        ("part = 3\n", "w.toml, line 1: 'part' is a list of tables"),
        ("part = [3]\n", "w.toml, line 1: 'part' is a list of tables"),
        ("[part]\nread = 3\n", "w.toml, line 1: 'part' is a list of tables"),
        ("[[part]]\n", "w.toml: 'about' is missing"),
        ("about = 'a'\nabout = 'b'\n[[part]]\n", "w.toml, line 2: "),
        ("about = 'a'\nsource = 's'\nkind = 'stand-in'\n[[part]]\n", "w.toml: 'length' is missing"),
        ("abuot = 'a'\n[[part]]\n", "w.toml, line 1: there is no key 'abuot'; did you mean 'about'?"),
        (
            "about = 'a'\nsource = 's'\nkind = 'real'\nlength = 10\n[[part]]\n",
            "w.toml, line 3: kind = 'real': synthetic or stand-in",
        ),
        ("HEAD[[part]]\nred = 3\n", "w.toml, line 6: there is no key 'red'; did you mean 'read'?"),
        ("HEAD[[part]]\nread = [3]\n", "w.toml, line 6: 'read' takes one value, not a list"),
        ("HEAD[[part]]\nread = 300\n", "w.toml, line 6: read = '300': "),
        ("HEAD[[part]]\n\n[[part]]\nspace = 5\n", "w.toml, line 7 (part 1): space = 5: "),
        ("HEAD[[part]]\nstripe = '1/2'\n", "w.toml, line 5 (part 0): stripe = 1/2: "),
        ("HEAD[[part]]\n[part.x]\n", "w.toml, line 6: there is no table [x]"),
        (
            "about = 'a'\nsource = 's'\nkind = 'stand-in'\nlength = 0\n[[part]]\n",
            "w.toml: length = 0: at least 1 request",
        ),
    ];
    for (text, says) in cases {
        let text = text.replace("HEAD", HEAD);
        let workload = NamedWorkload::parse("w", Path::new("w.toml"), &text);
        let message = workload.and_then(|w| w.open().map(|_| ())).expect_err(&text).to_string();
        assert!(message.starts_with(says), "{text}\n{message}\nshould say\n{says}");
    }
}
