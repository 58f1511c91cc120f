//! Transcripts of PGM machines, one rule of RFC 3208 each. Times are in milliseconds.

mod congestion;
mod dlr;
mod fixture;
mod on_tree;
mod parity;
mod receiver;
mod relay;
mod source;
