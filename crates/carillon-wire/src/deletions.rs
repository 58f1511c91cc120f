//! Answer of a receiver to QUESTION 3 of an update: what it would delete.
//!
//! ```text
//! | 1 | number of entries u64 | (name length u16 | name, with a slash at the end of a directory) ... |
//! ```
//!
//! The names are those that fit, so there may be fewer than the number.

use crate::ParseError;
use crate::reader::Reader;

/// Entries that a receiver would delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deletions {
    /// Number of entries.
    pub count: u64,
    /// The first names; directories end with a slash.
    pub names: Vec<Vec<u8>>,
}

impl Deletions {
    /// Parses an answer.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        match reader.u8()? {
            1 => {}
            other => return Err(ParseError::Type(other)),
        }
        let (count, mut names) = (reader.u64()?, Vec::new());
        while !reader.rest().is_empty() {
            let len = reader.u16()?;
            names.push(reader.bytes(len.into())?.to_vec());
        }
        if names.len() as u64 > count {
            return Err(ParseError::Field { field: "count", value: count });
        }
        Ok(Deletions { count, names })
    }

    /// Encodes an answer of at most `most` bytes with the first names that fit.
    pub fn encode<'n>(count: u64, names: impl IntoIterator<Item = &'n [u8]>, most: usize) -> Vec<u8> {
        let mut bytes = vec![1];
        bytes.extend_from_slice(&count.to_be_bytes());
        for name in names {
            let len = u16::try_from(name.len()).ok().filter(|_| bytes.len() + 2 + name.len() <= most);
            let Some(len) = len else { break };
            bytes.extend_from_slice(&len.to_be_bytes());
            bytes.extend_from_slice(name);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_has_the_number_and_the_names_that_fit() {
        let names = [&b"a"[..], b"dir/", b"\xff"];
        let all = Deletions::encode(3, names, 1000);
        let parsed = Deletions::parse(&all).expect("it is valid");
        assert_eq!(parsed, Deletions { count: 3, names: names.map(<[u8]>::to_vec).to_vec() });
        let some = Deletions::parse(&Deletions::encode(3, names, 14)).expect("it is valid");
        assert_eq!((some.count, some.names), (3, vec![b"a".to_vec()]));
    }

    #[test]
    fn broken_answers_are_refused() {
        let all = Deletions::encode(2, [&b"a"[..], b"b"], 1000);
        for len in 0..all.len() {
            let whole = matches!(len, 9 | 12);
            assert_eq!(Deletions::parse(&all[..len]).is_ok(), whole, "{len}");
        }
        assert!(Deletions::parse(&Deletions::encode(1, [&b"a"[..], b"b"], 1000)).is_err());
        assert!(Deletions::parse(&[0; 9]).is_err());
    }
}
