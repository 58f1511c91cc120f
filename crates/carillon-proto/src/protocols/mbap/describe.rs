//! What the protocol says of itself.

use std::time::Duration;

use carillon_core::{DeliveryGuarantee, ProtocolEntry, States};

use crate::blocks::retransmission;

/// What the entry says for suites and for its page.
pub(super) const DESCRIBED: ProtocolEntry = ProtocolEntry {
    // Two windows of numbers: links have to keep the order. The acknowledgment timer of the thesis runs for ever.
    guarantee: DeliveryGuarantee::Acknowledged {
        in_order: true,
        idle_feedback: Some(Duration::from_millis(20)),
    },
    trial: |trial| {
        let negative = trial.chance(0.5);
        retransmission::trial(trial, !negative);
        if negative {
            trial.set("feedback", "nak");
        }
        trial.pick("ack_timer", &["restart", "until-full-window"]).count("window", 1, 16);
        // Longer than a window takes.
        trial.set("ack_timeout", "20 ms");
    },
    states: &[ACK_SENDER, NAK_SENDER],
    ..ProtocolEntry::PLAIN
};

pub(super) const NAK_SENDER: States = States {
    of: "sender with negative acknowledgments",
    transitions: &[
        ("[*]", "Open", ""),
        ("Open", "Open", "message offered / multicast DATA, restart packet timer"),
        ("Open", "Open", "NAK in the window / what lies before is acknowledged, go back to it"),
        ("Open", "Full", "n messages outstanding"),
        ("Full", "Full", "NAK in the window / what lies before is acknowledged, go back to it"),
        ("Full", "Open", "the first messages are acknowledged by all / completed, window advances"),
        ("Open", "Open", "packet timer / POLL with the last message"),
        ("Full", "Full", "packet timer / POLL with the last message"),
        ("Full", "Open", "polls without news > limit / failed, or who misses something is expelled"),
    ],
    rare: &[],
};

pub(super) const ACK_SENDER: States = States {
    of: "sender",
    transitions: &[
        ("[*]", "Open", ""),
        ("Open", "Open", "message offered / multicast DATA, restart packet timer"),
        ("Open", "Full", "n messages outstanding"),
        ("Full", "Open", "the first messages are acknowledged by all / completed, window advances"),
        ("Open", "Open", "packet timer, count <= limit / send the whole window again"),
        ("Full", "Full", "packet timer, count <= limit / send the whole window again"),
        ("Full", "Open", "packet timer, count > limit / skip the messages, or expel who misses the first"),
    ],
    rare: &[],
};
