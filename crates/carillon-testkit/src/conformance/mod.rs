//! Conformance tests: a protocol is held to the guarantee of its entry, over random groups, losses and seeds, with
//! settings that it draws itself.
//!
//! The suite over the registry runs them many times; a protocol that is not in the registry can be tested alone with
//! [`run_of_each_test`].

pub mod acknowledged;
pub mod best_effort;
pub mod by_request;
mod runs;

use carillon_core::ProtocolEntry;

pub use runs::{lossy, same, with_drawn_settings};

/// Runs each test of a protocol's guarantee once with this seed. Protocols of peers have tests elsewhere.
///
/// # Errors
/// The first violation of the guarantee.
pub fn run_of_each_test(entry: &'static ProtocolEntry, seed: u64) -> Result<(), String> {
    acknowledged::run_of_each_test(entry, seed)?;
    best_effort::run_of_each_test(entry, seed)?;
    by_request::run_of_each_test(entry, seed)
}
