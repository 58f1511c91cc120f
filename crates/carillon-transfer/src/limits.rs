//! How long things may be.

/// Bytes that a program can attach.
pub const ATTACHED_MAX_LEN: usize = 256;

/// Bytes of a message of a live stream, at most.
pub const LONGEST_MESSAGE: usize = 16 << 20;
