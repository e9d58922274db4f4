//! Tables as Parquet, through the writer of the `parquet` crate alone: Arrow would bring twice the
//! dependencies and nothing that a table of numbers and text needs.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::{Cell, Column, ColumnKind, ReportError, Table};

impl From<ParquetError> for ReportError {
    fn from(error: ParquetError) -> Self {
        Self::Write(error.to_string())
    }
}

/// The table as one row group: whole numbers are unsigned 64-bit, others double, text UTF-8, and
/// everything optional.
pub(crate) fn write(table: &Table) -> Result<Vec<u8>, ReportError> {
    let kinds: Vec<_> = table.columns.iter().map(|column| (column.name.as_str(), column.kind())).collect();
    let mut groups = Groups::begin(Vec::new(), table.name, &kinds)?;
    groups.write(&table.columns)?;
    Ok(groups.finish()?)
}

/// A file that is written one row group after the other.
pub(crate) struct Groups<W: Write + Send>(SerializedFileWriter<W>);

impl<W: Write + Send> Groups<W> {
    /// One of this name, with these columns.
    pub(crate) fn begin(out: W, name: &str, columns: &[(&str, ColumnKind)]) -> Result<Self, ParquetError> {
        let fields = columns.iter().map(|&(name, kind)| field(name, kind).map(Arc::new));
        let fields = fields.collect::<Result<Vec<_>, _>>()?;
        let schema = Type::group_type_builder(name).with_fields(fields).build()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            // The library's version is no part of the data.
            .set_created_by("destage".to_owned())
            .build();
        Ok(Self(SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?))
    }

    /// Writes a row group.
    pub(crate) fn write(&mut self, columns: &[Column]) -> Result<(), ParquetError> {
        let mut group = self.0.next_row_group()?;
        for column in columns {
            let Some(mut writer) = group.next_column()? else { break };
            let present: Vec<i16> = column.cells.iter().map(|cell| i16::from(*cell != Cell::Null)).collect();
            let present = Some(present.as_slice());
            match writer.untyped() {
                ColumnWriter::Int64ColumnWriter(writer) => {
                    let value = |cell: &Cell| if let Cell::Integer(n) = cell { Some(n.cast_signed()) } else { None };
                    writer.write_batch(&column.cells.iter().filter_map(value).collect::<Vec<_>>(), present, None)?;
                }
                ColumnWriter::DoubleColumnWriter(writer) => {
                    let value = |cell: &Cell| if let Cell::Float(x) = cell { Some(*x) } else { None };
                    writer.write_batch(&column.cells.iter().filter_map(value).collect::<Vec<_>>(), present, None)?;
                }
                ColumnWriter::ByteArrayColumnWriter(writer) => {
                    let value = |cell: &Cell| {
                        if let Cell::Text(text) = cell { Some(ByteArray::from(text.as_str())) } else { None }
                    };
                    writer.write_batch(&column.cells.iter().filter_map(value).collect::<Vec<_>>(), present, None)?;
                }
                _ => return Err(ParquetError::NYI(format!("column {} has a type that is not written", column.name))),
            }
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Ends the file.
    pub(crate) fn finish(self) -> Result<W, ParquetError> {
        self.0.into_inner()
    }
}

fn field(name: &str, kind: ColumnKind) -> Result<Type, ParquetError> {
    let (physical, logical) = match kind {
        ColumnKind::Integer => (Physical::INT64, Some(LogicalType::integer(64, false))),
        ColumnKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnKind::Float => (Physical::DOUBLE, None),
    };
    Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()
}
