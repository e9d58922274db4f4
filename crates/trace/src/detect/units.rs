//! Doubts whether a table that fits a format by form counts in the format's units.
//!
//! Many tables have the columns of a published format and other units: bytes for sectors, Unix time in
//! milliseconds for file times. The resulting requests betray wrong units: lengths that are no sectors, every
//! address a multiple of 256 KiB, a device of exabytes, a request each nanosecond, a time that is a date in
//! another unit. Then the user is asked, with the readings that make sense.

use destage_plan::Request;

use super::weigh::{describe_request, describe_time};
use crate::fields::TimeUnit;
use crate::format::TableUnits;
use crate::formats::FormatSpec;
use crate::lines::{ABSURD_LEN, ABSURD_OFFSET, FormatProbe};

/// Bounds the usual time between requests, in nanoseconds: 1 us and 100 s.
const SHORTEST_GAP: u128 = 1_000;
const LONGEST_GAP: u128 = 100_000_000_000;
/// Bounds that time from below for any trace, in nanoseconds: two million requests a second.
const IMPOSSIBLE_GAP: u128 = 500;
/// Bounds it from above, in nanoseconds: 11 days.
const IDLE_GAP: u128 = 1_000_000_000_000_000;
/// Bounds it from above, in nanoseconds, where a time since the machine began is taken for a date: 2 s. The microseconds of
/// a machine that has been up for 16 to 37 minutes are dates in seconds, and those of 11 to 26 days in milliseconds; but a
/// table of requests that come so seldom in these units is one of microseconds.
const DATE_GAP: u128 = 2_000_000_000;
/// Dates of traces: from 2000 to 2040, in nanoseconds since 1970.
const DATES: std::ops::Range<u128> = 946_684_800_000_000_000..2_208_988_800_000_000_000;
/// Spans from the zero of file times to that of Unix times, in nanoseconds.
const FILETIME_EPOCH: u128 = 11_644_473_600_000_000_000;
/// Counts the bytes of a sector, and of what tables of KiB count in.
const SECTOR: u64 = 512;
const KIB: u64 = 1024;
/// Counts the requests that say something of what all have in common.
const FEW: usize = 3;

/// Names a way to read a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TableReading {
    time: TimeUnit,
    offset: u64,
    length: u64,
}

/// Says what speaks against a column's unit.
#[derive(Debug)]
struct UnitDoubt<T> {
    reasons: Vec<String>,
    /// Tells that the unit of the format makes sense all the same.
    is_possible: bool,
    others: Vec<T>,
}

impl<T> UnitDoubt<T> {
    const fn none() -> Self {
        Self { reasons: Vec::new(), is_possible: true, others: Vec::new() }
    }
}

/// Returns what to ask the user where a table may count in other units than the one format that it fits.
pub(super) fn question(format: &FormatSpec, probe: &FormatProbe) -> Option<String> {
    let table = format.id().table()?;
    let (sizes, times) = (doubt_sizes(table, probe), doubt_times(table, &probe.times));
    let reasons: Vec<&str> = times.reasons.iter().chain(&sizes.reasons).map(String::as_str).collect();
    if reasons.is_empty() {
        return None;
    }
    // An impossible reading is not offered, so that the question names only what can be meant.
    let own_time = times.is_possible.then_some(table.time);
    let own_size = sizes.is_possible.then_some((table.offset, table.length));
    let mut lines = vec![format!(
        "fits {format} by its columns, but perhaps not by its units ({}); say what they are:",
        reasons.join("; ")
    )];
    for time in own_time.into_iter().chain(times.others) {
        for (offset, length) in own_size.into_iter().chain(sizes.others.iter().copied()) {
            let reading = TableReading { time, offset, length };
            let name = if (time, offset, length) == (table.time, table.offset, table.length) {
                format.to_string()
            } else {
                reading.columns(table)
            };
            lines.push(format!("  --format '{name}': {}", reading.describe(table, probe)));
        }
    }
    lines.push(format!(
        "  neither: describe the columns yourself, such as --format '{}'",
        TableReading::from(table).columns(table)
    ));
    Some(lines.join("\n"))
}

impl From<TableUnits> for TableReading {
    fn from(table: TableUnits) -> Self {
        Self { time: table.time, offset: table.offset, length: table.length }
    }
}

impl TableReading {
    /// Returns the description of a table that is read so.
    fn columns(self, table: TableUnits) -> String {
        let size = |unit: u64| match unit {
            1 => "bytes".to_owned(),
            SECTOR => "sectors".to_owned(),
            unit => unit.to_string(),
        };
        let columns = table.columns.replace("TIME", self.time.name());
        format!("columns:{}", columns.replace("OFFSET", &size(self.offset)).replace("LENGTH", &size(self.length)))
    }

    /// Returns what the first request is when read so, and how long it is to the next.
    fn describe(self, table: TableUnits, probe: &FormatProbe) -> String {
        let scaled = |bytes: u64, own: u64, other: u64| {
            u64::try_from(u128::from(bytes / own) * u128::from(other)).unwrap_or(u64::MAX)
        };
        let first = probe.first.map(|first| {
            let offset = scaled(first.offset, table.offset, self.offset);
            let request = Request { offset, len: scaled(first.len, table.length, self.length), ..first };
            format!("the first request is {}", describe_request(&request, probe.volume.as_deref()))
        });
        let gap = gap(&probe.times).map(|gap| {
            let gap = u64::try_from(in_unit(gap, table.time, self.time)).unwrap_or(u64::MAX);
            format!("one every {} on average", describe_time(gap))
        });
        first.into_iter().chain(gap).collect::<Vec<_>>().join(", then ")
    }
}

fn doubt_sizes(table: TableUnits, probe: &FormatProbe) -> UnitDoubt<(u64, u64)> {
    let mut doubt = UnitDoubt::none();
    let lens = || probe.ranges.iter().map(|range| range.1).filter(|len| *len > 0);
    let offsets = || probe.ranges.iter().map(|range| range.0).filter(|offset| *offset > 0);
    let count = lens().count();
    if count == 0 {
        return doubt;
    }
    let is_absurd = |&&(offset, len): &&(u64, u64)| offset >= ABSURD_OFFSET || len >= ABSURD_LEN;
    if probe.ranges.iter().filter(is_absurd).count() * 2 > probe.ranges.len() {
        doubt.is_possible = false;
        doubt.reasons.push("most requests are of 1 GiB and more, or lie beyond 1 EiB".to_owned());
    }
    let every = |mut all: Box<dyn Iterator<Item = u64> + '_>, unit: u64| all.all(|value| value.is_multiple_of(unit));
    // A few short requests occur in real traces in bytes.
    let broken = lens().filter(|len| *len < SECTOR).count() * 2 > count;
    match (table.offset, table.length) {
        // Bytes that are taken for sectors are all multiples of 512.
        (SECTOR, SECTOR) if every(Box::new(lens()), SECTOR * SECTOR) && every(Box::new(offsets()), SECTOR * SECTOR) => {
            doubt.reasons.push("read as sectors of 512 B every address and length is a multiple of 256 KiB".to_owned());
            doubt.others.push((1, 1));
        }
        (SECTOR, SECTOR) => {
            let common = lens().chain(offsets()).fold(0, greatest_common_divisor);
            // Of two requests the common divisor says little.
            if count >= FEW && common == 4 * SECTOR {
                doubt.reasons.push(
                    "read as sectors of 512 B all addresses and lengths are multiples of 2 KiB, as if they were 4 KiB in KiB"
                        .to_owned(),
                );
                doubt.others.push((KIB, KIB));
            }
        }
        _ if broken => {
            doubt.reasons.push("read as bytes most lengths are less than a sector".to_owned());
            doubt.others.push((SECTOR, SECTOR));
            if lens().chain(offsets()).fold(0, greatest_common_divisor).is_multiple_of(4) {
                doubt.others.push((KIB, KIB));
            }
        }
        (SECTOR, 1) if count >= FEW && offsets().count() > 0 && every(Box::new(offsets()), SECTOR * SECTOR) => {
            doubt.reasons.push("read as sectors of 512 B every address is a multiple of 256 KiB".to_owned());
            doubt.others.push((1, 1));
        }
        _ => {}
    }
    doubt
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns the mean time from a request to a later one behind it, in nanoseconds: of logs that begin anew, too. None of fewer
/// than two.
fn gap(times: &[u64]) -> Option<u128> {
    let sum: u128 = times.windows(2).map(|pair| u128::from(pair[1].saturating_sub(pair[0]))).sum();
    (times.len() > 1).then(|| sum / (times.len() as u128 - 1))
}

/// Returns a time that was read in one unit, read in another.
fn in_unit(time: u128, own: TimeUnit, other: TimeUnit) -> u128 {
    time * 10_u128.pow(other.exponent() as u32) / 10_u128.pow(own.exponent() as u32)
}

fn doubt_times(table: TableUnits, times: &[u64]) -> UnitDoubt<TimeUnit> {
    let own = table.time;
    let mut doubt = UnitDoubt::none();
    let (Some(&first), Some(gap)) = (times.first(), gap(times)) else { return doubt };
    let is_date = |unit: TimeUnit| {
        let time = in_unit(first.into(), own, unit);
        DATES.contains(&if unit == TimeUnit::Filetime { time.saturating_sub(FILETIME_EPOCH) } else { time })
    };
    let others = || TimeUnit::ALL.into_iter().filter(|unit| *unit != own);
    let short = !is_date(own) && gap < IMPOSSIBLE_GAP && times.len() >= FEW && times.iter().any(|&time| time != first);
    if short || gap > IDLE_GAP {
        doubt.is_possible = false;
        let gap = u64::try_from(gap).unwrap_or(u64::MAX);
        doubt.reasons.push(format!("read as {} there is a request every {}", own.words(), describe_time(gap)));
        doubt.others =
            others().filter(|unit| (SHORTEST_GAP..LONGEST_GAP).contains(&in_unit(gap.into(), own, *unit))).collect();
    }
    let longest = if table.counts_from_boot { DATE_GAP } else { LONGEST_GAP };
    if !is_date(own)
        && let Some(date) = others().find(|unit| is_date(*unit) && in_unit(gap, own, *unit) <= longest)
    {
        let age = describe_time(first);
        doubt.reasons.push(format!(
            "in {} the first time is a date, in {} it is {age} behind the zero of the clock",
            date.words(),
            own.words()
        ));
        doubt.others = vec![date];
    }
    doubt
}
