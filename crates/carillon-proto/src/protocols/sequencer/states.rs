//! State machines of the protocol, which its page draws.

use carillon_core::States;

use crate::blocks::reformation::VIEWS;

/// State machines.
pub(super) const STATES: &[States] = &[VIEWS];
