//! Tables as Parquet files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as PhysicalType};
use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::types::{ColumnPath, Type};

use super::{Cell, Column, Table, TableError, temporary, write_whole};

impl Table {
    /// Writes the table as a Parquet file with Snappy pages. Missing real numbers are null.
    pub fn write_parquet(&self, path: &Path) -> Result<(), TableError> {
        write_whole(path, |file| self.to_parquet(file)).map_err(|error| in_file(path, error))
    }

    /// Writes what [`Table::write_parquet`] writes.
    pub fn to_parquet(&self, out: &mut (impl Write + Send)) -> Result<(), ParquetError> {
        let mut file = self.parquet(out)?;
        for start in (0..self.rows).step_by(ROWS_PER_GROUP) {
            self.write_group(&mut file, start, self.rows.min(start + ROWS_PER_GROUP))?;
        }
        file.close()?;
        Ok(())
    }

    fn parquet<W: Write + Send>(&self, out: W) -> Result<SerializedFileWriter<W>, ParquetError> {
        let mut properties = WriterProperties::builder()
            .set_created_by(CREATED_BY.into())
            .set_compression(Compression::SNAPPY);
        // Whole numbers count: a dictionary of samples that are numbered takes longer to make than all their values
        // to write.
        let is_whole = |column: &Column| matches!(column, Column::Integer(_) | Column::OptionalInteger(_));
        for (name, _) in self.columns().filter(|(_, column)| is_whole(column)) {
            properties = properties
                .set_column_dictionary_enabled(ColumnPath::from(name), false)
                .set_column_encoding(ColumnPath::from(name), Encoding::DELTA_BINARY_PACKED);
        }
        SerializedFileWriter::new(out, Arc::new(self.schema()?), Arc::new(properties.build()))
    }

    /// Writes rows `start..end` as the next row group.
    fn write_group<W: Write + Send>(
        &self,
        file: &mut SerializedFileWriter<W>,
        start: usize,
        end: usize,
    ) -> Result<(), ParquetError> {
        let mut group = file.next_row_group()?;
        for column in &self.columns {
            column.write(&mut group, start, end)?;
        }
        group.close()?;
        Ok(())
    }

    fn schema(&self) -> Result<Type, ParquetError> {
        let field = |(name, column): (&str, &Column)| {
            let (physical, repetition, logical) = match column {
                Column::Text(_) => {
                    (PhysicalType::BYTE_ARRAY, Repetition::REQUIRED, Some(LogicalType::String))
                }
                Column::Integer(_) => (PhysicalType::INT64, Repetition::REQUIRED, None),
                Column::OptionalInteger(_) => (PhysicalType::INT64, Repetition::OPTIONAL, None),
                Column::Real(_) => (PhysicalType::DOUBLE, Repetition::OPTIONAL, None),
            };
            let field = Type::primitive_type_builder(name, physical)
                .with_repetition(repetition)
                .with_logical_type(logical);
            field.build().map(Arc::new)
        };
        let fields = self.columns().map(field).collect::<Result<Vec<_>, _>>()?;
        Type::group_type_builder("table").with_fields(fields).build()
    }
}

/// A Parquet file that is written row by row: a group of rows is in memory. It has its name once it is whole.
pub(crate) struct ParquetWriter {
    path: PathBuf,
    temporary: PathBuf,
    rows: Table,
    file: Option<SerializedFileWriter<BufWriter<File>>>,
}

impl std::fmt::Debug for ParquetWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ParquetWriter {
    /// A file with the columns of a table without rows.
    pub fn create(path: &Path, columns: Table) -> Result<Self, TableError> {
        let io = |source| TableError::Io { path: path.into(), source };
        let temporary = temporary(path).map_err(io)?;
        let file = BufWriter::new(File::create(&temporary).map_err(io)?);
        let file = columns.parquet(file).map_err(|error| in_file(path, error))?;
        Ok(ParquetWriter { path: path.into(), temporary, rows: columns, file: Some(file) })
    }

    /// Adds a row, as [`Table::push`] does.
    pub fn push(&mut self, row: impl IntoIterator<Item = Cell>) -> Result<(), TableError> {
        self.rows.push(row);
        if self.rows.len() == ROWS_PER_GROUP { self.write_group() } else { Ok(()) }
    }

    /// Completes the file.
    pub fn finish(mut self) -> Result<(), TableError> {
        if !self.rows.is_empty() {
            self.write_group()?;
        }
        let file = self.file.take().expect("a file is completed once");
        let buffer = file.into_inner().map_err(|error| in_file(&self.path, error))?;
        let io = |source| TableError::Io { path: self.path.clone(), source };
        buffer.into_inner().map_err(io::IntoInnerError::into_error).map_err(io)?;
        fs::rename(&self.temporary, &self.path).map_err(io)
    }

    fn write_group(&mut self) -> Result<(), TableError> {
        let file = self.file.as_mut().expect("a file is open until it is completed");
        let written = self.rows.write_group(file, 0, self.rows.len());
        self.rows.clear();
        written.map_err(|error| in_file(&self.path, error))
    }
}

impl Drop for ParquetWriter {
    fn drop(&mut self) {
        // Once it has its name there is none of this.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Converts an error of the Parquet writer. Failures of the file below arrive wrapped; unwrapped they read like the
/// errors of CSV.
fn in_file(path: &Path, error: ParquetError) -> TableError {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(source) => TableError::Io { path: path.into(), source: *source },
            Err(error) => TableError::Parquet { path: path.into(), source: ParquetError::External(error) },
        },
        source => TableError::Parquet { path: path.into(), source },
    }
}

impl Column {
    /// Writes rows `start..end` as the next column of a row group.
    fn write<W: Write + Send>(
        &self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        start: usize,
        end: usize,
    ) -> Result<(), ParquetError> {
        let mut writer = group.next_column()?.expect("the schema has a field for each column");
        match self {
            Column::Text(values) => {
                let writer = writer.typed::<ByteArrayType>();
                for values in values[start..end].chunks(ROWS_PER_BATCH) {
                    // Equal ones that follow each other, as most do, share their bytes.
                    let mut arrays: Vec<ByteArray> = Vec::with_capacity(values.len());
                    for (at, text) in values.iter().enumerate() {
                        let same = at > 0 && values[at - 1] == *text;
                        arrays.push(if same { arrays[at - 1].clone() } else { (&**text).into() });
                    }
                    writer.write_batch(&arrays, None, None)?;
                }
            }
            Column::Integer(values) => {
                writer.typed::<Int64Type>().write_batch(&values[start..end], None, None)?;
            }
            Column::OptionalInteger(values) => {
                let writer = writer.typed::<Int64Type>();
                for values in values[start..end].chunks(ROWS_PER_BATCH) {
                    let present: Vec<i64> = values.iter().copied().flatten().collect();
                    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
                    writer.write_batch(&present, Some(&levels), None)?;
                }
            }
            Column::Real(values) => {
                let writer = writer.typed::<DoubleType>();
                for values in values[start..end].chunks(ROWS_PER_BATCH) {
                    let present: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
                    let levels: Vec<i16> = values.iter().map(|value| i16::from(!value.is_nan())).collect();
                    writer.write_batch(&present, Some(&levels), None)?;
                }
            }
        }
        writer.close()
    }
}

const CREATED_BY: &str = concat!("carillon version ", env!("CARGO_PKG_VERSION"));

/// Bounds what a reader must hold of a table of many samples.
const ROWS_PER_GROUP: usize = 1 << 17;

/// Bounds the copies made while writing.
const ROWS_PER_BATCH: usize = 1 << 14;
