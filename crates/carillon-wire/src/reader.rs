//! Reader of packet fields, front to back, with a length check for each.

use crate::ParseError;
use crate::envelope::Envelope;

/// Unread bytes of a packet. Integers are big-endian.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// Length of the whole packet, which errors report.
    have: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes, have: bytes.len() }
    }

    /// Reader of the bytes behind the envelope in a datagram of this protocol.
    #[inline]
    pub(crate) fn behind_envelope(protocol: u8, bytes: &'a [u8]) -> Result<(Envelope, Self), ParseError> {
        let (envelope, rest) = Envelope::parse_for(protocol, bytes)?;
        Ok((envelope, Reader { rest, have: bytes.len() }))
    }

    /// Requires that the whole packet has at least `need` bytes.
    pub(crate) fn require(&self, need: usize) -> Result<(), ParseError> {
        if self.have < need { Err(ParseError::Truncated { have: self.have, need }) } else { Ok(()) }
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], ParseError> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(self.truncated(N))?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], ParseError> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(self.truncated(len))?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, ParseError> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, ParseError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, ParseError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, ParseError> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a byte that must be 0 or 1.
    pub(crate) fn flag(&mut self, field: &'static str) -> Result<bool, ParseError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(ParseError::Field { field, value: other.into() }),
        }
    }

    /// Reads a rank of two bytes that must fit one.
    pub(crate) fn rank(&mut self, field: &'static str) -> Result<u8, ParseError> {
        let rank = self.u16()?;
        u8::try_from(rank).map_err(|_| ParseError::Field { field, value: rank.into() })
    }

    /// Unread bytes.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes all unread bytes.
    pub(crate) fn remaining(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Requires that no byte is left; `field` names the excess in the error.
    pub(crate) fn end(&self, field: &'static str) -> Result<(), ParseError> {
        match self.rest.len() {
            0 => Ok(()),
            extra => Err(ParseError::Field { field, value: extra as u64 }),
        }
    }

    fn truncated(&self, len: usize) -> ParseError {
        let need = (self.have - self.rest.len()).saturating_add(len);
        ParseError::Truncated { have: self.have, need }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_field_names_the_bytes_it_needs() {
        let bytes: Vec<u8> = (0..22).collect();
        type Field = fn(&mut Reader<'_>) -> Result<u64, ParseError>;
        let fields: [(Field, usize); 6] = [
            (|reader| reader.u8().map(Into::into), 1),
            (|reader| reader.u16().map(Into::into), 2),
            (|reader| reader.u32().map(Into::into), 4),
            (|reader| reader.u64(), 8),
            (
                |reader| reader.array::<3>().map(|bytes| bytes.iter().fold(0, |n, &b| n << 8 | u64::from(b))),
                3,
            ),
            (|reader| reader.bytes(4).map(|bytes| bytes.iter().fold(0, |n, &b| n << 8 | u64::from(b))), 4),
        ];
        for have in 0..=bytes.len() {
            let mut reader = Reader::new(&bytes[..have]);
            let mut at = 0;
            for (field, len) in fields {
                let need = at + len;
                let value = bytes[at..need].iter().fold(0, |n, &b| n << 8 | u64::from(b));
                match field(&mut reader) {
                    Ok(read) => assert_eq!((read, need <= have), (value, true)),
                    Err(error) => {
                        assert_eq!((error, need > have), (ParseError::Truncated { have, need }, true));
                        break;
                    }
                }
                at = need;
            }
        }
    }

    #[test]
    fn any_length_beyond_the_datagram_is_refused() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.u8(), Ok(1));
        assert!(matches!(reader.bytes(usize::MAX), Err(ParseError::Truncated { have: 3, need: usize::MAX })));
        assert_eq!(
            (reader.rest(), reader.end("more")),
            (&[2, 3][..], Err(ParseError::Field { field: "more", value: 2 }))
        );
        assert_eq!(reader.require(4), Err(ParseError::Truncated { have: 3, need: 4 }));
    }
}
