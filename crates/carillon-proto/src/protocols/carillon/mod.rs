//! Carillon's own delivery protocol: blocks with an erasure code, and receivers that say how much they lack.
//!
//! Messages go out at once as they come; a block is a run of them that is closed when it is long enough, or when nothing more comes. Then
//! its receivers are asked, and as many packets go out as the one that lacks most needs, each of which serves everybody: exclusive ors of messages of
//! which nobody lacks two, or coded symbols where it is not known who lacks what. `docs/protocols/carillon.md` is its specification.

mod arrivals;
mod asking;
mod blocks;
mod config;
mod context;
#[cfg(test)]
mod crowd_tests;
mod describe;
#[cfg(test)]
mod forged_tests;
mod one_way;
mod receiver;
mod sender;
#[cfg(test)]
mod test_net;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod withheld_tests;

use carillon_core::{Config, ConfigError, HeaderBytes, OneWay, Order, ProtocolEntry, Role};
use carillon_wire::carillon::{DATA_HEADER_LEN, MAX_POSITIONS_LEN, REPAIR_HEADER_LEN, XOR_LEN};

use crate::blocks::{Shape, xor};

pub use one_way::OneWaySender;
pub use receiver::CarillonReceiver;
pub use sender::CarillonSender;

/// Carillon's own.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "carillon",
    family: "hybrid: combined and coded repairs on request, by rounds",
    summary: "Carillon's own: receivers say what they lack of a block, and sums of messages or coded symbols serve all of them",
    reference: "Carillon's own; docs/protocols/carillon.md",
    roles: &[Role::Sender, Role::Receiver],
    order: Order::Source,
    unordered_with: Some(("order", "arrival")),
    confirmed: true,
    // Of a block of 1000 messages more than a sixth may be lost.
    one_way: Some(OneWay {
        key: "feedback",
        value: "none",
        rate: "rate",
        redundancy: ("redundancy", "25 %"),
    }),
    waits: true,
    // In whatever order, and past what never comes.
    overheard_with: Some(&[("order", "arrival"), ("past_limit", "skip")]),
    // A symbol says how long its message is, and has an even number of bytes; a sum says so too, and of which messages it is.
    header_bytes: |_| HeaderBytes {
        data: DATA_HEADER_LEN,
        max: (REPAIR_HEADER_LEN + Shape::size_for(1) - 1)
            .max(XOR_LEN + MAX_POSITIONS_LEN + xor::sum(std::iter::empty()).len()),
    },
    format: &carillon_wire::carillon::FORMAT,
    parameters: config::PARAMETERS,
    delivery_settings: config::DELIVERY_SETTINGS,
    live_settings: config::LIVE_SETTINGS,
    host_settings: config::HOST_SETTINGS,
    build: |role, context, settings| match role {
        Role::Receiver => Ok(Box::new(CarillonReceiver::new(context, settings))),
        Role::Sender if is_one_way(settings) => Ok(Box::new(OneWaySender::new(context, settings)?)),
        Role::Sender => Ok(Box::new(CarillonSender::new(context, settings)?)),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..describe::DESCRIBED
};

/// Whether nobody answers.
fn is_one_way(settings: &Config) -> bool {
    !ENTRY.confirms(settings)
}

/// Numbers on the wire have 32 bits.
const MODULUS: u64 = 1 << 32;
