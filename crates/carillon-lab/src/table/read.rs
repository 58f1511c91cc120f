//! Tables read back from Parquet and CSV files.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use ::parquet::basic::Type as PhysicalType;
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::{ByteArray, DataType};
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{FileReader, SerializedFileReader};

use super::{Cell, Column, ColumnKind, Table, TableError};

/// Maximum number of rows that one call of the Parquet reader decodes. It bounds the memory that a file with a false
/// number of rows can reserve.
const MAX_ROWS_PER_READ: usize = 1 << 16;

impl Table {
    /// Reads a Parquet file of plain columns: text, whole numbers of 64 bits, and real numbers, which may be null.
    pub fn read_parquet(path: &Path) -> Result<Table, TableError> {
        let wrong = |source| TableError::Unreadable { path: path.into(), source };
        let file = File::open(path).map_err(|error| wrong(error.into()))?;
        let reader = SerializedFileReader::new(file).map_err(wrong)?;
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let mut columns = Vec::new();
        for field in schema.columns() {
            let kind = match field.physical_type() {
                PhysicalType::BYTE_ARRAY => ColumnKind::Text,
                PhysicalType::INT64 if field.max_def_level() > 0 => ColumnKind::OptionalInteger,
                PhysicalType::INT64 => ColumnKind::Integer,
                PhysicalType::DOUBLE => ColumnKind::Real,
                other => {
                    let what = format!("column `{}` is of type {other}", field.name());
                    return Err(wrong(ParquetError::NYI(what)));
                }
            };
            if field.max_rep_level() > 0 || field.max_def_level() > 1 {
                let what = format!("column `{}` is nested", field.name());
                return Err(wrong(ParquetError::NYI(what)));
            }
            columns.push((field.name().to_owned(), Column::new(kind)));
        }
        for at in 0..reader.num_row_groups() {
            let group = reader.get_row_group(at).map_err(wrong)?;
            for (place, (_, column)) in columns.iter_mut().enumerate() {
                let values = group.get_column_reader(place).map_err(wrong)?;
                column.read(values).map_err(wrong)?;
            }
        }
        let rows = columns.first().map_or(0, |(_, column)| column.len());
        if let Some((name, _)) = columns.iter().find(|(_, column)| column.len() != rows) {
            let what = format!("column `{name}` has another number of rows than the first one");
            return Err(wrong(ParquetError::General(what)));
        }
        Table::from_columns(columns)
    }

    /// Reads a CSV file with these columns, as [`Table::write_csv`] writes it.
    pub fn read_csv(path: &Path, columns: &[(String, ColumnKind)]) -> Result<Table, TableError> {
        let bad = |what: String| TableError::Malformed { path: path.into(), what };
        let mut reader = csv::Reader::from_path(path).map_err(|error| bad(error.to_string()))?;
        let mut table = Table::new(columns.iter().cloned())?;
        let names = reader.headers().map_err(|error| bad(error.to_string()))?;
        if !names.iter().eq(columns.iter().map(|(name, _)| name.as_str())) {
            let expected: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
            return Err(bad(format!("line 1: expected the columns {}", expected.join(","))));
        }
        for record in reader.records() {
            let record = record.map_err(|error| bad(error.to_string()))?;
            let line = record.position().map_or(0, csv::Position::line);
            let cells = columns.iter().zip(&record).map(|((name, kind), text)| {
                parse(*kind, text)
                    .ok_or_else(|| bad(format!("line {line}: {name} is \"{text}\", not a number")))
            });
            let cells = cells.collect::<Result<Vec<_>, _>>()?;
            table.push(cells);
        }
        Ok(table)
    }
}

/// Cell of this kind from its text in CSV; `None` if the text is not of that kind.
fn parse(kind: ColumnKind, text: &str) -> Option<Cell> {
    match kind {
        ColumnKind::Text => Some(text.into()),
        ColumnKind::Integer => text.parse().ok().map(Cell::Integer),
        ColumnKind::Real | ColumnKind::OptionalInteger if text.is_empty() => Some(Cell::MISSING),
        ColumnKind::OptionalInteger => text.parse().ok().map(Cell::Integer),
        ColumnKind::Real => text.parse().ok().map(Cell::Real),
    }
}

impl Column {
    /// Appends the values of a row group.
    fn read(&mut self, reader: ColumnReader) -> Result<(), ParquetError> {
        match (self, reader) {
            (Column::Integer(values), ColumnReader::Int64ColumnReader(reader)) => {
                each_value(reader, |value| values.push(value.unwrap_or_default()))?;
            }
            (Column::OptionalInteger(values), ColumnReader::Int64ColumnReader(reader)) => {
                each_value(reader, |value| values.push(value))?;
            }
            (Column::Real(values), ColumnReader::DoubleColumnReader(reader)) => {
                each_value(reader, |value| values.push(value.unwrap_or(f64::NAN)))?;
            }
            (Column::Text(values), ColumnReader::ByteArrayColumnReader(reader)) => {
                let mut broken = None;
                each_value(reader, |value: Option<ByteArray>| {
                    let value = value.unwrap_or_default();
                    let bytes = if value.is_empty() { &[] } else { value.data() };
                    match str::from_utf8(bytes) {
                        // Equal texts that follow each other, as most do, share their bytes.
                        Ok(text) if values.last().is_some_and(|last| **last == *text) => {
                            values.extend(values.last().cloned());
                        }
                        Ok(text) => values.push(Arc::from(text)),
                        Err(error) => broken = Some(error),
                    }
                })?;
                if let Some(error) = broken {
                    return Err(ParquetError::General(error.to_string()));
                }
            }
            _ => return Err(ParquetError::General("a column changes its type".to_owned())),
        }
        Ok(())
    }
}

/// Passes each value of a column in a row group to `take`; `None` is a null.
fn each_value<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    mut take: impl FnMut(Option<T::T>),
) -> Result<(), ParquetError> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    loop {
        values.clear();
        levels.clear();
        let (records, _, _) = reader.read_records(MAX_ROWS_PER_READ, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Ok(());
        }
        let mut present = values.drain(..);
        if levels.is_empty() {
            // A required column has no levels: every row has a value.
            present.for_each(|value| take(Some(value)));
        } else {
            levels.iter().for_each(|level| take(if *level > 0 { present.next() } else { None }));
        }
    }
}
