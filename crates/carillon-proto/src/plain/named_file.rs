//! Files as messages of plain sessions.

use bytes::Bytes;

/// File with its name, as protocols for files send it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedFile {
    /// Name as the standard has it, such as a URI. A receiver must not trust it.
    pub name: String,
    /// Contents.
    pub content: Bytes,
}

impl NamedFile {
    /// Message for the machine of a sender: the length of the name in four bytes, the name, and the contents.
    pub fn into_message(self) -> Bytes {
        let mut message = Vec::with_capacity(LENGTH_BYTES + self.name.len() + self.content.len());
        message.extend_from_slice(&(self.name.len() as u32).to_be_bytes());
        message.extend_from_slice(self.name.as_bytes());
        message.extend_from_slice(&self.content);
        message.into()
    }

    /// Bytes of the contents in a message; all of it if it is none.
    pub fn content_len(message: &[u8]) -> usize {
        let length = message.first_chunk().map_or(0, |&length| u32::from_be_bytes(length) as usize);
        message.len().checked_sub(length.saturating_add(LENGTH_BYTES)).unwrap_or(message.len())
    }

    /// Reads a message; `None` if it is none.
    pub fn parse(message: Bytes) -> Option<NamedFile> {
        let length = u32::from_be_bytes(*message.first_chunk()?) as usize;
        let name = message.get(LENGTH_BYTES..LENGTH_BYTES.checked_add(length)?)?;
        let name = std::str::from_utf8(name).ok()?.to_owned();
        Some(NamedFile { name, content: message.slice(LENGTH_BYTES + length..) })
    }
}

/// Bytes of the length of a name.
const LENGTH_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_back_or_refused() {
        let file = NamedFile { name: "a/\u{e9}".to_owned(), content: Bytes::from_static(b"content") };
        let message = file.clone().into_message();
        assert_eq!(NamedFile::parse(message.clone()), Some(file));
        assert_eq!(NamedFile::parse(message.slice(..3)), None);
        assert_eq!(NamedFile::parse(message.slice(..6)), None);
        assert_eq!(NamedFile::parse(Bytes::from_static(&[255; 20])), None);
    }
}
