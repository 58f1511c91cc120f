//! Header extensions of LCT (RFC 5651, section 5.2), which ALC and NORM share: type, length in words, contents.

use crate::ParseError;
use crate::reader::Reader;

/// Type of the transmission information of an object (EXT_FTI).
pub(crate) const FTI: u8 = 64;
/// Bytes of a word, in which lengths are counted.
pub(crate) const WORD: usize = 4;
/// Extension types from here on are one word long and have no length field.
const FIRST_FIXED: u8 = 128;

/// Checks that the bytes are whole extensions.
pub(crate) fn check(bytes: &[u8]) -> Result<(), ParseError> {
    let mut fields = Reader::new(bytes);
    while !fields.rest().is_empty() {
        next(&mut fields)?;
    }
    Ok(())
}

/// Types and contents of the extensions in order. It ends before an extension that is not whole.
pub(crate) fn each(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut fields = Reader::new(bytes);
    std::iter::from_fn(move || next(&mut fields).ok())
}

/// Contents of the first extension of this type, behind its type and length.
pub(crate) fn find(bytes: &[u8], kind: u8) -> Option<&[u8]> {
    each(bytes).find(|(found, _)| *found == kind).map(|(_, content)| content)
}

/// Type and contents of the next extension.
fn next<'a>(fields: &mut Reader<'a>) -> Result<(u8, &'a [u8]), ParseError> {
    let kind = fields.u8()?;
    if kind >= FIRST_FIXED {
        return Ok((kind, fields.bytes(WORD - 1)?));
    }
    let words = usize::from(fields.u8()?);
    match (words * WORD).checked_sub(2) {
        Some(length) => Ok((kind, fields.bytes(length)?)),
        None => Err(ParseError::Field { field: "extension length", value: 0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_walked_in_order_up_to_a_cut_one() {
        let whole = [64, 2, 1, 2, 3, 4, 5, 6, 192, 7, 8, 9];
        assert_eq!(check(&whole), Ok(()));
        let seen: Vec<_> = each(&whole).collect();
        assert_eq!(seen, [(64, &[1, 2, 3, 4, 5, 6][..]), (192, &[7, 8, 9][..])]);
        assert_eq!((find(&whole, 192), find(&whole, 3)), (Some(&[7, 8, 9][..]), None));
        for cut in [1, 7, 9, 11] {
            assert!(check(&whole[..cut]).is_err(), "{cut} bytes");
        }
        assert_eq!(each(&whole[..11]).count(), 1);
        assert!(check(&[64, 0, 0, 0]).is_err(), "an extension that is shorter than its own header");
    }
}
