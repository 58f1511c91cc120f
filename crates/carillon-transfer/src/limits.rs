//! How long things may be.

/// Bytes that a program can attach.
pub const ATTACHED_MAX_LEN: usize = 256;

/// Bytes of a message of a live stream, at most.
pub const MAX_MESSAGE_LEN: usize = 16 << 20;
