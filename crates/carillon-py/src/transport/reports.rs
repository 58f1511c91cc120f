//! Reports and events as Python dictionaries; the package makes its report classes from them.

use std::net::SocketAddr;

use carillon_transfer::{ReceiveEvent, ReceiveReport, ReceiverReport, SendEvent, SendReport, SenderReport};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

/// Dictionary with these items.
macro_rules! dict {
    ($py:expr, $($name:literal: $value:expr),* $(,)?) => {{
        let dict = PyDict::new($py);
        $(dict.set_item($name, $value)?;)*
        dict
    }};
}

fn text(address: Option<SocketAddr>) -> Option<String> {
    address.map(|address| address.to_string())
}

fn list<'py, T>(
    py: Python<'py>,
    items: &[T],
    describe: impl Fn(&T) -> PyResult<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, items.iter().map(describe).collect::<PyResult<Vec<_>>>()?)
}

/// Report of a sender.
pub fn sent<'py>(py: Python<'py>, report: &SendReport) -> PyResult<Bound<'py, PyDict>> {
    let unserved = |one: &carillon_transfer::UnservedReport| {
        Ok(dict!(py, "name": &one.name, "address": text(one.address), "reason": one.reason.to_string()))
    };
    let skipped = |one: &carillon_transfer::Skipped| {
        Ok(dict!(py, "path": &one.path, "reason": one.reason.to_string(), "intended": one.reason.is_wanted()))
    };
    Ok(dict!(py,
        "is_success": report.is_success(),
        "protocol": report.protocol,
        "files": report.files,
        "bytes": report.bytes,
        "resumed": report.resumed,
        "time_s": report.time.as_secs_f64(),
        "goodput_bps": report.goodput,
        "repairs": report.sent.repairs,
        "datagrams_sent": report.sent.datagrams_sent,
        "bytes_sent": report.sent.bytes_sent,
        "sessions": report.sessions,
        "receivers": list(py, &report.receivers, |one| receiver(py, one))?,
        "unserved": list(py, &report.unserved, unserved)?,
        "more_unserved": report.more_unserved,
        "more_missing": report.more_missing,
        "withdrawn": &report.omitted.withdrawn,
        "skipped": list(py, &report.omitted.skipped, skipped)?,
        "failure": &report.failure,
    ))
}

fn receiver<'py>(py: Python<'py>, one: &ReceiverReport) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(py,
        "name": &one.name,
        "address": text(one.address),
        "outcome": one.outcome.name(),
        "reason": one.outcome.reason(),
        "bytes": one.bytes,
        "repairs": one.repairs,
        "loss": one.loss,
        "time_s": one.time.map(|time| time.as_secs_f64()),
        "waited_s": one.waited.as_secs_f64(),
    ))
}

/// Report of a receiver.
pub fn received<'py>(py: Python<'py>, report: &ReceiveReport) -> PyResult<Bound<'py, PyDict>> {
    let sender = |one: &SenderReport| {
        let failure = one.outcome.as_ref().and_then(|outcome| outcome.as_ref().err());
        Ok(dict!(py, "name": &one.name, "files": one.files, "bytes": one.bytes, "failure": failure))
    };
    Ok(dict!(py,
        "is_success": report.is_success(),
        "sender": &report.sender,
        "failure": report.outcome.as_ref().err(),
        "acknowledged": report.acknowledged,
        "files": report.files,
        "bytes": report.bytes,
        "resumed": report.resumed,
        "messages": report.messages,
        "time_s": report.time.as_secs_f64(),
        "senders": list(py, &report.senders, sender)?,
        "unstored": &report.unstored,
    ))
}

/// Event of a sender; `None` for one that the package does not show.
pub fn send_event<'py>(py: Python<'py>, event: &SendEvent) -> PyResult<Option<Bound<'py, PyDict>>> {
    Ok(Some(match event {
        SendEvent::Joined { name, address, attached } => {
            let attached = PyBytes::new(py, attached);
            dict!(py, "event": "joined", "name": name, "address": text(*address), "attached": attached)
        }
        SendEvent::Left { name } => dict!(py, "event": "left", "name": name),
        SendEvent::Unserved { name, address, reason } => {
            dict!(py, "event": "unserved", "name": name, "address": text(*address), "reason": reason.to_string())
        }
        SendEvent::Rival { name, address } => {
            dict!(py, "event": "rival", "name": name, "address": text(*address))
        }
        SendEvent::Gone { name, after, waited, outcome } => dict!(py,
            "event": "gone",
            "name": name,
            "outcome": outcome.name(),
            "reason": outcome.reason(),
            "after_s": after.as_secs_f64(),
            "waited_s": waited.as_secs_f64(),
        ),
        SendEvent::Missing { names, more, joined } => {
            dict!(py, "event": "missing", "names": names, "more": more, "joined": joined)
        }
        SendEvent::Shorter { datagram, name } => {
            dict!(py, "event": "shorter", "name": name, "datagram": datagram)
        }
        SendEvent::Unreached { datagram, name } => {
            dict!(py, "event": "unreached", "name": name, "datagram": datagram)
        }
        SendEvent::Started => dict!(py, "event": "started"),
        SendEvent::Progress { phase, bytes, total } => {
            dict!(py, "event": "progress", "phase": phase.name(), "bytes": bytes, "total": total)
        }
        _ => return Ok(None),
    }))
}

/// Event of a receiver; `None` for one that the package does not show.
pub fn receive_event<'py>(py: Python<'py>, event: &ReceiveEvent) -> PyResult<Option<Bound<'py, PyDict>>> {
    Ok(Some(match event {
        ReceiveEvent::Joined { sender, member } => {
            dict!(py, "event": "joined", "sender": sender, "member": member)
        }
        ReceiveEvent::Gone { name, reason } => dict!(py, "event": "gone", "name": name, "reason": reason),
        ReceiveEvent::File { sender, path, bytes, digest } => dict!(py,
            "event": "file",
            "sender": sender,
            "path": path,
            "bytes": bytes,
            "digest": PyBytes::new(py, digest),
        ),
        ReceiveEvent::Progress { bytes, total } => {
            dict!(py, "event": "progress", "bytes": bytes, "total": total)
        }
        ReceiveEvent::Members { names } => dict!(py, "event": "members", "names": names),
        ReceiveEvent::Serving { members } => dict!(py, "event": "serving", "members": members),
        _ => return Ok(None),
    }))
}
