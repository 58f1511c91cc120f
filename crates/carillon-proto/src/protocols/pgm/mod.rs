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
mod source_parity;
mod states;
#[cfg(test)]
mod tests;

use carillon_core::{ConfigError, HeaderBytes, Order, ProtocolEntry, Role};
use carillon_wire::pgm::DATA_HEADER_LEN;

pub use receiver::PgmReceiver;
pub use relay::PgmRelay;
pub use source::PgmSource;

/// Registry entry of Pragmatic General Multicast.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "pgm",
    family: "receiver-driven, negative acknowledgment, repair by the source with the help of routers",
    summary: "Pragmatic General Multicast: routers merge requests and send repairs to the requesters only",
    reference: "RFC 3208",
    roles: &[Role::Sender, Role::Receiver, Role::Relay],
    order: Order::Source,
    confirmed: false,
    waits: false,
    header_bytes: |settings| HeaderBytes {
        data: DATA_HEADER_LEN,
        max: match settings.choice("parity") {
            "none" => DATA_HEADER_LEN,
            _ => DATA_HEADER_LEN + parity::OVERHEAD,
        },
    },
    format: &carillon_wire::pgm::FORMAT,
    parameters: config::PARAMETERS,
    delivery_settings: config::DELIVERY_SETTINGS,
    build: |role, context, settings| match role {
        Role::Sender => Ok(Box::new(PgmSource::new(context, settings)?)),
        Role::Receiver => Ok(Box::new(PgmReceiver::new(context, settings)?)),
        Role::Relay => Ok(Box::new(PgmRelay::new(context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    plain: Some(&plain::PLAIN),
    states: states::STATES,
    ..ProtocolEntry::PLAIN
};
