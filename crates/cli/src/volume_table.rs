//! Shows the results of each volume of a trace, below the table of runs.

use std::io::{self, Write};

use destage_report::figures::ValueFormat;
use destage_scenario::quantity::{show_count, show_time};
use destage_sim::measure::VolumeResult;

use crate::screen::TerminalScreen;
use crate::table::{TextColumn, TextTable};

/// Volumes of a run that are shown; files have all.
const MOST: usize = 10;

/// Holds the volumes of a run.
pub struct VolumeRows<'a> {
    /// Policy and what else says which run it is.
    pub keys: Vec<String>,
    /// The volumes, the one with most traffic first.
    pub volumes: &'a [VolumeResult],
}

/// Prints a table of volumes for each run, in which a volume's traffic comes once; nothing where no run
/// has any.
pub fn print(screen: &mut TerminalScreen, runs: &[VolumeRows<'_>]) -> io::Result<()> {
    let all = || runs.iter().flat_map(|run| run.volumes);
    let (pages, responses) = (all().any(|v| v.pages_written.is_some()), all().any(|v| v.response.is_some()));
    if all().next().is_none() {
        return Ok(());
    }
    let mut columns = vec![
        TextColumn::name("volume"),
        TextColumn::number("requests"),
        TextColumn::number("read"),
        TextColumn::number("written"),
        TextColumn::number("traffic %"),
    ];
    if pages {
        columns.extend([TextColumn::number("hit %").group(), TextColumn::number("flash pages")]);
    }
    if responses {
        columns.extend([TextColumn::number("mean").group(), TextColumn::number("p99"), TextColumn::number("p99.9")]);
    }
    let mut table = TextTable::new(columns);
    for run in runs {
        table.add_heading(run.keys.join(", "), more(run.volumes));
        for v in run.volumes.iter().take(MOST) {
            table.add(row(v, pages, responses));
        }
    }
    writeln!(screen, "\nvolumes of the trace:")?;
    table.print(screen)
}

/// Counts the volumes that are not shown, in words.
fn more(volumes: &[VolumeResult]) -> String {
    let rest = volumes.iter().skip(MOST);
    match rest.map(|v| v.volumes).sum() {
        0 => String::new(),
        rest => format!("the first {MOST} volumes; {} more are in --json", show_count(rest)),
    }
}

fn row(v: &VolumeResult, pages: bool, responses: bool) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let percent = |share: Option<f64>| or_dash(share.map(|share| ValueFormat::Percent.text(share, 2)));
    let bytes = |bytes: u64| ValueFormat::Bytes.text(bytes as f64, 1);
    let name = match (v.volume, v.volumes) {
        (None, volumes) => format!("{} {}", show_count(volumes), v.name),
        _ => v.name.clone(),
    };
    let mut row = vec![
        name,
        show_count(v.requests),
        bytes(v.host_bytes_read),
        bytes(v.host_bytes_written),
        percent(v.traffic_share),
    ];
    if pages {
        row.push(percent(v.hit_ratio));
        row.push(or_dash(v.pages_written.map(|written| show_count(written + v.pad_pages.unwrap_or(0)))));
    }
    if responses {
        let time = |of: &dyn Fn(&destage_sim::measure::VolumeResponse) -> f64| {
            or_dash(v.response.as_ref().map(|response| show_time(of(response))))
        };
        row.extend([time(&|r| r.mean), time(&|r| r.p99 as f64), time(&|r| r.p99_9 as f64)]);
    }
    row
}
