//! Bodies of the fuzz targets: ordinary functions of bytes that panic when something is wrong.
//!
//! A target in `fuzz/` only names one of them; the committed corpus is replayed through the same
//! functions by an ordinary test. The bodies know no protocol: the machines come from their callers.

mod drive;
pub mod packets;
mod setting;
mod text;
pub mod wire;

pub use carillon_core::Input;
pub use drive::{Rules, Subject, drive};
pub use packets::{Known, own};
pub use setting::{bit_rate, machine, settings};
pub use text::one_line_or_good;
