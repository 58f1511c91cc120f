//! State machines of the protocol, which its page draws.

use carillon_core::States;

/// State diagrams of both ends of a channel.
pub(super) const STATES: &[States] = &[
    States {
        of: "sender, for the channel to one receiver",
        transitions: &[
            ("[*]", "Connecting", "session starts / CONNECT"),
            ("Connecting", "Open", "ACCEPT, or another packet of the receiver"),
            ("Connecting", "[*]", "no answer to several CONNECTs, or the host expels it"),
            ("Open", "Owing", "DATA or IDLE with the ACK flag"),
            ("Owing", "Open", "ACK, or another packet of the receiver"),
            ("Owing", "[*]", "no answer to several retransmissions, or the host expels it"),
            ("Open", "[*]", "idle mode: several Idles missing, or the host expels it"),
        ],
    },
    States {
        of: "receiver, for its channel",
        transitions: &[
            ("[*]", "Waiting", "session starts"),
            ("Waiting", "Open", "packet of the sender / ACCEPT to a CONNECT"),
            ("Open", "Doubtful", "nothing arrives for too long / RESPOND or RESEND"),
            ("Doubtful", "Open", "packet of the sender"),
            ("Doubtful", "Closed", "no answer to several requests"),
            ("Closed", "Open", "packet of the sender"),
        ],
    },
];
