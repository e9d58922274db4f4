//! All rows of the plan in one file, in its order: the same bytes whatever parts they come from.

use std::collections::{HashMap, VecDeque};

use destage_report::{ColumnKind, FlatRuns, ResultColumn, TableCell, TableWriter};

use crate::SweepError;
use crate::best::BestCollector;
use crate::plan::GroupPlan;
use crate::store::SweepStore;

/// Rows of a row group.
const GROUP: usize = 1024;
/// Rows of parts that are held in memory.
const HELD: usize = 8192;

/// The file, what does best in it, and how many rows it has.
///
/// # Errors
/// If a part cannot be read any more.
pub(crate) fn merged(plan: &GroupPlan, store: &SweepStore) -> Result<(Vec<u8>, BestCollector, usize), SweepError> {
    let is_array: Vec<bool> =
        plan.members.iter().map(|member| member.settings.iter().any(|(name, _)| name == "array")).collect();
    let mut units: Vec<(String, &'static str)> = Vec::new();
    for kind in [false, true].into_iter().filter(|kind| is_array.contains(kind)) {
        units.extend(
            FlatRuns::units(kind)
                .into_iter()
                .filter(|(name, _)| !units.iter().any(|(known, _)| known == name))
                .collect::<Vec<_>>(),
        );
    }
    // The plan decides the order, so that workers and interruptions leave no trace in the file.
    let rows: Vec<_> = plan.rows().filter_map(|(member, run)| Some((member, run, store.place(&run.key)?))).collect();
    let mut parts = ResultParts { store, held: VecDeque::new() };

    // What columns hold, which has to be known before the first row is written.
    let grid: Vec<String> = plan.keys.iter().map(|key| format!("grid.{key}")).collect();
    let mut kinds: Vec<Option<ColumnKind>> = vec![None; units.len()];
    // Parquet wants the type of a column before its first row, and parts may differ in it.
    for (_, _, (part, row)) in &rows {
        let part = parts.get(*part)?;
        for ((name, _), kind) in units.iter().zip(&mut kinds) {
            *kind = wider(*kind, part.cell(name, *row));
        }
    }
    let text = |name: &str| (name.to_owned(), ColumnKind::Text);
    let mut columns = vec![text("key"), text("trace")];
    for (number, name) in grid.iter().enumerate() {
        columns.push((name.clone(), of_point(plan, number)));
    }
    for ((name, unit), kind) in units.iter().zip(kinds) {
        let otherwise = if *unit == "-" { ColumnKind::Text } else { ColumnKind::Float };
        columns.push((name.clone(), kind.unwrap_or(otherwise)));
    }

    let described: Vec<_> = columns.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
    let of_units: serde_json::Map<_, _> = units.iter().map(|(name, unit)| (name.clone(), (*unit).into())).collect();
    let about = [("destage.units", serde_json::Value::Object(of_units).to_string())];
    let wrong = |error| SweepError::file(&store.out, format_args!("rows cannot be written: {error}"));
    let mut file = TableWriter::parquet_about(Vec::new(), "sweep", &described, &about).map_err(wrong)?;
    let mut bests = BestCollector::new(plan.objective);
    // Row groups bound the memory: a sweep may have more rows than fit.
    for rows in rows.chunks(GROUP) {
        let column = |(name, kind): &(String, ColumnKind)| ResultColumn {
            name: name.clone(),
            is_text: *kind == ColumnKind::Text,
            cells: Vec::with_capacity(rows.len()),
        };
        let mut group: Vec<ResultColumn> = columns.iter().map(column).collect();
        for (member, run, (part, row)) in rows {
            let (of, is_array) = (&plan.members[*member], is_array[*member]);
            let part = parts.get(*part)?;
            let mut cells = vec![TableCell::Text(run.key.clone()), TableCell::Text(of.trace.clone())];
            cells.extend(of.point.iter().map(|(_, value)| value.clone().map_or(TableCell::Null, TableCell::Text)));
            for (name, _) in &units {
                // The same trace may have been called otherwise before.
                cells.push(match name.as_str() {
                    "input.trace" => TableCell::Text(of.trace.clone()),
                    _ => part.cell(name, *row).clone(),
                });
            }
            let head = 2 + grid.len();
            let measured = units.iter().zip(&cells[head..]).map(|((name, _), cell)| (name.as_str(), cell));
            bests.add(&of.trace, &of.point, is_array, measured);
            for ((column, (_, kind)), cell) in group.iter_mut().zip(&columns).zip(cells) {
                column.cells.push(as_kind(cell, *kind));
            }
        }
        file.write(&group).map_err(wrong)?;
    }
    Ok((file.finish().map_err(wrong)?, bests, rows.len()))
}

/// Returns the kind of column that holds this cell as well as the earlier ones.
fn wider(kind: Option<ColumnKind>, cell: &TableCell) -> Option<ColumnKind> {
    let own = match cell {
        TableCell::Null => return kind,
        TableCell::Integer(_) => ColumnKind::Integer,
        TableCell::Float(_) => ColumnKind::Float,
        TableCell::Text(_) => ColumnKind::Text,
    };
    Some(match (kind, own) {
        (None, own) => own,
        (Some(kind), own) if kind == own => kind,
        // Text can hold every value exactly; the other way round would lose some.
        (Some(ColumnKind::Text), _) | (_, ColumnKind::Text) => ColumnKind::Text,
        _ => ColumnKind::Float,
    })
}

/// Returns the kind of column that holds a grid key's values: numbers, if all of them are numbers.
fn of_point(plan: &GroupPlan, number: usize) -> ColumnKind {
    let values = || plan.members.iter().filter_map(|member| member.point[number].1.as_deref());
    if values().all(|value| value.parse::<u64>().is_ok_and(|number| number.to_string() == value)) {
        ColumnKind::Integer
    } else if values().all(|value| value.parse::<f64>().is_ok_and(f64::is_finite)) {
        ColumnKind::Float
    } else {
        ColumnKind::Text
    }
}

fn as_kind(cell: TableCell, kind: ColumnKind) -> TableCell {
    match (cell, kind) {
        (TableCell::Integer(n), ColumnKind::Float) => TableCell::Float(n as f64),
        (TableCell::Integer(n), ColumnKind::Text) => TableCell::Text(n.to_string()),
        (TableCell::Float(x), ColumnKind::Text) => TableCell::Text(x.to_string()),
        (TableCell::Text(text), ColumnKind::Integer) => text.parse().map_or(TableCell::Null, TableCell::Integer),
        (TableCell::Text(text), ColumnKind::Float) => text.parse().map_or(TableCell::Null, TableCell::Float),
        (cell, _) => cell,
    }
}

/// Parts, of which those that were needed last are held.
struct ResultParts<'a> {
    store: &'a SweepStore,
    held: VecDeque<(usize, ResultPart)>,
}

/// A part.
struct ResultPart {
    columns: Vec<ResultColumn>,
    by_name: HashMap<String, usize>,
}

impl ResultPart {
    fn cell(&self, name: &str, row: usize) -> &TableCell {
        self.by_name.get(name).and_then(|&at| self.columns[at].cells.get(row)).unwrap_or(&TableCell::Null)
    }

    fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.cells.len())
    }
}

impl ResultParts<'_> {
    fn get(&mut self, number: usize) -> Result<&ResultPart, SweepError> {
        if self.held.front().is_none_or(|(first, _)| *first != number) {
            let known = self.held.iter().position(|(known, _)| *known == number);
            let part = if let Some((_, part)) = known.and_then(|at| self.held.remove(at)) {
                part
            } else {
                let columns = self.store.read(number)?;
                let by_name = columns.iter().enumerate().map(|(at, column)| (column.name.clone(), at)).collect();
                ResultPart { columns, by_name }
            };
            self.held.push_front((number, part));
            // Rows in the order of the plan come from few parts at a time, so few have to be in memory.
            while self.held.len() > 1 && self.held.iter().map(|(_, part)| part.rows()).sum::<usize>() > HELD {
                self.held.pop_back();
            }
        }
        Ok(&self.held[0].1)
    }
}
