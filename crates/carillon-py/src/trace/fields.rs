//! Serializer that writes the fields of an event into columns.

use std::fmt;

use carillon_core::Event;
use serde::ser::{self, Impossible, Serialize, SerializeStruct, Serializer};

use super::columns::{Columns, Value};

/// Sets the fields of an event in the newest row.
pub fn set_fields(columns: &mut Columns, event: &Event) {
    event.serialize(Row { columns }).expect("events are structs of plain values");
}

/// Newest row of the columns: accepts the struct that an event is.
struct Row<'a> {
    columns: &'a mut Columns,
}

/// A field of the newest row: accepts one plain value, or nothing.
struct Cell<'a> {
    columns: &'a mut Columns,
    name: &'static str,
}

/// Event with a form that has no column.
#[derive(Debug)]
struct NoColumn(String);

impl fmt::Display for NoColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoColumn {}

impl ser::Error for NoColumn {
    fn custom<T: fmt::Display>(what: T) -> Self {
        NoColumn(what.to_string())
    }
}

impl SerializeStruct for Row<'_> {
    type Ok = ();
    type Error = NoColumn;

    fn serialize_field<T: ?Sized + Serialize>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), NoColumn> {
        // Details of a protocol are a list of pairs; they stay together as one text.
        if name == "fields" {
            let text = serde_json::to_string(value).map_err(ser::Error::custom)?;
            self.columns.set(name, Value::Word(&text));
            return Ok(());
        }
        value.serialize(Cell { columns: self.columns, name })
    }

    fn end(self) -> Result<(), NoColumn> {
        Ok(())
    }
}

/// Forms that have no column, all with the same answer.
macro_rules! refuse {
    ($($method:ident($($argument:ty),*) -> $ok:ty;)*) => {
        $(fn $method(self, $(_: $argument),*) -> Result<$ok, NoColumn> {
            Err(NoColumn(concat!(stringify!($method), " has no column").to_owned()))
        })*
    };
}

/// Wrappers that count as their contents.
macro_rules! pass_through {
    () => {
        fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Result<(), NoColumn> {
            value.serialize(self)
        }

        fn serialize_newtype_struct<T: ?Sized + Serialize>(
            self,
            _: &'static str,
            value: &T,
        ) -> Result<(), NoColumn> {
            value.serialize(self)
        }

        fn serialize_newtype_variant<T: ?Sized + Serialize>(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            value: &T,
        ) -> Result<(), NoColumn> {
            value.serialize(self)
        }
    };
}

/// Conversions of whole numbers.
macro_rules! numbers {
    ($($method:ident: $kind:ty),*) => {
        $(fn $method(self, value: $kind) -> Result<(), NoColumn> {
            let number = i64::try_from(value).unwrap_or(i64::MAX);
            self.columns.set(self.name, Value::Number(number));
            Ok(())
        })*
    };
}

impl Serializer for Cell<'_> {
    type Ok = ();
    type Error = NoColumn;
    type SerializeSeq = Impossible<(), NoColumn>;
    type SerializeTuple = Impossible<(), NoColumn>;
    type SerializeTupleStruct = Impossible<(), NoColumn>;
    type SerializeTupleVariant = Impossible<(), NoColumn>;
    type SerializeMap = Impossible<(), NoColumn>;
    type SerializeStruct = Impossible<(), NoColumn>;
    type SerializeStructVariant = Impossible<(), NoColumn>;

    numbers!(serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64);
    numbers!(serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64);

    fn serialize_bool(self, value: bool) -> Result<(), NoColumn> {
        self.columns.set(self.name, Value::Flag(value));
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), NoColumn> {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result<(), NoColumn> {
        self.columns.set(self.name, Value::Real(value));
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Result<(), NoColumn> {
        self.columns.set(self.name, Value::Word(value));
        Ok(())
    }

    fn serialize_none(self) -> Result<(), NoColumn> {
        Ok(())
    }

    fn serialize_unit(self) -> Result<(), NoColumn> {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), NoColumn> {
        self.serialize_str(variant)
    }

    pass_through!();

    refuse! {
        serialize_char(char) -> ();
        serialize_bytes(&[u8]) -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_seq(Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_map(Option<usize>) -> Self::SerializeMap;
        serialize_struct(&'static str, usize) -> Self::SerializeStruct;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
    }
}

impl<'a> Serializer for Row<'a> {
    type Ok = ();
    type Error = NoColumn;
    type SerializeSeq = Impossible<(), NoColumn>;
    type SerializeTuple = Impossible<(), NoColumn>;
    type SerializeTupleStruct = Impossible<(), NoColumn>;
    type SerializeTupleVariant = Impossible<(), NoColumn>;
    type SerializeMap = Impossible<(), NoColumn>;
    type SerializeStruct = Row<'a>;
    type SerializeStructVariant = Impossible<(), NoColumn>;

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Row<'a>, NoColumn> {
        Ok(self)
    }

    pass_through!();

    refuse! {
        serialize_bool(bool) -> ();
        serialize_i8(i8) -> ();
        serialize_i16(i16) -> ();
        serialize_i32(i32) -> ();
        serialize_i64(i64) -> ();
        serialize_u8(u8) -> ();
        serialize_u16(u16) -> ();
        serialize_u32(u32) -> ();
        serialize_u64(u64) -> ();
        serialize_f32(f32) -> ();
        serialize_f64(f64) -> ();
        serialize_char(char) -> ();
        serialize_str(&str) -> ();
        serialize_bytes(&[u8]) -> ();
        serialize_none() -> ();
        serialize_unit() -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_unit_variant(&'static str, u32, &'static str) -> ();
        serialize_seq(Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_map(Option<usize>) -> Self::SerializeMap;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
    }
}
