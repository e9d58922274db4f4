//! Tables as Parquet, through the writer of the `parquet` crate alone: Arrow would bring twice the
//! dependencies and nothing that a table of numbers and text needs.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::{Cell, Column, ReportError, Table};

impl From<ParquetError> for ReportError {
    fn from(error: ParquetError) -> Self {
        Self::Write(error.to_string())
    }
}

/// The table as one row group: whole numbers are unsigned 64-bit, others double, text UTF-8, and
/// everything optional.
pub(crate) fn write(table: &Table) -> Result<Vec<u8>, ReportError> {
    let fields = table.columns.iter().map(|column| field(column).map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
    let schema = Type::group_type_builder(table.name).with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        // The library's version is no part of the data.
        .set_created_by("destage".to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for column in &table.columns {
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
                let value =
                    |cell: &Cell| if let Cell::Text(text) = cell { Some(ByteArray::from(text.as_str())) } else { None };
                writer.write_batch(&column.cells.iter().filter_map(value).collect::<Vec<_>>(), present, None)?;
            }
            _ => return Err(ReportError::Write(format!("column {} has a type that is not written", column.name))),
        }
        writer.close()?;
    }
    group.close()?;
    Ok(writer.into_inner()?)
}

fn field(column: &Column) -> Result<Type, ParquetError> {
    let (physical, logical) = match column.cells.iter().find(|cell| **cell != Cell::Null) {
        Some(Cell::Integer(_)) => (Physical::INT64, Some(LogicalType::integer(64, false))),
        Some(Cell::Text(_)) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        None if column.is_text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Some(Cell::Float(_) | Cell::Null) | None => (Physical::DOUBLE, None),
    };
    Type::primitive_type_builder(&column.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()
}
