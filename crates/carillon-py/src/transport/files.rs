//! Transfers of files.

use std::path::PathBuf;
use std::sync::Arc;

use carillon_transfer::{Handle, ReceiveEvent, ReceiveReport, SendEvent, SendReport};
use pyo3::prelude::*;

use super::options::{
    NetworkOptions, ReceiveOptions, SendOptions, SessionOptions, rate, seconds, signing_key, trusted_key,
};
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
pub fn start_send(
    paths: Vec<PathBuf>,
    network: NetworkOptions,
    session: SessionOptions,
    options: SendOptions,
) -> PyResult<Transfer> {
    let mut send = network.apply(carillon_transfer::send(paths))?;
    if let Some(protocol) = session.protocol {
        send = send.protocol(protocol);
    }
    for (key, value) in session.settings {
        send = send.set(key, value);
    }
    // A wait changes how long the sender gathers receivers, so the receivers come first.
    if let Some(names) = session.expect {
        send = send.expect(names);
    } else if let Some(count) = session.receivers {
        send = send.receivers(count);
    }
    if let Some(time) = options.wait {
        send = send.wait(seconds("wait", time)?);
    }
    if let Some(time) = session.join_timeout {
        send = send.join_timeout(seconds("join_timeout", time)?);
    }
    if let Some(time) = session.timeout {
        send = send.timeout(seconds("timeout", time)?);
    }
    if let Some(text) = session.rate {
        send = send.rate(rate(&text)?);
    }
    if let Some(hops) = session.hops {
        send = send.hops(hops);
    }
    if let Some(rounds) = options.rounds {
        send = send.rounds(rounds);
    }
    if let Some(name) = options.rename {
        send = send.named(name);
    }
    if let Some(path) = options.sign_key {
        send = send.sign(signing_key(path)?);
    }
    Ok(Transfer(Direction::Send(Arc::new(send.start()))))
}

/// Starts receiving one job into a directory.
#[pyfunction]
pub fn start_receive(
    directory: PathBuf,
    network: NetworkOptions,
    options: ReceiveOptions,
) -> PyResult<Transfer> {
    let mut receive = network.apply(carillon_transfer::receive(directory))?;
    if options.overwrite {
        receive = receive.overwrite();
    }
    if let Some(time) = options.timeout {
        receive = receive.timeout(seconds("timeout", time)?);
    }
    if let Some(sender) = options.sender {
        receive = receive.listening_to(sender);
    }
    for path in options.trust.unwrap_or_default() {
        receive = receive.trust(trusted_key(path)?);
    }
    Ok(Transfer(Direction::Receive(Arc::new(receive.start()))))
}
