//! State machines of the protocol, which its page draws.

use carillon_core::States;

use crate::protocols::pf;

/// State machines: a message passes through the states of PF.
pub(super) const STATES: &[States] =
    &[States { of: "sender, for a message", transitions: pf::states::STATES[0].transitions }];
