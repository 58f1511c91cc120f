//! Reliable multicast delivery as a library: files, streams and messages to many receivers over UDP.

pub mod files;
