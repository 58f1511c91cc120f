//! Machine of a protocol that is written in Python.

use std::fmt;

use carillon_core::{
    Bytes, Delivery, Dest, DropReason, Event, Events, GroupId, Machine, MessageId, NodeId, OfferError,
    Outcome, Received, Receiver, Role, Sender, Time, Transmit,
};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyTuple};

use super::failure::note_failure;
use super::words::word;

/// A Python object with the methods of a machine (`carillon.SenderMachine`, `carillon.ReceiverMachine`).
pub struct PyMachine {
    object: Py<PyAny>,
    /// List in which the object records events; drained after each call.
    recorded: Py<PyList>,
    events: Events,
    role: Role,
    sender: NodeId,
    group: GroupId,
    max_payload: usize,
    /// True after `finish`.
    is_ending: bool,
    /// True after an exception: the machine does nothing more.
    has_failed: bool,
}

/// Datagram from Python: destination (`None` is the group), bytes, message, whether it is a repair, name of a packet
/// without a message.
type Packet = (Option<u32>, PyBackedBytes, Option<u64>, bool, Option<String>);

impl fmt::Debug for PyMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PyMachine").field("role", &self.role).finish_non_exhaustive()
    }
}

impl PyMachine {
    /// Wraps an object. `recorded` is its list of events.
    pub fn new(
        object: Py<PyAny>,
        recorded: Py<PyList>,
        role: Role,
        (sender, group): (NodeId, GroupId),
        max_payload: u32,
    ) -> Self {
        let (events, max_payload) = (Events::default(), max_payload as usize);
        PyMachine {
            object,
            recorded,
            events,
            role,
            sender,
            group,
            max_payload,
            is_ending: false,
            has_failed: false,
        }
    }

    /// Calls the object. After an exception, which the run reports, the result is that of a machine without work.
    fn call<T: Default>(&mut self, call: impl FnOnce(&mut Self, &Bound<'_, PyAny>) -> PyResult<T>) -> T {
        if self.has_failed {
            return T::default();
        }
        let result = Python::attach(|py| {
            let object = self.object.bind(py).clone();
            let result = call(self, &object)?;
            self.take_recorded(py)?;
            Ok(result)
        });
        result.unwrap_or_else(|error| {
            self.has_failed = true;
            note_failure(error);
            T::default()
        })
    }

    /// Moves the recorded events into the queue.
    fn take_recorded(&mut self, py: Python<'_>) -> PyResult<()> {
        let recorded = self.recorded.bind(py);
        if recorded.is_empty() {
            return Ok(());
        }
        for event in recorded.iter() {
            let event = event.cast_into::<PyTuple>()?;
            record(&mut self.events, self.sender, &event)?;
        }
        recorded.set_slice(0, recorded.len(), &PyList::empty(py))
    }

    fn transmit(&mut self, packet: Packet, buf: &mut Vec<u8>) -> PyResult<Transmit> {
        let (to, bytes, message, repair, control) = packet;
        buf.extend_from_slice(&bytes);
        let dest = to.map_or_else(|| Dest::group(self.group), |node| Dest::Node(NodeId(node)));
        let transmit = Transmit::now(dest);
        Ok(match (message, control) {
            (message, Some(packet)) => {
                self.events.control(word(&packet)?, MessageId(message.unwrap_or_default()));
                transmit
            }
            (Some(message), None) => self.events.data_sent(transmit, MessageId(message), bytes.len(), repair),
            (None, None) => {
                return Err(PyValueError::new_err(
                    "a packet has a message, or a name of its own (control=…)",
                ));
            }
        })
    }
}

/// Appends a recorded event: its name, then its values.
fn record(events: &mut Events, source: NodeId, event: &Bound<'_, PyTuple>) -> PyResult<()> {
    let name: String = event.get_item(0)?.extract()?;
    let text = |at: usize| event.get_item(at)?.extract::<String>();
    let number = |at: usize| event.get_item(at)?.extract::<u64>();
    let node = |at: usize| event.get_item(at)?.extract::<u32>().map(NodeId);
    match name.as_str() {
        "received" => events.received(word(&text(1)?)?, MessageId(number(2)?)),
        "dropped" => {
            let wanted = text(1)?;
            let reason = DropReason::VARIANTS.into_iter().find(|reason| reason.name() == wanted);
            events.dropped(reason.ok_or_else(|| {
                let known: Vec<&str> = DropReason::VARIANTS.into_iter().map(DropReason::name).collect();
                PyValueError::new_err(format!("no reason {wanted:?}; there are {}", known.join(", ")))
            })?);
        }
        "completed" => {
            let outcome = if number(2)? == 1 { Outcome::Acknowledged } else { Outcome::Failed };
            events.completed(MessageId(number(1)?), outcome, number(3)?.min(u32::MAX.into()) as u32);
        }
        "repair_needed" => events.repair_needed(node(1)?, number(2)?.min(u32::MAX.into()) as u32),
        "member_lost" => events.member_lost(node(1)?),
        "loss_found" => events.loss_found(source, MessageId(number(1)?)),
        "requested" => events.push(Event::Requested { source, message: MessageId(number(1)?) }),
        "loss_repaired" => events.push(Event::LossRepaired { source, message: MessageId(number(1)?) }),
        "loss_final" => events.loss_final(source, MessageId(number(1)?)),
        "request_suppressed" => events.push(Event::RequestSuppressed { message: MessageId(number(1)?) }),
        "timer_fired" => events.push(Event::TimerFired { timer: word(&text(1)?)? }),
        "state_changed" => events.push(Event::StateChanged { state: word(&text(1)?)? }),
        other => return Err(PyValueError::new_err(format!("no event {other:?}"))),
    }
    Ok(())
}

impl Machine for PyMachine {
    fn events(&mut self) -> Option<&mut Events> {
        Some(&mut self.events)
    }

    fn start(&mut self, now: Time) {
        self.call(|_, object| {
            object.call_method1(intern!(object.py(), "start"), (now.as_nanos(),)).map(drop)
        });
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        self.call(|_, object| {
            let bytes = PyBytes::new(object.py(), datagram.bytes);
            let arguments = (now.as_nanos(), datagram.source.0, bytes);
            object.call_method1(intern!(object.py(), "handle_datagram"), arguments).map(drop)
        });
    }

    fn handle_timeout(&mut self, now: Time) {
        self.call(|_, object| {
            object.call_method1(intern!(object.py(), "handle_timeout"), (now.as_nanos(),)).map(drop)
        });
    }

    fn poll_timeout(&self) -> Option<Time> {
        if self.has_failed {
            return None;
        }
        let due = Python::attach(|py| {
            let due = self.object.bind(py).call_method0(intern!(py, "poll_timeout"))?;
            due.extract::<Option<u64>>()
        });
        match due {
            Ok(due) => due.map(Time::from_nanos),
            Err(error) => {
                note_failure(error);
                None
            }
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.call(|machine, object| {
            let packet = object.call_method1(intern!(object.py(), "poll_transmit"), (now.as_nanos(),))?;
            if packet.is_none() {
                return Ok(None);
            }
            machine.transmit(packet.extract()?, buf).map(Some)
        })
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        if self.role == Role::Sender { Some(self) } else { None }
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        if self.role == Role::Receiver { Some(self) } else { None }
    }
}

impl Sender for PyMachine {
    fn offer(&mut self, now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        if payload.len() > self.max_payload {
            return Err(OfferError::TooLarge { len: payload.len(), max: self.max_payload });
        }
        if self.is_ending {
            return Err(OfferError::Finished);
        }
        let taken = self.call(|_, object| {
            let payload = PyBytes::new(object.py(), &payload);
            let taken = object.call_method1(intern!(object.py(), "offer"), (now.as_nanos(), payload))?;
            taken.extract::<Option<u64>>()
        });
        taken.map(MessageId).ok_or(OfferError::Full)
    }

    fn finish(&mut self, now: Time) {
        self.is_ending = true;
        self.call(|_, object| {
            object.call_method1(intern!(object.py(), "finish"), (now.as_nanos(),)).map(drop)
        });
    }

    fn expel(&mut self, now: Time, member: NodeId) {
        self.call(|_, object| {
            object.call_method1(intern!(object.py(), "expel"), (now.as_nanos(), member.0)).map(drop)
        });
    }

    fn is_finished(&self) -> bool {
        let finished = Python::attach(|py| {
            self.object.bind(py).call_method0(intern!(py, "is_finished"))?.extract::<bool>()
        });
        finished.unwrap_or_else(|error| {
            note_failure(error);
            true
        })
    }
}

impl Receiver for PyMachine {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        let source = self.sender;
        let delivered = self.call(|_, object| {
            let delivered = object.call_method0(intern!(object.py(), "poll_delivery"))?;
            delivered.extract::<Option<(u64, PyBackedBytes)>>()
        });
        let (message, payload) = delivered?;
        let message = MessageId(message);
        self.events.push(Event::Delivered { source, message });
        Some(Delivery { source, message, payload: Bytes::copy_from_slice(&payload) })
    }
}
