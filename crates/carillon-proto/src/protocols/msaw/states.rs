//! State machines of the protocol, which its page draws.

use carillon_core::States;

/// State machines.
pub(super) const STATES: &[States] = &[ACK_SENDER, NAK_SENDER];

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
};
