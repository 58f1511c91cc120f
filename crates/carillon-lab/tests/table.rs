//! Tables as files: a reader finds exactly the written values, and equal tables give equal bytes.

use std::fs;
use std::io;
use std::path::Path;

use carillon_lab::table::{Cell, Column, ColumnKind, Table, TableError};
use parquet::basic::Compression;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use proptest::prelude::*;

fn example() -> Table {
    let columns =
        [("protocol", ColumnKind::Text), ("receivers", ColumnKind::Integer), ("mean", ColumnKind::Real)];
    let mut table = Table::new(columns).unwrap();
    table.push(["msaw".into(), 10.into(), 0.1.into()]);
    table.push(["a \"quoted\", name\nof two lines".into(), i64::MIN.into(), Cell::MISSING]);
    table.push(["Σ".into(), Cell::count(u64::MAX), f64::INFINITY.into()]);
    table.push(["".into(), 0.into(), 7.into()]);
    table
}

/// The rows of a Parquet file; `None` is null.
fn read_parquet(path: &Path) -> Vec<Vec<Option<Cell>>> {
    let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| row.unwrap().get_column_iter().map(|(_, field)| cell(field)).collect()).collect()
}

fn cell(field: &Field) -> Option<Cell> {
    match field {
        Field::Null => None,
        Field::Str(value) => Some(Cell::from(value.clone())),
        Field::Long(value) => Some(Cell::Integer(*value)),
        Field::Double(value) => Some(Cell::Real(*value)),
        other => panic!("a table has no {other:?}"),
    }
}

fn expected(table: &Table) -> Vec<Vec<Option<Cell>>> {
    let present = |cell: Cell| (!matches!(cell, Cell::Real(value) if value.is_nan())).then_some(cell);
    (0..table.len()).map(|row| table.row(row).map(present).collect()).collect()
}

#[test]
fn csv_quotes_what_needs_it_and_leaves_missing_values_empty() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("summary.csv");
    example().write_csv(&path).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let expected = "protocol,receivers,mean\n\
        msaw,10,0.1\n\
        \"a \"\"quoted\"\", name\nof two lines\",-9223372036854775808,\n\
        Σ,9223372036854775807,inf\n\
        ,0,7\n";
    assert_eq!(text, expected);
}

#[test]
fn a_single_missing_value_is_still_a_line() {
    let mut table = Table::new([("x", ColumnKind::Real)]).unwrap();
    table.push([Cell::MISSING]);
    table.push([1.5.into()]);
    let mut csv = Vec::new();
    table.to_csv(&mut csv).unwrap();
    assert_eq!(csv, b"x\n\"\"\n1.5\n");
}

#[test]
fn parquet_reads_back_as_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("summary.parquet");
    example().write_parquet(&path).unwrap();
    assert_eq!(read_parquet(&path), expected(&example()));

    let reader = SerializedFileReader::new(fs::File::open(&path).unwrap()).unwrap();
    let metadata = reader.metadata();
    assert_eq!(
        metadata.file_metadata().created_by(),
        Some(concat!("carillon version ", env!("CARGO_PKG_VERSION")))
    );
    assert_eq!(metadata.row_group(0).column(0).compression(), Compression::SNAPPY);
    let names: Vec<&str> =
        metadata.file_metadata().schema_descr().columns().iter().map(|column| column.name()).collect();
    assert_eq!(names, ["protocol", "receivers", "mean"]);
}

#[test]
fn the_numbers_of_samples_take_hardly_any_room() {
    let rows = 100_000;
    let columns =
        [("sample", Column::Integer((0..rows).collect())), ("value", Column::Real(vec![0.5; rows as usize]))];
    let mut file = Vec::new();
    Table::from_columns(columns).unwrap().to_parquet(&mut file).unwrap();
    assert!(file.len() < 10_000, "{} bytes", file.len());
}

#[test]
fn a_table_without_rows_keeps_its_columns() {
    let folder = tempfile::tempdir().unwrap();
    let table = Table::new([("a", ColumnKind::Text), ("b", ColumnKind::Real)]).unwrap();
    let path = folder.path().join("empty.parquet");
    table.write_parquet(&path).unwrap();
    assert!(read_parquet(&path).is_empty());
    let reader = SerializedFileReader::new(fs::File::open(&path).unwrap()).unwrap();
    assert_eq!(reader.metadata().file_metadata().schema_descr().num_columns(), 2);
    let mut csv = Vec::new();
    table.to_csv(&mut csv).unwrap();
    assert_eq!(csv, b"a,b\n");
}

#[test]
fn more_rows_than_one_group_holds_come_back_in_order() {
    if !carillon_testkit::is_long_or_skipped() {
        return;
    }
    let rows = (1 << 20) + 12_345;
    let real = |row: i64| if row % 3 == 0 { f64::NAN } else { row as f64 / 7.0 };
    let table = Table::from_columns([
        ("serial", Column::Integer((0..rows).collect())),
        ("text", Column::Text((0..rows).map(|row| (row % 1000).to_string().into()).collect())),
        ("value", Column::Real((0..rows).map(real).collect())),
    ])
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples.parquet");
    table.write_parquet(&path).unwrap();
    let reader = SerializedFileReader::new(fs::File::open(&path).unwrap()).unwrap();
    assert!(reader.num_row_groups() > 1);
    let mut serial = 0;
    for row in reader.get_row_iter(None).unwrap() {
        let row: Vec<_> = row.unwrap().get_column_iter().map(|(_, field)| cell(field)).collect();
        let value = real(serial);
        assert_eq!(row[0], Some(Cell::Integer(serial)));
        assert_eq!(row[1], Some(Cell::from((serial % 1000).to_string())));
        assert_eq!(row[2], (!value.is_nan()).then_some(Cell::Real(value)));
        serial += 1;
    }
    assert_eq!(serial, rows);
}

#[test]
fn same_table_gives_same_bytes_and_replaces_older_file() {
    let folder = tempfile::tempdir().unwrap();
    let (csv, parquet) = (folder.path().join("t.csv"), folder.path().join("t.parquet"));
    let write = || {
        example().write_csv(&csv).unwrap();
        example().write_parquet(&parquet).unwrap();
        (fs::read(&csv).unwrap(), fs::read(&parquet).unwrap())
    };
    assert_eq!(write(), write());
    let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "no temporary files stay: {names:?}");
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing").join("t.csv");
    for result in [example().write_csv(&path), example().write_parquet(&path)] {
        let Err(TableError::Io { path: named, source }) = result else { panic!("{result:?}") };
        assert_eq!(named, path);
        assert_eq!(source.kind(), io::ErrorKind::NotFound);
    }

    // A folder of that name is in the way only at the end; the temporary file goes again.
    let folder_in_the_way = folder.path().join("taken");
    fs::create_dir(&folder_in_the_way).unwrap();
    let error = example().write_csv(&folder_in_the_way).unwrap_err();
    assert!(error.to_string().contains("taken"), "{error}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}

#[test]
fn failures_in_the_middle_of_parquet_are_errors_of_the_file() {
    struct Full;
    impl io::Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    assert!(example().to_parquet(&mut Full).is_err());
    assert_eq!(example().to_csv(&mut Full).unwrap_err().kind(), io::ErrorKind::StorageFull);
}

#[test]
fn two_columns_of_one_name_are_refused() {
    let error = Table::new([("mean", ColumnKind::Real), ("mean", ColumnKind::Integer)]).unwrap_err();
    assert_eq!(error.to_string(), "two columns of a table are named `mean`");
}

#[test]
#[should_panic(expected = "column `receivers` holds Integer")]
fn a_cell_of_another_kind_is_a_mistake_of_the_caller() {
    example().push(["msaw".into(), 0.5.into(), 0.5.into()]);
}

#[test]
#[should_panic(expected = "before its column `mean`")]
fn a_short_row_is_a_mistake_of_the_caller() {
    example().push(["msaw".into(), 5.into()]);
}

#[test]
fn tables_of_the_same_columns_join() {
    let mut table = example();
    table.append(example());
    assert_eq!(table.len(), 8);
    assert_eq!(expected(&table)[4..], expected(&example()));
    assert_eq!(table.column("receivers"), Some(&Column::Integer([10, i64::MIN, i64::MAX, 0].repeat(2))));
    assert_eq!(table.column("absent"), None);
}

proptest! {
    #[test]
    fn any_table_survives_both_formats(
        rows in prop::collection::vec(
            (any::<String>(), any::<i64>(), prop::num::f64::ANY, any::<Option<i64>>()),
            0..50,
        )
    ) {
        let columns = [
            ("t", ColumnKind::Text),
            ("i", ColumnKind::Integer),
            ("r", ColumnKind::Real),
            ("o", ColumnKind::OptionalInteger),
        ];
        let mut table = Table::new(columns).unwrap();
        for (text, integer, real, optional) in &rows {
            let optional = optional.map_or(Cell::MISSING, Cell::Integer);
            table.push([text.as_str().into(), (*integer).into(), (*real).into(), optional]);
        }
        let optional: Vec<Option<i64>> = rows.iter().map(|(.., optional)| *optional).collect();
        prop_assert_eq!(table.column("o"), Some(&Column::OptionalInteger(optional)));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        table.write_parquet(&path).unwrap();
        prop_assert_eq!(read_parquet(&path), expected(&table));
        prop_assert_eq!(expected(&Table::read_parquet(&path).unwrap()), expected(&table));

        let path = folder.path().join("t.csv");
        table.write_csv(&path).unwrap();
        let kinds = columns.map(|(name, kind)| (name.to_owned(), kind));
        prop_assert_eq!(expected(&Table::read_csv(&path, &kinds).unwrap()), expected(&table));

        let mut csv = Vec::new();
        table.to_csv(&mut csv).unwrap();
        let mut lines = csv::Reader::from_reader(&csv[..]);
        let records: Vec<_> = lines.records().map(|record| record.unwrap()).collect();
        prop_assert_eq!(records.len(), rows.len());
        for (record, (text, integer, real, optional)) in records.iter().zip(&rows) {
            prop_assert_eq!(&record[0], text);
            prop_assert_eq!(record[1].parse::<i64>().unwrap(), *integer);
            prop_assert_eq!(record[3].parse::<i64>().ok(), *optional);
            if real.is_nan() {
                prop_assert_eq!(&record[2], "");
            } else {
                prop_assert_eq!(record[2].parse::<f64>().unwrap().to_bits(), real.to_bits());
            }
        }
    }
}
