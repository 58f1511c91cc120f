//! Carillon's own delivery protocol: blocks with an erasure code, repaired from what polled receivers say is missing.
//!
//! The sender transmits messages as the application offers them and groups consecutive ones into a block. It closes a
//! block when the block is long enough or when no more messages come. Then it polls the receivers, and sends as many
//! repairs as the receiver with the most missing messages needs. Each repair serves every receiver: an exclusive or
//! of messages of which no receiver misses two, or a Reed-Solomon symbol if the sender does not know which messages
//! are missing.
//!
//! Sources: hybrid ARQ with parity on demand after Nonnenmacher, Biersack and Towsley 1998; erasure codes after RFC
//! 5510. The specification is `docs/protocols/carillon.md`.

mod arrivals;
mod blocks;
mod census;
mod config;
mod context;
#[cfg(test)]
mod crowd_tests;
#[cfg(test)]
mod forged_tests;
mod one_way;
mod polls;
mod receiver;
mod sender;
mod states;
#[cfg(test)]
mod test_net;
#[cfg(test)]
mod tests;
mod unconfirmed;
#[cfg(test)]
mod withheld_tests;

use carillon_core::{
    About, ConfigError, DefaultSettings, DeliveryProperties, HeaderBytes, Order, PacketProperties,
    ProtocolEntry, Role, SessionProperties, StudyProperties,
};
use carillon_wire::carillon::{DATA_HEADER_LEN, MAX_POSITIONS_LEN, REPAIR_HEADER_LEN, XOR_LEN};

use crate::blocks::{Shape, xor};

pub use one_way::OneWaySender;
pub use receiver::CarillonReceiver;
pub use sender::CarillonSender;

/// Registry entry of the protocol: name, parameters, builders and promises.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "carillon",
    about: About {
        family: "hybrid: combined and coded repairs on request, by rounds",
        summary: "Carillon's own: receivers report what they miss of a block, and XOR sums or coded symbols repair all losses at once",
        reference: "Carillon's own; docs/protocols/carillon.md",
    },
    roles: &[Role::Sender, Role::Receiver],
    delivery: DeliveryProperties {
        order: Order::Source,
        unordered_with: Some(config::UNORDERED),
        confirmed: true,
        one_way: Some(config::ONE_WAY),
        waits: true,
        ..ProtocolEntry::PLAIN.delivery
    },
    session: SessionProperties {
        // Accept messages in any order, and beyond messages that will never come.
        overheard_with: Some(&[config::UNORDERED, ("past_limit", "skip")]),
        ..ProtocolEntry::PLAIN.session
    },
    packets: PacketProperties {
        // A coded symbol states the length of its message and has an even number of bytes. A sum states the length too,
        // and names its messages.
        header_bytes: |_| HeaderBytes {
            data: DATA_HEADER_LEN,
            max: (REPAIR_HEADER_LEN + Shape::size_for(1) - 1)
                .max(XOR_LEN + MAX_POSITIONS_LEN + xor::sum(std::iter::empty()).len()),
        },
        format: &carillon_wire::carillon::FORMAT,
        ..ProtocolEntry::PLAIN.packets
    },
    parameters: config::PARAMETERS,
    settings: DefaultSettings {
        delivery: config::DELIVERY_SETTINGS,
        live: config::LIVE_SETTINGS,
        host: config::HOST_SETTINGS,
    },
    study: StudyProperties { states: states::STATES, ..ProtocolEntry::PLAIN.study },
    build: |role, context, settings| match role {
        Role::Receiver => Ok(Box::new(CarillonReceiver::new(context, settings))),
        Role::Sender if config::is_one_way(settings) => Ok(Box::new(OneWaySender::new(context, settings)?)),
        Role::Sender => Ok(Box::new(CarillonSender::new(context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..ProtocolEntry::PLAIN
};
