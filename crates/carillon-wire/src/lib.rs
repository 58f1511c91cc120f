//! Packet formats, one module each: parse, emit, and a one-line `Display`.
//!
//! Integers are big-endian. Parsing is total: any bytes give a packet or a [`ParseError`], never a panic, and an
//! accepted packet is emitted again byte for byte. Each module opens with a figure of its packets and names its
//! source (RFC or paper), or says that the layout is Carillon's own.

pub mod alc;
pub mod carillon;
pub mod chang_maxemchuk;
mod checksum;
pub mod daemon;
pub mod deletions;
pub mod doctor;
pub mod envelope;
pub mod erramilli_singh;
pub mod error;
#[cfg(feature = "flute")]
pub mod fdt;
pub mod ff;
pub mod file;
mod hex;
pub mod holdings;
pub mod kfold;
mod lct_extensions;
pub mod lms;
pub mod map;
pub mod mbap;
pub mod msaw;
pub mod mtp;
pub mod norm;
pub mod pf;
pub mod pgm;
pub mod ramp;
mod reader;
pub mod reformation;
pub mod rmp;
pub mod rmtp;
pub mod rra;
pub mod sequencer;
pub mod session;
pub mod srm;
pub mod status;
pub mod xtp;

pub use envelope::Envelope;
pub use error::ParseError;
