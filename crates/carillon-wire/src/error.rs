//! Why bytes are not a packet.

use thiserror::Error;

/// Why bytes are not a packet of the format they were parsed as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    /// Fewer bytes than the fixed part, or than a length field says.
    #[error("truncated: {have} bytes where {need} are needed")]
    Truncated {
        /// Bytes present.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// Not a packet of this family of formats, or of another version.
    #[error("wrong magic or version: {0:#06x}")]
    Magic(u16),
    /// An opening packet of another wire version.
    #[error("wire version {0}, and this release has another")]
    WireVersion(u16),
    /// A packet of another protocol.
    #[error("protocol {0} is not the expected one")]
    Protocol(u8),
    /// An unknown packet type.
    #[error("unknown packet type {0:#04x}")]
    Type(u8),
    /// A field with a value that it cannot have.
    #[error("field `{field}` has the impossible value {value}")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}
