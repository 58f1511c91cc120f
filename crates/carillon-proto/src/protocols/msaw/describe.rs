//! Description of the protocol for test suites and for its documentation page.

use carillon_core::{DeliveryGuarantee, ProtocolEntry, States, Trial};

use crate::blocks::retransmission;

/// Fields of the entry that suites and the protocol's page read.
pub(super) const DESCRIBED: ProtocolEntry = ProtocolEntry {
    // One bit distinguishes a message from the one before it, so links must keep the order.
    guarantee: DeliveryGuarantee::Acknowledged { in_order: true, idle_feedback: None },
    trial: |trial| {
        let polls = ["1", "2", "16", "64"];
        trial.pick("retransmission", &["multicast", "unicast"]).pick("poll_interval", &polls);
        let negative = trial.chance(0.5);
        retransmission::trial(trial, !negative);
        if negative {
            let wait = ["10 us", "5 ms"];
            trial.set("feedback", "nak").set("retransmission", "multicast").pick("nak_wait", &wait);
        }
    },
    states: &[ACK_SENDER, NAK_SENDER],
    ..ProtocolEntry::PLAIN
};

/// Draws settings of the unicast equivalent, which always uses positive acknowledgments.
pub(super) fn serial_trial(trial: &mut Trial<'_>) {
    retransmission::trial(trial, true);
}

pub(super) const ACK_SENDER: States = States {
    of: "sender",
    transitions: &[
        ("[*]", "Idle", ""),
        ("Idle", "Waiting", "message offered / multicast DATA, start timer"),
        ("Waiting", "Waiting", "ACK of a member, some still missing"),
        ("Waiting", "Waiting", "timer, count <= limit / send again, count + 1"),
        ("Waiting", "Idle", "last ACK / completed"),
        ("Waiting", "Idle", "timer, count > limit, skip / failed"),
        ("Waiting", "Idle", "timer, count > limit, expel / the silent ones are lost, completed"),
    ],
    rare: &[],
};

pub(super) const NAK_SENDER: States = States {
    of: "sender with negative acknowledgments",
    transitions: &[
        ("[*]", "Ready", ""),
        ("Ready", "Waiting", "message / NUMBERED, ANNOUNCE, start silence timer"),
        ("Waiting", "Waiting", "NAK / all from it on again, ANNOUNCE, restart timer"),
        ("Waiting", "Ready", "silence timer"),
        ("Ready", "Polling", "idle timer, or finished / POLL, start poll timer"),
        ("Waiting", "Polling", "the window is full / POLL instead of ANNOUNCE"),
        ("Polling", "Polling", "NAK / all from it on again, POLL"),
        ("Polling", "Polling", "poll timer, repeats <= limit / POLL"),
        ("Polling", "Ready", "all have acknowledged all / completed"),
        ("Polling", "Ready", "poll timer, repeats > limit / failed, or silent members are expelled"),
    ],
    rare: &[],
};
