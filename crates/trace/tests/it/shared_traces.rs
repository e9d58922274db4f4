//! The shared real traces: their statistics against the table in their README, and their way
//! through the native format.
//!
//! The README is the oracle: it is parsed here, row by row, and every number in it is compared with
//! ours to the last digit that it prints.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use destage_plan::PageGeometry;
use destage_trace::{
    FormatSpec, NativeReader, NativeWriter, OpenOptions, Request, TraceRequests, TraceSource, TraceStat, TraceSummary,
    open,
};

/// The folder of the shared traces, if it is there.
fn folder(test: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("DESTAGE_SHARED").map_or_else(beside, PathBuf::from).join("traces");
    if folder.join("README.md").is_file() {
        return Some(folder);
    }
    // Past the test harness, which keeps what a passing test prints.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: no README.md in {}", folder.display());
    None
}

/// A file's row: its cells from the number of requests on.
#[derive(Debug)]
struct Row {
    file: String,
    cells: Vec<String>,
}

/// The rows of every table with a column of requests. A row for several files has their names
/// separated by commas and their values by semicolons.
fn rows(folder: &Path) -> Vec<Row> {
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let mut rows = vec![];
    for line in readme.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if cells.len() < 8 || cells[0] == "file" || cells[0].starts_with('-') {
            continue;
        }
        let files: Vec<&str> = cells[0].split(", ").collect();
        for (i, file) in files.iter().enumerate() {
            let own = |cell: &&str| {
                if files.len() == 1 { cell } else { cell.split(';').nth(i).unwrap_or("") }.trim().to_owned()
            };
            rows.push(Row { file: (*file).to_owned(), cells: cells[2..].iter().map(own).collect() });
        }
    }
    assert!(rows.len() >= 19, "{} rows found in the table", rows.len());
    rows
}

/// A printed number, and half of its last digit.
fn printed(text: &str) -> (f64, f64) {
    let plain = text.replace(',', "");
    let decimals = plain.split_once('.').map_or(0, |(_, fraction)| fraction.len() as u32);
    (plain.parse().unwrap_or_else(|_| panic!("{text:?} is not a number")), 0.5 / f64::from(10_u32.pow(decimals)))
}

/// The format, where a file's content fits two.
fn format_of(file: &str) -> Option<FormatSpec> {
    let name = match file {
        _ if file.contains(".cut.") => "msr-cut",
        _ if file.starts_with("ssd-postmark") => "disksim",
        _ => return None,
    };
    Some(name.parse().unwrap())
}

/// Cells of the table that another definition or rounding made: file, column, the cell as ours
/// would be, and why.
const EXCEPTIONS: [(&str, &str, &str, &str); 3] = [
    (
        "msr.cut.per_10k.rw_20_80.105.trace",
        "write sizes %",
        "78.6/15.4/5.9/0",
        "6,276 of 7,980 writes are 78.647 %; the table rounds up so that its four classes add up to 100",
    ),
    (
        "systor17-traces-sample999.csv",
        "write sizes %",
        "81.5/6.9/2.3/9.2",
        "16 of 173 writes are 9.248 %; rounded up as above",
    ),
    (
        "hplajw.1992-05-30.1week.srt",
        "unique pages",
        "7,344/5,702/3,856",
        "the table takes the sections of a disk for volumes; one page is written through a section and its raw device",
    ),
];

fn open_row(folder: &Path, row: &Row) -> TraceRequests {
    let options = OpenOptions { format: format_of(&row.file), ..OpenOptions::default() };
    open(folder.join(format!("{}.zst", row.file)), &options).unwrap_or_else(|e| panic!("{e}"))
}

/// Hands every batch to `take`.
fn each_batch(source: &mut dyn TraceSource, mut take: impl FnMut(&[Request])) {
    let mut batch = vec![];
    loop {
        source.next_batch(&mut batch).unwrap_or_else(|e| panic!("{e}"));
        if batch.is_empty() {
            return;
        }
        take(&batch);
    }
}

fn stat(trace: &mut TraceRequests) -> TraceSummary {
    let mut stat = TraceStat::new(PageGeometry::new(4096, 64).unwrap());
    each_batch(trace, |batch| stat.feed(batch));
    stat.finish()
}

/// The columns of the table and ours.
fn columns(s: &TraceSummary) -> [(&'static str, Vec<f64>); 7] {
    [
        ("requests", vec![s.data_requests() as f64]),
        ("reads %", vec![s.read_percent()]),
        ("page touches", vec![s.read_page_touches as f64, s.write_page_touches as f64]),
        ("unique pages", vec![s.unique_pages as f64, s.unique_pages_read as f64, s.unique_pages_written as f64]),
        ("mean KiB", vec![s.mean_read_kib(), s.mean_write_kib()]),
        ("seconds", vec![s.duration.as_secs_f64()]),
        ("write sizes %", s.write_size_percent().to_vec()),
    ]
}

/// Lists the numbers in which the cell and our figures differ.
fn differences(cell: &str, ours: &[f64]) -> Vec<String> {
    let theirs: Vec<_> = cell.split('/').map(|text| printed(text.trim())).collect();
    assert_eq!(theirs.len(), ours.len(), "numbers in {cell}");
    let differs = |&(&(theirs, half), ours): &(&(f64, f64), &f64)| (theirs - ours).abs() > half * (1.0 + 1e-9);
    theirs.iter().zip(ours).filter(differs).map(|((theirs, _), ours)| format!("table {theirs}, ours {ours}")).collect()
}

#[test]
fn statistics_are_those_of_the_table() {
    let Some(folder) = folder("statistics_are_those_of_the_table") else { return };
    let rows = rows(&folder);
    let mut found = vec![];
    let mut compared = 0;
    for row in &rows {
        let ours = columns(&stat(&mut open_row(&folder, row)));
        assert_eq!(row.cells.len(), ours.len(), "{}: columns of the table", row.file);
        for (cell, (column, ours)) in row.cells.iter().zip(&ours) {
            // The table leaves a cell empty where it has nothing to say.
            if cell.is_empty() {
                continue;
            }
            compared += ours.len();
            let mut differences_here = differences(cell, ours);
            if let Some((.., cell, why)) = EXCEPTIONS.iter().find(|(file, c, ..)| *file == row.file && c == column) {
                if differences_here.is_empty() {
                    found.push(format!("{}: {column}: no difference any more ({why})", row.file));
                }
                differences_here = differences(cell, ours);
            }
            found.extend(differences_here.iter().map(|d| format!("{}: {column}: {d}", row.file)));
        }
    }
    eprintln!("{} files, {compared} numbers compared, {} cells by exception", rows.len(), EXCEPTIONS.len());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_trace_comes_back_from_the_native_format() {
    let Some(folder) = folder("every_trace_comes_back_from_the_native_format") else { return };
    for row in rows(&folder) {
        let mut trace = open_row(&folder, &row);
        let mut requests = vec![];
        let mut writer = NativeWriter::new(vec![]).unwrap();
        each_batch(&mut trace, |batch| {
            writer.write(batch).unwrap();
            requests.extend_from_slice(batch);
        });
        writer.volume_names(trace.volume_names()).unwrap();
        let bytes = writer.finish().unwrap();
        eprintln!("{}: {} requests in {} B", row.file, requests.len(), bytes.len());
        if row.file == "own.oltp-pgbench-ext4.csv" {
            assert!(bytes.len() <= 600_000, "the OLTP recording takes {} B", bytes.len());
        }
        let mut reader = NativeReader::open(Path::new(&row.file), Box::new(std::io::Cursor::new(bytes))).unwrap();
        let mut back = vec![];
        each_batch(&mut reader, |batch| back.extend_from_slice(batch));
        assert!(back == requests, "{}", row.file);
        assert_eq!(reader.volume_names(), trace.volume_names());
    }
}
