//! State machines of the protocol, which its page draws.

use carillon_core::States;

/// State machines.
pub(super) const STATES: &[States] = &[States {
    of: "receiver, for a missing message",
    transitions: &[
        ("[*]", "WaitData", "NCF of an unknown packet"),
        ("[*]", "BackOff", "packet missing / random wait up to nak_bo_ivl"),
        ("BackOff", "WaitNcf", "end of the wait / send NAK"),
        ("BackOff", "WaitNcf", "NAK of another receiver"),
        ("BackOff", "WaitData", "NCF"),
        ("WaitNcf", "WaitData", "NCF"),
        ("WaitNcf", "BackOff", "nak_rpt_ivl, at most nak_ncf_retries times"),
        ("WaitNcf", "Lost", "retries exhausted"),
        ("WaitData", "WaitData", "NCF or NAK / restart the wait"),
        ("WaitData", "BackOff", "nak_rdata_ivl, at most nak_data_retries times"),
        ("WaitData", "Lost", "retries exhausted"),
        ("BackOff", "Lost", "trail passes"),
        ("BackOff", "[*]", "data"),
        ("WaitNcf", "[*]", "data"),
        ("WaitData", "[*]", "data"),
        ("Lost", "[*]", "delivery passes it"),
    ],
}];
