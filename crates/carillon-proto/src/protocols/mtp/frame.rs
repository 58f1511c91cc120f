//! Packets of a member: the parameters that all of them carry, and their headers.

use carillon_core::{AssociationId, Transmit};
use carillon_wire::mtp::{Acceptance, Body, Header, Packet, member_id};
use carillon_wire::reformation::Ranks;

use super::config::Settings;
use super::context::Context;
use super::order::Order;
use crate::blocks::reformation::To;

/// Parameters that all packets of a member carry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// Number of the view in MTP-2.
    pub view: Option<u32>,
    /// Heartbeat in milliseconds, higher while the web hibernates.
    pub heartbeat: u32,
    window: u16,
    retention: u16,
    /// Number of this transport among those of its node.
    instance: usize,
}

impl Frame {
    /// Creates the parameters of this view.
    pub fn new(settings: &Settings, view: Option<u32>, instance: usize) -> Self {
        Frame {
            view,
            heartbeat: settings.heartbeat.as_millis() as u32,
            window: settings.window,
            retention: settings.retention,
            instance,
        }
    }

    /// Suggests another window in the next packet.
    pub fn with_window(self, window: u16) -> Self {
        Frame { window, ..self }
    }

    /// Emits a packet with this acceptance record, on behalf of the member `source`.
    pub fn emit(
        &self,
        context: &Context,
        to: To,
        (source, subchannel): (usize, u8),
        acceptance: Acceptance,
        body: Body<'_>,
        buf: &mut Vec<u8>,
    ) {
        let web = context.association;
        let destination = match (to, &body) {
            // A newcomer does not know the web's members yet.
            (To::Group, Body::Join(..)) => 0,
            (To::Group, _) => web.0,
            (To::Rank(rank), _) => member_id(web, rank),
        };
        let Frame { view, heartbeat, window, retention, instance } = *self;
        let instance = if source == context.rank { instance } else { 0 };
        let source = transport_id(web, source, instance);
        let header =
            Header { view, subchannel, source, destination, acceptance, heartbeat, window, retention };
        Packet { header, body }.emit(buf);
    }

    /// Emits and records a control packet. Its record covers all messages known here.
    pub fn control(
        &self,
        context: &mut Context,
        order: &Order,
        to: To,
        body: Body<'_>,
        buf: &mut Vec<u8>,
    ) -> Transmit {
        self.control_at(context, order, to, order.horizon(), body, buf)
    }

    /// Like `control` with the record of the messages before `message`.
    pub fn control_at(
        &self,
        context: &mut Context,
        order: &Order,
        to: To,
        message: u64,
        body: Body<'_>,
        buf: &mut Vec<u8>,
    ) -> Transmit {
        context.control(body.name(), message);
        self.emit(context, to, (context.rank, 0), order.record(message, 0), body, buf);
        context.transmit(to)
    }
}

/// Connection identifier of a member's transport. A transport without the state of the one before is another one.
pub(super) fn transport_id(web: AssociationId, rank: usize, instance: usize) -> u32 {
    member_id(web, rank + instance * Ranks::CAPACITY)
}

/// Number of transports of a node that can be told apart.
pub(super) const INSTANCES: usize = 2;
