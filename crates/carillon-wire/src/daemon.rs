//! Frames between a program and the daemon of its machine, over a stream socket.
//!
//! A frame is a length, a type, and a body:
//!
//! ```text
//! | length u32 | type u8 | body ... |
//! ```
//!
//! The length counts type and body: 1 to [`MAX_FRAME_LEN`]. Fields are a list that runs to the end of the body:
//!
//! ```text
//! | key length u8 | key, UTF-8 | value length u16 | value | ...
//! ```
//!
//! ```text
//! program to daemon
//! OPEN (1)       | version u8 = 2 | wire version u16 | release: major u8, minor u8, patch u8 | role u8 | fields |
//!                                                           role: 1 connect, 2 join, 3 listen, 4 command
//! MESSAGES (2)   | a record or a PACK of them, of `file` |  MESSAGE, PIECE, END_OF_STREAM
//! ACCEPT (3)     |                                          a listener takes the next session
//! LEAVE (4)      |                                          a listener leaves the session
//! STATUS (5)     |
//! STOP (6)       |
//!
//! daemon to program
//! MESSAGES (2)   | as above |                               MESSAGE and PIECE of the sender of the last FROM
//! OPENED (129)   |                                          the sockets of a listener are open
//! EVENT (130)    | fields |
//! DONE (131)     | frames u64 |                             number of the program's MESSAGES delivered or abandoned
//! FROM (132)     | name, UTF-8 |
//! PART (133)     | fields |                                 a line of a report
//! REPORT (134)   | fields |                                 the rest of it
//! FAILED (135)   | text, UTF-8 |                            in the place of a report
//! REFUSED (136)  | text, UTF-8 |                            the daemon hangs up
//! ```
//!
//! OPEN up to the release, and REFUSED, are the same in every release from wire version 3 on, so that both ends can
//! name the other's release.

use std::fmt;

use carillon_core::Bytes;

use crate::ParseError;
use crate::reader::Reader;
use crate::session::{OtherRelease, Release, WIRE_VERSION};

/// Maximum bytes of type and body.
pub const MAX_FRAME_LEN: usize = 64 << 10;

/// Bytes of the length before type and body.
pub const LENGTH_LEN: usize = 4;

/// Maximum bytes of records in a MESSAGES frame.
pub const MAX_RECORDS_LEN: usize = MAX_FRAME_LEN - 1;

/// Version in OPEN: 1 before wire versions, 2 in all later releases.
pub const VERSION: u8 = 2;

/// Bytes of an OPEN without its length and its fields.
const OPEN_LEN: usize = 8;

/// Purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Opens a session as its sender.
    Connect,
    /// Sends in a session that another member opens.
    Join,
    /// Receives one session after the other.
    Listen,
    /// Asks the daemon itself for something.
    Command,
}

impl Role {
    /// Name of the role in one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Connect => "connect",
            Role::Join => "join",
            Role::Listen => "listen",
            Role::Command => "command",
        }
    }
}

/// Frame in either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Request of the program that opens the connection.
    Open {
        /// Purpose of the connection.
        role: Role,
        /// Settings of the session.
        fields: Fields<'a>,
    },
    /// Record or PACK of records, unchecked ([`records`](crate::file::records)).
    Messages(&'a [u8]),
    /// Listener takes the next session.
    Accept,
    /// Listener leaves the session.
    Leave,
    /// Request for the status of the daemon.
    Status,
    /// Request that the daemon ends.
    Stop,
    /// Sockets of the listener are open.
    Opened,
    /// Event of the session.
    Event(Fields<'a>),
    /// Number of MESSAGES that are delivered or abandoned, in total.
    Done(u64),
    /// Sender of the MESSAGES that follow.
    From(&'a str),
    /// Line of a report.
    Part(Fields<'a>),
    /// Summary of a report.
    Report(Fields<'a>),
    /// Failure without a report, with the reason.
    Failed(&'a str),
    /// Refusal: the daemon closes the connection, for this reason.
    Refused(&'a str),
}

/// Keys and values of a received frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields<'a>(&'a [u8]);

/// Keys and values to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldList(Vec<u8>);

/// Length of the first frame in these bytes, its length field included; `None` if they are too few to tell.
pub fn frame_len(bytes: &[u8]) -> Result<Option<usize>, ParseError> {
    let Some(length) = bytes.first_chunk() else { return Ok(None) };
    let length = u32::from_be_bytes(*length);
    match usize::try_from(length) {
        Ok(len @ 1..=MAX_FRAME_LEN) => Ok(Some(LENGTH_LEN + len)),
        _ => Err(ParseError::Field { field: "frame length", value: length.into() }),
    }
}

/// Release of the program that sent this OPEN (type and body) if it is another one; `None` for this wire version and
/// for other frames.
#[must_use]
pub fn other_release(bytes: &[u8]) -> Option<OtherRelease> {
    match *bytes {
        // The beginning of an OPEN never changes, so the release of any program can be named.
        [frame_type::OPEN, VERSION, high, low, major, minor, patch, ..] => {
            let wire = u16::from_be_bytes([high, low]);
            let release = Release { major, minor, patch };
            (wire != WIRE_VERSION).then_some(OtherRelease::Version { release, wire })
        }
        [frame_type::OPEN, version, ..] if version < VERSION => Some(OtherRelease::Earlier(version)),
        _ => None,
    }
}

impl<'a> Frame<'a> {
    /// Parses type and body.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        let frame = match reader.u8()? {
            frame_type::OPEN => {
                match reader.u8()? {
                    // The version comes before everything that other releases may lay out differently.
                    VERSION => {}
                    other => return Err(ParseError::Field { field: "version", value: other.into() }),
                }
                let (wire, _release) = (reader.u16()?, reader.array::<3>()?);
                if wire != WIRE_VERSION {
                    return Err(ParseError::WireVersion(wire));
                }
                let role = match reader.u8()? {
                    1 => Role::Connect,
                    2 => Role::Join,
                    3 => Role::Listen,
                    4 => Role::Command,
                    other => return Err(ParseError::Field { field: "role", value: other.into() }),
                };
                Frame::Open { role, fields: Fields::parse(reader.remaining())? }
            }
            frame_type::MESSAGES => Frame::Messages(reader.remaining()),
            frame_type::ACCEPT => Frame::Accept,
            frame_type::LEAVE => Frame::Leave,
            frame_type::STATUS => Frame::Status,
            frame_type::STOP => Frame::Stop,
            frame_type::OPENED => Frame::Opened,
            frame_type::EVENT => Frame::Event(Fields::parse(reader.remaining())?),
            frame_type::DONE => Frame::Done(reader.u64()?),
            frame_type::FROM => Frame::From(text(reader.remaining())?),
            frame_type::REPORT_PART => Frame::Part(Fields::parse(reader.remaining())?),
            frame_type::REPORT => Frame::Report(Fields::parse(reader.remaining())?),
            frame_type::FAILED => Frame::Failed(text(reader.remaining())?),
            frame_type::REFUSED => Frame::Refused(text(reader.remaining())?),
            other => return Err(ParseError::Type(other)),
        };
        reader.end("bytes behind a frame")?;
        Ok(frame)
    }

    /// Appends the frame with its length. Texts are cut; other contents beyond the maximum are a mistake of the
    /// caller.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        let start = buf.len();
        buf.extend_from_slice(&[0; LENGTH_LEN]);
        let kind = match self {
            Frame::Open { .. } => frame_type::OPEN,
            Frame::Messages(_) => frame_type::MESSAGES,
            Frame::Accept => frame_type::ACCEPT,
            Frame::Leave => frame_type::LEAVE,
            Frame::Status => frame_type::STATUS,
            Frame::Stop => frame_type::STOP,
            Frame::Opened => frame_type::OPENED,
            Frame::Event(_) => frame_type::EVENT,
            Frame::Done(_) => frame_type::DONE,
            Frame::From(_) => frame_type::FROM,
            Frame::Part(_) => frame_type::REPORT_PART,
            Frame::Report(_) => frame_type::REPORT,
            Frame::Failed(_) => frame_type::FAILED,
            Frame::Refused(_) => frame_type::REFUSED,
        };
        buf.push(kind);
        match self {
            Frame::Open { role, fields } => {
                let role = match role {
                    Role::Connect => 1,
                    Role::Join => 2,
                    Role::Listen => 3,
                    Role::Command => 4,
                };
                let Release { major, minor, patch } = Release::CURRENT;
                buf.push(VERSION);
                buf.extend_from_slice(&WIRE_VERSION.to_be_bytes());
                buf.extend_from_slice(&[major, minor, patch, role]);
                buf.extend_from_slice(fields.0);
            }
            Frame::Messages(bytes) => buf.extend_from_slice(bytes),
            Frame::Event(fields) | Frame::Part(fields) | Frame::Report(fields) => {
                buf.extend_from_slice(fields.0);
            }
            Frame::Done(frames) => buf.extend_from_slice(&frames.to_be_bytes()),
            Frame::From(text) | Frame::Failed(text) | Frame::Refused(text) => {
                buf.extend_from_slice(cut(text).as_bytes());
            }
            Frame::Accept | Frame::Leave | Frame::Status | Frame::Stop | Frame::Opened => {}
        }
        let len = buf.len() - start - LENGTH_LEN;
        debug_assert!(len <= MAX_FRAME_LEN, "a frame of {len} bytes");
        buf[start..start + LENGTH_LEN].copy_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
    }
}

impl fmt::Display for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Frame::Open { role, fields } => write!(f, "OPEN {} {fields}", role.name()),
            Frame::Messages(bytes) => write!(f, "MESSAGES {} bytes", bytes.len()),
            Frame::Accept => f.write_str("ACCEPT"),
            Frame::Leave => f.write_str("LEAVE"),
            Frame::Status => f.write_str("STATUS"),
            Frame::Stop => f.write_str("STOP"),
            Frame::Opened => f.write_str("OPENED"),
            Frame::Event(fields) => write!(f, "EVENT {fields}"),
            Frame::Done(frames) => write!(f, "DONE {frames}"),
            Frame::From(name) => write!(f, "FROM {name:?}"),
            Frame::Part(fields) => write!(f, "PART {fields}"),
            Frame::Report(fields) => write!(f, "REPORT {fields}"),
            Frame::Failed(text) => write!(f, "FAILED {text:?}"),
            Frame::Refused(text) => write!(f, "REFUSED {text:?}"),
        }
    }
}

impl<'a> Fields<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        while !reader.rest().is_empty() {
            field(&mut reader)?;
        }
        Ok(Fields(bytes))
    }

    /// Fields in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        let mut reader = Reader::new(self.0);
        // `parse` has checked them.
        std::iter::from_fn(move || field(&mut reader).ok())
    }

    /// Value of the first field with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a [u8]> {
        self.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Value of the first field with this key, if it is text.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.get(key).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Value of the first field with this key, if it is a number.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<u64> {
        self.text(key).and_then(|text| text.parse().ok())
    }
}

impl fmt::Display for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut gap = "";
        for (key, value) in self.iter() {
            write!(f, "{gap}{key}={:?}", String::from_utf8_lossy(value))?;
            gap = " ";
        }
        Ok(())
    }
}

impl FieldList {
    /// Empty list.
    #[must_use]
    pub fn new() -> Self {
        FieldList::default()
    }

    /// Adds a field; a value of more than [`MAX_VALUE_LEN`] bytes is cut.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.push(key, value);
        self
    }

    /// Adds a field in place; see [`with`](Self::with).
    pub fn push(&mut self, key: &str, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        let value = match std::str::from_utf8(value) {
            Ok(text) => cut(text).as_bytes(),
            Err(_) => &value[..value.len().min(MAX_VALUE_LEN)],
        };
        debug_assert!(key.len() <= usize::from(u8::MAX), "keys are words");
        self.0.push(key.len() as u8);
        self.0.extend_from_slice(key.as_bytes());
        self.0.extend_from_slice(&(value.len() as u16).to_be_bytes());
        self.0.extend_from_slice(value);
    }

    /// Fields for a frame.
    #[must_use]
    pub fn fields(&self) -> Fields<'_> {
        Fields(&self.0)
    }

    /// Returns true if an OPEN has room for the fields.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.0.len() <= MAX_FRAME_LEN - OPEN_LEN
    }
}

/// Maximum bytes of a value: a frame has room for ten such fields.
pub const MAX_VALUE_LEN: usize = 4096;

fn field<'a>(reader: &mut Reader<'a>) -> Result<(&'a str, &'a [u8]), ParseError> {
    let len = reader.u8()?;
    let key = text(reader.bytes(len.into())?)?;
    let len = reader.u16()?;
    Ok((key, reader.bytes(len.into())?))
}

fn text(bytes: &[u8]) -> Result<&str, ParseError> {
    let wrong = |error: std::str::Utf8Error| ParseError::Field {
        field: "text up to byte",
        value: error.valid_up_to() as u64,
    };
    std::str::from_utf8(bytes).map_err(wrong)
}

/// Cuts a text to the maximum length of a value, at a character boundary.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_VALUE_LEN)]
}

/// Encodes a single frame.
#[must_use]
pub fn emitted(frame: &Frame<'_>) -> Bytes {
    let mut buf = Vec::new();
    frame.emit(&mut buf);
    buf.into()
}

mod frame_type {
    pub const OPEN: u8 = 1;
    pub const MESSAGES: u8 = 2;
    pub const ACCEPT: u8 = 3;
    pub const LEAVE: u8 = 4;
    pub const STATUS: u8 = 5;
    pub const STOP: u8 = 6;
    pub const OPENED: u8 = 129;
    pub const EVENT: u8 = 130;
    pub const DONE: u8 = 131;
    pub const FROM: u8 = 132;
    pub const REPORT_PART: u8 = 133;
    pub const REPORT: u8 = 134;
    pub const FAILED: u8 = 135;
    pub const REFUSED: u8 = 136;
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn frames_have_these_bytes() {
        let list = FieldList::new().with("group", "239.1.2.3:4567");
        let golden: [(Frame<'_>, &[u8]); 5] = [
            (
                Frame::Open { role: Role::Listen, fields: list.fields() },
                b"\0\0\0\x1e\x01\x02\0\x03\0\x02\0\x03\x05group\0\x0e239.1.2.3:4567",
            ),
            (Frame::Messages(&[7, 8]), &[0, 0, 0, 3, 2, 7, 8]),
            (Frame::Accept, &[0, 0, 0, 1, 3]),
            (Frame::Done(258), &[0, 0, 0, 9, 131, 0, 0, 0, 0, 0, 0, 1, 2]),
            (Frame::From("bob"), &[0, 0, 0, 4, 132, b'b', b'o', b'b']),
        ];
        for (frame, bytes) in golden {
            assert_eq!(&emitted(&frame)[..], bytes, "{frame}");
            assert_eq!(frame_len(bytes), Ok(Some(bytes.len())));
            assert_eq!(Frame::parse(&bytes[LENGTH_LEN..]), Ok(frame));
        }
    }

    #[test]
    fn excessive_lengths_and_trailing_bytes_are_errors() {
        assert_eq!(frame_len(&[0, 0, 1]), Ok(None));
        for length in [0, MAX_FRAME_LEN as u32 + 1, u32::MAX] {
            assert!(frame_len(&length.to_be_bytes()).is_err(), "{length}");
        }
        assert!(Frame::parse(&[]).is_err());
        assert!(Frame::parse(&[3, 0]).is_err(), "ACCEPT has no body");
        assert!(Frame::parse(&[1, 1, 3]).is_err(), "another version");
        assert!(Frame::parse(&[1, 2, 0, 3, 0, 1, 0, 9]).is_err(), "no such role");
        assert!(Frame::parse(&[130, 1, b'k', 0, 2, 0]).is_err(), "a value that is cut off");
        assert!(Frame::parse(&[132, 0xff]).is_err(), "no text");
    }

    #[test]
    fn open_of_another_release_is_named_whatever_follows() {
        assert_eq!(other_release(&[1, 1, 3]), Some(OtherRelease::Earlier(1)));
        let release = Release { major: 9, minor: 8, patch: 7 };
        let later = [1, 2, 0, 77, 9, 8, 7, 0xFF, 0xFF];
        assert_eq!(other_release(&later), Some(OtherRelease::Version { release, wire: 77 }));
        assert_eq!(Frame::parse(&later), Err(ParseError::WireVersion(77)));
        let own = emitted(&Frame::Open { role: Role::Listen, fields: Fields::default() });
        assert_eq!((other_release(&own[LENGTH_LEN..]), other_release(&[2, 1])), (None, None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_an_error(kind in 0u8..=140, body in vec(any::<u8>(), 0..24)) {
            let bytes: Vec<u8> = [kind].into_iter().chain(body).collect();
            if let Ok(frame) = Frame::parse(&bytes) {
                prop_assert_eq!(&emitted(&frame)[LENGTH_LEN..], &bytes[..], "{}", frame);
            }
        }
    }

    #[test]
    fn values_are_cut_at_a_letter() {
        let long = "é".repeat(MAX_VALUE_LEN);
        let list = FieldList::new().with("a", &long).with("b", "1").with("b", "2");
        let fields = list.fields();
        assert_eq!(fields.text("a").map(str::len), Some(MAX_VALUE_LEN));
        assert_eq!((fields.number("b"), fields.number("a"), fields.iter().count()), (Some(1), None, 3));
    }
}
