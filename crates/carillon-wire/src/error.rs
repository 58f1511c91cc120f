//! Parse errors.

use thiserror::Error;

/// Reason why bytes are not a packet of the expected format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    /// Fewer bytes than the fixed part or a length field requires.
    #[error("truncated: {have} bytes where {need} are needed")]
    Truncated {
        /// Present bytes.
        have: usize,
        /// Required bytes.
        need: usize,
    },
    /// Magic or version of another family of formats.
    #[error("wrong magic or version: {0:#06x}")]
    Magic(u16),
    /// Opening packet of another wire version.
    #[error("wire version {0}, and this release has another")]
    WireVersion(u16),
    /// Packet of another protocol.
    #[error("protocol {0} is not the expected one")]
    Protocol(u8),
    /// Unknown packet type.
    #[error("unknown packet type {0:#04x}")]
    Type(u8),
    /// Field with an invalid value.
    #[error("field `{field}` has the impossible value {value}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: u64,
    },
}
