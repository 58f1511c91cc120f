//! FLUTE: File Delivery over Unidirectional Transport (RFC 6726, 2012), over ALC (RFC 5775) and LCT (RFC 5651).
//!
//! The sender sends each file several times as symbols of an erasure code, and with them a table that names the
//! files. Nothing comes back: a receiver takes part at any time, collects symbols until a file is complete, and
//! misses what neither parity nor a later pass repairs. Broadcast networks of 3GPP and ATSC use it.
//!
//! It has plain sessions only, so it is not in the registry of protocols for sessions of Carillon.
//! `docs/protocols/flute.md` lists what is left out.

mod code;
mod config;
mod content;
mod partition;
mod plain;
mod receiver;
mod sender;
mod states;

use carillon_core::{
    About, ConfigError, DeliveryProperties, HeaderBytes, Order, PacketProperties, ProtocolEntry, Role,
    StudyProperties,
};
use carillon_wire::alc::Identifiers;

pub use receiver::FluteReceiver;
pub use sender::FluteSender;

/// Entry of FLUTE.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "flute",
    about: About {
        family: "best effort, without feedback",
        summary: "File Delivery over Unidirectional Transport: a carousel of files with parity, in plain sessions",
        reference: "RFC 6726",
    },
    roles: &[Role::Sender, Role::Receiver],
    delivery: DeliveryProperties {
        order: Order::Arrival,
        confirmed: false,
        waits: false,
        // A file that neither parity nor the carousel repairs is lost.
        repairs: false,
        ..ProtocolEntry::PLAIN.delivery
    },
    plain: Some(&plain::PLAIN),
    packets: PacketProperties {
        header_bytes: |_| HeaderBytes::all(config::HEADER_LEN),
        format: &carillon_wire::alc::FORMAT,
        ..ProtocolEntry::PLAIN.packets
    },
    parameters: config::PARAMETERS,
    study: StudyProperties { states: states::STATES, ..ProtocolEntry::PLAIN.study },
    build: |role, context, settings| match role {
        Role::Sender => Ok(Box::new(FluteSender::new(false, context, settings)?)),
        Role::Receiver => {
            let tsi = match settings.count("tsi") {
                0 => Identifiers::session_of(context.association),
                tsi => tsi,
            };
            Ok(Box::new(FluteReceiver::new(tsi, false, context, settings)?))
        }
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..ProtocolEntry::PLAIN
};
