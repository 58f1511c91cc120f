//! Tables of a recording, as columns: events, changes of states, and timers.

use std::io::{self, Write};

use carillon_core::{MessageId, Time};

/// Value of a 32-bit column of an event without that field.
pub(super) const NO_NUMBER: u32 = u32::MAX;
/// Value of `text` of an event without a text.
pub(super) const NO_TEXT: u16 = u16::MAX;
/// Value of `packet` of an event without a packet.
pub(super) const NO_PACKET: u8 = u8::MAX;

/// Number of a message; larger ones than the column holds are left out.
pub(super) fn number(message: u64) -> u32 {
    u32::try_from(message).unwrap_or(NO_NUMBER)
}

/// Time in nanoseconds, exact for 104 days.
pub(super) fn nanos(time: Time) -> f64 {
    time.as_nanos() as f64
}

/// Values of one event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    pub time: f64,
    pub node: u32,
    pub event: u8,
    pub packet: u8,
    pub link: i32,
    pub message: u32,
    pub bytes: u32,
    pub other: u32,
    pub text: u16,
    pub start: f64,
    pub arrival: f64,
}

impl Row {
    /// Event without further fields.
    pub fn new(time: Time, node: u32) -> Self {
        Row {
            time: nanos(time),
            node,
            event: 0,
            packet: NO_PACKET,
            link: -1,
            message: NO_NUMBER,
            bytes: 0,
            other: NO_NUMBER,
            text: NO_TEXT,
            start: f64::NAN,
            arrival: f64::NAN,
        }
    }

    /// Sets the message.
    pub fn about(&mut self, message: MessageId) {
        self.message = number(message.0);
    }
}

/// Columns of equal length.
pub(super) trait Table {
    /// Values of one row.
    type Row;

    /// Appends a row.
    fn push(&mut self, row: &Self::Row);

    /// Number of rows.
    fn len(&self) -> usize;

    /// Names, types and values of the columns.
    fn sections(&self) -> Vec<Section<'_>>;

    /// Copy of the columns in another order of rows.
    fn reordered(&self, order: &[usize]) -> Self;
}

/// Declares a table with its columns in the order of the file, with the names of their types.
macro_rules! table {
    ($(#[$doc:meta])* $table:ident of $row:ident { $($name:ident: $value:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub(super) struct $table {
            $(pub $name: Vec<$value>,)*
        }

        impl Table for $table {
            type Row = $row;

            fn push(&mut self, row: &$row) {
                $(self.$name.push(row.$name);)*
            }

            fn len(&self) -> usize {
                [$(self.$name.len()),*][0]
            }

            fn sections(&self) -> Vec<Section<'_>> {
                vec![$(Section {
                    name: stringify!($name),
                    value: stringify!($value),
                    bytes: self.$name.len() * size_of::<$value>(),
                    write: Box::new(|out| write_values(&self.$name, |value| value.to_le_bytes(), out)),
                }),*]
            }

            fn reordered(&self, order: &[usize]) -> Self {
                $table { $($name: order.iter().map(|&at| self.$name[at]).collect()),* }
            }
        }
    };
}

table! {
    /// Events.
    Columns of Row {
        time: f64,
        start: f64,
        arrival: f64,
        node: u32,
        link: i32,
        message: u32,
        bytes: u32,
        other: u32,
        text: u16,
        event: u8,
        packet: u8,
    }
}

table! {
    /// Changes of states, in the order of time.
    States of StateRow {
        time: f64,
        node: u32,
        about: u32,
        machine: u16,
        state: u16,
    }
}

/// Change of a state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StateRow {
    pub time: f64,
    pub node: u32,
    /// Number of the instance.
    pub about: u32,
    /// Owner of the states, as an index of the texts.
    pub machine: u16,
    /// Name of the state, as an index of the texts; [`NO_TEXT`] if the instance has no state any more.
    pub state: u16,
}

table! {
    /// Timers, in the order of `since`.
    Timers of TimerRow {
        since: f64,
        deadline: f64,
        end: f64,
        node: u32,
    }
}

/// Timer from the time at which it was armed until it fired or changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TimerRow {
    pub since: f64,
    pub deadline: f64,
    pub end: f64,
    pub node: u32,
}

/// Column as the file has it.
pub(super) struct Section<'a> {
    pub name: &'static str,
    pub value: &'static str,
    /// Length in bytes.
    pub bytes: usize,
    pub write: WriteValues<'a>,
}

/// Writer of the values of a column.
type WriteValues<'a> = Box<dyn Fn(&mut dyn Write) -> io::Result<()> + 'a>;

impl Columns {
    /// Events in the order of time; `None` if they are in it. A shared medium reports a frame when the contention is
    /// decided, after the frame has started.
    pub fn sorted(&self) -> Option<Columns> {
        (!self.time.is_sorted()).then(|| self.reordered(&order_of(&self.time)))
    }
}

impl Timers {
    /// Timers in the order of the times at which they were armed.
    pub fn sorted(&self) -> Timers {
        self.reordered(&order_of(&self.since))
    }
}

/// Rows in the order of their times; those of one time stay in their order.
fn order_of(times: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by(|&a, &b| times[a].total_cmp(&times[b]));
    order
}

/// Writes values in little-endian order, by way of a buffer.
fn write_values<T: Copy, const N: usize>(
    values: &[T],
    encode: impl Fn(T) -> [u8; N],
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(VALUES_PER_WRITE * N);
    for part in values.chunks(VALUES_PER_WRITE) {
        buffer.clear();
        part.iter().for_each(|&value| buffer.extend_from_slice(&encode(value)));
        out.write_all(&buffer)?;
    }
    Ok(())
}

const VALUES_PER_WRITE: usize = 4096;
