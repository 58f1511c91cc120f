//! PGM: Pragmatic General Multicast (RFC 3208, 2001).
//!
//! Receivers request missing packets with negative acknowledgments (NAKs), which travel hop by hop along the network
//! elements towards the source. Each element confirms a NAK at once with an NCF, forwards one NAK for each packet,
//! and remembers the ports of all requesters, so that the repair reaches only those ports. The source does not know
//! its receivers.
//!
//! Papadopoulos compares a part of PGM with LMS and SRM. `docs/protocols/pgm.md` lists what is left out.

mod config;
mod identity;
mod parity;
mod plain;
mod receiver;
mod relay;
mod source;
mod states;
#[cfg(test)]
mod tests;

use carillon_core::{
    About, ConfigError, DefaultSettings, DeliveryProperties, HeaderBytes, Order, PacketProperties,
    ProtocolEntry, Role, StudyProperties,
};
use carillon_wire::pgm::{DATA_HEADER_LEN, ELECTION_LEN, ELECTION_LEN_IPV6};

pub use receiver::PgmReceiver;
pub use relay::PgmRelay;
pub use source::PgmSource;

/// Registry entry of Pragmatic General Multicast.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "pgm",
    about: About {
        family: "receiver-driven, negative acknowledgment, repair by the source with the help of routers",
        summary: "Pragmatic General Multicast: routers merge requests and send repairs to the requesters only",
        reference: "RFC 3208",
    },
    roles: &[Role::Sender, Role::Receiver, Role::Relay],
    delivery: DeliveryProperties {
        order: Order::Source,
        confirmed: false,
        waits: false,
        ..ProtocolEntry::PLAIN.delivery
    },
    plain: Some(&plain::PLAIN),
    packets: PacketProperties {
        header_bytes: |settings| {
            // Original data has the option of PGMCC; parity packets have their own.
            let (election, longest) = match settings.choice("congestion") {
                "none" => (0, 0),
                _ => (ELECTION_LEN, ELECTION_LEN_IPV6),
            };
            let parity = if settings.choice("parity") == "none" { 0 } else { parity::OVERHEAD };
            HeaderBytes { data: DATA_HEADER_LEN + election, max: DATA_HEADER_LEN + parity.max(longest) }
        },
        format: &carillon_wire::pgm::FORMAT,
        ..ProtocolEntry::PLAIN.packets
    },
    parameters: config::PARAMETERS,
    settings: DefaultSettings { delivery: config::DELIVERY_SETTINGS, ..ProtocolEntry::PLAIN.settings },
    study: StudyProperties { states: states::STATES, ..ProtocolEntry::PLAIN.study },
    build: |role, context, settings| match role {
        Role::Sender => Ok(Box::new(PgmSource::new(context, settings)?)),
        Role::Receiver => Ok(Box::new(PgmReceiver::new(context, settings)?)),
        Role::Relay => Ok(Box::new(PgmRelay::new(context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..ProtocolEntry::PLAIN
};
