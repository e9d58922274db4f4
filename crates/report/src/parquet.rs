//! Tables as Parquet, through the writer of the `parquet` crate alone: Arrow would bring twice the
//! dependencies and nothing that a table of numbers and text needs.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::{ColumnKind, ReportError, ResultColumn, ResultTable, TableCell};

impl From<ParquetError> for ReportError {
    fn from(error: ParquetError) -> Self {
        Self::Write(error.to_string())
    }
}

/// The table as one row group: whole numbers are unsigned 64-bit, others double, text UTF-8, and
/// everything optional.
pub(crate) fn write(table: &ResultTable) -> Result<Vec<u8>, ReportError> {
    let kinds: Vec<_> = table.columns.iter().map(|column| (column.name.as_str(), column.kind())).collect();
    let mut groups = RowGroups::begin(Vec::new(), table.name, &kinds, &[])?;
    groups.write(&table.columns)?;
    Ok(groups.finish()?)
}

/// A file that is written one row group after the other.
pub(crate) struct RowGroups<W: Write + Send>(SerializedFileWriter<W>);

impl<W: Write + Send> RowGroups<W> {
    /// One of this name, with these columns, and keys and values that are told of the file.
    pub(crate) fn begin(
        out: W,
        name: &str,
        columns: &[(&str, ColumnKind)],
        about: &[(&str, String)],
    ) -> Result<Self, ParquetError> {
        let fields = columns.iter().map(|&(name, kind)| field(name, kind).map(Arc::new));
        let fields = fields.collect::<Result<Vec<_>, _>>()?;
        let schema = Type::group_type_builder(name).with_fields(fields).build()?;
        let properties =
            WriterProperties::builder()
                .set_compression(Compression::ZSTD(ZstdLevel::default()))
                // The library's version is no part of the data.
                .set_created_by("destage".to_owned())
                .set_key_value_metadata((!about.is_empty()).then(|| {
                    about.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone())).collect()
                }))
                .build();
        Ok(Self(SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?))
    }

    /// Writes a row group.
    pub(crate) fn write(&mut self, columns: &[ResultColumn]) -> Result<(), ParquetError> {
        let mut group = self.0.next_row_group()?;
        for column in columns {
            let Some(mut writer) = group.next_column()? else { break };
            let present: Vec<i16> = column.cells.iter().map(|cell| i16::from(*cell != TableCell::Null)).collect();
            let present = Some(present.as_slice());
            match writer.untyped() {
                ColumnWriter::Int64ColumnWriter(writer) => {
                    let value =
                        |cell: &TableCell| if let TableCell::Integer(n) = cell { Some(n.cast_signed()) } else { None };
                    writer.write_batch(&column.cells.iter().filter_map(value).collect::<Vec<_>>(), present, None)?;
                }
                ColumnWriter::DoubleColumnWriter(writer) => {
                    let value = |cell: &TableCell| if let TableCell::Float(x) = cell { Some(*x) } else { None };
                    writer.write_batch(&column.cells.iter().filter_map(value).collect::<Vec<_>>(), present, None)?;
                }
                ColumnWriter::ByteArrayColumnWriter(writer) => {
                    let value = |cell: &TableCell| {
                        if let TableCell::Text(text) = cell { Some(ByteArray::from(text.as_str())) } else { None }
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

/// Those columns of a table that are wanted by their names, as it was written here.
///
/// # Errors
/// If it is none, or has columns of other types.
pub fn read(content: impl Into<Bytes>, wants: impl Fn(&str) -> bool) -> Result<Vec<ResultColumn>, ReportError> {
    let file = SerializedFileReader::new(content.into())?;
    let schema = file.metadata().file_metadata().schema_descr_ptr();
    let column = |i| ResultColumn {
        name: schema.column(i).name().to_owned(),
        is_text: schema.column(i).physical_type() == Physical::BYTE_ARRAY,
        cells: Vec::new(),
    };
    let wanted = (0..schema.num_columns()).filter(|&i| wants(schema.column(i).name()));
    let mut columns: Vec<_> = wanted.map(|i| (i, column(i))).collect();
    for group in 0..file.num_row_groups() {
        let group = file.get_row_group(group)?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        for (i, column) in &mut columns {
            let cells = match group.get_column_reader(*i)? {
                ColumnReader::Int64ColumnReader(reader) => {
                    cells(reader, rows, |n| Some(TableCell::Integer(n.cast_unsigned())))
                }
                ColumnReader::DoubleColumnReader(reader) => cells(reader, rows, |x| Some(TableCell::Float(x))),
                ColumnReader::ByteArrayColumnReader(reader) => {
                    cells(reader, rows, |text| text.as_utf8().ok().map(|text| TableCell::Text(text.to_owned())))
                }
                _ => Err(ParquetError::NYI("is of a type that is not written here".into())),
            };
            let cells = cells.map_err(|error| ReportError::Write(format!("column {}: {error}", column.name)))?;
            column.cells.extend(cells);
        }
    }
    Ok(columns.into_iter().map(|(_, column)| column).collect())
}

/// All cells of a column of a row group.
fn cells<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    rows: usize,
    cell: impl Fn(T::T) -> Option<TableCell>,
) -> Result<Vec<TableCell>, ParquetError> {
    let (mut present, mut values) = (Vec::new(), Vec::new());
    while present.len() < rows {
        let (read, ..) = reader.read_records(rows - present.len(), Some(&mut present), None, &mut values)?;
        if read == 0 {
            return Err(ParquetError::General(format!("ends after {} of {rows} rows", present.len())));
        }
    }
    let mut values = values.into_iter();
    let cell = |present: i16| match present {
        0 => Ok(TableCell::Null),
        _ => values.next().and_then(&cell).ok_or_else(|| ParquetError::General("holds what it should not".into())),
    };
    present.into_iter().map(cell).collect()
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
