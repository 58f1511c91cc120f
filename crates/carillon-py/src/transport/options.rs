//! Options of a transfer. Every key is there; `None` stands for the default.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use carillon_core::{BitRate, Probability};
use carillon_transfer::{End, History, Key, SigningKey, VerifyingKey};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Options of every end.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct NetworkOptions {
    group: Option<String>,
    interface: Option<String>,
    name: Option<String>,
    key: Option<PathBuf>,
    drop: Option<f64>,
    seed: Option<u64>,
}

impl NetworkOptions {
    /// Sets the options that were given.
    pub fn apply<W>(self, mut end: End<W>) -> PyResult<End<W>> {
        if let Some(group) = self.group {
            end = end.group(address(&group)?);
        }
        if let Some(interface) = self.interface {
            end = end.interface(interface);
        }
        if let Some(name) = self.name {
            end = end.name(name);
        }
        if let Some(path) = self.key {
            end = end.key(Key::read(path).map_err(bad)?.key);
        }
        if let Some(share) = self.drop {
            let wrong = || bad(format!("drop={share}: give a share from 0 to 1"));
            let share = Probability::new(share).ok_or_else(wrong)?;
            end = end.drop_arriving(share);
        }
        if let Some(seed) = self.seed {
            end = end.seed(seed);
        }
        Ok(end)
    }
}

/// Options of an end that opens a session.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct SessionOptions {
    pub protocol: Option<String>,
    pub settings: Vec<(String, String)>,
    pub expect: Option<Vec<String>>,
    pub receivers: Option<usize>,
    pub join_timeout: Option<f64>,
    pub timeout: Option<f64>,
    pub rate: Option<String>,
    pub hops: Option<u8>,
}

/// Options of a sender of messages.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct MessageOptions {
    pub history: Option<String>,
}

/// Options of a sender of files.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct SendOptions {
    pub wait: Option<f64>,
    pub rounds: Option<u32>,
    pub rename: Option<String>,
    pub sign_key: Option<PathBuf>,
}

/// Options of a receiver of files.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct ReceiveOptions {
    pub overwrite: bool,
    pub timeout: Option<f64>,
    pub sender: Option<String>,
    pub trust: Option<Vec<PathBuf>>,
}

/// Address and port of a group.
pub fn address(text: &str) -> PyResult<SocketAddr> {
    let what = || bad(format!("group={text:?}: give an address and a port, such as \"239.255.67.65:7654\""));
    text.parse().map_err(|_| what())
}

/// Duration of a number of seconds.
pub fn seconds(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| bad(format!("{name}={seconds}: {error}")))
}

/// Rate from text such as "10 Mbit/s".
pub fn rate(text: &str) -> PyResult<BitRate> {
    text.parse().map_err(|error| bad(format!("rate={text:?}: {error}")))
}

/// History from text such as "64 MiB" or "30 s".
pub fn history(text: &str) -> PyResult<History> {
    text.parse().map_err(|error| bad(format!("history={text:?}: {error}")))
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
