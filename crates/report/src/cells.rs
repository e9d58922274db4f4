//! Tables, whatever they tell: columns of cells.

/// A value of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum TableCell {
    /// There is none.
    Null,
    /// A whole number.
    Integer(u64),
    /// Another number.
    Float(f64),
    /// Text.
    Text(String),
}

/// Says which type the cells of a column have that are not null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Whole numbers.
    Integer,
    /// Other numbers.
    Float,
    /// Text.
    Text,
}

/// A column of a table. All cells that are not null are of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultColumn {
    /// Names the column; a field within another is `outer.inner`, as in the CSV of `destage sim`.
    pub name: String,
    /// Is true for a column of text, where all cells are null.
    pub is_text: bool,
    /// One cell a row.
    pub cells: Vec<TableCell>,
}

impl ResultColumn {
    /// Returns the type of the cells.
    pub fn kind(&self) -> ColumnKind {
        match self.cells.iter().find(|cell| **cell != TableCell::Null) {
            Some(TableCell::Integer(_)) => ColumnKind::Integer,
            Some(TableCell::Text(_)) => ColumnKind::Text,
            None if self.is_text => ColumnKind::Text,
            Some(TableCell::Float(_) | TableCell::Null) | None => ColumnKind::Float,
        }
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultTable {
    /// Names the table, and its files.
    pub name: &'static str,
    /// Holds the columns, with the same number of cells each.
    pub columns: Vec<ResultColumn>,
}
