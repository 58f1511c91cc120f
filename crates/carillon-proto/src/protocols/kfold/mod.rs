//! K-fold repetition: a sender transmits every message several times, without feedback.
//!
//! The smallest protocol of the laboratory serves as an example of the parts of a protocol, and as the baseline for
//! protocols with repair. See `docs/protocols/kfold.md`.

mod machines;
#[cfg(test)]
mod tests;

use carillon_core::{
    About, ConfigError, DeliveryProperties, HeaderBytes, Kind, Order, PacketProperties, Parameter,
    ProtocolEntry, Role, States, StudyProperties,
};
use carillon_wire::kfold::{FORMAT, HEADER_LEN};

pub use machines::{KfoldReceiver, KfoldSender};

/// Registry entry of k-fold repetition.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "kfold",
    about: About {
        family: "best effort, without feedback",
        summary: "every message several times, some time apart; a message that is lost each time stays lost",
        reference: "Carillon's example",
    },
    roles: &[Role::Sender, Role::Receiver],
    delivery: DeliveryProperties {
        order: Order::Source,
        confirmed: false,
        waits: false,
        repairs: false,
        ..ProtocolEntry::PLAIN.delivery
    },
    packets: PacketProperties {
        header_bytes: |_| HeaderBytes::all(HEADER_LEN),
        format: &FORMAT,
        ..ProtocolEntry::PLAIN.packets
    },
    parameters: &[
        Parameter {
            former: None,
            name: "copies",
            kind: Kind::Count { min: 1, max: 1000 },
            default: "2",
            doc: "how often each message is sent",
        },
        Parameter {
            former: None,
            name: "interval",
            kind: Kind::Span,
            default: "1 ms",
            doc: "time from one packet to the next; more than nothing, or the network's queues lose what they cannot hold",
        },
    ],
    study: StudyProperties {
        states: &[States {
            of: "sender",
            transitions: &[
                ("[*]", "Idle", ""),
                ("Idle", "Sending", "message offered"),
                ("Sending", "Sending", "interval / DATA"),
                ("Sending", "Idle", "interval / last DATA of the message"),
            ],
        }],
        ..ProtocolEntry::PLAIN.study
    },
    build: |role, context, settings| match role {
        Role::Sender => Ok(Box::new(KfoldSender::new(context, settings))),
        Role::Receiver => Ok(Box::new(KfoldReceiver::new(context))),
        _ => Err(ConfigError::no_such_role(role)),
    },
    ..ProtocolEntry::PLAIN
};
