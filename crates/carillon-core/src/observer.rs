//! Observers of a run: traces, metrics, packet captures.

use std::fmt;

use bytes::Bytes;

use crate::{Dest, Event, Machine, NodeId, Notice, Time};

/// Direction of a link: from the node that sends to the node that receives. Its text is `3>7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkDirection {
    /// Sending end.
    pub from: NodeId,
    /// Receiving end.
    pub to: NodeId,
}

impl fmt::Display for LinkDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}>{}", self.from.0, self.to.0)
    }
}

/// Frame of an event: link, datagram, and its times on the link.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Link, if the network has links.
    pub link: Option<LinkDirection>,
    /// Datagram in the frame.
    pub bytes: &'a Bytes,
    /// Times of a frame that the network carries.
    pub passage: Option<Passage>,
    /// True if the frame carries the first transmission of a message, as far as the network was informed
    /// ([`Transmit::original`](crate::Transmit)).
    pub original: bool,
}

impl<'a> Frame<'a> {
    /// Frame of which only the link and the datagram are known.
    pub const fn new(link: Option<LinkDirection>, bytes: &'a Bytes) -> Self {
        Frame { link, bytes, passage: None, original: false }
    }

    /// Adds the times on the link.
    pub const fn passing(self, passage: Passage) -> Self {
        Frame { passage: Some(passage), ..self }
    }

    /// Marks the frame as the first transmission of a message.
    pub const fn original(self, original: bool) -> Self {
        Frame { original, ..self }
    }
}

/// Times of a frame on its link or shared medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Time at which the first bit leaves the sending end.
    pub starts: Time,
    /// Time at which the last bit reaches the receiving end. A lost frame would have reached it at this time.
    pub arrives: Time,
}

/// Way in which a machine handles a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// The machine sends it.
    Sent,
    /// The machine receives it as its destination.
    Received,
    /// The machine is a relay and rewrites, redirects or absorbs it in transit.
    Diverted,
}

/// Observer of a run. The simulator and the UDP driver report to the same observers, so that simulated and real runs
/// are measured and captured alike.
pub trait Observer: Send {
    /// Records an event at a node.
    fn event(&mut self, time: Time, node: NodeId, event: &Event);

    /// Records a notice of a machine. Reactions to a machine depend on notices only, never on events.
    fn notice(&mut self, _time: Time, _node: NodeId, _notice: &Notice) {}

    /// Returns true if the observer records how many messages machines keep; otherwise the driver does not ask them.
    fn watches_held(&self) -> bool {
        false
    }

    /// Records the number of messages that a machine keeps after a call ([`Machine::held`](crate::Machine::held)), if
    /// watched and if it has changed. An observer of [packets](Observer::watches_packets) gets it after every call.
    fn held(&mut self, _time: Time, _node: NodeId, _messages: u64) {}

    /// Returns true if the observer records the packets that machines handle; otherwise the simulator does not report
    /// them.
    fn watches_packets(&self) -> bool {
        false
    }

    /// Records a packet that a machine handles, if watched. Packets that only pass a relay are not reported.
    fn handled(&mut self, _time: Time, _node: NodeId, _handling: Handling) {}

    /// Returns true if the observer records receptions ([`Event::Received`]), which are a large part of all events;
    /// otherwise the simulator may leave them out.
    fn watches_receptions(&self) -> bool {
        true
    }

    /// Returns true if the observer wants to know the frame of each event about one ([`frame`](Observer::frame));
    /// otherwise drivers may leave it out.
    fn watches_frames(&self) -> bool {
        false
    }

    /// Returns true if the observer distinguishes datagrams of equal contents by the buffers that they are in. Such a
    /// run is not simulated in parts, because parts share no buffers.
    fn watches_buffers(&self) -> bool {
        false
    }

    /// Describes the frame of the next event.
    fn frame(&mut self, _frame: &Frame<'_>) {}

    /// Records an event about a frame. The networks call this for each hop, so it is one call.
    fn frame_event(&mut self, time: Time, node: NodeId, event: &Event, frame: &Frame<'_>) {
        self.frame(frame);
        self.event(time, node, event);
    }

    /// Returns true if the observer records the states and deadlines of machines; otherwise the simulator does not show
    /// them.
    fn watches_machines(&self) -> bool {
        false
    }

    /// Records the states of a machine after a call ([`Machine::report_states`]) and its deadline, the time at which it
    /// wants to be called next, if watched.
    fn machine(&mut self, _time: Time, _node: NodeId, _machine: &dyn Machine, _deadline: Option<Time>) {}

    /// Records a datagram that left a node's interface at this time.
    fn datagram(&mut self, _time: Time, _from: NodeId, _to: &Dest, _bytes: &Bytes) {}

    /// Returns true if the run must stop at once, within an event. The driver asks at intervals while one machine
    /// emits many datagrams.
    fn stops(&mut self) -> bool {
        false
    }
}

/// Observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn event(&mut self, _time: Time, _node: NodeId, _event: &Event) {}

    fn watches_receptions(&self) -> bool {
        false
    }
}

/// Implements the trait for a pointer: every call reaches the observer behind it.
macro_rules! forward {
    ($pointer:ty) => {
        impl<T: Observer + ?Sized> Observer for $pointer {
            fn event(&mut self, time: Time, node: NodeId, event: &Event) {
                (**self).event(time, node, event);
            }
            fn notice(&mut self, time: Time, node: NodeId, notice: &Notice) {
                (**self).notice(time, node, notice);
            }
            fn watches_held(&self) -> bool {
                (**self).watches_held()
            }
            fn held(&mut self, time: Time, node: NodeId, messages: u64) {
                (**self).held(time, node, messages);
            }
            fn watches_packets(&self) -> bool {
                (**self).watches_packets()
            }
            fn handled(&mut self, time: Time, node: NodeId, handling: Handling) {
                (**self).handled(time, node, handling);
            }
            fn watches_receptions(&self) -> bool {
                (**self).watches_receptions()
            }
            fn watches_frames(&self) -> bool {
                (**self).watches_frames()
            }
            fn watches_buffers(&self) -> bool {
                (**self).watches_buffers()
            }
            fn frame(&mut self, frame: &Frame<'_>) {
                (**self).frame(frame);
            }
            fn frame_event(&mut self, time: Time, node: NodeId, event: &Event, frame: &Frame<'_>) {
                (**self).frame_event(time, node, event, frame);
            }
            fn watches_machines(&self) -> bool {
                (**self).watches_machines()
            }
            fn machine(&mut self, time: Time, node: NodeId, machine: &dyn Machine, deadline: Option<Time>) {
                (**self).machine(time, node, machine, deadline);
            }
            fn datagram(&mut self, time: Time, from: NodeId, to: &Dest, bytes: &Bytes) {
                (**self).datagram(time, from, to, bytes);
            }
            fn stops(&mut self) -> bool {
                (**self).stops()
            }
        }
    };
}

forward!(&mut T);
forward!(Box<T>);

/// Several observers, called in order.
impl<T: Observer> Observer for Vec<T> {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        for observer in self {
            observer.event(time, node, event);
        }
    }
    fn notice(&mut self, time: Time, node: NodeId, notice: &Notice) {
        for observer in self {
            observer.notice(time, node, notice);
        }
    }
    fn watches_held(&self) -> bool {
        self.iter().any(T::watches_held)
    }
    fn held(&mut self, time: Time, node: NodeId, messages: u64) {
        for observer in self {
            observer.held(time, node, messages);
        }
    }
    fn watches_packets(&self) -> bool {
        self.iter().any(T::watches_packets)
    }
    fn handled(&mut self, time: Time, node: NodeId, handling: Handling) {
        for observer in self {
            observer.handled(time, node, handling);
        }
    }
    fn watches_receptions(&self) -> bool {
        self.iter().any(T::watches_receptions)
    }
    fn watches_frames(&self) -> bool {
        self.iter().any(T::watches_frames)
    }
    fn watches_buffers(&self) -> bool {
        self.iter().any(T::watches_buffers)
    }
    fn frame(&mut self, frame: &Frame<'_>) {
        for observer in self {
            observer.frame(frame);
        }
    }
    fn watches_machines(&self) -> bool {
        self.iter().any(T::watches_machines)
    }
    fn machine(&mut self, time: Time, node: NodeId, machine: &dyn Machine, deadline: Option<Time>) {
        for observer in self {
            observer.machine(time, node, machine, deadline);
        }
    }
    fn datagram(&mut self, time: Time, from: NodeId, to: &Dest, bytes: &Bytes) {
        for observer in self {
            observer.datagram(time, from, to, bytes);
        }
    }
    fn stops(&mut self) -> bool {
        self.iter_mut().any(T::stops)
    }
}
