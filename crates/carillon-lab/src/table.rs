//! Tables of results: named, typed columns, written as CSV and as Parquet.
//!
//! The same table gives the same bytes every time: nothing of the clock, the machine, or the
//! order of a hash enters a file. A file appears under its name only when it is whole, so a run
//! that is stopped leaves the older table or none, never half of one.

mod parquet;
mod read;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::parquet::errors::ParquetError;
use thiserror::Error;

pub(crate) use self::parquet::ParquetWriter;

/// Named columns of equal length.
///
/// ```
/// use carillon_lab::table::{ColumnKind, Table};
///
/// let mut table = Table::new([
///     ("protocol", ColumnKind::Text),
///     ("n", ColumnKind::Integer),
///     ("mean", ColumnKind::Real),
/// ])?;
/// table.push(["msaw".into(), 20.into(), 0.125.into()]);
/// let mut csv = Vec::new();
/// table.to_csv(&mut csv)?;
/// assert_eq!(csv, b"protocol,n,mean\nmsaw,20,0.125\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    names: Vec<String>,
    columns: Vec<Column>,
    rows: usize,
}

/// The values of one column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Text, which many rows share: of a run's samples all say the same.
    Text(Vec<Arc<str>>),
    /// Whole numbers.
    Integer(Vec<i64>),
    /// Whole numbers, some of which may be missing: empty in CSV, null in Parquet.
    OptionalInteger(Vec<Option<i64>>),
    /// Real numbers. NaN is a missing value: empty in CSV, null in Parquet.
    Real(Vec<f64>),
}

/// Type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Text.
    Text,
    /// Whole numbers.
    Integer,
    /// Whole numbers, some of which may be missing.
    OptionalInteger,
    /// Real numbers, some of which may be missing.
    Real,
}

/// Value of one column in one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text.
    Text(Arc<str>),
    /// A whole number.
    Integer(i64),
    /// A real number; NaN is a missing value.
    Real(f64),
}

/// Why there is no table, or no file of it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TableError {
    /// Two columns have the same name.
    #[error("two columns of a table are named `{name}`")]
    DuplicateColumn {
        /// The name.
        name: String,
    },
    /// The file could not be written.
    #[error("cannot write the table {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The file could not be read as Parquet.
    #[error("cannot read the table {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: ParquetError,
    },
    /// The file has something else than the table.
    #[error("cannot read the table {}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Description of the error, with its line.
        what: String,
    },
    /// The table could not be encoded as Parquet.
    #[error("cannot write the table {} as Parquet: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: ParquetError,
    },
}

impl Table {
    /// A table without rows. Fails if two columns have the same name, which a swept key that is
    /// also the name of a fixed column brings about.
    pub fn new<N: Into<String>>(
        columns: impl IntoIterator<Item = (N, ColumnKind)>,
    ) -> Result<Table, TableError> {
        Table::from_columns(columns.into_iter().map(|(name, kind)| (name, Column::new(kind))))
    }

    /// A table of whole columns. Fails if two have the same name.
    ///
    /// # Panics
    ///
    /// Panics if they are not all of the same length.
    pub fn from_columns<N: Into<String>>(
        columns: impl IntoIterator<Item = (N, Column)>,
    ) -> Result<Table, TableError> {
        let (names, columns): (Vec<String>, Vec<Column>) =
            columns.into_iter().map(|(name, column)| (name.into(), column)).unzip();
        let mut seen = BTreeSet::new();
        if let Some(name) = names.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(TableError::DuplicateColumn { name: name.clone() });
        }
        let rows = columns.first().map_or(0, Column::len);
        for (name, column) in names.iter().zip(&columns) {
            assert_eq!(column.len(), rows, "the columns of a table are of equal length; `{name}` is not");
        }
        Ok(Table { names, columns, rows })
    }

    /// Adds a row: one cell for each column, in order. A whole number is welcome in a column of
    /// real numbers.
    ///
    /// # Panics
    ///
    /// Panics if the row has another number of cells than the table has columns, or a cell is not of its
    /// column's kind.
    pub fn push(&mut self, row: impl IntoIterator<Item = Cell>) {
        let mut cells = row.into_iter();
        for (name, column) in self.names.iter().zip(&mut self.columns) {
            let Some(cell) = cells.next() else { panic!("a row ends before its column `{name}`") };
            column.push(name, cell);
        }
        assert!(cells.next().is_none(), "a row has more cells than its table has columns");
        self.rows += 1;
    }

    /// Adds the rows of another table with the same columns.
    ///
    /// # Panics
    ///
    /// Panics if the columns differ in name or kind.
    pub fn append(&mut self, other: Table) {
        assert_eq!(self.names, other.names, "tables that are joined have the same columns");
        for (name, (column, more)) in self.names.iter().zip(self.columns.iter_mut().zip(other.columns)) {
            match (column, more) {
                (Column::Text(column), Column::Text(mut more)) => column.append(&mut more),
                (Column::Integer(column), Column::Integer(mut more)) => column.append(&mut more),
                (Column::OptionalInteger(column), Column::OptionalInteger(mut more)) => {
                    column.append(&mut more);
                }
                (Column::Real(column), Column::Real(mut more)) => column.append(&mut more),
                (column, more) => {
                    panic!(
                        "column `{name}` holds {:?} in one table, {:?} in another",
                        column.kind(),
                        more.kind()
                    )
                }
            }
        }
        self.rows += other.rows;
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The columns in order.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &Column)> {
        self.names.iter().map(String::as_str).zip(&self.columns)
    }

    /// Takes the table apart into its columns, in order.
    pub fn into_columns(self) -> impl Iterator<Item = (String, Column)> {
        self.names.into_iter().zip(self.columns)
    }

    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns().find_map(|(other, column)| (other == name).then_some(column))
    }

    /// The cells of one row, in the order of the columns.
    ///
    /// # Panics
    ///
    /// Panics if there is no such row.
    pub fn row(&self, row: usize) -> impl Iterator<Item = Cell> + '_ {
        self.columns.iter().map(move |column| match column {
            Column::Text(values) => Cell::Text(values[row].clone()),
            Column::Integer(values) => Cell::Integer(values[row]),
            Column::OptionalInteger(values) => values[row].map_or(Cell::MISSING, Cell::Integer),
            Column::Real(values) => Cell::Real(values[row]),
        })
    }

    /// Writes the table as a CSV file: a line of names, then a line for each row. Real numbers
    /// take the shortest form that reads back equal; missing ones are empty.
    pub fn write_csv(&self, path: &Path) -> Result<(), TableError> {
        write_whole(path, |file| self.to_csv(file))
            .map_err(|source| TableError::Io { path: path.into(), source })
    }

    /// Writes what [`Table::write_csv`] writes.
    pub fn to_csv(&self, out: &mut impl Write) -> io::Result<()> {
        self.append_csv(out, true)
    }

    /// Writes the rows as lines of CSV, preceded by the line of column names if `names` is set.
    pub(crate) fn append_csv(&self, out: &mut impl Write, names: bool) -> io::Result<()> {
        let mut lines = csv::Writer::from_writer(out);
        if names {
            lines.write_record(&self.names)?;
        }
        let mut number = String::new();
        for row in 0..self.rows {
            for column in &self.columns {
                number.clear();
                match column {
                    Column::Text(values) => {
                        lines.write_field(&*values[row])?;
                        continue;
                    }
                    Column::Integer(values) => number.push_str(&values[row].to_string()),
                    Column::OptionalInteger(values) => {
                        number.extend(values[row].map(|value| value.to_string()));
                    }
                    Column::Real(values) if values[row].is_nan() => {}
                    Column::Real(values) => number.push_str(&values[row].to_string()),
                }
                lines.write_field(&number)?;
            }
            lines.write_record(None::<&[u8]>)?;
        }
        lines.flush()
    }

    fn clear(&mut self) {
        self.columns.iter_mut().for_each(|column| *column = Column::new(column.kind()));
        self.rows = 0;
    }
}

impl Column {
    /// A column without values.
    pub fn new(kind: ColumnKind) -> Column {
        match kind {
            ColumnKind::Text => Column::Text(Vec::new()),
            ColumnKind::Integer => Column::Integer(Vec::new()),
            ColumnKind::OptionalInteger => Column::OptionalInteger(Vec::new()),
            ColumnKind::Real => Column::Real(Vec::new()),
        }
    }

    /// Type of the values.
    pub fn kind(&self) -> ColumnKind {
        match self {
            Column::Text(_) => ColumnKind::Text,
            Column::Integer(_) => ColumnKind::Integer,
            Column::OptionalInteger(_) => ColumnKind::OptionalInteger,
            Column::Real(_) => ColumnKind::Real,
        }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        match self {
            Column::Text(values) => values.len(),
            Column::Integer(values) => values.len(),
            Column::OptionalInteger(values) => values.len(),
            Column::Real(values) => values.len(),
        }
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn push(&mut self, name: &str, cell: Cell) {
        match (self, cell) {
            (Column::Text(values), Cell::Text(value)) => values.push(value),
            (Column::Integer(values), Cell::Integer(value)) => values.push(value),
            (Column::OptionalInteger(values), Cell::Integer(value)) => values.push(Some(value)),
            (Column::OptionalInteger(values), Cell::Real(value)) if value.is_nan() => values.push(None),
            (Column::Real(values), Cell::Real(value)) => values.push(value),
            (Column::Real(values), Cell::Integer(value)) => values.push(value as f64),
            (column, cell) => panic!("column `{name}` holds {:?}, not {cell:?}", column.kind()),
        }
    }
}

impl Cell {
    /// A missing value of a column of real numbers or of optional whole numbers.
    pub const MISSING: Cell = Cell::Real(f64::NAN);

    /// A count. One above `i64::MAX`, which no run reaches, is written as `i64::MAX`.
    pub fn count(count: u64) -> Cell {
        Cell::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Cell {
        Cell::Text(value.into())
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Cell {
        Cell::Text(value.into())
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Cell {
        Cell::Integer(value)
    }
}

impl From<i32> for Cell {
    fn from(value: i32) -> Cell {
        Cell::Integer(value.into())
    }
}

impl From<u32> for Cell {
    fn from(value: u32) -> Cell {
        Cell::Integer(value.into())
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Cell {
        Cell::Real(value)
    }
}

/// A real number that may be missing.
impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Cell {
        value.map_or(Cell::MISSING, Cell::Real)
    }
}

/// Writes a file under a temporary name beside its own, then gives it its own.
fn write_whole<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    let temporary = temporary(path)?;
    let written = (|| {
        let mut file = BufWriter::new(File::create(&temporary)?);
        write(&mut file)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(fs::rename(&temporary, path)?)
    })();
    if written.is_err() {
        // The error that counts is the first; a temporary file that cannot go stays.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Unique temporary name beside a file, not in use by another process.
fn temporary(path: &Path) -> io::Result<PathBuf> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"));
    };
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}-{serial}.tmp", process::id()));
    Ok(path.with_file_name(temporary))
}
