//! Contents of objects: digests, and compression with a bound.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::{DeflateDecoder, GzDecoder, ZlibDecoder};
use flate2::write::GzEncoder;

/// Encoding of contents, by its names in the file delivery table and in EXT_CENC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentEncoding {
    None,
    Zlib,
    Deflate,
    Gzip,
}

impl ContentEncoding {
    /// Encoding with this name in a table; `None` if it is not supported.
    pub fn named(name: &str) -> Option<ContentEncoding> {
        Some(match name {
            "" => ContentEncoding::None,
            "zlib" => ContentEncoding::Zlib,
            "deflate" => ContentEncoding::Deflate,
            "gzip" | "x-gzip" => ContentEncoding::Gzip,
            _ => return None,
        })
    }

    /// Encoding with this number in EXT_CENC.
    pub fn numbered(number: u8) -> Option<ContentEncoding> {
        Some(match number {
            0 => ContentEncoding::None,
            1 => ContentEncoding::Zlib,
            2 => ContentEncoding::Deflate,
            3 => ContentEncoding::Gzip,
            _ => return None,
        })
    }

    /// Decodes an object of at most `max` bytes; `None` if it is longer or not valid.
    pub fn decode(self, object: Vec<u8>, max: usize) -> Option<Vec<u8>> {
        let mut content = Vec::new();
        let reader: Box<dyn Read + '_> = match self {
            ContentEncoding::None => return (object.len() <= max).then_some(object),
            ContentEncoding::Zlib => Box::new(ZlibDecoder::new(&object[..])),
            ContentEncoding::Deflate => Box::new(DeflateDecoder::new(&object[..])),
            ContentEncoding::Gzip => Box::new(GzDecoder::new(&object[..])),
        };
        // One byte more shows that there is more.
        reader.take(max as u64 + 1).read_to_end(&mut content).ok()?;
        (content.len() <= max).then_some(content)
    }
}

/// Compresses with gzip.
pub(super) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail.
    let written = encoder.write_all(content).and_then(|()| encoder.finish());
    written.unwrap_or_default()
}

/// MD5 digest.
pub(super) fn md5(bytes: &[u8]) -> [u8; 16] {
    md5::compute(bytes).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_contents_are_bounded() {
        let content = vec![7; 100_000];
        let object = gzip(&content);
        assert!(object.len() < 1000);
        assert_eq!(ContentEncoding::Gzip.decode(object.clone(), 100_000), Some(content));
        assert_eq!(ContentEncoding::Gzip.decode(object.clone(), 99_999), None);
        assert_eq!(ContentEncoding::Gzip.decode(object[..50].to_vec(), 100_000), None);
        assert_eq!(ContentEncoding::Deflate.decode(object, 100_000), None);
    }
}
