//! Exports, read back: what arrives equals what the format can hold of what was sent, which the
//! tests work out on their own; what it cannot hold is refused; the bytes are those of the peers'
//! documentation; and fio replays its log.

use std::collections::BTreeMap;
use std::io::{Cursor, Write as _};
use std::process::Command;

use destage_trace::{
    EXPORTS, ExportError, ExportReport, ExportSpec, FormatId, Nanos, Op, OpenOptions, Request, TraceExporter,
    TraceSource, open_stream,
};
use proptest::prelude::*;

use Op::{Discard, Flush, Read as R, Write as W};

fn request(time: u64, op: Op, offset: u64, len: u64, volume: u32) -> Request {
    Request { time: Nanos(time), offset, len, volume, op, fua: false }
}

fn export_named(spec: &str, requests: &[Request], names: &[String]) -> Result<(Vec<u8>, ExportReport), ExportError> {
    let spec: ExportSpec = spec.parse().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut exporter = TraceExporter::new(&spec, Vec::new(), folder.path())?;
    // Batches do not matter.
    for batch in requests.chunks(7) {
        exporter.write(batch, names)?;
    }
    let finished = exporter.finish();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the temporary file is gone");
    finished
}

fn export(spec: &str, requests: &[Request]) -> Result<(Vec<u8>, ExportReport), ExportError> {
    export_named(spec, requests, &[])
}

fn text(spec: &str, requests: &[Request]) -> String {
    String::from_utf8(export(spec, requests).unwrap().0).unwrap()
}

fn refusal(spec: &str, requests: &[Request]) -> String {
    export(spec, requests).unwrap_err().to_string()
}

fn read(bytes: Vec<u8>, format: &str) -> Vec<Request> {
    let options = OpenOptions { format: Some(format.parse().unwrap()), lenient: false };
    let mut trace = open_stream("memory", Box::new(Cursor::new(bytes)), None, &options).unwrap();
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        trace.next_batch(&mut batch).unwrap();
        if batch.is_empty() {
            return all;
        }
        all.extend_from_slice(&batch);
    }
}

/// Models the parts of requests that a format keeps, request by request.
struct Keeps {
    kinds: &'static [Op],
    fua: bool,
    empty: bool,
    offset_unit: u64,
    len_unit: u64,
    tick: u64,
    ordered: bool,
    volumes: bool,
}

impl Keeps {
    fn of(&self, requests: &[Request]) -> Vec<Request> {
        let mut kept: Vec<Request> = Vec::new();
        let mut seen = Vec::new();
        let mut latest = 0;
        for r in requests {
            let data = r.op != Flush;
            if !self.kinds.contains(&r.op) || (data && r.len == 0 && !self.empty) {
                continue;
            }
            let mut r = *r;
            r.fua &= self.fua;
            if data && (r.offset % self.offset_unit != 0 || r.len % self.len_unit != 0) {
                let end = (r.offset + r.len).div_ceil(self.len_unit) * self.len_unit;
                r.offset = r.offset / self.offset_unit * self.offset_unit;
                r.len = if r.len == 0 { 0 } else { end - r.offset };
            }
            if self.ordered {
                latest = r.time.0.max(latest);
                r.time = Nanos(latest);
            }
            // Without times there is no tick.
            r.time = Nanos(r.time.0.checked_div(self.tick).unwrap_or(0) * self.tick);
            let at = seen.iter().position(|&v| v == r.volume).unwrap_or_else(|| {
                seen.push(r.volume);
                seen.len() - 1
            });
            r.volume = if self.volumes { at as u32 } else { 0 };
            kept.push(r);
        }
        let zero = kept.iter().map(|r| r.time.0).min().unwrap_or(0);
        for r in &mut kept {
            r.time.0 -= zero;
        }
        kept
    }
}

fn traces() -> impl Strategy<Value = Vec<Request>> {
    let op = prop::sample::select(vec![R, W, W, W, Flush, Discard]);
    let place = prop_oneof![
        (0..1_u64 << 20, 0..300_u64).prop_map(|(sector, sectors)| (sector * 512, sectors * 512)),
        (0..1_u64 << 33, prop_oneof![1 => Just(0), 9 => 0..20_000_u64]),
    ];
    let step = prop_oneof![0..2000_i64, -3000..3_000_000_000_i64];
    let request = (step, op, place, 0..3_u32, any::<bool>());
    prop::collection::vec(request, 1..120).prop_map(|steps| {
        let mut time = 5000_i64;
        let make = |(step, op, (offset, len), volume, fua): (i64, Op, (u64, u64), u32, bool)| {
            time = (time + step).max(0);
            let (offset, len) = if op == Flush { (0, 0) } else { (offset, len) };
            Request { time: Nanos(time as u64), offset, len, volume, op, fua: fua && op == W }
        };
        steps.into_iter().map(make).collect()
    })
}

/// Every option by which a format gives up what it cannot hold.
const ALL_LOSSES: &str = "drop=flush+discard+fua+empty,widen=yes,times=raise";

/// Reads and writes of whole sectors.
const SECTORS: Keeps = Keeps {
    kinds: &[R, W],
    fua: false,
    empty: false,
    offset_unit: 512,
    len_unit: 512,
    tick: 1,
    ordered: true,
    volumes: true,
};

/// The formats, how they are read, and what they keep.
fn round_trips() -> Vec<(String, &'static str, Keeps)> {
    let fio = Keeps { kinds: &[R, W, Flush, Discard], offset_unit: 1, len_unit: 1, ..SECTORS };
    vec![
        (format!("ssdsim:{ALL_LOSSES}"), "ssdsim", SECTORS),
        (format!("disksim:{ALL_LOSSES}"), "disksim", SECTORS),
        (
            "spc:drop=flush+discard+fua,widen=yes,times=raise".into(),
            "spc",
            Keeps { empty: true, len_unit: 1, ..SECTORS },
        ),
        (
            "msr:drop=flush+discard+fua".into(),
            "msr",
            Keeps { empty: true, offset_unit: 1, len_unit: 1, tick: 100, ordered: false, ..SECTORS },
        ),
        (
            "rq-csv:widen=yes,volumes=merge".into(),
            "rq-csv",
            Keeps { kinds: &Op::ALL, fua: true, empty: true, tick: 1000, ordered: false, volumes: false, ..SECTORS },
        ),
        ("fio:drop=fua+empty,times=raise".into(), "fio", Keeps { tick: 1000, ..fio }),
        ("fio:version=2,drop=fua+empty+times".into(), "fio", Keeps { tick: 0, ..fio }),
    ]
}

/// Returns the factor by which `make soak` repeats the tests.
fn soak() -> u32 {
    if std::env::var_os("DESTAGE_SOAK").is_some() { 50 } else { 1 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100 * soak(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_format_holds_comes_back(requests in traces()) {
        for (spec, format, keeps) in round_trips() {
            let expected = keeps.of(&requests);
            match export(&spec, &requests) {
                Ok((bytes, report)) => {
                    prop_assert_eq!(read(bytes, format), &expected[..], "{}", spec);
                    prop_assert_eq!(report.read, requests.len() as u64);
                    prop_assert_eq!(report.written, expected.len() as u64);
                    prop_assert_eq!(report.left_out.iter().sum::<u64>() + report.written, report.read);
                }
                Err(ExportError::Nothing) => prop_assert!(expected.is_empty()),
                Err(error) => prop_assert!(false, "{spec}: {error}"),
            }
        }
    }

    /// Pages, and for each the number of the record that accesses it next, found by looking ahead.
    #[test]
    fn oracle_general_knows_the_future(requests in traces(), unit in prop::sample::select(vec![512_u64, 4096, 65_536])) {
        let keeps = Keeps {
            kinds: &[R, W],
            fua: false,
            empty: false,
            offset_unit: unit,
            len_unit: unit,
            tick: 1_000_000_000,
            ordered: true,
            volumes: false,
        };
        // Times count from the trace's zero, not from that of the requests kept.
        let kept = keeps.of(&requests);
        let pages: Vec<u64> = kept.iter().flat_map(|r| r.offset / unit..(r.offset + r.len) / unit).collect();
        let spec = format!("oracle-general:op=all,unit={unit},volumes=merge,drop=flush+discard+fua+empty,times=raise");
        match export(&spec, &requests) {
            Ok((bytes, report)) => {
                prop_assert_eq!(bytes.len(), 24 * pages.len());
                prop_assert_eq!(report.records, pages.len() as u64);
                for (n, record) in bytes.chunks_exact(24).enumerate() {
                    prop_assert_eq!(u64::from_le_bytes(record[4..12].try_into().unwrap()), pages[n]);
                    let next = pages[n + 1..].iter().position(|p| *p == pages[n]);
                    let next = next.map_or(-1, |ahead| i64::try_from(n + 1 + ahead + 1).unwrap());
                    prop_assert_eq!(i64::from_le_bytes(record[16..24].try_into().unwrap()), next);
                }
                let read = read(bytes, &format!("oracle-general:op=R,unit={unit}"));
                let expected: Vec<(u64, u64)> = kept
                    .iter()
                    .flat_map(|r| (r.offset / unit..(r.offset + r.len) / unit).map(|page| (r.time.0, page * unit)))
                    .collect();
                prop_assert_eq!(read.iter().map(|r| (r.time.0, r.offset)).collect::<Vec<_>>(), expected);
                prop_assert!(read.iter().all(|r| r.len == unit));
            }
            Err(ExportError::Nothing) => prop_assert!(pages.is_empty()),
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}

#[test]
fn the_bytes_are_those_of_the_peers_documentation() {
    let requests = [
        request(0, W, 524_288 * 512, 8192, 0),
        request(13_000, R, 1024, 512, 1),
        request(1_500_000_001, W, 0, 4096, 0),
    ];
    assert_eq!(text("ssdsim", &requests), "0 0 524288 16 0\n13000 1 2 1 1\n1500000001 0 0 8 0\n");
    assert_eq!(text("mqsim", &requests), text("ssdsim", &requests));
    assert_eq!(text("disksim", &requests), "0.000000 0 524288 16 0\n0.013000 1 2 1 1\n1500.000001 0 0 8 0\n");
    assert_eq!(text("spc", &requests), "0,524288,8192,w,0.000000000\n1,2,512,r,0.000013000\n0,0,4096,w,1.500000001\n");
    assert_eq!(
        text("msr", &requests),
        "0,destage,0,Write,268435456,8192,0\n130,destage,1,Read,1024,512,0\n15000000,destage,0,Write,0,4096,0\n"
    );
    assert_eq!(
        text(
            "rq-csv:volumes=merge",
            &[requests[0], Request { fua: true, ..requests[2] }, request(9000, Flush, 0, 0, 0)]
        ),
        "0,W,524288,16\n1500000,WF,0,8\n9,F,0,0\n"
    );
    let mixed = [
        requests[0],
        request(13_000, R, 1024, 512, 1),
        request(14_000, Flush, 0, 0, 1),
        request(14_999, Discard, 0, 4096, 0),
    ];
    assert_eq!(
        text("fio", &mixed),
        "fio version 3 iolog\n1 volume0 add\n1 volume0 open\n1 volume0 write 268435456 8192\n14 volume1 add\n\
         14 volume1 open\n14 volume1 read 1024 512\n15 volume1 sync 0 0\n15 volume0 trim 0 4096\n15 volume0 close\n\
         15 volume1 close\n"
    );
    let names = ["sda".to_owned(), "/dev/sdb".to_owned()];
    let (bytes, _) = export_named("fio:version=2,names=keep,drop=times", &mixed[..2], &names).unwrap();
    assert_eq!(
        String::from_utf8(bytes).unwrap(),
        "fio version 2 iolog\nsda add\nsda open\nsda write 268435456 8192\n/dev/sdb add\n/dev/sdb open\n\
         /dev/sdb read 1024 512\nsda close\n/dev/sdb close\n"
    );
    let accesses = [request(0, W, 4096, 8192, 0), request(2_999_999_999, W, 5000, 10, 0)];
    let (bytes, report) = export("oracle-general:op=W", &accesses).unwrap();
    let record = |time: u32, object: u64, next: i64| {
        [&time.to_le_bytes()[..], &object.to_le_bytes(), &4096_u32.to_le_bytes(), &next.to_le_bytes()].concat()
    };
    assert_eq!(bytes, [record(0, 1, 3), record(0, 2, -1), record(2, 1, -1)].concat());
    assert_eq!((report.written, report.records, report.cut_times), (2, 3, 1));
    assert_eq!(report.to_string(), "2 of 2 requests as 3 records; times cut to the format's resolution: 1");
}

#[test]
fn what_a_format_cannot_hold_is_refused() {
    let write = request(0, W, 4096, 4096, 0);
    let after = |second: Request| [write, second];
    for spec in ["ssdsim", "disksim", "spc", "msr", "oracle-general:op=all"] {
        let name = spec.split(':').next().unwrap();
        // With the options that were given already.
        let with = |option: &str| format!("{spec}{}{option}", if spec == name { ':' } else { ',' });
        assert_eq!(
            refusal(spec, &after(request(9, Flush, 0, 0, 0))),
            format!(
                "request 2: is a flush, which {name} cannot hold; give {} to leave flushes out",
                with("drop=flush")
            )
        );
        let message = refusal(spec, &after(request(9, Discard, 0, 512, 0)));
        assert!(message.contains(&format!("{} to leave discards out", with("drop=discard"))), "{message}");
        let message = refusal(spec, &after(Request { fua: true, ..write }));
        assert!(message.contains(&format!("{} to write such without it", with("drop=fua"))), "{message}");
    }
    for spec in ["ssdsim", "disksim", "fio", "oracle-general:op=all"] {
        assert!(refusal(spec, &after(request(9, R, 0, 0, 0))).contains("is a read of no bytes"), "{spec}");
        let backwards = [request(5, W, 0, 512, 0), request(4, W, 0, 512, 0)];
        assert!(refusal(spec, &backwards).contains("times=raise to date such like the latest before them"), "{spec}");
    }
    for spec in ["ssdsim", "disksim", "rq-csv"] {
        let message = refusal(spec, &after(request(9, W, 512, 100, 0)));
        assert!(message.contains("100 B at byte 512, not in whole units of 512 B"), "{message}");
        assert!(message.contains(":widen=yes"), "{message}");
    }
    // Nothing widened is still nothing.
    assert_eq!(text("spc:widen=yes", &[request(0, W, 700, 0, 0)]), "0,1,0,w,0.000000000\n");
    assert_eq!(text("rq-csv:widen=yes", &[request(0, W, 700, 0, 0)]), "0,W,1,0\n");
    // Formats that let times run backwards can be given rising ones too.
    let backwards = [request(500, W, 0, 512, 0), request(400, W, 0, 512, 0)];
    assert_eq!(text("msr", &backwards), "5,destage,0,Write,0,512,0\n4,destage,0,Write,0,512,0\n");
    assert_eq!(text("msr:times=raise", &backwards), "5,destage,0,Write,0,512,0\n5,destage,0,Write,0,512,0\n");
    assert!(refusal("spc", &after(request(9, W, 100, 512, 0))).contains("not in whole units of 512 B"));
    assert!(refusal("rq-csv", &after(request(9, W, 0, 512, 1))).contains("is on a second volume"));
    assert!(
        refusal("oracle-general:op=all", &after(request(9, W, 0, 512, 1)))
            .contains("oracle-general:op=all,volumes=merge to")
    );
    assert!(refusal("rq-csv", &after(Request { fua: true, op: R, ..write })).contains("is a read with FUA"));
    assert!(
        refusal("fio:version=2", &[write]).contains("give fio:version=2,drop=times to write requests without times")
    );
    assert!(text("fio:version=2,drop=times", &[write]).contains("volume0 write 4096 4096"), "what the error says");
    // What the peers' numbers cannot hold.
    assert!(refusal("disksim", &[request(0, W, 1 << 40, 512, 0)]).contains("DiskSim reads no number from 2^31 on"));
    assert!(text("disksim", &[request(0, W, (1 << 40) - 512, 512, 0)]).contains(" 2147483647 1 0"));
    assert!(refusal("fio", &[request(0, W, 0, 1 << 32, 0)]).contains("fio holds no more than 4294967295 B"));
    // 2^22 pages, and as many bytes that touch one more.
    for (offset, len) in [(0, (1 << 34) + 1), (1, 1 << 34), (4095, (1 << 34) - 4094)] {
        let message = refusal("oracle-general:op=W", &[request(0, W, offset, len, 0)]);
        assert!(message.contains("holds none of more than 4194304 pages of 4096 B"), "{message}");
    }
    assert!(
        refusal("oracle-general:op=W", &[request(1 << 63, W, 0, 512, 0)]).contains("more than the format's 2^32 - 1 s")
    );
    assert!(refusal("ssdsim:widen=yes", &[request(0, W, u64::MAX - 100, 50, 0)]).contains("reach beyond 2^64"));
    let named = export_named("fio:names=keep", &[write], &["two words".to_owned()]).unwrap_err().to_string();
    assert!(named.contains("is called \"two words\", which cannot be a file of fio's"), "{named}");
    // Nothing is left.
    let spec = "oracle-general:op=R";
    assert!(matches!(export(spec, &[write]), Err(ExportError::Nothing)));
    assert_eq!(ExportError::Nothing.to_string(), "no request is left to write");
}

#[test]
fn volumes_of_oracle_general_merge_or_stay_apart() {
    let requests = [request(0, W, 4096, 4096, 0), request(1, W, 4096, 4096, 1), request(2, R, 4096, 4096, 0)];
    let objects = |spec: &str| -> Vec<(u64, i64)> {
        let (bytes, _) = export(spec, &requests).unwrap();
        let record = |r: &[u8]| {
            (u64::from_le_bytes(r[4..12].try_into().unwrap()), i64::from_le_bytes(r[16..].try_into().unwrap()))
        };
        bytes.chunks_exact(24).map(record).collect()
    };
    assert_eq!(objects("oracle-general:op=all,volumes=merge"), [(1, 2), (1, 3), (1, -1)]);
    let second = (1 << 40) + 1;
    assert_eq!(objects("oracle-general:op=all,volumes=apart"), [(1, 3), (second, -1), (1, -1)]);
    assert_eq!(objects("oracle-general:op=W,volumes=apart"), [(1, -1), (second, -1)]);
    let far = refusal("oracle-general:op=W,volumes=apart", &[request(0, W, 1 << 52, 512, 0)]);
    assert!(far.contains("has room for 2^40 pages"), "{far}");
}

/// More records than one piece of the second pass, and a request of more pages than are written at
/// once.
#[test]
fn long_exports_are_complete() {
    let mut requests = vec![request(0, W, 0, 20_000 * 4096 - 1, 0)];
    requests.extend((0..30_000_u64).map(|n| request(n, W, n % 97 * 4096, 4096, 0)));
    let (bytes, report) = export("oracle-general:op=W", &requests).unwrap();
    assert_eq!((report.written, report.records), (30_001, 50_000));
    let mut next: BTreeMap<u64, i64> = BTreeMap::new();
    for (number, record) in (1..=50_000_i64).rev().zip(bytes.chunks_exact(24).rev()) {
        let object = u64::from_le_bytes(record[4..12].try_into().unwrap());
        let access = next.insert(object, number).unwrap_or(-1);
        assert_eq!(i64::from_le_bytes(record[16..].try_into().unwrap()), access, "{number}");
    }
    assert_eq!(next.len(), 20_000);
}

#[test]
fn every_format_that_is_written_is_read() {
    for info in EXPORTS {
        assert_ne!(info.id, FormatId::Native);
        assert!(!info.cannot.is_empty());
        let options = if info.id == FormatId::OracleGeneral { ":op=W" } else { "" };
        let (bytes, _) = export(&format!("{}{options}", info.id.name()), &[request(0, W, 4096, 4096, 0)]).unwrap();
        let read = read(bytes, &format!("{}{options}", info.id.name()));
        assert_eq!(read, [request(0, W, 4096, 4096, 0)], "{}", info.id);
    }
}

/// The number behind a key in fio's JSON, of the first job.
fn figure(json: &str, section: &str, key: &str) -> u64 {
    let at = json.find(&format!("\"{section}\" : {{")).expect("the section");
    let rest = &json[at..];
    let value = &rest[rest.find(&format!("\"{key}\" : ")).expect("the key") + key.len() + 5..];
    value[..value.find(|c: char| !c.is_ascii_digit()).unwrap()].parse().unwrap()
}

/// A real fio replays an exported log: all requests, at their times, and leaves the files closed.
#[test]
fn fio_replays_an_exported_log() {
    let folder = tempfile::tempdir().unwrap();
    if Command::new("fio").arg("--version").output().is_err() {
        writeln!(std::io::stderr(), "SKIPPED: fio_replays_an_exported_log: no fio").unwrap();
        return;
    }
    let mut requests = Vec::new();
    for n in 0..50_u64 {
        let op = [W, R, W, Flush, W][n as usize % 5];
        let (offset, len) = if op == Flush { (0, 0) } else { (n % 16 * 4096, 4096 * (n % 3 + 1)) };
        requests.push(request(n * 20_000_000, op, offset, len, (n % 2) as u32));
    }
    let (bytes, _) = export("fio", &requests).unwrap();
    std::fs::write(folder.path().join("log"), bytes).unwrap();
    for file in ["volume0", "volume1"] {
        std::fs::write(folder.path().join(file), vec![0_u8; 1 << 20]).unwrap();
    }
    let output = Command::new("fio")
        .args(["--name=replay", "--read_iolog=log", "--ioengine=psync", "--output-format=json"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let json = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.trim().is_empty(), "{errors}{json}");
    for (section, op) in [("read", R), ("write", W)] {
        let ours: Vec<&Request> = requests.iter().filter(|r| r.op == op).collect();
        assert_eq!(figure(&json, section, "total_ios"), ours.len() as u64, "{section}");
        assert_eq!(figure(&json, section, "io_bytes"), ours.iter().map(|r| r.len).sum::<u64>(), "{section}");
    }
    assert_eq!(figure(&json, "sync", "total_ios"), 10);
    // The last request comes 0.98 s after the first. fio counts a little more, and nothing if times
    // were lost.
    let runtime = figure(&json, "write", "runtime");
    assert!((900..10_000).contains(&runtime), "{runtime} ms");
}

/// Tests that all faults of a trace are reported at once, and that the options in the error help.
#[test]
fn everything_that_a_format_cannot_hold_is_named_at_once() {
    let fua = |time, offset, len| Request { fua: true, ..request(time, W, offset, len, 0) };
    let requests = [
        request(1, W, 0, 4096, 0),
        request(1, Flush, 0, 0, 0),
        // FUA, parts of sectors and an earlier time in one request.
        fua(0, 100, 100),
        fua(5, 512, 512),
        request(6, Flush, 0, 0, 0),
        request(6, R, 0, 0, 0),
        request(7, Discard, 0, 512, 0),
        request(8, R, 700, 512, 0),
        request(9, Flush, 0, 0, 0),
    ];
    assert_eq!(
        refusal("disksim", &requests),
        "disksim cannot hold all of this; give disksim:drop=flush+discard+fua+empty,widen=yes,times=raise, or some of \
         these options\n  request 2 is a flush, as are 2 more: drop=flush to leave flushes out\n  request 3 is a write \
         with FUA, as is another one: drop=fua to write such without it\n  request 3 is a write of 100 B at byte 100, not \
         in whole units of 512 B, as is another one: widen=yes to widen such to the units that they touch\n  request 3 is \
         dated before one in front of it: times=raise to date such like the latest before them\n  request 6 is a read of \
         no bytes: drop=empty to leave such out\n  request 7 is a discard: drop=discard to leave discards out"
    );
    let (_, report) = export("disksim:drop=flush+discard+fua+empty,widen=yes,times=raise", &requests).unwrap();
    assert_eq!((report.left_out, report.fua, report.widened), ([1, 0, 3, 1], 2, 2));
    // What was given is not asked for again.
    let message = refusal("disksim:drop=flush+fua+empty,widen=yes", &requests);
    assert!(message.contains("give disksim:drop=flush+discard+fua+empty,widen=yes,times=raise, or"), "{message}");
    assert_eq!(message.lines().count(), 3, "{message}");
    // Several of one kind.
    let flushes = refusal("spc", &[requests[0], requests[1], requests[4]]);
    assert!(flushes.starts_with("request 2: is a flush, which spc") && flushes.ends_with(" (2 requests are such)"));
    let apart =
        [request(0, W, 0, 512, 3), request(0, W, 0, 512, 1), request(0, R, 0, 512, 3), request(0, W, 0, 512, 2)];
    assert!(
        refusal("rq-csv", &apart)
            .ends_with("give rq-csv:volumes=merge to lay all volumes over each other (2 requests are such)")
    );
    // What no option helps with is named beside what one does.
    let message = refusal("disksim", &[requests[1], request(9, W, 1 << 40, 512, 0), request(9, W, 1 << 41, 512, 0)]);
    assert!(
        message.starts_with("disksim cannot hold this, with whatever options\n  request 1 is a flush: "),
        "{message}"
    );
    assert!(message.contains("2^31 on, as is another one: no option helps"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100 * soak(), failure_persistence: None, ..ProptestConfig::default() })]

    /// The options that an error gives are enough, and each of them is needed.
    #[test]
    fn what_an_error_gives_is_enough_and_needed(requests in traces()) {
        for spec in ["ssdsim", "disksim", "spc", "msr", "rq-csv", "fio", "fio:version=2", "oracle-general:op=all"] {
            let Err(ExportError::Refused(refusals)) = export(spec, &requests) else { continue };
            let Some(remedy) = refusals.remedy() else { continue };
            let done = export(&remedy, &requests);
            prop_assert!(matches!(done, Ok(_) | Err(ExportError::Nothing)), "{}: {:?}", remedy, done.err());
            // As many as there are kinds; those of `drop` are joined.
            let options = |text: &str| text.split([':', ',', '+']).count();
            prop_assert_eq!(options(&remedy) - options(spec), refusals.kinds(), "{} of {}", remedy, spec);
            if let Ok((_, report)) = done {
                let changed = report.left_out.iter().sum::<u64>() + report.fua + report.widened + report.raised_times;
                prop_assert!(changed > 0 || remedy.contains("volumes=merge") || remedy.contains("times"), "{}", remedy);
            }
        }
    }
}
