//! Tables as CSV (RFC 4180, with line feeds).

use crate::{ResultColumn, ResultTable, TableCell};

/// The table, its columns' names in the first line.
pub(crate) fn write(table: &ResultTable) -> String {
    head(table.columns.iter().map(|column| column.name.as_str())) + &rows(&table.columns)
}

/// The first line.
pub(crate) fn head<'a>(names: impl Iterator<Item = &'a str>) -> String {
    line(names.map(quoted))
}

/// The rows of these columns.
pub(crate) fn rows(columns: &[ResultColumn]) -> String {
    let mut text = String::new();
    let rows = columns.first().map_or(0, |column| column.cells.len());
    for row in 0..rows {
        text += &line(columns.iter().map(|column| match &column.cells[row] {
            TableCell::Null => String::new(),
            TableCell::Integer(n) => n.to_string(),
            // As JSON writes it: the shortest that is read as the same number.
            TableCell::Float(x) => {
                serde_json::Number::from_f64(*x).map_or_else(String::new, |number| number.to_string())
            }
            TableCell::Text(text) => quoted(text),
        }));
    }
    text
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let mut line = cells.collect::<Vec<_>>().join(",");
    line.push('\n');
    line
}

/// Text is quoted where it must be, and where it is empty, so that it differs from what is not
/// there.
fn quoted(text: &str) -> String {
    if text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
