//! Description of the protocol for test suites and for its documentation page.

use std::time::Duration;

use carillon_core::{DeliveryGuarantee, ProtocolEntry, States};

use crate::blocks::retransmission;

/// Fields of the entry that suites and the protocol's page read.
pub(super) const DESCRIBED: ProtocolEntry = ProtocolEntry {
    // The sequence space is two windows, so links must keep the order. The acknowledgment timer of the thesis never
    // stops.
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
        // The acknowledgment timeout must exceed the duration of a window.
        trial.set("ack_timeout", "20 ms");
    },
    states: &[ACK_SENDER, NAK_SENDER],
    ..ProtocolEntry::PLAIN
};

/// State diagram of a sender with NAKs (chapter 5).
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
        (
            "Full",
            "Open",
            "polls without news > limit / failed, or members with missing messages are expelled",
        ),
    ],
    rare: &[],
};

/// State diagram of a sender with positive acknowledgments (section 2.6).
pub(super) const ACK_SENDER: States = States {
    of: "sender",
    transitions: &[
        ("[*]", "Open", ""),
        ("Open", "Open", "message offered / multicast DATA, restart packet timer"),
        ("Open", "Full", "n messages outstanding"),
        ("Full", "Open", "the first messages are acknowledged by all / completed, window advances"),
        ("Open", "Open", "packet timer, count <= limit / send the whole window again"),
        ("Full", "Full", "packet timer, count <= limit / send the whole window again"),
        (
            "Full",
            "Open",
            "packet timer, count > limit / skip the messages, or expel the members without the first",
        ),
    ],
    rare: &[],
};
