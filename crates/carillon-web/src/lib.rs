//! The simulator as a WebAssembly module without imports, for the page that shows runs.
//!
//! The page calls one function with a number and a request in JSON ([`call`]). The same code as on the command line
//! runs the scenario, so that the same scenario, version and seed give the same trace, byte for byte. The C interface
//! of the module is in [`abi`]. The module has no clock, reads no files and draws no random numbers of its own.

#![warn(unreachable_pub)]

pub mod abi;
mod call;
mod error;
mod limit;
mod protocols;
mod request;

pub use call::{Operation, call};
pub use error::CallError;
