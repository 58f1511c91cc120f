//! Guarantees to which the suites hold the protocols, and lies of dishonest members.

use std::time::Duration;

use carillon_core::Order;

/// False claim of a dishonest member in its feedback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgery {
    /// Claims every message before the last one that the member has.
    Complete,
    /// Claims this many messages more than the member has.
    Ahead(u32),
    /// Claims unlimited buffer space.
    UnlimitedRoom,
}

/// Turns a packet with a member's feedback into the forged one in place; leaves other packets unchanged.
pub type FeedbackForger = fn(Forgery, &mut [u8]);

/// Delivery guarantee of a protocol, beyond the contract of the traits.
#[derive(Clone, Copy, Debug)]
pub enum DeliveryGuarantee {
    /// Positive acknowledgments to one sender: every live receiver gets everything, and the sender names each receiver
    /// that did not.
    Acknowledged {
        /// True if the protocol is correct only over links that neither reorder nor duplicate datagrams, since its
        /// sequence space is as small as its window allows. Over other links it only has to terminate.
        in_order: bool,
        /// Interval in which each receiver sends at most one datagram after the sender has finished; `None` if it
        /// sends none.
        idle_feedback: Option<Duration>,
    },
    /// Members are peers, and every live peer gets everything.
    Peers {
        /// Number of crashes that a group of `nodes` nodes survives with suitable settings.
        crashes: fn(nodes: u32) -> u32,
    },
    /// Receivers request missing messages and get each one as long as any live node has it.
    ByRequest {
        /// Maximum number of control packets (heartbeats, session messages, requests) per second and node of the
        /// network, at any loss rate.
        control_per_node_and_second: f64,
        /// Name of the request that routers repeat in their own name until it is confirmed, if the protocol has one.
        repeated_by_routers: Option<&'static str>,
    },
    /// No repair: delivered messages are unaltered, in order and unique, and receivers report each gap.
    BestEffort,
}

/// Delivery service of one message, in a protocol in which senders choose it for each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageService {
    /// False if the message may be lost.
    pub is_reliable: bool,
    /// Order in which it is delivered: total among the messages with total order; in the order of its source after all
    /// reliable messages of the source that are not delivered on arrival; or on arrival.
    pub order: Order,
    /// Number of crashes that its delivery survives: if no more members crash, every live member delivers what any
    /// member has delivered. Without crashes, and for messages of live senders, delivery does not depend on it.
    pub crashes: u32,
}
