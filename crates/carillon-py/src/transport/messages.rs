//! Messages: a sender, a listener, and the sessions that it accepts.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use carillon_transfer::options::Scope;
use carillon_transfer::socket::{self, Member};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::options::{self, Given};
use super::reports;
use super::task::Task;
use crate::error::transport_error;

/// A received message.
#[pyclass(frozen, module = "carillon", get_all)]
pub struct Message {
    /// Name of its sender.
    sender: String,
    /// Number among the messages of its sender, from 0.
    number: u64,
    /// Contents.
    data: Py<PyBytes>,
}

#[pymethods]
impl Message {
    fn __repr__(&self, py: Python<'_>) -> String {
        format!("Message({:?}, {}, {} bytes)", self.sender, self.number, self.data.as_bytes(py).len())
    }
}

impl Message {
    fn new(py: Python<'_>, message: &socket::Message) -> PyResult<Py<Message>> {
        let data = PyBytes::new(py, &message.bytes).unbind();
        Py::new(py, Message { sender: message.sender.to_string(), number: message.number, data })
    }
}

/// Place of a socket, which a call borrows until it ends or is cancelled.
struct Slot<T>(Arc<Mutex<Option<T>>>);

/// A borrowed socket. Its drop puts it back.
struct Borrowed<T> {
    value: Option<T>,
    slot: Arc<Mutex<Option<T>>>,
}

impl<T> Slot<T> {
    fn new(value: T) -> Self {
        Slot(Arc::new(Mutex::new(Some(value))))
    }

    /// Borrows the socket; an error if it was closed or another call uses it.
    fn borrow(&self) -> PyResult<Borrowed<T>> {
        let value = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let value = value.ok_or_else(|| PyRuntimeError::new_err("it was closed, or another call uses it"))?;
        Ok(Borrowed { value: Some(value), slot: self.0.clone() })
    }

    /// Takes the socket for good.
    fn take(&self) -> PyResult<T> {
        let mut borrowed = self.borrow()?;
        Ok(borrowed.value.take().expect("it is there until the drop"))
    }
}

impl<T> Deref for Borrowed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is there until the drop")
    }
}

impl<T> DerefMut for Borrowed<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is there until the drop")
    }
}

impl<T> Drop for Borrowed<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        }
    }
}

/// Name, address, and reason of absence of each member.
type Members = Vec<(String, Option<String>, Option<String>)>;

fn members(list: &[Member]) -> Members {
    let address = |member: &Member| member.address.map(|address| address.to_string());
    list.iter().map(|member| (member.name.clone(), address(member), member.gone.clone())).collect()
}

/// Sender of messages.
#[pyclass(frozen, module = "carillon._carillon")]
pub struct Outbound(Slot<socket::Outbound>);

/// Opens a session as its sender. The result is an [`Outbound`], once the receivers have joined.
#[pyfunction]
pub fn connect(options: Given, key: Option<PathBuf>) -> PyResult<Task> {
    let socket = options::socket(Scope::Socket, options, key)?;
    Ok(Task::new(socket.connect_async(), |py, outbound| {
        let outbound = outbound.map_err(transport_error)?;
        Ok(Py::new(py, Outbound(Slot::new(outbound)))?.into_any())
    }))
}

#[pymethods]
impl Outbound {
    /// Sends a message if the buffer has room; returns whether it had.
    fn try_send(&self, py: Python<'_>, message: &[u8]) -> PyResult<bool> {
        let mut outbound = self.0.borrow()?;
        py.detach(|| outbound.try_send(message)).map_err(transport_error)
    }

    /// Sends a message once the buffer has room.
    fn send(&self, message: Vec<u8>) -> PyResult<Task> {
        let mut outbound = self.0.borrow()?;
        Ok(Task::new(async move { outbound.send_async(&message).await }, |py, sent| {
            sent.map(|()| py.None()).map_err(transport_error)
        }))
    }

    /// Awaits the acknowledgment of all messages.
    fn settle(&self) -> PyResult<Task> {
        let mut outbound = self.0.borrow()?;
        Ok(Task::new(async move { outbound.settle_async().await }, |py, settled| {
            settled.map(|()| py.None()).map_err(transport_error)
        }))
    }

    fn members(&self) -> PyResult<Members> {
        Ok(members(self.0.borrow()?.members()))
    }

    /// Ends the session and awaits its report.
    fn close(&self) -> PyResult<Task> {
        let outbound = self.0.take()?;
        Ok(Task::new(outbound.close_async(), |py, report| {
            Ok(reports::sent(py, &report.map_err(transport_error)?)?.into_any().unbind())
        }))
    }

    /// Leaves at once; messages that were not delivered are lost.
    fn leave<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let outbound = self.0.take()?;
        let report = py.detach(|| outbound.leave()).map_err(transport_error)?;
        Ok(reports::sent(py, &report)?.into_any())
    }
}

/// Receiver of sessions.
#[pyclass(frozen, module = "carillon._carillon")]
pub struct Listener {
    listener: Slot<socket::Listener>,
    stopper: socket::Stopper,
}

/// Opens the sockets of a listener.
#[pyfunction]
pub fn listen(py: Python<'_>, options: Given, key: Option<PathBuf>) -> PyResult<Listener> {
    let socket = options::socket(Scope::Recv, options, key)?;
    let listener = py.detach(|| socket.listen()).map_err(transport_error)?;
    Ok(Listener { stopper: listener.stopper(), listener: Slot::new(listener) })
}

#[pymethods]
impl Listener {
    /// Awaits the next session.
    fn accept(&self) -> PyResult<Task> {
        let mut listener = self.listener.borrow()?;
        Ok(Task::new(async move { listener.accept_async().await }, |py, inbound| {
            let inbound = inbound.map_err(transport_error)?;
            let sender = inbound.sender().to_owned();
            Ok(Py::new(py, Inbound { inbound: Slot::new(inbound), sender })?.into_any())
        }))
    }

    /// Ends the current session and refuses further ones.
    fn stop(&self) {
        self.stopper.stop();
    }
}

/// A session at a receiver.
#[pyclass(frozen, module = "carillon._carillon")]
pub struct Inbound {
    inbound: Slot<socket::Inbound>,
    #[pyo3(get)]
    sender: String,
}

#[pymethods]
impl Inbound {
    /// Returns the next message if one is here.
    fn try_recv(&self, py: Python<'_>) -> PyResult<Option<Py<Message>>> {
        let mut inbound = self.inbound.borrow()?;
        let message = py.detach(|| inbound.try_recv());
        message.map(|message| Message::new(py, &message)).transpose()
    }

    /// Awaits the next message; `None` after the last one.
    fn recv(&self) -> PyResult<Task> {
        let mut inbound = self.inbound.borrow()?;
        Ok(Task::new(async move { inbound.recv_async().await }, |py, message| {
            match message.map_err(transport_error)? {
                Some(message) => Ok(Message::new(py, &message)?.into_any()),
                None => Ok(py.None()),
            }
        }))
    }

    fn members(&self) -> PyResult<Members> {
        Ok(members(self.inbound.borrow()?.members()))
    }

    /// Leaves at once and notifies the other members.
    fn leave<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let inbound = self.inbound.take()?;
        let report = py.detach(|| inbound.leave()).map_err(transport_error)?;
        Ok(reports::received(py, &report)?.into_any())
    }
}
