//! State machines of the protocol, which its page draws.

use carillon_core::States;

/// State machines.
pub(super) const STATES: &[States] = &[
    States {
        of: SENDER,
        transitions: &[
            ("[*]", "Quiescent", ""),
            ("Quiescent", "Opening", "message offered / FIRST with SREQ"),
            ("Opening", "Active", "every receiver has answered FIRST"),
            ("Opening", "Opening", "WTIMER / FIRST again"),
            ("Active", "Handshake", "WTIMER or CTIMER / CNTL with SREQ"),
            ("Handshake", "Handshake", "WTIMER / CNTL with SREQ again"),
            ("Handshake", "Active", "every receiver has answered its number or was abandoned"),
            ("Active", "[*]", "no data left / CNTL with END"),
            ("Quiescent", "[*]", "no message offered, or no receiver left"),
            ("Opening", "[*]", "no receiver left"),
            ("Handshake", "[*]", "every receiver is complete or was abandoned"),
        ],
    },
    States {
        of: RECEIVER,
        transitions: &[
            ("[*]", "Listening", ""),
            ("Listening", "Active", "FIRST / TCNTL"),
            ("Listening", "Joining", "data without FIRST, with late_join / JCNTL"),
            ("Joining", "Active", "JCNTL / CNTL"),
            ("Joining", "[*]", "DIAG: join refused"),
            ("Active", "Gap", "data beyond a gap / CNTL or ECNTL with FASTNAK"),
            ("Gap", "Active", "missing data"),
            ("Active", "[*]", "DIAG: abandoned; or its user stops reading / CNTL with END"),
            ("Gap", "[*]", "the same"),
        ],
    },
    SINGLE_SENDER,
    TRANSACTION_RECEIVER,
];

/// Name of the sender's state machine for a stream.
pub(super) const SENDER: &str = "sender";
/// Name of the receiver's state machine for a stream.
pub(super) const RECEIVER: &str = "receiver";

/// Sender's state machine for acknowledged datagrams and transactions.
pub(super) const SINGLE_SENDER: States = States {
    of: "sender, for associations of one message",
    transitions: &[
        ("[*]", "Idle", ""),
        ("Idle", "Awaiting", "message offered / FIRST with its data and SREQ or DREQ"),
        ("Awaiting", "Awaiting", "WTIMER / FIRST again"),
        ("Awaiting", "Idle", "every receiver has answered or was abandoned / transaction: CNTL with END"),
        ("Awaiting", "[*]", "the same, and no data left"),
        ("Idle", "[*]", "no data left"),
    ],
};

/// Receiver's state machine for transactions.
pub(super) const TRANSACTION_RECEIVER: States = States {
    of: "receiver, for transactions",
    transitions: &[
        ("[*]", "Listening", ""),
        ("Listening", "Asked", "FIRST with DREQ: a request"),
        ("Asked", "Responded", "its user has read it / DATA with WCLOSE and RCLOSE"),
        ("Responded", "Listening", "CNTL with END"),
        ("Responded", "Asked", "FIRST of the next request: END was lost"),
        ("Listening", "[*]", "DIAG: abandoned"),
        ("Asked", "[*]", "DIAG: abandoned"),
        ("Responded", "[*]", "DIAG: abandoned"),
    ],
};
