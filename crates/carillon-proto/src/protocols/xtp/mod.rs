//! XTP: the Xpress Transport Protocol, revision 4.0 with the changes of 4.0b, for one sender and its receivers.
//!
//! The sender transmits a byte stream, and receivers report their status on request (SREQ, DREQ) or when they detect
//! a gap (FASTNAK). Status requests, retransmission and flow control are independent options. `docs/protocols/xtp.md`
//! lists the decisions that the sources leave open.

mod config;
mod data;
mod group;
mod membership;
#[cfg(test)]
mod membership_tests;
mod receiver;
mod segment;
mod sender;
mod single;
mod states;
mod stream;
mod tag;
#[cfg(test)]
mod tests;
mod wait;

use carillon_core::{
    About, BuildContext, Config, ConfigError, DefaultSettings, DeliveryProperties, Machine, Order,
    PacketProperties, ProtocolEntry, RawIp, Role, SessionProperties, StudyProperties,
};

pub use receiver::XtpReceiver;
pub use sender::XtpSender;

/// Registry entry of the Xpress Transport Protocol.
pub const ENTRY: ProtocolEntry = ProtocolEntry {
    name: "xtp",
    about: About {
        family: "sender-driven, status on request, go-back-N or selective",
        summary: "Xpress Transport Protocol 4.0: a byte stream; receivers report status on request, and gaps at once",
        reference: "XTP Forum 1995, as in Johnstone and Williams 1997",
    },
    roles: &[Role::Sender, Role::Receiver],
    delivery: DeliveryProperties {
        order: Order::Source,
        confirmed: true,
        waits: true,
        ..ProtocolEntry::PLAIN.delivery
    },
    session: SessionProperties {
        many_sources: Some(carillon_wire::xtp::association_of),
        ..ProtocolEntry::PLAIN.session
    },
    packets: PacketProperties {
        header_bytes: config::header_bytes,
        format: &carillon_wire::xtp::FORMAT,
        raw_ip: Some(RawIp {
            protocol: carillon_wire::xtp::IP_PROTOCOL,
            carries: carillon_wire::xtp::is_packet,
        }),
    },
    parameters: config::PARAMETERS,
    settings: DefaultSettings {
        delivery: config::DELIVERY_SETTINGS,
        host: config::HOST_SETTINGS,
        ..ProtocolEntry::PLAIN.settings
    },
    study: StudyProperties {
        timers: &["wtimer", "ctimeout"],
        states: states::STATES,
        ..ProtocolEntry::PLAIN.study
    },
    build: |role, context, settings| build(role, context, settings, true),
    ..ProtocolEntry::PLAIN
};

/// Registry entry of XTP datagrams without acknowledgment. It is separate because its guarantee is weaker.
pub const DATAGRAM_ENTRY: ProtocolEntry = ProtocolEntry {
    name: "xtp-datagram",
    about: About {
        family: "best effort, without feedback",
        summary: "datagrams of the Xpress Transport Protocol: FIRST with a message, no association, no feedback",
        ..ENTRY.about
    },
    delivery: DeliveryProperties { confirmed: false, waits: false, repairs: false, ..ENTRY.delivery },
    session: SessionProperties { many_sources: None, ..ENTRY.session },
    packets: PacketProperties {
        header_bytes: |settings| config::header_bytes(&single::as_xtp(settings)),
        ..ENTRY.packets
    },
    parameters: &config::DATAGRAM_PARAMETERS,
    settings: DefaultSettings {
        // Without feedback, a fixed rate is the only congestion control.
        delivery: &[("maxdata", "65535"), ("calls", "256"), ("rate", "10 Mbit/s"), ("burst", "3000 byte")],
        ..ENTRY.settings
    },
    study: StudyProperties { states: &[], timers: &[], ..ENTRY.study },
    build: |role, context, settings| build(role, context, &single::as_xtp(settings), false),
    ..ENTRY
};

fn build(
    role: Role,
    context: &BuildContext,
    settings: &Config,
    is_confirmed: bool,
) -> Result<Box<dyn Machine>, ConfigError> {
    Ok(match role {
        Role::Peer | Role::Relay | Role::Helper => return Err(ConfigError::no_such_role(role)),
        Role::Receiver => Box::new(XtpReceiver::new(context, settings)?),
        Role::Sender => Box::new(XtpSender::new(context, settings, is_confirmed)?),
    })
}
