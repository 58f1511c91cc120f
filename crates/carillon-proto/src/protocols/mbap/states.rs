//! State machines of the protocol, which its page draws.

use carillon_core::States;

/// State machines.
pub(super) const STATES: &[States] = &[ACK_SENDER, NAK_SENDER];

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
};
