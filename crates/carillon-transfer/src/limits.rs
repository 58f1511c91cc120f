//! Limits of the library interface.

/// Maximum bytes that a program can attach to its name.
pub const ATTACHED_MAX_LEN: usize = 256;

/// Maximum bytes of a message of a live stream.
pub const MAX_MESSAGE_LEN: usize = 16 << 20;
