//! The results as tables for other tools.

use destage_sim::array::{ArrayResult, DebtPoint};
use destage_sim::buffer::{ResponseClass, RunResult};
use destage_sim::measure::{FieldDoc, SeriesBin, WearClass};
use serde_json::Value;

use crate::group::RunGroup;
use crate::{ReportError, ReportRun, ResultColumn, ResultTable, TableCell, csv, parquet};

impl ResultTable {
    /// Itself as Parquet.
    ///
    /// # Errors
    /// Fails where it cannot be written so.
    pub fn parquet(&self) -> Result<Vec<u8>, ReportError> {
        parquet::write(self)
    }

    /// Returns the table's files, as CSV and as Parquet: name and content.
    ///
    /// # Errors
    /// Fails if the table cannot be written as Parquet.
    pub fn files(&self) -> Result<[(String, Vec<u8>); 2], ReportError> {
        Ok([
            (format!("{}.csv", self.name), csv::write(self).into_bytes()),
            (format!("{}.parquet", self.name), parquet::write(self)?),
        ])
    }
}

/// Rows in the making: a column appears with its first cell, and whoever has none there is null.
struct TableRows {
    name: &'static str,
    columns: Vec<ResultColumn>,
    count: usize,
    /// Holds the column of the next cell, if the row has the columns of the row before.
    next: usize,
}

impl TableRows {
    /// Columns that are there even if there are no rows.
    fn with(name: &'static str, columns: impl Iterator<Item = (&'static str, bool)>) -> Self {
        let head = [("run", false), ("label", true), ("cache_bytes", false)];
        let column = |(name, is_text): (&str, bool)| ResultColumn { name: name.to_owned(), is_text, cells: Vec::new() };
        Self { name, columns: head.into_iter().chain(columns).map(column).collect(), count: 0, next: 0 }
    }

    /// None yet.
    fn empty(name: &'static str) -> Self {
        Self { name, columns: Vec::new(), count: 0, next: 0 }
    }

    fn begin(&mut self) {
        self.count += 1;
        self.next = 0;
    }

    fn set(&mut self, name: &str, is_text: bool, cell: TableCell) {
        // Rows mostly have the columns of the row before, so the search by name is seldom needed.
        let expected = Some(self.next).filter(|&at| self.columns.get(at).is_some_and(|column| column.name == name));
        let known = expected.or_else(|| self.columns.iter().position(|column| column.name == name));
        let at = known.unwrap_or_else(|| {
            self.columns.push(ResultColumn { name: name.to_owned(), is_text, cells: Vec::new() });
            self.columns.len() - 1
        });
        self.next = at + 1;
        let cells = &mut self.columns[at].cells;
        // A column that appears late is null in the rows before it.
        cells.resize(self.count - 1, TableCell::Null);
        cells.push(cell);
    }

    fn end(mut self) -> ResultTable {
        for column in &mut self.columns {
            column.cells.resize(self.count, TableCell::Null);
            unify(&mut column.cells);
        }
        ResultTable { name: self.name, columns: self.columns }
    }
}

/// Makes all cells of one kind: numbers that are not all whole become floats, and what stands
/// beside text becomes text.
fn unify(cells: &mut [TableCell]) {
    let text = cells.iter().any(|cell| matches!(cell, TableCell::Text(_)));
    let float = cells.iter().any(|cell| matches!(cell, TableCell::Float(_)));
    for cell in cells {
        *cell = match std::mem::replace(cell, TableCell::Null) {
            // A column has one type in Parquet; the wider one holds every value.
            TableCell::Integer(n) if text => TableCell::Text(n.to_string()),
            TableCell::Float(x) if text => TableCell::Text(x.to_string()),
            TableCell::Integer(n) if float => TableCell::Float(n as f64),
            cell => cell,
        };
    }
}

/// The tables.
pub(crate) fn tables(runs: &[ReportRun], groups: &[RunGroup]) -> Vec<ResultTable> {
    let labels = labels(runs, groups);
    vec![
        all_runs(runs, &labels),
        over_time("series", "series", SeriesBin::FIELDS, runs, &labels),
        over_time("debt", "parity_debt", DebtPoint::FIELDS, runs, &labels),
        cdf(runs, &labels),
        wear(runs, &labels),
    ]
}

/// The label of each run.
fn labels<'a>(runs: &[ReportRun], groups: &'a [RunGroup]) -> Vec<&'a str> {
    let mut labels = vec![""; runs.len()];
    for group in groups {
        for point in &group.points {
            labels[point.run] = &group.labels[point.label];
        }
    }
    labels
}

/// Begins a row with the columns that every table has.
fn head(rows: &mut TableRows, number: usize, run: &ReportRun, label: &str) {
    rows.begin();
    rows.set("run", false, TableCell::Integer(number as u64));
    rows.set("label", true, TableCell::Text(label.to_owned()));
    rows.set("cache_bytes", false, run.cache().map_or(TableCell::Null, TableCell::Integer));
}

fn scalar(value: &Value) -> TableCell {
    match value {
        Value::Number(number) => {
            number.as_u64().map(TableCell::Integer).or(number.as_f64().map(TableCell::Float)).unwrap_or(TableCell::Null)
        }
        Value::String(text) => TableCell::Text(text.clone()),
        // Counts by class stand in one cell.
        Value::Array(numbers) => {
            let numbers: Vec<_> = numbers.iter().map(Value::to_string).collect();
            TableCell::Text(numbers.join(" "))
        }
        // Why a run is saturated.
        Value::Object(object) => object.get("cause").map_or(TableCell::Null, scalar),
        Value::Null | Value::Bool(_) => TableCell::Null,
    }
}

/// Lists of names and values, which stand in one cell.
const PAIRS: &[&str] = &["params", "settings"];
/// Structures that are lists of records and have tables of their own, or none.
const LISTS: &[&str] = &["elements", "bins", "claims", "devices", "failures", "distribution", "wear"];

fn all_runs(runs: &[ReportRun], labels: &[&str]) -> ResultTable {
    let mut rows = TableRows::with("runs", std::iter::empty());
    let (buffers, arrays) = (RunResult::fields(), ArrayResult::fields());
    for (i, (run, label)) in runs.iter().zip(labels).enumerate() {
        head(&mut rows, i, run, label);
        flatten(&mut rows, "", Some(&run.result), if run.is_array { &arrays } else { &buffers }, false);
    }
    rows.end()
}

/// The scalar fields of runs, a row for each, with their units where they are numbers. Runs over arrays and buffers have
/// columns of their own.
#[derive(Default)]
pub struct FlatRuns(Option<TableRows>);

impl FlatRuns {
    /// Adds a run, of which `before` is told first.
    pub fn add(&mut self, before: &[(&str, TableCell)], run: &ReportRun) {
        let rows = self.0.get_or_insert_with(|| TableRows::empty("runs"));
        rows.begin();
        for (name, cell) in before {
            rows.set(name, matches!(cell, TableCell::Text(_)), cell.clone());
        }
        let fields = if run.is_array { ArrayResult::fields() } else { RunResult::fields() };
        flatten(rows, "", Some(&run.result), &fields, true);
    }

    /// The columns.
    pub fn columns(self) -> Vec<ResultColumn> {
        self.0.map_or_else(Vec::new, |rows| rows.end().columns)
    }

    /// Units of columns, by their names: of runs over arrays, or of buffers.
    pub fn units(is_array: bool) -> Vec<(String, &'static str)> {
        fn add(units: &mut Vec<(String, &'static str)>, prefix: &str, fields: &[FieldDoc]) {
            for field in fields {
                let name = format!("{prefix}{}", field.name);
                if PAIRS.contains(&field.name) || field.fields.is_empty() {
                    units.push((name, field.unit));
                } else if !LISTS.contains(&field.name) {
                    add(units, &format!("{name}."), field.fields);
                }
            }
        }
        let mut units = Vec::new();
        add(&mut units, "", &if is_array { ArrayResult::fields() } else { RunResult::fields() });
        units
    }
}

fn flatten(rows: &mut TableRows, prefix: &str, value: Option<&Value>, fields: &[FieldDoc], with_cache: bool) {
    for field in fields {
        let name = format!("{prefix}{}", field.name);
        let inner = value.and_then(|value| value.get(field.name)).filter(|value| !value.is_null());
        if PAIRS.contains(&field.name) {
            let pairs =
                inner.and_then(Value::as_array).into_iter().flatten().filter_map(|pair| {
                    Some(format!("{}={}", pair.get("name")?.as_str()?, pair.get("value")?.as_str()?))
                });
            rows.set(&name, true, TableCell::Text(pairs.collect::<Vec<_>>().join(":")));
        } else if field.fields.is_empty() {
            // The head of each row has the size already.
            if with_cache || name != "cache_bytes" {
                rows.set(&name, field.unit == "-", inner.map_or(TableCell::Null, scalar));
            }
        } else if !LISTS.contains(&field.name) {
            flatten(rows, &format!("{name}."), inner, field.fields, with_cache);
        }
    }
}

/// A row for each span of a series that lies at `path`.
fn over_time(
    name: &'static str,
    path: &str,
    fields: &'static [FieldDoc],
    runs: &[ReportRun],
    labels: &[&str],
) -> ResultTable {
    let fields = fields.iter().map(|field| (field.name, false));
    let mut rows = TableRows::with(name, [("start", false), ("width", false)].into_iter().chain(fields));
    for (i, (run, label)) in runs.iter().zip(labels).enumerate() {
        let whole = |key| run.at(&format!("{path}.{key}")).and_then(Value::as_u64).unwrap_or_default();
        let (start, width) = (whole("start"), whole("width"));
        for (n, bin) in (0..).zip(run.list(&format!("{path}.bins"))) {
            head(&mut rows, i, run, label);
            rows.set("start", false, TableCell::Integer(start.saturating_add(width.saturating_mul(n))));
            rows.set("width", false, TableCell::Integer(width));
            record(&mut rows, bin);
        }
    }
    rows.end()
}

fn record(rows: &mut TableRows, record: &Value) {
    for (name, value) in record.as_object().into_iter().flatten() {
        rows.set(name, false, scalar(value));
    }
}

fn cdf(runs: &[ReportRun], labels: &[&str]) -> ResultTable {
    let fields = ResponseClass::FIELDS.iter().map(|field| (field.name, false));
    let mut rows = TableRows::with("cdf", fields.chain([("share_within", false)]));
    for (i, (run, label)) in runs.iter().zip(labels).enumerate() {
        let classes = run.list("response.distribution");
        let both = |class: &Value| {
            let count = |key| class.get(key).and_then(Value::as_u64).unwrap_or_default();
            count("reads").saturating_add(count("writes"))
        };
        let all: u64 = classes.iter().map(both).fold(0, u64::saturating_add);
        let mut within = 0_u64;
        for class in classes {
            head(&mut rows, i, run, label);
            record(&mut rows, class);
            within = within.saturating_add(both(class));
            rows.set("share_within", false, TableCell::Float(within as f64 / all.max(1) as f64));
        }
    }
    rows.end()
}

fn wear(runs: &[ReportRun], labels: &[&str]) -> ResultTable {
    let fields = WearClass::FIELDS.iter().map(|field| (field.name, false));
    let mut rows = TableRows::with("wear", [("device", true)].into_iter().chain(fields));
    for (i, (run, label)) in runs.iter().zip(labels).enumerate() {
        for class in run.list("ssd.wear") {
            head(&mut rows, i, run, label);
            rows.set("device", true, TableCell::Null);
            record(&mut rows, class);
        }
        for device in run.list("devices") {
            for class in device.get("wear").and_then(Value::as_array).into_iter().flatten() {
                head(&mut rows, i, run, label);
                rows.set("device", true, device.get("device").map_or(TableCell::Null, scalar));
                record(&mut rows, class);
            }
        }
    }
    rows.end()
}
