//! Fields that several packets of the session have.

use super::{Cookie, Identity, Name, Nonce, Terms, Text};
use crate::ParseError;
use crate::reader::Reader;

pub(super) fn cookie_of(value: &[u8]) -> Result<Cookie, ParseError> {
    let bytes =
        value.try_into().map_err(|_| ParseError::Field { field: "cookie", value: value.len() as u64 })?;
    Ok(Cookie(u64::from_be_bytes(bytes)))
}

pub(super) fn put_nonce(buf: &mut Vec<u8>, nonce: Nonce) {
    buf.extend_from_slice(&nonce.0.to_be_bytes());
}

pub(super) fn put_name(buf: &mut Vec<u8>, name: &Name<'_>) {
    // A name is shorter than 256 bytes by construction.
    buf.push(name.len() as u8);
    buf.extend_from_slice(name.as_bytes());
}

pub(super) fn put_text(buf: &mut Vec<u8>, text: &Text<'_>) {
    // A text is shorter than 256 bytes by construction.
    buf.push(text.len() as u8);
    buf.extend_from_slice(text.as_bytes());
}

impl<'a> Reader<'a> {
    pub(super) fn nonce(&mut self) -> Result<Nonce, ParseError> {
        self.u64().map(Nonce)
    }

    pub(super) fn terms(&mut self) -> Result<Terms, ParseError> {
        self.u64().map(Terms)
    }

    pub(super) fn identity(&mut self) -> Result<Identity, ParseError> {
        self.u64().map(Identity)
    }

    pub(super) fn name(&mut self) -> Result<Name<'a>, ParseError> {
        let len = self.u8()?;
        Name::parse("name", self.bytes(len.into())?)
    }

    pub(super) fn text(&mut self) -> Result<Text<'a>, ParseError> {
        let len = self.u8()?;
        Text::parse("text", self.bytes(len.into())?)
    }
}
