//! Growing Arrow columns of a trace.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringDictionaryBuilder,
};
use arrow_array::types::Int32Type;
use arrow_schema::ArrowError;
use carillon_core::{NodeId, Time};

use crate::table::Table;

/// Columns of the events so far. A column begins with the first event that has its field.
pub struct Columns {
    rows: usize,
    time: Int64Builder,
    node: Int64Builder,
    fields: Vec<(&'static str, Field)>,
}

/// Column of one field. A row without the field is null.
pub enum Field {
    Number(Int64Builder),
    Real(Float64Builder),
    Flag(BooleanBuilder),
    /// Words repeat, so a row holds the index of its word.
    Word(StringDictionaryBuilder<Int32Type>),
}

/// Value of a field.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    Number(i64),
    Real(f64),
    Flag(bool),
    Word(&'a str),
}

impl Default for Columns {
    fn default() -> Self {
        Columns { rows: 0, time: Int64Builder::new(), node: Int64Builder::new(), fields: Vec::new() }
    }
}

impl Columns {
    /// Begins the row of an event.
    pub fn begin_row(&mut self, time: Time, node: NodeId) {
        self.time.append_value(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX));
        self.node.append_value(node.0.into());
        self.rows += 1;
    }

    /// Sets a field of the newest row.
    pub fn set(&mut self, name: &'static str, value: Value<'_>) {
        let place = self.fields.iter().position(|(known, _)| std::ptr::eq(*known, name) || *known == name);
        let place = place.unwrap_or_else(|| {
            self.fields.push((name, Field::of(value)));
            self.fields.len() - 1
        });
        let field = &mut self.fields[place].1;
        field.fill(self.rows - 1);
        field.append(value);
    }

    /// Returns the table of all events.
    pub fn finish(mut self) -> Result<Table, ArrowError> {
        let mut columns: Vec<(String, ArrayRef)> = vec![
            ("time_ns".to_owned(), Arc::new(self.time.finish())),
            ("node".to_owned(), Arc::new(self.node.finish())),
        ];
        for (name, mut field) in self.fields {
            field.fill(self.rows);
            columns.push((name.to_owned(), field.finish()));
        }
        Table::from_arrays(columns)
    }
}

impl Field {
    fn of(value: Value<'_>) -> Self {
        match value {
            Value::Number(_) => Field::Number(Int64Builder::new()),
            Value::Real(_) => Field::Real(Float64Builder::new()),
            Value::Flag(_) => Field::Flag(BooleanBuilder::new()),
            Value::Word(_) => Field::Word(StringDictionaryBuilder::new()),
        }
    }

    /// Adds nulls up to this number of rows.
    fn fill(&mut self, rows: usize) {
        match self {
            Field::Number(column) => column.append_nulls(rows - column.len()),
            Field::Real(column) => column.append_nulls(rows - column.len()),
            Field::Flag(column) => column.append_nulls(rows - column.len()),
            Field::Word(column) => column.append_nulls(rows - column.len()),
        }
    }

    /// Appends a value. A field has one type in all events; a value of another type becomes null.
    fn append(&mut self, value: Value<'_>) {
        match (self, value) {
            (Field::Number(column), Value::Number(value)) => column.append_value(value),
            (Field::Real(column), Value::Real(value)) => column.append_value(value),
            (Field::Flag(column), Value::Flag(value)) => column.append_value(value),
            (Field::Word(column), Value::Word(value)) => column.append_value(value),
            (field, _) => {
                debug_assert!(false, "a field of events has two types");
                let rows = field.len();
                field.fill(rows + 1);
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Field::Number(column) => column.len(),
            Field::Real(column) => column.len(),
            Field::Flag(column) => column.len(),
            Field::Word(column) => column.len(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Field::Number(column) => Arc::new(column.finish()),
            Field::Real(column) => Arc::new(column.finish()),
            Field::Flag(column) => Arc::new(column.finish()),
            Field::Word(column) => Arc::new(column.finish()),
        }
    }
}
