//! Options of a transfer: the table's by name, and others in dictionaries. `None` stands for the default.

use std::path::PathBuf;
use std::time::Duration;

use carillon_transfer::options::{Notation, OptionError, Scope};
use carillon_transfer::socket::{Socket, bind};
use carillon_transfer::{DEFAULT_GROUP, Key, SigningKey, VerifyingKey};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Options of the table that were given, with their values in text notation.
pub type Given = Vec<(String, String)>;

/// Creates a socket with these options of the table, which `scope` takes, and the key of this file.
pub fn socket(scope: Scope, options: Given, key: Option<PathBuf>) -> PyResult<Socket> {
    let mut socket = bind(DEFAULT_GROUP.parse().map_err(bad)?);
    for (name, text) in options {
        let set = socket.option_of(scope, &name, &text, Notation::Text);
        socket = set.map_err(|error| match error {
            OptionError::Unknown(_) => PyTypeError::new_err(format!("unknown option: {name}")),
            OptionError::Invalid(expected) => bad(format!("{name}={text:?}: {expected}")),
        })?;
    }
    Ok(match key {
        Some(path) => socket.key(Key::read(path).map_err(bad)?.key),
        None => socket,
    })
}

/// Further options of a sender of files.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct SendOptions {
    pub key: Option<PathBuf>,
    pub wait: Option<f64>,
    pub rename: Option<String>,
    pub sign_key: Option<PathBuf>,
}

/// Further options of a receiver of files.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct ReceiveOptions {
    pub key: Option<PathBuf>,
    pub overwrite: bool,
    pub sender: Option<String>,
    pub trust: Option<Vec<PathBuf>>,
}

/// Duration of a number of seconds.
pub fn seconds(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| bad(format!("{name}={seconds}: {error}")))
}

/// Signing key of a file.
pub fn signing_key(path: PathBuf) -> PyResult<SigningKey> {
    SigningKey::read(path).map_err(bad)
}

/// Trusted key of a file.
pub fn trusted_key(path: PathBuf) -> PyResult<VerifyingKey> {
    VerifyingKey::read(path).map_err(bad)
}

fn bad(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
