//! Tables as other libraries take them: Arrow's C stream interface, without a copy.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, StringViewBuilder, UInt64Builder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use destage_report::{ResultColumn, TableCell};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::raised;

/// A table. Polars, pandas, pyarrow and whatever else knows Arrow's capsules take it as it is, and share its memory.
#[pyclass(frozen, module = "destage")]
#[derive(Clone)]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }

    /// A table of the report's.
    pub(crate) fn of_columns(columns: &[ResultColumn]) -> PyResult<Self> {
        let (fields, arrays): (Vec<_>, Vec<_>) = columns.iter().map(array).unzip();
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).map_err(raised)?;
        Ok(Self { schema, batches: vec![batch] })
    }

    /// The same with units of those columns of which they are known.
    pub(crate) fn with_units(self, units: &HashMap<String, &'static str>) -> PyResult<Self> {
        let with = |of: &Arc<Field>| {
            let unit = units.get(of.name()).map(|unit| ("unit".to_owned(), (*unit).to_owned()));
            of.as_ref().clone().with_metadata(unit.into_iter().collect())
        };
        let schema = Arc::new(Schema::new(self.schema.fields().iter().map(with).collect::<Vec<_>>()));
        let batches = self.batches.into_iter().map(|batch| batch.with_schema(Arc::clone(&schema)));
        let batches = batches.collect::<Result<_, _>>().map_err(raised)?;
        Ok(Self { schema, batches })
    }

    fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

#[pymethods]
impl Table {
    /// Arrow's stream of this table; `requested_schema` is not looked at.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol allows a producer to ignore the wish: a consumer must be able to cast.
        let _ = requested_schema;
        // A clone counts references and copies no data.
        let batches = self.batches.clone().into_iter().map(Ok);
        stream(py, Box::new(RecordBatchIterator::new(batches, Arc::clone(&self.schema))))
    }

    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.rows()
    }

    /// The names of the columns, in order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The unit of each column by its name, where that is known: "ns", "B", "1" for counts, "-" for text.
    #[getter]
    fn units(&self) -> Vec<(String, String)> {
        let unit = |field: &Arc<Field>| Some((field.name().clone(), field.metadata().get("unit")?.clone()));
        self.schema.fields().iter().filter_map(unit).collect()
    }

    fn __len__(&self) -> usize {
        self.rows()
    }

    fn __repr__(&self) -> String {
        format!("<destage.Table: {} rows of {}>", self.rows(), self.column_names().join(", "))
    }

    /// Returns the table as a `polars.DataFrame`, which shares the memory.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("polars")?.getattr("DataFrame")?.call1((slf,))
    }

    /// Returns the table as a `pyarrow.Table`, which shares the memory.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.getattr("table")?.call1((slf,))
    }

    /// Returns the table as a `pandas.DataFrame` of Arrow's types, which shares the memory; needs pyarrow, too.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let kwargs = pyo3::types::PyDict::new(py);
        // NumPy's types would copy the data, and turn integers with gaps into floats.
        kwargs.set_item("types_mapper", py.import("pandas")?.getattr("ArrowDtype")?)?;
        Self::to_pyarrow(slf)?.call_method("to_pandas", (), Some(&kwargs))
    }
}

/// A capsule with Arrow's stream of what `reader` reads.
pub(crate) fn stream(py: Python<'_>, reader: Box<dyn RecordBatchReader + Send>) -> PyResult<Bound<'_, PyCapsule>> {
    // The name of the capsule is the protocol's: consumers look for it.
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

/// A column as an array. Where no row has anything it is one of numbers, or of text.
fn array(column: &ResultColumn) -> (Field, ArrayRef) {
    let has = |of: fn(&TableCell) -> bool| column.cells.iter().any(of);
    // Without a value in any row the catalogue's kind decides, so tables of one kind can be joined.
    let array: ArrayRef = if column.is_text || has(|cell| matches!(cell, TableCell::Text(_))) {
        let mut texts = StringViewBuilder::new();
        for cell in &column.cells {
            match cell {
                TableCell::Text(text) => texts.append_value(text),
                _ => texts.append_null(),
            }
        }
        Arc::new(texts.finish())
    } else if has(|cell| matches!(cell, TableCell::Integer(_))) {
        let mut numbers = UInt64Builder::new();
        for cell in &column.cells {
            numbers.append_option(if let TableCell::Integer(number) = cell { Some(*number) } else { None });
        }
        Arc::new(numbers.finish())
    } else {
        let mut numbers = Float64Builder::new();
        for cell in &column.cells {
            numbers.append_option(if let TableCell::Float(number) = cell { Some(*number) } else { None });
        }
        Arc::new(numbers.finish())
    };
    (Field::new(&column.name, array.data_type().clone(), true), array)
}

/// A field with its unit.
pub(crate) fn field(name: &str, kind: DataType, unit: &str, nullable: bool) -> Field {
    Field::new(name, kind, nullable).with_metadata([("unit".to_owned(), unit.to_owned())].into())
}
