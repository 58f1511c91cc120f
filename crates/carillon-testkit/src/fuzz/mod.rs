//! Bodies of the fuzz targets: functions of bytes that panic when they find a fault.
//!
//! A target in `fuzz/` only names one of them, and an ordinary test replays the committed corpus through the same
//! functions. The bodies know no protocol: the machines come from their callers.

mod drive;
mod input;
pub mod packets;
mod setting;
mod text;
pub mod wire;

pub use drive::{Rules, Subject, drive};
pub use input::Input;
pub use packets::{Known, own};
pub use setting::{bit_rate, machine, settings};
pub use text::one_line_or_good;
