//! Columns of a recording: one value for each event.

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

/// Declares the columns in the order of the file, with the names of their types.
macro_rules! columns {
    ($($name:ident: $value:ty),* $(,)?) => {
        /// Columns of equal length.
        #[derive(Clone, Debug, Default)]
        pub(super) struct Columns {
            $(pub $name: Vec<$value>,)*
        }

        impl Columns {
            /// Appends an event.
            pub fn push(&mut self, row: &Row) {
                $(self.$name.push(row.$name);)*
            }

            /// Names, types and values of the columns.
            pub fn sections(&self) -> Vec<Section<'_>> {
                vec![$(Section {
                    name: stringify!($name),
                    value: stringify!($value),
                    bytes: self.$name.len() * size_of::<$value>(),
                    write: Box::new(|out| write_values(&self.$name, |value| value.to_le_bytes(), out)),
                }),*]
            }

            /// Copy of the columns in another order of events.
            fn reordered(&self, order: &[usize]) -> Columns {
                Columns { $($name: order.iter().map(|&at| self.$name[at]).collect()),* }
            }
        }
    };
}

columns! {
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
    /// Number of events.
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// Events in the order of time; `None` if they are in it. A shared medium reports a frame when the contention is
    /// decided, after the frame has started.
    pub fn sorted(&self) -> Option<Columns> {
        if self.time.is_sorted() {
            return None;
        }
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by(|&a, &b| self.time[a].total_cmp(&self.time[b]));
        Some(self.reordered(&order))
    }
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
