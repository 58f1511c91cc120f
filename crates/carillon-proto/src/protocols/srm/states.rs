//! State machines of the protocol, which its page draws.

use carillon_core::States;

/// State machines.
pub(super) const STATES: &[States] = &[States {
    of: "member, for a message",
    transitions: &[
        ("[*]", "WaitForRequestTimer", "message missing / timer, round 1"),
        ("WaitForRequestTimer", "WaitForRequestTimer", "timer / REQUEST, round + 1, backoff x 2"),
        ("WaitForRequestTimer", "WaitForRequestTimer", "REQUEST, not ignored / round + 1, backoff x 2"),
        ("WaitForRequestTimer", "[*]", "original in round 1"),
        ("WaitForRequestTimer", "HoldDown", "REPAIR, or original in a later round"),
        ("WaitForRequestTimer", "[*]", "source no longer has it / lost"),
        ("[*]", "WaitForRepairTimer", "REQUEST, message here / timer"),
        ("WaitForRepairTimer", "HoldDown", "timer / REPAIR"),
        ("WaitForRepairTimer", "HoldDown", "REPAIR"),
        ("HoldDown", "[*]", "3 d"),
    ],
}];
