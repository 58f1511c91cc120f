//! Those who watch a run: traces, metrics, packet captures.

use bytes::Bytes;

use crate::{Dest, Event, NodeId, Notice, Time};

/// Watches a run. Both drivers report to the same observers, so simulated and real runs are
/// measured and captured alike.
pub trait Observer: Send {
    /// Something happened at a node.
    fn event(&mut self, time: Time, node: NodeId, event: &Event);

    /// A machine told its host something. What is to happen because of what a machine does is decided by this, and
    /// never by an event.
    fn notice(&mut self, _time: Time, _node: NodeId, _notice: &Notice) {}

    /// Whether it watches what machines keep: else they are not asked.
    fn watches_held(&self) -> bool {
        false
    }

    /// So many messages a machine keeps, after what it did ([`Machine::held`](crate::Machine::held)), if this is watched.
    fn held(&mut self, _node: NodeId, _messages: u64) {}

    /// A datagram left a node's interface at this time.
    fn datagram(&mut self, _time: Time, _from: NodeId, _to: &Dest, _bytes: &Bytes) {}

    /// Whether the run is to stop at once, in the middle of an event: asked now and then while one machine gives out much.
    fn stops(&mut self) -> bool {
        false
    }
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn event(&mut self, _time: Time, _node: NodeId, _event: &Event) {}
}

impl<T: Observer + ?Sized> Observer for &mut T {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        (**self).event(time, node, event);
    }
    fn notice(&mut self, time: Time, node: NodeId, notice: &Notice) {
        (**self).notice(time, node, notice);
    }
    fn watches_held(&self) -> bool {
        (**self).watches_held()
    }
    fn held(&mut self, node: NodeId, messages: u64) {
        (**self).held(node, messages);
    }
    fn datagram(&mut self, time: Time, from: NodeId, to: &Dest, bytes: &Bytes) {
        (**self).datagram(time, from, to, bytes);
    }
    fn stops(&mut self) -> bool {
        (**self).stops()
    }
}

/// Several observers, told in order.
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
    fn held(&mut self, node: NodeId, messages: u64) {
        for observer in self {
            observer.held(node, messages);
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

impl<T: Observer + ?Sized> Observer for Box<T> {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        (**self).event(time, node, event);
    }
    fn notice(&mut self, time: Time, node: NodeId, notice: &Notice) {
        (**self).notice(time, node, notice);
    }
    fn watches_held(&self) -> bool {
        (**self).watches_held()
    }
    fn held(&mut self, node: NodeId, messages: u64) {
        (**self).held(node, messages);
    }
    fn datagram(&mut self, time: Time, from: NodeId, to: &Dest, bytes: &Bytes) {
        (**self).datagram(time, from, to, bytes);
    }
    fn stops(&mut self) -> bool {
        (**self).stops()
    }
}
