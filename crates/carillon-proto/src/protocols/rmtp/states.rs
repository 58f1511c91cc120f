//! State machines of the protocol, which its page draws.

use carillon_core::States;

/// State machines.
pub(super) const STATES: &[States] = &[States {
    of: "acknowledgment processor, for one receiver",
    transitions: &[
        ("[*]", "Complete", "reports here"),
        ("[*]", "Behind", "reports here after its processor failed"),
        ("Complete", "Behind", "new message"),
        ("Behind", "Complete", "ACK of all messages"),
        ("Behind", "Complete", "no progress for too long / skip its missing messages"),
        ("Behind", "[*]", "no progress for too long / expel it"),
        ("Behind", "Lost", "no progress for too long, and it is a helper"),
        ("Lost", "[*]", "its children report elsewhere"),
    ],
}];
