//! Scenario files: descriptions of the simulations to run.
//!
//! A [`ScenarioFile`] is a TOML document with sweeps. At each sweep point it resolves to one [`Scenario`], in which
//! every value is known. A Segovia command file is first translated to TOML, so that both formats are resolved by the
//! same code.

mod document;
mod error;
mod failures;
mod file;
mod generators;
mod group;
mod helpers;
mod inputs;
mod loss;
mod network;
mod precision;
mod read;
mod regions;
mod resolve;
mod resolved;
mod star;
mod sweep;
mod topology;

use toml::Table;

pub use error::ScenarioError;
pub use file::ScenarioFile;
pub(crate) use generators::GENERATORS;
pub use inputs::{InputContents, InputError, Inputs, ReadInput};
pub use loss::register_loss;
pub use network::{
    DropPlaces, Drops, LinkKind, LossPlace, Outages, PlacedLoss, RoutedNetwork, ScenarioNetwork,
};
pub use precision::Precision;
pub use resolved::{Competition, Competitor, Death, Measurements, Reader, Scenario, Workload};
pub use sweep::{Axis, Point, number_of, text_of};
pub(crate) use topology::routers;

/// A document of keys with their sections, and values as they would be typed.
pub fn text_table(keys: &[(&str, &str)]) -> Table {
    let mut table = Table::new();
    keys.iter().for_each(|(key, value)| set(&mut table, key, value));
    table
}

/// Sets a key with its section to a value as it would be typed.
pub fn set(table: &mut Table, key: &str, value: &str) {
    sweep::set(table, key, sweep::value_of(value));
}
