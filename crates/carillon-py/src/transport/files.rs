//! Transfers of files.

use std::path::PathBuf;
use std::sync::Arc;

use carillon_transfer::options::Scope;
use carillon_transfer::{Handle, ReceiveEvent, ReceiveReport, SendEvent, SendReport};
use pyo3::prelude::*;

use super::options::{Given, ReceiveOptions, SendOptions, seconds, signing_key, socket, trusted_key};
use super::reports;
use super::task::Task;
use crate::error::transport_error;

/// A transfer in progress. It is aborted with the object.
#[pyclass(frozen, module = "carillon._carillon")]
pub struct Transfer(Direction);

enum Direction {
    Send(Arc<Handle<SendEvent, SendReport>>),
    Receive(Arc<Handle<ReceiveEvent, ReceiveReport>>),
}

#[pymethods]
impl Transfer {
    /// Awaits the next event; `None` after the last one.
    fn event(&self) -> Task {
        match &self.0 {
            Direction::Send(handle) => {
                let events = handle.events();
                Task::new(async move { events.next().await }, |py, event| match event {
                    Some(event) => Ok(reports::send_event(py, &event)?.into_pyobject(py)?.unbind()),
                    None => Ok(py.None()),
                })
            }
            Direction::Receive(handle) => {
                let events = handle.events();
                Task::new(async move { events.next().await }, |py, event| match event {
                    Some(event) => Ok(reports::receive_event(py, &event)?.into_pyobject(py)?.unbind()),
                    None => Ok(py.None()),
                })
            }
        }
    }

    /// Awaits the end and returns the report.
    fn report(&self) -> Task {
        match &self.0 {
            Direction::Send(handle) => {
                let handle = handle.clone();
                Task::new(async move { handle.report().await }, |py, report| {
                    Ok(reports::sent(py, &report.map_err(transport_error)?)?.into_any().unbind())
                })
            }
            Direction::Receive(handle) => {
                let handle = handle.clone();
                Task::new(async move { handle.report().await }, |py, report| {
                    Ok(reports::received(py, &report.map_err(transport_error)?)?.into_any().unbind())
                })
            }
        }
    }

    /// Requests the end of the transfer. The other members are notified; the report follows shortly.
    fn abort(&self) {
        match &self.0 {
            Direction::Send(handle) => handle.abort(),
            Direction::Receive(handle) => handle.abort(),
        }
    }
}

/// Starts sending files and directories.
#[pyfunction]
pub fn start_send(paths: Vec<PathBuf>, options: Given, own: SendOptions) -> PyResult<Transfer> {
    let mut send = socket(Scope::Send, options, own.key)?.send(paths);
    // A wait changes how long the sender gathers receivers, so the receivers come first.
    if let Some(time) = own.wait {
        send = send.wait(seconds("wait", time)?);
    }
    if let Some(name) = own.rename {
        send = send.named(name);
    }
    if let Some(path) = own.sign_key {
        send = send.sign(signing_key(path)?);
    }
    Ok(Transfer(Direction::Send(Arc::new(send.start()))))
}

/// Starts receiving one job into a directory.
#[pyfunction]
pub fn start_receive(directory: PathBuf, options: Given, own: ReceiveOptions) -> PyResult<Transfer> {
    let mut receive = socket(Scope::Recv, options, own.key)?.receive(directory);
    if own.overwrite {
        receive = receive.overwrite();
    }
    if let Some(sender) = own.sender {
        receive = receive.listening_to(sender);
    }
    for path in own.trust.unwrap_or_default() {
        receive = receive.trust(trusted_key(path)?);
    }
    Ok(Transfer(Direction::Receive(Arc::new(receive.start()))))
}
