//! Tables in other units than those of the format whose columns they have: never taken without a word.

use super::*;

/// Returns what is asked of a table whose format is not given, and the formats that are offered.
fn question(text: &str) -> (String, Vec<String>) {
    let asked = error(text, "");
    let offers = asked.lines().filter_map(|line| line.trim_start().strip_prefix("--format "));
    let names = offers.map(|offer| offer.split(": ").next().unwrap().trim_matches('\'').to_owned()).collect();
    (asked, names)
}

/// Tells whether one of the readings that are offered has these requests, in bytes, and this time between them.
fn offers(text: &str, requests: &[(Op, u64, u64)], gap: u64) -> Option<String> {
    let (_, names) = question(text);
    names.into_iter().find(|name| {
        let Ok((read, _)) = read(text, name, false) else { return false };
        let ranges: Vec<_> = read.iter().map(|r| (r.op, r.offset, r.len)).collect();
        ranges == requests && read[1].time.0 - read[0].time.0 == gap
    })
}

const UNITS: [(&str, u64); 5] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("filetime", 100), ("ns", 1)];
const SIZES: [(&str, u64); 3] = [("bytes", 1), ("sectors", 512), ("KiB", 1024)];
/// Lists the formats, their units of time, offset and length, and a line of the columns.
type Table = (&'static str, u64, (u64, u64), fn(&str, bool, u64, u64) -> String);
const TABLES: [Table; 6] = [
    ("rq-csv", 1_000, (512, 512), |time, write, offset, len| {
        format!("{time},{},{offset},{len}", if write { "W" } else { "R" })
    }),
    ("msr", 100, (1, 1), |time, write, offset, len| {
        format!("{time},hm,0,{},{offset},{len},120", if write { "Write" } else { "Read" })
    }),
    ("alibaba", 1_000, (1, 1), |time, write, offset, len| {
        format!("7,{},{offset},{len},{time}", if write { "W" } else { "R" })
    }),
    ("systor", 1_000_000_000, (1, 1), |time, write, offset, len| {
        format!("{time},0.001,{},4,{offset},{len}", if write { "W" } else { "R" })
    }),
    ("tencent", 1_000_000_000, (512, 512), |time, write, offset, len| {
        format!("{time},{offset},{len},{},9", u8::from(write))
    }),
    ("spc", 1_000_000_000, (512, 1), |time, write, offset, len| {
        format!("4,{offset},{len},{},{time}", if write { "w" } else { "r" })
    }),
];

/// Tries every table in every unit of time and of sizes: the format's own are taken, all others are refused, and where the
/// format's columns can be read in them they are among the readings that are offered.
#[test]
fn no_mistake_of_units_is_silent() {
    const GAP: u64 = 1_000_000_000;
    // 4, 8, 64 and 4 KiB, at multiples of 4 KiB; the clock is a date, from November 2020 on.
    let requests = [(W, 1 << 20, 4096), (W, (1 << 20) + 4096, 8192), (R, 20_480_000, 4096), (W, 3 << 20, 65_536)];
    let (mut mistakes, mut offered) = (0, 0);
    for (format, time, (offset, length), line) in TABLES {
        for (unit, nanos) in UNITS {
            for (size, bytes) in SIZES {
                let row = |(n, &(op, at, len)): (usize, &(Op, u64, u64))| {
                    let since = if unit == "filetime" { 11_644_473_600_u128 } else { 0 } + 1_605_000_000;
                    let now = (since * 1_000_000_000 + n as u128 * u128::from(GAP)) / u128::from(nanos);
                    line(&now.to_string(), op == W, at / bytes, len / bytes) + "\n"
                };
                let text: String = requests.iter().enumerate().map(row).collect();
                let name = format!("{format} in {unit} and {size}");
                if (nanos, bytes, bytes) == (time, offset, length) {
                    assert_eq!(read(text, "", false).unwrap().0.len(), 4, "{name}");
                    continue;
                }
                mistakes += 1;
                let (asked, _) = question(&text);
                let told = asked.contains("perhaps not by its units") || asked.contains("fits no known format");
                assert!(told, "{name}: {asked}");
                assert!(asked.contains("columns:"), "{name}: {asked}");
                if asked.contains("perhaps not by its units") {
                    let found = offers(&text, &requests, GAP);
                    // An offset and a length in units of their own have no word for both.
                    assert!(found.is_some() || format == "spc", "{name}: {asked}");
                    offered += u32::from(found.is_some());
                }
            }
        }
    }
    assert!(mistakes >= 80 && offered >= 30, "{mistakes} {offered}");
}

/// Holds the case `units-silent`.
#[test]
fn bytes_are_not_taken_for_sectors() {
    let bytes4 = "0,W,1048576,4096\n120,W,1052672,8192\n260,R,20480000,4096\n900,W,1048576,65536\n";
    let (asked, names) = question(bytes4);
    assert_eq!(
        asked,
        "memory: fits rq-csv by its columns, but perhaps not by its units (read as sectors of 512 B every address and \
         length is a multiple of 256 KiB); say what they are:\n  \
         --format 'rq-csv': the first request is a write of 2097152 B (2 MiB) at byte 536870912, then one every 300.0 us \
         on average\n  \
         --format 'columns:ts=us,op,off=bytes,len=bytes': the first request is a write of 4096 B (4 KiB) at byte 1048576, \
         then one every 300.0 us on average\n  \
         neither: describe the columns yourself, such as --format 'columns:ts=us,op,off=sectors,len=sectors'"
    );
    assert_eq!(names.len(), 2);
    let expected = [(W, 1 << 20, 4096), (W, 1_052_672, 8192), (R, 20_480_000, 4096), (W, 1 << 20, 65_536)];
    assert!(offers(bytes4, &expected, 120_000).is_some());
    // Whoever says that they are sectors is believed.
    assert_eq!(read(bytes4, "rq-csv", false).unwrap().0[0].len, 4096 * 512);
    let seconds4 = "1600000000.123,W,1048576,4096\n1600000000.223,W,1052672,8192\n1600000001.3,R,20480000,4096\n";
    let expected = [(W, 1 << 20, 4096), (W, 1_052_672, 8192), (R, 20_480_000, 4096)];
    assert!(offers(seconds4, &expected, 100_000_000).is_some(), "{:?}", question(seconds4));
    let bytes5 = "1600000000,1048576,4096,1,3\n1600000000,1052672,8192,0,3\n1600000001,20480000,4096,1,4\n";
    let expected = [(W, 1 << 20, 4096), (R, 1_052_672, 8192), (W, 20_480_000, 4096)];
    assert!(offers(bytes5, &expected, 0).is_some(), "{:?}", question(bytes5));
    let unixms = "1577808000000,hm,0,Write,8192,4096,120\n1577808000010,hm,0,Write,12288,4096,120\n\
                  1577808000020,hm,0,Read,12288,4096,120\n";
    let expected = [(W, 8192, 4096), (W, 12_288, 4096), (R, 12_288, 4096)];
    assert!(offers(unixms, &expected, 10_000_000).is_some(), "{:?}", question(unixms));
}

/// Microseconds since a machine began are dates in other units: in seconds after 16 to 37 minutes, in milliseconds after 11
/// to 26 days.
#[test]
fn a_clock_since_boot_is_asked_about_only_where_a_date_is_as_likely() {
    let table = |first: u64, gap: u64| {
        let line = |n: u64| format!("{},{},{},8\n", first + n * gap, ["R", "W"][n as usize % 2], n * 8);
        (0..20).map(line).collect::<Vec<_>>().concat()
    };
    let (minutes, days) = (1_500_000_000, 1_600_000_000_000);
    for (first, gap) in [(minutes, 3), (minutes, 50), (minutes, 800), (days, 2_001), (days, 10_000), (days, 90_000)] {
        assert_eq!(read(table(first, gap), "", false).unwrap().0.len(), 20, "{first} {gap}");
    }
    // A request each 0.5 ms here, or each 0.5 s there: both are offered, the clock since boot first.
    let (asked, names) = question(&table(days, 500));
    assert_eq!(names, ["rq-csv", "columns:ts=ms,op,off=sectors,len=sectors"]);
    assert!(
        asked.contains(
            "(in milliseconds the first time is a date, in microseconds it is 18.5 days behind the zero of the clock)"
        ),
        "{asked}"
    );
    // A request each second of 2020, or each microsecond.
    let (_, names) = question(&table(1_600_000_000, 1));
    assert_eq!(names, ["rq-csv", "columns:ts=s,op,off=sectors,len=sectors"]);
}

#[test]
fn what_no_device_is_or_answers_is_asked_about() {
    // A request each nanosecond, each ten thousand years, and a device of exabytes.
    let fast = "0.001,W,2056,8\n0.002,R,16,24\n0.003,W,2056,8\n";
    let lines = |line: fn(u64) -> String| (0..4).map(line).collect::<Vec<_>>().join("\n");
    let slow = lines(|n| format!("{},0.1,R,4,{},4096", n * 2_000_000_000, n * 4096));
    let far = lines(|n| format!("{},W,{},8", n * 700, (1 << 52) + n * 8));
    for (text, reason) in [
        (fast, "read as microseconds there is a request every 1 ns"),
        (&slow, "read as seconds there is a request every 23148.1 days"),
        (&far, "most requests are of 1 GiB and more, or lie beyond 1 EiB"),
    ] {
        let (asked, _) = question(text);
        assert!(asked.contains(reason) && asked.contains("neither: describe the columns"), "{asked}");
    }
}

/// Holds the case `five-numbers-none-of-them`.
#[test]
fn five_numbers_may_be_none_of_the_formats() {
    let midas = "0.000123 1 66786 4096 0\n0.000189 3 432713 4096 0\n0.000476 1 924345 4096 0\n";
    let (asked, names) = question(midas);
    assert_eq!(names, ["disksim", "msr-cut"]);
    let other = asked.lines().last().unwrap();
    assert!(other.starts_with("  none of these: describe the columns, such as --format 'columns:"), "{asked}");
    let named = other.split('\'').nth(1).unwrap();
    let requests = read(midas, named, false).unwrap().0;
    assert_eq!(requests[1], request(66_000, Discard, 432_713 * 4096, 4096, 0));
}

/// Holds the case `tar-forced`.
#[test]
fn a_format_that_is_given_does_not_make_an_archive_a_trace() {
    let mut tar = vec![0_u8; 512];
    tar[..8].copy_from_slice(b"hm_0.csv");
    tar[257..262].copy_from_slice(b"ustar");
    tar.extend_from_slice(b"128166372003061629,hm,0,Write,8192,4096,120\n");
    for format in ["msr", "rq-csv", "columns:ts=s,op,off=bytes,len=bytes", "vscsi", "oracle-general:op=R"] {
        assert!(error(tar.clone(), format).contains("is a tar archive: extract it"), "{format}");
    }
    for mark in [&b"7z\xbc\xaf\x27\x1c"[..], b"\x1f\x9d"] {
        let text = [mark, b"\n128166372003061629,hm,0,Write,8192,4096,120\n"].concat();
        assert!(read(text, "msr", true).unwrap_err().contains(" is "), "{mark:?}");
    }
    // Records may begin so by chance.
    let record = [&b"\x1f\x9d"[..], &[0; 22]].concat();
    assert_eq!(read(record, "oracle-general:op=R", false).unwrap().0.len(), 1);
}
