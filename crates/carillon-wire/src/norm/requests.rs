//! Repair requests of NACKs and of their advertisements (RFC 5740, 4.3.1).

use std::fmt;

use super::Position;
use crate::ParseError;
use crate::reader::Reader;

/// Repair requests in ascending order of position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests<'a>(&'a [u8]);

/// Repair request: a list of items of one form, for one kind of contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Meaning of the items.
    pub form: Form,
    /// Requested contents: bits of [`Request::SEGMENT`] and the others.
    pub flags: u8,
    items: &'a [u8],
}

/// Meaning of the items of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// Single symbols.
    Items = 1,
    /// Pairs of items: the first and the last symbol of each range.
    Ranges = 2,
    /// The symbol of each item is the number of symbols that the block lacks.
    Erasures = 3,
}

/// Item of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Object.
    pub object: u16,
    /// Place in the object.
    pub position: Position,
}

impl Request<'_> {
    /// Symbols are requested.
    pub const SEGMENT: u8 = 0x01;
    /// Whole blocks are requested.
    pub const BLOCK: u8 = 0x02;
    /// The information of objects is requested.
    pub const INFO: u8 = 0x04;
    /// Whole objects are requested.
    pub const OBJECT: u8 = 0x08;
    /// Bytes of a request before its items.
    pub const HEADER_LEN: usize = 4;
}

impl Item {
    /// Bytes of an item of FEC encoding 2 or 5.
    pub const RS_LEN: usize = 8;

    fn read(fields: &mut Reader<'_>) -> Result<Item, ParseError> {
        let fec_id = fields.u8()?;
        match fields.u8()? {
            0 => Ok(Item { object: fields.u16()?, position: Position::read(fec_id, fields)? }),
            other => Err(ParseError::Field { field: "reserved", value: other.into() }),
        }
    }

    /// Appends the item; that of an acknowledged FLUSH is the contents of its acknowledgment.
    pub fn emit(self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&[self.position.fec_id(), 0]);
        buf.extend_from_slice(&self.object.to_be_bytes());
        self.position.emit(buf);
    }
}

impl<'a> Requests<'a> {
    /// Appends a request with these items to `buf`, which holds the requests before it.
    pub fn push(buf: &mut Vec<u8>, form: Form, flags: u8, items: impl IntoIterator<Item = Item>) {
        let start = buf.len();
        buf.extend_from_slice(&[form as u8, flags, 0, 0]);
        items.into_iter().for_each(|item| item.emit(buf));
        // Writers keep within a datagram.
        let length = (buf.len() - start - Request::HEADER_LEN) as u16;
        buf[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Checks requests.
    pub fn new(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut fields = Reader::new(bytes);
        while !fields.rest().is_empty() {
            let request = Request::read(&mut fields)?;
            let mut items = Reader::new(request.items);
            let mut count = 0;
            while !items.rest().is_empty() {
                Item::read(&mut items)?;
                count += 1;
            }
            if request.form == Form::Ranges && count % 2 != 0 {
                return Err(ParseError::Field { field: "range items", value: count });
            }
        }
        Ok(Requests(bytes))
    }

    /// Requests in the order of the packet.
    pub fn iter(self) -> impl Iterator<Item = Request<'a>> {
        let mut fields = Reader::new(self.0);
        // Everything was checked when the packet was parsed.
        std::iter::from_fn(move || Request::read(&mut fields).ok())
    }

    /// The bytes of all requests.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Request<'a> {
    fn read(fields: &mut Reader<'a>) -> Result<Self, ParseError> {
        let form = match fields.u8()? {
            1 => Form::Items,
            2 => Form::Ranges,
            3 => Form::Erasures,
            other => return Err(ParseError::Field { field: "form", value: other.into() }),
        };
        let flags = fields.u8()?;
        let length = usize::from(fields.u16()?);
        Ok(Request { form, flags, items: fields.bytes(length)? })
    }

    /// Items in the order of the packet.
    pub fn items(self) -> impl Iterator<Item = Item> {
        let mut fields = Reader::new(self.items);
        std::iter::from_fn(move || Item::read(&mut fields).ok())
    }
}

impl fmt::Display for Requests<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for request in self.iter() {
            let form = match request.form {
                Form::Items => "items",
                Form::Ranges => "ranges",
                Form::Erasures => "erasures",
            };
            write!(f, " {form} {:#04x}", request.flags)?;
            request.items().try_for_each(|item| write!(f, " [object {} {}]", item.object, item.position))?;
        }
        Ok(())
    }
}
