//! Tables for Python, through the Arrow PyCapsule interface.
//!
//! Numbers are handed over without a copy: the buffers of the columns move into Arrow arrays once, and each reader of
//! the table shares them.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType};
use carillon_lab::table::Column;
use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

use crate::error::run_error;

/// Columns of equal length that Arrow readers (polars, pandas, pyarrow, DuckDB) take as they are.
#[pyclass(frozen, module = "carillon")]
pub struct Table {
    batch: RecordBatch,
}

impl Table {
    /// Converts a table of the laboratory.
    pub fn from_lab(table: carillon_lab::table::Table) -> PyResult<Self> {
        let columns = table.into_columns().map(|(name, column)| (name, array(column), true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).map_err(run_error)?;
        Ok(Table { batch })
    }

    /// Makes a table of finished Arrow columns.
    pub fn from_arrays(columns: impl IntoIterator<Item = (String, ArrayRef)>) -> Result<Self, ArrowError> {
        let columns = columns.into_iter().map(|(name, array)| (name, array, true));
        Ok(Table { batch: RecordBatch::try_from_iter_with_nullable(columns)? })
    }
}

/// Arrow array of a column. NaN is a missing value, as in Parquet.
fn array(column: Column) -> ArrayRef {
    match column {
        Column::Text(values) => Arc::new(StringArray::from_iter_values(values)),
        Column::Integer(values) => Arc::new(Int64Array::from(values)),
        Column::OptionalInteger(values) => Arc::new(Int64Array::from(values)),
        Column::Real(values) if values.iter().any(|value| value.is_nan()) => {
            let values = values.into_iter().map(|value| (!value.is_nan()).then_some(value));
            Arc::new(values.collect::<Float64Array>())
        }
        Column::Real(values) => Arc::new(Float64Array::from(values)),
    }
}

#[pymethods]
impl Table {
    /// Schema for Arrow readers.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref()).map_err(run_error)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Stream of one batch for Arrow readers. A requested schema is ignored, as the interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// Names of the columns in order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Values of a column as a list; `None` is a missing value.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let Some(column) = self.batch.column_by_name(name) else {
            let known = self.column_names().join(", ");
            return Err(PyKeyError::new_err(format!("no column {name:?}; the table has {known}")));
        };
        let cells = (0..column.len()).map(|row| cell(py, column, row)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, cells)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        self.column(py, name)
    }

    /// Values of one row by the names of the columns.
    fn row<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyDict>> {
        let rows = self.batch.num_rows();
        if row >= rows {
            return Err(PyIndexError::new_err(format!("row {row} of a table with {rows} rows")));
        }
        let values = PyDict::new(py);
        for (field, column) in self.batch.schema().fields().iter().zip(self.batch.columns()) {
            values.set_item(field.name(), cell(py, column, row)?)?;
        }
        Ok(values)
    }

    /// Iterates over the rows.
    fn __iter__(table: Py<Self>) -> Rows {
        Rows { table, next: 0 }
    }

    fn __repr__(&self) -> String {
        format!("Table({} rows; {})", self.batch.num_rows(), self.column_names().join(", "))
    }
}

/// Iterator over the rows of a table.
#[pyclass(module = "carillon._carillon")]
struct Rows {
    table: Py<Table>,
    next: usize,
}

#[pymethods]
impl Rows {
    fn __iter__(rows: Py<Self>) -> Py<Self> {
        rows
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let table = self.table.get();
        if self.next >= table.batch.num_rows() {
            return Ok(None);
        }
        self.next += 1;
        table.row(py, self.next - 1).map(Some)
    }
}

/// Python object of one value.
fn cell<'py>(py: Python<'py>, column: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int32Type, Int64Type};
    if column.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    let any = match column.data_type() {
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into_pyobject(py)?.into_any(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).into_pyobject(py)?.into_any(),
        DataType::Boolean => column.as_boolean().value(row).into_pyobject(py)?.to_owned().into_any(),
        DataType::Dictionary(_, _) => {
            let words = column.as_dictionary::<Int32Type>();
            let key = words.keys().value(row) as usize;
            words.values().as_string::<i32>().value(key).into_pyobject(py)?.into_any()
        }
        _ => column.as_string::<i32>().value(row).into_pyobject(py)?.into_any(),
    };
    Ok(any)
}
