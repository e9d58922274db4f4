//! A table that is written piece by piece, so that it need not be held.

use std::io::{self, Write};

use ::parquet::errors::ParquetError;

use crate::parquet::RowGroups;
use crate::{ColumnKind, ResultColumn, csv};

/// Writes a table piece by piece, as CSV or as Parquet.
pub struct TableWriter<W: Write + Send>(RowForm<W>);

enum RowForm<W: Write + Send> {
    Csv(W),
    Parquet(Box<RowGroups<W>>),
}

impl<W: Write + Send> TableWriter<W> {
    /// Begins a table with these columns as CSV.
    ///
    /// # Errors
    /// Fails where `out` cannot be written.
    pub fn csv(mut out: W, columns: &[(&str, ColumnKind)]) -> io::Result<Self> {
        out.write_all(csv::head(columns.iter().map(|(name, _)| *name)).as_bytes())?;
        Ok(Self(RowForm::Csv(out)))
    }

    /// Begins a table of this name with these columns as Parquet, in which each piece is a row group.
    ///
    /// # Errors
    /// Fails where `out` cannot be written.
    pub fn parquet(out: W, name: &str, columns: &[(&str, ColumnKind)]) -> io::Result<Self> {
        Self::parquet_about(out, name, columns, &[])
    }

    /// The same with keys and values that are told of the file, in its metadata.
    ///
    /// # Errors
    /// Fails where `out` cannot be written.
    pub fn parquet_about(
        out: W,
        name: &str,
        columns: &[(&str, ColumnKind)],
        about: &[(&str, String)],
    ) -> io::Result<Self> {
        Ok(Self(RowForm::Parquet(Box::new(RowGroups::begin(out, name, columns, about).map_err(unwrapped)?))))
    }

    /// Writes further rows: all columns, with as many cells each.
    ///
    /// # Errors
    /// Fails where they cannot be written, or hold cells of another kind.
    pub fn write(&mut self, columns: &[ResultColumn]) -> io::Result<()> {
        match &mut self.0 {
            RowForm::Csv(out) => out.write_all(csv::rows(columns).as_bytes()),
            RowForm::Parquet(groups) => groups.write(columns).map_err(unwrapped),
        }
    }

    /// Ends the table; returns what it was written to.
    ///
    /// # Errors
    /// Fails where its end cannot be written.
    pub fn finish(self) -> io::Result<W> {
        match self.0 {
            RowForm::Csv(out) => Ok(out),
            RowForm::Parquet(groups) => groups.finish().map_err(unwrapped),
        }
    }
}

/// The error of who writes, if it is one.
fn unwrapped(error: ParquetError) -> io::Error {
    match error {
        // The caller tells a full disk from other errors, so the original error must come through.
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}
